"""VwLogStream: a log of Vowpal Wabbit, read in parts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import numpy as np
import pyarrow.fs

from backcast._log_validation import RowError
from backcast._time_order import first_disorder, to_time_column
from backcast.errors import OptionError, SourceError
from backcast.io._file_stream import FEWEST_ROWS, FREE_PER_PART, SAMPLE_BLOCKS, SORT_REMEDY
from backcast.io._files import FileStamp, read_stamps
from backcast.io._vw_files import ReadingCounts, detect_format, no_decision_error, read_events
from backcast.io._vw_log_builder import LocatedEvent, VwLayout, VwOptions, VwSurvey, build_vw_log
from backcast.io.limits import free_memory, without_stream_remedy
from backcast.io.stream import LogStream
from backcast.log import Log, concat_logs, replace_columns
from backcast.provenance import LogSource
from backcast.reading_summary import ReadingSummary

INDEXED_EVENTS = 1024  # events between two places in a file from which it can be read
LOCAL_FILES = pyarrow.fs.LocalFileSystem()


class VwFile(NamedTuple):
    """A file as it was when it was opened; ``lines`` are those of every thousandth decision or so."""

    path: str
    format: str
    stamp: FileStamp
    n_events: int
    lines: tuple[int, ...]


@dataclass(frozen=True, repr=False)
class VwLogStream(LogStream):
    """Decisions ``start..stop-1`` of files, read in parts; the stream itself holds no data.

    Row numbers count from the first decision of the files. ``whole`` is how all of them were read.
    """

    files: tuple[VwFile, ...]
    layout: VwLayout
    options: VwOptions
    batch_rows: int
    whole: ReadingSummary
    start: int
    stop: int
    source: LogSource | None = None

    def __post_init__(self) -> None:
        if isinstance(self.batch_rows, bool) or not isinstance(self.batch_rows, int) or self.batch_rows < 1:
            raise OptionError(f"batch_rows is {self.batch_rows!r}; it must be a whole number, at least 1")

    def __repr__(self) -> str:
        n_files = len(self.files)
        files = f"{n_files} file{'' if n_files == 1 else 's'}"
        return f"LogStream({self.n_events:,} events in {files}, {self.n_actions} actions)"

    @property
    def action_labels(self) -> tuple[int, ...]:  # type: ignore[override]
        """Numbers of the actions: positions in the list from 0, or as logged from 1."""
        first = 0 if self.layout.has_action_features else 1
        return tuple(range(first, first + self.layout.n_actions))

    @property
    def reading(self) -> ReadingSummary:
        if self.n_events == self.whole.events:
            return self.whole
        return replace(self.whole, events=self.n_events, lines=None, left_out=())

    @property
    def has_action_features(self) -> bool:
        """Whether contexts are features of each action."""
        return self.layout.has_action_features

    @property
    def n_features(self) -> int:
        return self.options.hash_size

    @property
    def reward_range(self) -> tuple[float, float] | None:
        return self.options.reward_range

    @property
    def n_events(self) -> int:
        return self.stop - self.start

    @property
    def bytes_in_memory(self) -> int:
        return self.n_events * self.layout.bytes_per_event(self.options.hash_size)

    def with_event_count(self) -> VwLogStream:
        return self

    def average_reward(self) -> float:
        """Return the mean reward, by one pass over the files."""
        costs = np.fromiter((located.event.cost for located in self._events()), dtype=np.float64)
        return float((self.options.reward_scale * costs).mean())

    def fingerprint(self) -> str:
        """Return a digest of the files as they were opened, the events used, and the options; no event is read."""
        files = [(PurePosixPath(file.path).name, file.stamp) for file in self.files]
        facts = (files, self.layout, self.options, self.start, self.stop)
        return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]

    def parts(self) -> Iterator[Log]:
        """Iterate over the parts."""
        events, row, free = self._events(), self.start, free_memory()
        per_part = self.batch_rows
        if free is not None:
            affordable = free // (FREE_PER_PART * self.layout.bytes_per_event(self.options.hash_size))
            per_part = max(1, min(per_part, max(FEWEST_ROWS, affordable)))
        while located := list(islice(events, per_part)):
            yield self._build(located, row)
            row += len(located)

    def read(self) -> Log:
        log = self._build(list(self._events()), self.start)
        return replace_columns(log, reading=self.reading, source=self.source and self.source.as_read())

    def slice(self, start: int, stop: int | None = None) -> VwLogStream:
        first, last = self.start + start, self.stop if stop is None else min(self.stop, self.start + stop)
        return replace(self, start=min(first, self.stop), stop=max(min(first, self.stop), last), source=None)

    def split_head(self, n: int) -> tuple[Log, VwLogStream | None]:
        return self.slice(0, n).read(), self.slice(n) if n < self.n_events else None

    def sample(self, n: int) -> Log:
        if n >= self.n_events:
            return self.read()
        n_blocks = min(SAMPLE_BLOCKS, n)
        length, starts = n // n_blocks, [i * self.n_events // n_blocks for i in range(n_blocks)]
        log = concat_logs([self.slice(start, start + length).read() for start in starts])
        return replace_columns(log, reading=replace(self.reading, events=len(log), lines=None))

    def split(self, n_parts: int) -> list[LogStream]:
        if n_parts < 1:
            raise OptionError(f"n_parts is {n_parts}; it must be at least 1")
        cuts = sorted({number * self.n_events // n_parts for number in range(n_parts + 1)})
        return [self.slice(start, stop) for start, stop in pairwise(cuts)]

    def _events(self) -> Iterator[LocatedEvent]:
        """Yield the decisions; those before the first one are skipped as lines, without parsing most of them."""
        first = 0
        for file in self.files:
            start, stop = max(0, self.start - first), min(file.n_events, self.stop - first)
            first += file.n_events
            if start >= stop:
                continue
            block = start // INDEXED_EVENTS
            _check_stamp(file)
            events = read_events(file.path, file.format, ReadingCounts(), first_line=file.lines[block], limit=False)
            for event in islice(events, start - block * INDEXED_EVENTS, stop - block * INDEXED_EVENTS):
                yield LocatedEvent(file.path, event)
            _check_stamp(file)

    def _build(self, located: list[LocatedEvent], row: int) -> Log:
        with without_stream_remedy():
            log = build_vw_log(located, self.layout, self.options)
        reading = replace(log.reading, files=self.whole.files, interactions=self.whole.interactions)
        return replace_columns(log, rows=np.arange(row, row + len(log)), reading=reading)


def open_vw_stream(paths: Sequence[str], options: VwOptions, batch_rows: int) -> VwLogStream:
    """Open files as a stream, by one pass over them."""
    counts, survey = ReadingCounts(), VwSurvey(options.pairs)
    spans = [_survey_file(path, options.format or detect_format(path), counts, survey) for path in paths]
    spans = [span for span in spans if span.file.n_events]
    if not spans:
        raise no_decision_error(paths, counts)
    layout = survey.layout(options.n_actions)
    if layout.has_times:
        spans = _sort_by_time(spans)
    summary = ReadingSummary(
        events=survey.n_events,
        files=tuple(paths),
        lines=counts.lines,
        left_out=counts.list_left_out(),
        order="times" if layout.has_times else "rows",
        interactions=layout.interactions,
    )
    files = tuple(span.file for span in spans)
    return VwLogStream(files, layout, options, batch_rows, summary, 0, survey.n_events)


class _FileSpan(NamedTuple):
    """A file with its first and last time, and the first decision that is out of order; None if a time is missing."""

    file: VwFile
    first: Any
    last: Any
    disorder: str


def _survey_file(path: str, vw_format: str, counts: ReadingCounts, survey: VwSurvey) -> _FileSpan:
    """Look at all decisions of a file."""
    [stamp] = read_stamps([path], LOCAL_FILES)
    lines: list[int] = []
    n_events, disorder = 0, ""
    first = last = None
    events = read_events(path, vw_format, counts, limit=False)
    while block := list(islice(events, INDEXED_EVENTS)):
        lines.append(block[0].line)
        n_events += len(block)
        for event in block:
            survey.add(LocatedEvent(path, event))
        if disorder or any(event.time is None for event in block):
            continue
        try:
            times = to_time_column([event.time for event in block])
        except RowError as error:
            raise error.shift(0, f"{path}, line {block[error.row].line}") from None
        assert times is not None
        joined = times if last is None else np.concatenate([[last], times])
        row = first_disorder(joined)
        if row is not None:
            line = block[row - (last is not None)].line
            disorder = (
                f"{path}, line {line}: time {joined[row]} is before that of the decision above, {joined[row - 1]}"
            )
        first, last = (times[0] if first is None else first), times[-1]
    file = VwFile(path, vw_format, stamp, n_events, tuple(lines))
    _check_stamp(file)
    return _FileSpan(file, first, last, disorder)


def _sort_by_time(spans: list[_FileSpan]) -> list[_FileSpan]:
    """Return the files in the order of time; refuse decisions that are out of order, and files that overlap."""
    spans = sorted(spans, key=lambda span: span.first)
    problems = [span.disorder for span in spans if span.disorder] or [
        f"{after.file.path}: its times begin at {after.first}, before the last one of {before.file.path}, {before.last}"
        for before, after in pairwise(spans)
        if after.first < before.last
    ]
    if problems:
        raise SourceError(f"{problems[0]}. {SORT_REMEDY.replace('read_log', 'read_vw')}")
    return spans


def _check_stamp(file: VwFile) -> None:
    file.stamp.check(file.path, LOCAL_FILES)
