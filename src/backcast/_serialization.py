"""Frozen results as plain numbers, strings, lists and dicts, and back again: what JSON can hold and no more.

JSON has no nan and no infinity: the first becomes null, the others the words "inf" and "-inf". What a value was is
known from the types of the fields when it is read, so nothing of the file is ever run.
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


def to_json(value: Any) -> Any:
    """A value, and all that is in it, as JSON knows it.

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


def from_json(kind: type[T], plain: Any, where: str = "result") -> T:
    """The dataclass of this kind that was made plain; fields it does not know are left out.

    Parameters
    ----------
    kind
        A dataclass whose fields are numbers, texts, arrays, tuples, dicts and dataclasses.
    plain
        What :func:`to_json` made of one.
    where
        Where it stands, for messages.
    """
    if not isinstance(plain, dict):
        raise SourceError(f"{where} is {_shown(plain)}; it must hold the fields of {kind.__name__}")
    hints = get_type_hints(kind)
    found = {}
    own: Any = kind
    for field in filter(_is_public, fields(own)):
        if field.name in plain:
            found[field.name] = _value(hints[field.name], plain[field.name], f"{where}.{field.name}")
        elif field.default is MISSING and field.default_factory is MISSING:
            raise SourceError(f"{where} has no {field.name!r}; is the file complete?")
    return kind(**found)


def _is_public(field: Any) -> bool:
    return bool(field.init) and not field.name.startswith("_")


def _value(hint: Any, plain: Any, where: str) -> Any:
    """One value of an annotated type."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return None if plain is None else _value(next(one for one in inner if one is not type(None)), plain, where)
    if origin is np.ndarray:
        return _array(inner, plain, where)
    if origin in (tuple, list):
        return _sequence(origin, inner, plain, where)
    if origin is dict:
        return {key: _value(inner[1], item, f"{where}.{key}") for key, item in _checked(plain, dict, where).items()}
    if is_dataclass(hint):
        return from_json(cast(type[Any], hint), plain, where)
    if hint is float:
        return _number(plain, where)
    return _checked(plain, hint, where) if hint in (int, str, bool) else plain


def _array(inner: tuple[Any, ...], plain: Any, where: str) -> Any:
    dtype = get_args(inner[1])[0]
    if dtype is not np.float64:
        listed = _checked(plain, list, where)
        try:
            return np.array(listed, dtype=dtype)
        except OverflowError:
            raise SourceError(f"{where} is {_shown(plain)}; its numbers must be whole ones of 64 bits") from None
    # rows of tables are lists themselves
    rows = [_array(inner, one, where) if isinstance(one, list) else _number(one, where) for one in plain]
    return np.array(rows, dtype=dtype)


def _sequence(origin: type, inner: tuple[Any, ...], plain: Any, where: str) -> Any:
    listed = _checked(plain, list, where)
    each = [inner[0]] * len(listed) if origin is list or inner[-1] is Ellipsis else list(inner)
    if len(each) != len(listed):
        raise SourceError(f"{where} holds {len(listed)} values; it must hold {len(each)}")
    return origin(_value(hint, one, f"{where}[{i}]") for i, (hint, one) in enumerate(zip(each, listed, strict=True)))


def _number(plain: Any, where: str) -> float:
    if plain is None:
        return math.nan
    if isinstance(plain, str) and plain in INFINITIES:
        return INFINITIES[plain]
    try:
        return float(_checked(plain, int | float, where))
    except OverflowError:
        raise SourceError(f"{where} is {_shown(plain)}; no number of 64 bits is that large") from None


def _checked(plain: Any, kind: Any, where: str) -> Any:
    if not isinstance(plain, kind) or (isinstance(plain, bool) and kind is not bool):
        raise SourceError(f"{where} is {_shown(plain)}; it must be {_NAMES.get(kind, 'a number')}")
    return plain


_NAMES: dict[Any, str] = {str: "text", bool: "true or false", int: "a whole number", list: "a list", dict: "a table"}


def _shown(plain: Any) -> str:
    text = repr(plain)
    return text if len(text) <= 60 else f"{text[:57]}..."


SIZE = 8  # bytes of the header's length


PLAIN = "biufcSUmM"  # kinds of arrays that hold values and no objects


def to_bytes(value: Any, kinds: Sequence[type] = ()) -> bytes:
    """The value as bytes; ``kinds`` are the NamedTuples and dataclasses that may be in it.

    >>> from_bytes(to_bytes([0.1, (None, "a"), {"b": np.array([1, 2])}]))
    [0.1, (None, 'a'), {'b': array([1, 2])}]
    """
    arrays: list[npt.NDArray[Any]] = []
    header = json.dumps(_built(value, kinds, arrays)).encode()
    return b"".join([len(header).to_bytes(SIZE, "little"), header, *(array.tobytes() for array in arrays)])


def from_bytes(packed: bytes, kinds: Sequence[type] = ()) -> Any:
    """The value that :func:`to_bytes` made bytes of."""
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
