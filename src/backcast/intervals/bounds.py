"""Known bounds of one event's value: what intervals that hold for every sample size must be told."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from backcast.errors import OptionError
from backcast.estimate import Interval
from backcast.intervals.forms import Plain
from backcast.intervals.moments import BASE, BOUND, RATIO, RESIDUAL
from backcast.intervals.sample import Sample
from backcast.options import at_least

__all__ = [
    "about_average",
    "check_largest_weight",
    "event_range",
    "known_bound",
    "largest_ratio",
    "require_weighted_rewards",
    "reward_range",
    "within_rewards",
]

ROUNDING = 1e-9


def check_largest_weight(largest_weight: float | None) -> None:
    """Refuse a bound on the weights below 1, their mean."""
    if largest_weight is not None and not math.isinf(largest_weight):
        at_least("largest_weight", largest_weight, 1.0)


def reward_range(sample: Sample, method: str) -> tuple[float, float]:
    """The declared reward range; an error that says how to declare one, where there is none."""
    if sample.reward_range is None:
        raise OptionError(
            f"the {method} interval needs known bounds of the reward and the log declares none; "
            "declare them with reward_range=(low, high) when the log is built or read, or use Normal()"
        )
    return sample.reward_range


def largest_ratio(sample: Sample, largest_weight: float | None) -> float:
    """The bound on ``pi/p``: as given, or else as the log shows it; infinity where nothing is known of it.

    A log that records all the logger's probabilities shows the largest ratio of its contexts (those it does not show
    are too rare to matter: together they are worth about 1/n of the reward range), and one of a uniform logger shows
    the number of actions. The smallest logged propensity of other logs is no bound: what is rarer still is missing
    from the log, and may be worth much.
    """
    if largest_weight is None:
        return float(sample.moments.high[BOUND]) if sample.bound_known else math.inf
    seen = float(sample.moments.high[RATIO])
    if seen > largest_weight * (1 + ROUNDING):
        raise OptionError(
            f"largest_weight is {largest_weight:g} and the log has a weight of {seen:g}; give a bound that holds"
        )
    return largest_weight


def known_bound(bound: float, method: str) -> float:
    """The bound on the weights; an error that says how to declare one, where there is none."""
    if math.isinf(bound):
        raise OptionError(
            f"the {method} interval holds for every n only with a known bound on the weights pi/p, and this log shows "
            "none; declare it with largest_weight=1/floor, where floor is the smallest probability that the logger "
            "ever gives to an action, or give the log its logging_probabilities. Without either, use CressieRead() or "
            "Betting() with IPS, which need no bound, or Normal()"
        )
    return bound


def event_range(sample: Sample, largest_weight: float | None, method: str) -> tuple[float, float]:
    """Between which numbers every event value ``base + weight * residual`` must lie.

    Shaped weights may have a bound of their own, whatever the ratios are.

    >>> from dataclasses import replace
    >>> from backcast.intervals.sample import values_of
    >>> half = replace(values_of(0.0, 1.0), reward_range=(-1, 1), base_range=(0, 0), residual_range=(-1, 1))
    >>> event_range(half, 4.0, "Hoeffding")
    (-4.0, 4.0)
    """
    if not isinstance(sample.form, Plain):
        raise OptionError(
            f"the {method} interval is about averages and {sample.evaluator} is not one; use it with IPS or DR, "
            "or take Normal(), Bootstrap() or CressieRead() here"
        )
    reward_range(sample, method)
    assert sample.base_range is not None
    assert sample.residual_range is not None
    _check_seen(sample, method)
    weight = known_bound(sample.largest(largest_ratio(sample, largest_weight)), method)
    low = sample.base_range[0] + min(0.0, weight * sample.residual_range[0])
    high = sample.base_range[1] + max(0.0, weight * sample.residual_range[1])
    return float(low), float(high)


def about_average(
    sample: Sample, largest_weight: float | None, level: float, method: str, reach: Callable[[float], float]
) -> Interval:
    """``value -+ reach(width)`` for independent events whose values lie in a range of known width."""
    low, high = event_range(sample, largest_weight, method)
    far = reach(high - low)
    ends = sample.value - far, sample.value + far
    return within_rewards(Interval(*ends, level, method, "independent", sample.estimand), sample)


def _check_seen(sample: Sample, method: str) -> None:
    """Predictions from elsewhere may leave the reward range; then nothing is known of an event."""
    moments = sample.moments
    for column, known in ((BASE, sample.base_range), (RESIDUAL, sample.residual_range)):
        assert known is not None
        slack = ROUNDING * (1.0 + abs(known[0]) + abs(known[1]))
        if moments.low[column] < known[0] - slack or moments.high[column] > known[1] + slack:
            raise OptionError(
                f"the {method} interval needs predictions within the reward range {sample.reward_range}; the reward "
                "model leaves it. Clip its predictions, or use Normal()"
            )


def require_weighted_rewards(sample: Sample, method: str) -> None:
    """Refuse shaped weights and reward models where only weighted rewards make sense."""
    if not sample.weighs_rewards:
        raise OptionError(
            f"the {method} interval is about weighted rewards and {sample.evaluator} uses a reward model or shaped "
            "weights; use it with IPS, SNIPS or BaselineIPS, or take Normal() or Bootstrap() here"
        )


def within_rewards(interval: Interval, sample: Sample) -> Interval:
    """Ends drawn in to the reward range, which no policy's value leaves."""
    if not sample.weights_average_one or sample.reward_range is None:
        return interval
    low, high = sample.reward_range
    return replace(interval, low=min(max(interval.low, low), high), high=max(min(interval.high, high), low))
