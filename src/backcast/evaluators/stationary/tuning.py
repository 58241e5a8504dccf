"""Choosing a threshold without knowing the bias: SLOPE++."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from backcast.arrays import FloatArray
from backcast.errors import OptionError
from backcast.estimate import Estimate
from backcast.evaluators.stationary.method import moments_of
from backcast.evaluators.stationary.shapes import Family
from backcast.evaluators.stationary.weighing import WeighedLog
from backcast.intervals.forms import Plain, std_error
from backcast.intervals.moments import BASE, TERM, Moments

__all__ = ["Choice", "Threshold", "check_threshold", "chosen", "slope_plus_plus", "tuned", "with_choice"]

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


def tuned(family: Family, events: WeighedLog) -> Choice:
    """The family's best threshold by SLOPE++; all candidates in one pass."""
    grid = family.grid[::-1]
    return chosen(grid, moments_of(events, [family.at(threshold) for threshold in grid]))


def chosen(grid: tuple[float, ...], moments: list[Moments]) -> Choice:
    """The threshold that SLOPE++ picks among candidates with these moments, the unshaped one first."""
    values = np.array([sums.mean[BASE] + sums.mean[TERM] for sums in moments])
    reaches = np.array([REACH * std_error(Plain(), sums) for sums in moments])
    best = slope_plus_plus(values, np.nan_to_num(reaches))
    return Choice(grid[best], float(values[best]), moments[0])


def with_choice(unshaped: Estimate, choice: Choice) -> Estimate:
    """The tuned value with the error of the unshaped estimate.

    The bias of a chosen shape cannot be seen, and where a model stands in for weights its noise cannot either; the
    unshaped estimate has neither, so its error and interval (stretched to hold the value) stay honest.
    """
    interval = unshaped.interval
    if interval is not None:
        low, high = min(interval.low, choice.value), max(interval.high, choice.value)
        interval = replace(interval, low=low, high=high)
    note = (
        f"SLOPE++ chose the threshold {choice.threshold:g}; standard error and interval are those of the estimate "
        "with weights as they are"
    )
    settings = {**unshaped.settings, "threshold": choice.threshold, "tuned": True}
    return replace(unshaped, value=choice.value, interval=interval, notes=(*unshaped.notes, note), settings=settings)


def check_threshold(threshold: Threshold, high: float = math.inf) -> None:
    """Refuse a threshold that is neither "auto" nor a number in range."""
    if threshold == "auto":
        return
    if not isinstance(threshold, int | float) or not 0.0 <= threshold <= high:
        upper = "" if math.isinf(high) else f" and <= {high:g}"
        raise OptionError(f"threshold is {threshold!r}; give a number >= 0{upper}, or 'auto'")
