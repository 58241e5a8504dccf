"""LogStream: a log larger than memory, read in parts as often as needed; logs in memory as such a stream."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from backcast._arrays import FloatArray
from backcast.errors import LogError, OptionError
from backcast.log import Log, concat_logs
from backcast.provenance import LogSource
from backcast.reading_summary import ReadingSummary


class LogStream(ABC):
    """A log that is read in parts, in order, as often as needed; each part is a :class:`backcast.Log`.

    :func:`backcast.scan_log` opens files as a stream. It shares ``n_events``, ``parts``, ``slice`` and ``split_head``
    with :class:`backcast.Log`.

    Examples
    --------
    >>> log = Log(None, actions=[0, 1, 0], rewards=[1, 2, 3], propensities=[0.5] * 3)
    >>> stream = LogStream.from_logs([log[:1], log[1:]])
    >>> stream.n_events, [len(part) for part in stream.parts()]
    (3, [1, 2])
    """

    action_labels: tuple[Any, ...]
    source: LogSource | None = None  # the files, and how they are read; None for logs in memory and for parts

    @property
    def outcome_names(self) -> tuple[str, ...]:
        """Names of further outcomes."""
        return ()

    @property
    def segment_names(self) -> tuple[str, ...]:
        """Names of the segment columns."""
        return ()

    @staticmethod
    def from_logs(logs: Sequence[Log]) -> LogStream:
        """Return logs in memory as the parts of a stream, in the order of time if all have times.

        Logs whose times overlap are refused: sort their events into one log.
        """
        stream = MemoryLogStream(tuple(logs))
        if any(log.columns.times is None or not len(log) for log in stream.logs):
            return stream
        spans = [(log.columns.times[0], log.columns.times[-1]) for log in stream.logs if log.columns.times is not None]
        order = sorted(range(len(spans)), key=lambda part: spans[part][0])
        for before, after in pairwise(order):
            if spans[after][0] < spans[before][1]:
                raise LogError(
                    f"the times of part {after} begin at {spans[after][0]}, before the last one of part {before}, "
                    f"{spans[before][1]}; parts of a stream must not overlap in time. Build one log of their events"
                )
        return MemoryLogStream(tuple(stream.logs[part] for part in order))

    @property
    def n_actions(self) -> int:
        """Number of actions K."""
        return len(self.action_labels)

    @property
    def propensities_estimated(self) -> bool:
        """Whether propensities were estimated from the log; those read from files never are."""
        return False

    @property
    @abstractmethod
    def reading(self) -> ReadingSummary:
        """The files of the log, what was left out, and the order of the events."""

    @property
    def has_action_features(self) -> bool:
        """Whether contexts are ``(n, K, d)``: features of each action; those of tables never are."""
        return False

    @property
    @abstractmethod
    def n_features(self) -> int:
        """Number of context features d."""

    @property
    @abstractmethod
    def reward_range(self) -> tuple[float, float] | None:
        """Declared bounds of the reward."""

    @property
    @abstractmethod
    def n_events(self) -> int | None:
        """Number of events; None if it is not known without reading (see :meth:`with_event_count`)."""

    def time_span(self) -> tuple[Any, Any] | None:
        """Return the first and the last time; None without times."""
        return None

    @abstractmethod
    def parts(self) -> Iterator[Log]:
        """Iterate over the parts, in order."""

    def __iter__(self) -> Iterator[Log]:
        return self.parts()

    @abstractmethod
    def with_event_count(self) -> LogStream:
        """Return the same stream with a known number of events, if necessary by one pass over the actions."""

    @abstractmethod
    def read(self) -> Log:
        """Return all events as one log in memory."""

    @abstractmethod
    def slice(self, start: int, stop: int | None = None) -> LogStream:
        """Return the events ``start..stop-1`` of this stream (all after ``start`` if ``stop`` is None)."""

    @abstractmethod
    def split_head(self, n: int) -> tuple[Log, LogStream | None]:
        """Return the first ``n`` events as a log in memory, and the others; None if there are no others."""

    @abstractmethod
    def fingerprint(self) -> str:
        """Return a digest of what an estimate from this stream depends on."""

    @property
    @abstractmethod
    def bytes_in_memory(self) -> int:
        """Approximate memory that :meth:`read` takes."""

    def rewards(self) -> Iterator[FloatArray]:
        """Iterate over the rewards of consecutive events, in arrays of any length."""
        return (part.columns.rewards for part in self.parts())

    def first_reward_bounds(self, n: int) -> tuple[float, float]:
        """Return the smallest and the largest of the first ``n`` rewards."""
        return self.split_head(n)[0].reward_bounds

    def average_reward(self) -> float:
        """Return the mean reward."""
        total, n = 0.0, 0
        for rewards in self.rewards():
            total, n = total + float(rewards.sum()), n + rewards.size
        return total / n

    @abstractmethod
    def sample(self, n: int) -> Log:
        """Return about ``n`` events as a log in memory, evenly spread; all of them if there are no more."""

    @abstractmethod
    def split(self, n_parts: int) -> list[LogStream]:
        """Return at most ``n_parts`` streams that together hold all events in order, cut where that is cheap."""


@dataclass(frozen=True)
class MemoryLogStream(LogStream):
    """Logs in memory as the parts of a stream."""

    logs: tuple[Log, ...]

    def __post_init__(self) -> None:
        if not self.logs or not all(isinstance(log, Log) for log in self.logs):
            raise OptionError("a stream of parts needs at least one Log, and every part must be a Log")

    @property
    def action_labels(self) -> tuple[Any, ...]:  # type: ignore[override]
        """Labels of the actions."""
        return self.logs[0].action_labels

    @property
    def outcome_names(self) -> tuple[str, ...]:
        """Names of further outcomes."""
        return self.logs[0].outcome_names

    @property
    def segment_names(self) -> tuple[str, ...]:
        """Names of the segment columns."""
        return self.logs[0].segment_names

    @property
    def propensities_estimated(self) -> bool:
        """Whether propensities of any part were estimated."""
        return any(log.propensities_estimated for log in self.logs)

    @property
    def reading(self) -> ReadingSummary:
        """How the parts were read."""
        distinct = list(dict.fromkeys(log.reading for log in self.logs))
        return replace(
            distinct[0],
            events=self.n_events,
            files=tuple(dict.fromkeys(file for reading in distinct for file in reading.files)),
            left_out=tuple(left_out for reading in distinct for left_out in reading.left_out),
            order="times" if all(reading.order == "times" for reading in distinct) else "rows",
            moved=sum(reading.moved for reading in distinct),
        )

    @property
    def has_action_features(self) -> bool:
        """Whether contexts are features of each action."""
        return self.logs[0].has_action_features

    @property
    def n_features(self) -> int:
        """Number of context features d."""
        return self.logs[0].n_features

    @property
    def reward_range(self) -> tuple[float, float] | None:
        """Declared bounds of the reward."""
        return self.logs[0].reward_range

    @property
    def n_events(self) -> int:
        """Number of events."""
        return sum(map(len, self.logs))

    def time_span(self) -> tuple[Any, Any] | None:
        """Return the first and the last time; None unless all parts have times."""
        times = [log.columns.times for log in self.logs if len(log)]
        known = [column for column in times if column is not None]
        return (known[0][0], known[-1][-1]) if known and len(known) == len(times) else None

    def parts(self) -> Iterator[Log]:
        """Iterate over the parts."""
        return iter(self.logs)

    def with_event_count(self) -> MemoryLogStream:
        """Return the stream itself: its number of events is known."""
        return self

    def read(self) -> Log:
        """Return all events as one log."""
        return concat_logs(self.logs)

    def slice(self, start: int, stop: int | None = None) -> LogStream:
        """Return the events ``start..stop-1`` (all after ``start`` if ``stop`` is None)."""
        stop = self.n_events if stop is None else stop
        starts = [0, *accumulate(map(len, self.logs))]
        overlapping = (
            log[max(0, start - first) : stop - first]
            for first, log in zip(starts, self.logs, strict=False)
            if start < first + len(log) and first < stop
        )
        return MemoryLogStream(tuple(overlapping))

    def split_head(self, n: int) -> tuple[Log, LogStream | None]:
        """Return the first ``n`` events as one log, and the others; None if there are no others."""
        return self.slice(0, n).read(), self.slice(n) if n < self.n_events else None

    @property
    def bytes_in_memory(self) -> int:
        """Memory that :meth:`read` takes in addition: that of all columns."""
        return sum(log.bytes_in_memory for log in self.logs)

    def sample(self, n: int) -> Log:
        """Return ``n`` evenly spread events as a log; all of them if there are no more."""
        log = self.read()
        return log if n >= len(log) else log[np.linspace(0, len(log) - 1, n).astype(np.int64)]

    def fingerprint(self) -> str:
        """Return a digest of the events of each part."""
        digests = " ".join(f"{len(log)} {log.fingerprint()}" for log in self.logs)
        return hashlib.sha256(digests.encode()).hexdigest()[:16]

    def split(self, n_parts: int) -> list[LogStream]:
        """Return the stream itself: its parts are in memory already."""
        return [self]
