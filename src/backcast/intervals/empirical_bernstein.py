"""The empirical Bernstein interval."""

from __future__ import annotations

import math
from dataclasses import dataclass

from backcast.estimate import Interval
from backcast.intervals.bounds import about_average, check_largest_weight
from backcast.intervals.sample import Sample

__all__ = ["EmpiricalBernstein", "empirical_bernstein_reach"]


def empirical_bernstein_reach(variance: float, width: float, n: int, alpha: float) -> float:
    """``sqrt(2 v log(2/alpha) / n) + 7 width log(2/alpha) / (3 (n - 1))``, one side (Maurer and Pontil 2009, thm 4).

    >>> round(empirical_bernstein_reach(0.2525, 1.0, 101, 2 / math.e**2), 6)
    0.146667

    By hand: log(2/alpha) = 2; sqrt(2 * 0.2525 * 2 / 101) = 0.1 and 7 * 2 / 300 = 0.046667.
    """
    tail = math.log(2 / alpha)
    return math.sqrt(2 * variance * tail / n) + 7 * width * tail / (3 * (n - 1))


@dataclass(frozen=True)
class EmpiricalBernstein:
    """Value plus or minus Maurer and Pontil's reach: like Hoeffding's, but the variance seen counts first.

    Assumption: independent events and bounds as :class:`Hoeffding` has them; then it covers for every n.
    Estimand: that of the estimate, an average.

    Parameters
    ----------
    largest_weight
        As for :class:`Hoeffding`.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from backcast.intervals.sample import values_of
    >>> sample = replace(values_of(*[0.5] * 701), reward_range=(0, 1), base_range=(0, 0), residual_range=(0, 1))
    >>> print(EmpiricalBernstein(largest_weight=1.0).interval(sample, level=1 - 4 / math.e**3))
    [0.49, 0.51] (80.0852 % empirical Bernstein)

    By hand: no variance, log(4/alpha) = 3, and 7 * 3 / (3 * 700) = 0.01.
    """

    largest_weight: float | None = None

    def __post_init__(self) -> None:
        check_largest_weight(self.largest_weight)

    def interval(self, sample: Sample, level: float) -> Interval:
        """Two ends about the estimate."""
        n, variance = sample.moments.n, sample.moments.n * sample.std_error**2

        def reach(width: float) -> float:
            return empirical_bernstein_reach(variance, width, n, (1 - level) / 2)

        return about_average(sample, self.largest_weight, level, "empirical Bernstein", reach)
