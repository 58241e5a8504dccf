"""What clipping, switching and shrinking make of a ratio: bias against variance, one equation each."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from backcast._arrays import FloatArray
from backcast._request import EvaluationRequest, require_fixed_policy
from backcast.errors import OptionError
from backcast.estimate import Estimate
from backcast.evaluators._weighted_estimate import EstimatorSpec, estimate_from, moments_of
from backcast.evaluators._weighted_events import WeightedLog, WeightTransform, identity, weight_events
from backcast.intervals._sample import BASE, TERM, Mean, Moments, std_error


def clip(ratios: FloatArray, threshold: float) -> FloatArray:
    """``min(w, l)`` (Ionides 2008).

    >>> clip(np.array([0.5, 3.0]), 2.0)
    array([0.5, 2. ])
    """
    return np.minimum(ratios, threshold)


def switch(ratios: FloatArray, threshold: float) -> FloatArray:
    """``w`` up to the threshold and 0 beyond, where the model is trusted instead (Wang, Agarwal and Dudik 2017).

    >>> switch(np.array([0.5, 3.0]), 2.0)
    array([0.5, 0. ])
    """
    return np.where(ratios <= threshold, ratios, 0.0)


def shrink(ratios: FloatArray, threshold: float) -> FloatArray:
    """``l w / (w^2 + l)`` (Su, Dimakopoulou, Krishnamurthy and Dudik 2020, optimistic shrinkage).

    >>> shrink(np.array([1.0, 3.0]), 3.0)
    array([0.75, 0.75])
    """
    if math.isinf(threshold):
        return ratios
    if threshold == 0.0:
        return np.zeros_like(ratios)
    # the same fraction with both sides divided by l, whose square would overflow first
    shrunk: FloatArray = ratios / (ratios * (ratios / threshold) + 1.0)
    return shrunk


def sub_gaussian(ratios: FloatArray, threshold: float) -> FloatArray:
    """``w / (1 - l + l w)`` (Metelli, Russo and Restelli 2021): 0 leaves w, 1 makes every weight 1.

    >>> sub_gaussian(np.array([0.0, 3.0]), 0.5)
    array([0. , 1.5])
    """
    below = 1.0 - threshold + threshold * ratios
    return np.divide(ratios, below, out=np.zeros_like(ratios), where=below > 0)


@dataclass(frozen=True)
class TransformFamily:
    """A shape for every threshold: the equation, the thresholds to try, the neutral one, and a bound.

    ``grid`` runs from much shaping to little and ends with ``neutral``, which leaves the ratios alone; ``largest``
    bounds the weight, given the threshold and a bound on the ratio.
    """

    equation: Callable[[FloatArray, float], FloatArray]
    grid: tuple[float, ...]
    neutral: float
    largest: Callable[[float, float], float]

    def at(self, threshold: float) -> WeightTransform:
        """The shape at one threshold; the ratios themselves at the neutral one."""
        if threshold == self.neutral:
            return identity
        return lambda ratios: self.equation(ratios, threshold)


def _largest_shrunk(threshold: float, ratio: float) -> float:
    """The curve has its top at ``w = sqrt(l)``."""
    top = min(math.sqrt(threshold), ratio)
    return float(shrink(np.array([top]), threshold)[0])


def _largest_sub_gaussian(threshold: float, ratio: float) -> float:
    return 1.0 / threshold if math.isinf(ratio) and threshold > 0 else ratio / (1.0 - threshold + threshold * ratio)


POWERS = tuple(2.0**j for j in range(17))


CLIP = TransformFamily(clip, (*POWERS, math.inf), math.inf, min)


SWITCH = TransformFamily(switch, (0.0, *POWERS, math.inf), math.inf, min)


SHRINK = TransformFamily(shrink, (0.0, *(4.0**j for j in range(-1, 17)), math.inf), math.inf, _largest_shrunk)


SUB_GAUSSIAN = TransformFamily(sub_gaussian, (1.0, *(1 / x for x in POWERS[1:]), 0.0), 0.0, _largest_sub_gaussian)


Threshold: TypeAlias = float | Literal["auto"]


REACH = 2.0  # standard errors on either side of a candidate's value


CARE = math.sqrt(6.0) - 1.0


def slope_plus_plus(values: FloatArray, reaches: FloatArray) -> int:
    """Index of the narrowest candidate that still agrees with all wider ones (Tucker and Lee 2021).

    Candidates are taken by decreasing reach; the walk goes on while
    ``|v_i - v_j| <= reach_i + (sqrt(6) - 1) reach_j`` for all j before i.

    >>> slope_plus_plus(np.array([0.5, 0.625, 2.0]), np.array([1.0, 0.5, 0.0625]))
    1

    By hand: the second is 0.125 from the first and may be 0.5 + 1.45; the third is 1.5 away and may be 0.0625 + 1.45,
    which it is, but it is 1.375 from the second and may only be 0.0625 + 0.72.
    """
    order = np.argsort(-reaches, kind="stable")
    best = order[0]
    for step, i in enumerate(order[1:], start=1):
        wider = order[:step]
        if (np.abs(values[i] - values[wider]) > reaches[i] + CARE * reaches[wider]).any():
            break
        best = i
    return int(best)


class Choice(NamedTuple):
    """A threshold, the value it gives, and the moments of the unshaped candidate, which has no bias."""

    threshold: float
    value: float
    neutral: Moments


def select_threshold(family: TransformFamily, events: WeightedLog) -> Choice:
    """The family's best threshold by SLOPE++; all candidates in one pass."""
    grid = family.grid[::-1]
    return chosen(grid, moments_of(events, [family.at(threshold) for threshold in grid]))


