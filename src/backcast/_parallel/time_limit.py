"""How long a piece of work may take, and how one that takes longer is interrupted."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from backcast.errors import WorkError


class TimeLimit(NamedTuple):
    """Seconds for a piece, and for whoever asked to lose patience beyond that."""

    seconds: float
    grace: float


class _OutOfTime(BaseException):
    """Not an Exception, so that a policy that catches those does not catch this."""


@contextmanager
def time_limit_of(limit: TimeLimit | None, name: str, *, elsewhere: bool) -> Iterator[None]:
    """Interrupt Python code after so many seconds; compiled code is interrupted when it returns.

    Signals reach the main thread of a process alone. Some clusters work in other threads: there another thread watches.
    """
    if limit is None:
        yield
        return
    by_signal = threading.current_thread() is threading.main_thread() and hasattr(signal, "SIGALRM")
    try:
        with _alarm(limit.seconds) if by_signal else _watch(limit, elsewhere):
            yield
    except _OutOfTime:
        raise out_of_time(name, limit.seconds) from None


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    def ring(number: int, frame: Any) -> None:
        raise _OutOfTime

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def _watch(limit: TimeLimit, elsewhere: bool) -> Iterator[None]:
    """Interrupt this thread; end a worker's process where that does not help, for it would never work again.

    That comes later than whoever asked loses patience, so that the piece is not given to the next worker.
    """
    from ctypes import c_ulong, py_object, pythonapi

    watched, over = c_ulong(threading.get_ident()), threading.Event()

    def watch() -> None:
        if not over.wait(limit.seconds):
            pythonapi.PyThreadState_SetAsyncExc(watched, py_object(_OutOfTime))
            if not over.wait(1.5 * limit.grace) and elsewhere:
                os.kill(os.getpid(), signal.SIGKILL)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
        # it may have rung at the last moment, and not been heard yet
        pythonapi.PyThreadState_SetAsyncExc(watched, None)


def out_of_time(name: str, seconds: float) -> WorkError:
    """The error for a piece that took too long.

    >>> out_of_time("pass 3", 2)
    WorkError('pass 3 took longer than time_limit = 2 seconds; does the policy hang? Mend it, or allow more time')
    """
    return WorkError(
        f"{name} took longer than time_limit = {seconds:g} seconds; does the policy hang? Mend it, or allow more time"
    )
