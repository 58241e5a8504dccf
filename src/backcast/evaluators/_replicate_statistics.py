"""ReplicateTable: values, covariances, curves and standard errors from full passes and subset replicates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np

from backcast._arrays import FloatArray, IntArray
from backcast._request import EvaluationRequest
from backcast.diagnostics import Diagnostics
from backcast.estimate import (
    POLICY_VALUE,
    Estimate,
    Interval,
    LearningCurve,
    block_edges,
    normal_quantile,
    student_quantile,
)
from backcast.intervals.learning import group_influence

TRUSTED_CERTIFICATE = 1e-3  # certificate up to which subsets are as unbiased as full passes
SUBSETS_PER_GROUP = 2  # fewest subset replicates per group for a standard error
NO_VALUES: FloatArray = np.zeros(0)
NO_EVENTS: IntArray = np.zeros(0, dtype=np.int64)


class PassResult(NamedTuple):
    """One pass: value, curve, rounds played, and bias certificate.

    ``event_values`` are the values of all events of the log, averaged over rounds, and ``accepted`` the events that
    became history; both are empty if they are not known.
    """

    value: float
    curve: FloatArray
    rounds: int
    certificate: float
    event_values: FloatArray = NO_VALUES
    accepted: IntArray = NO_EVENTS

    @property
    def reached_horizon(self) -> bool:
        """Whether the pass has a value."""
        return not math.isnan(self.value)


@dataclass(frozen=True)
class ReplicateTable:
    """Passes by policy: over the whole log ``(F, P)``, over subsets of groups ``(B, P)`` with membership ``(B, G)``."""

    full: list[list[PassResult]]
    subset: list[list[PassResult]]
    member: FloatArray
    horizon: int
    n_events: int
    notes: tuple[str, ...] = ()
    method: str = "paired group jackknife"

    @property
    def has_standard_errors(self) -> bool:
        """Whether there are enough passes and subsets for standard errors."""
        return len(self.full) > 1 and len(self.subset) >= SUBSETS_PER_GROUP * self.member.shape[1] > 0

    @property
    def degrees_of_freedom(self) -> int:
        """Degrees of freedom of the standard errors: groups less one."""
        return int(self.member.shape[1]) - 1

    def passes_of(self, policy: int) -> list[PassResult]:
        """Return the full passes of one policy."""
        return [row[policy] for row in self.full]

    def full_values(self) -> FloatArray:
        """Return the ``(F, P)`` values of full passes."""
        return np.array([[result.value for result in row] for row in self.full])

    def subset_values(self) -> FloatArray:
        """Return the ``(B, P)`` values of subset replicates."""
        return np.array([[result.value for result in row] for row in self.subset])

    def full_weight(self) -> float:
        """Return the weight of the full passes in the value: 1, unless subsets are as unbiased.

        Then both means estimate the same value and are weighted by their precision.
        """
        if max(result.certificate for row in self.subset for result in row) > TRUSTED_CERTIFICATE:
            return 1.0
        full, subset = self.full_values(), self.subset_values()
        noise = full.var(axis=0, ddof=1).sum() / len(full), subset.var(axis=0, ddof=1).sum() / len(subset)
        return float(noise[1] / (noise[0] + noise[1])) if sum(noise) > 0 else 1.0

    def values(self) -> FloatArray:
        """Return the ``(P,)`` values: of full passes, and of subsets if those are unbiased."""
        full = self.full_values().mean(axis=0)
        if not self.has_standard_errors:
            return np.asarray(full)
        weight = self.full_weight()
        return np.asarray(weight * full + (1 - weight) * self.subset_values().mean(axis=0))

    def covariance(self) -> tuple[FloatArray, FloatArray]:
        """Return the ``(P, P)`` covariance of the values over logs, and that of their Monte-Carlo error."""
        weight, full, subset = self.full_weight(), self.full_values(), self.subset_values()
        monte_carlo = weight**2 * _covariance(full) / len(full) + (1 - weight) ** 2 * _covariance(subset) / len(subset)
        sampling = group_influence(subset, self.member).covariance.copy()
        # at least the variance of event values; which events become history adds to it
        for p, passes in enumerate(zip(*self.full, strict=True)):
            floor = between_event_variance([result.event_values for result in passes]) / self.n_events
            sampling[p, p] = max(sampling[p, p], floor)
        return sampling, monte_carlo

    def difference_variance(self, a: int, b: int) -> tuple[float, float]:
        """Return the variance of the difference of two values over logs, and that of its Monte-Carlo error.

        If policies nearly agree, most of what their difference shows is noise of the replicates; the variance over
        logs then includes the uncertainty of its own estimate, so that an interval is not too short by chance.
        """
        subset = self.subset_values()
        influence = group_influence((subset[:, a] - subset[:, b])[:, None], self.member)
        sampling = float(influence.covariance[0, 0] + influence.variance_uncertainty[0])
        differences = [row[a].event_values - row[b].event_values for row in self.full]
        _, noise = self.covariance()
        monte_carlo = max(float(noise[a, a] + noise[b, b] - 2 * noise[a, b]), 0.0)
        return max(sampling, between_event_variance(differences) / self.n_events), monte_carlo

    def noise_share(self) -> float:
        """Return the largest share of Monte-Carlo noise in the subset estimates of values and differences."""
        subset = self.subset_values()
        differences = [(subset[:, a] - subset[:, b])[:, None] for a, b in combinations(range(subset.shape[1]), 2)]
        return max(group_influence(each, self.member).noise_share for each in (subset, *differences))

    def is_precise(self, share: float) -> bool:
        """Return whether Monte-Carlo variance is at most this share of the variance over logs, for all quantities."""
        sampling, monte_carlo = self.covariance()
        differences = (self.difference_variance(a, b) for a, b in combinations(range(len(sampling)), 2))
        values = zip(np.diag(sampling), np.diag(monte_carlo), strict=True)
        return all(noise <= share * variance for variance, noise in (*values, *differences))

    def errors(self, policy: int) -> tuple[float, float]:
        """Return sampling error and Monte-Carlo error of one policy's value (nan if not known)."""
        if self.has_standard_errors:
            sampling, monte_carlo = (float(matrix[policy, policy]) for matrix in self.covariance())
            return math.sqrt(sampling), math.sqrt(monte_carlo)
        values = self.full_values()[:, policy]
        return math.nan, float(values.std(ddof=1)) / math.sqrt(values.size) if values.size > 1 else math.nan

    def to_estimate(
        self, policy: int, request: EvaluationRequest, evaluator: str, diagnostics: Diagnostics
    ) -> Estimate:
        """Return the estimate of one policy."""
        value = float(self.values()[policy])
        error, interval = math.nan, None
        if self.has_standard_errors:
            sampling, monte_carlo = (float(matrix[policy, policy]) for matrix in self.covariance())
            error = math.sqrt(sampling + monte_carlo)
            half_width = student_quantile(request.level, self.degrees_of_freedom) * error
            ends = value - half_width, value + half_width
            interval = Interval(*ends, request.level, "group jackknife", "independent", POLICY_VALUE)
        return Estimate(
            value=value,
            std_error=error,
            interval=interval,
            diagnostics=diagnostics,
            policy=request.policy_name,
            evaluator=evaluator,
            curve=self._curve(policy, request.level),
            horizon=self.horizon,
            notes=self.notes,
            settings={"seed": request.seed, "level": request.level, "replicates": len(self.member)},
        )

    def _curve(self, policy: int, level: float) -> LearningCurve:
        rounds = block_edges(self.horizon)[1:]
        full = np.array([result.curve for result in self.passes_of(policy)])
        value = full.mean(axis=0)
        if not self.has_standard_errors:
            return LearningCurve(rounds, value, value, value)
        subset = np.array([row[policy].curve for row in self.subset])
        sampling = np.diag(group_influence(subset, self.member).covariance)
        monte_carlo = full.var(axis=0, ddof=1) / len(full)
        half_width = normal_quantile(level) * np.sqrt(np.maximum(sampling, 0.0) + monte_carlo)
        return LearningCurve(rounds, value, value - half_width, value + half_width)


