"""The normal interval: estimate plus or minus quantile times standard error."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from backcast.estimate import Interval
from backcast.intervals._sample import (
    TERM,
    WEIGHT,
    Moments,
    WeightedSample,
    check_largest_weight,
    largest_ratio,
    require_weighted_rewards,
    reward_range,
)


@dataclass(frozen=True)
class Normal:
    """``value ± z std_error``; assumes enough events for the central limit theorem (asymptotic).

    Estimand: that of the estimate. Too narrow where a few large weights carry the estimate.

    Examples
    --------
    >>> from backcast.intervals._sample import sample_from_values
    >>> print(Normal().interval(sample_from_values(0.0, 1.0), level=0.95))
    [-0.48, 1.48] (95 % normal)

    By hand: 0.5 ± 1.96 * 0.5.
    """

    def interval(self, sample: WeightedSample, level: float) -> Interval:
        """Two ends about the estimate."""
        from scipy.special import ndtri

        reach = float(ndtri(0.5 + level / 2)) * sample.std_error
        return Interval(sample.value - reach, sample.value + reach, level, "normal", "asymptotic", sample.estimand)


@dataclass(frozen=True)
class Student:
    """``value ± t_{n-1} std_error``: exact for normal event values, asymptotic otherwise.

    Examples
    --------
    >>> from backcast.intervals._sample import sample_from_values
    >>> print(Student().interval(sample_from_values(1.0, 2.0), level=0.5))
    [1, 2] (50 % t)

    By hand: with one degree of freedom the upper quartile of t is tan(45°) = 1, and the standard error is 0.5.
    """

    def interval(self, sample: WeightedSample, level: float) -> Interval:
        """Two ends about the estimate."""
        from scipy.special import stdtrit

        reach = float(stdtrit(sample.moments.n - 1, 0.5 + level / 2)) * sample.std_error
        return Interval(sample.value - reach, sample.value + reach, level, "t", "asymptotic", sample.estimand)


TINY = 1e-12


class WeightSums(NamedTuple):
    """``n`` and the sums of ``w, w^2, w r, w^2 r, w^2 r^2``: all that the interval needs of a log."""

    n: float
    w: float
    ww: float
    wr: float
    wwr: float
    wwrr: float

    @classmethod
    def of(cls, moments: Moments) -> WeightSums:
        """Of a log's moments."""
        n = moments.n
        return cls(
            n,
            n * float(moments.mean[WEIGHT]),
            moments.second(WEIGHT, WEIGHT),
            n * float(moments.mean[TERM]),
            moments.second(WEIGHT, TERM),
            moments.second(TERM, TERM),
        )

    def with_one_more(self, weight: float, reward: float) -> WeightSums:
        """With one imagined event more."""
        term = weight * reward
        return WeightSums(
            self.n + 1,
            self.w + weight,
            self.ww + weight * weight,
            self.wr + term,
            self.wwr + weight * term,
            self.wwrr + term * term,
        )

    def mirrored(self) -> WeightSums:
        """With every reward's sign turned."""
        return self._replace(wr=-self.wr, wwr=-self.wwr)


def weight_discrepancy(sums: WeightSums) -> float:
    """``n (1 - mean w)^2 / var w``: how far the weights are from averaging 1.

    >>> weight_discrepancy(WeightSums(2, 4, 10, 0, 0, 0))
    2.0

    By hand: weights 1 and 3 have mean 2 and variance 1.
    """
    mean = sums.w / sums.n
    variance = sums.ww / sums.n - mean * mean
    return sums.n * (1 - mean) ** 2 / variance if variance > TINY else 0.0


def least_value(sums: WeightSums, budget: float) -> float | None:
    """Least mean of ``w r`` over all reweightings of the events under which w averages 1, within a budget.

    Events may be reweighted by ``g`` with ``mean g = mean g w = 1`` and ``n (mean g^2 - 1) <= budget``, the
    Cressie-Read divergence of power -2, whose solution is closed: the regression of ``w r`` on ``w`` read off at
    ``w = 1``, less the square root of the budget left over times the residual variance over n. None where even the
    nearest reweighting costs more than the budget.

    >>> least_value(WeightSums(2, 2, 4, 2, 4, 4), budget=0.5)
    1.0

    By hand: weights 0 and 2, both with reward 1: whatever the reweighting, w averages 1 and so does ``w r``.
    """
    w, wr = sums.w / sums.n, sums.wr / sums.n
    variance = sums.ww / sums.n - w * w
    if variance <= TINY:
        return None
    covariance = sums.wwr / sums.n - w * wr
    left = budget - sums.n * (1 - w) ** 2 / variance
    if left < -TINY * (1 + budget):
        return None
    residual = max(0.0, sums.wwrr / sums.n - wr * wr - covariance**2 / variance)
    return wr + (1 - w) * covariance / variance - math.sqrt(residual * max(left, 0.0) / sums.n)


