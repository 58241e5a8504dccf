"""The pool of work behind replicates: passes over the log or parts of it, for all policies, wherever they are done.

Work is passes x policies, each with a stream of randomness of its own, so the answer does not depend on who did which.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from backcast._arrays import FloatArray, IntArray
from backcast._parallel.jobs import Job, run_jobs
from backcast._parallel.workers import SharedArguments
from backcast._request import EvaluationRequest, stopped_note
from backcast.errors import HorizonNotReached, OptionError, StopEvaluation
from backcast.evaluators._replicate_statistics import (
    LEAST_SUBSETS,
    PassResult,
    Replicated,
    ReplicateTable,
    _without_error,
    replicated_from,
)
from backcast.intervals.learning import GroupJackknife
from backcast.log import Log
from backcast.policies.compiled import CompiledPolicy

FULL, SUBSET, GROUPING = 0, 1, 2


class ReplicateInputs(NamedTuple):
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

    def inputs(self, request: EvaluationRequest) -> ReplicateInputs:
        """What the replicates share."""
        ...

    def replicate(
        self, policy: Any, inputs: ReplicateInputs, rows: IntArray | None, seed: np.random.SeedSequence
    ) -> PassResult:
        """One replicate on these rows (None: all)."""
        ...

    def long_enough(self, outcomes: Sequence[PassResult]) -> bool:
        """Whether subsets like these are long enough."""
        ...

    def failure(self, inputs: ReplicateInputs, reached: int) -> HorizonNotReached:
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
    inputs: ReplicateInputs
    request: EvaluationRequest
    groups: Groups | None = None
    stopped: bool = False
    _shared: SharedArguments = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._shared = SharedArguments(self.evaluator, self.policies, self.inputs, self.groups, self.request.seed)

    def close(self) -> None:
        """Let the workers go."""
        self._shared.close()

    def passes(self, numbers: Iterable[int]) -> list[list[PassResult]]:
        """Passes over the whole log, for each policy."""
        events = len(self.inputs.log)
        return self._run([Job(("pass", number), (None, (FULL, number)), events) for number in numbers])

    def subsets(self, chosen: Iterable[tuple[int, Sequence[int]]]) -> list[list[PassResult]]:
        """Passes over groups, by number and chosen groups, for each policy."""
        jobs = [Job(("subset", len(own), i), (own, (SUBSET, i)), self._share(len(own))) for i, own in chosen]
        return self._run(jobs)

    def _share(self, taken: int) -> int:
        assert self.groups is not None
        return len(self.inputs.log) * taken // self.groups.number

    def _run(self, jobs: Sequence[Job]) -> list[list[PassResult]]:
        if self.stopped:
            raise StopEvaluation
        # compiled policies release the lock, so threads share the log; others need processes of their own
        threads = all(isinstance(policy, CompiledPolicy) for policy in self.policies)
        found = run_jobs(_one, self._shared, jobs, self.request.terms, threads=threads, kinds=(PassResult,))
        self.stopped = found.stopped
        return found.results


def _one(
    evaluator: Replicable,
    policies: Sequence[Any],
    inputs: ReplicateInputs,
    groups: Groups | None,
    seed: int,
    chosen: Sequence[int] | None,
    key: tuple[int, ...],
) -> list[PassResult]:
    # sent by the numbers of its groups: the events themselves would be most of what travels
    rows = None if chosen is None or groups is None else groups.rows(chosen)
    # the same seed for every policy: common randomness makes their differences sharper
    own = np.random.SeedSequence(seed, spawn_key=key)
    return [evaluator.replicate(policy, inputs, rows, own) for policy in policies]


FIRST_PASSES, MOST_PASSES = 16, 96


MOST_BATCHES = 3


PILOTS = 8


SMALL_SHARE = 0.1


NOISY_SHARE = 0.5


TOO_SHORT = (
    "subsets of the log are too short for {} rounds, so no standard error can be given; ask for a shorter horizon, or "
    "give a longer log"
)


class SubsetsTooShort(HorizonNotReached):
    """The whole log reaches the horizon, parts of it do not."""


def run_replicates(
    evaluator: Replicable, request: EvaluationRequest, policies: Sequence[Any], inputs: ReplicateInputs
) -> ReplicateTable:
    """Run full passes and subset replicates for all policies, on common groups and with common randomness."""
    if not isinstance(request.interval, GroupJackknife | None):
        raise OptionError(
            f"{type(request.interval).__name__} is not an interval for replicates; use GroupJackknife() or Segments()"
        )
    method = request.interval or GroupJackknife()
    passes, replicates = first_passes(request.replicates), _first_replicates(request, method)
    groups = Groups.of(len(inputs.log), method.groups, request.seed)
    with closing(Pool(evaluator, policies, inputs, request, groups)) as pool:
        full = pool.passes(range(passes))
        for row in full:
            short = [outcome.rounds for outcome in row if math.isnan(outcome.value)]
            if short:
                raise evaluator.failure(inputs, max(short))
        found = ReplicateTable(full, [], np.zeros((0, method.groups)), inputs.horizon, len(inputs.log))
        with suppress(StopEvaluation):
            found = _with_subsets(pool, found, method, replicates)
        return _partial(found, passes, replicates) if pool.stopped else found


def _with_subsets(pool: Pool, found: ReplicateTable, method: GroupJackknife, replicates: int) -> ReplicateTable:
    """The same with replicates on subsets of groups, and with more of both where their number is left to us."""
    size = method.groups_per_subset
    pilot = Pilot(size, []) if size else _pilot(pool, method.groups, min(PILOTS, replicates))
    if pilot is None:
        raise SubsetsTooShort(TOO_SHORT.format(found.horizon))
    drawn, subset = _subset_batch(pool, method.groups, range(replicates), pilot)
    found = replace(found, subset=subset, member=drawn)
    if not (found.has_standard_errors or pool.stopped):
        raise SubsetsTooShort(TOO_SHORT.format(found.horizon))
    return _refined(pool, found, pilot.taken, replicates) if pool.request.replicates == "auto" else found


def _partial(found: ReplicateTable, passes: int, replicates: int) -> ReplicateTable:
    """The same with a note of what was done."""
    whole, subsets = _of(len(found.full), passes), _of(len(found.subset), replicates)
    done = f"{whole} passes over the log and {subsets} replicates"
    too_few = "" if found.has_standard_errors else " Too few for a standard error: there is the value alone."
    return replace(found, notes=(stopped_note(done) + too_few,))


def _of(done: int, planned: int) -> str:
    # more than at first planned: how many there would have been in the end nobody knows
    return f"{done} of {planned}" if done < planned else f"{done}"


def first_passes(replicates: int | str | None) -> int:
    """How many passes over the whole log come first."""
    return max(4, min(40, replicates // 8)) if isinstance(replicates, int) else FIRST_PASSES


def _first_replicates(request: EvaluationRequest, method: GroupJackknife) -> int:
    if not isinstance(request.replicates, int):
        return 10 * method.groups
    if request.replicates < LEAST_SUBSETS * method.groups:
        raise OptionError(
            f"replicates is {request.replicates}; the jackknife over {method.groups} groups needs at least "
            f"{LEAST_SUBSETS * method.groups}, and {10 * method.groups} to be steady"
        )
    return request.replicates


class Pilot(NamedTuple):
    """How many groups a replicate takes, and the first replicates, by policy."""

    taken: int
    rows: list[list[PassResult]]


def _pilot(pool: Pool, total: int, count: int) -> Pilot | None:
    """The fewest groups, from a quarter on, whose first replicates serve every policy; else the most, to get by.

    One replicate would not tell: what a subset exhausts depends on which rare events are in it. To get by, half of the
    replicates must reach the horizon; None where not even those of five sixths of the log do.
    """
    longest = None
    for taken in _sizes(total):
        rows = pool.subsets(_drawn(pool, total, taken, range(count)))
        reached = sum(map(_reaches, rows))
        if 2 * reached >= count:
            longest = Pilot(taken, rows)
        by_policy = zip(*rows, strict=True)
        if reached == count and all(pool.evaluator.long_enough(outcomes) for outcomes in by_policy):
            break
    return longest


def _sizes(total: int) -> list[int]:
    """Numbers of groups that are tried in turn.

    >>> _sizes(30)
    [8, 10, 15, 20, 25]
    """
    return [math.ceil(total / 4), math.ceil(total / 3), total // 2, 2 * total // 3, 5 * total // 6]


def _drawn(pool: Pool, total: int, taken: int, numbers: Iterable[int]) -> list[tuple[int, list[int]]]:
    """So many groups for each of these replicates."""
    seeds = ((i, np.random.SeedSequence(pool.request.seed, spawn_key=(GROUPING, i))) for i in numbers)
    return [(i, np.random.default_rng(seed).choice(total, taken, replace=False).tolist()) for i, seed in seeds]


def _reaches(row: Sequence[PassResult]) -> bool:
    return not any(math.isnan(outcome.value) for outcome in row)


def _subset_batch(
    pool: Pool, total: int, numbers: Iterable[int], pilot: Pilot
) -> tuple[FloatArray, list[list[PassResult]]]:
    """Replicates of these numbers, of which the pilot has done the first: groups taken, and outcomes."""
    chosen = _drawn(pool, total, pilot.taken, numbers)
    rows = pilot.rows + pool.subsets(chosen[len(pilot.rows) :])
    member = np.array([np.isin(np.arange(total), own).astype(np.float64) for _, own in chosen])
    kept = [i for i, row in enumerate(rows) if _reaches(row)]
    return member[kept], [rows[i] for i in kept]


def _refined(pool: Pool, found: ReplicateTable, taken: int, size: int) -> ReplicateTable:
    """More passes until Monte-Carlo error is a small part of the total, more subsets until theirs is."""
    total = found.member.shape[1]
    for batch in range(1, MOST_BATCHES):
        if pool.stopped:
            return found
        if found.noise_share() <= NOISY_SHARE:
            break
        member, more = _subset_batch(pool, total, range(batch * size, (batch + 1) * size), Pilot(taken, []))
        found = replace(found, subset=found.subset + more, member=np.concatenate([found.member, member]))
    while len(found.full) < MOST_PASSES and not pool.stopped:
        if found.is_settled(SMALL_SHARE):
            break
        more = pool.passes(range(len(found.full), len(found.full) + FIRST_PASSES))
        found = replace(found, full=found.full + more)
    return found


def replicated(evaluator: Replicable, request: EvaluationRequest) -> Replicated:
    """Value, standard error, interval and curve from replicates; the value alone where none are asked for."""
    inputs = evaluator.inputs(request)
    if request.replicates is None:
        return _value_alone(evaluator, request, inputs)
    try:
        found = run_replicates(evaluator, request, [request.policy], inputs)
    except SubsetsTooShort as reason:
        note = f"{str(reason)[0].upper()}{str(reason)[1:]}."
        alone = _value_alone(evaluator, request, inputs)
        return alone._replace(notes=(note, *alone.notes))
    return replicated_from(found, 0, request)


def _value_alone(evaluator: Replicable, request: EvaluationRequest, inputs: ReplicateInputs) -> Replicated:
    planned = first_passes(None)
    with closing(Pool(evaluator, [request.policy], inputs, request)) as pool:
        outcomes = [row[0] for row in pool.passes(range(planned))]
    short = [outcome.rounds for outcome in outcomes if math.isnan(outcome.value)]
    if short:
        raise evaluator.failure(inputs, max(short))
    done = f"{len(outcomes)} of {planned} passes over the log"
    return _without_error(outcomes, inputs.horizon, (stopped_note(done),) if pool.stopped else ())
