"""Intervals for learning policies: group jackknife, anytime-valid, Theorem 2 of the paper, and disjoint segments.

The spread over permutations of one log is only Monte-Carlo noise; it does not estimate the error over logs and is never
reported as a standard error. Leaving groups of events out does: the change of the estimate is the group's influence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from scipy import special

from backcast._arrays import FloatArray
from backcast._validation import at_least, count
from backcast.errors import OptionError
from backcast.estimate import BiasEstimate, Estimate, Interval, student_quantile


@runtime_checkable
class ResultInterval(Protocol):
    """An interval from what an estimate keeps of events, passes and groups: for every evaluator, fixed and learning.

    ``evaluate(..., interval=...)`` calls it with the finished estimate. An attribute ``uses``, if there is one, is the
    interval that the evaluator itself is asked for: ``GroupJackknife()`` for ``group_values``, and so on.
    """

    def interval_from(self, estimate: Estimate, level: float) -> Interval:
        """Return both ends with their method, assumption and estimand."""
        ...


@dataclass(frozen=True)
class GroupJackknife:
    """Interval for V_T(pi) of a learning policy: the value from the whole log, the error from subsets of groups.

    Assumption: independent (an exchangeable log). Estimand: V_T(pi).

    Parameters
    ----------
    groups
        Number of random groups that the log is divided into.
    groups_per_subset
        Groups in each replicate; None uses a quarter, or more if the horizon needs it.

    Examples
    --------
    >>> GroupJackknife().groups
    30
    """

    groups: int = 30
    groups_per_subset: int | None = None

    def __post_init__(self) -> None:
        count("groups", self.groups, 10)
        if self.groups_per_subset is not None:
            count("groups_per_subset", self.groups_per_subset, 1)
            if self.groups_per_subset >= self.groups:
                raise OptionError(
                    f"groups_per_subset is {self.groups_per_subset}; it must be smaller than groups, which is "
                    f"{self.groups}"
                )


@dataclass(frozen=True)
class InfinitesimalJackknife:
    """Interval for V_T(pi) of a learning policy from full passes; the default of ``ClockReplay`` and permuted ``DRns``.

    The influence of each event on the value, by being read and by becoming history, is recorded in the passes. Nothing
    is run on parts of the log, so it costs no more than the value, and no pass is left out.

    Assumption: independent (an exchangeable log). Estimand: V_T(pi).

    Examples
    --------
    >>> InfinitesimalJackknife()
    InfinitesimalJackknife()
    """


class Influence(NamedTuple):
    """Covariance of the estimates over logs, from which the Monte-Carlo noise has been subtracted.

    ``noise_share`` is the share of that noise in the uncorrected variance, ``variance_uncertainty`` the standard
    deviation of each variance due to subtracting the mean of the noise instead of the noise itself.
    """

    covariance: FloatArray
    noise_share: float
    variance_uncertainty: FloatArray


def group_influence(estimates: FloatArray, member: FloatArray) -> Influence:
    """Covariance over logs of m quantities, ``(B, m)``, from B replicates on subsets of groups, ``(B, G)``.

    With ``N_bg`` in {0, 1} the presence of group g in replicate b, s groups of G in each of B replicates,
    ``C_g = mean_b (N_bg - s/G)(theta_b - mean theta)`` and v the covariance of the replicates, the covariance is
    ``(G-1)/G (G/(G-s))^2 [sum_g C_g C_g' - s(G-s)/G v/B]`` (docs/theory.md, "Group infinitesimal jackknife": Wager
    and Athey 2018, for subsampling without replacement, on groups of events). The subtracted term is the mean of the
    noise; the noise is a sum of G squares with G - 1 degrees of freedom, so its standard deviation is
    ``sqrt(2 / (G-1))`` of its mean.

    Two groups, one at a time, worth 0 and 1: the mean of both has variance 1/4 around it, up to (G-1)/G.

    >>> influence = group_influence(np.array([[0.0], [1.0]] * 50), np.array([[1.0, 0.0], [0.0, 1.0]] * 50))
    >>> round(float(influence.covariance[0, 0]), 3)
    0.247
    """
    B, G = member.shape
    s = member[0].sum()
    centred = estimates - estimates.mean(axis=0)
    C = (member - s / G).T @ centred / B
    noise = s * (G - s) / G * (centred.T @ centred) / B**2  # s(G-s)/G v/B
    raw = C.T @ C  # sum_g C_g C_g'
    scale = (G - 1) / G * (G / (G - s)) ** 2
    noise_share = float(np.trace(noise) / max(np.trace(raw), np.finfo(float).tiny))
    variance_uncertainty = scale * np.diag(noise) * np.sqrt(2 / (G - 1))
    return Influence(np.asarray(scale * (raw - noise)), noise_share, np.asarray(variance_uncertainty))


def group_pseudo_deviations(estimates: FloatArray, member: FloatArray) -> FloatArray:
    """Deviations from the value of the pseudo-values of G groups (Tukey 1958), from B replicates on subsets.

    With ``C_g`` as in :func:`group_influence`, they are ``(G-1) G/(G-s) C_g``: their standard deviation over the root
    of G is the standard error, before the Monte-Carlo noise of the replicates is subtracted.

    >>> group_pseudo_deviations(np.array([0.0, 1.0]), np.array([[1.0, 0.0], [0.0, 1.0]]))
    array([-0.5,  0.5])

    By hand: one of two groups at a time, worth 0 and 1; their mean is 1/2, with the standard error 1/2.
    """
    B, G = member.shape
    s = member[0].sum()
    C = (member - s / G).T @ (estimates - estimates.mean()) / B
    return np.asarray((G - 1) * G / (G - s) * C)


@dataclass(frozen=True)
class Anytime:
    """Anytime-valid empirical Bernstein interval for V(pi_PV) of a single run.

    Assumption: martingale: any log order, any logger that does not look ahead, any stopping time; rewards within the
    declared range. Estimand: V(pi_PV).

    Parameters
    ----------
    largest_weight
        A known bound on ``pi/p``; None uses one over the smallest propensity of the log.
    rho
        Scaled variation at which the boundary is tightest; must be chosen without looking at the log.

    Examples
    --------
    >>> low, high = Anytime().ends(reward=50.0, weight=100.0, variation=25.0, scale=1.0, level=0.95)
    >>> round((low + high) / 2, 6), round(high - low, 2)
    (0.5, 0.39)
    """

    largest_weight: float | None = None
    rho: float = 1.0

    def __post_init__(self) -> None:
        at_least("rho", self.rho, 0.0, strict=True)
        if self.largest_weight is not None:
            at_least("largest_weight", self.largest_weight, 0.0, strict=True)

    def ends(self, reward: float, weight: float, variation: float, scale: float, level: float) -> tuple[float, float]:
        """Return both ends, given ``sum c R``, ``sum c``, ``sum (c R - c mean)^2`` and the bound on one step."""
        half_width = scale * mixture_boundary(variation / scale**2, self.rho, (1 - level) / 2)
        return (reward - half_width) / weight, (reward + half_width) / weight


def log_mixture(deviation: float, variation: float, rho: float) -> float:
    """Logarithm of the gamma-exponential mixture supermartingale at ``S = deviation``, ``V = variation``.

    ``s + v + rho log rho - (v+rho) log(s+v+rho) + log g(v+rho, s+v+rho) - log g(rho, rho)``, where g is the lower
    incomplete gamma function (Howard et al. 2021, Proposition 9).

    >>> round(log_mixture(0.0, 0.0, 1.0), 12)
    0.0
    """
    shape, argument = variation + rho, deviation + variation + rho
    return (
        deviation
        + variation
        + rho * math.log(rho)
        - shape * math.log(argument)
        + _log_lower_gamma(shape, argument)
        - _log_lower_gamma(rho, rho)
    )


def _log_lower_gamma(shape: float, argument: float) -> float:
    return float(special.gammaln(shape) + math.log(special.gammainc(shape, argument)))


def mixture_boundary(variation: float, rho: float, alpha: float) -> float:
    """The deviation that is ever exceeded with probability at most ``alpha``.

    >>> boundary = mixture_boundary(variation=10.0, rho=1.0, alpha=0.05)
    >>> round(math.exp(-log_mixture(boundary, 10.0, 1.0)), 6)
    0.05
    """
    from scipy.optimize import brentq

    goal = math.log(1 / alpha)
    high = 1.0
    while log_mixture(high, variation, rho) < goal:
        high *= 2
    return float(brentq(lambda s: log_mixture(s, variation, rho) - goal, 0.0, high, xtol=1e-10))


@dataclass(frozen=True)
class TheoremTwo:
    """The paper's bound on ``|R/C - V(pi_PV)|`` for a single run; conservative.

    Assumption: martingale (any logger that does not look ahead). Estimand: V(pi_PV).

    Parameters
    ----------
    largest_weight
        The bound M on ``pi/mu``; None uses one over the smallest propensity of the log.

    Examples
    --------
    >>> TheoremTwo(largest_weight=4.0)
    TheoremTwo(largest_weight=4.0)
    """

    largest_weight: float | None = None

    def __post_init__(self) -> None:
        if self.largest_weight is not None:
            at_least("largest_weight", self.largest_weight, 0.0, strict=True)


def deviation_bound(events: int, weight: float, c_max: float, largest_weight: float, delta: float) -> float:
    """``(n c_max / C) 2 max{(1+M) ln(2/delta)/n, sqrt((3+M) ln(2/delta)/n)}`` (Dudik et al. 2012, Theorem 2).

    >>> round(deviation_bound(events=100, weight=50.0, c_max=1.0, largest_weight=1.0, delta=2 / math.e), 6)
    0.8

    By hand: n c_max / C = 2, and max{2/100, sqrt(4/100)} = 0.2.
    """
    log_term = math.log(2 / delta)
    inner = max((1 + largest_weight) * log_term / events, math.sqrt((3 + largest_weight) * log_term / events))
    return events * c_max / weight * 2 * inner


@dataclass(frozen=True)
class Segments:
    """Divide the log into ``count`` disjoint contiguous segments, evaluate each; Student's t interval over the values.

    Assumption: independent (segments of an i.i.d. log), or time-ordered logs whose segments are nearly so.
    Estimand: V_T(pi). Conservative: each segment has only a part of the log.

    The log is never evaluated as a whole: the value is the mean over the segments, and so is the curve, with a band of
    Student's t; the diagnostics of the segments are combined, counts added. Segments run in parallel by ``n_jobs``.

    Examples
    --------
    >>> from backcast.evaluation import evaluate
    >>> from backcast.evaluators import IPS
    >>> from backcast.log import Log
    >>> from backcast.policies.fixed import Fixed
    >>> log = Log(None, actions=[0, 1, 0, 1], rewards=[1, 1, 0, 1], propensities=[0.5] * 4)
    >>> evaluate(log, Fixed([0.5, 0.5]), IPS(), interval=Segments(2)).std_error
    0.25

    By hand: the halves of the log have values 1 and 1/2, whose mean has the standard error 1/4.
    """

    count: int = 10

    def __post_init__(self) -> None:
        count("count", self.count, 2)


def student_interval(values: FloatArray, level: float) -> tuple[float, float, float]:
    """Standard error of the mean of independent values, and both ends ``mean ± t_{m-1} s / sqrt(m)``.

    >>> error, low, high = student_interval(np.array([1.0, 2.0]), level=0.5)
    >>> round(error, 6), round(low, 6), round(high, 6)
    (0.5, 1.0, 2.0)

    By hand: s = sqrt(1/2), divided by sqrt(2) is 1/2, and Student's quartile with 1 degree of freedom is 1.
    """
    m = values.size
    error = float(values.std(ddof=1)) / math.sqrt(m)
    half_width = student_quantile(level, m - 1) * error
    mean = float(values.mean())
    return error, mean - half_width, mean + half_width


def widen_student(interval: Interval, error: float, bias: BiasEstimate, degrees_of_freedom: float) -> Interval:
    """Return Student's interval about the same centre for the standard error and the size of a bias together.

    >>> interval = Interval(-3.0, 3.0, 0.5, "Student", "independent", "V_T")
    >>> widened = widen_student(interval, 3.0, BiasEstimate(4.0, 1.0, "more filled rounds"), 1)
    >>> round(widened.low, 6), round(widened.high, 6)
    (-5.0, 5.0)

    By hand: Student's quartile with 1 degree of freedom is 1, and the root of 9 + 16 is 5.
    """
    added = student_quantile(interval.level, degrees_of_freedom) * (math.hypot(error, bias.size) - error)
    return replace(interval, low=interval.low - added, high=interval.high + added)
