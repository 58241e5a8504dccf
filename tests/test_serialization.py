"""Values as bytes and as JSON: they are restored to the bit, and other types are refused."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import hypothesis.extra.numpy as arrays
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backcast._arrays import FloatArray, IntArray
from backcast._serialization import from_bytes, from_json, to_bytes, to_json
from backcast.errors import SourceError


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


@dataclass(frozen=True)
class Inner:
    name: str
    value: float


@dataclass(frozen=True)
class Everything:
    """A field of every type that results have."""

    count: int
    truth: bool
    number: float
    perhaps: float | None
    floats: FloatArray
    ints: IntArray
    inner: Inner
    several: tuple[Inner, ...]
    pair: tuple[str, float]
    table: dict[str, float]
    anything: Any = None


floats = st.floats(allow_nan=False)


class TestJson:
    @given(floats, floats, st.lists(floats), st.text(), st.lists(st.integers(-(2**60), 2**60)))
    def test_values_survive_json(
        self, number: float, other: float, many: list[float], name: str, counts: list[int]
    ) -> None:
        inner = Inner(name, other)
        first = Everything(
            *(len(many), number > 0, number, None, np.array(many), np.array(counts, dtype=np.int64)),
            *(inner, (inner, inner), (name, number), {name: other}),
        )
        second = from_json(Everything, json.loads(json.dumps(to_json(first), allow_nan=False)))
        np.testing.assert_array_equal(second.floats, first.floats)
        np.testing.assert_array_equal(second.ints, first.ints)
        assert second.floats.dtype == np.float64
        # arrays are compared above; from Python 3.13 on == of dataclasses asks for the truth of their comparison
        none: Any = None
        assert replace(second, floats=none, ints=none) == replace(first, floats=none, ints=none)

    @pytest.mark.parametrize(
        ("field", "value", "words"),
        [
            ("count", 1.5, "count is 1.5; it must be a whole number"),
            ("count", True, "count is True; it must be a whole number"),
            ("number", "much", "number is 'much'; it must be a number"),
            ("inner", 3, "inner is 3; it must hold the fields of Inner"),
            ("inner", {"name": "x"}, "inner has no 'value'"),
            ("several", {}, "several is {}; it must be a list"),
            ("pair", ["x"], "pair holds 1 values; it must hold 2"),
            ("ints", 3, "ints is 3; it must be a list"),
            ("floats", ["x"], "floats is 'x'; it must be a number"),
        ],
    )
    def test_a_value_of_the_wrong_type_is_refused_with_its_path(self, field: str, value: Any, words: str) -> None:
        inner = Inner("a", 0.5)
        good = to_json(Everything(1, True, 0.5, 1.0, np.zeros(1), np.zeros(1, np.int64), inner, (), ("a", 1.0), {}))
        with pytest.raises(SourceError, match=f"thing.{words}".replace("{}", r"\{\}")):
            from_json(Everything, {**good, field: value}, "thing")
