"""The error stream: status lines, the progress bar, and warnings of drift."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

from backcast._logging import logger
from backcast._progress import ProgressBar, progress_bar
from backcast.cli.signals import Signals, active_signals
from backcast.errors import printable

LONG_SECONDS = 20.0  # of work from which its forecast is printed


def print_status(text: str) -> None:
    """Print one line on the error stream, beside the result."""
    print(printable(text), file=sys.stderr)


@dataclass(frozen=True)
class RunProgress:
    """Moves the progress bar of a run, and stops the run after a signal."""

    bar: ProgressBar
    signals: Signals

    def start_task(self, name: str) -> None:
        """Show the name of the next task."""
        self.bar.start_task(name)
        self.signals.raise_if_received()

    def __call__(self, events: int) -> None:
        """Add processed events: a run is the progress callback of ``evaluate`` and ``compare``."""
        self.bar.advance(events)
        self.signals.raise_if_received()

    def show_values(self, values: Sequence[tuple[float, float]]) -> None:
        """Show value and standard error of each policy so far."""
        self.bar.show_values(values)


class _ForecastLines(logging.Handler):
    """Prints forecasts of long work as status lines."""

    def emit(self, record: logging.LogRecord) -> None:
        if getattr(record, "forecast_seconds", 0.0) >= LONG_SECONDS:
            print_status(f"{record.getMessage()}; Ctrl-C ends it with the estimate so far")


@contextmanager
def forecasts_as_lines(*, quiet: bool) -> Iterator[None]:
    """Print forecasts of long work, unless quiet."""
    handler, level = _ForecastLines(), logger.level
    if quiet:
        yield
        return
    logger.addHandler(handler)
    logger.setLevel(min(level or logging.INFO, logging.INFO))
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


@contextmanager
def watch_run(events: int, tasks: int, *, quiet: bool) -> Iterator[RunProgress]:
    """Show progress on a terminal, stop at a signal, and print each warning of drift once, in one line."""
    from rich.console import Console

    console, signals = Console(stderr=True), active_signals()
    with (
        signals.end_run_at_first(quiet=quiet),
        progress_bar(events, tasks, console=console, disable=quiet or not console.is_terminal) as bar,
        drift_warnings_as_lines(),
        forecasts_as_lines(quiet=quiet),
    ):
        yield RunProgress(bar, signals)


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
