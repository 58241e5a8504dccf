"""FileLogStream: a log in files, read in parts ahead of their use."""

from __future__ import annotations

import hashlib
import math
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import accumulate, chain, groupby, pairwise
from pathlib import PurePosixPath
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from backcast._arrays import FloatArray
from backcast._log_validation import RowError
from backcast._time_order import first_disorder, to_time_column
from backcast.errors import LogError, OptionError, ResourceError, SourceError
from backcast.io._arrow import to_numbers, to_times
from backcast.io._columns import ColumnLayout
from backcast.io._log_builder import build_log, collect_labels, find_known_labels
from backcast.io._slices import READ_ROWS, FileSlice
from backcast.io.limits import free_memory, limit_memory, size_error, without_stream_remedy
from backcast.io.stream import LogStream
from backcast.log import Log, replace_columns
from backcast.provenance import LogSource
from backcast.reading_summary import ReadingSummary, not_selected

PREFETCH_THREAD = "backcast prefetch"  # name of the thread that reads ahead
PARTS_READ_AHEAD = 2  # parts that wait while one is processed
# Bytes of free memory per byte of a part: four parts are in memory (one is processed, two wait, one is read), each with
# its Arrow columns, the predictions and the tables of probabilities.
FREE_PER_PART = 16
FEWEST_ROWS = 256  # rows of a part that are never divided further
SAMPLE_BLOCKS = 100  # blocks of neighbouring events in a sample
SORT_REMEDY = (
    "Events of a stream must be in the order of their times: sort the log by them (files may come in any order if "
    "their times do not overlap), or read it into memory with read_log, which sorts it"
)

T = TypeVar("T")


