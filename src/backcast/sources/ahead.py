"""Reading ahead: the next items are made in a thread while the present one is worked on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from queue import Queue
from typing import Any, TypeVar

__all__ = ["ahead"]

T = TypeVar("T")

END = object()


def ahead(make: Callable[[], Iterator[T]], waiting: int) -> Iterator[T]:
    """The items of ``make()`` in order, at most ``waiting`` of them made before they are asked for.

    An error of the maker comes out where its item would have been. When the consumer stops early, for whatever reason,
    the thread ends after the item it is at.

    >>> list(ahead(lambda: iter("abc"), waiting=1))
    ['a', 'b', 'c']
    """
    ready: Queue[Any] = Queue()
    # a place is taken before an item is made: items made are those waiting and the one in the making
    places, stopped = threading.Semaphore(waiting), threading.Event()
    work = (make, ready, places, stopped)
    thread = threading.Thread(target=_produce, args=work, name="backcast reads ahead", daemon=True)
    thread.start()
    try:
        while True:
            item, error = ready.get()
            if error is not None:
                raise error
            if item is END:
                return
            places.release()
            yield item
            # not held while the next one is waited for
            del item
    finally:
        stopped.set()
        places.release()
        # a forgotten generator may be closed in any thread, this one's own maker included
        if threading.current_thread() is not thread:
            thread.join()


def _produce(
    make: Callable[[], Iterator[Any]], ready: Queue[Any], places: threading.Semaphore, stopped: threading.Event
) -> None:
    try:
        items = make()
        while True:
            places.acquire()
            if stopped.is_set():
                return
            item = next(items, END)
            ready.put((item, None))
            if item is END:
                return
            del item
    except BaseException as error:  # the consumer's thread must hear of it, whatever it is
        ready.put((None, error))
