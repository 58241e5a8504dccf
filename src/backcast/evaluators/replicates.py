"""Replicates: many passes over the whole log for the value, many over subsets of groups for its standard error.

Work is passes x policies, each with a stream of randomness of its own, so the answer does not depend on who did which.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy import stats

from backcast.arrays import FloatArray, IntArray
from backcast.diagnostics import Diagnostics
from backcast.errors import Enough, HorizonNotReached, OptionError
from backcast.estimate import POLICY_VALUE, Estimate, Interval, LearningCurve
from backcast.evaluators.question import Question, stopped_note
from backcast.intervals.jackknife import GroupJackknife, group_influence
from backcast.log import Log
from backcast.policies.compiled import CompiledPolicy
from backcast.work import Job, work_off

__all__ = [
    "Material",
    "Outcome",
    "Replicable",
    "Replicated",
    "Replicates",
    "binned",
    "lasting_variance",
    "replicate_all",
    "replicated",
    "replicated_from",
]

CURVE_POINTS = 50
FULL, SUBSET, GROUPING, PILOT = 0, 1, 2, 3
FIRST_PASSES, MOST_PASSES = 16, 96
MOST_BATCHES = 3
SMALL_SHARE = 0.1
TRUSTED = 1e-3
NOISY_SHARE = 0.5
LEAST_SUBSETS = 2  # for each group


TOO_SHORT = (
    "subsets of the log are too short for {} rounds, so no standard error can be given; ask for a shorter horizon, or "
    "give a longer log"
)


class SubsetsTooShort(HorizonNotReached):
    """The whole log reaches the horizon, parts of it do not."""


class Material(NamedTuple):
    """What replicates share: the events, their predictions, and the horizon."""

    log: Log
    predicted: FloatArray
    horizon: int


class Outcome(NamedTuple):
    """One replicate: its value, curve, rounds played, and bias certificate.

    ``event_values`` are the values of all events of the log, averaged over the rounds; empty where not known.
    """

    value: float
    curve: FloatArray
    rounds: int
    certificate: float
    event_values: FloatArray


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

    def acceptable(self, outcome: Outcome) -> bool:
        """Whether subsets like this one are long enough."""
        ...

    def failure(self, material: Material, reached: int) -> HorizonNotReached:
        """The error for a horizon that the whole log does not reach."""
        ...


@dataclass(frozen=True)
class Replicates:
    """Results by policy: outcomes on the whole log ``(F, P)``, values and curves on subsets ``(B, P)``, membership."""

    full: list[list[Outcome]]
    subset: list[list[Outcome]]
    member: FloatArray
    horizon: int
    events: int
    notes: tuple[str, ...] = ()

    @property
    def tells_errors(self) -> bool:
        """Whether there are passes and subsets enough for standard errors; a run that was stopped may have too few."""
        return len(self.full) > 1 and len(self.subset) >= LEAST_SUBSETS * self.member.shape[1]

    def full_values(self) -> FloatArray:
        """``(F, P)`` values on the whole log."""
        return np.array([[outcome.value for outcome in row] for row in self.full])

    def subset_values(self) -> FloatArray:
        """``(B, P)`` values on subsets of groups."""
        return np.array([[outcome.value for outcome in row] for row in self.subset])

    def full_weight(self) -> float:
        """Share of the full passes in the value: all of it, unless subsets are as free of bias.

        Then both means estimate the same, and they are weighed by how many passes stand behind each.
        """
        if max(outcome.certificate for row in self.subset for outcome in row) > TRUSTED:
            return 1.0
        full, subset = self.full_values(), self.subset_values()
        noise = full.var(axis=0, ddof=1).sum() / len(full), subset.var(axis=0, ddof=1).sum() / len(subset)
        return float(noise[1] / (noise[0] + noise[1])) if sum(noise) > 0 else 1.0

    def values(self) -> FloatArray:
        """``(P,)`` values: of full passes, and of subsets where those can be trusted."""
        share = self.full_weight()
        return np.asarray(share * self.full_values().mean(axis=0) + (1 - share) * self.subset_values().mean(axis=0))

    def covariance(self) -> tuple[FloatArray, FloatArray]:
        """Covariance of the values over logs ``(P, P)``, and of their Monte-Carlo error."""
        share, full, subset = self.full_weight(), self.full_values(), self.subset_values()
        monte_carlo = share**2 * _covariance(full) / len(full) + (1 - share) ** 2 * _covariance(subset) / len(subset)
        sampling = group_influence(subset, self.member).covariance
        return _at_least_floor(sampling, self._floors()), monte_carlo

    def gap_variance(self, a: int, b: int) -> tuple[float, float]:
        """Variance of the difference of two values: over logs, no less than its floor, and of its Monte-Carlo error."""
        subset = self.subset_values()
        gap = (subset[:, a] - subset[:, b])[:, None]
        sampling = float(group_influence(gap, self.member).covariance[0, 0])
        apart = [row[a].event_values - row[b].event_values for row in self.full]
        _, noise = self.covariance()
        monte_carlo = max(float(noise[a, a] + noise[b, b] - 2 * noise[a, b]), 0.0)
        return max(sampling, lasting_variance(apart) / self.events), monte_carlo

    def _floors(self) -> FloatArray:
        """The variance that events bring in as they are valued; which of them become history adds to it."""
        by_policy = zip(*self.full, strict=True)
        kept = [lasting_variance([outcome.event_values for outcome in outcomes]) for outcomes in by_policy]
        return np.array(kept) / self.events


def lasting_variance(passes: Sequence[FloatArray]) -> float:
    """Variance over events of their values averaged over all histories, from the values in several passes.

    In one pass it is mixed up with what its own history does. Two passes have only the lasting part in common, so it is
    the mean covariance of two of them: ``(F^2 var(mean) - sum_f var_f) / (F (F - 1))``.

    >>> lasting_variance([np.array([0.0, 2.0]), np.array([0.0, 4.0])])
    2.0

    By hand: both rise from the first event to the second, by 2 and by 4; their covariance is 1 x 2.
    """
    count = len(passes)
    if count < 2 or passes[0].size == 0:
        return 0.0
    table = np.array(passes)
    common = count**2 * table.mean(axis=0).var() - table.var(axis=1).sum()
    return max(float(common) / (count * (count - 1)), 0.0)


def _covariance(values: FloatArray) -> FloatArray:
    return np.atleast_2d(np.cov(values.T))


def _at_least_floor(covariance: FloatArray, floors: FloatArray) -> FloatArray:
    raised = covariance.copy()
    place = np.arange(len(floors))
    raised[place, place] = np.maximum(covariance[place, place], floors)
    return raised


def binned(curve: FloatArray) -> FloatArray:
    """A curve by round as at most fifty means of consecutive stretches.

    >>> binned(np.array([1.0, 3.0]))
    array([1., 3.])
    """
    edges = bin_edges(curve.size)
    return np.add.reduceat(curve, edges[:-1]) / np.diff(edges)


def bin_edges(rounds: int) -> IntArray:
    """Where the stretches of a binned curve begin and end."""
    return np.unique(np.linspace(0, rounds, min(rounds, CURVE_POINTS) + 1).astype(np.int64))


def replicate_all(evaluator: Replicable, question: Question, policies: Sequence[Any], material: Material) -> Replicates:
    """Run full passes and subset replicates for all policies, on common groups and with common randomness."""
    if not isinstance(question.interval, GroupJackknife | None):
        raise OptionError(
            f"{type(question.interval).__name__} is not an interval for replicates; use GroupJackknife() or Segments()"
        )
    method = question.interval or GroupJackknife()
    pool = _Pool(evaluator, policies, material, question)
    passes, replicates = _first_passes(question.replicates), _first_replicates(question, method)
    full = pool.passes(range(passes))
    for row in full:
        short = [outcome.rounds for outcome in row if math.isnan(outcome.value)]
        if short:
            raise evaluator.failure(material, max(short))
    found = Replicates(full, [], np.zeros((0, method.groups)), material.horizon, len(material.log))
    with suppress(Enough):
        found = _with_subsets(pool, found, method, replicates)
    return _partial(found, passes, replicates) if pool.stopped else found


def _with_subsets(pool: _Pool, found: Replicates, method: GroupJackknife, replicates: int) -> Replicates:
    """The same with replicates on subsets of groups, and with more of both where their number is left to us."""
    groups = _groups(found.events, method.groups, pool.seed)
    taken = method.taken or _taken(pool, pool.evaluator, groups, method.groups)
    if taken is None:
        raise SubsetsTooShort(TOO_SHORT.format(found.horizon))
    drawn, subset = _subset_batch(pool, groups, method.groups, taken, range(replicates))
    found = replace(found, subset=subset, member=drawn)
    if not (found.tells_errors or pool.stopped):
        raise SubsetsTooShort(TOO_SHORT.format(found.horizon))
    return _refined(pool, found, groups, taken) if pool.question.replicates == "auto" else found


def _partial(found: Replicates, passes: int, replicates: int) -> Replicates:
    """The same with a note of what was done."""
    whole, subsets = _of(len(found.full), passes), _of(len(found.subset), replicates)
    done = f"{whole} passes over the log and {subsets} replicates"
    too_few = "" if found.tells_errors else " Too few for a standard error: there is the value alone."
    return replace(found, notes=(stopped_note(done) + too_few,))


def _of(done: int, planned: int) -> str:
    # more than at first planned: how many there would have been in the end nobody knows
    return f"{done} of {planned}" if done < planned else f"{done}"


def _first_passes(replicates: int | str | None) -> int:
    return max(4, min(40, replicates // 8)) if isinstance(replicates, int) else FIRST_PASSES


def _first_replicates(question: Question, method: GroupJackknife) -> int:
    if not isinstance(question.replicates, int):
        return 10 * method.groups
    if question.replicates < LEAST_SUBSETS * method.groups:
        raise OptionError(
            f"replicates is {question.replicates}; the jackknife over {method.groups} groups needs at least "
            f"{LEAST_SUBSETS * method.groups}, and {10 * method.groups} to be steady"
        )
    return question.replicates


def _groups(events: int, groups: int, seed: int) -> list[IntArray]:
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(GROUPING,)))
    return [np.sort(part) for part in np.array_split(rng.permutation(events), groups)]


def _taken(pool: _Pool, evaluator: Replicable, groups: list[IntArray], total: int) -> int | None:
    """The fewest groups, from a quarter on, whose pilot serves every policy; else the most that reach the horizon.

    None where not even five sixths of the log reach it.
    """
    longest = None
    for taken in (math.ceil(total / 4), math.ceil(total / 3), total // 2, 2 * total // 3, 5 * total // 6):
        rows = np.sort(np.concatenate(groups[:taken]))
        pilots = pool.run([(rows, (PILOT, taken))])[0]
        if not any(math.isnan(outcome.value) for outcome in pilots):
            longest = taken
            if all(evaluator.acceptable(outcome) for outcome in pilots):
                break
    return longest


def _subset_batch(
    pool: _Pool, groups: list[IntArray], total: int, taken: int, numbers: Iterable[int]
) -> tuple[FloatArray, list[list[Outcome]]]:
    jobs, member = [], []
    for number in numbers:
        rng = np.random.default_rng(np.random.SeedSequence(pool.seed, spawn_key=(GROUPING, number)))
        chosen = rng.choice(total, taken, replace=False)
        member.append(np.isin(np.arange(total), chosen).astype(np.float64))
        jobs.append((np.sort(np.concatenate([groups[g] for g in chosen])), (SUBSET, number)))
    rows = pool.run(jobs)
    kept = [i for i, row in enumerate(rows) if not any(math.isnan(outcome.value) for outcome in row)]
    return np.array(member)[kept], [rows[i] for i in kept]


def _refined(pool: _Pool, found: Replicates, groups: list[IntArray], taken: int) -> Replicates:
    """More passes until Monte-Carlo error is a small part of the total, more subsets until theirs is."""
    total, size = found.member.shape[1], found.member.shape[0]
    for batch in range(1, MOST_BATCHES):
        if pool.stopped:
            return found
        if group_influence(found.subset_values(), found.member).noise_share <= NOISY_SHARE:
            break
        member, more = _subset_batch(pool, groups, total, taken, range(batch * size, (batch + 1) * size))
        found = replace(found, subset=found.subset + more, member=np.concatenate([found.member, member]))
    while len(found.full) < MOST_PASSES and not pool.stopped:
        sampling, monte_carlo = found.covariance()
        if (np.diag(monte_carlo) <= SMALL_SHARE * np.diag(sampling)).all():
            break
        more = pool.passes(range(len(found.full), len(found.full) + FIRST_PASSES))
        found = replace(found, full=found.full + more)
    return found


@dataclass
class _Pool:
    """Runs replicates of all policies, in parallel, each with its own seed, until it is done or somebody has enough."""

    evaluator: Replicable
    policies: Sequence[Any]
    material: Material
    question: Question
    stopped: bool = False

    @property
    def seed(self) -> int:
        return self.question.seed

    def passes(self, numbers: Iterable[int]) -> list[list[Outcome]]:
        return self.run([(None, (FULL, number)) for number in numbers])

    def run(self, asked: Sequence[tuple[IntArray | None, tuple[int, ...]]]) -> list[list[Outcome]]:
        if self.stopped:
            raise Enough
        events = len(self.material.log)
        jobs = [Job(key, (rows, self.seed, key), events if rows is None else rows.size) for rows, key in asked]
        # compiled policies release the lock, so threads share the log; others need processes of their own
        threads = all(isinstance(policy, CompiledPolicy) for policy in self.policies)
        shared = (self.evaluator, self.policies, self.material)
        options: dict[str, Any] = {"n_jobs": self.question.n_jobs, "on_progress": self.question.on_progress}
        found = work_off(_one, shared, jobs, threads=threads, **options)
        self.stopped = found.stopped
        return found.results


def _one(
    evaluator: Replicable,
    policies: Sequence[Any],
    material: Material,
    rows: IntArray | None,
    seed: int,
    key: tuple[int, ...],
) -> list[Outcome]:
    # the same seed for every policy: common randomness makes their differences sharper
    own = np.random.SeedSequence(seed, spawn_key=key)
    return [evaluator.replicate(policy, material, rows, own) for policy in policies]


class Replicated(NamedTuple):
    """An answer from replicates, before the evaluator adds its diagnostics."""

    value: float
    std_error: float
    interval: Interval | None
    curve: LearningCurve
    outcomes: list[Outcome]
    replicates: int
    sampling_error: float
    monte_carlo_error: float
    horizon: int
    notes: tuple[str, ...] = ()

    def estimate(self, evaluator: Replicable, question: Question, diagnostics: Diagnostics) -> Estimate:
        """The estimate, with the evaluator's diagnostics."""
        return Estimate(
            value=self.value,
            std_error=self.std_error,
            interval=self.interval,
            diagnostics=diagnostics,
            policy=question.policy_name,
            evaluator=evaluator.name,
            curve=self.curve,
            horizon=self.horizon,
            notes=self.notes,
            settings={"seed": question.seed, "level": question.level, "replicates": self.replicates},
        )


