"""Stop a run inside a pass, when a signal asks for it.

A signal handler of Python runs only between two instructions of the interpreter. Compiled loops therefore read
``STOP_FLAG`` between rounds, and a handler may interrupt Python code that is marked as stoppable; both end in
:class:`StopEvaluation`, as if the progress function had raised it.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from backcast._arrays import IntArray
from backcast.errors import StopEvaluation

STOP_FLAG: IntArray = np.zeros(1, dtype=np.int64)  # not 0: compiled loops return before they are complete


def raise_if_stopped() -> None:
    """Raise :class:`StopEvaluation` if a stop was requested, because the pass may be incomplete."""
    if STOP_FLAG[0]:
        raise StopEvaluation


class _StopNow(BaseException):
    """Not an Exception, so that a policy that catches exceptions does not catch it."""


class _Stoppable:
    """Marks Python code that may be interrupted anywhere, because its result is then discarded."""

    def __init__(self) -> None:
        self._depth = 0

    def __enter__(self) -> None:
        # signal handlers run in the main thread only
        if threading.current_thread() is threading.main_thread():
            self._depth += 1

    def __exit__(self, kind: type[BaseException] | None, *details: Any) -> None:
        if threading.current_thread() is threading.main_thread():
            self._depth -= 1
        if kind is _StopNow:
            raise StopEvaluation from None

    def interrupt(self) -> None:
        """Interrupt the code that is running, if it is marked; called by a signal handler."""
        if self._depth > 0:
            raise _StopNow


STOPPABLE = _Stoppable()
