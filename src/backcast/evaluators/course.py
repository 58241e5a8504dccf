"""A run of a policy through a log, with what an estimate needs to know of the parts it has seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from backcast.arrays import FloatArray
from backcast.engine.kept import restore_run, run_state
from backcast.engine.run import Run, Steering
from backcast.engine.scoring import Lesson
from backcast.errors import Enough
from backcast.evaluators.acceptance import smallest_in
from backcast.evaluators.heads import cut_head
from backcast.evaluators.question import Question, Streams
from backcast.log import Log

__all__ = ["Course", "hull", "shows_smallest"]

FIRST_ROWS = 65_536  # events of a stream whose rewards stand for a range that was not declared
NOWHERE = (np.inf, -np.inf)


@dataclass
class Course:
    """A run under way.

    ``rewards`` and ``values`` are the ranges of the rewards and of the predictions so far, ``smallest`` is the smallest
    propensity and ``bound_known`` says whether the log shows that there is none smaller. ``events`` have been fed.
    """

    run: Run
    acceptance: np.random.Generator
    on_progress: Callable[[int], None]
    smallest: float = 1.0
    bound_known: bool = True
    rewards: tuple[float, float] = NOWHERE
    values: tuple[float, float] = NOWHERE
    events: int = 0

    @classmethod
    def begun(cls, question: Question, steering: Steering, log: Any, streams: Streams) -> Course:
        """A course through this log, at its start; in memory it remembers which events were accepted."""
        in_memory = isinstance(log, Log)
        run = Run(
            question.policy,
            steering,
            log.reward_bounds if in_memory else _stream_bounds(log),
            streams.policy,
            horizon=question.horizon,
            length=len(log) if in_memory else getattr(log, "n_rows", None),
            keep_order=in_memory,
        )
        return cls(run, streams.acceptance, question.on_progress)

    def feed(self, part: Log, predicted: FloatArray) -> bool:
        """Take in the next events; False where somebody had enough."""
        self.smallest = min(self.smallest, smallest_in(part))
        self.bound_known = self.bound_known and shows_smallest(part)
        self.rewards = hull(self.rewards, part.reward_bounds)
        self.values = hull(self.values, (float(predicted.min()), float(predicted.max())))
        try:
            self.run.feed(part, predicted, self.acceptance.random(len(part)), on_progress=self.on_progress)
        except Enough:
            return False
        self.events += len(part)
        return True

    def state(self) -> dict[str, Any]:
        """All of it between two parts, as plain values."""
        noted = [self.smallest, self.bound_known, *self.rewards, *self.values]
        return {"events": self.events, "noted": noted, "run": run_state(self.run)}

    def restore(self, state: dict[str, Any], log: Log, lessons: list[Lesson]) -> None:
        """Bring a new course to a state; ``log`` are any events of its log."""
        self.events = state["events"]
        self.smallest, self.bound_known, *ranges = state["noted"]
        self.rewards, self.values = (ranges[0], ranges[1]), (ranges[2], ranges[3])
        restore_run(self.run, state["run"], log, lessons)
        # one draw an event
        bits: Any = self.acceptance.bit_generator
        bits.advance(self.events)


def _stream_bounds(log: Any) -> tuple[float, float]:
    declared = getattr(log, "reward_range", None)
    return cut_head(log, FIRST_ROWS)[0].reward_bounds if declared is None else declared


def shows_smallest(log: Log) -> bool:
    """Whether the log tells the smallest probability of its logger: all of them are recorded, or all are alike.

    >>> shows_smallest(Log(None, [0, 1], [0, 0], [0.5, 0.5])), shows_smallest(Log(None, [0, 1], [0, 0], [0.4, 0.6]))
    (True, False)
    """
    if log.logging_probabilities is not None:
        return True
    return bool(np.allclose(log.propensities, 1 / log.n_actions, rtol=1e-6, atol=0.0))


def hull(one: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    """The range that holds two ranges."""
    return min(one[0], other[0]), max(one[1], other[1])
