"""Hoeffding's interval."""

from __future__ import annotations

import math
from dataclasses import dataclass

from backcast.estimate import Interval
from backcast.intervals.bounds import about_average, check_largest_weight
from backcast.intervals.sample import Sample

__all__ = ["Hoeffding"]


@dataclass(frozen=True)
class Hoeffding:
    """``value ± (high - low) sqrt(log(2/alpha) / 2n)`` (Hoeffding 1963), for event values within [low, high].

    Assumption: independent events, rewards within the declared range, weights within the bound; then it covers for
    every n. Cross-fitted models tie events together: take ``Split`` or ``Fitted`` where the letter matters.
    Estimand: that of the estimate (an average: IPS, DR and their relatives).

    Parameters
    ----------
    largest_weight
        A known bound on ``pi/p``; None takes the one that the log shows, and refuses a log that shows none.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from backcast.intervals.sample import values_of
    >>> sample = replace(values_of(*[0.5] * 200), reward_range=(0, 1), base_range=(0, 0), residual_range=(0, 1))
    >>> print(Hoeffding(largest_weight=1.0).interval(sample, level=1 - 2 / math.e))
    [0.45, 0.55] (26.4241 % Hoeffding)

    By hand: log(2/alpha) = 1, and sqrt(1/400) = 0.05.
    """

    largest_weight: float | None = None

    def __post_init__(self) -> None:
        check_largest_weight(self.largest_weight)

    def interval(self, sample: Sample, level: float) -> Interval:
        """Two ends about the estimate."""
        root = math.sqrt(math.log(2 / (1 - level)) / (2 * sample.moments.n))
        return about_average(sample, self.largest_weight, level, "Hoeffding", lambda width: width * root)
