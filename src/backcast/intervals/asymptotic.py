"""Asymptotic intervals: normal, Student's t, adjusted Student, Cressie-Read, and the default choice among them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from backcast.estimate import Interval, normal_quantile, student_quantile
from backcast.intervals._bounds import WeightBound, find_ratio_bound, require_reward_range, require_weighted_rewards
from backcast.intervals._sample import AGGREGATED, RESIDUAL, TERM, WEIGHT, Moments, WeightedSample

TINY = 1e-12  # variances and budgets below this are rounding errors
EQUAL_WEIGHTS = 1e-6  # distance from 1 of a mean weight that counts as rounding; single precision has 6e-8


@dataclass(frozen=True)
class Normal:
    """``value ± z std_error``; assumes enough events for the central limit theorem (asymptotic).

    Estimand: that of the estimate. Too narrow if a few large weights dominate the estimate.

    Examples
    --------
    >>> from backcast.intervals._sample import sample_from_values
    >>> print(Normal().interval(sample_from_values(0.0, 1.0), level=0.95))
    [-0.48, 1.48] (95 % normal)

    By hand: 0.5 ± 1.96 * 0.5.
    """

    def interval(self, sample: WeightedSample, level: float) -> Interval:
        """Return the interval around the estimate."""
        half = normal_quantile(level) * sample.std_error
        return Interval(sample.value - half, sample.value + half, level, "normal", "asymptotic", sample.estimand)


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
        """Return the interval around the estimate."""
        half = student_quantile(level, sample.moments.n - 1) * sample.std_error
        return Interval(sample.value - half, sample.value + half, level, "t", "asymptotic", sample.estimand)


@dataclass(frozen=True)
class AdjustedStudent:
    """Student's t interval that also allows for what a log with few effective events may have missed.

    Each end is computed with one imagined event added, as in the adjusted empirical likelihood of Chen, Variyath and
    Abraham (2008). Its weight is that of an event that the policy meets on average, ``sum w^2 / sum w``, and its
    residual is the least favourable one: of the declared reward range, or else of the log. The degrees of freedom are
    the effective sample size less one. With many effective events it agrees with :class:`Normal`; with few it is wider,
    where the standard error itself is unreliable: if no event of a rare action was rewarded, it is 0.

    Assumption: asymptotic, independent events. Estimand: that of the estimate.

    Examples
    --------
    >>> from backcast.intervals._sample import sample_from_values
    >>> print(AdjustedStudent().interval(sample_from_values(*[0.0, 1.0] * 50), level=0.95))
    [0.3958, 0.6042] (95 % adjusted Student)

    By hand, the upper end: the imagined event has weight 1 and value 1. It moves the mean to 0.5 + 0.5/101 = 0.505; the
    sum of squares becomes 25 + 0.25, the error the root of 25.25 / (100 * 101), which is 0.05, and t_99 is 1.984.
    """

    def interval(self, sample: WeightedSample, level: float) -> Interval:
        """Return the interval around the estimate."""
        moments = sample.moments
        n = moments.n
        mean_weight, mean_term = float(moments.mean[WEIGHT]), float(moments.mean[TERM])
        weight = moments.sum_of_products(WEIGHT, WEIGHT) / (n * mean_weight) if mean_weight > 0 else 0.0
        _, weight_slope, term_slope = sample.aggregate.slope(*moments.mean[AGGREGATED].tolist())
        least, most = float(moments.low[RESIDUAL]), float(moments.high[RESIDUAL])
        if sample.residual_range is not None:
            least, most = min(least, sample.residual_range[0]), max(most, sample.residual_range[1])
        least_influence, most_influence = (
            weight_slope * (weight - mean_weight) + term_slope * (weight * residual - mean_term)
            for residual in (least, most)
        )
        low, high = adjusted_student_ends(
            sample.value,
            sample.std_error**2 * n * (n - 1),
            n,
            imagined=(least_influence, most_influence),
            degrees_of_freedom=moments.effective_sample_size - 1,
            level=level,
        )
        return Interval(low, high, level, "adjusted Student", "asymptotic", sample.estimand)


def adjusted_student_ends(
    mean: float,
    squares: float,
    n: int,
    *,
    imagined: tuple[float, float],
    degrees_of_freedom: float,
    level: float,
) -> tuple[float, float]:
    """Return both ends of a t interval for a mean of n values, each end with one imagined value added.

    ``squares`` is the sum of squared deviations from the mean, ``imagined`` the deviations of the two imagined values.
    With an imagined deviation d the mean moves by ``d / (n + 1)`` and the sum of squares by ``d^2 n / (n + 1)``.

    >>> low, high = adjusted_student_ends(0.5, 0.5, 2, imagined=(-0.5, 0.5), degrees_of_freedom=1, level=0.5)
    >>> round(low, 4), round(high, 4)
    (0.0, 1.0)

    By hand: 0.5 + 0.5/3 is 2/3, the squares are 2/3, their root over 2 * 3 is 1/3, and the quartile of t_1 is 1.
    """
    quantile = student_quantile(level, max(degrees_of_freedom, 1.0))
    low, high = (
        mean + d / (n + 1) + sign * quantile * math.sqrt((squares + d * d * n / (n + 1)) / (n * (n + 1)))
        for sign, d in zip((-1.0, 1.0), imagined, strict=True)
    )
    # an imagined value on the other side of the mean moves no end past the mean
    return min(low, mean), max(high, mean)


@dataclass(frozen=True)
class CressieRead(WeightBound):
    """Empirical likelihood with the Cressie-Read power -2 (Karampatziakis, Langford and Mineiro 2020).

    Considers all reweightings of the log that are likely enough and under which the weights average 1, as they must;
    the interval holds the values they give. One imagined event with the least favourable reward and weight represents
    what the log may have missed, so that the interval of a small log is not too narrow.

    Assumption: asymptotic, independent events; ends never leave the reward range. Estimand: V(pi). For IPS, SNIPS
    and BaselineIPS, which do not transform the weights.

    Parameters
    ----------
    largest_weight
        A known bound on ``pi/p``, infinity for none; None uses the bound that the log shows, if any. A bound narrows
        the interval.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from backcast.intervals._sample import sample_from_values
    >>> sample = replace(sample_from_values(*[0.0, 1.0] * 50), reward_range=(0, 1), residual_range=(0, 1))
    >>> print(CressieRead().interval(sample, level=0.95))
    [0.3963, 0.6037] (95 % Cressie-Read)

    By hand, the upper end: the imagined event has weight 1 and reward 1, so that the mean is 51/101 = 0.505 and the
    variance 0.25; with the quantile 3.94 of F(1, 100), the root of 0.25 * 3.94 / 101 is 0.0987.
    """

    def interval(self, sample: WeightedSample, level: float) -> Interval:
        """Return the interval within the reward range."""
        low, high = require_reward_range(sample, "Cressie-Read")
        require_weighted_rewards(sample, "Cressie-Read")
        sums = WeightSums.of(sample.moments)
        max_weight = find_ratio_bound(sample, self.largest_weight)
        if weights_are_one(sums):
            # no reweighting under which weights average 1 has room for an imagined event of another weight
            max_weight = 1.0
        budget = divergence_budget(sums, max_weight, level)
        least = least_value_with_imagined_event(sums, low, max_weight, budget)
        # the largest value is minus the least value of the negated rewards
        negated = sums._replace(wr=-sums.wr, wwr=-sums.wwr)
        most = least_value_with_imagined_event(negated, -high, max_weight, budget)
        ends = low if least is None else max(low, least), high if most is None else min(high, -most)
        return Interval(*ends, level, "Cressie-Read", "asymptotic", sample.estimand)


@dataclass(frozen=True)
class DefaultInterval:
    """Cressie-Read for plainly weighted rewards with a declared range; adjusted Student otherwise.

    Assumption: asymptotic, independent events. Estimand: that of the estimate.

    Examples
    --------
    >>> from backcast.intervals._sample import sample_from_values
    >>> DefaultInterval().interval(sample_from_values(0.0, 1.0), level=0.95).method
    'adjusted Student'
    """

    def interval(self, sample: WeightedSample, level: float) -> Interval:
        """Return the interval of the chosen method."""
        if sample.weighs_rewards and sample.reward_range is not None:
            return CressieRead().interval(sample, level)
        return AdjustedStudent().interval(sample, level)


class WeightSums(NamedTuple):
    """``n`` and the sums of ``w, w^2, w r, w^2 r, w^2 r^2``: all that the Cressie-Read interval needs of a log."""

    n: float
    w: float
    ww: float
    wr: float
    wwr: float
    wwrr: float

    @classmethod
    def of(cls, moments: Moments) -> WeightSums:
        """Return the sums of the events with these moments."""
        n = moments.n
        return cls(
            n,
            n * float(moments.mean[WEIGHT]),
            moments.sum_of_products(WEIGHT, WEIGHT),
            n * float(moments.mean[TERM]),
            moments.sum_of_products(WEIGHT, TERM),
            moments.sum_of_products(TERM, TERM),
        )

    def with_event(self, weight: float, reward: float) -> WeightSums:
        """Return the sums with one imagined event added."""
        term = weight * reward
        return WeightSums(
            self.n + 1,
            self.w + weight,
            self.ww + weight * weight,
            self.wr + term,
            self.wwr + weight * term,
            self.wwrr + term * term,
        )


def divergence_budget(sums: WeightSums, max_weight: float, level: float) -> float:
    """Largest divergence of a reweighting that is likely enough: that of the likeliest, plus an F quantile."""
    from scipy.special import fdtri

    quantile = float(fdtri(1, sums.n, level))
    # if all weights are 1 up to rounding, it is chance whether they sum to less than n
    is_short = sums.w < sums.n or abs(max_weight - 1) <= EQUAL_WEIGHTS
    weight = max_weight if is_short else 0.0
    if math.isinf(weight):
        return quantile + (sums.n + 1) / sums.n
    return quantile + weight_discrepancy(sums.with_event(weight, 0.0))


def weights_are_one(sums: WeightSums) -> bool:
    """Return whether all weights are 1 up to rounding, as of the logger's own policy.

    >>> weights_are_one(WeightSums(2, 2, 2, 1, 1, 1)), weights_are_one(WeightSums(2, 2, 4, 2, 4, 4))
    (True, False)
    """
    mean = sums.w / sums.n
    return abs(mean - 1) <= EQUAL_WEIGHTS and sums.ww / sums.n - mean * mean <= TINY


def weight_discrepancy(sums: WeightSums) -> float:
    """``n (1 - mean w)^2 / var w``: how far the weights are from averaging 1.

    >>> weight_discrepancy(WeightSums(2, 4, 10, 0, 0, 0))
    2.0

    By hand: weights 1 and 3 have mean 2 and variance 1.
    """
    mean = sums.w / sums.n
    variance = sums.ww / sums.n - mean * mean
    return sums.n * (1 - mean) ** 2 / variance if variance > TINY else 0.0


def least_value_with_imagined_event(
    sums: WeightSums, worst_reward: float, max_weight: float, budget: float
) -> float | None:
    """Least value with one imagined event of the worst reward, with weight 0 or the largest; None if there is none."""
    candidates = [least_value(sums.with_event(0.0, worst_reward), budget)]
    if math.isinf(max_weight):
        candidates.append(least_value_at_infinity(sums, worst_reward, budget))
    else:
        candidates.append(least_value(sums.with_event(max_weight, worst_reward), budget))
    return min((value for value in candidates if value is not None), default=None)


def least_value(sums: WeightSums, budget: float) -> float | None:
    """Least mean of ``w r`` over all reweightings of the events under which w averages 1, within a budget.

    Events may be reweighted by ``g`` with ``mean g = mean g w = 1`` and ``n (mean g^2 - 1) <= budget``, the
    Cressie-Read divergence of power -2. The solution is closed: the regression of ``w r`` on ``w`` evaluated at
    ``w = 1``, less the square root of the remaining budget times the residual variance over n. If all weights are 1
    up to rounding, every reweighting satisfies the condition on w. None if even the nearest reweighting exceeds the
    budget.

    >>> least_value(WeightSums(2, 2, 4, 2, 4, 4), budget=0.5)
    1.0

    By hand: weights 0 and 2, both with reward 1: under every reweighting, w averages 1 and so does ``w r``.
    """
    w, wr = sums.w / sums.n, sums.wr / sums.n
    variance = sums.ww / sums.n - w * w
    if variance <= TINY:
        if abs(w - 1) > EQUAL_WEIGHTS:
            return None
        return wr - math.sqrt(max(0.0, sums.wwrr / sums.n - wr * wr) * budget / sums.n)
    covariance = sums.wwr / sums.n - w * wr
    remaining = budget - sums.n * (1 - w) ** 2 / variance
    if remaining < -TINY * (1 + budget):
        return None
    residual = max(0.0, sums.wwrr / sums.n - wr * wr - covariance**2 / variance)
    return wr + (1 - w) * covariance / variance - math.sqrt(residual * max(remaining, 0.0) / sums.n)


def least_value_at_infinity(sums: WeightSums, worst_reward: float, budget: float) -> float | None:
    """The limit of :func:`least_value` with one more event of the worst reward, as its weight goes to infinity.

    >>> least_value_at_infinity(WeightSums(4, 2, 2, 1, 1, 0.5), worst_reward=0.0, budget=1.25)
    0.25

    By hand: the budget is just enough for the imagined event, which carries the missing weight at reward 0:
    of 4 events ``sum w r / n`` = 1/4 remains.
    """
    n = sums.n
    remaining = budget - (n + 1) / n
    if remaining < -TINY * (1 + budget):
        return None
    excess = sums.wr - sums.w * worst_reward
    squares = sums.wwrr - 2 * worst_reward * sums.wwr + worst_reward * worst_reward * sums.ww
    residual = max(0.0, squares / (n + 1) - excess * excess / (n * (n + 1)))
    return worst_reward + excess / n - math.sqrt(residual * max(remaining, 0.0) / (n + 1))
