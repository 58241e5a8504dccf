"""Evidence against recorded propensities, in nats: the log of one over the probability of what the log shows.

All of it rests on one fact. For any distribution q over actions that is fixed before the action of an event is drawn,
``E[q(a)/p] = sum of q over the actions the logger may choose <= 1``. A mean above 1 therefore proves that propensities
are too small, for any logger, even one that learns; a mean below 1 shows that q prefers actions the logger rarely or
never takes, or that propensities are too large.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from backcast._arrays import FloatArray, IntArray

ODDS = 1e-5  # probability of a false alarm of one check; about twenty checks make 2 in 10,000 together
SURE = -math.log(ODDS)  # evidence from which a check raises an alarm
STAKES = 0.5 ** np.arange(1, 14)  # shares of the wealth that are bet side by side: one of them is near the best
TILTS = np.geomspace(0.01, 60.0, 80)
SMALL_TILTS = np.geomspace(1e-4, 20.0, 24)


def excess_evidence(ratios: FloatArray, expected: npt.ArrayLike = 1.0) -> float:
    """Evidence that nonnegative ratios exceed ``expected``, if their conditional means are at most that.

    A gambler who bets the share s at every event owns ``prod(1 + s (ratio - expected))``, whose mean is 1 or less if
    the claim holds; it reaches M with probability at most 1/M (Ville 1939), whatever the logger.

    >>> bool(excess_evidence(np.full(100, 1.5)) > SURE)
    True
    >>> bool(excess_evidence(np.tile([0.5, 1.5], 50)) <= 0)
    True
    """
    gains = np.asarray(ratios - np.asarray(expected))
    return float(mean_wealth([np.log1p(stake * gains).sum() for stake in STAKES]))


def excess_by_group(ratios: FloatArray, expected: FloatArray, groups: IntArray, n_groups: int) -> FloatArray:
    """:func:`excess_evidence` of each group of events.

    >>> evidence = excess_by_group(np.full(200, 1.5), np.ones(200), np.arange(200) % 2, 2)
    >>> (evidence > SURE).tolist()
    [True, True]
    """
    gains = ratios - expected
    return mean_wealth([np.bincount(groups, weights=np.log1p(stake * gains), minlength=n_groups) for stake in STAKES])


def mean_wealth(log_wealth: npt.ArrayLike) -> FloatArray:
    """``log(mean(exp(x)))`` over the first axis: the evidence of bets that are held side by side.

    >>> float(mean_wealth([1000.0, 1000.0]))
    1000.0
    """
    from scipy.special import logsumexp

    table = np.asarray(log_wealth, dtype=np.float64)
    return np.asarray(logsumexp(table, axis=0, b=1 / len(table)))


def shortfall_evidence(ratios: FloatArray, expected: float, largest: float) -> float:
    """Evidence that nonnegative ratios sum to less than expected; see :func:`shortfall_by_group`.

    >>> round(shortfall_evidence(np.full(2, 5.0), expected=40.0, largest=5.0), 2)
    3.23

    By hand: two came where eight were expected, and Chernoff's bound for that is 8 - 2 + 2 log(2/8).
    """
    groups = np.zeros(ratios.size, dtype=np.int64)
    return float(shortfall_by_group(ratios, np.array([expected]), groups, largest)[0])


def shortfall_by_group(ratios: FloatArray, expected: FloatArray, groups: IntArray, largest: float) -> FloatArray:
    """Evidence that the ratios of each group sum to less than expected.

    Chernoff's bound, ``max over t of E[sum(1 - exp(-t ratio))] - t sum(ratio)``. In the expectation, observed ratios
    stand for themselves, and the missing part is attributed to rare choices that are absent by chance, each of the
    largest ratio. For equal ratios this is the bound for a Poisson count of any rate.
    """
    n_groups = expected.size
    total = np.bincount(groups, weights=ratios, minlength=n_groups) / largest
    missing = np.maximum(expected / largest - total, 0.0)
    evidence = np.zeros(n_groups)
    for tilt in SMALL_TILTS:
        observed = np.bincount(groups, weights=-np.expm1(-tilt / largest * ratios), minlength=n_groups)
        evidence = np.maximum(evidence, observed - math.expm1(-tilt) * missing - tilt * total)
    return evidence


def balance_evidence(surplus: npt.ArrayLike, variance: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Evidence that a sum of centred terms of size at most 1 is not centred (Bennett's inequality, both sides).

    >>> float(balance_evidence(0.0, 4.0)) < 0
    True
    """
    v = np.maximum(np.asarray(variance, dtype=np.float64), 1e-12)
    u = np.abs(np.asarray(surplus, dtype=np.float64)) / v
    return np.asarray(v * ((1 + u) * np.log1p(u) - u) - math.log(2))


def hits_evidence(hits: float, probabilities: FloatArray) -> float:
    """Evidence that independent events of these probabilities came true too often (Chernoff's bound, exact tilt).

    >>> round(hits_evidence(10, np.full(10, 0.5)), 6) == round(10 * math.log(2), 6)
    True
    """
    if hits <= probabilities.sum():
        return 0.0
    return max(float(hits * tilt - np.log1p(probabilities * math.expm1(tilt)).sum()) for tilt in TILTS)
