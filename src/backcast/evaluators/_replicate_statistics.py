"""The statistics of replicates: values from passes over the whole log, errors from passes over subsets of groups."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import stats

from backcast._arrays import FloatArray, IntArray
from backcast._request import EvaluationRequest
from backcast.diagnostics import Diagnostics
from backcast.estimate import POLICY_VALUE, Estimate, Interval, LearningCurve
from backcast.intervals.learning import group_influence

if TYPE_CHECKING:
    from backcast.evaluators._replicates import Replicable

CURVE_POINTS = 50


TRUSTED = 1e-3


LEAST_SUBSETS = 2  # for each group


NO_VALUES: FloatArray = np.zeros(0)


NO_EVENTS: IntArray = np.zeros(0, dtype=np.int64)


class PassResult(NamedTuple):
    """One replicate: its value, curve, rounds played, and bias certificate.

    ``event_values`` are the values of all events of the log, averaged over the rounds, and ``accepted`` the events that
    became history; both are empty where not known.
    """

    value: float
    curve: FloatArray
    rounds: int
    certificate: float
    event_values: FloatArray = NO_VALUES
    accepted: IntArray = NO_EVENTS


@dataclass(frozen=True)
class ReplicateTable:
    """Results by policy: outcomes on the whole log ``(F, P)``, values and curves on subsets ``(B, P)``, membership."""

    full: list[list[PassResult]]
    subset: list[list[PassResult]]
    member: FloatArray
    horizon: int
    events: int
    notes: tuple[str, ...] = ()

    @property
    def has_standard_errors(self) -> bool:
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
        """Variance of the difference of two values: over logs, no less than its floor, and of its Monte-Carlo error.

        Where policies nearly agree, the noise of the replicates is most of what their difference shows; the variance
        over logs then includes the uncertainty of that noise, so that the interval is not too short by chance.
        """
        subset = self.subset_values()
        found = group_influence((subset[:, a] - subset[:, b])[:, None], self.member)
        sampling = float(found.covariance[0, 0] + found.variance_uncertainty[0])
        apart = [row[a].event_values - row[b].event_values for row in self.full]
        _, noise = self.covariance()
        monte_carlo = max(float(noise[a, a] + noise[b, b] - 2 * noise[a, b]), 0.0)
        return max(sampling, between_event_variance(apart) / self.events), monte_carlo

    def noise_share(self) -> float:
        """The largest share of replicates' noise in what values, or differences of two, show over subsets."""
        subset = self.subset_values()
        gaps = [(subset[:, a] - subset[:, b])[:, None] for a, b in combinations(range(subset.shape[1]), 2)]
        return max(group_influence(each, self.member).noise_share for each in (subset, *gaps))

    def is_settled(self, share: float) -> bool:
        """Whether Monte-Carlo variance is at most this share of that over logs, for values and differences of two."""
        sampling, monte_carlo = self.covariance()
        gaps = (self.gap_variance(a, b) for a, b in combinations(range(len(sampling)), 2))
        values = zip(np.diag(sampling), np.diag(monte_carlo), strict=True)
        return all(noise <= share * variance for variance, noise in (*values, *gaps))

    def _floors(self) -> FloatArray:
        """The variance that events bring in as they are valued; which of them become history adds to it."""
        by_policy = zip(*self.full, strict=True)
        kept = [between_event_variance([outcome.event_values for outcome in outcomes]) for outcomes in by_policy]
        return np.array(kept) / self.events


def between_event_variance(passes: Sequence[FloatArray]) -> float:
    """Variance over events of their values averaged over all histories, from the values in several passes.

    In one pass it is mixed up with what its own history does. Two passes have only the lasting part in common, so it is
    the mean covariance of two of them: ``(F^2 var(mean) - sum_f var_f) / (F (F - 1))``.

    >>> between_event_variance([np.array([0.0, 2.0]), np.array([0.0, 4.0])])
    2.0

    By hand: both rise from the first event to the second, by 2 and by 4; their covariance is 1 x 2.
    """
    count = len(passes)
    if count < 2 or passes[0].size == 0:
        return 0.0
    table = np.array(passes)
    common = count**2 * table.mean(axis=0).var() - table.var(axis=1).sum()
    return max(float(common) / (count * (count - 1)), 0.0)


