"""The progress bar shared by the library and the command line."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from backcast._parallel.jobs import ignore_progress, ignore_values

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, ProgressColumn, Task

    from backcast.io.stream import LogStream
    from backcast.log import Log

COMPILING = "compiling, once: later runs start at once"
MOST_VALUES = 3  # of the policies of a comparison that fit into a line


def format_values(values: Sequence[tuple[float, float]]) -> str:
    """Return values with their standard errors, as far as these are known.

    >>> format_values([(0.46971, 0.00312), (0.5, math.nan)])
    '0.4697 ± 0.0031, 0.5'
    """
    shown = [f"{value:.4g}" + ("" if math.isnan(error) else f" ± {error:.2g}") for value, error in values[:MOST_VALUES]]
    return ", ".join(shown) + (", ..." if len(values) > MOST_VALUES else "")


class ProgressCallbacks(NamedTuple):
    """What an evaluation reports to: events processed, and values so far."""

    on_progress: Callable[[int], None] = ignore_progress
    on_values: Callable[[Sequence[tuple[float, float]]], None] = ignore_values


class ProgressBar:
    """Events processed in several tasks of the same length; each task begins with :meth:`start_task`.

    ``events`` is the length of one task, or None if it is unknown.
    """

    def __init__(self, progress: Progress, events: int | None, tasks: int) -> None:
        self._progress = progress
        self._events = events
        self._started = 0
        self._task = progress.add_task("", total=None if events is None else events * tasks, values="")

    @property
    def completed(self) -> int:
        """Events processed in all tasks."""
        return int(self._progress.tasks[0].completed)

    def start_task(self, name: str) -> None:
        """Show the name of the next task; earlier tasks count as complete."""
        done = self.completed if self._events is None else self._started * self._events
        self._progress.update(self._task, description=name, completed=done, values="")
        self._started += 1

    def advance(self, events: int) -> None:
        """Add processed events, up to the length of the task."""
        done = self.completed + events
        if self._events is not None:
            done = min(done, self._started * self._events)
        self._progress.update(self._task, completed=done)

    def show_values(self, values: Sequence[tuple[float, float]]) -> None:
        """Show value and standard error of each policy so far."""
        self._progress.update(self._task, values=format_values(values))


@contextmanager
def progress_bar(events: int | None, tasks: int, *, console: Console, disable: bool = False) -> Iterator[ProgressBar]:
    """Show a bar that disappears at the end, and one line if kernels have to be compiled."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from backcast._kernels.jit import on_compilation

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TextColumn("{task.fields[values]}", markup=False),
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
def show_progress(log: Log | LogStream, progress: bool | Callable[[int], None] | None) -> Iterator[ProgressCallbacks]:
    """Yield what an evaluation reports to: the caller's function, a new bar, or nothing.

    A function that has ``show_values``, as that of the command line has, also gets values so far.
    """
    if callable(progress):
        yield ProgressCallbacks(progress, getattr(progress, "show_values", ignore_values))
    elif not progress:
        yield ProgressCallbacks()
    else:
        from rich import get_console

        with progress_bar(log.n_events, 1, console=get_console()) as bar:
            bar.start_task("events")
            yield ProgressCallbacks(bar.advance, bar.show_values)
