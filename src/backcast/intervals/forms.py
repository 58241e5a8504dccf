"""How an estimate is put together from the means of base, weight and term: three forms, each with its slope."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from backcast.arrays import FloatArray
from backcast.intervals.moments import BASE, TERM, WEIGHT, Moments

__all__ = ["Controlled", "Form", "Plain", "SelfNormalised", "best_baseline", "std_error"]


class Form(Protocol):
    """A function of the three means; arrays in, arrays out, so that a bootstrap takes one step."""

    def value(self, base: Any, weight: Any, term: Any) -> Any:
        """The estimate."""
        ...

    def slope(self, base: float, weight: float, term: float) -> tuple[float, float, float]:
        """Its derivative by each mean, for the delta method."""
        ...

    def again(self, weight: Any, spread: Any, together: Any) -> Form:
        """The form on other events, given their mean weight, var(weight) and cov(weight, term)."""
        ...


@dataclass(frozen=True)
class Plain:
    """``mean(base) + mean(term)``: an average of independent event values.

    >>> Plain().value(0.25, 2.0, 0.5)
    0.75
    """

    def value(self, base: Any, weight: Any, term: Any) -> Any:
        """The estimate."""
        return base + term

    def slope(self, base: float, weight: float, term: float) -> tuple[float, float, float]:
        """Every event value counts alike."""
        return 1.0, 0.0, 1.0

    def again(self, weight: Any, spread: Any, together: Any) -> Form:
        """Nothing is fitted."""
        return self


@dataclass(frozen=True)
class SelfNormalised:
    """``mean(base) + mean(term) / mean(weight)`` (Swaminathan and Joachims 2015).

    >>> SelfNormalised().value(0.25, 2.0, 0.5)
    0.5
    """

    def value(self, base: Any, weight: Any, term: Any) -> Any:
        """The estimate."""
        return base + term / weight

    def slope(self, base: float, weight: float, term: float) -> tuple[float, float, float]:
        """Of a quotient."""
        return 1.0, -term / weight**2, 1.0 / weight

    def again(self, weight: Any, spread: Any, together: Any) -> Form:
        """Nothing is fitted."""
        return self


@dataclass(frozen=True)
class Controlled:
    """``mean(base) + mean(term) - baseline (mean(weight) - 1)``: weights are known to average 1.

    >>> Controlled(0.5).value(0.0, 1.25, 0.5)
    0.375
    """

    baseline: Any

    def value(self, base: Any, weight: Any, term: Any) -> Any:
        """The estimate."""
        return base + term - self.baseline * (weight - 1.0)

    def slope(self, base: float, weight: float, term: float) -> tuple[float, float, float]:
        """The baseline is taken as given: what its own error adds is of a smaller order."""
        return 1.0, -self.baseline, 1.0

    def again(self, weight: Any, spread: Any, together: Any) -> Form:
        """With the baseline that is best on the other events."""
        return Controlled(best_baseline(weight, spread, together))


def best_baseline(weight: Any, spread: Any, together: Any) -> Any:
    """``cov(w r, w) / var(w)``: the baseline of least variance (0 where all weights are alike).

    >>> float(best_baseline(2.0, 1.0, 0.5))
    0.5
    """
    # weights that differ by rounding alone say nothing of a slope
    differ = np.asarray(spread) > (1e-12 * np.asarray(weight)) ** 2
    return np.divide(together, spread, out=np.zeros_like(differ, dtype=np.float64), where=differ)


def std_error(form: Form, moments: Moments) -> float:
    """Standard error of the estimate by the delta method (nan for a single event).

    >>> one = np.ones(2)
    >>> from backcast.intervals.moments import Columns
    >>> values = np.array([0.0, 1.0])
    >>> std_error(Plain(), Moments.of(Columns(0 * one, one, values, one, values, one)))
    0.5

    By hand: the variance of 0 and 1 is 1/2, of their mean 1/4.
    """
    where = [BASE, WEIGHT, TERM]
    slope: FloatArray = np.array(form.slope(*moments.mean[where].tolist()))
    variance = slope @ moments.covariance[np.ix_(where, where)] @ slope
    return float(np.sqrt(np.maximum(variance, 0.0) / moments.n))
