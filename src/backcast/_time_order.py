"""Times of events: parsed, checked, and the order that they give a log."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from backcast._arrays import IntArray
from backcast._log_validation import RowError
from backcast.errors import LogError


def to_time_column(times: Any) -> npt.NDArray[Any] | None:
    """Return one sortable time per event: numbers and dates unchanged, text as dates or numbers.

    Text is parsed, because its alphabetical order is not that of time: ``"10" < "9"``, and ``"12:00:00.5Z"`` sorts
    before ``"12:00:00Z"``.

    >>> to_time_column(["2026-05-01T12:00:00Z", "2026-05-01T12:00:00.5Z", "2026-05-01T13:00:00+02:00"]).tolist()[2]
    datetime.datetime(2026, 5, 1, 11, 0)
    >>> to_time_column(["9", "10"])
    array([ 9., 10.])
    """
    if times is None:
        return None
    column = np.asarray(times)
    if column.ndim != 1:
        raise LogError(f"times have shape {column.shape}; they must be one per event, shape (n,)")
    if column.dtype.kind == "c":
        raise LogError("times are complex numbers, which have no order; give numbers, dates or text in ISO 8601")
    if column.dtype.kind in "US" or (column.dtype == object and any(isinstance(time, str) for time in column)):
        column = _parse_text(column.tolist())
    missing = column != column  # NaN and NaT
    if np.any(missing):
        row = int(np.argmax(missing))
        raise RowError(row, f"time is {column[row]}; fill or drop missing times first")
    return column


def _parse_text(texts: list[Any]) -> npt.NDArray[Any]:
    try:
        return np.array([float(text) for text in texts])
    except (TypeError, ValueError):
        pass
    dates = np.empty(len(texts), dtype="datetime64[us]")
    n_zones = 0
    for row, text in enumerate(texts):
        try:
            date = datetime.fromisoformat(text.strip())
        except (AttributeError, ValueError):
            raise RowError(
                row,
                f"time is {text!r}; text must be a number or a date such as 2026-05-01T12:00:00Z (ISO 8601). Parse "
                "other formats first",
            ) from None
        if date.tzinfo is not None:
            n_zones += 1
            date = date.astimezone(UTC).replace(tzinfo=None)
        if n_zones not in (0, row + 1):
            raise RowError(row, f"time is {text!r}; some times have a time zone and others have none")
        dates[row] = date
    return dates


def describe_time(time: Any) -> str:
    """Return a time of a log as text, dates to the second.

    >>> describe_time(np.datetime64("2026-05-01T12:00:00.5")), describe_time(np.datetime64("2026-05-01"))
    ('2026-05-01 12:00:00', '2026-05-01')
    >>> describe_time(np.float64(9))
    '9.0'
    """
    if isinstance(time, np.datetime64):
        return str(time).partition(".")[0].replace("T", " ")
    return str(time)


def find_time_order(times: npt.NDArray[Any] | None) -> IntArray | None:
    """Return the positions of the events in the order of time, ties in row order; None if they are in that order.

    >>> find_time_order(np.array([3, 1, 3, 2])), find_time_order(np.array([1, 1, 2]))
    (array([1, 3, 0, 2]), None)
    """
    if times is None or first_disorder(times) is None:
        return None
    return np.argsort(times, kind="stable")


def first_disorder(times: npt.NDArray[Any]) -> int | None:
    """Return the first row whose time is before that of the row above it, or None.

    >>> first_disorder(np.array([1, 3, 2, 1]))
    2
    """
    try:
        disorder = np.flatnonzero(times[1:] < times[:-1])
    except TypeError as problem:
        raise LogError(f"times cannot be sorted ({problem}); give numbers, dates or text in ISO 8601") from None
    return int(disorder[0]) + 1 if disorder.size else None
