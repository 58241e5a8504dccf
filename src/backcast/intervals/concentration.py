"""Concentration intervals that cover for every n: Hoeffding, empirical Bernstein, Clopper-Pearson."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from backcast._request import SeedKey
from backcast.estimate import Interval
from backcast.intervals._bounds import (
    WeightBound,
    event_range,
    find_ratio_bound,
    interval_around,
    require_bound,
    require_reward_range,
    require_weighted_rewards,
)
from backcast.intervals._sample import WeightedSample


@dataclass(frozen=True)
class Hoeffding(WeightBound):
    """``value ± (high - low) sqrt(log(2/alpha) / 2n)`` (Hoeffding 1963), for event values within [low, high].

    Assumption: independent events, rewards within the declared range, weights within the bound; then it covers for
    every n. Cross-fitted models make events dependent: use ``Split`` or ``Fitted`` if the guarantee must be exact.
    Estimand: that of the estimate (an average, as IPS and DR are).

    Parameters
    ----------
    largest_weight
        A known bound on ``pi/p``; None uses the bound that the log shows, and refuses a log that shows none.

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

    def interval(self, sample: WeightedSample, level: float) -> Interval:
        """Return the interval around the estimate."""
        low, high = event_range(sample, self.largest_weight, "Hoeffding")
        half_width = (high - low) * math.sqrt(math.log(2 / (1 - level)) / (2 * sample.moments.n))
        return interval_around(sample, half_width, level, "Hoeffding")


@dataclass(frozen=True)
class EmpiricalBernstein(WeightBound):
    """``value ±`` the bound of Maurer and Pontil (2009): the leading term is the sample variance, not the range.

    Assumption: independent events and bounds as for :class:`Hoeffding`; then it covers for every n.
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

    def interval(self, sample: WeightedSample, level: float) -> Interval:
        """Return the interval around the estimate."""
        low, high = event_range(sample, self.largest_weight, "empirical Bernstein")
        n = sample.moments.n
        half_width = empirical_bernstein_half_width(n * sample.std_error**2, high - low, n, (1 - level) / 2)
        return interval_around(sample, half_width, level, "empirical Bernstein")


def empirical_bernstein_half_width(variance: float, width: float, n: int, alpha: float) -> float:
    """``sqrt(2 v log(2/alpha) / n) + 7 width log(2/alpha) / (3 (n - 1))``, one side (Maurer and Pontil 2009, thm 4).

    >>> round(empirical_bernstein_half_width(0.2525, 1.0, 101, 2 / math.e**2), 6)
    0.146667

    By hand: log(2/alpha) = 2; sqrt(2 * 0.2525 * 2 / 101) = 0.1 and 7 * 2 / 300 = 0.046667.
    """
    log_term = math.log(2 / alpha)
    return math.sqrt(2 * variance * log_term / n) + 7 * width * log_term / (3 * (n - 1))


@dataclass(frozen=True)
class ClopperPearson(WeightBound):
    """Keep each event with probability ``w / largest weight``; binomial interval for the share of successes among them.

    The kept events follow exactly the distribution of events that the policy would have met live, so the binomial
    interval for the share of rewards at the upper end is exact. Rewards between the ends of their range count as a
    coin flip with that mean. Inefficient with large weights: about ``n / largest weight`` events are kept.

    Assumption: independent events and bounds as for :class:`Hoeffding`; then it covers for every n.
    Estimand: V(pi). For IPS, SNIPS and BaselineIPS. The draws use the seed of the evaluation.

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

    def interval(self, sample: WeightedSample, level: float) -> Interval:
        """Return the interval within the reward range."""
        low, high = require_reward_range(sample, "Clopper-Pearson")
        require_weighted_rewards(sample, "Clopper-Pearson")
        max_weight = require_bound(find_ratio_bound(sample, self.largest_weight), "Clopper-Pearson")
        rng = np.random.default_rng((sample.seed, SeedKey.THINNING))
        successes = trials = 0
        for columns in sample.columns():
            # two draws per event, so that the result does not depend on the blocks
            selection, coin = rng.random((columns.ratio.size, 2)).T
            selected = selection * max_weight < columns.ratio
            successes += int((selected & (coin * (high - low) < columns.residual - low)).sum())
            trials += int(selected.sum())
        least, most = binomial_interval(successes, trials, level)
        ends = low + (high - low) * least, low + (high - low) * most
        return Interval(*ends, level, "Clopper-Pearson", "independent", sample.estimand)


def binomial_interval(successes: float, trials: float, level: float) -> tuple[float, float]:
    """Exact interval for the probability of success (Clopper and Pearson 1934), by quantiles of the beta distribution.

    Accepts fractional counts, which ``scipy.stats.binomtest`` refuses (its ends come from a root search and differ
    from these in the last digits).

    >>> binomial_interval(0, 1, level=0.5)
    (0.0, 0.75)

    By hand: a single failure has probability 1 - p, which is 0.25 at p = 0.75.
    """
    from scipy.special import betaincinv

    tail = (1 - level) / 2
    low = float(betaincinv(successes, trials - successes + 1, tail)) if successes > 0 else 0.0
    high = float(betaincinv(successes + 1, trials - successes, 1 - tail)) if successes < trials else 1.0
    return low, high