def replicated(evaluator: Replicable, question: Question) -> Replicated:
    """Value, standard error, interval and curve from replicates; the value alone where none are asked for."""
    material = evaluator.material(question)
    if question.replicates is None:
        return _value_alone(evaluator, question, material)
    try:
        found = replicate_all(evaluator, question, [question.policy], material)
    except SubsetsTooShort as reason:
        note = f"{str(reason)[0].upper()}{str(reason)[1:]}."
        alone = _value_alone(evaluator, question, material)
        return alone._replace(notes=(note, *alone.notes))
    return replicated_from(found, 0, question)


def replicated_from(found: Replicates, policy: int, question: Question) -> Replicated:
    """The answer for one of the policies that were replicated together."""
    outcomes = [row[policy] for row in found.full]
    if not found.tells_errors:
        return _without_error(outcomes, found.horizon, found.notes)
    sampling, monte_carlo = (float(matrix[policy, policy]) for matrix in found.covariance())
    value, error = float(found.values()[policy]), math.sqrt(sampling + monte_carlo)
    reach = float(stats.t.ppf((1 + question.level) / 2, found.member.shape[1] - 1)) * error
    return Replicated(
        value,
        error,
        Interval(value - reach, value + reach, question.level, "group jackknife", "independent", POLICY_VALUE),
        _curve(found, policy, question.level),
        outcomes,
        found.member.shape[0],
        math.sqrt(sampling),
        math.sqrt(monte_carlo),
        found.horizon,
        found.notes,
    )


