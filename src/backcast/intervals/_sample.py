"""Known bounds of one event's value: what intervals that hold for every sample size must be told."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from backcast._arrays import FloatArray
from backcast._kernels.jit import compiled
from backcast._validation import at_least
from backcast.errors import OptionError
from backcast.estimate import Interval

ROUNDING = 1e-9


def check_largest_weight(largest_weight: float | None) -> None:
    """Refuse a bound on the weights below 1, their mean."""
    if largest_weight is not None and not math.isinf(largest_weight):
        at_least("largest_weight", largest_weight, 1.0)


def reward_range(sample: WeightedSample, method: str) -> tuple[float, float]:
    """The declared reward range; an error that says how to declare one, where there is none."""
    if sample.reward_range is None:
        raise OptionError(
            f"the {method} interval needs known bounds of the reward and the log declares none; "
            "declare them with reward_range=(low, high) when the log is built or read, or use Normal()"
        )
    return sample.reward_range


def largest_ratio(sample: WeightedSample, largest_weight: float | None) -> float:
    """The bound on ``pi/p``: as given, or else as the log shows it; infinity where nothing is known of it.

    A log that records all the logger's probabilities shows the largest ratio of its contexts (those it does not show
    are too rare to matter: together they are worth about 1/n of the reward range), and one of a uniform logger shows
    the number of actions. The smallest logged propensity of other logs is no bound: what is rarer still is missing
    from the log, and may be worth much.
    """
    if largest_weight is None:
        return float(sample.moments.high[BOUND]) if sample.bound_known else math.inf
    seen = float(sample.moments.high[RATIO])
    if seen > largest_weight * (1 + ROUNDING):
        raise OptionError(
            f"largest_weight is {largest_weight:g} and the log has a weight of {seen:g}; give a bound that holds"
        )
    return largest_weight


def known_bound(bound: float, method: str) -> float:
    """The bound on the weights; an error that says how to declare one, where there is none."""
    if math.isinf(bound):
        raise OptionError(
            f"the {method} interval holds for every n only with a known bound on the weights pi/p, and this log shows "
            "none; declare it with largest_weight=1/floor, where floor is the smallest probability that the logger "
            "ever gives to an action, or give the log its logging_probabilities. Without either, use CressieRead() or "
            "Betting() with IPS, which need no bound, or Normal()"
        )
    return bound


def event_range(sample: WeightedSample, largest_weight: float | None, method: str) -> tuple[float, float]:
    """Between which numbers every event value ``base + weight * residual`` must lie.

    Shaped weights may have a bound of their own, whatever the ratios are.

    >>> from dataclasses import replace

    >>> half = replace(sample_from_values(0.0, 1.0), reward_range=(-1, 1), base_range=(0, 0), residual_range=(-1, 1))
    >>> event_range(half, 4.0, "Hoeffding")
    (-4.0, 4.0)
    """
    if not isinstance(sample.form, Mean):
        raise OptionError(
            f"the {method} interval is about averages and {sample.evaluator} is not one; use it with IPS or DR, "
            "or take Normal(), Bootstrap() or CressieRead() here"
        )
    reward_range(sample, method)
    assert sample.base_range is not None
    assert sample.residual_range is not None
    _check_seen(sample, method)
    weight = known_bound(sample.largest(largest_ratio(sample, largest_weight)), method)
    low = sample.base_range[0] + min(0.0, weight * sample.residual_range[0])
    high = sample.base_range[1] + max(0.0, weight * sample.residual_range[1])
    return float(low), float(high)


def about_average(
    sample: WeightedSample, largest_weight: float | None, level: float, method: str, reach: Callable[[float], float]
) -> Interval:
    """``value -+ reach(width)`` for independent events whose values lie in a range of known width."""
    low, high = event_range(sample, largest_weight, method)
    far = reach(high - low)
    ends = sample.value - far, sample.value + far
    return within_rewards(Interval(*ends, level, method, "independent", sample.estimand), sample)


def _check_seen(sample: WeightedSample, method: str) -> None:
    """Predictions from elsewhere may leave the reward range; then nothing is known of an event."""
    moments = sample.moments
    for column, known in ((BASE, sample.base_range), (RESIDUAL, sample.residual_range)):
        assert known is not None
        slack = ROUNDING * (1.0 + abs(known[0]) + abs(known[1]))
        if moments.low[column] < known[0] - slack or moments.high[column] > known[1] + slack:
            raise OptionError(
                f"the {method} interval needs predictions within the reward range {sample.reward_range}; the reward "
                "model leaves it. Clip its predictions, or use Normal()"
            )


def require_weighted_rewards(sample: WeightedSample, method: str) -> None:
    """Refuse shaped weights and reward models where only weighted rewards make sense."""
    if not sample.weighs_rewards:
        raise OptionError(
            f"the {method} interval is about weighted rewards and {sample.evaluator} uses a reward model or shaped "
            "weights; use it with IPS, SNIPS or BaselineIPS, or take Normal() or Bootstrap() here"
        )


def within_rewards(interval: Interval, sample: WeightedSample) -> Interval:
    """Ends drawn in to the reward range, which no policy's value leaves."""
    if not sample.weights_average_one or sample.reward_range is None:
        return interval
    low, high = sample.reward_range
    return replace(interval, low=min(max(interval.low, low), high), high=max(min(interval.high, high), low))


