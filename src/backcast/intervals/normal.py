"""The normal interval: estimate plus or minus quantile times standard error."""

from __future__ import annotations

from dataclasses import dataclass

from backcast.estimate import Interval
from backcast.intervals.sample import Sample

__all__ = ["Normal", "Student"]


@dataclass(frozen=True)
class Normal:
    """``value ± z std_error``; assumes enough events for the central limit theorem (asymptotic).

    Estimand: that of the estimate. Too narrow where a few large weights carry the estimate.

    Examples
    --------
    >>> from backcast.intervals.sample import values_of
    >>> print(Normal().interval(values_of(0.0, 1.0), level=0.95))
    [-0.48, 1.48] (95 % normal)

    By hand: 0.5 ± 1.96 * 0.5.
    """

    def interval(self, sample: Sample, level: float) -> Interval:
        """Two ends about the estimate."""
        from scipy.special import ndtri

        reach = float(ndtri(0.5 + level / 2)) * sample.std_error
        return Interval(sample.value - reach, sample.value + reach, level, "normal", "asymptotic", sample.estimand)


@dataclass(frozen=True)
class Student:
    """``value ± t_{n-1} std_error``: exact for normal event values, asymptotic otherwise.

    Examples
    --------
    >>> from backcast.intervals.sample import values_of
    >>> print(Student().interval(values_of(1.0, 2.0), level=0.5))
    [1, 2] (50 % t)

    By hand: with one degree of freedom the upper quartile of t is tan(45°) = 1, and the standard error is 0.5.
    """

    def interval(self, sample: Sample, level: float) -> Interval:
        """Two ends about the estimate."""
        from scipy.special import stdtrit

        reach = float(stdtrit(sample.moments.n - 1, 0.5 + level / 2)) * sample.std_error
        return Interval(sample.value - reach, sample.value + reach, level, "t", "asymptotic", sample.estimand)
