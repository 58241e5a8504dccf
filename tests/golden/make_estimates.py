"""Exact numbers of every evaluator, for refactorings that must not change a bit.

python -m tests.golden.make_estimates > tests/golden/estimates.json

Floats are written in hexadecimal. They depend on the versions of the numerical libraries and on the vector
instructions of the processor, so the file says which ones it was made with.
"""

from __future__ import annotations

import importlib
import itertools
import json
import math
import sys
import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.linear_model import LinearRegression

import backcast as bc
from tests.support.logs import random_log

EVENTS, ACTIONS, HORIZON = 600, 3, 12


class MeanTracker:
    """Epsilon-greedy on the mean reward of each action, in plain NumPy; learns from three events at a time."""

    batch_size = 3

    def __init__(self) -> None:
        self.sums, self.counts = np.ones(ACTIONS), np.full(ACTIONS, 2.0)

    def __repr__(self) -> str:
        return "MeanTracker()"

    def probabilities(self, contexts: Any, available: Any = None) -> Any:
        chosen = np.full(ACTIONS, 0.1)
        chosen[np.argmax(self.sums / self.counts)] += 0.7
        return np.tile(chosen, (contexts.shape[0], 1))

    def learn(self, contexts: Any, actions: Any, rewards: Any, probabilities: Any) -> None:
        np.add.at(self.sums, actions, rewards)
        np.add.at(self.counts, actions, 1)


class Tilted:
    """A fixed policy in plain NumPy that looks at the context."""

    def __repr__(self) -> str:
        return "Tilted()"

    def probabilities(self, contexts: Any, available: Any = None) -> Any:
        rows = np.where(contexts[:, :1] > 0, [0.6, 0.3, 0.1], [0.2, 0.2, 0.6])
        return np.asarray(rows, dtype=np.float64)


EVALUATORS: dict[str, Any] = {
    "ClockReplay": bc.ClockReplay(),
    "DRns": bc.DRns(),
    "DRns tuned": bc.DRns(q="auto"),
    "DRns recommended": bc.DRns.recommended(EVENTS),
    "DRns budget": bc.DRns(acceptance=bc.Budget(0.5, calibration=60)),
    "DRns multiplier": bc.DRns(acceptance=0.25),
    "WC": bc.WC(),
    "RS": bc.RS(),
    "Replay": bc.Replay(),
    "DM": bc.DM(),
    "IPS": bc.IPS(),
    "ClippedIPS": bc.ClippedIPS(),
    "SNIPS": bc.SNIPS(),
    "BaselineIPS": bc.BaselineIPS(),
    "CAB": bc.CAB(),
    "DR": bc.DR(),
    "SNDR": bc.SNDR(),
    "SwitchDR": bc.SwitchDR(),
    "ShrinkageDR": bc.ShrinkageDR(),
    "PessimisticDR": bc.PessimisticDR(),
    "SubGaussian": bc.SubGaussian(),
    "MRDR": bc.MRDR(),
    "StableVar": bc.StableVar(),
    "CADR": bc.CADR(),
    "CVaR": bc.CVaR(0.25),
    "RewardQuantile": bc.RewardQuantile(0.5),
    "auto": "auto",
}
POLICIES: dict[str, Callable[[], Any]] = {
    "LinUCB": lambda: bc.LinUCB(alpha=0.3),
    "EpsilonGreedy": lambda: bc.EpsilonGreedy(0.1, batch_size=4),
    "MeanTracker": MeanTracker,
    "Fixed": lambda: bc.Fixed([0.2, 0.3, 0.5]),
    "Tilted": Tilted,
}
FIXED = {"Fixed", "Tilted"}
FOR_FIXED = set(EVALUATORS) - {name for name in EVALUATORS if name.startswith(("ClockReplay", "DRns"))}
FOR_FIXED -= {"WC", "RS", "Replay", "DM", "auto"}
NEED_HORIZON = {"ClockReplay", "DRns recommended", "DRns budget"}


