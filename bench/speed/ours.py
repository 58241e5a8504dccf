"""backcast: DR-ns (Algorithm 1, q = 0.01), one pass over the log; the peers have no reward model, ours is a number."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import backcast as bc
from bench.speed.data import WeightTransform, load, parquet_file
from bench.speed.numpy_policy import NumpyGreedy
from bench.speed.timing import Job, Runner, main

WARM_UP = 2_000
PREDICTED = 0.5
ACCEPTANCES = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0]


def one_pass(log: Any, policy: Any, evaluator: Any) -> tuple[float, int]:
    estimate = bc.evaluate(log, policy, evaluator=evaluator, reward_model=PREDICTED, seed=0)
    return estimate.value, int(estimate.diagnostics.to_dict()["accepted"])


def log_of(shape: WeightTransform, limit: int) -> bc.Log:
    log = load(shape, limit)
    return bc.Log(log.contexts, log.actions, log.rewards, log.propensities, n_actions=shape.actions)


def on_arrays(name: str, policy: Any, evaluator: Any, shape: WeightTransform, limit: int) -> Job:
    """Evaluate on a log in memory; a short run beforehand loads the compiled code."""
    log = log_of(shape, limit)
    one_pass(log[:WARM_UP], policy, evaluator)
    return Job("backcast DR-ns", name, lambda: one_pass(log, policy, evaluator))


def on_parquet(shape: WeightTransform, limit: int) -> Job:
    """From the file on disk to the estimate."""
    path = parquet_file(shape, limit)
    short = parquet_file(shape, min(limit, WARM_UP))
    policy, evaluator = bc.EpsilonGreedy(0.1), bc.DRns(q=0.01)

    def run(file: Any) -> tuple[float, int]:
        return one_pass(stream_of(file, shape), policy, evaluator)

    run(short)
    return Job("backcast DR-ns, Parquet", "epsilon-greedy", lambda: run(path))


def stream_of(path: Any, shape: WeightTransform) -> bc.LogStream:
    return bc.scan_log(path, context="f_*", action="action", reward="reward", propensity="p", n_actions=shape.actions)


def fixed_policy(jobs: int, shape: WeightTransform, limit: int) -> Job:
    """IPS of a fixed policy from the file on disk, row groups side by side."""
    path = parquet_file(shape, limit)
    policy = bc.Fixed(np.arange(1, shape.actions + 1) * 2 / (shape.actions * (shape.actions + 1)))

    def run() -> tuple[float, None]:
        return bc.evaluate(stream_of(path, shape), policy, bc.IPS(), n_jobs=jobs).value, None

    bc.evaluate(log_of(shape, WARM_UP), policy, bc.IPS())
    return Job("backcast IPS, Parquet", f"fixed, {jobs} job{'s' * (jobs > 1)}", run)


def numpy_policy(shape: WeightTransform, limit: int) -> Job:
    policy = NumpyGreedy(shape.actions, shape.features)
    return on_arrays("NumPy epsilon-greedy", policy, bc.DRns(q=0.01), shape, limit)


def accepting(multiplier: float, shape: WeightTransform, limit: int) -> Job:
    """A policy that explores always accepts a share of a uniform log that is the multiplier itself."""
    evaluator = bc.DRns(acceptance=multiplier)
    return on_arrays("exploring always", bc.EpsilonGreedy(1.0), evaluator, shape, limit)


RUNNERS: dict[str, Runner] = {
    "epsilon-greedy-parquet": on_parquet,
    "epsilon-greedy": lambda shape, limit: on_arrays(
        "epsilon-greedy", bc.EpsilonGreedy(0.1), bc.DRns(q=0.01), shape, limit
    ),
    "linucb": lambda shape, limit: on_arrays("LinUCB", bc.LinUCB(0.3), bc.DRns(q=0.01), shape, limit),
    "numpy-policy": numpy_policy,
    **{f"fixed-{jobs}": partial(fixed_policy, jobs) for jobs in (1, 2)},
    **{f"accept-{c:g}": partial(accepting, c) for c in ACCEPTANCES},
}

if __name__ == "__main__":
    main(RUNNERS)
