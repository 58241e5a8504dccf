"""Checks of option values, each with one clear message."""

from __future__ import annotations

import math
import numbers
import operator
from typing import Any

import numpy as np

from backcast.errors import OptionError

LARGEST_COUNT = 2**63 - 1  # the largest whole number of the arrays that count events and rounds


def at_least(name: str, value: Any, low: float, *, strict: bool = False) -> float:
    """A finite number no smaller than ``low`` (larger, if strict).

    >>> at_least("alpha", -1, 0)
    Traceback (most recent call last):
    ...
    backcast.errors.OptionError: alpha is -1; it must be a finite number >= 0
    """
    if not _is_number(value) or not math.isfinite(value) or value < low or (strict and value == low):
        raise OptionError(f"{name} is {value!r}; it must be a finite number {'>' if strict else '>='} {low}")
    return float(value)


def share(name: str, value: Any) -> float:
    """A number in [0, 1].

    >>> share("epsilon", 0.25)
    0.25
    """
    if not _is_number(value) or not 0.0 <= value <= 1.0:
        raise OptionError(f"{name} is {value!r}; it must lie in [0, 1]")
    return float(value)


def confidence_level(level: Any) -> float:
    """A number strictly between 0 and 1.

    >>> confidence_level(95)
    Traceback (most recent call last):
    ...
    backcast.errors.OptionError: level is 95; it must be between 0 and 1
    """
    if not _is_number(level) or not 0 < level < 1:
        raise OptionError(f"level is {level!r}; it must be between 0 and 1")
    return float(level)


def count(name: str, value: Any, low: int = 1, high: int | None = LARGEST_COUNT) -> int:
    """A whole number no smaller than ``low`` and no larger than ``high``; True and 1.0 are not whole numbers.

    >>> count("horizon", 0)
    Traceback (most recent call last):
    ...
    backcast.errors.OptionError: horizon is 0; it must be a whole number >= 1
    """
    if isinstance(value, bool | np.bool_) or not hasattr(value, "__index__"):
        raise OptionError(f"{name} is {value!r}; it must be a whole number >= {low}")
    number = operator.index(value)
    if number < low:
        raise OptionError(f"{name} is {number}; it must be a whole number >= {low}")
    if high is not None and number > high:
        raise OptionError(f"{name} is {number}; it must be a whole number of 64 bits, at most {high}")
    return number


def _is_number(value: object) -> bool:
    return isinstance(value, numbers.Real)
