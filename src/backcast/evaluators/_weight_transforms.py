"""Weight transforms: clipping, switching and shrinking of ratios, and the choice of their threshold by SLOPE++."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from backcast._arrays import FloatArray
from backcast.errors import OptionError

Threshold: TypeAlias = float | Literal["auto"]
POWERS_OF_2 = tuple(2.0**j for j in range(17))
SLOPE_CONSTANT = math.sqrt(6.0) - 1.0


def clip(ratios: FloatArray, threshold: float) -> FloatArray:
    """Return ``min(w, l)`` (Ionides 2008).

    >>> clip(np.array([0.5, 3.0]), 2.0)
    array([0.5, 2. ])
    """
    return np.minimum(ratios, threshold)


def switch(ratios: FloatArray, threshold: float) -> FloatArray:
    """Return ``w`` up to the threshold and 0 beyond, where the model is used instead (Wang, Agarwal, Dudik 2017).

    >>> switch(np.array([0.5, 3.0]), 2.0)
    array([0.5, 0. ])
    """
    return np.where(ratios <= threshold, ratios, 0.0)


def shrink(ratios: FloatArray, threshold: float) -> FloatArray:
    """Return ``l w / (w^2 + l)`` (Su, Dimakopoulou, Krishnamurthy, Dudik 2020, optimistic shrinkage).

    >>> shrink(np.array([1.0, 3.0]), 3.0)
    array([0.75, 0.75])
    """
    if math.isinf(threshold):
        return ratios
    if threshold == 0.0:
        return np.zeros_like(ratios)
    # numerator and denominator divided by l: w^2 would overflow first
    shrunk: FloatArray = ratios / (ratios * (ratios / threshold) + 1.0)
    return shrunk


def sub_gaussian(ratios: FloatArray, threshold: float) -> FloatArray:
    """Return ``w / (1 - l + l w)`` (Metelli, Russo, Restelli 2021): w for l = 0, all weights 1 for l = 1.

    >>> sub_gaussian(np.array([0.0, 3.0]), 0.5)
    array([0. , 1.5])
    """
    denominator = 1.0 - threshold + threshold * ratios
    return np.divide(ratios, denominator, out=np.zeros_like(ratios), where=denominator > 0)


def _largest_shrunk(threshold: float, ratio: float) -> float:
    """Return the largest shrunk weight; the function has its maximum at ``w = sqrt(l)``."""
    return float(shrink(np.array([min(math.sqrt(threshold), ratio)]), threshold)[0])


def _largest_sub_gaussian(threshold: float, ratio: float) -> float:
    return 1.0 / threshold if math.isinf(ratio) and threshold > 0 else ratio / (1.0 - threshold + threshold * ratio)


@dataclass(frozen=True)
class TransformFamily:
    """A transform for every threshold.

    ``grid`` are the thresholds that "auto" tries, from the strongest transform to ``neutral``, which leaves the ratios
    unchanged; ``largest`` bounds the weight, given the threshold and a bound on the ratio.
    """

    equation: Callable[[FloatArray, float], FloatArray]
    grid: tuple[float, ...]
    neutral: float
    largest: Callable[[float, float], float]

    def at(self, threshold: float) -> WeightTransform:
        """Return the transform at one threshold."""
        return IDENTITY if threshold == self.neutral else WeightTransform(self, threshold)


@dataclass(frozen=True)
class WeightTransform:
    """From ratios to weights; the identity if there is no family."""

    family: TransformFamily | None = None
    threshold: float = math.nan

    def __call__(self, ratios: FloatArray) -> FloatArray:
        """Return the weights."""
        return ratios if self.family is None else self.family.equation(ratios, self.threshold)

    def largest(self, ratio: float) -> float:
        """Return a bound on the weight, given a bound on the ratio."""
        return float(ratio) if self.family is None else self.family.largest(self.threshold, ratio)


IDENTITY = WeightTransform()
CLIP = TransformFamily(clip, (*POWERS_OF_2, math.inf), math.inf, min)
SWITCH = TransformFamily(switch, (0.0, *POWERS_OF_2, math.inf), math.inf, min)
SHRINK = TransformFamily(shrink, (0.0, *(4.0**j for j in range(-1, 17)), math.inf), math.inf, _largest_shrunk)
SUB_GAUSSIAN = TransformFamily(sub_gaussian, (1.0, *(1 / x for x in POWERS_OF_2[1:]), 0.0), 0.0, _largest_sub_gaussian)


def check_threshold(threshold: Threshold, high: float = math.inf) -> None:
    """Raise if a threshold is neither "auto" nor a number in range."""
    if threshold == "auto":
        return
    if not isinstance(threshold, int | float) or not 0.0 <= threshold <= high:
        upper = "" if math.isinf(high) else f" and <= {high:g}"
        raise OptionError(f"threshold is {threshold!r}; give a number >= 0{upper}, or 'auto'")


def slope_plus_plus(values: FloatArray, half_widths: FloatArray) -> int:
    """Return the index of the narrowest candidate that agrees with all wider ones (Tucker and Lee 2021).

    Candidates are visited by decreasing half-width, as long as
    ``|v_i - v_j| <= half_width_i + (sqrt(6) - 1) half_width_j`` for all j before i.

    >>> slope_plus_plus(np.array([0.5, 0.625, 2.0]), np.array([1.0, 0.5, 0.0625]))
    1

    By hand: the second is 0.125 from the first and may be 0.5 + 1.45; the third is 1.5 from the first and may be
    0.0625 + 1.45, but it is 1.375 from the second and may only be 0.0625 + 0.72.
    """
    order = np.argsort(-half_widths, kind="stable")
    best = order[0]
    for step, i in enumerate(order[1:], start=1):
        wider = order[:step]
        if (np.abs(values[i] - values[wider]) > half_widths[i] + SLOPE_CONSTANT * half_widths[wider]).any():
            break
        best = i
    return int(best)
