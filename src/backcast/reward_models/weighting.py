"""How much each logged event counts when a reward model is fitted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import numpy as np

from backcast.arrays import FloatArray
from backcast.errors import OptionError
from backcast.log import Log

__all__ = ["Weighting", "check_weighting", "event_weights", "inverse_power", "mean_one"]

Weighting: TypeAlias = Literal["inverse", "inverse_square"] | Callable[[Log], FloatArray] | None


def check_weighting(weights: object) -> None:
    """Refuse a weighting that is none of those known."""
    if weights not in (None, "inverse", "inverse_square") and not callable(weights):
        raise OptionError(
            f"weights is {weights!r}; give None, 'inverse', 'inverse_square', or a function of the log "
            "that returns one weight an event"
        )


def event_weights(log: Log, weights: Weighting) -> FloatArray | None:
    """One training weight an event, up to a common factor; None counts all alike.

    >>> log = Log(contexts=None, actions=[0, 1], rewards=[1.0, 0.0], propensities=[0.25, 0.5])
    >>> event_weights(log, "inverse")
    array([1. , 0.5])
    """
    if weights is None:
        return None
    if weights == "inverse":
        return inverse_power(log.propensities, 1)
    if weights == "inverse_square":
        return inverse_power(log.propensities, 2)
    return _checked(np.asarray(weights(log), dtype=np.float64), len(log))


def inverse_power(propensities: FloatArray, power: int) -> FloatArray:
    """``p^-power`` up to a common factor, relative to the smallest p so that no square overflows."""
    relative: FloatArray = propensities.min() / propensities
    return relative**power


def mean_one(weights: FloatArray) -> FloatArray:
    """Weights scaled to mean 1, so that a regularisation strength means the same for every weighting.

    >>> mean_one(np.array([1.0, 3.0]))
    array([0.5, 1.5])
    """
    mean = weights.mean()
    # A group whose weights all vanish says nothing about its events: count them alike.
    return weights / mean if mean > 0 else np.ones_like(weights)


def _checked(weights: FloatArray, n: int) -> FloatArray:
    if weights.shape != (n,):
        raise OptionError(f"weights returned shape {weights.shape} for a log of {n} events; expected ({n},)")
    bad = ~(np.isfinite(weights) & (weights >= 0))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise OptionError(f"row {row}: weights returned {weights[row]}; weights must be finite and not negative")
    return weights
