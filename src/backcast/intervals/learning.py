"""Standard errors for a learning policy: the infinitesimal jackknife over groups of the log.

Spread over permutations of one log is only Monte-Carlo noise: it says nothing of another log, and is never offered as
a standard error. Leaving groups out does: how the estimate moves with each group's presence is its influence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import optimize, special, stats

from backcast._arrays import FloatArray
from backcast._validation import at_least, count


class Influence(NamedTuple):
    """Covariance of the estimates over logs, and how much of its raw figure was Monte-Carlo noise (taken off).

    ``doubt`` is how far the variances may be off because that noise was taken off by its mean, as a standard deviation.
    """

    covariance: FloatArray
    noise_share: float
    doubt: FloatArray


def group_influence(estimates: FloatArray, member: FloatArray) -> Influence:
    """Covariance over logs from replicates on subsets of groups.

    With ``N_bg`` in {0, 1} the presence of group g in replicate b, s groups of G in each, and
    ``C_g = mean_b (N_bg - s/G)(theta_b - mean theta)``, the covariance is
    ``(G-1)/G (G/(G-s))^2 [sum_g C_g C_g' - s(G-s)/G v/B]``, where v is the covariance of the replicates (infinitesimal
    jackknife for subsampling without replacement, Wager & Athey 2018, on groups of events). What is taken off is the
    mean of the noise; the noise itself is a sum of G squares with G - 1 degrees of freedom, so it strays from its mean
    by ``sqrt(2 / (G-1))`` of it.

    Parameters
    ----------
    estimates
        ``(B, m)``: m quantities in each of B replicates.
    member
        ``(B, G)``: which groups were in which replicate.

    Examples
    --------
    Two groups, one at a time, worth 0 and 1: the mean of both has variance 1/4 around it, up to (G-1)/G.

    >>> found = group_influence(np.array([[0.0], [1.0]] * 50), np.array([[1.0, 0.0], [0.0, 1.0]] * 50))
    >>> round(float(found.covariance[0, 0]), 3)
    0.247
    """
    replicates, groups = member.shape
    taken = member[0].sum()
    centred = estimates - estimates.mean(axis=0)
    pull = (member - taken / groups).T @ centred / replicates
    scale = (groups - 1) / groups * (groups / (groups - taken)) ** 2
    noise = taken * (groups - taken) / groups * (centred.T @ centred) / replicates**2
    raw = pull.T @ pull
    share = float(np.trace(noise) / max(np.trace(raw), np.finfo(float).tiny))
    doubt = scale * np.diag(noise) * np.sqrt(2 / (groups - 1))
    return Influence(np.asarray(scale * (raw - noise)), share, np.asarray(doubt))


@dataclass(frozen=True)
class GroupJackknife:
    """Interval for V_T(pi) of a learning policy: the value from the whole log, the error from subsets of groups.

    Assumption: independent (an exchangeable log). Estimand: V_T(pi).

    Parameters
    ----------
    groups
        Random groups the log is cut into.
    taken
        Groups in each replicate; None takes a quarter, more where the horizon needs it.

    Examples
    --------
    >>> GroupJackknife().groups
    30
    """

    groups: int = 30
    taken: int | None = None

    def __post_init__(self) -> None:
        count("groups", self.groups, 10)
        if self.taken is not None:
            count("taken", self.taken, 1)


def log_mixture(deviation: float, variation: float, rho: float) -> float:
    """Logarithm of the gamma-exponential mixture supermartingale at ``S = deviation``, ``V = variation``.

    ``s + v + rho log rho - (v+rho) log(s+v+rho) + log g(v+rho, s+v+rho) - log g(rho, rho)``, where g is the lower
    incomplete gamma function (Howard et al. 2021, Proposition 9).

    >>> round(log_mixture(0.0, 0.0, 1.0), 12)
    0.0
    """
    shape, reach = variation + rho, deviation + variation + rho
    return (
        deviation
        + variation
        + rho * math.log(rho)
        - shape * math.log(reach)
        + _log_lower_gamma(shape, reach)
        - _log_lower_gamma(rho, rho)
    )


def _log_lower_gamma(shape: float, reach: float) -> float:
    return float(special.gammaln(shape) + math.log(special.gammainc(shape, reach)))


def mixture_boundary(variation: float, rho: float, alpha: float) -> float:
    """The deviation that is exceeded, ever, with probability at most ``alpha``.

    >>> boundary = mixture_boundary(variation=10.0, rho=1.0, alpha=0.05)
    >>> round(math.exp(-log_mixture(boundary, 10.0, 1.0)), 6)
    0.05
    """
    goal = math.log(1 / alpha)
    high = 1.0
    while log_mixture(high, variation, rho) < goal:
        high *= 2
    return float(optimize.brentq(lambda s: log_mixture(s, variation, rho) - goal, 0.0, high, xtol=1e-10))


@dataclass(frozen=True)
class Anytime:
    """Anytime-valid empirical Bernstein interval for V(pi_PV) of a single run.

    Assumption: martingale: any log order, any logger that does not look ahead, any stopping time; rewards within the
    declared range. Estimand: V(pi_PV).

    Parameters
    ----------
    largest_weight
        A known bound on ``pi/p``; None takes one over the smallest propensity of the log.
    rho
        Where the boundary is tightest, in units of scaled variation; fixed before looking at the log.

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
        """The two ends from ``sum c R``, ``sum c``, ``sum (c R - c mean)^2`` and the bound on one step."""
        reach = scale * mixture_boundary(variation / scale**2, self.rho, (1 - level) / 2)
        return (reward - reach) / weight, (reward + reach) / weight


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
class TheoremTwo:
    """The paper's own bound on ``|R/C - V(pi_PV)|`` for a single run; conservative.

    Assumption: martingale (any logger that does not look ahead). Estimand: V(pi_PV).

    Parameters
    ----------
    largest_weight
        The bound M on ``pi/mu``; None takes one over the smallest propensity of the log.

    Examples
    --------
    >>> TheoremTwo(largest_weight=4.0)
    TheoremTwo(largest_weight=4.0)
    """

    largest_weight: float | None = None

    def __post_init__(self) -> None:
        if self.largest_weight is not None:
            at_least("largest_weight", self.largest_weight, 0.0, strict=True)


