"""Ctrl-C: once for the estimate so far, twice to leave at once."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

from backcast.errors import StopEvaluation, printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, Task


TOLD = "\nstopping: the estimate so far follows; press Ctrl-C again to leave at once\n"


class Stop:
    """Whether somebody has had enough."""

    def __init__(self) -> None:
        self.wanted = False

    def check(self) -> None:
        """End the run at this point, if somebody has had enough."""
        if self.wanted:
            raise StopEvaluation


@contextmanager
def stopping(*, quiet: bool) -> Iterator[Stop]:
    """Take the first Ctrl-C as a wish to stop at the next good point; the second interrupts as ever."""
    stop = Stop()

    def interrupted(number: int, frame: FrameType | None) -> None:
        if stop.wanted:
            raise KeyboardInterrupt
        stop.wanted = True
        if not quiet:
            # not print: the signal may have come in the middle of one
            os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, TOLD.encode())

    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = signal.signal(signal.SIGINT, interrupted)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, before)


COMPILING = "compiling, once: later runs start at once"


class Bar:
    """Progress over several passes of the same length; each pass starts with :meth:`begin`."""

    def __init__(self, progress: Progress, events: int, passes: int) -> None:
        self._progress = progress
        self._events = events
        self._passes = passes
        self._begun = 0
        self._task = progress.add_task("", total=events * passes)

    @property
    def completed(self) -> int:
        """Events done, over all passes."""
        return int(self._progress.tasks[0].completed)

    def begin(self, name: str) -> None:
        """Say what comes now; what the last pass left undone counts as done."""
        self._progress.update(self._task, description=name, completed=self._begun * self._events)
        self._begun += 1

    def advance(self, events: int) -> None:
        """So many more events are done, though never more than a pass has."""
        done = min(self.completed + events, self._begun * self._events)
        self._progress.update(self._task, completed=done)


@contextmanager
def progress_bar(events: int, passes: int, *, quiet: bool, console: Console | None = None) -> Iterator[Bar]:
    """A bar that vanishes when it is done, on a terminal; nothing anywhere else."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from backcast._kernels.jit import telling_of_compilation

    console = console or Console(stderr=True)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        _speed_column(),
        TimeRemainingColumn(),
    )
    silent = quiet or not console.is_terminal
    tell = (lambda: None) if silent else (lambda: console.print(COMPILING))
    with (
        Progress(*columns, console=console, transient=True, disable=silent) as progress,
        telling_of_compilation(tell),
    ):
        yield Bar(progress, events, passes)


def _speed_column() -> Any:
    from rich.progress import ProgressColumn
    from rich.text import Text

    class EventsPerSecond(ProgressColumn):
        """How fast events go by."""

        def render(self, task: Task) -> Text:
            speed = task.finished_speed or task.speed
            return Text("" if speed is None else f"{speed:,.0f} events/s", style="progress.data.speed")

    return EventsPerSecond()


def print_status(text: str) -> None:
    """One line to the person at the terminal, beside the result."""
    print(printable(text), file=sys.stderr)
