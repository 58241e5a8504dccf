"""Arrow columns to numpy arrays and logs: views where possible, else one copy, never a loop over rows.

Text is hashed without state, so that every file, part and machine agrees: value v of column c switches on feature
``murmur3("c=v") mod hash_size`` among the features of that column. A null hashes as ``"c"`` and the empty text as
``"c="``, because a missing category often carries information. Only the distinct values of a batch are hashed.
"""

from __future__ import annotations

from collections.abc import Iterable
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


def build_log(batches: Iterable[pa.RecordBatch], n: int, layout: ColumnLayout, labels: tuple[Any, ...]) -> Log:
    """Return the log of the ``n`` rows of these batches; rows in errors count from the first of them.

    >>> from backcast.io._columns import ColumnSpec, resolve_columns
    >>> batch = pa.record_batch({"x": [0.5, 0.25], "a": [0, 1], "r": [1, 0], "p": [0.5, 0.5]})
    >>> layout = resolve_columns(ColumnSpec(context="x", action="a", reward="r", propensity="p"), batch.schema)
    >>> build_log([batch, batch], 4, layout, (0, 1)).actions
    array([0, 1, 0, 1])
    """
    builder = _LogBuilder(n, layout, labels)
    for batch in batches:
        try:
            builder.add(batch)
        except RowError as error:
            raise error.shift(builder.n_filled) from None
    return builder.build()


class _LogBuilder:
    """Arrays of n rows that are filled batch by batch."""

    def __init__(self, n: int, layout: ColumnLayout, labels: tuple[Any, ...]) -> None:
        self.layout, self.encoder, self.n_filled = layout, ActionEncoder(labels), 0
        context_numbers = 2 * len(layout.features) if layout.is_sparse else layout.n_features
        matrices = bool(layout.available) + bool(layout.logging)
        check_size(n, context_numbers + 3 + len(labels) * matrices)
        try:
            # Features, or the entries of a CSR matrix, one per context column: text is a one at its hashed index.
            shape = (n, len(layout.features) if layout.is_sparse else layout.n_features)
            self.values = np.ones(shape) if layout.is_sparse else np.zeros(shape)
            self.indices = np.empty(shape, dtype=np.int32) if layout.is_sparse else None
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
        """Copy a batch into the next rows."""
        columns, rows = self.layout.columns, slice(self.n_filled, self.n_filled + batch.num_rows)
        self._fill_contexts(batch, rows)
        self.actions[rows] = self.encoder.encode(batch.column(columns.action))
        self.rewards[rows] = to_numbers(batch.column(columns.reward), columns.reward, "reward")
        if isinstance(columns.propensity, str):
            self.propensities[rows] = to_numbers(batch.column(columns.propensity), columns.propensity, "propensity")
        else:
            self.propensities[rows] = 1.0 if columns.propensity is None else columns.propensity
        if columns.times is not None:
            self.times.append(to_times(batch.column(columns.times), columns.times))
        if self.available is not None:
            names = self.layout.available
            if len(names) == 1 and not kinds.is_boolean(batch.column(names[0]).type.value_type):
                self.available[rows] = self.encoder.encode_mask(batch.column(names[0]), names[0])
            else:
                _fill_matrix(self.available[rows], batch, names, "available")
        if self.logging is not None:
            _fill_matrix(self.logging[rows], batch, self.layout.logging, "logging_probabilities")
        self.n_filled += batch.num_rows

    def _fill_contexts(self, batch: pa.RecordBatch, rows: slice) -> None:
        numbers: list[tuple[Feature, int]] = []
        for position, feature in enumerate(self.layout.features):
            index: Any = feature.first
            if feature.is_text:
                index += hash_column(batch.column(feature.name), feature.name, self.layout.columns.hash_size)
            else:
                numbers.append((feature, position if self.layout.is_sparse else feature.first))
            if self.indices is not None:
                self.indices[rows, position] = index
            elif feature.is_text:
                self.values[rows][np.arange(batch.num_rows), index] = 1.0
        _fill_numbers(self.values[rows], batch, numbers)

    def build(self) -> Log:
        """Return the log; all rows must be filled."""
        assert self.n_filled == self.rewards.size
        contexts = self._finish_contexts()
        try:
            return Log(
                contexts,
                EncodedActions(self.actions, self.encoder.labels),
                self.rewards,
                self.propensities,
                available=self.available,
                times=np.concatenate(self.times) if self.times else None,
                reward_range=self.layout.columns.reward_range,
                logging_probabilities=self.logging,
            )
        except RowError as error:
            raise _name_context_column(error, contexts, self.layout) from None

    def _finish_contexts(self) -> Contexts:
        if self.indices is None:
            return self.values
        import scipy.sparse

        n, per_row = self.indices.shape
        entries = self.values.ravel(), self.indices.ravel(), np.arange(n + 1) * per_row
        matrix = scipy.sparse.csr_array(entries, shape=(n, self.layout.n_features))
        matrix.eliminate_zeros()
        return matrix


