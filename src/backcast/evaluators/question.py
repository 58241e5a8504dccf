"""The question put to an evaluator, and the protocol of evaluators."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np

from backcast.checkpoint import Checkpoint
from backcast.errors import NeedsStationaryPolicy
from backcast.estimate import Estimate
from backcast.log import Log
from backcast.policies.protocol import is_learning
from backcast.work import Terms, no_progress

__all__ = [
    "Evaluator",
    "Question",
    "Streams",
    "is_partial",
    "require_stationary",
    "stopped_note",
]

PARTIAL = "Partial:"


@dataclass(frozen=True)
class Question:
    """What would this policy have earned on this log?

    ``log`` is a :class:`~backcast.log.Log` in memory or a stream of parts. ``interval`` is None for the evaluator's
    own default; ``replicates`` is None for none, a number, or "auto". ``keep`` holds pieces of work that are done, if
    they are kept at all; ``time_limit`` is how long one may take. ``on_progress`` is told how many more events are
    done, and may raise :class:`Enough`.
    """

    log: Any
    policy: Any
    reward_model: Any = None
    horizon: int | None = None
    interval: Any = None
    level: float = 0.95
    seed: int = 0
    replicates: int | str | None = None
    n_jobs: int | None = None
    policy_name: str = ""
    on_progress: Callable[[int], None] = field(default=no_progress)
    keep: Checkpoint | None = None
    time_limit: float | None = None

    @property
    def terms(self) -> Terms:
        """On what terms its work is done."""
        return Terms(self.n_jobs, self.time_limit, self.keep, self.on_progress)

    def within(self, name: str) -> Question:
        """The same for one part of a question, whose pieces of work are kept apart from those of its other parts."""
        return self if self.keep is None else replace(self, keep=self.keep.within(name))

    @property
    def in_memory(self) -> bool:
        """Whether the log is at hand whole."""
        return isinstance(self.log, Log)

    @property
    def propensities_estimated(self) -> bool:
        """Whether propensities were estimated from the log; those of a stream from files never are."""
        parts = self.log if isinstance(self.log, list | tuple) else (self.log,)
        return any(getattr(part, "propensities_estimated", False) for part in parts)

    def parts(self) -> Iterator[Log]:
        """The log in parts, in order."""
        if self.in_memory:
            yield self.log
        else:
            yield from self.log


@runtime_checkable
class Evaluator(Protocol):
    """A way of answering the question: a frozen value of options with one method."""

    def answer(self, question: Question) -> Estimate:
        """The estimate, its interval and its diagnostics."""
        ...


@dataclass(frozen=True)
class Streams:
    """Separate streams of randomness for folds, acceptance and policy, all from one seed."""

    folds: np.random.Generator
    acceptance: np.random.Generator
    policy: np.random.Generator
    replicates: np.random.SeedSequence

    @classmethod
    def of(cls, seed: int) -> Streams:
        """The streams of a seed."""
        folds, acceptance, policy, replicates = np.random.SeedSequence(seed).spawn(4)
        return cls(
            np.random.default_rng(folds),
            np.random.default_rng(acceptance),
            np.random.default_rng(policy),
            replicates,
        )


def stopped_note(done: str) -> str:
    """What readers of a partial answer must know.

    >>> stopped_note("3 of 16 passes")
    'Partial: the run was stopped when 3 of 16 passes were done.'
    """
    return f"{PARTIAL} the run was stopped when {done} were done."


def is_partial(notes: Iterable[str]) -> bool:
    """Whether notes tell of a run that was stopped."""
    return any(note.startswith(PARTIAL) for note in notes)


def require_stationary(policy: object, evaluator: str) -> None:
    """Refuse a learning policy where only fixed ones make sense."""
    if is_learning(policy):
        raise NeedsStationaryPolicy(
            f"{evaluator} evaluates fixed policies and {type(policy).__name__} learns as it goes; "
            "use DRns, ClockReplay or evaluator='auto' for it"
        )
