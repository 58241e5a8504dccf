"""The empirical Bernstein interval."""

from __future__ import annotations

import math
from dataclasses import dataclass

from backcast.estimate import Interval
from backcast.intervals.bounds import check_largest_weight, event_range, within_rewards
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

    Assumption: independent events, rewards within the declared range, weights within the bound; then it covers for
    every n. Cross-fitted models tie events together: take ``Split`` or ``Fitted`` where the letter matters.
    Estimand: that of the estimate (an average: IPS, DR and their relatives).

    Parameters
    ----------
    largest_weight
        A known bound on ``pi/p``. None takes it from the log: exact where the log records the logger's
        probabilities of all actions or is uniform, otherwise one over the smallest logged propensity, which is
        right only if the logger's floor shows there.

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
        low, high = event_range(sample, self.largest_weight, "empirical Bernstein")
        n = sample.moments.n
        reach = empirical_bernstein_reach(n * sample.std_error**2, high - low, n, (1 - level) / 2)
        ends = sample.value - reach, sample.value + reach
        return within_rewards(Interval(*ends, level, "empirical Bernstein", "independent", sample.estimand), sample)