def _fill_numbers(target: FloatArray, batch: pa.RecordBatch, features: list[tuple[Feature, int]]) -> None:
    """Write number columns into the columns of the target at these positions."""
    columns = [(to_numbers(batch.column(f.name), f.name, "context"), position) for f, position in features]
    # Strip by strip: writing one whole column after another would fetch each line of the target once per column.
    for first in range(0, batch.num_rows, STRIP):
        strip = target[first : first + STRIP]
        for column, position in columns:
            strip[:, position] = column[first : first + STRIP]


def _fill_matrix(target: FloatArray, batch: pa.RecordBatch, names: tuple[str, ...], role: str) -> None:
    """Fill ``(rows, K)`` from K columns, or from one column of lists of K entries."""
    n_actions = target.shape[1]
    if len(names) > 1:
        if len(names) != n_actions:
            raise SourceError(f"{role} is given as {len(names)} columns, but there are {n_actions} actions")
        for action, name in enumerate(names):
            target[:, action] = to_numbers(batch.column(name), name, role)
        return
    entries, lengths = flatten_lists(batch.column(names[0]), names[0], role)
    wrong = np.flatnonzero(lengths != n_actions)
    if wrong.size:
        row = int(wrong[0])
        raise RowError(
            row, f"{role} (column {names[0]!r}) has {lengths[row]} entries, but there are {n_actions} actions"
        )
    try:
        target[:] = to_numbers(entries, names[0], role).reshape(target.shape)
    except RowError as error:
        raise RowError(error.row // n_actions, error.problem) from None


def _name_context_column(error: RowError, contexts: Contexts, layout: ColumnLayout) -> RowError:
    """Return the error with the name of the context column, if a context is the fault."""
    row = contexts[[error.row]]
    values = np.asarray(row if isinstance(row, np.ndarray) else row.toarray()).ravel()
    wrong = np.flatnonzero(~np.isfinite(values))
    if not wrong.size:
        return error
    name, value = layout.feature_name(int(wrong[0])), values[wrong[0]]
    return RowError(
        error.row, f"context column {name!r} is {value}; contexts must be finite. Fill or drop missing values first"
    )


def find_known_labels(layout: ColumnLayout, type_: pa.DataType) -> tuple[Any, ...] | None:
    """Return the action labels if they are known without reading: declared, or booleans.

    >>> from backcast.io._columns import ColumnSpec
    >>> columns = ColumnSpec(context=(), action="a", reward="r", propensity="p", n_actions=3)
    >>> find_known_labels(ColumnLayout(columns, (), (), (), 0, False), pa.int8())
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


def collect_labels(columns: Iterable[pa.Array], declared: int | None) -> tuple[Any, ...]:
    """Return the labels in these columns, by the rules of :func:`backcast._log_validation.encode_actions`.

    >>> collect_labels([pa.array([7, 3]), pa.array([3, None])], None)
    (3, 7)
    """
    seen: set[Any] = set()
    for column in columns:
        seen.update(to_python_values(pc.unique(column)))
        check_number_of_actions(len(seen) - 1)  # one may be null
    # A missing action is reported with its row when the rows are read.
    labels = [label for label in seen if label is not None and label == label]
    return encode_actions(labels, declared, None)[1] if labels else ()


@dataclass(frozen=True)
class ActionEncoder:
    """Codes ``0..K-1`` of the actions in an Arrow column.

    >>> ActionEncoder(("call", "mail")).encode(pa.array(["mail", "mail", "call"]))
    array([1, 1, 0])
    """

    labels: tuple[Any, ...]

    @cached_property
    def _code_of(self) -> dict[Any, int]:
        return {label: code for code, label in enumerate(self.labels)}

    @cached_property
    def _is_range(self) -> bool:
        return self.labels == tuple(range(len(self.labels)))

    def encode(self, column: pa.Array) -> IntArray:
        """Return the code of each action; an unknown action is refused with its row."""
        if self._is_range and kinds.is_integer(column.type) and not column.null_count:
            codes: IntArray = np.asarray(column.to_numpy(zero_copy_only=False))
            wrong = np.flatnonzero((codes < 0) | (codes >= len(self.labels)))
            codes = codes.astype(np.int64, copy=False)
        else:
            values, indices = _find_distinct(column)
            codes = np.array([self._code_of.get(value, -1) for value in values], dtype=np.int64)[indices]
            wrong = np.flatnonzero(codes < 0)
        if wrong.size:
            row = int(wrong[0])
            raise unknown_action_error(row, column[row].as_py(), self.labels)
        return codes

    def encode_mask(self, column: pa.Array, name: str) -> BoolArray:
        """Return the eligible actions ``(n, K)`` from a column of lists of labels."""
        entries, lengths = flatten_lists(column, name, "available")
        row_of_entry = np.repeat(np.arange(lengths.size), lengths)
        mask = np.zeros((lengths.size, len(self.labels)), dtype=np.bool_)
        try:
            mask[row_of_entry, self.encode(entries)] = True
        except RowError as error:
            raise RowError(int(row_of_entry[error.row]), f"in column {name!r} (available), {error.problem}") from None
        return mask


def hash_column(column: pa.Array, name: str, size: int) -> IntArray:
    """Return the feature, of ``size``, that each row of a text column switches on.

    >>> hash_column(pa.array(["phone", None, "phone"]), "device", 32)
    array([3, 7, 3])
    """
    from sklearn.utils import murmurhash3_32

    values, indices = _find_distinct(column)
    key = name.encode()
    keys = [
        key if value is None else b"%b=%b" % (key, value if isinstance(value, bytes) else str(value).encode())
        for value in values
    ]
    buckets = np.array([murmurhash3_32(key, seed=0, positive=True) for key in keys], dtype=np.int64) % size
    return np.asarray(buckets[indices])


def to_numbers(column: pa.Array, name: str, role: str) -> npt.NDArray[Any]:
    """Return a column as numbers of the same width, a view if Arrow allows it; refuse nulls and text.

    >>> to_numbers(pa.array(["1", "0.5"]), "click", "reward")
    array([1. , 0.5])
    """
    _check_no_nulls(column, name, role)
    if kinds.is_integer(column.type) or kinds.is_floating(column.type) or kinds.is_boolean(column.type):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    values, indices = _split_dictionary(column) if kinds.is_dictionary(column.type) else (column, None)
    try:
        numbers = np.asarray(values.cast(pa.float64()).to_numpy(zero_copy_only=False))
    except pa.ArrowException:
        index, value = _find_non_number(values)
        row = index if indices is None else int(np.argmax(indices == index))
        raise RowError(row, f"{role} is {value!r} (column {name!r}); it must be a number") from None
    return numbers if indices is None else numbers[indices]


def _check_no_nulls(column: pa.Array, name: str, role: str) -> None:
    if column.null_count:
        row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise RowError(row, f"{role} is missing (null in column {name!r}). Fill or drop missing values first")


def _find_non_number(column: pa.Array) -> tuple[int, Any]:
    for row, value in enumerate(to_python_values(column)):
        try:
            float(value)
        except (TypeError, ValueError):
            return row, value
    return 0, column[0].as_py()


def to_times(column: pa.Array, name: str) -> npt.NDArray[Any]:
    """Return a column without nulls as numpy values: dates as datetime64, text as objects."""
    _check_no_nulls(column, name, "time")
    if kinds.is_dictionary(column.type):
        values, indices = _split_dictionary(column)
        return np.asarray(values.to_numpy(zero_copy_only=False)[indices])
    return np.asarray(column.to_numpy(zero_copy_only=False))


def flatten_lists(column: pa.Array, name: str, role: str) -> tuple[pa.Array, IntArray]:
    """Return the entries of a list column one after another, and the number of entries of each row."""
    _check_no_nulls(column, name, role)
    return column.flatten(), np.asarray(pc.list_value_length(column).to_numpy(zero_copy_only=False), dtype=np.int64)


def _find_distinct(column: pa.Array) -> tuple[list[Any], IntArray]:
    """Return the distinct values of a column, then None, and for each row the index of its value among them.

    >>> _find_distinct(pa.array(["a", None, "a", "b"]))
    (['a', 'b', None], array([0, 2, 0, 1]))
    """
    if kinds.is_dictionary(column.type):
        used, indices = _split_dictionary(column)
    else:
        encoded = column.dictionary_encode()
        used, indices = encoded.dictionary, _to_indices(encoded)
    values = [*to_python_values(used), None]
    return values, np.where(indices < 0, len(values) - 1, indices)


def _split_dictionary(column: pa.Array) -> tuple[pa.Array, IntArray]:
    """Return the values that a dictionary column uses, and for each row the index of its value (-1 for a null).

    Values are not repeated per row: a file of few bytes may repeat a text of many megabytes.
    """
    # Arrow cannot take rows of view types.
    plain_types = {"string_view": pa.large_string(), "binary_view": pa.large_binary()}
    plain_type = plain_types.get(str(column.dictionary.type))
    values = column.dictionary if plain_type is None else column.dictionary.cast(plain_type)
    used = column.indices.dictionary_encode()
    return values.take(used.dictionary), _to_indices(used)


def _to_indices(encoded: pa.Array) -> IntArray:
    return np.asarray(encoded.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False))


def to_python_values(column: pa.Array) -> list[Any]:
    """Return a column as Python values; refuse text that is not UTF-8."""
    try:
        return list(column.to_pylist())
    except UnicodeDecodeError as problem:
        raise LogError(f"a text column holds {problem.object!r}, which is not UTF-8; write it again") from None