def chosen(grid: tuple[float, ...], moments: list[Moments]) -> Choice:
    """The threshold that SLOPE++ picks among candidates with these moments, the unshaped one first."""
    values = np.array([sums.mean[BASE] + sums.mean[TERM] for sums in moments])
    reaches = np.array([REACH * std_error(Mean(), sums) for sums in moments])
    best = slope_plus_plus(values, np.nan_to_num(reaches))
    return Choice(grid[best], float(values[best]), moments[0])


def with_choice(untransformed: Estimate, choice: Choice) -> Estimate:
    """The tuned value with the error of the unshaped estimate.

    The bias of a chosen shape cannot be seen, and where a model stands in for weights its noise cannot either; the
    unshaped estimate has neither, so its error and interval (stretched to hold the value) stay honest.
    """
    interval = untransformed.interval
    if interval is not None:
        low, high = min(interval.low, choice.value), max(interval.high, choice.value)
        interval = replace(interval, low=low, high=high)
    note = (
        f"SLOPE++ chose the threshold {choice.threshold:g}; standard error and interval are those of the estimate "
        "with weights as they are"
    )
    settings = {**untransformed.settings, "threshold": choice.threshold, "tuned": True}
    return replace(
        untransformed, value=choice.value, interval=interval, notes=(*untransformed.notes, note), settings=settings
    )


def check_threshold(threshold: Threshold, high: float = math.inf) -> None:
    """Refuse a threshold that is neither "auto" nor a number in range."""
    if threshold == "auto":
        return
    if not isinstance(threshold, int | float) or not 0.0 <= threshold <= high:
        upper = "" if math.isinf(high) else f" and <= {high:g}"
        raise OptionError(f"threshold is {threshold!r}; give a number >= 0{upper}, or 'auto'")


def estimate_with_transform(
    name: str, family: TransformFamily, threshold: Threshold, request: EvaluationRequest, *, model: bool
) -> Estimate:
    """The estimate with weights of this family, at the threshold given or chosen by SLOPE++."""
    require_fixed_policy(request.policy, name)
    events = weight_events(request, model=model)
    if threshold == "auto":
        choice = select_threshold(family, events)
        return with_choice(estimate_from(EstimatorSpec(name, model=model), request, events, choice.neutral), choice)
    fixed = float(threshold)
    method = EstimatorSpec(
        name,
        model=model,
        shape=family.at(fixed),
        largest=lambda ratio: family.largest(fixed, ratio),
        settings={"threshold": fixed, "tuned": False},
    )
    return estimate_from(method, request, events)