@dataclass(frozen=True, repr=False)
class FileLogStream(LogStream):
    """A log in files, read in parts of ``batch_rows`` events (the last may be shorter).

    Each pass opens the files again and yields validated :class:`backcast.Log` parts in file order, their ``rows``
    numbered through. Parts do not depend on the files' row groups. The stream itself holds no data and is cheap to
    send to other processes.
    """

    slices: tuple[FileSlice, ...]
    layout: ColumnLayout
    action_labels: tuple[Any, ...]
    batch_rows: int
    first_row: int = 0
    source: LogSource | None = None
    n_left_out: int | None = None  # rows that the filter of the layout does not select; None if not counted

    def __post_init__(self) -> None:
        if isinstance(self.batch_rows, bool) or not isinstance(self.batch_rows, int) or self.batch_rows < 1:
            raise OptionError(f"batch_rows is {self.batch_rows!r}; it must be a whole number, at least 1")

    def __repr__(self) -> str:
        events = "?" if self.n_events is None else f"{self.n_events:,}"
        n_files = len({file_slice.path for file_slice in self.slices})
        return f"LogStream({events} events in {n_files} file{'' if n_files == 1 else 's'}, {self.n_actions} actions)"

    @property
    def n_features(self) -> int:
        return self.layout.n_features

    @property
    def reward_range(self) -> tuple[float, float] | None:
        return self.layout.columns.reward_range

    @property
    def outcome_names(self) -> tuple[str, ...]:
        return tuple(self.layout.columns.outcome_columns)

    @property
    def segment_names(self) -> tuple[str, ...]:
        return self.layout.columns.segment_columns

    @property
    def reading(self) -> ReadingSummary:
        files = tuple(dict.fromkeys(file_slice.path for file_slice in self.slices))
        order: Any = "rows" if self.layout.columns.times is None else "times"
        return ReadingSummary(self.n_events, files, left_out=not_selected(self.n_left_out), order=order)

    @property
    def n_events(self) -> int | None:
        rows = [file_slice.n_rows for file_slice in self.slices if file_slice.n_rows is not None]
        return sum(rows) if len(rows) == len(self.slices) else None

    @property
    def bytes_in_memory(self) -> int:
        """Approximate memory that :meth:`read` takes; the size of the files if the number of events is not known."""
        if self.n_events is None:
            return sum(file_slice.stamp.size or 0 for file_slice in self.slices)
        return self.n_events * self._bytes_per_row

    @property
    def _bytes_per_row(self) -> int:
        layout = self.layout
        context = 12 * layout.n_entries if layout.is_sparse else 8 * layout.n_features
        tables = self.n_actions * (9 * bool(layout.available) + 8 * bool(layout.logging))
        others = len(layout.columns.outcome_columns) + len(layout.columns.segment_columns)
        return context + tables + (4 + others) * 8

    def rewards(self) -> Iterator[FloatArray]:
        """Iterate over the rewards, by one pass over their column alone."""
        reward, row = self.layout.columns.reward, self.first_row
        for file_slice in self.slices:
            for batch in file_slice.read_batches([reward]):
                try:
                    yield np.asarray(to_numbers(batch.column(0), reward, "reward"), dtype=np.float64)
                except RowError as error:
                    raise error.shift(row, file_slice.path) from None
                row += batch.num_rows

    def first_reward_bounds(self, n: int) -> tuple[float, float]:
        low, high = math.inf, -math.inf
        for rewards in self.rewards():
            low, high = min(low, float(rewards[:n].min())), max(high, float(rewards[:n].max()))
            n -= rewards.size
            if n <= 0:
                break
        return low, high

    def fingerprint(self) -> str:
        """Return a digest of the files as they were opened, the rows used, and the columns read.

        No row is read: a file is identified by its name, its size and the time of its last modification.
        """
        files = [(PurePosixPath(part.path).name, part.stamp, part.rows) for part in self.slices]
        facts = (files, self.layout, self.action_labels, self.first_row)
        # streams without outcomes and segments have the digests that they had before there were any
        described = repr(facts).replace(", outcomes=None, segments=None)", ")")
        return hashlib.sha256(described.encode()).hexdigest()[:16]

    def with_event_count(self) -> FileLogStream:
        slices = tuple(file_slice.with_row_count(self.layout.columns.action) for file_slice in self.slices)
        n_left_out = _count_left_out(slices) if self.n_left_out is None else self.n_left_out
        return replace(self, slices=_without_empty(slices), n_left_out=n_left_out)

    def in_time_order(self) -> FileLogStream:
        """Return the stream with its files in the order of time, after a pass over the column of times.

        Rows of a file that are not in the order of time are refused, and so are files whose times overlap: a stream
        cannot be sorted. A log without times is returned unchanged.
        """
        name = self.layout.columns.times
        if name is None:
            return self
        spans = [_read_time_span(file_slice, name, self.layout.date_format) for file_slice in self.slices]
        filled = sorted((span for span in spans if span.file_slice.n_rows), key=lambda span: span.first)
        for before, after in pairwise(filled):
            if after.first < before.last:
                raise SourceError(
                    f"{after.file_slice.path}: its times begin at {after.first}, before the last one of "
                    f"{before.file_slice.path}, {before.last}. {SORT_REMEDY}"
                )
        n_left_out = (
            _count_left_out([span.file_slice for span in spans]) if self.n_left_out is None else self.n_left_out
        )
        slices = tuple(span.file_slice for span in filled) or self.slices
        return replace(self, slices=slices, n_left_out=n_left_out)

    def time_span(self) -> tuple[Any, Any] | None:
        """Return the first and the last time, from the times of the first and the last file; None without times."""
        name = self.layout.columns.times
        if name is None or not self.slices:
            return None
        first_and_last = dict.fromkeys((self.slices[0], self.slices[-1]))
        spans = [_read_time_span(file_slice, name, self.layout.date_format) for file_slice in first_and_last]
        return None if spans[0].first is None or spans[-1].last is None else (spans[0].first, spans[-1].last)

    def parts(self) -> Iterator[Log]:
        """Iterate over the parts; threads read ahead."""
        return prefetch(self._read_parts, PARTS_READ_AHEAD)

    def _read_parts(self) -> Iterator[Log]:
        row = self.first_row
        with without_stream_remedy():
            # a second thread decodes the next batch while this one builds a part
            for batches in rechunk(prefetch(self._batches, n_ahead=1), self._rows_per_part()):
                for part in self._build_smaller_parts(batches, row):
                    yield part
                    row += len(part)
        if row == self.first_row:
            raise self._empty_error()

    def _rows_per_part(self) -> int:
        """Return ``batch_rows``, or fewer if the parts in memory at a time would fill what is free of it."""
        free = free_memory()
        if free is None:
            return self.batch_rows
        return max(1, min(self.batch_rows, max(FEWEST_ROWS, free // (FREE_PER_PART * self._bytes_per_row))))

    def _build_smaller_parts(self, batches: list[pa.RecordBatch], row: int) -> Iterator[Log]:
        """Build one part, or if memory does not suffice for it smaller ones."""
        n = sum(batch.num_rows for batch in batches)
        try:
            parts = [self._build_part(batches, n, row)]
        except (ResourceError, MemoryError):
            if n <= FEWEST_ROWS:
                remedy = "use fewer columns, or allow more memory"
                raise size_error(n, n * self._bytes_per_row, remedy) from None
            parts = []
        yield from parts
        for half in rechunk(batches, (n + 1) // 2) if not parts else ():
            yield from self._build_smaller_parts(half, row)
            row += sum(batch.num_rows for batch in half)

    def read(self) -> Log:
        """Return all events as one log in memory, filled batch by batch without a second copy."""
        left_out: list[int] = []
        if self.n_events is not None:
            log = self._build_part(self._batches(left_out), self.n_events, self.first_row)
        else:
            batches = list(limit_memory(self._batches(left_out)))
            log = self._build_part(batches, sum(batch.num_rows for batch in batches), self.first_row)
        n_left_out = sum(left_out) if self.n_left_out is None else self.n_left_out
        reading = replace(log.reading, left_out=not_selected(n_left_out))
        return replace_columns(log, reading=reading, source=self.source and self.source.as_read())

    def sample(self, n: int) -> Log:
        """Return about ``n`` events as a log in memory: a hundred evenly spread blocks of neighbouring events.

        Returns all events if there are no more than ``n``. The choice depends only on ``n`` and the number of events.
        """
        stream = self.with_event_count()
        total = stream.n_events or 0
        if n >= total:
            return stream.read()
        n_blocks = min(SAMPLE_BLOCKS, n)
        length, starts = n // n_blocks, [i * total // n_blocks for i in range(n_blocks)]
        blocks = [stream.slice(start, start + length) for start in starts]
        batches = chain.from_iterable(block._batches() for block in blocks)
        log = self._build_part(batches, length, *(self.first_row + start for start in starts))
        return replace_columns(log, reading=replace(log.reading, left_out=stream.reading.left_out))

    def slice(self, start: int, stop: int | None = None) -> FileLogStream:
        """Return the events ``start..stop-1`` (all after ``start`` if ``stop`` is None).

        Row groups of Parquet files outside that range are not read.
        """
        if stop is None:
            remainder = self._after(start)
            if remainder is None:
                return self._part((), start)
            return remainder
        slices: list[FileSlice] = []
        first = 0
        for file_slice in self.with_event_count().slices:
            last = first + (file_slice.n_rows or 0)
            if start < last and first < stop:
                slices.append(file_slice.slice_rows(max(start, first) - first, min(stop, last) - first))
            first = last
        return self._part(tuple(slices), start)

    def _part(self, slices: tuple[FileSlice, ...], start: int) -> FileLogStream:
        """Return the stream of these slices, whose first event is number ``start`` of this one."""
        return replace(self, slices=slices, first_row=self.first_row + start, source=None, n_left_out=None)

    def split_head(self, n: int) -> tuple[Log, FileLogStream | None]:
        batches = next(rechunk(self._batches(most_rows=n), n), [])
        rows = sum(batch.num_rows for batch in batches)
        if rows == 0:
            raise self._empty_error()
        with without_stream_remedy():
            head = self._build_part(batches, rows, self.first_row)
        return head, self._after(n)

    def _after(self, n: int) -> FileLogStream | None:
        """Return the stream without its first ``n`` events; files of unknown length are counted only up to there."""
        left = n
        for i, file_slice in enumerate(self.slices):
            rows = file_slice.count_rows(self.layout.columns.action, left + 1)
            if rows > left:
                slices = (file_slice.slice_rows(left) if left else file_slice, *self.slices[i + 1 :])
                return self._part(slices, n)
            left -= rows
        return None

    def split(self, n_parts: int) -> list[LogStream]:
        """Return at most ``n_parts`` streams of about the same length that together hold all events in order.

        Cuts are between row groups of Parquet files, or between other files (whose rows are counted first). They depend
        on the files alone, so results do not depend on the number of workers.
        """
        if n_parts < 1:
            raise OptionError(f"n_parts is {n_parts}; it must be at least 1")
        streams: list[LogStream] = []
        start = 0
        for slices in _split_slices(self.with_event_count().slices, n_parts):
            streams.append(self._part(slices, start))
            start += sum(file_slice.n_rows or 0 for file_slice in slices)
        return streams

    def _batches(self, left_out: list[int] | None = None, most_rows: int = READ_ROWS) -> Iterator[pa.RecordBatch]:
        for file_slice in self.slices:
            yield from file_slice.read_batches(self.layout.names, left_out, most_rows)

    def _build_part(self, batches: Iterable[pa.RecordBatch], n: int, *first_rows: int) -> Log:
        """Build the log of blocks of ``n`` rows, each starting at one of ``first_rows``."""
        try:
            log = build_log(batches, n * len(first_rows), self.layout, self.action_labels)
        except RowError as error:
            row = first_rows[error.row // n] + error.row % n
            raise error.shift(row - error.row, self._file_of(row)) from None
        rows = log.columns.rows + first_rows[0]
        if len(first_rows) > 1:
            rows = np.concatenate([np.arange(row, row + n) for row in first_rows])[log.columns.rows]
        return replace_columns(log, rows=rows, reading=replace(log.reading, files=self.reading.files))

    def _file_of(self, row: int) -> str:
        end = self.first_row
        for file_slice in self.slices[:-1]:
            end += file_slice.count_rows(self.layout.columns.action)
            if row < end:
                return file_slice.path
        return self.slices[-1].path

    def _empty_error(self) -> LogError:
        return LogError(f"{self.slices[0].path}: the log is empty; it needs at least one event")


class _TimeSpan(NamedTuple):
    """A file with the number of its rows, and its first and last time."""

    file_slice: FileSlice
    first: Any
    last: Any


def _read_time_span(file_slice: FileSlice, name: str, date_format: str | None) -> _TimeSpan:
    first = last = None
    n_rows = 0
    left_out: list[int] = []
    for batch in file_slice.read_batches([name], left_out):
        try:
            column = to_time_column(to_times(batch.column(0), name, date_format))
        except RowError as error:
            raise error.shift(n_rows, file_slice.path) from None
        assert column is not None
        joined = column if last is None else np.concatenate([[last], column])
        row = first_disorder(joined)
        if row is not None:
            problem = f"time {joined[row]} is before that of the row above, {joined[row - 1]}. {SORT_REMEDY}"
            raise RowError(n_rows + row - (last is not None), problem, file_slice.path)
        n_rows += column.size
        if column.size:
            first, last = (column[0] if first is None else first), column[-1]
    return _TimeSpan(replace(file_slice, n_rows=n_rows, n_left_out=sum(left_out)), first, last)


def _count_left_out(slices: Sequence[FileSlice]) -> int | None:
    """Return the number of rows that the filter leaves out of all slices; None if it is not known for one of them."""
    counts = [file_slice.n_left_out for file_slice in slices]
    return None if None in counts else sum(filter(None, counts))


def _without_empty(slices: tuple[FileSlice, ...]) -> tuple[FileSlice, ...]:
    """Return the slices that may hold rows; the first one if none does."""
    return tuple(file_slice for file_slice in slices if file_slice.n_rows != 0) or slices[:1]


def open_stream(slices: tuple[FileSlice, ...], layout: ColumnLayout, batch_rows: int) -> FileLogStream:
    """Open a stream over file slices; action labels are those declared, or found by one pass over the actions."""
    n_left_out = _count_left_out(slices)
    slices = _without_empty(slices)
    action = layout.columns.action
    labels = find_known_labels(layout, slices[0].schema.field(action).type)
    if labels is None:
        counts = [0] * len(slices)
        left_out: list[int] = []

        def read_actions() -> Iterator[pa.Array]:
            for i, file_slice in enumerate(slices):
                for batch in file_slice.read_batches([action], left_out):
                    counts[i] += batch.num_rows
                    yield batch.column(0)

        labels = collect_labels(read_actions(), layout.declared)
        slices = tuple(replace(file_slice, n_rows=rows) for file_slice, rows in zip(slices, counts, strict=True))
        n_left_out = sum(left_out) if n_left_out is None else n_left_out
    stream = FileLogStream(_without_empty(slices), layout, labels, batch_rows, n_left_out=n_left_out)
    if stream.n_events == 0:
        raise stream._empty_error()
    return stream


def rechunk(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[list[pa.RecordBatch]]:
    """Regroup batches into lists of slices with ``rows`` rows in total each (the last list may have fewer).

    >>> batch = pa.record_batch({"x": [1, 2, 3, 4, 5]})
    >>> [[len(part) for part in parts] for parts in rechunk([batch, batch], 4)]
    [[4], [1, 3], [2]]
    """
    chunk: list[pa.RecordBatch] = []
    missing = rows
    for batch in batches:
        start = 0
        while batch.num_rows - start >= missing:
            yield [*chunk, batch.slice(start, missing)]
            start += missing
            chunk, missing = [], rows
        if start < batch.num_rows:
            chunk.append(batch.slice(start))
            missing -= batch.num_rows - start
    if chunk:
        yield chunk


def _split_slices(slices: tuple[FileSlice, ...], n: int) -> list[tuple[FileSlice, ...]]:
    """Split slices into at most ``n`` contiguous shares: a row group (or file without any) goes where its middle is."""
    units = [
        (i, group, rows)
        for i, file_slice in enumerate(slices)
        for group, rows in enumerate(file_slice.group_rows or (file_slice.n_rows or 0,))
    ]
    total = sum(rows for *_, rows in units)
    ends = accumulate(rows for *_, rows in units)
    share_of_unit = [min(n - 1, (2 * end - unit[2]) * n // (2 * total)) for unit, end in zip(units, ends, strict=True)]
    shares = []
    for _, members in groupby(zip(share_of_unit, units, strict=True), key=lambda pair: pair[0]):
        share = []
        for i, same_file in groupby((unit for _, unit in members), key=lambda unit: unit[0]):
            groups = [group for _, group, _ in same_file]
            whole = slices[i]
            share.append(whole.slice_groups(groups[0], groups[-1] + 1) if whole.group_rows else whole)
        shares.append(tuple(share))
    return shares


def prefetch(make: Callable[[], Iterator[T]], n_ahead: int) -> Iterator[T]:
    """Yield the items of ``make()`` in order while a thread produces up to ``n_ahead`` of them in advance.

    An exception of the producer is raised where its item would have come. If the consumer stops early, the thread ends
    after the item it is producing.

    >>> list(prefetch(lambda: iter("abc"), n_ahead=1))
    ['a', 'b', 'c']
    """
    pool, items, end = ThreadPoolExecutor(1, PREFETCH_THREAD), make(), object()
    pending: deque[Future[Any]] = deque(pool.submit(next, items, end) for _ in range(n_ahead))
    try:
        while (item := pending.popleft().result()) is not end:
            pending.append(pool.submit(next, items, end))
            yield item
            del item  # release its memory before waiting for the next one
    finally:
        # the garbage collector may close a generator in any thread, also in that of the pool
        in_pool = threading.current_thread().name.startswith(PREFETCH_THREAD)
        pool.shutdown(wait=not in_pool, cancel_futures=True)
