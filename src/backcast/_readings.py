"""Readings: what is read off histories that do not depend on it, a further outcome or the reward of one segment.

A policy learns from the reward; acceptance, weights and histories depend on nothing else. The value of the same history
in another outcome is read with that outcome's rewards and predictions in place of the reward's. The value in a segment
``s`` with share ``q`` of the events is read with ``v + [k in s] (R_k - v) / q`` in place of ``R_k``: its mean over all
events is the mean of ``R_k`` in the segment, whatever ``v`` is. With the logged mean of the segment as ``v``, events
outside of the segment count as what the log earned in it, so they add no noise to the lift (docs/theory.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from backcast._arrays import BoolArray, FloatArray
from backcast._outcome_columns import check_number_of_labels
from backcast.errors import EvaluationError
from backcast.io.stream import LogStream
from backcast.log import Log, replace_columns
from backcast.reading_summary import ReadingSummary

OTHER = "other"  # the segment of all that are too small for one of their own
# Events below which a segment is pooled, because each segment widens the intervals of all. Of three actions logged
# equally often, fewer than 30 effective events carry all estimates of segments of 50 events, which therefore decide
# nothing, 27 % of those of 100 events, and none of 200 (bench/accuracy/segments.py).
FEWEST_EVENTS = 100
MOST_SEGMENTS = 12  # segments of a column; smaller ones are pooled, because each widens the intervals of all


@dataclass(frozen=True)
class OutcomeReading:
    """A further outcome of a log: its name, and its place among the outcomes."""

    name: str
    place: int

    @property
    def key(self) -> str:
        """Name of its part of a checkpoint."""
        return f"outcome-{self.place}"

    def apply(self, log: Log) -> Log:
        """Return the log with this outcome as the reward that is read; policies learn from the reward as before.

        >>> log = Log(None, [0, 1], rewards=[1, 0], propensities=[0.5, 0.5], outcomes={"ms": [12, 30]})
        >>> read = OutcomeReading("ms", 0).apply(log)
        >>> read.rewards, read.columns.learned_rewards
        (array([12., 30.]), array([1., 0.]))
        """
        outcomes = log.columns.outcomes
        assert outcomes is not None
        read = np.ascontiguousarray(outcomes[:, self.place])
        return replace_columns(log, rewards=read, learned=log.columns.learned_rewards, reward_range=None)


@dataclass(frozen=True)
class SegmentReading:
    """A segment: labels of one column, the logged mean of its rewards, its events and its share of all events."""

    column: str
    place: int
    name: str
    labels: tuple[str, ...]
    origin: float
    events: int
    share: float

    @property
    def key(self) -> str:
        """Name of its part of a checkpoint."""
        return f"segment-{self.place}-{'-'.join(map(str, self.labels[:1]))}"

    def contains(self, log: Log) -> BoolArray:
        """Return which events of the log are in the segment."""
        codes, labels = log.columns.segments, log.segment_columns[self.place].labels
        assert codes is not None
        return np.isin(codes[:, self.place], [code for code, label in enumerate(labels) if label in self.labels])

    def map_range(self, bounds: tuple[float, float]) -> tuple[float, float]:
        """Return the range of what is read, given that of the reward."""
        low, high = (self.origin + (bound - self.origin) / self.share for bound in bounds)
        return min(low, self.origin), max(high, self.origin)

    def apply(self, log: Log, predicted: FloatArray) -> tuple[Log, FloatArray]:
        """Return events and predictions whose doubly robust values are ``v + [k in s] (R_k - v) / q``.

        >>> log = Log(None, [0, 1], rewards=[1, 3], propensities=[0.5, 0.5], segments={"device": ["phone", "desk"]})
        >>> reading = SegmentReading("device", 0, "phone", ("phone",), origin=1.0, events=1, share=0.5)
        >>> read, predicted = reading.apply(log, np.array([[2.0, 2.0]]))
        >>> read.rewards, predicted
        (array([1., 1.]), array([[3., 3.],
               [1., 1.]]))
        """
        scale = np.where(self.contains(log), 1 / self.share, 0.0)
        read = self.origin + scale * (log.columns.rewards - self.origin)
        reward_range = None if log.reward_range is None else self.map_range(log.reward_range)
        log = replace_columns(log, rewards=read, learned=log.columns.learned_rewards, reward_range=reward_range)
        return log, self.origin + scale[:, None] * (predicted - self.origin)

    def embed(self, influences: FloatArray, inside: BoolArray) -> FloatArray:
        """Return influences of the segment's events on its mean as influences of all events of the log."""
        embedded = np.zeros(inside.size)
        embedded[inside] = influences / self.share
        return embedded


Reading: TypeAlias = OutcomeReading | SegmentReading


def plan_readings(log: Log | LogStream) -> tuple[Reading, ...]:
    """Return all readings of a log: its further outcomes, then its segments; of a stream, after a pass over it."""
    outcomes = [OutcomeReading(name, place) for place, name in enumerate(log.outcome_names)]
    names = log.segment_names
    counted = _count_segments(log, len(names)) if names else []
    segments = [reading for place, name in enumerate(names) for reading in _pool(name, place, counted[place])]
    return (*outcomes, *segments)


