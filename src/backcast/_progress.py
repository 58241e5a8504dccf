"""The progress bar shared by the library and the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, ProgressColumn, Task

    from backcast.io.stream import LogStream
    from backcast.log import Log

COMPILING = "compiling, once: later runs start at once"


class ProgressBar:
    """Events processed in several tasks of the same length; each task begins with :meth:`start_task`.

    ``events`` is the length of one task, or None if it is unknown.
    """

    def __init__(self, progress: Progress, events: int | None, tasks: int) -> None:
        self._progress = progress
        self._events = events
        self._started = 0
        self._task = progress.add_task("", total=None if events is None else events * tasks)

    @property
    def completed(self) -> int:
        """Events processed in all tasks."""
        return int(self._progress.tasks[0].completed)

    def start_task(self, name: str) -> None:
        """Show the name of the next task; earlier tasks count as complete."""
        done = self.completed if self._events is None else self._started * self._events
        self._progress.update(self._task, description=name, completed=done)
        self._started += 1

    def advance(self, events: int) -> None:
        """Add processed events, up to the length of the task."""
        done = self.completed + events
        if self._events is not None:
            done = min(done, self._started * self._events)
        self._progress.update(self._task, completed=done)


@contextmanager
def progress_bar(events: int | None, tasks: int, *, console: Console, disable: bool = False) -> Iterator[ProgressBar]:
    """Show a bar that disappears at the end, and one line if kernels have to be compiled."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from backcast._kernels.jit import on_compilation

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        _speed_column(),
        TimeRemainingColumn(),
    )
    report_compilation = (lambda: None) if disable else (lambda: console.print(COMPILING))
    with (
        Progress(*columns, console=console, transient=True, disable=disable) as progress,
        on_compilation(report_compilation),
    ):
        yield ProgressBar(progress, events, tasks)


def _speed_column() -> ProgressColumn:
    from rich.progress import ProgressColumn
    from rich.text import Text

    class EventsPerSecond(ProgressColumn):
        """Events processed per second."""

        def render(self, task: Task) -> Text:
            speed = task.finished_speed or task.speed
            return Text("" if speed is None else f"{speed:,.0f} events/s", style="progress.data.speed")

    return EventsPerSecond()


@contextmanager
def show_progress(
    log: Log | LogStream, progress: Literal[True] | Callable[[int], None]
) -> Iterator[Callable[[int], None]]:
    """Yield the callback that counts processed events: the caller's, or that of a new bar."""
    if callable(progress):
        yield progress
    else:
        from rich import get_console

        with progress_bar(log.n_events, 1, console=get_console()) as bar:
            bar.start_task("events")
            yield bar.advance
