"""Horizons given as a span of time: the number of rounds that the log has in it."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np

from backcast._validation import count
from backcast.errors import OptionError
from backcast.io.stream import LogStream
from backcast.log import Log

SECONDS = {"s": 1, "min": 60, "h": 3_600, "d": 86_400, "w": 604_800}
SPAN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(s|min|h|d|w)\s*")
# times that are numbers: seconds or milliseconds since 1970, from 2001 to 2096
UNIX_UNITS = {1.0: (1e9, 4e9), 1e3: (1e12, 4e12)}
REMEDY = "give the number of rounds, such as horizon=5000"


class EventRate(NamedTuple):
    """How many events a log has, in how many seconds."""

    events: int
    seconds: float

    def events_in(self, seconds: float) -> int:
        """Return the number of events in this many seconds, at least 1.

        >>> EventRate(events=101, seconds=1000.0).events_in(50.0)
        5
        """
        return max(1, round((self.events - 1) * seconds / self.seconds))


def parse_span(text: str) -> float:
    """Return the seconds of a span of time.

    >>> parse_span("30min"), parse_span("1.5h"), parse_span("2w")
    (1800.0, 5400.0, 1209600.0)
    """
    match = SPAN.fullmatch(text)
    if match is None or float(match[1]) == 0:
        raise OptionError(
            f"horizon is {text!r}; give a number of rounds, or a span of time such as '30min', '12h', '1d' or '2w'"
        )
    return float(match[1]) * SECONDS[match[2]]


def check_horizon(horizon: Any) -> None:
    """Raise unless the horizon is None, a positive number of rounds, or a span of time."""
    if isinstance(horizon, str):
        parse_span(horizon)
    elif horizon is not None:
        count("horizon", horizon)


def resolve_horizon(log: Log | LogStream, horizon: int | str | None) -> tuple[int | None, tuple[str, ...]]:
    """Return the number of rounds of a horizon, and a note if it was a span of time.

    >>> times = np.array(["2026-05-01T00", "2026-05-01T06", "2026-05-01T12", "2026-05-01T18"], dtype="datetime64[h]")
    >>> log = Log(None, [0, 1, 0, 1], [1, 0, 1, 0], [0.5] * 4, times=times)
    >>> resolve_horizon(log, "12h")
    (2, ('A horizon of 12h is 2 rounds: the log has 4 events in 18 hours.',))
    """
    if not isinstance(horizon, str):
        return horizon, ()
    rate = find_event_rate(log)
    rounds = rate.events_in(parse_span(horizon))
    return rounds, (
        f"A horizon of {horizon} is {rounds:,} rounds: the log has {rate.events:,} events in "
        f"{format_span(rate.seconds)}.",
    )


def find_event_rate(log: Log | LogStream) -> EventRate:
    """Return how many events a log has in how many seconds, from its first and last time."""
    span = _memory_span(log) if isinstance(log, Log) else log.time_span()
    if span is None:
        raise OptionError(
            f"the horizon is a span of time, but the log has no times; {REMEDY}, or name their column (times=...)"
        )
    n_events = log.n_events if log.n_events is not None else log.with_event_count().n_events
    seconds = seconds_between(*span)
    if not n_events or n_events < 2 or seconds <= 0:
        raise OptionError(f"the horizon is a span of time, but all times of the log are equal; {REMEDY}")
    return EventRate(n_events, seconds)


def _memory_span(log: Log) -> tuple[Any, Any] | None:
    times = log.columns.times
    return None if times is None or not times.size else (times[0], times[-1])


def seconds_between(first: Any, last: Any) -> float:
    """Return the seconds between two times: dates, or seconds or milliseconds since 1970.

    >>> seconds_between(np.datetime64("2026-05-01"), np.datetime64("2026-05-02"))
    86400.0
    >>> seconds_between(1750000000000, 1750000000500)
    0.5
    """
    if isinstance(first, int | float | np.number):
        for per_second, (low, high) in UNIX_UNITS.items():
            if low <= float(first) and float(last) <= high:
                return (float(last) - float(first)) / per_second
        raise OptionError(
            f"the horizon is a span of time, but the times of the log are numbers from {first} to {last} whose unit is "
            f"not known; {REMEDY}, or times as dates or as seconds since 1970"
        )
    try:
        return float((np.datetime64(last) - np.datetime64(first)) / np.timedelta64(1, "s"))
    except (TypeError, ValueError):
        raise OptionError(f"the times of the log, such as {first!r}, are not dates; {REMEDY}") from None


def format_span(seconds: float) -> str:
    """Return a span of time in its largest whole unit.

    >>> [format_span(seconds) for seconds in (90.0, 7200.0, 3600 * 60.0)]
    ['90 seconds', '2 hours', '2.5 days']
    """
    names = {"d": "days", "h": "hours", "min": "minutes", "s": "seconds"}
    unit = next((unit for unit in names if seconds >= 2 * SECONDS[unit]), "s")
    return f"{seconds / SECONDS[unit]:.3g} {names[unit]}"
