"""The binomial interval of Clopper and Pearson, made exact for weighted logs by thinning."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from backcast.estimate import Interval
from backcast.intervals.bounds import (
    check_largest_weight,
    known_bound,
    largest_ratio,
    require_weighted_rewards,
    reward_range,
)
from backcast.intervals.sample import Sample

__all__ = ["ClopperPearson", "binomial_ends"]


def binomial_ends(successes: float, trials: float, level: float) -> tuple[float, float]:
    """Exact ends for the chance of success (Clopper and Pearson 1934), by quantiles of the beta law.

    >>> low, high = binomial_ends(0, 1, level=0.5)
    >>> low, high
    (0.0, 0.75)

    By hand: one failure alone has chance 1 - p, which is 0.25 at p = 0.75.
    """
    from scipy.special import betaincinv

    tail = (1 - level) / 2
    low = float(betaincinv(successes, trials - successes + 1, tail)) if successes > 0 else 0.0
    high = float(betaincinv(successes + 1, trials - successes, 1 - tail)) if successes < trials else 1.0
    return low, high


@dataclass(frozen=True)
class ClopperPearson:
    """Keep each event with chance ``w / largest weight``: what is left is a log of the policy itself; count its wins.

    The events kept have exactly the law of events the policy would have met live, so the binomial interval for the
    share of rewards at the upper end is exact. Rewards between the ends of their range count as a coin with that
    mean. Costly with large weights: about ``n / largest weight`` events are kept.

    Assumption: independent events and bounds as :class:`Hoeffding` has them; then it covers for every n.
    Estimand: V(pi). For IPS, SNIPS and BaselineIPS. The draws come from the question's seed.

    Parameters
    ----------
    largest_weight
        As for :class:`Hoeffding`.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from backcast.intervals.sample import values_of
    >>> sample = replace(values_of(0.0), reward_range=(0, 1), residual_range=(0, 1))
    >>> print(ClopperPearson(largest_weight=1.0).interval(sample, level=0.5))
    [0, 0.75] (50 % Clopper-Pearson)
    """

    largest_weight: float | None = None

    def __post_init__(self) -> None:
        check_largest_weight(self.largest_weight)

    def interval(self, sample: Sample, level: float) -> Interval:
        """Two ends within the reward range."""
        low, high = reward_range(sample, "Clopper-Pearson")
        require_weighted_rewards(sample, "Clopper-Pearson")
        wins, kept = self._thinned(sample, low, high)
        least, most = binomial_ends(wins, kept, level)
        ends = low + (high - low) * least, low + (high - low) * most
        return Interval(*ends, level, "Clopper-Pearson", "independent", sample.estimand)

    def _thinned(self, sample: Sample, low: float, high: float) -> tuple[int, int]:
        """Wins among the events kept, and how many were kept."""
        rng = np.random.default_rng((sample.seed, 1934))
        heaviest = known_bound(largest_ratio(sample, self.largest_weight), "Clopper-Pearson")
        wins = kept = 0
        for columns in sample.columns():
            # two draws an event, so that the blocks do not matter
            keep, coin = rng.random((columns.ratio.size, 2)).T
            stays = keep * heaviest < columns.ratio
            wins += int((stays & (coin * (high - low) < columns.residual - low)).sum())
            kept += int(stays.sum())
        return wins, kept
