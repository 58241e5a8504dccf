"""Arrow columns to numpy arrays: views where possible, one copy where not, never a loop over rows.

Text is hashed without state, so that every file, part and machine agrees: value v of column c switches on feature
``murmur3("c=v") mod hash_size`` of the column's own block of features. A null is a value of its own (it hashes as
``"c"``, the empty text as ``"c="``): that a category is unknown often says something. Only the distinct values of
a batch are hashed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from backcast._arrays import BoolArray, Contexts, FloatArray, IntArray
from backcast._log_validation import (
    EncodedActions,
    RowError,
    check_number_of_actions,
    encode_actions,
    unknown_action_error,
)
from backcast.errors import LogError, SourceError
from backcast.io._columns import ColumnLayout, Feature
from backcast.io.limits import check_size
from backcast.log import Log

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


def fill_dense(contexts: FloatArray, at: int, batch: pa.RecordBatch, layout: ColumnLayout) -> None:
    """Write a batch's contexts into rows ``at..`` of an array; text blocks must hold zeros."""
    for feature in layout.features:
        if feature.is_text:
            column, rows = batch.column(feature.name), np.arange(at, at + batch.num_rows)
            contexts[rows, feature.first + buckets(column, feature.name, layout.columns.hash_size)] = 1.0
    _fill_numbers(contexts, at, batch, [(f, f.first) for f in layout.features if not f.is_text])


