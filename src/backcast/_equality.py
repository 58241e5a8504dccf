"""ContentEquality, the base of results: equal if their contents are, arrays and nan included."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from backcast._display import NotebookDisplay


class ContentEquality(NotebookDisplay):
    """Equality and hash of a dataclass by the content of its compared fields.

    The methods that ``dataclass`` generates fail for arrays and dicts, and a value that is nan differs from its copy.
    Here arrays are equal if type, shape and elements are, nan equals nan, and lists equal tuples (JSON has only lists).

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True, eq=False)
    ... class Curve(ContentEquality):
    ...     values: np.ndarray
    >>> Curve(np.array([0.5, np.nan])) == Curve(np.array([0.5, np.nan])), Curve(np.ones(2)) == Curve(np.ones(3))
    (True, False)
    >>> len({Curve(np.ones(2)), Curve(np.ones(2))})
    1
    """

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return bool(_content(self) == _content(other))

    def __hash__(self) -> int:
        return hash(_content(self))


def _content(value: Any) -> Any:
    """Return a hashable value that is equal for equal contents."""
    if is_dataclass(value) and not isinstance(value, type):
        compared = (_content(getattr(value, field.name)) for field in fields(value) if field.compare)
        return (type(value).__qualname__, *compared)
    if isinstance(value, np.ndarray):
        # adding 0 makes -0 the same bytes as 0
        content = value + 0 if value.dtype.kind in "fc" else value
        return (
            value.dtype.str,
            value.shape,
            tuple(value.ravel().tolist()) if value.dtype.hasobject else content.tobytes(),
        )
    if isinstance(value, dict):
        return frozenset((key, _content(item)) for key, item in value.items())
    if isinstance(value, list | tuple):
        return tuple(map(_content, value))
    if isinstance(value, float | np.floating) and np.isnan(value):
        return "nan"
    return value
