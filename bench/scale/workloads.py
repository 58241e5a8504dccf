"""The workloads that are measured: each is prepared on the log on disk, then run with some number of jobs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import backcast as bc
from backcast._arrays import BoolArray, FloatArray
from backcast._parallel.workers import Job, SharedArguments, select_backend
from bench.scale.data import FIRST_FILE, N_ACTIONS, N_FEATURES
from bench.speed.numpy_policy import NumpyGreedy

HEAD = 100_000  # events to which a reward model is fitted
IN_MEMORY = 40_000  # events
LONG, SHORT = 1_000, 100  # horizons
REPLICATES = 240
CLOCK_PARTS = 40  # of 100,000 events: on a longer log, clock replay uses some of it
EMPTY_JOBS = 500

Result = tuple[float, int]  # the estimate, and the number of events that were processed
Run = Callable[[Any, int | None], Result]


class LinearSoftmax:
    """A fixed policy that depends on the context: softmax of linear scores."""

    def __init__(self, seed: int = 1) -> None:
        self.weights = np.random.default_rng(seed).normal(size=(N_FEATURES, N_ACTIONS)) / 3

    def probabilities(self, contexts: FloatArray, available: BoolArray | None = None) -> FloatArray:
        scores = contexts @ self.weights
        scores -= scores.max(axis=1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=1, keepdims=True)
        return scores


@dataclass(frozen=True)
class Workload:
    """What is run, on the stream or on a log in memory, whether workers can share it, and the goal of a speed-up."""

    name: str
    description: str
    run: Run
    streamed: bool = True
    parallel: bool = True
    goal: float | None = None


def open_stream(folder: Path) -> bc.LogStream:
    columns: dict[str, Any] = {"context": "f_*", "action": "action", "reward": "click", "propensity": "p"}
    return bc.scan_log(folder, **columns, n_actions=N_ACTIONS, reward_range=(0, 1))


def load_input(workload: Workload, folder: Path) -> Any:
    """Return the stream, or its first events in memory."""
    return open_stream(folder) if workload.streamed else open_stream(folder / FIRST_FILE).read()[:IN_MEMORY]


def _count_events(log: Any) -> int:
    return int(log.n_events or 0)


def _drns(events: int) -> bc.DRns:
    return bc.DRns(q=0.01)


def _evaluate_learner(make_evaluator: Callable[[int], Any], **options: Any) -> Run:
    def run(log: Any, jobs: int | None) -> Result:
        evaluator, policy = make_evaluator(_count_events(log)), bc.EpsilonGreedy(0.1)
        estimate = bc.evaluate(log, policy, evaluator, horizon=LONG, reward_model=0.3, seed=0, n_jobs=jobs, **options)
        return estimate.value, _count_events(log)

    return run


def _evaluate_doubly_robust(log: Any, jobs: int | None) -> Result:
    model = bc.Fitted(bc.PerAction().fit(next(iter(log))[:HEAD]))
    estimate = bc.evaluate(log, LinearSoftmax(), bc.DR(), reward_model=model, seed=0, n_jobs=jobs)
    return estimate.value, _count_events(log)


def _evaluate_clock_pools(log: Any, jobs: int | None) -> Result:
    evaluator = bc.ClockReplay(parts=CLOCK_PARTS)
    options: dict[str, Any] = {"reward_model": 0.3, "exchangeable": True, "seed": 0, "n_jobs": jobs}
    estimate = bc.evaluate(log, bc.EpsilonGreedy(0.1), evaluator, horizon=SHORT, **options)
    return estimate.value, int(estimate.diagnostics.to_dict()["events"])


def _evaluate_replicates(policy: Any, evaluator: Any, replicates: int) -> Run:
    def run(log: Any, jobs: int | None) -> Result:
        options: dict[str, Any] = {"replicates": replicates, "exchangeable": True, "seed": 0, "n_jobs": jobs}
        return bc.evaluate(log, policy, evaluator, horizon=SHORT, **options).value, _count_events(log)

    return run


_compiled = _evaluate_replicates(bc.LinUCB(0.3), bc.ClockReplay(), REPLICATES)
_python = _evaluate_replicates(NumpyGreedy(N_ACTIONS, N_FEATURES), bc.DRns(q=0.01), 4 * REPLICATES)


def _run_empty_jobs(log: Any, jobs: int | None) -> Result:
    """Run jobs that do nothing, one at a time: the time is the cost of distributing them."""
    backend = select_backend(jobs, None, one_by_one=True)
    numbered = [(number, Job(("empty", number), (number,), events=0)) for number in range(EMPTY_JOBS)]
    return float(sum(result for _, result in backend.map(_do_nothing, SharedArguments(), numbered))), EMPTY_JOBS


def _do_nothing(number: int) -> int:
    return 0


WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload("dr-ns", "DR-ns, q = 0.01, in log order", _evaluate_learner(_drns), parallel=False),
        Workload("preset", "DR-ns, the preset", _evaluate_learner(bc.DRns.recommended), parallel=False),
        Workload("dr", "DR of a fixed policy, model fitted in advance", _evaluate_doubly_robust),
        Workload("segments", "DR-ns in ten segments", _evaluate_learner(_drns, interval=bc.Segments(10))),
        Workload("clock", "ClockReplay in pools of 100,000", _evaluate_clock_pools),
        Workload("compiled", f"{REPLICATES} replicates of ClockReplay, LinUCB", _compiled, streamed=False, goal=1.7),
        Workload("python", f"{4 * REPLICATES} replicates of DR-ns, policy in NumPy", _python, streamed=False, goal=1.8),
        Workload("empty-jobs", f"{EMPTY_JOBS} jobs that do nothing", _run_empty_jobs, streamed=False),
    )
}