def _value_alone(evaluator: Replicable, question: Question, material: Material) -> Replicated:
    pool = _Pool(evaluator, [question.policy], material, question)
    outcomes = [row[0] for row in pool.passes(range(FIRST_PASSES))]
    short = [outcome.rounds for outcome in outcomes if math.isnan(outcome.value)]
    if short:
        raise evaluator.failure(material, max(short))
    done = f"{len(outcomes)} of {FIRST_PASSES} passes over the log"
    return _without_error(outcomes, material.horizon, (stopped_note(done),) if pool.stopped else ())


def _without_error(outcomes: list[Outcome], horizon: int, notes: tuple[str, ...]) -> Replicated:
    """The value from passes over the whole log, with their own noise and nothing else."""
    values = np.array([outcome.value for outcome in outcomes])
    curve = np.mean([outcome.curve for outcome in outcomes], axis=0)
    noise = float(values.std(ddof=1)) / math.sqrt(values.size) if values.size > 1 else math.nan
    line = LearningCurve(bin_edges(horizon)[1:], curve, curve, curve)
    return Replicated(float(values.mean()), math.nan, None, line, outcomes, 0, math.nan, noise, horizon, notes)


def _curve(found: Replicates, policy: int, level: float) -> LearningCurve:
    full = np.array([row[policy].curve for row in found.full])
    subset = np.array([row[policy].curve for row in found.subset])
    sampling = np.diag(group_influence(subset, found.member).covariance)
    monte_carlo = full.var(axis=0, ddof=1) / len(full)
    reach = stats.norm.ppf((1 + level) / 2) * np.sqrt(np.maximum(sampling, 0.0) + monte_carlo)
    value = full.mean(axis=0)
    return LearningCurve(bin_edges(found.horizon)[1:], value, value - reach, value + reach)
