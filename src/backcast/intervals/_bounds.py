"""Known bounds of rewards, weights and event values, for intervals that need them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from backcast._validation import at_least
from backcast.errors import OptionError
from backcast.estimate import Interval
from backcast.intervals._sample import BASE, BOUND, RATIO, RESIDUAL, Mean, WeightedSample

ROUNDING = 1e-9  # relative excess over a declared bound that counts as rounding error


@dataclass(frozen=True)
class WeightBound:
    """Parameter of intervals that use a known bound on the weights; it is at least 1, their mean."""

    largest_weight: float | None = None

    def __post_init__(self) -> None:
        if self.largest_weight is not None and not math.isinf(self.largest_weight):
            at_least("largest_weight", self.largest_weight, 1.0)


def require_reward_range(sample: WeightedSample, method: str) -> tuple[float, float]:
    """Return the declared reward range, or raise an error that explains how to declare one."""
    if sample.reward_range is None:
        raise OptionError(
            f"the {method} interval needs known bounds of the reward and the log declares none; "
            "declare them with reward_range=(low, high) when the log is built or read, or use Normal()"
        )
    return sample.reward_range


def require_weighted_rewards(sample: WeightedSample, method: str) -> None:
    """Raise if the estimate uses transformed weights or a reward model."""
    if not sample.weighs_rewards:
        raise OptionError(
            f"the {method} interval is about weighted rewards and {sample.evaluator} uses a reward model or "
            "transformed weights; use it with IPS, SNIPS or BaselineIPS, or use Normal() or Bootstrap() here"
        )


def find_ratio_bound(sample: WeightedSample, largest_weight: float | None) -> float:
    """Return the bound on ``pi/p``: the one given, or the one that the log shows, or infinity.

    A log that records all the logger's probabilities shows the largest ratio of its contexts (contexts that are missing
    are too rare to matter: together they contribute about 1/n of the reward range), and a log of a uniform logger shows
    the number of actions. The smallest logged propensity of other logs is no bound: actions that are even rarer are
    missing from the log, and may contribute much.
    """
    if largest_weight is None:
        return float(sample.moments.high[BOUND]) if sample.bound_known else math.inf
    largest_logged = float(sample.moments.high[RATIO])
    if largest_logged > largest_weight * (1 + ROUNDING):
        raise OptionError(
            f"largest_weight is {largest_weight:g} and the log has a weight of {largest_logged:g}; "
            "give a bound that holds"
        )
    return largest_weight


def require_bound(bound: float, method: str) -> float:
    """Return the bound on the weights if it is finite, or raise an error that explains how to declare one."""
    if math.isinf(bound):
        raise OptionError(
            f"the {method} interval holds for every n only with a known bound on the weights pi/p, and this log shows "
            "none; declare it with largest_weight=1/floor, where floor is the smallest probability that the logger "
            "ever gives to an action, or give the log its logging_probabilities. Without either, use CressieRead() or "
            "Betting() with IPS, which need no bound, or Normal()"
        )
    return bound


def event_range(sample: WeightedSample, largest_weight: float | None, method: str) -> tuple[float, float]:
    """Bounds of every event value ``base + weight * residual``.

    Transformed weights may have a bound that does not depend on the ratios.

    >>> from backcast.intervals._sample import sample_from_values
    >>> half = replace(sample_from_values(0.0, 1.0), reward_range=(-1, 1), base_range=(0, 0), residual_range=(-1, 1))
    >>> event_range(half, 4.0, "Hoeffding")
    (-4.0, 4.0)
    """
    if not isinstance(sample.aggregate, Mean):
        raise OptionError(
            f"the {method} interval is about averages and {sample.evaluator} is not one; use it with IPS or DR, "
            "or use Normal(), Bootstrap() or CressieRead() here"
        )
    require_reward_range(sample, method)
    assert sample.base_range is not None
    assert sample.residual_range is not None
    for column, (low, high) in ((BASE, sample.base_range), (RESIDUAL, sample.residual_range)):
        slack = ROUNDING * (1.0 + abs(low) + abs(high))
        # predictions computed elsewhere may leave the reward range; then an event value has no known bounds
        if sample.moments.low[column] < low - slack or sample.moments.high[column] > high + slack:
            raise OptionError(
                f"the {method} interval needs predictions within the reward range {sample.reward_range}; the reward "
                "model leaves it. Clip its predictions, or use Normal()"
            )
    weight = require_bound(sample.largest(find_ratio_bound(sample, largest_weight)), method)
    low = sample.base_range[0] + min(0.0, weight * sample.residual_range[0])
    high = sample.base_range[1] + max(0.0, weight * sample.residual_range[1])
    return float(low), float(high)


def interval_around(sample: WeightedSample, half_width: float, level: float, method: str) -> Interval:
    """``value ± half_width`` for independent events, within the reward range."""
    low, high = sample.value - half_width, sample.value + half_width
    return clip_to_reward_range(Interval(low, high, level, method, "independent", sample.estimand), sample)


def clip_to_reward_range(interval: Interval, sample: WeightedSample) -> Interval:
    """Move the ends into the reward range, which contains the value of every policy."""
    if not sample.weights_average_one or sample.reward_range is None:
        return interval
    low, high = sample.reward_range
    return replace(interval, low=min(max(interval.low, low), high), high=max(min(interval.high, high), low))
