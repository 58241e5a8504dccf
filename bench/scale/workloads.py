"""The pieces of work that are measured: each is made ready on the log on disk, then run with some number of jobs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import backcast as bc
from backcast._arrays import BoolArray, FloatArray
from backcast._parallel.workers import SharedArguments, Task, WorkerPool
from bench.scale.data import FIRST, N_ACTIONS, N_FEATURES
from bench.speed.numpy_policy import NumpyGreedy

HEAD = 100_000  # events that a reward model is fitted on
IN_MEMORY = 40_000
LONG, SHORT = 1_000, 100  # horizons
REPLICATES = 240
CLOCK_PARTS = 40  # of 100,000 events: on a longer log, clock replay looks at some of it
PIECES = 500

Answer = tuple[float, int]  # the estimate, and the events that were gone through to get it
Run = Callable[[Any, int | None], Answer]


class LinearSoftmax:
    """A fixed policy that looks at the context: softmax of linear scores."""

    def __init__(self, seed: int = 1) -> None:
        self.weights = np.random.default_rng(seed).normal(size=(N_FEATURES, N_ACTIONS)) / 3

    def probabilities(self, contexts: FloatArray, available: BoolArray | None = None) -> FloatArray:
        scores = contexts @ self.weights
        scores -= scores.max(axis=1, keepdims=True)
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=1, keepdims=True)
        return scores


@dataclass(frozen=True)
class Work:
    """What is run: on the stream or on a log in memory, and whether other workers can help."""

    name: str
    words: str
    run: Run
    streamed: bool = True
    parallel: bool = True
    asked: float | None = None


def stream_of(folder: Path) -> bc.LogStream:
    return bc.scan_log(
        folder,
        context="f_*",
        action="action",
        reward="click",
        propensity="p",
        n_actions=N_ACTIONS,
        reward_range=(0, 1),
    )


def log_of(work: Work, folder: Path) -> Any:
    """The stream, or its first events in memory."""
    return stream_of(folder) if work.streamed else head_of(folder, IN_MEMORY)


def head_of(folder: Path, events: int) -> bc.Log:
    """The first events of the log."""
    return stream_of(folder / FIRST).read()[:events]


def _events(log: Any) -> int:
    return len(log) if isinstance(log, bc.Log) else int(log.n_rows)


def _learner(evaluator: Callable[[int], Any], horizon: int) -> Run:
    def run(log: Any, jobs: int | None) -> Answer:
        own = evaluator(_events(log))
        found = bc.evaluate(log, bc.EpsilonGreedy(0.1), own, horizon=horizon, reward_model=0.3, seed=0, n_jobs=jobs)
        return found.value, _events(log)

    return run


def _doubly_robust(log: Any, jobs: int | None) -> Answer:
    head = next(iter(log))[:HEAD]
    model = bc.PerAction().fit(head)
    found = bc.evaluate(log, LinearSoftmax(), bc.DR(), reward_model=bc.Fitted(model), seed=0, n_jobs=jobs)
    return found.value, _events(log)


def _segments(log: Any, jobs: int | None) -> Answer:
    options: dict[str, Any] = {"interval": bc.Segments(10), "seed": 0, "n_jobs": jobs}
    found = bc.evaluate(log, bc.EpsilonGreedy(0.1), bc.DRns(q=0.01), horizon=LONG, reward_model=0.3, **options)
    return found.value, _events(log)


def _clock_pools(log: Any, jobs: int | None) -> Answer:
    some: dict[str, Any] = {"parts": CLOCK_PARTS}
    options: dict[str, Any] = {"reward_model": 0.3, "exchangeable": True, "seed": 0, "n_jobs": jobs}
    found = bc.evaluate(log, bc.EpsilonGreedy(0.1), bc.ClockReplay(**some), horizon=SHORT, **options)
    return found.value, int(found.diagnostics.to_dict()["events"])


def _replicates(policy: Any, evaluator: Any, log: Any, jobs: int | None, replicates: int = REPLICATES) -> Answer:
    options: dict[str, Any] = {"replicates": replicates, "exchangeable": True, "seed": 0, "n_jobs": jobs}
    return bc.evaluate(log, policy, evaluator, horizon=SHORT, **options).value, _events(log)


def _compiled(log: Any, jobs: int | None) -> Answer:
    return _replicates(bc.LinUCB(0.3), bc.ClockReplay(), log, jobs)


def _python(log: Any, jobs: int | None) -> Answer:
    return _replicates(NumpyGreedy(N_ACTIONS, N_FEATURES), bc.DRns(q=0.01), log, jobs, 4 * REPLICATES)


def _pieces(log: Any, jobs: int | None) -> Answer:
    """Pieces of work in which nothing is done, one at a time: what is left is the cost of handing them out."""
    crew = WorkerPool(jobs, one_by_one=True)
    tasks = [Task(number, "", (number,)) for number in range(PIECES)]
    return float(sum(result for _, result in crew.results(_nothing, SharedArguments(), tasks))), PIECES


def _nothing(number: int) -> int:
    return 0


WORKS = {
    work.name: work
    for work in (
        Work("dr-ns", "DR-ns, q = 0.01, in log order", _learner(lambda n: bc.DRns(q=0.01), LONG), parallel=False),
        Work("preset", "DR-ns, the preset", _learner(bc.DRns.recommended, LONG), parallel=False),
        Work("dr", "DR of a fixed policy, model fitted beforehand", _doubly_robust),
        Work("segments", "DR-ns in ten segments", _segments),
        Work("clock", "ClockReplay in pools of 100,000", _clock_pools),
        Work("compiled", f"{REPLICATES} replicates of ClockReplay, LinUCB", _compiled, streamed=False, asked=1.7),
        Work("python", f"{4 * REPLICATES} replicates of DR-ns, a policy in NumPy", _python, streamed=False, asked=1.8),
        Work("pieces", "500 pieces in which nothing is done", _pieces, streamed=False),
    )
}
