"""ReadingSummary: where the events of a log come from, what was left out, and their order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from backcast._display import NotebookDisplay


@dataclass(frozen=True)
class LeftOut:
    """Records of a source that are no events of the log, by reason."""

    reason: str
    count: int


def not_selected(n_rows: int | None) -> tuple[LeftOut, ...]:
    """Return the rows that the condition ``where`` of a reader does not select, if there are any.

    >>> not_selected(3), not_selected(0), not_selected(None)
    ((LeftOut(reason='not selected by where', count=3),), (), ())
    """
    return (LeftOut("not selected by where", n_rows),) if n_rows else ()


@dataclass(frozen=True)
class ReadingSummary(NotebookDisplay):
    """How a log was read: ``log.reading``.

    Attributes
    ----------
    events
        Number of events.
    files
        The files, in the order in which they were read; empty for arrays and frames.
    lines
        Number of lines of text that were read; None if the source has no lines, or they were not counted.
    left_out
        Records that are no events of the log: reason and number.
    order
        "times" if events are in the order of their times, else "rows": as they were given, files one after another.
    moved
        Number of events that were not at their place in time and were moved there.
    interactions
        Pairs of namespaces whose features were crossed (logs of Vowpal Wabbit).

    Examples
    --------
    >>> reading = ReadingSummary(events=90, lines=100, left_out=(LeftOut("no _label_cost", 10),))
    >>> print(reading)
    100 lines read, 90 events; left out: 10 (no _label_cost); in the order of the rows
    """

    events: int | None
    files: tuple[str, ...] = ()
    lines: int | None = None
    left_out: tuple[LeftOut, ...] = ()
    order: Literal["times", "rows"] = "rows"
    moved: int = 0
    interactions: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = "" if self.lines is None else f"{self.lines:,} lines read, "
        events = "" if self.events is None else f"{self.events:,} events; "
        left_out = f"left out: {self._list_left_out()}; " if self.left_out else ""
        return f"{lines}{events}{left_out}{self._describe_order()}"

    def notes(self) -> tuple[str, ...]:
        """Return sentences for the notes of a result: what was left out, and the order unless it is that of one file.

        >>> ReadingSummary(events=3, order="times", moved=2).notes()
        ('Events are in the order of their times (2 of 3 were moved).',)
        """
        order = self._describe_order()
        says_order = self.order == "times" or len(self.files) > 1
        return (
            *((f"Reading left out {self._list_left_out()}.",) if self.left_out else ()),
            *((f"Events are {order}.",) if says_order else ()),
        )

    def _list_left_out(self) -> str:
        return ", ".join(f"{item.count:,} ({item.reason})" for item in self.left_out)

    def _describe_order(self) -> str:
        if self.order == "times":
            moved = f" ({self.moved:,} of {self.events:,} were moved)" if self.moved else ""
            return f"in the order of their times{moved}"
        if len(self.files) > 1:
            return f"in the order of the rows in {len(self.files):,} files (no times are given)"
        return "in the order of the rows"
