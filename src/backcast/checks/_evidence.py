"""How unlikely is what the log shows, if its propensities are right? Evidence in nats: log of one over the chance.

Everything rests on one fact. Whatever distribution q over actions is fixed before an event's action is drawn,
``E[q(a)/p] = sum of q over the actions the logger may choose <= 1``. So a mean above 1 proves propensities that are
too small, for any logger, even one that learns; a mean below 1 says that q reaches for actions the logger hardly or
never takes, or that propensities are too large.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from backcast._arrays import FloatArray, IntArray

ODDS = 1e-5


"""Chance that one finding alarms at a log that is well; about twenty findings make 2 in 10,000 together."""


SURE = -math.log(ODDS)


"""Evidence from which a finding alarms."""


STAKES = 0.5 ** np.arange(1, 14)


"""Shares of the wealth that are bet, each in a game of its own: one of them is near the best."""


TILTS = np.geomspace(0.01, 60.0, 80)


SMALL_TILTS = np.geomspace(1e-4, 20.0, 24)


def excess_evidence(ratios: FloatArray, expected: npt.ArrayLike = 1.0) -> float:
    """Evidence that nonnegative ratios exceed what is expected of them, whose conditional means are at most that.

    A gambler who stakes the share s on every event has ``prod(1 + s (ratio - expected))``, which is 1 on average
    where the claim holds; that it ever grows to M has chance at most 1/M (Ville), however the log was collected.

    >>> bool(excess_evidence(np.full(100, 1.5)) > SURE)
    True
    >>> bool(excess_evidence(np.tile([0.5, 1.5], 50)) <= 0)
    True
    """
    gains = np.asarray(ratios - np.asarray(expected))
    return log_mean_exp(np.array([np.log1p(stake * gains).sum() for stake in STAKES]))


def excess_by_group(ratios: FloatArray, expected: FloatArray, groups: IntArray, n_groups: int) -> FloatArray:
    """:func:`excess_evidence` of each group of events.

    >>> found = excess_by_group(np.full(200, 1.5), np.ones(200), np.arange(200) % 2, 2)
    >>> (found > SURE).tolist()
    [True, True]
    """
    gains = ratios - expected
    wealth = [np.bincount(groups, weights=np.log1p(stake * gains), minlength=n_groups) for stake in STAKES]
    return np.array([log_mean_exp(own) for own in np.transpose(wealth)])


def shortfall_evidence(ratios: FloatArray, expected: float, largest: float) -> float:
    """Evidence that nonnegative ratios sum to less than expected; see :func:`shortfall_by_group`.

    >>> round(shortfall_evidence(np.full(2, 5.0), expected=40.0, largest=5.0), 2)
    3.23

    By hand: two came where eight should have, and Chernoff's bound for that is 8 - 2 + 2 log(2/8).
    """
    one = np.zeros(ratios.size, dtype=np.int64)
    return float(shortfall_by_group(ratios, np.array([expected]), one, largest)[0])


def shortfall_by_group(ratios: FloatArray, expected: FloatArray, groups: IntArray, largest: float) -> FloatArray:
    """Evidence that the ratios of each group sum to less than expected of them.

    Chernoff's bound, ``max over t of E[sum(1 - exp(-t ratio))] - t sum(ratio)``. Of the expectation, the ratios seen
    stand for themselves; what is missing is held for rare choices that happen to be absent, each of the largest ratio
    there is. For ratios that are all alike this is the bound for a Poisson count, whatever its rate.
    """
    n_groups = expected.size
    total = np.bincount(groups, weights=ratios, minlength=n_groups) / largest
    missing = np.maximum(expected / largest - total, 0.0)
    best = np.zeros(n_groups)
    for tilt in SMALL_TILTS:
        seen = np.bincount(groups, weights=-np.expm1(-tilt / largest * ratios), minlength=n_groups)
        best = np.maximum(best, seen - math.expm1(-tilt) * missing - tilt * total)
    return best


def balance_evidence(surplus: npt.ArrayLike, variance: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Evidence that a sum of centred terms of size at most 1 is not centred (Bennett's inequality, both sides).

    >>> float(balance_evidence(0.0, 4.0)) < 0
    True
    """
    v = np.maximum(np.asarray(variance, dtype=np.float64), 1e-12)
    u = np.abs(np.asarray(surplus, dtype=np.float64)) / v
    return np.asarray(v * ((1 + u) * np.log1p(u) - u) - math.log(2))


def hits_evidence(hits: float, eligible_counts: FloatArray) -> float:
    """Evidence that more of some independent chances came true than they should (Chernoff's bound, exact tilt).

    >>> round(hits_evidence(10, np.full(10, 0.5)), 6) == round(10 * math.log(2), 6)
    True
    """
    if hits <= eligible_counts.sum():
        return 0.0
    return max(float(hits * tilt - np.log1p(eligible_counts * math.expm1(tilt)).sum()) for tilt in TILTS)


def log_mean_exp(logs: FloatArray) -> float:
    """``log(mean(exp(logs)))`` without overflow: the evidence of bets held side by side.

    >>> log_mean_exp(np.array([1000.0, 1000.0]))
    1000.0
    """
    top = float(np.max(logs))
    return top + math.log(float(np.mean(np.exp(logs - top)))) if math.isfinite(top) else top
