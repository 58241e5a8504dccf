"""Values as bytes and back again, to the bit, without pickle: numbers, texts, arrays, and what is made of them.

A header in JSON says how the value is built; the arrays follow it as they lie in memory. NamedTuples and dataclasses
are known by the caller, who hands their classes in, so nothing in the bytes can name code to run.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["pack", "unpack"]

SIZE = 8  # bytes of the header's length
PLAIN = "biufcSUmM"  # kinds of arrays that hold values and no objects


def pack(value: Any, kinds: Sequence[type] = ()) -> bytes:
    """The value as bytes; ``kinds`` are the NamedTuples and dataclasses that may be in it.

    >>> unpack(pack([0.1, (None, "a"), {"b": np.array([1, 2])}]))
    [0.1, (None, 'a'), {'b': array([1, 2])}]
    """
    arrays: list[npt.NDArray[Any]] = []
    header = json.dumps(_built(value, kinds, arrays)).encode()
    return b"".join([len(header).to_bytes(SIZE, "little"), header, *(array.tobytes() for array in arrays)])


def unpack(packed: bytes, kinds: Sequence[type] = ()) -> Any:
    """The value that :func:`pack` made bytes of."""
    start = SIZE + int.from_bytes(packed[:SIZE], "little")
    return _Reader(packed, start, {kind.__name__: kind for kind in kinds}).value(json.loads(packed[SIZE:start]))


def _built(value: Any, kinds: Sequence[type], arrays: list[npt.NDArray[Any]]) -> Any:
    """How the value is built, as JSON knows it; a list begins with what it stands for."""
    if isinstance(value, np.ndarray | np.generic):
        return ["array" if isinstance(value, np.ndarray) else "scalar", *_put(np.asarray(value), arrays)]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if type(value) in kinds:
        parts = [getattr(value, field.name) for field in fields(value)] if is_dataclass(value) else value
        return ["kind", type(value).__name__, *(_built(part, kinds, arrays) for part in parts)]
    if type(value) in (list, tuple):
        return [type(value).__name__, *(_built(part, kinds, arrays) for part in value)]
    if type(value) is dict:
        return ["dict", *([_built(key, kinds, arrays), _built(value[key], kinds, arrays)] for key in value)]
    raise TypeError(f"{type(value).__name__} is not a value that can be kept")


def _put(array: npt.NDArray[Any], arrays: list[npt.NDArray[Any]]) -> list[Any]:
    if array.dtype.kind not in PLAIN:
        raise TypeError(f"an array of {array.dtype} is not a value that can be kept")
    arrays.append(array)
    return [array.dtype.str, list(array.shape)]


class _Reader:
    """Takes arrays from the bytes in the order in which the header names them."""

    def __init__(self, packed: bytes, start: int, kinds: dict[str, type]) -> None:
        self._packed, self._at, self._kinds = packed, start, kinds

    def value(self, built: Any) -> Any:
        if not isinstance(built, list):
            return built
        what, *parts = built
        if what in ("array", "scalar"):
            array = self._array(np.dtype(parts[0]), tuple(parts[1]))
            return array if what == "array" else array[()]
        if what == "kind":
            return self._kinds[parts[0]](*map(self.value, parts[1:]))
        if what == "dict":
            return {self.value(key): self.value(part) for key, part in parts}
        values = map(self.value, parts)
        return tuple(values) if what == "tuple" else list(values)

    def _array(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
        count = int(np.prod(shape, dtype=np.int64))
        # a copy: what lies in the bytes could not be written to
        array = np.frombuffer(self._packed, dtype, count, self._at).reshape(shape).copy()
        self._at += count * dtype.itemsize
        return array
