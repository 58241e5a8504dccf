"""Arrow columns to numpy arrays: views where possible, one copy where not, never a loop over rows.

Text is hashed without state, so that every file, part and machine agrees: value v of column c switches on feature
``murmur3("c=v") mod hash_size`` of the column's own block of features. A null is a value of its own (it hashes as
``"c"``, the empty text as ``"c="``): that a category is unknown often says something. Only the distinct values of
a batch are hashed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from backcast.arrays import FloatArray, IntArray
from backcast.door import RowError
from backcast.errors import LogError
from backcast.sources.layout import Feature, Layout

__all__ = [
    "bucket_of",
    "buckets",
    "distinct",
    "fill_dense",
    "fill_sparse",
    "list_rows",
    "numbers",
    "plain",
    "values_of",
]

STRIP = 4096  # rows filled at a time, so that the lines of the target stay in the cache: three times faster


def numbers(column: pa.Array, name: str, part: str) -> npt.NDArray[Any]:
    """A column as numbers of its own width, a view where Arrow allows; nulls and words are refused.

    >>> numbers(pa.array(["1", "0.5"]), "click", "reward")
    array([1. , 0.5])
    """
    if column.null_count:
        row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise RowError(row, f"{part} is missing (null in column {name!r}). Fill or drop missing values first")
    if kinds.is_integer(column.type) or kinds.is_floating(column.type) or kinds.is_boolean(column.type):
        view: npt.NDArray[Any] = column.to_numpy(zero_copy_only=False)
        return view
    values, positions = (column, None) if not kinds.is_dictionary(column.type) else _coded(column)
    try:
        found = np.asarray(values.cast(pa.float64()).to_numpy(zero_copy_only=False))
    except pa.ArrowException:
        place, value = _first_word(values)
        row = place if positions is None else int(np.argmax(positions == place))
        raise RowError(row, f"{part} is {value!r} (column {name!r}); it must be a number") from None
    return found if positions is None else found[positions]


def _coded(column: pa.Array) -> tuple[pa.Array, IntArray]:
    """The values that a column of codes uses, each once, and for each row the position of its own (-1 for a null).

    Values are never written out row by row: a few codes may stand for a text of many megabytes each.
    """
    # Arrow cannot pick from views.
    seen = {"string_view": pa.large_string(), "binary_view": pa.large_binary()}.get(str(column.dictionary.type))
    values = column.dictionary if seen is None else column.dictionary.cast(seen)
    used = column.indices.dictionary_encode()
    return values.take(used.dictionary), _positions(used)


def _positions(coded: pa.Array) -> IntArray:
    return np.asarray(coded.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False))


def values_of(column: pa.Array) -> list[Any]:
    """A column as Python values; files may hold text that is not text."""
    try:
        return list(column.to_pylist())
    except UnicodeDecodeError as problem:
        raise LogError(f"a text column holds {problem.object!r}, which is not UTF-8; write it anew") from None


def _first_word(column: pa.Array) -> tuple[int, Any]:
    for row, value in enumerate(values_of(column)):
        try:
            float(value)
        except (TypeError, ValueError):
            return row, value
    return 0, column[0].as_py()


def plain(column: pa.Array, name: str, part: str) -> npt.NDArray[Any]:
    """A column as numpy sees it (dates as datetime64, text as objects); nulls are refused."""
    if column.null_count:
        return numbers(column, name, part)
    if kinds.is_dictionary(column.type):
        values, positions = _coded(column)
        return np.asarray(values.to_numpy(zero_copy_only=False)[positions])
    array: npt.NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return array


def distinct(column: pa.Array) -> tuple[list[Any], IntArray]:
    """The distinct values of a column, then None; and for each row the position of its value among them.

    >>> distinct(pa.array(["a", None, "a", "b"]))
    (['a', 'b', None], array([0, 2, 0, 1]))
    """
    if kinds.is_dictionary(column.type):
        found, positions = _coded(column)
    else:
        fresh = column.dictionary_encode()
        found, positions = fresh.dictionary, _positions(fresh)
    values = [*values_of(found), None]
    return values, np.where(positions < 0, len(values) - 1, positions)


def bucket_of(name: str, value: Any, size: int) -> int:
    """The feature, of ``size``, that this value of this text column switches on.

    >>> bucket_of("device", "phone", 32), bucket_of("device", None, 32)
    (3, 7)
    """
    return int(_buckets_of(name, [value], size)[0])


def _buckets_of(name: str, values: list[Any], size: int) -> IntArray:
    from sklearn.utils import murmurhash3_32

    key = name.encode()
    keys = [key if value is None else b"%b=%b" % (key, _bytes(value)) for value in values]
    return np.array([murmurhash3_32(key, seed=0, positive=True) for key in keys], dtype=np.int64) % size


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def buckets(column: pa.Array, name: str, size: int) -> IntArray:
    """The feature that each row of a text column switches on."""
    values, positions = distinct(column)
    return np.asarray(_buckets_of(name, values, size)[positions])


def fill_dense(contexts: FloatArray, at: int, batch: pa.RecordBatch, layout: Layout) -> None:
    """Write a batch's contexts into rows ``at..`` of an array; text blocks must hold zeros."""
    for feature in layout.features:
        if feature.is_text:
            column, rows = batch.column(feature.name), np.arange(at, at + batch.num_rows)
            contexts[rows, feature.first + buckets(column, feature.name, layout.columns.hash_size)] = 1.0
    _fill_numbers(contexts, at, batch, [(f, f.first) for f in layout.features if not f.is_text])


def fill_sparse(
    values: FloatArray, indices: npt.NDArray[np.int32], at: int, batch: pa.RecordBatch, layout: Layout
) -> None:
    """Write a batch into rows ``at..`` of a CSR matrix that keeps one entry a column: its value and its feature."""
    for position, feature in enumerate(layout.features):
        indices[at : at + batch.num_rows, position] = feature.first
        if feature.is_text:
            column = batch.column(feature.name)
            indices[at : at + batch.num_rows, position] += buckets(column, feature.name, layout.columns.hash_size)
    _fill_numbers(values, at, batch, [(f, j) for j, f in enumerate(layout.features) if not f.is_text])


def _fill_numbers(target: FloatArray, at: int, batch: pa.RecordBatch, wanted: list[tuple[Feature, int]]) -> None:
    views = [(numbers(batch.column(f.name), f.name, "context"), place) for f, place in wanted]
    # Strip by strip: writing whole columns one after another would fetch every line of the target once a column.
    for start in range(0, batch.num_rows, STRIP):
        strip = target[at + start : at + min(start + STRIP, batch.num_rows)]
        for view, place in views:
            strip[:, place] = view[start : start + STRIP]


def list_rows(column: pa.Array, name: str, part: str) -> tuple[pa.Array, IntArray]:
    """A list column as its entries one after another and the number of entries in each row."""
    if column.null_count:
        numbers(column, name, part)
    return column.flatten(), np.asarray(pc.list_value_length(column).to_numpy(zero_copy_only=False), dtype=np.int64)
