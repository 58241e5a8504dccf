"""Record batches to a log: arrays of the right size, filled batch by batch, then shown to the door."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as kinds

from backcast.arrays import Contexts, FloatArray, IntArray
from backcast.door import Coded, RowError
from backcast.errors import SourceError
from backcast.log import Log
from backcast.sources.actions import ActionCoder
from backcast.sources.encode import fill_dense, fill_sparse, list_rows, numbers, plain
from backcast.sources.layout import Layout
from backcast.sources.limits import check_size

__all__ = ["collect"]


def collect(batches: Iterable[pa.RecordBatch], n: int, layout: Layout, labels: tuple[Any, ...]) -> Log:
    """The log of ``n`` rows that these batches hold together; rows in errors count from the first of them.

    >>> from backcast.sources.columns import Columns
    >>> from backcast.sources.layout import lay_out
    >>> batch = pa.record_batch({"x": [0.5, 0.25], "a": [0, 1], "r": [1, 0], "p": [0.5, 0.5]})
    >>> layout = lay_out(Columns(context="x", action="a", reward="r", propensity="p"), batch.schema)
    >>> collect([batch, batch], 4, layout, (0, 1)).actions
    array([0, 1, 0, 1])
    """
    collector = _Collector(n, layout, labels)
    for batch in batches:
        collector.add(batch)
    return collector.log()


class _Collector:
    def __init__(self, n: int, layout: Layout, labels: tuple[Any, ...]) -> None:
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
            raise error.moved(self.at) from None
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
                Coded(self.actions, self.coder.labels),
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


def _numbers_a_row(layout: Layout, n_actions: int) -> int:
    """How many numbers of eight bytes a row is kept as."""
    contexts = 2 * len(layout.features) if layout.is_sparse else layout.n_features
    return contexts + 3 + n_actions * (bool(layout.available) + bool(layout.logging))


def _contexts(n: int, layout: Layout) -> FloatArray | tuple[FloatArray, npt.NDArray[np.int32]]:
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


def _named(error: RowError, contexts: Contexts, layout: Layout) -> RowError:
    """The door's error, with the context column by name where that is what is wrong."""
    row = contexts[[error.row]]
    values = np.asarray(row if isinstance(row, np.ndarray) else row.toarray()).ravel()
    bad = np.flatnonzero(~np.isfinite(values))
    if not bad.size:
        return error
    name, value = layout.name_of(int(bad[0])), values[bad[0]]
    return RowError(
        error.row, f"context column {name!r} is {value}; contexts must be finite. Fill or drop missing values first"
    )
