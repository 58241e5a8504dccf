"""Values as bytes: they are restored to the bit, and other types are refused."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import hypothesis.extra.numpy as arrays
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backcast._serialization import from_bytes, to_bytes


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclass(frozen=True)
class Box:
    inside: Any


KINDS = (Pair, Box)
SINGLE = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
ARRAYS = arrays.arrays(
    st.sampled_from(["<f8", "<i8", "?", "<f4", "<u2"]), arrays.array_shapes(min_dims=0, min_side=0, max_side=3)
)
VALUES = st.recursive(
    SINGLE | ARRAYS | arrays.from_dtype(np.dtype("<f8")),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text() | st.integers(), inner, max_size=3)
        | st.builds(Pair, inner, inner)
        | st.builds(Box, inner)
    ),
    max_leaves=8,
)


def is_identical(first: Any, second: Any) -> bool:
    """Return whether two values have the same types and the same bits."""
    if type(first) is not type(second):
        return False
    if isinstance(first, np.ndarray | np.generic):
        return bool(first.dtype == second.dtype and first.shape == second.shape and first.tobytes() == second.tobytes())
    if isinstance(first, dict):
        return list(first) == list(second) and all(is_identical(first[key], second[key]) for key in first)
    if isinstance(first, Box):
        return is_identical(first.inside, second.inside)
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(is_identical, first, second))
    if isinstance(first, float):
        return (math.isnan(first) and math.isnan(second)) or (first.hex() == second.hex())
    return bool(first == second)


@given(VALUES)
def test_values_are_restored_to_the_bit(value: Any) -> None:
    assert is_identical(from_bytes(to_bytes(value, KINDS), KINDS), value)


def test_restored_arrays_are_writable() -> None:
    from_bytes(to_bytes(np.zeros(2)))[0] = 1.0


@pytest.mark.parametrize(
    "value",
    [object(), np.array([object()]), Pair(1, 2), {1, 2}, np.zeros(1, dtype=[("a", "f8")])],
    ids=["object", "array of objects", "unknown kind", "set", "records"],
)
def test_other_types_are_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="cannot be saved"):
        to_bytes([value])
