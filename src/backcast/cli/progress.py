"""A progress bar on the error stream: events a second, time left, and a word when code is compiled."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, Task

__all__ = ["Bar", "progress_bar"]

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

    from backcast.kernels.jit import telling_of_compilation

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
