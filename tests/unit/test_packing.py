"""Values as bytes: they come back as they were, and nothing else can be put in."""

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


def alike(one: Any, other: Any) -> bool:
    """The same types and the same bits."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray | np.generic):
        return bool(one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes())
    if isinstance(one, dict):
        return list(one) == list(other) and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, Box):
        return alike(one.inside, other.inside)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, float):
        return (math.isnan(one) and math.isnan(other)) or (one.hex() == other.hex())
    return bool(one == other)


@given(VALUES)
def test_what_is_packed_comes_back_to_the_bit(value: Any) -> None:
    assert alike(from_bytes(to_bytes(value, KINDS), KINDS), value)


def test_arrays_that_come_back_can_be_written_to() -> None:
    from_bytes(to_bytes(np.zeros(2)))[0] = 1.0


@pytest.mark.parametrize(
    "value",
    [object(), np.array([object()]), Pair(1, 2), {1, 2}, np.zeros(1, dtype=[("a", "f8")])],
    ids=["object", "array of objects", "unknown kind", "set", "records"],
)
def test_what_is_no_plain_value_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="cannot be saved"):
        to_bytes([value])
