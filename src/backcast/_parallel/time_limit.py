"""Interrupt a job that runs too long."""

from __future__ import annotations

import math
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from backcast.errors import WorkError


class TimeLimit(NamedTuple):
    """Seconds that a job may take, and seconds beyond that after which its worker is killed."""

    seconds: float
    kill_after: float


class _TimeLimitReached(BaseException):
    """Not an Exception, so that a policy that catches exceptions does not catch it."""


@contextmanager
def limit_time(limit: TimeLimit, name: str, *, in_worker: bool) -> Iterator[None]:
    """Interrupt Python code after the time limit; compiled code is interrupted when it returns.

    Signals are delivered to the main thread only; in other threads, which some clusters use, a watching thread raises
    the exception.
    """
    by_signal = threading.current_thread() is threading.main_thread() and hasattr(signal, "SIGALRM")
    try:
        with _set_alarm(limit.seconds) if by_signal else _watch_thread(limit, in_worker):
            yield
    except _TimeLimitReached:
        raise time_limit_error(name, limit.seconds) from None


@contextmanager
def limit_calls(seconds: float | None, name: str) -> Iterator[None]:
    """Interrupt calls of a policy in this process after so many seconds; None for no limit."""
    if seconds is None:
        yield
        return
    with limit_time(TimeLimit(seconds, kill_after=math.inf), name, in_worker=False):
        yield


@contextmanager
def _set_alarm(seconds: float) -> Iterator[None]:
    def interrupt(number: int, frame: Any) -> None:
        raise _TimeLimitReached

    previous = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, previous)


@contextmanager
def _watch_thread(limit: TimeLimit, in_worker: bool) -> Iterator[None]:
    """Raise in this thread; kill a worker process that does not react, because it would never be free again.

    The kill comes later than the parent's own timeout, so that the job is not sent to another worker.
    """
    from ctypes import c_ulong, py_object, pythonapi

    thread_id, finished = c_ulong(threading.get_ident()), threading.Event()

    def watch() -> None:
        if not finished.wait(limit.seconds):
            pythonapi.PyThreadState_SetAsyncExc(thread_id, py_object(_TimeLimitReached))
            if in_worker and not finished.wait(1.5 * limit.kill_after):
                os.kill(os.getpid(), signal.SIGKILL)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        finished.set()
        watcher.join()
        # withdraw an exception that was set at the last moment and not yet raised
        pythonapi.PyThreadState_SetAsyncExc(thread_id, None)


def time_limit_error(name: str, seconds: float) -> WorkError:
    """Return the error for a job that took too long.

    >>> time_limit_error("pass 3", 2)
    WorkError('pass 3 took longer than time_limit = 2 seconds; does the policy hang? Fix it, or allow more time')
    """
    return WorkError(
        f"{name} took longer than time_limit = {seconds:g} seconds; does the policy hang? Fix it, or allow more time"
    )
