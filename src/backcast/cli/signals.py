"""SIGINT (Ctrl-C) and SIGTERM: the first one ends a run with a partial result, the second one ends the process."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from backcast.errors import StopEvaluation

HANDLED = (signal.SIGINT, signal.SIGTERM)
END = 0  # no signal has this number; it ends the watcher
LEAVE_SECONDS = 2.0  # after the second signal, until a process that does not react ends
STOPPING = "\nstopping: the estimate so far follows; press Ctrl-C again to leave at once\n"


class Signals:
    """The signals that a command received, and how it reacts to them."""

    def __init__(self) -> None:
        self.received: list[int] = []
        self._in_run = self._quiet = False
        self._left = threading.Event()

    @property
    def exit_code(self) -> int:
        """Exit code of a command that was interrupted, as shells define it: 130 for SIGINT, 143 for SIGTERM."""
        return 128 + (self.received or [signal.SIGINT])[0]

    @contextmanager
    def end_run_at_first(self, *, quiet: bool) -> Iterator[None]:
        """Inside the block, the first signal ends the run, with a result from the finished work."""
        from backcast._parallel.stop import STOP_FLAG

        self._in_run, self._quiet = True, quiet
        try:
            yield
        finally:
            self._in_run = False
            STOP_FLAG[0] = 0

    def raise_if_received(self) -> None:
        """Raise :class:`StopEvaluation` after a signal."""
        if self.received:
            raise StopEvaluation

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal, in the main thread between two instructions."""
        self.received.append(number)
        if len(self.received) > 1 or not self._in_run:
            raise KeyboardInterrupt
        from backcast._parallel.stop import STOPPABLE

        if not self._quiet:
            _write_error_line(STOPPING)
        STOPPABLE.interrupt()

    def watch(self, wakeups: int) -> None:
        """React to signals while the main thread executes compiled code; their numbers are read from ``wakeups``."""
        n_signals = 0
        while numbers := os.read(wakeups, 64):
            for number in numbers:
                if number == END:
                    return
                n_signals += number in HANDLED
                if n_signals == 1 and self._in_run:
                    from backcast._parallel.stop import STOP_FLAG

                    STOP_FLAG[0] = 1
                if n_signals > 1 and not self._left.wait(LEAVE_SECONDS):
                    import multiprocessing

                    _write_error_line("interrupted\n")
                    for child in multiprocessing.active_children():
                        child.kill()
                    os._exit(self.exit_code)

    def leave(self) -> None:
        """Note that the command has ended."""
        self._left.set()


_active = Signals()


def active_signals() -> Signals:
    """Return the signals of the command that is running."""
    return _active


@contextmanager
def watch_signals() -> Iterator[Signals]:
    """Handle signals inside the block; a signal that the process was started to ignore stays ignored."""
    global _active
    _active = signals = Signals()
    if threading.current_thread() is not threading.main_thread():
        yield signals
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    previous_handlers = {number: signal.getsignal(number) for number in HANDLED}
    previous_fd = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number, handler in previous_handlers.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, signals.handle)
    watcher = threading.Thread(target=signals.watch, args=(reader,), name="backcast signals", daemon=True)
    watcher.start()
    try:
        yield signals
    finally:
        signals.leave()
        for number, handler in previous_handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(previous_fd)
        os.write(writer, bytes([END]))
        watcher.join()
        os.close(writer)
        os.close(reader)


def _write_error_line(text: str) -> None:
    # not print(): the signal may arrive inside a call of it
    os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, text.encode())
