"""What a learning policy earns more than a baseline, round by round, and after learning: for break-even rounds.

Three sources of errors over logs: what full passes record, passes over subsets of groups, and disjoint parts of a log.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from backcast._arrays import FloatArray, IntArray
from backcast.break_even import GainCurve, find_break_even
from backcast.estimate import END_POLICY, LAST_ROUNDS, AfterLearning, Estimate, Interval, Precision, student_quantile
from backcast.evaluators._curve_influences import CurveInfluences
from backcast.evaluators._passes import PassResult, fine_edges
from backcast.intervals.learning import group_influence, student_interval

LEARNED_FROM = 0.8  # share of the rounds after which a policy counts as having learned


class Baseline(NamedTuple):
    """What a curve is compared with: the log (``is_log``), or a policy.

    ``place`` is the number of a policy that was run in the same passes, ``influences`` are those of the events on the
    value otherwise. Without either, the errors of both are added.
    """

    value: float
    std_error: float
    is_log: bool = False
    place: int | None = None
    influences: FloatArray | None = None


def rebase_break_even(
    estimates: Mapping[str, Estimate], places: Mapping[str, int], passes: Any, name: str, level: float
) -> dict[str, Estimate]:
    """Return the estimates with break-even rounds relative to one of the policies instead of the log.

    ``places`` are the numbers of the policies in ``passes``; others have no break-even round then.
    """
    other = estimates[name]
    influences = other.influences
    if influences is not None and influences.size != getattr(passes, "n_events", None):
        influences = None
    baseline = Baseline(other.value, other.std_error, place=places.get(name), influences=influences)
    rebased = {}
    for key, estimate in estimates.items():
        found = None
        if estimate.break_even is not None and key in places and key != name and math.isfinite(other.std_error):
            found = find_break_even(passes.gains(places[key], baseline, level), level, name)
        rebased[key] = replace(estimate, break_even=found)
    return rebased


def gains_from_passes(
    influences: CurveInfluences, passes: Sequence[PassResult], baseline: Baseline, level: float
) -> GainCurve:
    """Return gains over a baseline with the standard errors of weighted means of the curve."""
    curves, edges = np.array([result.fine_curve for result in passes]), fine_edges(passes[0].rounds)
    means = running_means(curves, edges)
    added = baseline.std_error**2 if baseline.place is None and baseline.influences is None else 0.0
    blocks = _half_widths(influences, block_weights(edges, influences.edges), curves, added, level)
    prefixes = _half_widths(influences, prefix_weights(edges, influences.edges), means, added, level)
    return GainCurve(edges, curves.mean(axis=0) - baseline.value, blocks, means.mean(axis=0) - baseline.value, prefixes)


def _half_widths(
    influences: CurveInfluences, weights: FloatArray, values: FloatArray, added: float, level: float
) -> FloatArray:
    half_widths = []
    for own_weights, own_values in zip(weights, values.T, strict=True):
        precision = influences.precision(own_weights, own_values)
        quantile = student_quantile(level, precision.degrees_of_freedom)
        half_widths.append(quantile * math.hypot(precision.std_error, math.sqrt(added)))
    return np.array(half_widths)


def block_weights(edges: IntArray, bin_edges: IntArray) -> FloatArray:
    """Return weights of bins, ``(blocks, J)``, that interpolate the curve between the middles of bins.

    >>> block_weights(np.array([0, 2, 4, 6, 8]), np.array([0, 4, 8]))
    array([[1.  , 0.  ],
           [0.75, 0.25],
           [0.25, 0.75],
           [0.  , 1.  ]])
    """
    middles, bin_middles = ((each[:-1] + each[1:]) / 2 for each in (edges, bin_edges))
    return np.array([np.interp(middles, bin_middles, row) for row in np.eye(bin_middles.size)]).T


def prefix_weights(edges: IntArray, bin_edges: IntArray) -> FloatArray:
    """Return weights of bins, ``(blocks, J)``, in the mean over all rounds up to the end of each block.

    >>> prefix_weights(np.array([0, 2, 8]), np.array([0, 4, 8]))
    array([[1. , 0. ],
           [0.5, 0.5]])
    """
    ends = edges[1:, None]
    return np.asarray(np.clip(ends - bin_edges[:-1], 0, np.diff(bin_edges)) / ends)


def running_means(curves: FloatArray, edges: IntArray) -> FloatArray:
    """Return the means over all rounds up to the end of each block, from the means of blocks ``(..., blocks)``.

    >>> running_means(np.array([1.0, 4.0]), np.array([0, 2, 3]))
    array([1., 2.])
    """
    return np.asarray(np.cumsum(curves * np.diff(edges), axis=-1) / edges[1:])


def learned_from(edges: IntArray) -> int:
    """Return the first block of the last fifth of the rounds.

    >>> learned_from(np.array([0, 4, 8, 10])), learned_from(np.array([0, 1]))
    (2, 0)
    """
    return min(int(np.searchsorted(edges, LEARNED_FROM * edges[-1])), edges.size - 2)


def stretch_means(curves: FloatArray, edges: IntArray) -> FloatArray:
    """Return the means over the last fifth of the rounds, from the means of blocks ``(..., blocks)``."""
    start = learned_from(edges)
    lengths = np.diff(edges)[start:]
    return np.asarray(curves[..., start:] @ lengths / lengths.sum())


def after_learning_from_passes(
    influences: CurveInfluences, passes: Sequence[PassResult], level: float
) -> AfterLearning:
    """Return the values after learning with their standard errors."""
    edges = fine_edges(passes[0].rounds)
    start = edges[learned_from(edges)]
    last = stretch_means(np.array([result.fine_curve for result in passes]), edges)
    ends = np.array([result.end_value for result in passes])
    # rounds of bins after the start
    kept = np.minimum(np.diff(influences.edges), np.maximum(influences.edges[1:] - start, 0))
    at_end = np.append(np.zeros(influences.edges.size - 2), 1.0)
    return make_after_learning(
        int(start) + 1,
        (float(last.mean()), influences.precision(kept / kept.sum(), last, less_baseline=False)),
        (float(ends.mean()), influences.precision(at_end, ends, less_baseline=False)),
        level,
        "infinitesimal jackknife",
    )


def make_after_learning(
    first_round: int,
    last: tuple[float, Precision],
    end: tuple[float, Precision] | None,
    level: float,
    method: str,
) -> AfterLearning:
    """Return values with Student's intervals."""

    def interval(value: float, precision: Precision, estimand: str) -> Interval:
        half_width = student_quantile(level, precision.degrees_of_freedom) * precision.std_error
        return Interval(value - half_width, value + half_width, level, method, "independent", estimand)

    stretch = AfterLearning(first_round, last[0], last[1].std_error, interval(*last, LAST_ROUNDS))
    if end is None or math.isnan(end[0]):
        return stretch
    return AfterLearning(
        first_round,
        stretch.value,
        stretch.std_error,
        stretch.interval,
        end[0],
        end[1].std_error,
        interval(*end, END_POLICY),
    )