def fill_sparse(
    values: FloatArray, indices: npt.NDArray[np.int32], at: int, batch: pa.RecordBatch, layout: ColumnLayout
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


def known_labels(layout: ColumnLayout, type_: pa.DataType) -> tuple[Any, ...] | None:
    """The labels, where they need not be looked for: declared, or booleans.

    >>> from backcast.io._columns import ColumnSpec
    >>> columns = ColumnSpec(context=(), action="a", reward="r", propensity="p", n_actions=3)
    >>> known_labels(ColumnLayout(columns, (), (), (), 0, False), pa.int8())
    (0, 1, 2)
    """
    if layout.columns.action_labels is not None:
        labels = tuple(layout.columns.action_labels)
        return encode_actions(labels, None, labels)[1]
    if kinds.is_boolean(type_) and layout.declared in (None, 2):
        return (False, True)
    if layout.declared is not None and (kinds.is_integer(type_) or kinds.is_floating(type_)):
        return tuple(range(layout.declared))
    return None


def labels_among(columns: Iterable[pa.Array], declared: int | None) -> tuple[Any, ...]:
    """The labels seen in these columns, by the rules of :func:`backcast.door.encode_actions`.

    >>> labels_among([pa.array([7, 3]), pa.array([3, None])], None)
    (3, 7)
    """
    seen: set[Any] = set()
    for column in columns:
        seen.update(values_of(pc.unique(column)))
        check_number_of_actions(len(seen) - 1)  # one may be null
    # A missing action is reported with its row, when the rows are read.
    labels = [label for label in seen if label is not None and label == label]
    return encode_actions(labels, declared, None)[1] if labels else ()


@dataclass(frozen=True)
class ActionCoder:
    """Codes ``0..K-1`` of the actions in an Arrow column.

    >>> ActionCoder(("call", "mail")).codes(pa.array(["mail", "mail", "call"]))
    array([1, 1, 0])
    """

    labels: tuple[Any, ...]

    @cached_property
    def _position(self) -> Mapping[Any, int]:
        return {label: code for code, label in enumerate(self.labels)}

    @cached_property
    def _is_range(self) -> bool:
        return self.labels == tuple(range(len(self.labels)))

    def codes(self, column: pa.Array) -> IntArray:
        """The code of each action; an action that is none of the labels is refused with its row."""
        if self._is_range and kinds.is_integer(column.type) and not column.null_count:
            codes: IntArray = np.asarray(column.to_numpy(zero_copy_only=False))
            wrong = np.flatnonzero((codes < 0) | (codes >= len(self.labels)))
            codes = codes.astype(np.int64, copy=False)
        else:
            values, positions = distinct(column)
            codes = np.array([self._position.get(value, -1) for value in values], dtype=np.int64)[positions]
            wrong = np.flatnonzero(codes < 0)
        if wrong.size:
            row = int(wrong[0])
            raise unknown_action_error(row, column[row].as_py(), self.labels)
        return codes

    def mask(self, column: pa.Array, name: str) -> BoolArray:
        """Eligible actions ``(n, K)`` from a column of lists, of K booleans or of labels."""
        entries, lengths = list_rows(column, name, "available")
        owner = np.repeat(np.arange(lengths.size), lengths)
        mask = np.zeros((lengths.size, len(self.labels)), dtype=np.bool_)
        try:
            mask[owner, self.codes(entries)] = True
        except RowError as error:
            raise RowError(int(owner[error.row]), f"in column {name!r} (available), {error.problem}") from None
        return mask


def build_log(batches: Iterable[pa.RecordBatch], n: int, layout: ColumnLayout, labels: tuple[Any, ...]) -> Log:
    """The log of ``n`` rows that these batches hold together; rows in errors count from the first of them.

    >>> from backcast.io._columns import ColumnSpec
    >>> from backcast.io._columns import resolve_columns
    >>> batch = pa.record_batch({"x": [0.5, 0.25], "a": [0, 1], "r": [1, 0], "p": [0.5, 0.5]})
    >>> layout = resolve_columns(ColumnSpec(context="x", action="a", reward="r", propensity="p"), batch.schema)
    >>> build_log([batch, batch], 4, layout, (0, 1)).actions
    array([0, 1, 0, 1])
    """
    collector = _Collector(n, layout, labels)
    for batch in batches:
        collector.add(batch)
    return collector.log()


class _Collector:
    def __init__(self, n: int, layout: ColumnLayout, labels: tuple[Any, ...]) -> None:
        self.layout, self.coder, self.at = layout, ActionCoder(labels), 0
        check_size(n, _numbers_a_row(layout, len(labels)))
        try:
            self.contexts = _contexts(n, layout)
            self.actions: IntArray = np.empty(n, dtype=np.int64)
            self.rewards, self.propensities = np.empty(n), np.empty(n)
            self.available = np.empty((n, len(labels))) if layout.available else None
            self.logging = np.empty((n, len(labels))) if layout.logging else None
        except (MemoryError, ValueError):
            size = 8.0 * n * max(1, layout.n_features)
            raise SourceError(
                f"{n:,} rows of {layout.n_features:,} features need {size / 1e9:,.0f} GB, more than there is; "
                "read it in parts with scan_log"
            ) from None
        self.times: list[npt.NDArray[Any]] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Take in one batch."""
        try:
            self._fill(batch, slice(self.at, self.at + batch.num_rows))
        except RowError as error:
            raise error.shift(self.at) from None
        self.at += batch.num_rows

    def _fill(self, batch: pa.RecordBatch, rows: slice) -> None:
        given = self.layout.columns
        if isinstance(self.contexts, tuple):
            fill_sparse(*self.contexts, rows.start, batch, self.layout)
        else:
            fill_dense(self.contexts, rows.start, batch, self.layout)
        self.actions[rows] = self.coder.codes(batch.column(given.action))
        self.rewards[rows] = numbers(batch.column(given.reward), given.reward, "reward")
        if isinstance(given.propensity, str):
            self.propensities[rows] = numbers(batch.column(given.propensity), given.propensity, "propensity")
        else:
            self.propensities[rows] = 1.0 if given.propensity is None else given.propensity
        if given.times is not None:
            self.times.append(plain(batch.column(given.times), given.times, "time"))
        if self.available is not None:
            self._fill_available(self.available[rows], batch)
        if self.logging is not None:
            _fill_matrix(self.logging[rows], batch, self.layout.logging, "logging_probabilities")

    def _fill_available(self, target: FloatArray, batch: pa.RecordBatch) -> None:
        names = self.layout.available
        if len(names) == 1 and not kinds.is_boolean(batch.column(names[0]).type.value_type):
            target[:] = self.coder.mask(batch.column(names[0]), names[0])
        else:
            _fill_matrix(target, batch, names, "available")

    def log(self) -> Log:
        """The log of all rows taken in."""
        # whoever reads a file has counted its rows
        assert self.at == self.rewards.size
        contexts = self._made_contexts()
        try:
            return Log(
                contexts,
                EncodedActions(self.actions, self.coder.labels),
                self.rewards,
                self.propensities,
                available=self.available,
                times=np.concatenate(self.times) if self.times else None,
                reward_range=self.layout.columns.reward_range,
                logging_probabilities=self.logging,
            )
        except RowError as error:
            raise _named(error, contexts, self.layout) from None

    def _made_contexts(self) -> Contexts:
        if not isinstance(self.contexts, tuple):
            return self.contexts
        import scipy.sparse

        values, indices = self.contexts
        n, each = values.shape
        ends = np.arange(0, (n + 1) * each, each)[: n + 1] if each else np.zeros(n + 1, dtype=np.int64)
        matrix = scipy.sparse.csr_array((values.ravel(), indices.ravel(), ends), shape=(n, self.layout.n_features))
        matrix.eliminate_zeros()
        return matrix


def _numbers_a_row(layout: ColumnLayout, n_actions: int) -> int:
    """How many numbers of eight bytes a row is kept as."""
    contexts = 2 * len(layout.features) if layout.is_sparse else layout.n_features
    return contexts + 3 + n_actions * (bool(layout.available) + bool(layout.logging))


def _contexts(n: int, layout: ColumnLayout) -> FloatArray | tuple[FloatArray, npt.NDArray[np.int32]]:
    if layout.is_sparse:
        each = len(layout.features)
        return np.ones((n, each)), np.empty((n, each), dtype=np.int32)
    shape = (n, layout.n_features)
    return np.zeros(shape) if any(f.is_text for f in layout.features) else np.empty(shape)


def _fill_matrix(target: FloatArray, batch: pa.RecordBatch, names: tuple[str, ...], part: str) -> None:
    """Fill ``(rows, K)`` from K columns, or from one column of lists of K entries."""
    if len(names) > 1:
        if len(names) != target.shape[1]:
            raise SourceError(f"{part} is given as {len(names)} columns, but there are {target.shape[1]} actions")
        for action, name in enumerate(names):
            target[:, action] = numbers(batch.column(name), name, part)
        return
    entries, lengths = list_rows(batch.column(names[0]), names[0], part)
    wrong = np.flatnonzero(lengths != target.shape[1])
    if wrong.size:
        row = int(wrong[0])
        raise RowError(
            row, f"{part} (column {names[0]!r}) has {lengths[row]} entries, but there are {target.shape[1]} actions"
        )
    try:
        target[:] = numbers(entries, names[0], part).reshape(target.shape)
    except RowError as error:
        raise RowError(error.row // target.shape[1], error.problem) from None


def _named(error: RowError, contexts: Contexts, layout: ColumnLayout) -> RowError:
    """The door's error, with the context column by name where that is what is wrong."""
    row = contexts[[error.row]]
    values = np.asarray(row if isinstance(row, np.ndarray) else row.toarray()).ravel()
    bad = np.flatnonzero(~np.isfinite(values))
    if not bad.size:
        return error
    name, value = layout.feature_name(int(bad[0])), values[bad[0]]
    return RowError(
        error.row, f"context column {name!r} is {value}; contexts must be finite. Fill or drop missing values first"
    )
