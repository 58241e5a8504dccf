"""backcast: DR-ns (Algorithm 1, q = 0.01), one pass over the log with a constant reward model; and the default call."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import backcast as bc
from bench.speed.data import LogShape, load_columns, write_parquet
from bench.speed.numpy_policy import NumpyGreedy
from bench.speed.timing import PreparedRun, Runner, main

WARM_UP = 2_000
PREDICTED = 0.5
HORIZON = 200  # of the default call
ACCEPTANCES = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0]


def evaluate_once(log: Any, policy: Any, evaluator: Any) -> tuple[float, int]:
    estimate = bc.evaluate(log, policy, evaluator=evaluator, reward_model=PREDICTED, seed=0)
    return estimate.value, int(estimate.diagnostics.to_dict()["accepted"])


def load_log(shape: LogShape, limit: int) -> bc.Log:
    log = load_columns(shape, limit)
    return bc.Log(log.contexts, log.actions, log.rewards, log.propensities, n_actions=shape.actions)


def prepare_arrays(name: str, policy: Any, evaluator: Any, shape: LogShape, limit: int) -> PreparedRun:
    """Prepare a log in memory; a short run loads the compiled code."""
    log = load_log(shape, limit)
    evaluate_once(log[:WARM_UP], policy, evaluator)
    return PreparedRun("backcast DR-ns", name, lambda: evaluate_once(log, policy, evaluator))


def prepare_default(shape: LogShape, limit: int) -> PreparedRun:
    """Prepare the default call: clock replay in many passes, with a cross-fitted reward model and a standard error."""
    log, policy = load_log(shape, limit), bc.EpsilonGreedy(0.1)

    def run(events: bc.Log, horizon: int) -> tuple[float, None]:
        return bc.evaluate(events, policy, horizon=horizon, seed=0).value, None

    run(log[:WARM_UP], 20)
    return PreparedRun("backcast, default call", f"epsilon-greedy, T = {HORIZON}", lambda: run(log, HORIZON))


def prepare_parquet(shape: LogShape, limit: int) -> PreparedRun:
    """Prepare the way from a file on disk to the estimate."""
    path = write_parquet(shape, limit)
    policy, evaluator = bc.EpsilonGreedy(0.1), bc.DRns(q=0.01)

    def run(file: Any) -> tuple[float, int]:
        return evaluate_once(open_stream(file, shape), policy, evaluator)

    run(write_parquet(shape, min(limit, WARM_UP)))
    return PreparedRun("backcast DR-ns, Parquet", "epsilon-greedy", lambda: run(path))


def open_stream(path: Any, shape: LogShape) -> bc.LogStream:
    return bc.scan_log(path, context="f_*", action="action", reward="reward", propensity="p", n_actions=shape.actions)


def prepare_fixed_policy(jobs: int, shape: LogShape, limit: int) -> PreparedRun:
    """Prepare IPS of a fixed policy from a file on disk, row groups in parallel."""
    path = write_parquet(shape, limit)
    policy = bc.Fixed(np.arange(1, shape.actions + 1) * 2 / (shape.actions * (shape.actions + 1)))

    def run() -> tuple[float, None]:
        return bc.evaluate(open_stream(path, shape), policy, bc.IPS(), n_jobs=jobs).value, None

    bc.evaluate(load_log(shape, WARM_UP), policy, bc.IPS())
    return PreparedRun("backcast IPS, Parquet", f"fixed, {jobs} job{'s' * (jobs > 1)}", run)


def prepare_numpy_policy(shape: LogShape, limit: int) -> PreparedRun:
    policy = NumpyGreedy(shape.actions, shape.features)
    return prepare_arrays("NumPy epsilon-greedy", policy, bc.DRns(q=0.01), shape, limit)


def prepare_acceptance(multiplier: float, shape: LogShape, limit: int) -> PreparedRun:
    """Prepare a policy that always explores: on a uniform log the share of accepted events is the multiplier."""
    evaluator = bc.DRns(acceptance=multiplier)
    return prepare_arrays("exploring always", bc.EpsilonGreedy(1.0), evaluator, shape, limit)


RUNNERS: dict[str, Runner] = {
    "epsilon-greedy-parquet": prepare_parquet,
    "epsilon-greedy": lambda shape, limit: prepare_arrays(
        "epsilon-greedy", bc.EpsilonGreedy(0.1), bc.DRns(q=0.01), shape, limit
    ),
    "linucb": lambda shape, limit: prepare_arrays("LinUCB", bc.LinUCB(0.3), bc.DRns(q=0.01), shape, limit),
    "default": prepare_default,
    "numpy-policy": prepare_numpy_policy,
    **{f"fixed-{jobs}": partial(prepare_fixed_policy, jobs) for jobs in (1, 2)},
    **{f"accept-{c:g}": partial(prepare_acceptance, c) for c in ACCEPTANCES},
}

if __name__ == "__main__":
    main(RUNNERS)