def columns(*, uniform: bool = False) -> dict[str, Any]:
    """A log whose logger prefers one action, or none."""
    rng = np.random.default_rng(20)
    contexts = rng.normal(size=(EVENTS, 2)).round(4)
    logging = np.where(contexts[:, :1] > 0, [0.5, 0.3, 0.2], [0.25, 0.25, 0.5])
    logging = np.full((EVENTS, ACTIONS), 1 / ACTIONS) if uniform else logging
    actions = (rng.random((EVENTS, 1)) > logging.cumsum(axis=1)[:, :-1]).sum(axis=1)
    means = 1 / (1 + np.exp(-contexts[:, 0] * (actions - 1) - 0.3 * contexts[:, 1]))
    rewards = (rng.random(EVENTS) < means).astype(np.float64)
    return {
        "contexts": contexts,
        "actions": actions,
        "rewards": rewards,
        "propensities": logging[np.arange(EVENTS), actions],
        "logging_probabilities": logging,
    }


def memory_log(*, uniform: bool = False, logging: bool = False) -> bc.Log:
    column = columns(uniform=uniform)
    if not logging:
        del column["logging_probabilities"]
    return bc.Log(**column, n_actions=ACTIONS, reward_range=(0, 1))


def stream_log(folder: Path, *, uniform: bool = False, logging: bool = False) -> Any:
    column = columns(uniform=uniform)
    path = folder / f"log-{uniform}.parquet"
    table = pa.table(
        {
            "x0": column["contexts"][:, 0],
            "x1": column["contexts"][:, 1],
            "a": column["actions"],
            "r": column["rewards"],
            "p": column["propensities"],
            **{f"mu{a}": column["logging_probabilities"][:, a] for a in range(ACTIONS)},
        }
    )
    pq.write_table(table, path, row_group_size=170)
    names: dict[str, Any] = {"context": ["x0", "x1"], "action": "a", "reward": "r", "propensity": "p"}
    if logging:
        names["logging_probabilities"] = "mu*"
    return bc.scan_log(path, **names, reward_range=(0, 1))


