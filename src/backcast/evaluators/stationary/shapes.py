"""What clipping, switching and shrinking make of a ratio: bias against variance, one equation each."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from backcast.arrays import FloatArray
from backcast.evaluators.stationary.weighing import Shape, unshaped

__all__ = ["CLIP", "SHRINK", "SUB_GAUSSIAN", "SWITCH", "Family", "clip", "shrink", "sub_gaussian", "switch"]


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
class Family:
    """A shape for every threshold: the equation, the thresholds to try, the neutral one, and a bound.

    ``grid`` runs from much shaping to little and ends with ``neutral``, which leaves the ratios alone; ``largest``
    bounds the weight, given the threshold and a bound on the ratio.
    """

    equation: Callable[[FloatArray, float], FloatArray]
    grid: tuple[float, ...]
    neutral: float
    largest: Callable[[float, float], float]

    def at(self, threshold: float) -> Shape:
        """The shape at one threshold; the ratios themselves at the neutral one."""
        if threshold == self.neutral:
            return unshaped
        return lambda ratios: self.equation(ratios, threshold)


def _largest_shrunk(threshold: float, ratio: float) -> float:
    """The curve has its top at ``w = sqrt(l)``."""
    top = min(math.sqrt(threshold), ratio)
    return float(shrink(np.array([top]), threshold)[0])


def _largest_sub_gaussian(threshold: float, ratio: float) -> float:
    return 1.0 / threshold if math.isinf(ratio) and threshold > 0 else ratio / (1.0 - threshold + threshold * ratio)


POWERS = tuple(2.0**j for j in range(17))

CLIP = Family(clip, (*POWERS, math.inf), math.inf, min)
SWITCH = Family(switch, (0.0, *POWERS, math.inf), math.inf, min)
SHRINK = Family(shrink, (0.0, *(4.0**j for j in range(-1, 17)), math.inf), math.inf, _largest_shrunk)
SUB_GAUSSIAN = Family(sub_gaussian, (1.0, *(1 / x for x in POWERS[1:]), 0.0), 0.0, _largest_sub_gaussian)