def between_event_variance(passes: Sequence[FloatArray]) -> float:
    """Return the variance over events of their values averaged over histories, from their values in several passes.

    In one pass it is mixed with what that pass's history does. Two passes have only the variance between events in
    common, so it is the mean covariance of two passes: ``(F^2 var(mean) - sum_f var_f) / (F (F - 1))``.

    >>> between_event_variance([np.array([0.0, 2.0]), np.array([0.0, 4.0])])
    2.0

    By hand: both grow from the first event to the second, by 2 and by 4; their covariance is 1 x 2.
    """
    n = len(passes)
    if n < 2 or passes[0].size == 0:
        return 0.0
    table = np.array(passes)
    common = n**2 * table.mean(axis=0).var() - table.var(axis=1).sum()
    return max(float(common) / (n * (n - 1)), 0.0)


def separate_histories(histories: Sequence[IntArray], n_events: int) -> float:
    """Return how many histories without a common event a log is worth, from several drawn from it.

    Two histories share a part of their T events, and what they share does not average out: a mean over any number of
    histories is worth one over that part. The part is at least T/n, that of a log collected by the policy itself.

    >>> separate_histories([np.array([0, 1]), np.array([1, 2])], n_events=100)
    2.0

    By hand: one event of two in common, a half.
    """
    n = len(histories)
    if n < 2 or histories[0].size == 0:
        return np.nan
    rounds = histories[0].size
    uses = np.bincount(np.concatenate(histories))
    shared = float((uses * (uses - 1)).sum()) / (n * (n - 1) * rounds)
    return 1 / max(shared, rounds / n_events)


def _covariance(values: FloatArray) -> FloatArray:
    return np.atleast_2d(np.cov(values.T))
