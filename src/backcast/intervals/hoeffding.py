"""Hoeffding's interval."""

from __future__ import annotations

import math
from dataclasses import dataclass

from backcast.estimate import Interval
from backcast.intervals.bounds import check_largest_weight, event_range, within_rewards
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
        A known bound on ``pi/p``. None takes it from the log: exact where the log records the logger's
        probabilities of all actions or is uniform, otherwise one over the smallest logged propensity, which is
        right only if the logger's floor shows there.

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
        low, high = event_range(sample, self.largest_weight, "Hoeffding")
        reach = (high - low) * math.sqrt(math.log(2 / (1 - level)) / (2 * sample.moments.n))
        ends = sample.value - reach, sample.value + reach
        return within_rewards(Interval(*ends, level, "Hoeffding", "independent", sample.estimand), sample)
