"""The error stream and Ctrl-C: status lines, the progress bar, and warnings of drift."""

from __future__ import annotations

import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NamedTuple, cast

from backcast._progress import ProgressBar, progress_bar
from backcast.errors import StopEvaluation, printable

STOPPING = "\nstopping: the estimate so far follows; press Ctrl-C again to leave at once\n"


def print_status(text: str) -> None:
    """Print one line on the error stream, beside the result."""
    print(printable(text), file=sys.stderr)


class Interrupt:
    """Whether Ctrl-C was pressed."""

    def __init__(self) -> None:
        self.requested = False

    def raise_if_requested(self) -> None:
        """Raise :class:`StopEvaluation` after Ctrl-C."""
        if self.requested:
            raise StopEvaluation


class RunProgress(NamedTuple):
    """Moves the progress bar of a run, and stops the run after Ctrl-C."""

    bar: ProgressBar
    interrupt: Interrupt

    def start_task(self, name: str) -> None:
        """Show the name of the next task."""
        self.bar.start_task(name)
        self.interrupt.raise_if_requested()

    def advance(self, events: int) -> None:
        """Add processed events; the progress callback of ``evaluate`` and ``compare``."""
        self.bar.advance(events)
        self.interrupt.raise_if_requested()


@contextmanager
def watch_run(events: int, tasks: int, *, quiet: bool) -> Iterator[RunProgress]:
    """Show progress on a terminal, catch Ctrl-C, and print each warning of drift once, in one line."""
    from rich.console import Console

    console = Console(stderr=True)
    with (
        catch_interrupt(quiet=quiet) as interrupt,
        progress_bar(events, tasks, console=console, disable=quiet or not console.is_terminal) as bar,
        drift_warnings_as_lines(),
    ):
        yield RunProgress(bar, interrupt)


@contextmanager
def catch_interrupt(*, quiet: bool) -> Iterator[Interrupt]:
    """Record the first Ctrl-C, so that the run stops at the next call for progress; the second one interrupts."""
    interrupt = Interrupt()

    def handle_signal(number: int, frame: FrameType | None) -> None:
        if interrupt.requested:
            raise KeyboardInterrupt
        interrupt.requested = True
        if not quiet:
            # not print(): the signal may arrive inside a call of it
            os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, STOPPING.encode())

    if threading.current_thread() is not threading.main_thread():
        yield interrupt
        return
    previous_handler = signal.signal(signal.SIGINT, handle_signal)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, previous_handler)


@contextmanager
def drift_warnings_as_lines() -> Iterator[None]:
    """Print each warning of drift once, in one line that names the flag; leave other warnings unchanged."""
    from backcast.errors import DriftWarning

    shown: set[str] = set()
    default_show: Any = warnings.showwarning

    def show_warning(message: Warning | str, category: type[Warning], *location: Any) -> None:
        if not issubclass(category, DriftWarning):
            default_show(message, category, *location)
        elif str(message) not in shown:
            shown.add(str(message))
            print_status(f"warning: {str(message).replace('exchangeable=True', '--exchangeable')}")

    with warnings.catch_warnings():
        warnings.simplefilter("always", DriftWarning)
        # restored by catch_warnings, together with the filters
        warnings.showwarning = cast(Any, show_warning)
        yield
