"""A log larger than memory: parts of it, one after another, as often as wanted."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate, chain, groupby, pairwise
from pathlib import PurePosixPath
from queue import Queue
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from backcast._log_validation import RowError
from backcast.errors import EvaluationError, LogError, OptionError
from backcast.io._arrow import build_log, collect_labels, find_known_labels, to_numbers
from backcast.io._columns import ColumnLayout
from backcast.io._slices import FileSlice
from backcast.io.limits import limit_memory
from backcast.log import Log, joined_log

READ_AHEAD = 2  # parts that wait while one is worked on


STRETCHES = 100  # of a sample


@dataclass(frozen=True, repr=False)
class LogStream:
    r"""A log in files, read in parts of ``batch_rows`` events (the last may be shorter).

    Iterate over it as often as needed: each pass opens the files anew and gives checked :class:`backcast.Log`
    parts in file order, their ``rows`` numbered through. Parts do not depend on the files' row groups. The
    stream itself holds no data and travels cheaply to other processes.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from backcast.io.tables import scan_log
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "log.csv")
    ...     _ = path.write_text("x,a,r,p\n1,0,1,0.5\n2,1,0,0.5\n3,0,1,0.5\n")
    ...     stream = scan_log(path, context="x", action="a", reward="r", propensity="p", batch_rows=2)
    ...     [len(part) for part in stream]
    [2, 1]
    """

    slices: tuple[FileSlice, ...]
    layout: ColumnLayout
    action_labels: tuple[Any, ...]
    batch_rows: int
    first_row: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.batch_rows, int) or self.batch_rows < 1:
            raise OptionError(f"batch_rows is {self.batch_rows!r}; it must be a whole number, at least 1")

    def __repr__(self) -> str:
        rows = "?" if self.n_rows is None else f"{self.n_rows:,}"
        files = len({file_slice.path for file_slice in self.slices})
        return f"LogStream({rows} events in {files} file{'' if files == 1 else 's'}, {self.n_actions} actions)"

    @property
    def n_actions(self) -> int:
        """Number of actions K."""
        return len(self.action_labels)

    @property
    def n_features(self) -> int:
        """Number of context features d."""
        return self.layout.n_features

    @property
    def reward_range(self) -> tuple[float, float] | None:
        """The declared bounds of the reward."""
        return self.layout.columns.reward_range

    @property
    def n_rows(self) -> int | None:
        """Number of events; None where the files do not say and nobody has counted (see :meth:`counted`)."""
        rows = [file_slice.n_rows for file_slice in self.slices if file_slice.n_rows is not None]
        return sum(rows) if len(rows) == len(self.slices) else None

    @property
    def bytes_in_memory(self) -> int:
        """About how much :meth:`read` would take; by the size of the files where they do not tell their rows."""
        if self.n_rows is None:
            return sum(file_slice.stamp.size or 0 for file_slice in self.slices)
        layout = self.layout
        context = 12 * len(layout.features) if layout.is_sparse else 8 * layout.n_features
        tables = self.n_actions * (9 * bool(layout.available) + 8 * bool(layout.logging))
        return self.n_rows * (context + tables + 4 * 8)

    def average_reward(self) -> float:
        """Mean of the rewards, from one pass over their column alone."""
        total, rows = 0.0, 0
        reward = self.layout.columns.reward
        for file_slice in self.slices:
            for batch in file_slice.read_batches([reward]):
                total += float(to_numbers(batch.column(0), reward, "reward").sum())
                rows += batch.num_rows
        return total / rows

    def fingerprint(self) -> str:
        """A digest of which files these are, as they were opened, which of their rows, and what is read from them.

        No row is read for it: a file is known by its name, its size and the time of its last writing.
        """
        slices = [
            (PurePosixPath(file_slice.path).name, file_slice.stamp, file_slice.rows) for file_slice in self.slices
        ]
        known = (slices, self.layout, self.action_labels, self.first_row)
        return hashlib.sha256(repr(known).encode()).hexdigest()[:16]

    def counted(self) -> LogStream:
        """The same stream with its number of rows, found by one pass over the actions where files do not say."""
        action = self.layout.columns.action
        return replace(self, slices=tuple(file_slice.with_row_count(action) for file_slice in self.slices))

    def __iter__(self) -> Iterator[Log]:
        return prefetch(self._parts, READ_AHEAD)

    def _parts(self) -> Iterator[Log]:
        row = self.first_row
        for batches in rechunk(self._batches(), self.batch_rows):
            n = sum(batch.num_rows for batch in batches)
            yield self._part(batches, n, row)
            row += n
        if row == self.first_row:
            raise LogError(f"{self.slices[0].path}: the log is empty; it needs at least one event")

    def read(self) -> Log:
        """All of it as one log, filled batch by batch: no second copy in memory."""
        if self.n_rows is not None:
            return self._part(self._batches(), self.n_rows, self.first_row)
        batches = list(limit_memory(self._batches()))
        return self._part(batches, sum(batch.num_rows for batch in batches), self.first_row)

    def head(self, rows: int) -> Log:
        """The first ``rows`` events (all of them where there are fewer) as a log in memory."""
        batches = next(rechunk(self._batches(), rows), [])
        n = sum(batch.num_rows for batch in batches)
        if n == 0:
            raise LogError(f"{self.slices[0].path}: the log is empty; it needs at least one event")
        return self._part(batches, n, self.first_row)

    def sample(self, rows: int) -> Log:
        """Some ``rows`` events as a log in memory: stretches of neighbours, a hundred of them, evenly spread.

        All of it where there are no more. Which events they are depends on the two numbers of rows alone.
        """
        stream = self.counted()
        total = stream.n_rows or 0
        if rows >= total:
            return stream.read()
        number = min(STRETCHES, rows)
        length, starts = rows // number, [i * total // number for i in range(number)]
        stretches = [stream.between(start, start + length) for start in starts]
        batches = chain.from_iterable(stretch._batches() for stretch in stretches)
        return self._part(batches, length, *(self.first_row + start for start in starts))

    def after(self, rows: int) -> LogStream | None:
        """The stream without its first ``rows`` events; None where that leaves nothing.

        Row groups of Parquet files that lie before them are not read; of other files one column is, up to there.
        """
        left = rows
        for number, file_slice in enumerate(self.slices):
            found = file_slice.count_rows(self.layout.columns.action, left + 1)
            if found > left:
                slices = (file_slice.slice_rows(left) if left else file_slice, *self.slices[number + 1 :])
                return replace(self, slices=slices, first_row=self.first_row + rows)
            left -= found
        return None

    def between(self, start: int, end: int) -> LogStream:
        """The events ``start..end-1``, counted from the first of this stream."""
        slices: list[FileSlice] = []
        first = 0
        for file_slice in self.counted().slices:
            last = first + (file_slice.n_rows or 0)
            if start < last and first < end:
                slices.append(file_slice.slice_rows(max(start, first) - first, min(end, last) - first))
            first = last
        return replace(self, slices=tuple(slices), first_row=self.first_row + start)

    def cut(self, n_parts: int) -> list[LogStream]:
        """``n_parts`` streams, equally long but for one event; where they are cut depends on the number of rows alone.

        Unlike :meth:`split` it may cut through row groups, which both neighbours then decode.
        """
        stream = self.counted()
        edges = np.linspace(0, stream.n_rows or 0, n_parts + 1).astype(np.int64).tolist()
        return [stream.between(start, end) for start, end in pairwise(edges)]

    def split(self, n_parts: int) -> list[LogStream]:
        """At most ``n_parts`` streams of about the same length, which one after another give all rows.

        Cuts fall between row groups of Parquet files, or between files of other kinds (which are counted first).
        """
        if n_parts < 1:
            raise OptionError(f"n_parts is {n_parts}; it must be at least 1")
        stream = self.counted()
        streams: list[LogStream] = []
        row = self.first_row
        for slices in _shares(stream.slices, n_parts):
            streams.append(replace(self, slices=slices, first_row=row))
            row += sum(file_slice.n_rows or 0 for file_slice in slices)
        return streams

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for file_slice in self.slices:
            yield from file_slice.read_batches(self.layout.names)

    def _part(self, batches: Iterable[pa.RecordBatch], n: int, *first: int) -> Log:
        """The log of stretches of ``n`` rows, each of which begins with one of these rows."""
        try:
            log = build_log(batches, n * len(first), self.layout, self.action_labels)
        except RowError as error:
            row = first[error.row // n] + error.row % n
            raise error.shift(row - error.row, self._file_of(row)) from None
        log._set(_rows=np.concatenate([np.arange(row, row + n) for row in first]))
        return log

    def _file_of(self, row: int) -> str:
        end = self.first_row
        for file_slice in self.slices[:-1]:
            end += file_slice.with_row_count(self.layout.columns.action).n_rows or 0
            if row < end:
                return file_slice.path
        return self.slices[-1].path


def open_stream(slices: tuple[FileSlice, ...], layout: ColumnLayout, batch_rows: int) -> LogStream:
    """A stream over these pieces, its action labels known: declared, or found by one pass over the actions."""
    slices = tuple(file_slice for file_slice in slices if file_slice.n_rows != 0) or slices[:1]
    action = layout.columns.action
    labels = find_known_labels(layout, slices[0].schema.field(action).type)
    if labels is None:
        counts = [0] * len(slices)

        def actions() -> Iterator[pa.Array]:
            for number, file_slice in enumerate(slices):
                for batch in file_slice.read_batches([action]):
                    counts[number] += batch.num_rows
                    yield batch.column(0)

        labels = collect_labels(actions(), layout.declared)
        slices = tuple(replace(file_slice, n_rows=rows) for file_slice, rows in zip(slices, counts, strict=True))
    stream = LogStream(slices, layout, labels, batch_rows)
    if stream.n_rows == 0:
        raise LogError(f"{slices[0].path}: the log is empty; it needs at least one event")
    return stream


def rechunk(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[list[pa.RecordBatch]]:
    """The same rows in lists of slices that hold exactly ``rows`` together (the last list may hold fewer).

    >>> batch = pa.record_batch({"x": [1, 2, 3, 4, 5]})
    >>> [[len(part) for part in parts] for parts in rechunk([batch, batch], 4)]
    [[4], [1, 3], [2]]
    """
    held: list[pa.RecordBatch] = []
    missing = rows
    for batch in batches:
        start = 0
        while batch.num_rows - start >= missing:
            yield [*held, batch.slice(start, missing)]
            start += missing
            held, missing = [], rows
        if start < batch.num_rows:
            held.append(batch.slice(start))
            missing -= batch.num_rows - start
    if held:
        yield held


def _shares(slices: tuple[FileSlice, ...], n_parts: int) -> list[tuple[FileSlice, ...]]:
    """Contiguous shares: each row group, or file without any, goes where its middle row falls."""
    units = [
        (number, group, rows)
        for number, file_slice in enumerate(slices)
        for group, rows in enumerate(file_slice.group_rows or (file_slice.n_rows or 0,))
    ]
    total = sum(rows for *_, rows in units)
    ends = accumulate(rows for *_, rows in units)
    share = [
        min(n_parts - 1, (2 * end - unit[2]) * n_parts // (2 * total)) for unit, end in zip(units, ends, strict=True)
    ]
    shares = []
    for _, members in groupby(zip(share, units, strict=True), key=lambda pair: pair[0]):
        shares.append(_joined(slices, [unit for _, unit in members]))
    return shares


def _joined(slices: tuple[FileSlice, ...], units: list[tuple[int, int, int]]) -> tuple[FileSlice, ...]:
    joined = []
    for number, members in groupby(units, key=lambda unit: unit[0]):
        groups = [group for _, group, _ in members]
        file_slice = slices[number]
        joined.append(file_slice.slice_groups(groups[0], groups[-1] + 1) if file_slice.group_rows else file_slice)
    return tuple(joined)


T = TypeVar("T")


END = object()


def prefetch(make: Callable[[], Iterator[T]], waiting: int) -> Iterator[T]:
    """The items of ``make()`` in order, at most ``waiting`` of them made before they are asked for.

    An error of the maker comes out where its item would have been. When the consumer stops early, for whatever reason,
    the thread ends after the item it is at.

    >>> list(prefetch(lambda: iter("abc"), waiting=1))
    ['a', 'b', 'c']
    """
    ready: Queue[Any] = Queue()
    # a place is taken before an item is made: items made are those waiting and the one in the making
    places, stopped = threading.Semaphore(waiting), threading.Event()
    work = (make, ready, places, stopped)
    thread = threading.Thread(target=_produce, args=work, name="backcast reads ahead", daemon=True)
    thread.start()
    try:
        while True:
            item, error = ready.get()
            if error is not None:
                raise error
            if item is END:
                return
            places.release()
            yield item
            # not held while the next one is waited for
            del item
    finally:
        stopped.set()
        places.release()
        # a forgotten generator may be closed in any thread, this one's own maker included
        if threading.current_thread() is not thread:
            thread.join()


def _produce(
    make: Callable[[], Iterator[Any]], ready: Queue[Any], places: threading.Semaphore, stopped: threading.Event
) -> None:
    try:
        items = make()
        while True:
            places.acquire()
            if stopped.is_set():
                return
            item = next(items, END)
            ready.put((item, None))
            if item is END:
                return
            del item
    except BaseException as error:  # the consumer's thread must hear of it, whatever it is
        ready.put((None, error))


@dataclass(frozen=True)
class Tail:
    """The parts of a log without its first ``rows`` events."""

    log: Any
    rows: int

    @property
    def n_rows(self) -> int | None:
        """Number of events, where it is known."""
        known = getattr(self.log, "n_rows", None)
        return None if known is None else known - self.rows

    def __iter__(self) -> Iterator[Log]:
        left = self.rows
        for part in self.log:
            if left < len(part):
                yield part[left:] if left else part
            left = max(0, left - len(part))


def cut_head(log: Any, rows: int) -> tuple[Log, Any]:
    """The first ``rows`` events as a log in memory (fewer where there are not so many), and the rest, or None.

    >>> log = Log(None, actions=[0, 1, 0], rewards=[1, 2, 3], propensities=[0.5] * 3)
    >>> head, rest = cut_head([log[:1], log[1:]], 2)
    >>> head.rewards, [part.rewards for part in rest]
    (array([1., 2.]), [array([3.])])
    """
    if isinstance(log, Log):
        return log[:rows], log[rows:] if len(log) > rows else None
    if hasattr(log, "after"):
        return log.head(rows), log.after(rows)
    taken: list[Log] = []
    for part in log:
        missing = rows - sum(map(len, taken))
        if missing == 0:
            return joined_log(taken), Tail(log, rows)
        taken.append(part[:missing])
        if missing < len(part):
            return joined_log(taken), Tail(log, rows)
    if not taken:
        raise EvaluationError("the stream gave no events")
    return joined_log(taken), None


def head_of(log: Any, rows: int) -> tuple[Log | None, Any]:
    """The first ``rows`` events of a log, for warm-up or calibration, and the rest, which must not be empty."""
    if rows == 0:
        return None, log
    head, rest = cut_head(log, rows)
    if rest is None:
        raise EvaluationError(f"{rows} events are asked for warm-up or calibration; the log has only {len(head)}")
    return head, rest
