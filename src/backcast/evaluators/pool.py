"""The pool of work behind replicates: passes over the log or parts of it, for all policies, wherever they are done.

Work is passes x policies, each with a stream of randomness of its own, so the answer does not depend on who did which.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from backcast.arrays import FloatArray, IntArray
from backcast.crew import Shared
from backcast.errors import Enough, HorizonNotReached
from backcast.evaluators.question import Question
from backcast.evaluators.replicates import Outcome
from backcast.log import Log
from backcast.policies.compiled import CompiledPolicy
from backcast.work import Job, work_off

__all__ = ["FULL", "GROUPING", "Groups", "Material", "Pool", "Replicable"]

FULL, SUBSET, GROUPING = 0, 1, 2


class Material(NamedTuple):
    """What replicates share: the events, their predictions, and the horizon."""

    log: Log
    predicted: FloatArray
    horizon: int


class Replicable(Protocol):
    """An evaluator whose answer is an average over replicates."""

    @property
    def name(self) -> str:
        """How results call it."""
        ...

    def material(self, question: Question) -> Material:
        """What the replicates share."""
        ...

    def replicate(
        self, policy: Any, material: Material, rows: IntArray | None, seed: np.random.SeedSequence
    ) -> Outcome:
        """One replicate on these rows (None: all)."""
        ...

    def acceptable(self, outcomes: Sequence[Outcome]) -> bool:
        """Whether subsets like these are long enough."""
        ...

    def failure(self, material: Material, reached: int) -> HorizonNotReached:
        """The error for a horizon that the whole log does not reach."""
        ...


class Groups(NamedTuple):
    """Events dealt out at random into groups of one size: those of each group in order, and where each begins.

    >>> Groups.of(4, 2, seed=0).rows((0, 1))
    array([0, 1, 2, 3])
    """

    events: IntArray
    edges: IntArray

    @classmethod
    def of(cls, events: int, number: int, seed: int) -> Groups:
        """The groups of a seed."""
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(GROUPING,)))
        dealt = [np.sort(part) for part in np.array_split(rng.permutation(events), number)]
        return cls(np.concatenate(dealt), np.cumsum([0, *(part.size for part in dealt)]))

    @property
    def number(self) -> int:
        """How many there are."""
        return self.edges.size - 1

    def rows(self, chosen: Sequence[int]) -> IntArray:
        """The events of these groups, in order."""
        return np.sort(np.concatenate([self.events[self.edges[g] : self.edges[g + 1]] for g in chosen]))


@dataclass
class Pool:
    """Runs replicates of all policies, in parallel, each with its own seed, until it is done or somebody has enough."""

    evaluator: Replicable
    policies: Sequence[Any]
    material: Material
    question: Question
    groups: Groups | None = None
    stopped: bool = False
    _shared: Shared = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._shared = Shared(self.evaluator, self.policies, self.material, self.groups, self.question.seed)

    def close(self) -> None:
        """Let the workers go."""
        self._shared.close()

    def passes(self, numbers: Iterable[int]) -> list[list[Outcome]]:
        """Passes over the whole log, for each policy."""
        events = len(self.material.log)
        return self._run([Job(("pass", number), (None, (FULL, number)), events) for number in numbers])

    def subsets(self, chosen: Iterable[tuple[int, Sequence[int]]]) -> list[list[Outcome]]:
        """Passes over groups, by number and chosen groups, for each policy."""
        jobs = [Job(("subset", len(own), i), (own, (SUBSET, i)), self._share(len(own))) for i, own in chosen]
        return self._run(jobs)

    def _share(self, taken: int) -> int:
        assert self.groups is not None
        return len(self.material.log) * taken // self.groups.number

    def _run(self, jobs: Sequence[Job]) -> list[list[Outcome]]:
        if self.stopped:
            raise Enough
        # compiled policies release the lock, so threads share the log; others need processes of their own
        threads = all(isinstance(policy, CompiledPolicy) for policy in self.policies)
        found = work_off(_one, self._shared, jobs, self.question.terms, threads=threads, kinds=(Outcome,))
        self.stopped = found.stopped
        return found.results


def _one(
    evaluator: Replicable,
    policies: Sequence[Any],
    material: Material,
    groups: Groups | None,
    seed: int,
    chosen: Sequence[int] | None,
    key: tuple[int, ...],
) -> list[Outcome]:
    # sent by the numbers of its groups: the events themselves would be most of what travels
    rows = None if chosen is None or groups is None else groups.rows(chosen)
    # the same seed for every policy: common randomness makes their differences sharper
    own = np.random.SeedSequence(seed, spawn_key=key)
    return [evaluator.replicate(policy, material, rows, own) for policy in policies]