BASE, WEIGHT, TERM, RATIO, RESIDUAL, BOUND = range(6)


N_COLUMNS = 6


class EventColumns(NamedTuple):
    """A block of weighed events, one number an event in each column.

    Attributes
    ----------
    base
        ``sum_a pi(a|x_k) q(x_k, a)``, the reward model's own answer (0 without a model).
    weight
        The weight in use: the ratio itself, or what clipping or shrinking made of it.
    term
        ``weight * residual``, what the event adds to the base.
    ratio
        ``w_k = pi(a_k|x_k) / p_k``.
    residual
        ``r_k - q(x_k, a_k)``: the reward itself without a model.
    bound
        What the ratio could have been at most: ``max_a pi(a|x_k)/mu(a|x_k)`` where the log records all of mu, else
        ``1 / p_k``.
    """

    base: FloatArray
    weight: FloatArray
    term: FloatArray
    ratio: FloatArray
    residual: FloatArray
    bound: FloatArray


@dataclass(frozen=True, eq=False)
class Moments:
    """Number of events, and the mean, scatter and extremes of their six columns.

    ``scatter`` is ``sum_k (x_k - mean)(x_k - mean)'``. Adding two gives the moments of all their events together
    (Chan, Golub and LeVeque 1979), so shards can be summarised apart.

    Examples
    --------
    >>> def block(*rewards):
    ...     r, one = np.array(rewards), np.ones(len(rewards))
    ...     return Moments.of(EventColumns(0 * one, one, r, one, r, one))
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
    def none(cls) -> Moments:
        """Of no events at all."""
        empty = np.full(N_COLUMNS, np.inf)
        return cls(0, np.zeros(N_COLUMNS), np.zeros((N_COLUMNS, N_COLUMNS)), empty, -empty)

    @classmethod
    def of(cls, columns: EventColumns) -> Moments:
        """Of one block."""
        if columns.base.size == 0:
            return cls.none()
        matrix = np.stack(columns)
        mean = matrix.mean(axis=1)
        return cls(columns.base.size, mean, scatter_about(matrix, mean), matrix.min(axis=1), matrix.max(axis=1))

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

    def second(self, i: int, j: int) -> float:
        """``sum_k x_ki x_kj``, not centred."""
        return float(self.scatter[i, j] + self.n * self.mean[i] * self.mean[j])

    @property
    def effective_sample_size(self) -> float:
        """``(sum w)^2 / sum w^2`` of the ratios (Kish); 0 where all are 0."""
        squares = self.second(RATIO, RATIO)
        return float((self.n * self.mean[RATIO]) ** 2 / squares) if squares > 0 else 0.0


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
    """A function of the three means; arrays in, arrays out, so that a bootstrap takes one step."""

    def value(self, base: Any, weight: Any, term: Any) -> Any:
        """The estimate."""
        ...

    def slope(self, base: float, weight: float, term: float) -> tuple[float, float, float]:
        """Its derivative by each mean, for the delta method."""
        ...

    def refit(self, weight: Any, spread: Any, together: Any) -> Aggregate:
        """The form on other events, given their mean weight, var(weight) and cov(weight, term)."""
        ...


@dataclass(frozen=True)
class Mean:
    """``mean(base) + mean(term)``: an average of independent event values.

    >>> Mean().value(0.25, 2.0, 0.5)
    0.75
    """

    def value(self, base: Any, weight: Any, term: Any) -> Any:
        """The estimate."""
        return base + term

    def slope(self, base: float, weight: float, term: float) -> tuple[float, float, float]:
        """Every event value counts alike."""
        return 1.0, 0.0, 1.0

    def refit(self, weight: Any, spread: Any, together: Any) -> Aggregate:
        """Nothing is fitted."""
        return self


@dataclass(frozen=True)
class SelfNormalizedMean:
    """``mean(base) + mean(term) / mean(weight)`` (Swaminathan and Joachims 2015).

    >>> SelfNormalizedMean().value(0.25, 2.0, 0.5)
    0.5
    """

    def value(self, base: Any, weight: Any, term: Any) -> Any:
        """The estimate."""
        return base + term / weight

    def slope(self, base: float, weight: float, term: float) -> tuple[float, float, float]:
        """Of a quotient."""
        return 1.0, -term / weight**2, 1.0 / weight

    def refit(self, weight: Any, spread: Any, together: Any) -> Aggregate:
        """Nothing is fitted."""
        return self


@dataclass(frozen=True)
class ControlVariateMean:
    """``mean(base) + mean(term) - baseline (mean(weight) - 1)``: weights are known to average 1.

    >>> ControlVariateMean(0.5).value(0.0, 1.25, 0.5)
    0.375
    """

    baseline: Any

    def value(self, base: Any, weight: Any, term: Any) -> Any:
        """The estimate."""
        return base + term - self.baseline * (weight - 1.0)

    def slope(self, base: float, weight: float, term: float) -> tuple[float, float, float]:
        """The baseline is taken as given: what its own error adds is of a smaller order."""
        return 1.0, -self.baseline, 1.0

    def refit(self, weight: Any, spread: Any, together: Any) -> Aggregate:
        """With the baseline that is best on the other events."""
        return ControlVariateMean(best_baseline(weight, spread, together))


def best_baseline(weight: Any, spread: Any, together: Any) -> Any:
    """``cov(w r, w) / var(w)``: the baseline of least variance (0 where all weights are alike).

    >>> float(best_baseline(2.0, 1.0, 0.5))
    0.5
    """
    # weights that differ by rounding alone say nothing of a slope
    differ = np.asarray(spread) > (1e-12 * np.asarray(weight)) ** 2
    return np.divide(together, spread, out=np.zeros_like(differ, dtype=np.float64), where=differ)


def std_error(form: Aggregate, moments: Moments) -> float:
    """Standard error of the estimate by the delta method (nan for a single event).

    >>> one = np.ones(2)

    >>> values = np.array([0.0, 1.0])
    >>> std_error(Mean(), Moments.of(EventColumns(0 * one, one, values, one, values, one)))
    0.5

    By hand: the variance of 0 and 1 is 1/2, of their mean 1/4.
    """
    where = [BASE, WEIGHT, TERM]
    slope: FloatArray = np.array(form.slope(*moments.mean[where].tolist()))
    variance = slope @ moments.covariance[np.ix_(where, where)] @ slope
    return float(np.sqrt(np.maximum(variance, 0.0) / moments.n))


FIXED_VALUE = "V(pi): what the policy earns a round"


@dataclass(frozen=True)
class WeightedSample:
    """An estimate from independent weighed events.

    Attributes
    ----------
    moments
        Sums over the events.
    form
        How the estimate follows from them.
    columns
        The events again, block by block, for intervals that sums do not serve; may cost a second pass.
    evaluator
        Name of the evaluator, for messages.
    reward_range
        The declared bounds of the reward, None where nobody declared any.
    base_range, residual_range
        Known bounds of base and residual, None where no reward range is declared.
    weights_average_one
        Whether the weights are the ratios pi/p themselves, whose expectation is 1.
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
    form: Aggregate = field(default_factory=Mean)
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

    @property
    def value(self) -> float:
        """The estimate."""
        mean = self.moments.mean
        return float(self.form.value(mean[BASE], mean[WEIGHT], mean[TERM]))

    @property
    def std_error(self) -> float:
        """Its standard error by the delta method."""
        return std_error(self.form, self.moments)

    def influence(self) -> FloatArray:
        """How far each event pulls the estimate, by the delta method: mean 0, and ``sd / sqrt(n)`` is the error.

        >>> sample_from_values(0.0, 1.0).influence()
        array([-0.5,  0.5])
        """
        where = [BASE, WEIGHT, TERM]
        mean = self.moments.mean[where]
        slope = np.array(self.form.slope(*mean.tolist()))
        rows = [np.column_stack([block[column] for column in where]) for block in self.columns()]
        return np.asarray((np.concatenate(rows) - mean) @ slope)

    @property
    def weighs_rewards(self) -> bool:
        """Whether the estimate weighs rewards by pi/p itself and asks no model."""
        moments = self.moments
        return self.weights_average_one and bool(moments.low[BASE] == 0.0 == moments.high[BASE])

    @classmethod
    def of(cls, columns: EventColumns, form: Aggregate | None = None) -> WeightedSample:
        """Of one block at hand."""
        return cls(Moments.of(columns), form or Mean(), lambda: iter((columns,)))


@runtime_checkable
class IntervalMethod(Protocol):
    """A way to put an interval about an estimate from independent events."""

    def interval(self, sample: WeightedSample, level: float) -> Interval:
        """Two ends with their method, assumption and estimand."""
        ...


def sample_from_values(*values: float) -> WeightedSample:
    """A plain average of these values, for examples and tests.

    >>> sample_from_values(0.0, 1.0).value
    0.5
    """
    value = np.array(values, dtype=np.float64)
    one = np.ones_like(value)
    return WeightedSample.of(EventColumns(0 * one, one, value, one, value, one))
