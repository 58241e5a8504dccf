"""Input of the intervals: event columns, moments, aggregates, WeightedSample."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from backcast._arrays import FloatArray
from backcast._kernels.jit import compiled
from backcast.diagnostics import effective_sample_size
from backcast.estimate import Interval

BASE, WEIGHT, TERM, RATIO, RESIDUAL, BOUND, REWARD = range(7)
N_COLUMNS = 7
AGGREGATED = [BASE, WEIGHT, TERM]  # the columns whose means an aggregate reads
FIXED_VALUE = "V(pi): what the policy earns per round"
TRANSFORMED_VALUE = "V(pi), less the bias of transformed weights"


class EventColumns(NamedTuple):
    """A block of weighted events, one number per event in each column.

    Attributes
    ----------
    base
        ``sum_a pi(a|x_k) q(x_k, a)``, the reward model's prediction for the policy (0 without a model).
    weight
        The weight in use: the ratio, or the result of clipping or shrinking it.
    term
        ``weight * residual``, what the event adds to the base.
    ratio
        ``w_k = pi(a_k|x_k) / p_k``.
    residual
        ``r_k - q(x_k, a_k)``; without a model, the reward.
    bound
        The largest ratio possible at this event: ``max_a pi(a|x_k)/mu(a|x_k)`` if the log records all of mu, else
        ``1 / p_k``.
    reward
        The logged reward, to which lifts are relative.
    """

    base: FloatArray
    weight: FloatArray
    term: FloatArray
    ratio: FloatArray
    residual: FloatArray
    bound: FloatArray
    reward: FloatArray


@dataclass(frozen=True, eq=False)
class Moments:
    """Number of events, and the mean, scatter and extremes of their columns.

    ``scatter`` is ``sum_k (x_k - mean)(x_k - mean)'``. Adding two gives the moments of all their events together
    (Chan, Golub and LeVeque 1979), so shards can be summarised separately.

    Examples
    --------
    >>> def block(*rewards):
    ...     r, ones = np.array(rewards), np.ones(len(rewards))
    ...     return Moments.of(EventColumns(0 * ones, ones, r, ones, r, ones, r))
    >>> both = block(1.0, 2.0) + block(6.0)
    >>> both.n, float(both.mean[TERM]), float(both.scatter[TERM, TERM])
    (3, 3.0, 14.0)

    By hand: the mean of 1, 2 and 6 is 3, and 4 + 1 + 9 = 14.
    """

    n: int
    mean: FloatArray
    scatter: FloatArray
    low: FloatArray
    high: FloatArray

    @classmethod
    def empty(cls) -> Moments:
        """Return the moments of no events, the neutral element of addition."""
        infinite = np.full(N_COLUMNS, np.inf)
        return cls(0, np.zeros(N_COLUMNS), np.zeros((N_COLUMNS, N_COLUMNS)), infinite, -infinite)

    @classmethod
    def of(cls, columns: EventColumns) -> Moments:
        if columns.base.size == 0:
            return cls.empty()
        # without a model, residual and reward are the same array; what is the same is summed once
        distinct = {id(column): column for column in columns}
        rows = [list(distinct).index(id(column)) for column in columns]
        matrix = np.stack(list(distinct.values()))
        mean = matrix.mean(axis=1)
        scatter = scatter_about(matrix, mean)[np.ix_(rows, rows)]
        return cls(columns.base.size, mean[rows], scatter, matrix.min(axis=1)[rows], matrix.max(axis=1)[rows])

    def __add__(self, other: Moments) -> Moments:
        n = self.n + other.n
        if self.n == 0 or other.n == 0:
            return other if self.n == 0 else self
        shift = other.mean - self.mean
        return Moments(
            n,
            self.mean + shift * (other.n / n),
            self.scatter + other.scatter + np.outer(shift, shift) * (self.n * other.n / n),
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
        )

    @property
    def covariance(self) -> FloatArray:
        """Unbiased covariance of the columns (nan for a single event)."""
        if self.n < 2:
            return np.full_like(self.scatter, np.nan)
        return self.scatter / (self.n - 1)

    def sum_of_products(self, i: int, j: int) -> float:
        """``sum_k x_ki x_kj``, not centred."""
        return float(self.scatter[i, j] + self.n * self.mean[i] * self.mean[j])

    @property
    def effective_sample_size(self) -> float:
        """``(sum w)^2 / sum w^2`` of the ratios (Kish); 0 if all are 0."""
        return float(effective_sample_size(self.n * self.mean[RATIO], self.sum_of_products(RATIO, RATIO)))


@compiled
def scatter_about(matrix: FloatArray, mean: FloatArray) -> FloatArray:
    """``sum_k (x_k - mean)(x_k - mean)'`` over the columns k of the matrix, in one fixed order.

    >>> scatter_about(np.array([[1.0, 3.0], [0.0, 4.0]]), np.array([2.0, 2.0]))
    array([[2., 4.],
           [4., 8.]])
    """
    rows = matrix.shape[0]
    scatter = np.zeros((rows, rows))
    centred = np.empty(rows)
    for k in range(matrix.shape[1]):
        for i in range(rows):
            centred[i] = matrix[i, k] - mean[i]
            for j in range(i + 1):
                scatter[i, j] += centred[i] * centred[j]
    for i in range(rows):
        for j in range(i):
            scatter[j, i] = scatter[i, j]
    return scatter


class Aggregate(Protocol):
    """An estimate as a function of the mean base, weight and term; takes arrays, so that a bootstrap is one call."""

    def value(self, base: Any, weight: Any, term: Any) -> Any:
        """Return the estimate."""
        ...

    def slope(self, base: float, weight: float, term: float) -> tuple[float, float, float]:
        """Return the derivative with respect to each mean, for the delta method."""
        ...

    def refit(self, mean_weight: Any, var_weight: Any, cov_weight_term: Any) -> Aggregate:
        """Return the aggregate with its constants, if it has any, fitted on other events, given their moments."""
        return self


@dataclass(frozen=True)
class Mean(Aggregate):
    """``mean(base) + mean(term)``: an average of independent event values.

    >>> Mean().value(0.25, 2.0, 0.5)
    0.75
    """

    def value(self, base: Any, weight: Any, term: Any) -> Any:
        return base + term

    def slope(self, base: float, weight: float, term: float) -> tuple[float, float, float]:
        return 1.0, 0.0, 1.0


@dataclass(frozen=True)
class SelfNormalizedMean(Aggregate):
    """``mean(base) + mean(term) / mean(weight)`` (Swaminathan and Joachims 2015).

    >>> SelfNormalizedMean().value(0.25, 2.0, 0.5)
    0.5
    """

    def value(self, base: Any, weight: Any, term: Any) -> Any:
        return base + term / weight

    def slope(self, base: float, weight: float, term: float) -> tuple[float, float, float]:
        return 1.0, -term / weight**2, 1.0 / weight


@dataclass(frozen=True)
class ControlVariateMean(Aggregate):
    """``mean(base) + mean(term) - baseline (mean(weight) - 1)``: weights are known to average 1.

    The slope is for a given baseline: the error of the baseline is of a smaller order.

    >>> ControlVariateMean(0.5).value(0.0, 1.25, 0.5)
    0.375
    """

    baseline: Any

    def value(self, base: Any, weight: Any, term: Any) -> Any:
        return base + term - self.baseline * (weight - 1.0)

    def slope(self, base: float, weight: float, term: float) -> tuple[float, float, float]:
        return 1.0, -self.baseline, 1.0

    def refit(self, mean_weight: Any, var_weight: Any, cov_weight_term: Any) -> Aggregate:
        return ControlVariateMean(best_baseline(mean_weight, var_weight, cov_weight_term))


def best_baseline(mean_weight: Any, var_weight: Any, cov_weight_term: Any) -> Any:
    """``cov(w r, w) / var(w)``: the baseline of least variance (0 if all weights are equal).

    >>> float(best_baseline(2.0, 1.0, 0.5))
    0.5
    """
    # weights that differ only by rounding do not determine a slope
    differ = np.asarray(var_weight) > (1e-12 * np.asarray(mean_weight)) ** 2
    return np.divide(cov_weight_term, var_weight, out=np.zeros_like(differ, dtype=np.float64), where=differ)


def std_error(aggregate: Aggregate, moments: Moments) -> float:
    """Standard error of the estimate by the delta method (nan for a single event).

    >>> ones, values = np.ones(2), np.array([0.0, 1.0])
    >>> std_error(Mean(), Moments.of(EventColumns(0 * ones, ones, values, ones, values, ones, values)))
    0.5

    By hand: the variance of 0 and 1 is 1/2, of their mean 1/4.
    """
    slope: FloatArray = np.array(aggregate.slope(*moments.mean[AGGREGATED].tolist()))
    variance = slope @ moments.covariance[np.ix_(AGGREGATED, AGGREGATED)] @ slope
    return float(np.sqrt(np.maximum(variance, 0.0) / moments.n))


def lift_variance(aggregate: Aggregate, moments: Moments) -> float:
    """Variance of the estimate minus the mean of the logged rewards, event by event (delta method).

    >>> ones, rewards = np.ones(2), np.array([0.0, 1.0])
    >>> lift_variance(Mean(), Moments.of(EventColumns(0 * ones, ones, rewards, ones, rewards, ones, rewards)))
    0.0

    By hand: every weight is 1, so each event has its own reward as its value.
    """
    slope = np.array([*aggregate.slope(*moments.mean[AGGREGATED].tolist()), -1.0])
    columns = [*AGGREGATED, REWARD]
    return max(float(slope @ moments.covariance[np.ix_(columns, columns)] @ slope), 0.0) / moments.n


@dataclass(frozen=True)
class WeightedSample:
    """An estimate from independent weighted events.

    Attributes
    ----------
    moments
        Moments of the events.
    aggregate
        The estimate as a function of their means.
    columns
        Iterates over the events block by block, for intervals that need more than moments; may cost a second pass.
    evaluator
        Name of the evaluator, for messages.
    reward_range
        The declared bounds of the reward, None if none are declared.
    base_range, residual_range
        Known bounds of base and residual, None if no reward range is declared.
    weights_average_one
        Whether the weights are the unchanged ratios pi/p, whose expectation is 1.
    bound_known
        Whether the largest ratio in ``moments`` is a true bound: the log records the logger's probabilities of all
        actions, or the logger was uniform.
    estimand
        What the estimate is about.
    largest
        Bound on the weight in use, given a bound on the ratio.
    seed
        For intervals that draw.
    """

    moments: Moments
    aggregate: Aggregate = field(default_factory=Mean)
    columns: Callable[[], Iterator[EventColumns]] = lambda: iter(())
    evaluator: str = "IPS"
    reward_range: tuple[float, float] | None = None
    base_range: tuple[float, float] | None = None
    residual_range: tuple[float, float] | None = None
    weights_average_one: bool = True
    bound_known: bool = False
    estimand: str = FIXED_VALUE
    largest: Callable[[float], float] = float
    seed: int = 0

    @classmethod
    def of(cls, columns: EventColumns, aggregate: Aggregate | None = None) -> WeightedSample:
        return cls(Moments.of(columns), aggregate or Mean(), lambda: iter((columns,)))

    @property
    def value(self) -> float:
        return float(self.aggregate.value(*self.moments.mean[AGGREGATED]))

    @property
    def std_error(self) -> float:
        return std_error(self.aggregate, self.moments)

    def influences(self, blocks: list[EventColumns]) -> FloatArray:
        """Influence of each event on the estimate by the delta method: mean 0, and ``sd / sqrt(n)`` is the error.

        >>> sample = sample_from_values(0.0, 1.0)
        >>> sample.influences(list(sample.columns()))
        array([-0.5,  0.5])
        """
        mean = self.moments.mean[AGGREGATED]
        slope = np.array(self.aggregate.slope(*mean.tolist()))
        rows = (np.column_stack([block[column] for column in AGGREGATED]) for block in blocks)
        return np.concatenate([(row - mean) @ slope for row in rows])

    @property
    def weighs_rewards(self) -> bool:
        """Whether the estimate weighs rewards by pi/p and uses no reward model."""
        moments = self.moments
        return self.weights_average_one and bool(moments.low[BASE] == 0.0 == moments.high[BASE])


@runtime_checkable
class IntervalMethod(Protocol):
    """A way to compute an interval for an estimate from independent events."""

    def interval(self, sample: WeightedSample, level: float) -> Interval:
        """Return both ends with their method, assumption and estimand."""
        ...


def sample_from_values(*values: float) -> WeightedSample:
    """Return the sample whose estimate is the plain average of these values, for examples and tests.

    >>> sample_from_values(0.0, 1.0).value
    0.5
    """
    value = np.array(values, dtype=np.float64)
    ones = np.ones_like(value)
    return WeightedSample.of(EventColumns(0 * ones, ones, value, ones, value, ones, value))