def independent_gains(
    curves: FloatArray, edges: IntArray, baselines: FloatArray, added: float, level: float
) -> GainCurve:
    """Return gains from the curves of disjoint parts ``(G, blocks)``, less the baseline of each part.

    ``added`` is the variance of a baseline whose error is not part of the parts' differences.
    """
    gains = curves - baselines[:, None]
    quantile = student_quantile(level, len(gains) - 1)
    columns = []
    for values in (gains, running_means(gains, edges)):
        errors = np.sqrt(values.var(axis=0, ddof=1) / len(values) + added)
        columns += [values.mean(axis=0), quantile * errors]
    return GainCurve(edges, *columns)


def independent_after_learning(
    curves: FloatArray, edges: IntArray, ends: FloatArray | None, level: float, method: str
) -> AfterLearning:
    """Return values after learning from the curves of disjoint parts, and their values in the last round, if known."""

    def precise(values: FloatArray) -> tuple[float, Precision]:
        error, _, _ = student_interval(values, level)
        return float(values.mean()), Precision(error**2, 0.0, len(values) - 1)

    first_round = int(edges[learned_from(edges)]) + 1
    end = None if ends is None else precise(ends)
    return make_after_learning(first_round, precise(stretch_means(curves, edges)), end, level, method)


class SubsetCurves(NamedTuple):
    """Curves of full passes ``(F, blocks)`` and of subset replicates ``(B, blocks)`` with membership ``(B, G)``.

    ``baselines`` are those of the subsets ``(B,)``, or one number; ``full_baselines`` those of the full passes.
    """

    full: FloatArray
    subset: FloatArray
    member: FloatArray
    edges: IntArray
    degrees_of_freedom: float
    baselines: FloatArray
    full_baselines: FloatArray

    def gains(self, added: float, level: float) -> GainCurve:
        """Return gains with errors by the group jackknife."""
        full, subset = self.full - self.full_baselines[:, None], self.subset - self.baselines[:, None]
        columns = []
        for passes, replicates in (
            (full, subset),
            (running_means(full, self.edges), running_means(subset, self.edges)),
        ):
            errors = np.sqrt(self._variances(passes, replicates) + added)
            columns += [passes.mean(axis=0), student_quantile(level, self.degrees_of_freedom) * errors]
        return GainCurve(self.edges, *columns)

    def after_learning(self, level: float) -> AfterLearning:
        """Return the mean over the last rounds; subsets do not keep the value of the last round."""
        passes, replicates = (stretch_means(each, self.edges)[:, None] for each in (self.full, self.subset))
        variance = float(self._variances(passes, replicates)[0])
        last = float(passes.mean()), Precision(variance, 0.0, self.degrees_of_freedom)
        first_round = int(self.edges[learned_from(self.edges)]) + 1
        return make_after_learning(first_round, last, None, level, "group jackknife")

    def _variances(self, passes: FloatArray, replicates: FloatArray) -> FloatArray:
        """Return variances over logs, with the uncertainty of the subtracted noise, and of Monte Carlo."""
        influence = group_influence(replicates, self.member)
        sampling = np.maximum(np.diag(influence.covariance) + influence.variance_uncertainty, 0.0)
        return np.asarray(sampling + passes.var(axis=0, ddof=1) / len(passes))
