"""Values laid in a file once, for all processes of this machine to map; a piece of work then carries the place alone.

Pickle leaves arrays out of its message (protocol 5); they stand before it in the file as they lie in memory. A worker
maps the file when it is first sent there, and forgets it when the file is gone.
"""

from __future__ import annotations

import os
import pickle
import shutil
import stat
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from backcast.errors import WorkError

BEGINNING = 64  # bytes: every array begins at a multiple, as compiled code likes it


LOOK = 1.0  # seconds between two looks whether a mapped file is still wanted


IN_MEMORY = "/dev/shm"


class SharedFileRef(NamedTuple):
    """A file of values, and where in it arrays and the message that names them begin and end."""

    path: str
    spans: tuple[tuple[int, int], ...]


class SharedFile:
    """Values in a file of their own, which goes with them.

    >>> laid = SharedFile((np.arange(3), "a"))
    >>> load_shared(laid.place)
    (array([0, 1, 2]), 'a')
    >>> laid.close()
    >>> os.path.exists(laid.place.path)
    False
    """

    def __init__(self, values: tuple[Any, ...]) -> None:
        arrays: list[pickle.PickleBuffer] = []
        parts = [*_contents(arrays, _message(values, arrays))]
        spans = tuple(_spans([part.nbytes for part in parts]))
        handle, path = tempfile.mkstemp(prefix=f"backcast-{os.getpid()}-", dir=_folder(spans[-1][1]))
        self.place = SharedFileRef(path, spans)
        tracker = _tracker()
        # should this process be killed, whoever is left of its workers and their tracker removes the file
        tracker.register(path, "file")
        self.close = weakref.finalize(self, _remove, path, os.getpid(), tracker)
        try:
            with open(handle, "wb") as file:
                for part, (begin, _) in zip(parts, spans, strict=True):
                    file.seek(begin)
                    file.write(part)
        except OSError as problem:
            self.close()
            raise _no_room(os.path.dirname(path), spans[-1][1], problem.strerror) from problem


def _message(values: tuple[Any, ...], arrays: list[pickle.PickleBuffer]) -> bytes:
    try:
        import cloudpickle
    except ImportError:  # older joblib brings its own
        from joblib.externals import cloudpickle
    try:
        message: bytes = cloudpickle.dumps(values, protocol=5, buffer_callback=arrays.append)
    except (TypeError, AttributeError, RecursionError) as problem:
        raise pickle.PicklingError(str(problem)) from problem
    return message


def _contents(arrays: Sequence[pickle.PickleBuffer], message: bytes) -> Iterator[memoryview]:
    for array in arrays:
        yield array.raw()
    yield memoryview(message)


def _spans(sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Where things of these sizes begin and end.

    >>> list(_spans([10, 64, 1]))
    [(0, 10), (64, 128), (128, 129)]
    """
    begin = 0
    for size in sizes:
        yield begin, begin + size
        begin += -(-size // BEGINNING) * BEGINNING


def _folder(size: int) -> str:
    """Where the user says, else in memory, else among temporary files: the first with room to spare."""
    named = os.environ.get("JOBLIB_TEMP_FOLDER")
    folders = [named] if named else [IN_MEMORY, tempfile.gettempdir()]
    for folder in folders:
        if os.access(folder, os.W_OK) and shutil.disk_usage(folder).free > 2 * size:
            return folder
    raise _no_room(folders[-1], size, "there is too little room")


def _no_room(folder: str, size: int, reason: str | None) -> WorkError:
    return WorkError(
        f"{size / 1e6:,.0f} MB that workers share could not be laid in {folder} ({reason}); name a folder with room in "
        "JOBLIB_TEMP_FOLDER, or use n_jobs=1"
    )


def _tracker() -> Any:
    from joblib.externals.loky.backend import resource_tracker

    return resource_tracker


def _remove(path: str, owner: int, tracker: Any) -> None:
    if os.getpid() != owner:  # a copy of this process that has ended
        return
    with suppress(OSError):
        os.unlink(path)
        tracker.unregister(path, "file")


_held: dict[str, tuple[Any, ...]] = {}


def load_shared(place: SharedFileRef) -> tuple[Any, ...]:
    """The values, mapped when they are first asked for; those of one file at a time.

    Arrays count as writable, else every pass would make a copy; what is written stays with this process.
    """
    found = _held.get(place.path)
    if found is None:
        found = _mapped(place)
        _held.clear()
        _held[place.path] = found
        threading.Thread(target=_forget, args=(place.path,), daemon=True).start()
    return found


def _mapped(place: SharedFileRef) -> tuple[Any, ...]:
    try:
        _check_own(place.path)
        whole = np.memmap(place.path, np.uint8, "c")
    except OSError as problem:
        raise WorkError(f"{place.path}, which workers share, cannot be read: {problem.strerror}") from problem
    *arrays, message = (whole[begin:end] for begin, end in place.spans)
    values: tuple[Any, ...] = pickle.loads(message.data, buffers=arrays)
    return values


def _check_own(path: str) -> None:
    """What is unpickled may run code, so it must be what a process of this user laid there, and nobody else could."""
    found = os.lstat(path)
    mine = not hasattr(os, "getuid") or (found.st_uid == os.getuid() and not found.st_mode & 0o077)
    if not (stat.S_ISREG(found.st_mode) and mine):
        raise WorkError(f"{path}, which workers share, is not this user's alone; it is not read")


def _forget(path: str) -> None:
    """Let go of the values when whoever laid them has no more work on them; a worker would keep their memory."""
    while path in _held and os.path.exists(path):
        time.sleep(LOOK)
    if not sys.is_finalizing():
        _held.pop(path, None)
