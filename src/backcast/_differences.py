"""Differences of estimates: intervals of pairs and of lifts over a baseline, alone and simultaneous."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from backcast._arrays import FloatArray
from backcast.estimate import PAIRED_BY_EVENT, Difference, Estimate, Interval, Precision, student_quantile
from backcast.io.stream import LogStream
from backcast.log import Log

DIFFERENCE = "V_T(a) - V_T(b): what one policy earns more than the other per round, over the first T rounds"
LIFT = "V_T(a) - b: what the policy earns more than the baseline per round, over its first T rounds"
RELATIVE_LIFT = "V_T(a) / b - 1: what the policy earns more than the baseline, as a share of the baseline"
MARTINGALES = {"martingale", "asymptotic martingale"}
UNPAIRED = "errors added"
SIMULTANEOUS_DRAWS = 100_000  # normal vectors: the level of one interval in five is known to 1.4 % of its distance to 1
FEWEST_EXCEEDANCES = 500  # draws beyond the quantile below which it is not estimated, and Bonferroni is used


class Comparand(NamedTuple):
    """One side of a difference: its name, its estimate, and what one missed event would change."""

    name: str
    estimate: Estimate
    missed: float = 0.0

    @property
    def largest_freedom(self) -> float:
        """Degrees of freedom that the effective sample size allows."""
        return float(self.estimate.diagnostics.to_dict().get("effective_sample_size", math.inf)) - 1


def comparand(name: str, estimate: Estimate, log: Log | LogStream) -> Comparand:
    """Return one side of a difference."""
    bounds = log.reward_bounds if isinstance(log, Log) else log.reward_range
    return Comparand(name, estimate, missed_event(estimate, bounds))


def missed_event(estimate: Estimate, bounds: Sequence[float] | None) -> float:
    """Return by how much one event that the log may have missed would change a weighted estimate; 0 without weights.

    The event has the weight that the policy meets on average, ``sum w^2 / sum w``, and a residual as large as the
    reward range, as in :class:`backcast.AdjustedStudent`.
    """
    diagnostics = estimate.diagnostics.to_dict()
    size = diagnostics.get("effective_sample_size", 0.0)
    if size == 0 or bounds is None:
        return 0.0
    # n of the mean and n of the weight cancel
    return float(diagnostics.get("mean_weight", 1.0) / size * (bounds[1] - bounds[0]))


def make_difference(
    first: Comparand, second: Comparand, precision: Precision, level: float, own_level: float, log: Log | LogStream
) -> Difference:
    """Return the first minus the second with an interval at ``own_level``, as one of several that hold at ``level``."""
    a, b = first.estimate, second.estimate
    value, error = float(a.value - b.value), precision.std_error
    freedom = max(min(precision.degrees_of_freedom, first.largest_freedom, second.largest_freedom), 1.0)
    imagined = max(first.missed, second.missed)
    half_width = imagined + student_quantile(own_level, freedom) * math.hypot(error, imagined, precision.bias)
    widest = math.inf if log.reward_range is None else float(np.ptp(log.reward_range))
    ends = max(value - half_width, -widest), min(value + half_width, widest)
    # valid for loggers that learn if each of the estimates is
    assumptions = {"" if each.interval is None else each.interval.assumption for each in (a, b)}
    assumption = "asymptotic martingale" if assumptions <= MARTINGALES else "independent"
    interval = Interval(*ends, level, precision.method, assumption, DIFFERENCE)
    return Difference(first.name, second.name, value, error, interval, math.sqrt(precision.monte_carlo), freedom)


def make_lift(
    policy: Comparand, baseline: Comparand, precision: Precision, level: float, own_level: float, log: Log | LogStream
) -> Difference:
    """Return the difference to a baseline, absolute and relative.

    The relative interval is Fieller's: all shares s for which ``V - (1 + s) b`` does not differ from 0. Its variance
    follows from those of V, b and V - b.
    """
    difference = make_difference(policy, baseline, precision, level, own_level, log)
    policy_assumption = policy.estimate.interval.assumption if policy.estimate.interval is not None else ""
    assumption = "asymptotic martingale" if policy_assumption in MARTINGALES else "independent"
    interval = replace(difference.interval, estimand=LIFT, assumption=assumption)
    difference = replace(difference, interval=interval)
    value, base = difference.value, baseline.estimate.value
    half_width = max(interval.high - value, value - interval.low)
    quantile = student_quantile(own_level, difference.degrees_of_freedom)
    base_variance = baseline.estimate.std_error**2
    covariance = (policy.estimate.std_error**2 - base_variance - difference.std_error**2) / 2
    largest = baseline.estimate.std_error * difference.std_error
    covariance = min(max(covariance, -largest), largest)  # the three variances are estimated separately
    a = base**2 - quantile**2 * base_variance
    if not (base > 0 and a > 0):
        return difference
    b, c = base * value - quantile**2 * covariance, value**2 - half_width**2
    root = math.sqrt(max(b**2 - a * c, 0.0))
    relative = Interval((b - root) / a, (b + root) / a, level, f"{interval.method}, Fieller", assumption, RELATIVE_LIFT)
    return replace(difference, relative=value / base, relative_interval=relative)


def lift_precision(estimate: Estimate, baseline: Estimate, log: Log | LogStream) -> Precision:
    """Return how precise the value minus the mean of the logged rewards is, by what the evaluator knows of events."""
    if estimate.diagnostics.events == baseline.diagnostics.events:
        if estimate._lift_precision is not None:
            return estimate._lift_precision
        if estimate.influences is not None and isinstance(log, Log) and estimate.influences.size == len(log):
            influences = estimate.influences - (log.columns.rewards - baseline.value)
            return Precision(float(influences.var(ddof=1)) / influences.size, 0.0, math.inf, PAIRED_BY_EVENT)
    return Precision(estimate.std_error**2 + baseline.std_error**2, 0.0, math.inf, UNPAIRED)


def covariance_of_differences(errors: FloatArray, pair_errors: FloatArray) -> FloatArray:
    """Covariance of differences to one baseline, from their standard errors and those of all pairs of policies.

    ``cov(A - b, B - b) = (var(A - b) + var(B - b) - var(A - B)) / 2``.

    >>> covariance_of_differences(np.array([1.0, 1.0]), np.array([[0.0, 1.0], [1.0, 0.0]]))
    array([[1. , 0.5],
           [0.5, 1. ]])
    """
    variances = errors**2
    return np.asarray((variances[:, None] + variances[None, :] - pair_errors**2) / 2)


def simultaneous_level(covariance: FloatArray, level: float) -> float:
    """Level of each of several intervals such that all hold together: comparison with a control (Dunnett 1955).

    The smallest of the p-values of correlated normal variables is simulated with a fixed seed. Each interval keeps the
    degrees of freedom of its own standard error; a common error would only make the variables more dependent. The
    level lies between that of one interval and Bonferroni's.

    >>> simultaneous_level(np.array([[2.0]]), 0.95)
    0.95
    >>> round(simultaneous_level(np.ones((2, 2)), 0.95), 3), round(simultaneous_level(np.eye(2), 0.95), 3)
    (0.95, 0.975)

    By hand: two variables that are the same count as one; two that are independent both hold with probability .9747
    squared (Sidak).
    """
    n, error_rate = len(covariance), 1 - level
    if n == 1:
        return level
    bonferroni = 1 - error_rate / n
    if error_rate * SIMULTANEOUS_DRAWS < FEWEST_EXCEEDANCES:
        return bonferroni
    from scipy.special import ndtr

    scales = np.sqrt(np.diag(covariance))
    scales = np.where(scales > 0, scales, 1.0)
    eigenvalues, vectors = np.linalg.eigh(covariance / np.outer(scales, scales))
    root = vectors * np.sqrt(np.maximum(eigenvalues, 0.0))
    # a vector that the estimated covariance makes too short would be too narrow: each variance is 1, or 0
    lengths = np.linalg.norm(root, axis=1, keepdims=True)
    root = np.divide(root, lengths, out=np.zeros_like(root), where=lengths > 0)
    draws = np.random.default_rng(0).standard_normal((SIMULTANEOUS_DRAWS, n)) @ root.T
    largest = float(np.quantile(np.abs(draws).max(axis=1), level))
    return float(np.clip(2 * ndtr(largest) - 1, level, bonferroni))
