"""What an interval may know of an estimate: its sums, its form, its bounds, and its events if it must."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np

from backcast.arrays import FloatArray
from backcast.estimate import Interval
from backcast.intervals.forms import Form, Plain, std_error
from backcast.intervals.moments import BASE, TERM, WEIGHT, Columns, Moments

__all__ = ["FIXED_VALUE", "IntervalMethod", "Sample", "values_of"]

FIXED_VALUE = "V(pi): what the policy earns a round"


@dataclass(frozen=True)
class Sample:
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
    form: Form = field(default_factory=Plain)
    columns: Callable[[], Iterator[Columns]] = lambda: iter(())
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

        >>> values_of(0.0, 1.0).influence()
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
    def of(cls, columns: Columns, form: Form | None = None) -> Sample:
        """Of one block at hand."""
        return cls(Moments.of(columns), form or Plain(), lambda: iter((columns,)))


@runtime_checkable
class IntervalMethod(Protocol):
    """A way to put an interval about an estimate from independent events."""

    def interval(self, sample: Sample, level: float) -> Interval:
        """Two ends with their method, assumption and estimand."""
        ...


def values_of(*values: float) -> Sample:
    """A plain average of these values, for examples and tests.

    >>> values_of(0.0, 1.0).value
    0.5
    """
    value = np.array(values, dtype=np.float64)
    one = np.ones_like(value)
    return Sample.of(Columns(0 * one, one, value, one, value, one))