def _count_segments(log: Log | LogStream, n_columns: int) -> list[dict[str, tuple[int, float]]]:
    """Return the number of events and the sum of the rewards by label, for each column."""
    counted: list[dict[str, tuple[int, float]]] = [{} for _ in range(n_columns)]
    for part in log.parts():
        codes = part.columns.segments
        assert codes is not None
        for place, column in enumerate(part.segment_columns):
            events = np.bincount(codes[:, place], minlength=len(column.labels))
            sums = np.bincount(codes[:, place], weights=part.columns.rewards, minlength=len(column.labels))
            for label, n, total in zip(column.labels, events.tolist(), sums.tolist(), strict=True):
                if n:
                    before = counted[place].get(label, (0, 0.0))
                    counted[place][label] = before[0] + n, before[1] + total
            check_number_of_labels(column.name, tuple(counted[place]), is_number=False)
    return counted


def _pool(column: str, place: int, counted: dict[str, tuple[int, float]]) -> Iterator[SegmentReading]:
    """Yield the segments of a column, largest first; small ones as one."""
    total = sum(n for n, _ in counted.values())
    by_size = sorted(counted, key=lambda label: (-counted[label][0], label))
    large = [label for label in by_size if counted[label][0] >= FEWEST_EVENTS and label != OTHER][:MOST_SEGMENTS]
    groups = {label: (label,) for label in large}
    small = tuple(label for label in by_size if label not in groups)
    for name, labels in [*groups.items(), *([(OTHER, small)] if small else [])]:
        events = sum(counted[label][0] for label in labels)
        rewards = sum(counted[label][1] for label in labels)
        yield SegmentReading(column, place, name, labels, rewards / events, events, events / total)


class ReadStream(LogStream):
    """A stream whose parts are mapped by a reading: with another outcome as the reward, or the events of one segment.

    A segment leaves events out, so the number of its events is not known, and it cannot be cut by their numbers.
    """

    def __init__(self, stream: LogStream, reading: Reading) -> None:
        self.stream, self.applied = stream, reading
        self.action_labels = stream.action_labels

    @property
    def propensities_estimated(self) -> bool:
        """Whether propensities were estimated."""
        return self.stream.propensities_estimated

    @property
    def reading(self) -> ReadingSummary:
        """How the stream was read."""
        return self.stream.reading

    @property
    def has_action_features(self) -> bool:
        """Whether contexts are features of each action."""
        return self.stream.has_action_features

    @property
    def n_features(self) -> int:
        """Number of context features d."""
        return self.stream.n_features

    @property
    def reward_range(self) -> tuple[float, float] | None:
        """Declared bounds of what is read: those of the reward for a segment, none for another outcome."""
        return None if isinstance(self.applied, OutcomeReading) else self.stream.reward_range

    @property
    def n_events(self) -> int | None:
        """Number of events, if it is known."""
        return self.stream.n_events if isinstance(self.applied, OutcomeReading) else None

    @property
    def bytes_in_memory(self) -> int:
        """Approximate memory that :meth:`read` takes."""
        return self.stream.bytes_in_memory

    def _map(self, part: Log) -> Log:
        return (
            self.applied.apply(part) if isinstance(self.applied, OutcomeReading) else part[self.applied.contains(part)]
        )

    def parts(self) -> Iterator[Log]:
        """Iterate over the parts, without empty ones."""
        return (mapped for mapped in map(self._map, self.stream.parts()) if len(mapped))

    def with_event_count(self) -> LogStream:
        """Return the stream with a known number of events where it can be known."""
        return ReadStream(self.stream.with_event_count(), self.applied)

    def read(self) -> Log:
        """Return all events as one log in memory."""
        return self._map(self.stream.read())

    def slice(self, start: int, stop: int | None = None) -> LogStream:
        """Return the events ``start..stop-1``."""
        self._require_all_events()
        return ReadStream(self.stream.slice(start, stop), self.applied)

    def split_head(self, n: int) -> tuple[Log, LogStream | None]:
        """Return the first ``n`` events as a log in memory, and the others."""
        self._require_all_events()
        head, remainder = self.stream.split_head(n)
        return self._map(head), None if remainder is None else ReadStream(remainder, self.applied)

    def fingerprint(self) -> str:
        """Return a digest of the stream and of what is read."""
        return f"{self.stream.fingerprint()} {self.applied.key}"

    def sample(self, n: int) -> Log:
        """Return about ``n`` events of the stream, as far as they are read."""
        return self._map(self.stream.sample(n))

    def split(self, n_parts: int) -> list[LogStream]:
        """Return streams that together hold all events in order."""
        return [ReadStream(part, self.applied) for part in self.stream.split(n_parts)]

    def _require_all_events(self) -> None:
        if not isinstance(self.applied, OutcomeReading):
            raise EvaluationError(
                f"the events of segment {self.applied.name!r} of a stream cannot be cut by their numbers, as this "
                "evaluator needs; read the log into memory with read_log, or leave segments out"
            )
