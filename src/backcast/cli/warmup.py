"""backcast warmup: compile what later commands need, for example while a container image is built."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

import numpy as np

import backcast as bc
from backcast._kernels.jit import cache_folder
from backcast.cli.objects import POLICIES, build
from backcast.cli.output import open_console, print_json, print_line
from backcast.cli.progress import print_status
from backcast.errors import OptionError, did_you_mean

# built-in policies whose loops are compiled
COMPILED_POLICIES = ("uniform", "epsilon-greedy", "softmax", "linucb", "thompson", "ucb1", "round-robin")
CONTEXTS = ("dense", "sparse", "per-action")


def warm_up(policies: Sequence[str], contexts: Sequence[str], *, json: bool, quiet: bool) -> None:
    """Evaluate policies on a small log of each kind, so that their loops are compiled, and print where the code is."""
    for kind in contexts:
        if kind not in CONTEXTS:
            raise OptionError(
                f"there are no contexts {kind!r}{did_you_mean(kind, CONTEXTS)} Kinds: {', '.join(CONTEXTS)}"
            )
    names, kinds = policies or COMPILED_POLICIES, contexts or CONTEXTS
    built = {name: build(name, POLICIES) for name in names}
    if cache_folder() is None:
        raise OptionError(
            "compiled code cannot be stored; set NUMBA_CACHE_DIR to a folder with room that only this user can write"
        )
    start = time.perf_counter()
    for kind in kinds:
        log = _small_log(kind)
        for name, policy in built.items():
            if not (json or quiet):
                print_status(f"compiling {name} for {kind} contexts")
            for evaluator in _evaluators(policy):
                bc.evaluate(log, policy, evaluator, horizon=2, reward_model=0.5, replicates=None, exchangeable=True)
    seconds = time.perf_counter() - start
    if json:
        document = {"folder": str(cache_folder()), "policies": list(names), "contexts": list(kinds)}
        print_json({**document, "seconds": round(seconds, 3)})
    else:
        console = open_console()
        count = len(built) * len(kinds)
        print_line(console, f"{count} combinations of policies and contexts are compiled, in {seconds:.0f} seconds.")
        print_line(console, f"The code is in {cache_folder()}; NUMBA_CACHE_DIR sets another folder.")


def _evaluators(policy: bc.Policy) -> Iterable[bc.evaluators.Evaluator]:
    """Return evaluators that together use the loops for a policy, learning or fixed."""
    return bc.ClockReplay(), bc.DRns(q=0.1), *(() if hasattr(policy, "learn") else (bc.DR(),))


def _small_log(contexts: str) -> bc.Log:
    """Return a log of 64 events with two actions and contexts of this kind."""
    import scipy.sparse

    n, rng = 64, np.random.default_rng(0)
    features = rng.normal(size=(n, 2, 3) if contexts == "per-action" else (n, 3))
    return bc.Log(
        scipy.sparse.csr_array(features) if contexts == "sparse" else features,
        actions=np.arange(n) % 2,
        rewards=np.arange(n) // 2 % 2,
        propensities=np.full(n, 0.5),
        reward_range=(0, 1),
    )