def student_interval(values: FloatArray, level: float) -> tuple[float, float, float]:
    """Standard error of the mean of independent values, and the two ends ``mean -+ t_{m-1} s / sqrt(m)``.

    >>> import numpy as np
    >>> error, low, high = student_interval(np.array([1.0, 2.0]), level=0.5)
    >>> round(error, 6), round(low, 6), round(high, 6)
    (0.5, 1.0, 2.0)

    By hand: s = sqrt(1/2), over sqrt(2) is 1/2, and Student's quartile with 1 degree of freedom is 1.
    """
    m = values.size
    error = float(values.std(ddof=1)) / math.sqrt(m)
    reach = float(stats.t.ppf((1 + level) / 2, m - 1)) * error
    mean = float(values.mean())
    return error, mean - reach, mean + reach


@dataclass(frozen=True)
class Segments:
    """Cut the log into ``count`` disjoint contiguous segments, evaluate each by itself, and let them vote.

    Assumption: independent (segments of an i.i.d. log), or time-ordered logs whose segments are nearly so.
    Estimand: V_T(pi). Conservative: each segment has only a part of the log.

    Nothing is asked of the log as a whole: the value is the mean over the segments, and so is the curve, with a band of
    Student's t; the diagnostics are theirs joined, counts added up. Segments are shared out by ``n_jobs``.

    Examples
    --------
    >>> from backcast.evaluation import evaluate
    >>> from backcast.evaluators import IPS
    >>> from backcast.log import Log
    >>> from backcast.policies.fixed import Fixed
    >>> log = Log(None, actions=[0, 1, 0, 1], rewards=[1, 1, 0, 1], propensities=[0.5] * 4)
    >>> evaluate(log, Fixed([0.5, 0.5]), IPS(), interval=Segments(2)).std_error
    0.25

    By hand: the halves of the log are worth 1 and 1/2, whose mean has the standard error 1/4.
    """

    count: int = 10

    def __post_init__(self) -> None:
        count("count", self.count, 2)
