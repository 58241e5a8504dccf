"""Hoeffding's interval."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from backcast.estimate import Interval
from backcast.intervals._sample import (
    WeightedSample,
    about_average,
    check_largest_weight,
    known_bound,
    largest_ratio,
    require_weighted_rewards,
    reward_range,
)


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
    >>> from backcast.intervals._sample import sample_from_values
    >>> ranges = {"reward_range": (0, 1), "base_range": (0, 0), "residual_range": (0, 1)}
    >>> sample = replace(sample_from_values(*[0.5] * 200), **ranges)
    >>> print(Hoeffding(largest_weight=1.0).interval(sample, level=1 - 2 / math.e))
    [0.45, 0.55] (26.4241 % Hoeffding)

    By hand: log(2/alpha) = 1, and sqrt(1/400) = 0.05.
    """

    largest_weight: float | None = None

    def __post_init__(self) -> None:
        check_largest_weight(self.largest_weight)

    def interval(self, sample: WeightedSample, level: float) -> Interval:
        """Two ends about the estimate."""
        root = math.sqrt(math.log(2 / (1 - level)) / (2 * sample.moments.n))
        return about_average(sample, self.largest_weight, level, "Hoeffding", lambda width: width * root)


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
    >>> from backcast.intervals._sample import sample_from_values
    >>> ranges = {"reward_range": (0, 1), "base_range": (0, 0), "residual_range": (0, 1)}
    >>> sample = replace(sample_from_values(*[0.5] * 701), **ranges)
    >>> print(EmpiricalBernstein(largest_weight=1.0).interval(sample, level=1 - 4 / math.e**3))
    [0.49, 0.51] (80.0852 % empirical Bernstein)

    By hand: no variance, log(4/alpha) = 3, and 7 * 3 / (3 * 700) = 0.01.
    """

    largest_weight: float | None = None

    def __post_init__(self) -> None:
        check_largest_weight(self.largest_weight)

    def interval(self, sample: WeightedSample, level: float) -> Interval:
        """Two ends about the estimate."""
        n, variance = sample.moments.n, sample.moments.n * sample.std_error**2

        def reach(width: float) -> float:
            return empirical_bernstein_reach(variance, width, n, (1 - level) / 2)

        return about_average(sample, self.largest_weight, level, "empirical Bernstein", reach)


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
    >>> from backcast.intervals._sample import sample_from_values
    >>> sample = replace(sample_from_values(0.0), reward_range=(0, 1), residual_range=(0, 1))
    >>> print(ClopperPearson(largest_weight=1.0).interval(sample, level=0.5))
    [0, 0.75] (50 % Clopper-Pearson)
    """

    largest_weight: float | None = None

    def __post_init__(self) -> None:
        check_largest_weight(self.largest_weight)

    def interval(self, sample: WeightedSample, level: float) -> Interval:
        """Two ends within the reward range."""
        low, high = reward_range(sample, "Clopper-Pearson")
        require_weighted_rewards(sample, "Clopper-Pearson")
        wins, kept = self._thinned(sample, low, high)
        least, most = binomial_ends(wins, kept, level)
        ends = low + (high - low) * least, low + (high - low) * most
        return Interval(*ends, level, "Clopper-Pearson", "independent", sample.estimand)

    def _thinned(self, sample: WeightedSample, low: float, high: float) -> tuple[int, int]:
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