def least_value_far_out(sums: WeightSums, worst: float, budget: float) -> float | None:
    """The limit of :func:`least_value` with one event more, of reward ``worst`` and a weight beyond all bounds.

    >>> least_value_far_out(WeightSums(4, 2, 2, 1, 1, 0.5), worst=0.0, budget=1.25)
    0.25

    By hand: the budget just pays for the imagined event, which carries the weight that is missing at reward 0:
    of 4 events ``sum w r / n`` = 1/4 remains.
    """
    n = sums.n
    left = budget - (n + 1) / n
    if left < -TINY * (1 + budget):
        return None
    short = sums.wr - sums.w * worst
    squares = sums.wwrr - 2 * worst * sums.wwr + worst * worst * sums.ww
    residual = max(0.0, squares / (n + 1) - short * short / (n * (n + 1)))
    return worst + short / n - math.sqrt(residual * max(left, 0.0) / (n + 1))


@dataclass(frozen=True)
class CressieRead:
    """Empirical likelihood with the Cressie-Read power -2 (Karampatziakis, Langford and Mineiro 2020).

    All reweightings of the log that are likely enough and under which the weights average 1, as they must; the
    interval holds the values they give. One imagined event, of the least helpful reward and weight, stands for what
    the log may have missed, so that small logs are not taken for certain.

    Assumption: asymptotic, independent events; ends never leave the reward range. Estimand: V(pi). For IPS, SNIPS
    and BaselineIPS, whose weights are not shaped.

    Parameters
    ----------
    largest_weight
        A known bound on ``pi/p``, infinity for none; None takes the one that the log shows, if any. A bound narrows
        the interval.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from backcast.intervals._sample import sample_from_values
    >>> sample = replace(sample_from_values(*[0.0, 1.0] * 50), reward_range=(0, 1), residual_range=(0, 1))
    >>> print(CressieRead().interval(sample, level=0.95))
    [0.4018, 0.5982] (95 % Cressie-Read)
    """

    largest_weight: float | None = None

    def __post_init__(self) -> None:
        check_largest_weight(self.largest_weight)

    def interval(self, sample: WeightedSample, level: float) -> Interval:
        """Two ends within the reward range."""
        low, high = reward_range(sample, "Cressie-Read")
        require_weighted_rewards(sample, "Cressie-Read")
        sums = WeightSums.of(sample.moments)
        heaviest = largest_ratio(sample, self.largest_weight)
        budget = self._budget(sums, heaviest, level)
        least = _least_of(sums, low, heaviest, budget)
        most = _least_of(sums.mirrored(), -high, heaviest, budget)
        ends = low if least is None else max(low, least), high if most is None else min(high, -most)
        return Interval(*ends, level, "Cressie-Read", "asymptotic", sample.estimand)

    def _budget(self, sums: WeightSums, heaviest: float, level: float) -> float:
        """What the likeliest reweighting costs, and the F quantile beyond it."""
        from scipy.special import fdtri

        quantile = float(fdtri(1, sums.n, level))
        missing = heaviest if sums.w < sums.n else 0.0
        if math.isinf(missing):
            return quantile + (sums.n + 1) / sums.n
        return quantile + weight_discrepancy(sums.with_one_more(missing, 0.0))


def _least_of(sums: WeightSums, worst: float, heaviest: float, budget: float) -> float | None:
    """The least value with an imagined event of the worst reward, of no weight or of the heaviest."""
    values = [value for value in _candidates(sums, worst, heaviest, budget) if value is not None]
    return min(values) if values else None


def _candidates(sums: WeightSums, worst: float, heaviest: float, budget: float) -> Iterator[float | None]:
    yield least_value(sums.with_one_more(0.0, worst), budget)
    if math.isinf(heaviest):
        yield least_value_far_out(sums, worst, budget)
    else:
        yield least_value(sums.with_one_more(heaviest, worst), budget)


@dataclass(frozen=True)
class DefaultInterval:
    """Cressie-Read where rewards of a declared range are weighed and nothing else is done; normal otherwise.

    Assumption: asymptotic, independent events. Estimand: that of the estimate.

    Examples
    --------
    >>> from backcast.intervals._sample import sample_from_values
    >>> DefaultInterval().interval(sample_from_values(0.0, 1.0), level=0.95).method
    'normal'
    """

    def interval(self, sample: WeightedSample, level: float) -> Interval:
        """That of the method that fits."""
        fits = sample.weighs_rewards and sample.reward_range is not None
        return CressieRead().interval(sample, level) if fits else Normal().interval(sample, level)