def separate_histories(histories: Sequence[IntArray], events: int) -> float:
    """How many histories without an event in common a log is worth, from several drawn from it.

    Two of them share a part of their T events, and what they share they do not average out: a mean over any number of
    histories is worth as many separate ones as this part goes into 1. It is no less than T/n, that of a log which is
    like what the policy would have collected.

    >>> separate_histories([np.array([0, 1]), np.array([1, 2])], events=100)
    2.0

    By hand: one event of two in common, a half.
    """
    count = len(histories)
    if count < 2 or histories[0].size == 0:
        return np.nan
    rounds = histories[0].size
    times = np.bincount(np.concatenate(histories))
    shared = float((times * (times - 1)).sum()) / (count * (count - 1) * rounds)
    return 1 / max(shared, rounds / events)


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


class Replicated(NamedTuple):
    """An answer from replicates, before the evaluator adds its diagnostics."""

    value: float
    std_error: float
    interval: Interval | None
    curve: LearningCurve
    outcomes: list[PassResult]
    replicates: int
    sampling_error: float
    monte_carlo_error: float
    horizon: int
    notes: tuple[str, ...] = ()

    def estimate(self, evaluator: Replicable, request: EvaluationRequest, diagnostics: Diagnostics) -> Estimate:
        """The estimate, with the evaluator's diagnostics."""
        return Estimate(
            value=self.value,
            std_error=self.std_error,
            interval=self.interval,
            diagnostics=diagnostics,
            policy=request.policy_name,
            evaluator=evaluator.name,
            curve=self.curve,
            horizon=self.horizon,
            notes=self.notes,
            settings={"seed": request.seed, "level": request.level, "replicates": self.replicates},
        )


def replicated_from(found: ReplicateTable, policy: int, request: EvaluationRequest) -> Replicated:
    """The answer for one of the policies that were replicated together."""
    outcomes = [row[policy] for row in found.full]
    if not found.has_standard_errors:
        return _without_error(outcomes, found.horizon, found.notes)
    sampling, monte_carlo = (float(matrix[policy, policy]) for matrix in found.covariance())
    value, error = float(found.values()[policy]), math.sqrt(sampling + monte_carlo)
    reach = float(stats.t.ppf((1 + request.level) / 2, found.member.shape[1] - 1)) * error
    return Replicated(
        value,
        error,
        Interval(value - reach, value + reach, request.level, "group jackknife", "independent", POLICY_VALUE),
        _curve(found, policy, request.level),
        outcomes,
        found.member.shape[0],
        math.sqrt(sampling),
        math.sqrt(monte_carlo),
        found.horizon,
        found.notes,
    )


def _without_error(outcomes: list[PassResult], horizon: int, notes: tuple[str, ...]) -> Replicated:
    """The value from passes over the whole log, with their own noise and nothing else."""
    values = np.array([outcome.value for outcome in outcomes])
    curve = np.mean([outcome.curve for outcome in outcomes], axis=0)
    noise = float(values.std(ddof=1)) / math.sqrt(values.size) if values.size > 1 else math.nan
    line = LearningCurve(bin_edges(horizon)[1:], curve, curve, curve)
    return Replicated(float(values.mean()), math.nan, None, line, outcomes, 0, math.nan, noise, horizon, notes)


def _curve(found: ReplicateTable, policy: int, level: float) -> LearningCurve:
    full = np.array([row[policy].curve for row in found.full])
    subset = np.array([row[policy].curve for row in found.subset])
    sampling = np.diag(group_influence(subset, found.member).covariance)
    monte_carlo = full.var(axis=0, ddof=1) / len(full)
    reach = stats.norm.ppf((1 + level) / 2) * np.sqrt(np.maximum(sampling, 0.0) + monte_carlo)
    value = full.mean(axis=0)
    return LearningCurve(bin_edges(found.horizon)[1:], value, value - reach, value + reach)
