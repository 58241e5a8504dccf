"""Record batches to a Log: action codes, matrices of values per action, contexts by the encoders of the layout."""

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
    LARGEST,
    EncodedActions,
    RowError,
    check_number_of_actions,
    encode_actions,
    unknown_action_error,
)
from backcast._outcome_columns import EncodedSegments, SegmentColumn, join_segments, label_values, merge_segments
from backcast.errors import SourceError
from backcast.io._arrow import find_distinct, flatten_lists, missing_remedy, to_numbers, to_python_values, to_times
from backcast.io._columns import ColumnLayout
from backcast.io.limits import check_size, size_error
from backcast.log import Log

STRIP = 4096  # rows filled at a time, so that the lines of the target stay in the cache: three times faster


def build_log(batches: Iterable[pa.RecordBatch], n: int, layout: ColumnLayout, labels: tuple[Any, ...]) -> Log:
    """Return the log of the ``n`` rows of these batches; rows in errors count from the first of them.

    >>> from backcast.io._columns import ColumnSpec, fit_layout, resolve_columns
    >>> batch = pa.record_batch({"x": [0.5, 0.25], "a": [0, 1], "r": [1, 0], "p": [0.5, 0.5]})
    >>> layout = resolve_columns(ColumnSpec(context="x", action="a", reward="r", propensity="p"), batch.schema)
    >>> layout = fit_layout(layout, batch.schema, batch.select)
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
        context_numbers = 2 * layout.n_entries if layout.is_sparse else layout.n_features
        matrices = bool(layout.available) + bool(layout.logging)
        others = 3 + len(layout.columns.outcome_columns) + len(layout.columns.segment_columns)
        check_size(n, context_numbers + others + len(labels) * matrices)
        try:
            # Features, or the entries of a CSR matrix.
            shape = (n, layout.n_entries if layout.is_sparse else layout.n_features)
            # Zeros are written only for features that a row may lack, as categories.
            is_full = layout.n_entries == layout.n_features
            self.values = np.empty(shape) if is_full else np.zeros(shape)
            self.indices = np.empty(shape, dtype=np.int32) if layout.is_sparse else None
            self.actions: IntArray = np.empty(n, dtype=np.int64)
            self.rewards, self.propensities = np.empty(n), np.empty(n)
            self.available = np.empty((n, len(labels))) if layout.available else None
            self.logging = np.empty((n, len(labels))) if layout.logging else None
            self.outcomes = {name: np.empty(n) for name in layout.columns.outcome_columns}
        except (MemoryError, ValueError):
            raise size_error(n, 8.0 * n * (context_numbers + others + len(labels) * matrices)) from None
        self.times: list[npt.NDArray[Any]] = []
        self.segments: dict[str, list[EncodedSegments]] = {name: [] for name in layout.columns.segment_columns}

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
            self.times.append(to_times(batch.column(columns.times), columns.times, self.layout.date_format))
        for outcome, name in columns.outcome_columns.items():
            self.outcomes[outcome][rows] = to_numbers(batch.column(name), name, f"outcome {outcome!r}")
        for name, encoded in self.segments.items():
            if batch.num_rows:
                encoded.append(_encode_segments(batch.column(name), name))
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
        target = self.values[rows]
        fixed: list[tuple[int, Any]] = []  # columns of the target, and their values in all rows
        position = 0
        for encoder, first in zip(self.layout.encoders, self.layout.first_features, strict=True):
            for feature, values in encoder.encode(batch.column(encoder.name)):
                if self.indices is not None:
                    self.indices[rows, position] = first + feature
                    fixed.append((position, values))
                elif isinstance(feature, int):
                    fixed.append((first + feature, values))
                else:
                    target[np.arange(batch.num_rows), first + feature] = values
                position += 1
        # Strip by strip: writing one whole column after another would fetch each line of the target once per column.
        columns = [(column, np.broadcast_to(values, batch.num_rows)) for column, values in fixed]
        for start in range(0, batch.num_rows, STRIP):
            strip = target[start : start + STRIP]
            for column, numbers in columns:
                strip[:, column] = numbers[start : start + STRIP]

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
                feature_names=self.layout.feature_names,
                outcomes=self.outcomes or None,
                segments=join_segments([merge_segments(parts) for parts in self.segments.values()]),
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


def _encode_segments(column: pa.Array, name: str) -> EncodedSegments:
    """Return a segment column of a batch as codes with labels.

    >>> _encode_segments(pa.array(["a", None, "a"]), "device").columns[0].labels
    ('a', 'missing')
    """
    if kinds.is_nested(column.type):
        raise SourceError(f"segment column {name!r} has type {column.type}; a segment is one value per event")
    values, indices = find_distinct(column)
    labels, codes = label_values(name, np.array([*values, None], dtype=object)[:-1])
    return EncodedSegments(codes[indices][:, None], (SegmentColumn(name, labels),))


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
    wrong = np.flatnonzero(~(np.abs(values) <= LARGEST))
    if not wrong.size or not error.problem.startswith("context"):
        return error
    name, value = layout.column_of(int(wrong[0])), values[wrong[0]]
    if np.isfinite(value):
        return RowError(error.row, f"context column {name!r} is {value:g}, more than {LARGEST:g}; scale the column")
    remedy = missing_remedy(name, "context") if np.isnan(value) else "Repair the value, or leave the row out"
    return RowError(error.row, f"context column {name!r} is {value}; contexts must be finite. {remedy}")


def find_known_labels(layout: ColumnLayout, type_: pa.DataType) -> tuple[Any, ...] | None:
    """Return the action labels if they are known without reading: declared, or booleans.

    >>> from backcast.io._columns import ColumnSpec
    >>> columns = ColumnSpec(context=(), action="a", reward="r", propensity="p", n_actions=3)
    >>> find_known_labels(ColumnLayout(columns, (), (), ()), pa.int8())
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
            values, indices = find_distinct(column)
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
