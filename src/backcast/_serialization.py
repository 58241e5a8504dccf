"""Dataclasses to JSON and values to bytes, and back; neither can run code from a file.

JSON has no nan and no infinity: nan becomes null, infinities the strings "inf" and "-inf". When JSON is read, the
annotations of the fields determine the type of each value.
"""

from __future__ import annotations

import json
import math
import types
from collections.abc import Sequence
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt

from backcast.errors import SourceError

T = TypeVar("T")

INFINITIES = {"inf": math.inf, "-inf": -math.inf}
TYPE_NAMES: dict[Any, str] = {
    str: "text",
    bool: "true or false",
    int: "a whole number",
    list: "a list",
    dict: "a table",
}
LENGTH_BYTES = 8  # bytes of the header's length
ARRAY_KINDS = "biufcSUmM"  # kinds of arrays that hold values and no objects


def to_json(value: Any) -> Any:
    """Return a value, and everything in it, as numbers, strings, lists and dicts.

    >>> to_json({"value": np.float64(0.5), "error": math.nan, "bounds": (0.0, math.inf)})
    {'value': 0.5, 'error': None, 'bounds': [0.0, 'inf']}
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_json(getattr(value, field.name)) for field in fields(value) if _is_public(field)}
    if isinstance(value, dict):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return to_json(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else f"{value}"
    return value


def from_json(kind: type[T], data: Any, where: str = "result") -> T:
    """Return the dataclass that :func:`to_json` was given; unknown fields are ignored.

    Parameters
    ----------
    kind
        A dataclass whose fields are numbers, strings, arrays, tuples, dicts and dataclasses.
    data
        The output of :func:`to_json`.
    where
        Name of the value in error messages.
    """
    if not isinstance(data, dict):
        raise SourceError(f"{where} is {_shorten(data)}; it must hold the fields of {kind.__name__}")
    hints = get_type_hints(kind)
    values = {}
    for field in filter(_is_public, fields(cast(Any, kind))):
        if field.name in data:
            values[field.name] = _parse_value(hints[field.name], data[field.name], f"{where}.{field.name}")
        elif field.default is MISSING and field.default_factory is MISSING:
            raise SourceError(f"{where} has no {field.name!r}; is the file complete?")
    return kind(**values)


def _is_public(field: Any) -> bool:
    return bool(field.init) and not field.name.startswith("_")


def _parse_value(hint: Any, data: Any, where: str) -> Any:
    """Return a value of the annotated type."""
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return None if data is None else _parse_value(next(arg for arg in args if arg is not type(None)), data, where)
    if origin is np.ndarray:
        return _parse_array(get_args(args[1])[0], data, where)
    if origin is npt.NDArray:  # an alias of its own since NumPy 2.5
        return _parse_array(args[0], data, where)
    if origin in (tuple, list):
        return _parse_sequence(origin, args, data, where)
    if origin is dict:
        items = _check_type(data, dict, where).items()
        return {key: _parse_value(args[1], item, f"{where}.{key}") for key, item in items}
    if is_dataclass(hint):
        return from_json(cast(type[Any], hint), data, where)
    if hint is float:
        return _parse_float(data, where)
    return _check_type(data, hint, where) if hint in (int, str, bool) else data


def _parse_array(dtype: Any, data: Any, where: str) -> Any:
    if dtype is not np.float64:
        try:
            return np.array(_check_type(data, list, where), dtype=dtype)
        except OverflowError:
            raise SourceError(f"{where} is {_shorten(data)}; its numbers must be whole ones of 64 bits") from None
    # The rows of a matrix are lists.
    rows = [_parse_array(dtype, row, where) if isinstance(row, list) else _parse_float(row, where) for row in data]
    return np.array(rows, dtype=dtype)


def _parse_sequence(origin: type, args: tuple[Any, ...], data: Any, where: str) -> Any:
    items = _check_type(data, list, where)
    hints = [args[0]] * len(items) if origin is list or args[-1] is Ellipsis else list(args)
    if len(hints) != len(items):
        raise SourceError(f"{where} holds {len(items)} values; it must hold {len(hints)}")
    pairs = zip(hints, items, strict=True)
    return origin(_parse_value(hint, item, f"{where}[{index}]") for index, (hint, item) in enumerate(pairs))


def _parse_float(data: Any, where: str) -> float:
    if data is None:
        return math.nan
    if isinstance(data, str) and data in INFINITIES:
        return INFINITIES[data]
    try:
        return float(_check_type(data, int | float, where))
    except OverflowError:
        raise SourceError(f"{where} is {_shorten(data)}; no number of 64 bits is that large") from None


def _check_type(data: Any, kind: Any, where: str) -> Any:
    if not isinstance(data, kind) or (isinstance(data, bool) and kind is not bool):
        raise SourceError(f"{where} is {_shorten(data)}; it must be {TYPE_NAMES.get(kind, 'a number')}")
    return data


def _shorten(data: Any) -> str:
    text = repr(data)
    return text if len(text) <= 60 else f"{text[:57]}..."


def to_bytes(value: Any, kinds: Sequence[type] = ()) -> bytes:
    """Return a value as bytes; ``kinds`` are the NamedTuples and dataclasses that may be in it.

    The layout is that of safetensors: the length of a JSON header in 8 bytes, the header, and the data of the arrays
    one after another. That package is not used because it stores flat dicts of arrays only.

    >>> from_bytes(to_bytes([0.1, (None, "a"), {"b": np.array([1, 2])}]))
    [0.1, (None, 'a'), {'b': array([1, 2])}]
    """
    arrays: list[npt.NDArray[Any]] = []
    header = json.dumps(_describe(value, kinds, arrays)).encode()
    return b"".join([len(header).to_bytes(LENGTH_BYTES, "little"), header, *(array.tobytes() for array in arrays)])


def _describe(value: Any, kinds: Sequence[type], arrays: list[npt.NDArray[Any]]) -> Any:
    """Return the structure of a value for the header; each list starts with its type. Appends to ``arrays``."""
    if isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
        if array.dtype.kind not in ARRAY_KINDS:
            raise TypeError(f"an array of {array.dtype} cannot be saved")
        arrays.append(array)
        return ["array" if isinstance(value, np.ndarray) else "scalar", array.dtype.str, list(array.shape)]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if type(value) in kinds:
        items = [getattr(value, field.name) for field in fields(value)] if is_dataclass(value) else value
        return ["kind", type(value).__name__, *(_describe(item, kinds, arrays) for item in items)]
    if type(value) in (list, tuple):
        return [type(value).__name__, *(_describe(item, kinds, arrays) for item in value)]
    if type(value) is dict:
        return ["dict", *([_describe(key, kinds, arrays), _describe(value[key], kinds, arrays)] for key in value)]
    raise TypeError(f"a value of type {type(value).__name__} cannot be saved")


def from_bytes(data: bytes, kinds: Sequence[type] = ()) -> Any:
    """Return the value that :func:`to_bytes` was given."""
    start = LENGTH_BYTES + int.from_bytes(data[:LENGTH_BYTES], "little")
    header = json.loads(data[LENGTH_BYTES:start])
    return _ValueReader(data, start, {kind.__name__: kind for kind in kinds}).read(header)


class _ValueReader:
    """Builds a value from its header, and reads the arrays in the order in which the header names them."""

    def __init__(self, data: bytes, start: int, kinds: dict[str, type]) -> None:
        self._data, self._position, self._kinds = data, start, kinds

    def read(self, header: Any) -> Any:
        if not isinstance(header, list):
            return header
        kind, *items = header
        if kind in ("array", "scalar"):
            array = self._read_array(np.dtype(items[0]), tuple(items[1]))
            return array if kind == "array" else array[()]
        if kind == "kind":
            return self._kinds[items[0]](*map(self.read, items[1:]))
        if kind == "dict":
            return {self.read(key): self.read(item) for key, item in items}
        values = map(self.read, items)
        return tuple(values) if kind == "tuple" else list(values)

    def _read_array(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
        count = int(np.prod(shape, dtype=np.int64))
        # A copy, because an array in the bytes themselves could not be written to.
        array = np.frombuffer(self._data, dtype, count, self._position).reshape(shape).copy()
        self._position += count * dtype.itemsize
        return array