def exact(value: Any) -> Any:
    """The same with floats in hexadecimal; texts other than names are left out, for they may be reworded."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, float | np.floating):
        return float(value).hex() if math.isfinite(value) else repr(float(value))
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, dict):
        return {str(name): exact(part) for name, part in value.items() if name not in ("notes", "settings")}
    if isinstance(value, np.ndarray):
        return exact(value.tolist())
    return [exact(part) for part in value]


def numbers(estimate: Any) -> Any:
    """Value, error, ends of the interval, curve and diagnostics of an estimate."""
    plain = estimate.to_dict()
    interval = None if plain["interval"] is None else [plain["interval"]["low"], plain["interval"]["high"]]
    curve = plain.get("curve")
    return exact(
        {
            "value": plain["value"],
            "std_error": plain["std_error"],
            "interval": interval,
            "horizon": plain["horizon"],
            "curve": None if curve is None else [sum(column) for column in curve.values()],
            "diagnostics": plain["diagnostics"],
        }
    )


def attempt(call: Callable[[], Any], read: Callable[[Any], Any]) -> Any:
    """The numbers of what the call returns, or the kind of its refusal."""
    try:
        return read(call())
    except bc.BackcastError as refusal:
        return f"refused: {type(refusal).__name__}"


def evaluations(folder: Path) -> dict[str, Any]:
    """Every evaluator, on a log in memory and on a stream, for policies compiled and not, with one job and two."""
    recorded = {}
    for name, evaluator in EVALUATORS.items():
        kind = {"uniform": name == "Replay", "logging": name in ("CAB", "StableVar")}
        logs = {"memory": memory_log(**kind), "stream": stream_log(folder, **kind)}
        for place, (policy, make) in itertools.product(logs, POLICIES.items()):
            learns = policy not in FIXED
            if learns and name in FOR_FIXED:
                continue
            options: dict[str, Any] = {"horizon": HORIZON} if learns or name in NEED_HORIZON else {}
            if place == "memory" and name in NEED_HORIZON:
                options["replicates"] = 60
            for n_jobs in (1, 2):
                run = partial(bc.evaluate, logs[place], make(), evaluator, seed=3, n_jobs=n_jobs, **options)
                recorded[f"{name} | {place} | {policy} | {n_jobs}"] = attempt(run, numbers)
    return recorded


def layouts(_: Path) -> dict[str, Any]:
    """Every policy that learns, on contexts of every layout, by both ways of building histories."""
    learners: tuple[Any, ...] = (
        bc.EpsilonGreedy(0.1, batch_size=2),
        bc.Softmax(0.5),
        bc.LinUCB(0.3),
        bc.LinearThompson(),
        bc.UCB1(),
        bc.RoundRobin(),
        bc.FromClassifier(LinearRegression(), epsilon=0.2, batch_size=5),
    )
    recorded = {}
    for layout, policy in itertools.product(("dense", "sparse", "masked", "actions"), learners):
        log = random_log(layout, n=150)
        for evaluator in (bc.ClockReplay(), bc.DRns(q=0.05)):
            run = partial(bc.evaluate, log, policy, evaluator, horizon=HORIZON, replicates=None)
            recorded[f"{type(evaluator).__name__} | {layout} | {type(policy).__name__}"] = attempt(run, numbers)
    return recorded


def reward_models(_: Path) -> dict[str, Any]:
    """Every reward model behind DR, and estimated propensities."""
    models = (
        None,
        0.25,
        bc.Constant(),
        bc.PerAction(),
        bc.Joint(),
        bc.LowVariance(),
        bc.CrossFit(bc.LowVariance(), folds=3),
        bc.Split(bc.PerAction()),
        bc.Progressive(bc.PerAction()),
    )
    log = memory_log()
    recorded = {}
    for model in models:
        run = partial(bc.evaluate, log, bc.Fixed([0.2, 0.3, 0.5]), bc.DR(), reward_model=model)
        recorded[repr(model)] = attempt(run, numbers)
    recorded["estimated propensities"] = exact(bc.estimate_propensities(log).propensities[:20])
    return recorded


def intervals(_: Path) -> dict[str, Any]:
    """Every interval, for a fixed policy or a learner."""
    log, fixed, learner = memory_log(), bc.Fixed([0.2, 0.3, 0.5]), bc.LinUCB(0.3)
    bound: dict[str, Any] = {"largest_weight": 5.0}
    for_fixed: tuple[Any, ...] = (
        bc.Normal(),
        bc.Student(),
        bc.Bootstrap(replicates=200),
        bc.BCa(replicates=200),
        bc.Hoeffding(**bound),
        bc.EmpiricalBernstein(**bound),
        bc.ClopperPearson(**bound),
        bc.CressieRead(),
        bc.Betting(**bound),
        bc.Segments(5),
    )
    recorded = {}
    for evaluator, interval in itertools.product((bc.IPS(), bc.DR()), for_fixed):
        run = partial(bc.evaluate, log, fixed, evaluator, interval=interval)
        recorded[f"{type(evaluator).__name__} {type(interval).__name__}"] = attempt(run, numbers)
    for interval in (bc.Anytime(), bc.TheoremTwo(), bc.Segments(4)):
        run = partial(bc.evaluate, log, learner, bc.DRns(q=0.05), interval=interval)
        recorded[f"DRns {type(interval).__name__}"] = attempt(run, numbers)
    options: dict[str, Any] = {"horizon": HORIZON, "replicates": 40, "interval": bc.GroupJackknife(groups=12)}
    recorded["ClockReplay GroupJackknife"] = numbers(bc.evaluate(log, learner, bc.ClockReplay(), **options))
    return recorded


def comparisons(folder: Path) -> dict[str, Any]:
    """Policies paired by replicate, by permutation, by part of a stream and by event."""
    log, stream = memory_log(), stream_log(folder)
    learners: dict[str, Any] = {
        "linucb": bc.LinUCB(0.3),
        "greedy": bc.EpsilonGreedy(0.1),
        "fixed": bc.Fixed([0.2, 0.3, 0.5]),
    }
    fixed: dict[str, Any] = {"fixed": bc.Fixed([0.2, 0.3, 0.5]), "uniform": bc.Uniform()}
    runs = {
        "clock": lambda: bc.compare(log, learners, horizon=HORIZON, replicates=60, seed=4),
        "clock, two jobs": lambda: bc.compare(log, learners, horizon=HORIZON, replicates=60, seed=4, n_jobs=2),
        "permutations": lambda: bc.compare(log, learners, bc.DRns(q=0.05), horizon=HORIZON, replicates=60, seed=4),
        "parts": lambda: bc.compare(stream, learners, bc.ClockReplay(), horizon=HORIZON, seed=4),
        "events": lambda: bc.compare(log, fixed),
        "one by one": lambda: bc.compare(stream, fixed, bc.DRns(q=0.05)),
    }
    return {name: attempt(run, comparison_numbers) for name, run in runs.items()}


def comparison_numbers(found: Any) -> Any:
    return exact(
        {
            "estimates": {name: numbers(estimate) for name, estimate in found.estimates.items()},
            "differences": [
                [gap.first, gap.second, gap.value, gap.std_error, gap.interval.low, gap.interval.high]
                for gap in found.differences
            ],
            "ranking": found.ranking,
        }
    )


def passes(_: Path) -> dict[str, Any]:
    """Single passes event by event, and a run that is fed."""
    log, uniform = memory_log(), memory_log(uniform=True)
    recorded = {}
    for name in ("DRns", "DRns recommended", "DRns budget", "WC", "RS", "Replay", "ClockReplay"):
        for policy in ("LinUCB", "MeanTracker"):
            selected = uniform if name == "Replay" else log
            record = bc.trace(selected, POLICIES[policy](), EVALUATORS[name], horizon=HORIZON, seed=5)
            recorded[f"trace {name} {policy}"] = exact(
                {field: np.asarray(getattr(record, field)).sum() for field in record.__dataclass_fields__}
                | {"estimate": record.estimate, "order": record.order[:20]}
            )
    monitor = bc.Monitor(bc.LinUCB(0.3), reward_range=(0, 1), smallest_propensity=0.2, seed=6)
    for start in range(0, EVENTS, 200):
        monitor.feed(log[start : start + 200])
    recorded["monitor"] = numbers(monitor.estimate())
    law = bc.reward_distribution(log, bc.Fixed([0.2, 0.3, 0.5]))
    recorded["distribution"] = exact(law.to_dict())
    return recorded


def saved(folder: Path) -> Any:
    """A result that was saved and loaded again."""
    estimate = bc.evaluate(memory_log(), bc.LinUCB(0.3), horizon=HORIZON, replicates=60, seed=7)
    bc.save_result(estimate, folder / "result.json")
    return numbers(bc.load_result(folder / "result.json").result)


def resumed(folder: Path) -> dict[str, Any]:
    """Runs that are stopped half way and go on from their checkpoint, in memory and on a stream."""
    stream = stream_log(folder)
    runs: dict[str, tuple[Any, Any, dict[str, Any]]] = {
        "memory": (memory_log(), bc.ClockReplay(), {"horizon": HORIZON, "replicates": 60}),
        "parts": (stream, bc.ClockReplay(), {"horizon": HORIZON}),
        "pass": (stream, bc.DRns(q=0.05), {}),
    }
    recorded = {}
    for (name, (log, evaluator, options)), policy in itertools.product(runs.items(), ("LinUCB", "MeanTracker")):
        run = partial(bc.evaluate, log, POLICIES[policy](), evaluator, seed=8, **options)
        run = partial(run, checkpoint=folder / f"checkpoint-{name}-{policy}")
        run(progress=StopAfter(20 * EVENTS if name == "memory" else EVENTS // 2))
        recorded[f"{name} {policy}"] = attempt(run, numbers)
    return recorded


class StopAfter:
    """A progress function that stops the run after so many events."""

    def __init__(self, events: int) -> None:
        self.left = events

    def __call__(self, events: int) -> None:
        self.left -= events
        if self.left < 0:
            raise bc.StopEvaluation


def environment() -> dict[str, str]:
    """What the last bits of a result depend on beside the code."""
    import llvmlite.binding
    import numba
    import scipy
    import sklearn
    from threadpoolctl import threadpool_info

    # numpy 1.26 has it one folder higher; neither has a type
    umath: Any = importlib.import_module("numpy._core" if hasattr(np, "_core") else "numpy.core")
    features = umath._multiarray_umath.__cpu_features__

    return {
        "python": ".".join(map(str, sys.version_info[:2])),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        "numba": numba.__version__,
        "processor": " ".join(sorted(name for name, there in features.items() if there)),
        # two processors with the same instructions had other kernels of OpenBLAS, and other last bits
        "compiler's processor": llvmlite.binding.get_host_cpu_name(),
        "BLAS": " ".join(sorted({each["architecture"] for each in threadpool_info() if each["user_api"] == "blas"})),
    }


SECTIONS: dict[str, Callable[[Path], Any]] = {
    "evaluations": evaluations,
    "layouts": layouts,
    "reward models": reward_models,
    "intervals": intervals,
    "comparisons": comparisons,
    "passes": passes,
    "saved": saved,
    "resumed": resumed,
}


def section_numbers(name: str, folder: Path) -> Any:
    """One section of the record, as it comes back from JSON."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return json.loads(json.dumps(SECTIONS[name](folder)))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        sections = {name: section_numbers(name, Path(scratch)) for name in SECTIONS}
    print(json.dumps({"environment": environment(), **sections}, indent=1))
