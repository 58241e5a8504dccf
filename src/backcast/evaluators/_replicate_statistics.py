"""ReplicateTable: values, variances, curves and standard errors from full passes and subset replicates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

import numpy as np

from backcast._arrays import FloatArray, IntArray
from backcast._request import EvaluationRequest, SeedKey, seed_sequence
from backcast.break_even import BreakEven, GainCurve, find_break_even
from backcast.diagnostics import Diagnostics
from backcast.estimate import (
    LOGGED,
    POLICY_VALUE,
    AfterLearning,
    BiasEstimate,
    Estimate,
    Interval,
    LearningCurve,
    Precision,
    block_edges,
    student_quantile,
)
from backcast.evaluators._bias import estimate_bias, estimate_difference_bias
from backcast.evaluators._curve_gains import (
    Baseline,
    SubsetCurves,
    after_learning_from_passes,
    gains_from_passes,
)
from backcast.evaluators._curve_influences import CurveInfluences
from backcast.evaluators._passes import (
    FEWEST_PASSES,
    BaselineInfluences,
    ErrorTerms,
    InfluenceTable,
    PassResult,
    between_event_variance,
)
from backcast.intervals.learning import Influence, group_influence, group_pseudo_deviations
from backcast.log import Log
from backcast.policies.base import is_learning

SUBSETS_PER_GROUP = 2  # fewest subset replicates per group for a standard error


class Groups(NamedTuple):
    """Events in random groups of equal size: the events group by group, each group in order, and their edges.

    >>> Groups.from_seed(4, 2, seed=0).rows((0, 1))
    array([0, 1, 2, 3])
    """

    events: IntArray
    edges: IntArray

    @classmethod
    def from_seed(cls, n_events: int, n_groups: int, seed: int) -> Groups:
        """Return the groups of a seed."""
        rng = np.random.default_rng(seed_sequence(seed, SeedKey.GROUPS))
        groups = [np.sort(group) for group in np.array_split(rng.permutation(n_events), n_groups)]
        return cls(np.concatenate(groups), np.cumsum([0, *(group.size for group in groups)]))

    def rows(self, chosen: Sequence[int]) -> IntArray:
        """Return the events of these groups, in order."""
        return np.sort(np.concatenate([self.events[self.edges[g] : self.edges[g + 1]] for g in chosen]))

    def means(self, values: FloatArray, member: FloatArray) -> FloatArray:
        """Return the mean of the events' values over each subset of groups, given the ``(B, G)`` membership.

        >>> groups = Groups(np.array([0, 2, 1]), np.array([0, 2, 3]))
        >>> groups.means(np.array([1.0, 4.0, 3.0]), np.eye(2))
        array([2., 4.])
        """
        sums = np.add.reduceat(values[self.events], self.edges[:-1])
        return np.asarray(member @ sums / (member @ np.diff(self.edges)))


@dataclass(frozen=True)
class ReplicateTable:
    """Passes by policy: over the whole log ``(F, P)``, over subsets of groups ``(B, P)`` with membership ``(B, G)``.

    Values are means of full passes only. Passes that did not reach the horizon are never left out of a mean: the value
    of those that did would be selected (see ``run_replicates``). Errors come from subsets if there are any (group
    jackknife), else from what full passes record (infinitesimal jackknife); there are none if ``values_only``.
    ``halves`` are passes ``(B, P)`` over halves of the log, if a bias estimate needs them, and ``reward_spreads`` the
    standard deviations of what is read, by column.
    """

    full: list[list[PassResult]]
    subset: list[list[PassResult]]
    member: FloatArray
    horizon: int
    n_events: int
    groups: Groups
    notes: tuple[str, ...] = ()
    values_only: bool = False
    halves: Sequence[Sequence[PassResult]] = ()
    reward_spreads: Sequence[float] = ()

    @property
    def method(self) -> str:
        """Name of the method of standard errors."""
        return "group jackknife" if self.member.size else "infinitesimal jackknife"

    @property
    def has_standard_errors(self) -> bool:
        """Whether there are enough passes and subsets for standard errors."""
        if self.values_only:
            return False
        if self.member.size:
            return len(self.full) > 1 and len(self.subset) >= SUBSETS_PER_GROUP * self.member.shape[1]
        return len(self.full) >= FEWEST_PASSES and self.full[0][0].reading.size > 0

    def passes_of(self, policy: int) -> list[PassResult]:
        """Return the full passes of one policy."""
        return [row[policy] for row in self.full]

    def full_values(self) -> FloatArray:
        """Return the ``(F, P)`` values of full passes."""
        return np.array([[result.value for result in row] for row in self.full])

    def subset_values(self) -> FloatArray:
        """Return the ``(B, P)`` values of subset replicates."""
        return np.array([[result.value for result in row] for row in self.subset])

    def values(self) -> FloatArray:
        """Return the ``(P,)`` means of full passes."""
        # column by column: the order in which a matrix is summed, and so the last bit, depends on its number of columns
        return np.array([column.mean() for column in self.full_values().T])

    @cached_property
    def influences(self) -> InfluenceTable:
        """Influences of events, from full passes."""
        return InfluenceTable(self.full, self.n_events)

    def precision(self, policy: int) -> Precision:
        """Return the precision of one policy's value."""
        if not self.member.size:
            terms = self.influences.of_value(policy)
            return Precision(terms.sampling, terms.monte_carlo, terms.degrees_of_freedom)
        influence = group_influence(self.subset_values()[:, [policy]], self.member)
        # at least the variance of event values; which events become history adds to it
        floor = (
            between_event_variance([result.event_values for result in self.passes_of(policy) if not result.rows.size])
            / self.n_events
        )
        monte_carlo = float(self.full_values()[:, policy].var(ddof=1)) / len(self.full)
        return self._jackknife_precision(max(float(influence.covariance[0, 0]), floor), influence, monte_carlo)

    def effective_events(self, policy: int) -> float:
        """Return the effective number of events that carry one policy's standard error (nan if not known)."""
        known = self.has_standard_errors and not self.member.size
        return self.influences.of_value(policy).effective_events if known else math.nan

    def difference_precision(self, a: int, b: int) -> Precision:
        """Return the precision of the difference of two values.

        If policies nearly agree, most of what their difference shows is noise of the replicates; the variance over
        logs of the group jackknife then includes the uncertainty of its own estimate, so that an interval is not too
        short by chance.
        """
        if not self.member.size:
            return self._paired(self.influences.of_difference(a, b), self._difference_bias(a, b))
        subset, full = self.subset_values(), self.full_values()
        events = [row[a].event_values - row[b].event_values for row in self.full if not row[a].rows.size]
        precision = self._paired_jackknife(subset[:, a] - subset[:, b], full[:, a] - full[:, b], events)
        return precision._replace(bias=self._difference_bias(a, b))

    def _paired_jackknife(self, subset: FloatArray, full: FloatArray, events: list[FloatArray]) -> Precision:
        """Return the precision of a difference from its values on subsets, in full passes, and event by event."""
        influence = group_influence(subset[:, None], self.member)
        sampling = float(influence.covariance[0, 0] + influence.variance_uncertainty[0])
        floor = between_event_variance(events) / self.n_events
        monte_carlo = float(full.var(ddof=1)) / len(full)
        precision = self._jackknife_precision(max(sampling, floor), influence, monte_carlo)
        return precision._replace(method=f"paired {self.method}")

    def _paired(self, terms: ErrorTerms, bias: float) -> Precision:
        return Precision(terms.sampling, terms.monte_carlo, terms.degrees_of_freedom, f"paired {self.method}", bias)

    def _jackknife_precision(self, sampling: float, influence: Influence, monte_carlo: float) -> Precision:
        """Return the precision with Satterthwaite's degrees of freedom: G - 1, unless subsets or passes add noise."""
        noise = (
            2 * sampling**2 / (self.member.shape[1] - 1)
            + float(influence.variance_uncertainty[0]) ** 2
            + 2 * monte_carlo**2 / (len(self.full) - 1)
        )
        degrees_of_freedom = 2 * (sampling + monte_carlo) ** 2 / noise if noise > 0 else math.inf
        return Precision(sampling, monte_carlo, max(degrees_of_freedom, 1.0))

    def fixed_difference_precision(self, policy: int, influences: FloatArray) -> Precision:
        """Return the precision of the difference to a fixed policy, given the influences of events on its value."""
        bias = self.bias_estimate(policy)
        size = 0.0 if bias is None else bias.size
        if not self.member.size:
            return self._paired(self.influences.of_difference_to_fixed(policy, influences), size)
        # on a subset, the value of the fixed policy is off by the mean influence of the events in it
        subset = self.subset_values()[:, policy] - self.groups.means(influences, self.member)
        return self._paired_jackknife(subset, self.full_values()[:, policy], [])._replace(bias=size)

    def all_precisions(self) -> list[Precision]:
        """Return the precision of all values and of all differences."""
        n = len(self.full[0])
        pairs = combinations(range(n), 2)
        return [*map(self.precision, range(n)), *(self.difference_precision(a, b) for a, b in pairs)]

    def noise_share(self) -> float:
        """Return the largest share of Monte-Carlo noise in the subset estimates of values and differences."""
        subset = self.subset_values()
        differences = [(subset[:, a] - subset[:, b])[:, None] for a, b in combinations(range(subset.shape[1]), 2)]
        return max(group_influence(each, self.member).noise_share for each in (subset, *differences))

    def errors(self, policy: int) -> tuple[float, float]:
        """Return sampling error and Monte-Carlo error of one policy's value (nan if not known)."""
        if self.has_standard_errors:
            precision = self.precision(policy)
            return math.sqrt(precision.sampling), math.sqrt(precision.monte_carlo)
        values = self.full_values()[:, policy]
        return math.nan, float(values.std(ddof=1)) / math.sqrt(values.size) if values.size > 1 else math.nan

    def _curve_influences(self, policy: int, baseline: Baseline) -> CurveInfluences:
        """Return what full passes record of parts of one policy's curve, beside a baseline."""
        other = BaselineInfluences()
        if baseline.place is not None:
            other = self.influences.baseline_influences(policy, baseline.place)
        elif baseline.influences is not None:
            other = BaselineInfluences(fixed=baseline.influences / self.n_events)
        effective_events = self.influences.of_value(policy).effective_events
        return CurveInfluences(self.passes_of(policy), self.n_events, effective_events, other)

    def _subset_curves(self, policy: int, baseline: Baseline) -> SubsetCurves:
        """Return one policy's curves in full passes and on subsets, beside a baseline on the same subsets."""
        full, subset = (np.array([row[policy].curve for row in rows]) for rows in (self.full, self.subset))
        full_baselines, baselines = np.full(len(full), baseline.value), np.full(len(subset), baseline.value)
        if baseline.place is not None:
            full_baselines = self.full_values()[:, baseline.place]
            baselines = self.subset_values()[:, baseline.place]
        elif baseline.influences is not None:
            baselines = baselines + self.groups.means(baseline.influences, self.member)
        freedom = self.precision(policy).degrees_of_freedom
        return SubsetCurves(full, subset, self.member, block_edges(self.horizon), freedom, baselines, full_baselines)

    def gains(self, policy: int, baseline: Baseline, level: float) -> GainCurve:
        """Return what one policy earns more than a baseline, round by round."""
        if self.member.size:
            is_paired = baseline.place is not None or baseline.influences is not None
            return self._subset_curves(policy, baseline).gains(0.0 if is_paired else baseline.std_error**2, level)
        return gains_from_passes(self._curve_influences(policy, baseline), self.passes_of(policy), baseline, level)

    def _learning(self, policy: int, request: EvaluationRequest) -> tuple[BreakEven | None, AfterLearning | None]:
        """Return when a learning policy begins to earn more than the log did, and what it earns after learning."""
        log = request.log
        if not (self.has_standard_errors and request.pairs_with_log and isinstance(log, Log)):
            return None, None
        # of another outcome or a segment, more may be better or worse, and few events carry each round
        if not is_learning(request.policy) or log.columns.learned is not None:
            return None, None
        rewards = log.columns.rewards
        mean, error = float(rewards.mean()), float(rewards.std(ddof=1)) / math.sqrt(rewards.size)
        influences = rewards - mean if rewards.size == self.n_events else None
        baseline, level = Baseline(mean, error, is_log=True, influences=influences), request.level
        if self.member.size:
            subsets = self._subset_curves(policy, baseline)
            added = error**2 if influences is None else 0.0
            return find_break_even(subsets.gains(added, level), level, LOGGED), subsets.after_learning(level)
        passes = self.passes_of(policy)
        if passes[0].readings.size == 0:  # permutations read too few events per round
            return None, None
        own = self._curve_influences(policy, baseline)
        gains = gains_from_passes(own, passes, baseline, level)
        return find_break_even(gains, level, LOGGED), after_learning_from_passes(own, passes, level)

    def to_estimate(
        self, policy: int, request: EvaluationRequest, evaluator: str, diagnostics: Diagnostics
    ) -> Estimate:
        """Return the estimate of one policy."""
        value = float(self.values()[policy])
        error, interval, influences, groups, lift = math.nan, None, None, None, None
        bias = self.bias_estimate(policy)
        if self.has_standard_errors:
            # a model that is fitted on a part of the log leaves the rest for the passes
            if request.pairs_with_log and isinstance(request.log, Log) and len(request.log) == self.n_events:
                rewards = request.log.columns.rewards
                lift = self.fixed_difference_precision(policy, rewards - rewards.mean())
            if self.member.size:
                groups = value + group_pseudo_deviations(self.subset_values()[:, policy], self.member)
            else:
                influences = self.influences.event_influences(policy)
            precision = self.precision(policy)
            error = precision.std_error
            total = math.hypot(error, bias.size if bias is not None else 0.0)
            half_width = student_quantile(request.level, precision.degrees_of_freedom) * total
            ends = value - half_width, value + half_width
            interval = Interval(*ends, request.level, self.method, "independent", POLICY_VALUE)
        break_even, after_learning = self._learning(policy, request)
        return Estimate(
            value=value,
            std_error=error,
            interval=interval,
            diagnostics=diagnostics,
            policy=request.policy_name,
            evaluator=evaluator,
            curve=self._curve(policy, request.level),
            horizon=self.horizon,
            bias_estimate=bias,
            notes=self.notes,
            settings={"seed": request.seed, "level": request.level, "replicates": len(self.member) or len(self.full)},
            influences=influences,
            pass_values=self.full_values()[:, policy],
            group_values=groups,
            break_even=break_even,
            after_learning=after_learning,
            _lift_precision=lift,
        )

    def bias_estimate(self, policy: int) -> BiasEstimate | None:
        """Return the estimated bias of one policy's value due to filled rounds; None if no round was filled."""
        return estimate_bias(*self._bias_inputs(policy)) if self._is_filled(policy) else None

    def _difference_bias(self, a: int, b: int) -> float:
        """Return the size of the estimated bias of a difference, 0 if no round was filled or it is not known."""
        if not self._is_filled(a) and not self._is_filled(b):
            return 0.0
        bias = estimate_difference_bias(self._bias_inputs(a), self._bias_inputs(b))
        return 0.0 if bias is None else bias.size

    def _is_filled(self, policy: int) -> bool:
        """Return whether rounds of a policy were filled; without spreads the run ended before its bias was known."""
        return bool(self.reward_spreads) and any(row[policy].filled.size for row in self.full)

    def _bias_inputs(self, policy: int) -> tuple[list[PassResult], list[PassResult], float]:
        return self.passes_of(policy), [row[policy] for row in self.halves], self.reward_spreads[policy]

    def _curve(self, policy: int, level: float) -> LearningCurve:
        """Return the mean curve of the full passes, with the quantile of the interval and at least its error terms."""
        rounds = block_edges(self.horizon)[1:]
        full = np.array([result.curve for result in self.passes_of(policy)])
        value = full.mean(axis=0)
        if not self.has_standard_errors:
            return LearningCurve(rounds, value, value, value)
        precision = self.precision(policy)
        reading = np.array([result.curve_variance for result in self.passes_of(policy)])
        if self.member.size:
            subset = np.array([row[policy].curve for row in self.subset])
            sampling = np.diag(group_influence(subset, self.member).covariance)
            sampling = np.maximum(sampling, reading.mean(axis=0) if reading.size else 0.0)
        else:
            # the variance of reading a block, and the influence on it of events that become history
            terms = self.influences.of_value(policy)
            sampling = reading.mean(axis=0) + max(terms.sampling - terms.direct, 0.0)
        monte_carlo = full.var(axis=0, ddof=1) / len(full)
        half_width = student_quantile(level, precision.degrees_of_freedom) * np.sqrt(sampling + monte_carlo)
        return LearningCurve(rounds, value, value - half_width, value + half_width)
