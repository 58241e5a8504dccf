"""Checks of option values, each with one clear message."""

from __future__ import annotations

import math

from backcast.errors import OptionError


def at_least(name: str, value: float, low: float, *, strict: bool = False) -> float:
    """A finite number no smaller than ``low`` (larger, if strict).

    >>> at_least("alpha", -1, 0)
    Traceback (most recent call last):
    ...
    backcast.errors.OptionError: alpha is -1; it must be a finite number >= 0
    """
    if not math.isfinite(value) or value < low or (strict and value == low):
        raise OptionError(f"{name} is {value}; it must be a finite number {'>' if strict else '>='} {low}")
    return float(value)


def share(name: str, value: float) -> float:
    """A number in [0, 1].

    >>> share("epsilon", 0.25)
    0.25
    """
    if not 0.0 <= value <= 1.0:
        raise OptionError(f"{name} is {value}; it must lie in [0, 1]")
    return float(value)


def count(name: str, value: int, low: int = 1) -> int:
    """A whole number no smaller than ``low``.

    >>> count("horizon", 0)
    Traceback (most recent call last):
    ...
    backcast.errors.OptionError: horizon is 0; it must be a whole number >= 1
    """
    if int(value) != value or value < low:
        raise OptionError(f"{name} is {value}; it must be a whole number >= {low}")
    return int(value)
