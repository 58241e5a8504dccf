"""Ctrl-C: once for the estimate so far, twice to leave at once."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from backcast.errors import Enough

__all__ = ["Stop", "stopping"]

TOLD = "\nstopping: the estimate so far follows; press Ctrl-C again to leave at once\n"


class Stop:
    """Whether somebody has had enough."""

    def __init__(self) -> None:
        self.wanted = False

    def check(self) -> None:
        """End the run at this point, if somebody has had enough."""
        if self.wanted:
            raise Enough


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
