"""Arguments in one memory-mapped file, for all worker processes of this machine; a job then carries a reference only.

Pickle protocol 5 leaves arrays out of its message; they are written before it as they are in memory. A worker maps the
file on first use and drops the mapping when the file is deleted.
"""

from __future__ import annotations

import os
import pickle
import shutil
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from backcast._private_files import NotPrivateError, open_private
from backcast.errors import WorkError

ALIGNMENT = 64  # bytes: every array starts at a multiple, as compiled code prefers
POLL_SECONDS = 1.0  # between two checks whether a mapped file still exists
MEMORY_FOLDER = "/dev/shm"


class SharedFileRef(NamedTuple):
    """Path of a shared file, and where in it arrays and the pickle message start and stop."""

    path: str
    spans: tuple[tuple[int, int], ...]


class SharedFile:
    """Values in a temporary file that is deleted with this object.

    >>> file = SharedFile((np.arange(3), "a"))
    >>> load_shared(file.reference)
    (array([0, 1, 2]), 'a')
    >>> file.close()
    >>> os.path.exists(file.reference.path)
    False
    """

    def __init__(self, values: tuple[Any, ...]) -> None:
        from joblib.externals.loky.backend import resource_tracker

        buffers: list[pickle.PickleBuffer] = []
        message = _dump(values, buffers)
        contents = [*(buffer.raw() for buffer in buffers), memoryview(message)]
        spans = tuple(_lay_out([part.nbytes for part in contents]))
        size = spans[-1][1]
        handle, path = tempfile.mkstemp(prefix=f"backcast-{os.getpid()}-", dir=_choose_folder(size))
        self.reference = SharedFileRef(path, spans)
        # if this process is killed, the tracker of its workers deletes the file
        resource_tracker.register(path, "file")
        self.close = weakref.finalize(self, _delete, path, os.getpid(), resource_tracker)
        try:
            with open(handle, "wb") as file:
                for part, (start, _) in zip(contents, spans, strict=True):
                    file.seek(start)
                    file.write(part)
        except OSError as error:
            self.close()
            raise _no_room_error(os.path.dirname(path), size, error.strerror) from error


def _dump(values: tuple[Any, ...], buffers: list[pickle.PickleBuffer]) -> bytes:
    try:
        import cloudpickle
    except ImportError:  # older versions of joblib have their own copy
        from joblib.externals import cloudpickle
    try:
        message: bytes = cloudpickle.dumps(values, protocol=5, buffer_callback=buffers.append)
    except (TypeError, AttributeError, RecursionError) as error:
        raise pickle.PicklingError(str(error)) from error
    return message


def _lay_out(sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield aligned start and stop of contents of these sizes.

    >>> list(_lay_out([10, 64, 1]))
    [(0, 10), (64, 128), (128, 129)]
    """
    start = 0
    for size in sizes:
        yield start, start + size
        start += -(-size // ALIGNMENT) * ALIGNMENT


def _choose_folder(size: int) -> str:
    """Return ``JOBLIB_TEMP_FOLDER``, else memory, else the folder for temporary files: the first with enough room."""
    named = os.environ.get("JOBLIB_TEMP_FOLDER")
    folders = [named] if named else [MEMORY_FOLDER, tempfile.gettempdir()]
    for folder in folders:
        if os.access(folder, os.W_OK) and shutil.disk_usage(folder).free > 2 * size:
            return folder
    raise _no_room_error(folders[-1], size, "there is not enough room")


def _no_room_error(folder: str, size: int, reason: str | None) -> WorkError:
    return WorkError(
        f"{size / 1e6:,.0f} MB of arguments for the workers could not be written to {folder} ({reason}); set "
        "JOBLIB_TEMP_FOLDER to a folder with enough room, or use n_jobs=1"
    )


def _delete(path: str, owner: int, tracker: Any) -> None:
    if os.getpid() != owner:  # this is a forked copy of the owner
        return
    with suppress(OSError):
        os.unlink(path)
        tracker.unregister(path, "file")


_mapped: dict[str, tuple[Any, ...]] = {}


def load_shared(reference: SharedFileRef) -> tuple[Any, ...]:
    """Return the values of a shared file, mapped on first use; one file at a time is kept mapped.

    Arrays are writable (copy-on-write), because every pass would copy read-only ones.
    """
    values = _mapped.get(reference.path)
    if values is None:
        values = _map_file(reference)
        _mapped.clear()
        _mapped[reference.path] = values
        threading.Thread(target=_drop_when_deleted, args=(reference.path,), daemon=True).start()
    return values


def _map_file(reference: SharedFileRef) -> tuple[Any, ...]:
    path = reference.path
    try:
        # unpickling may run code, so the file must have been written by this user, and by no one else
        with open_private(path) as file:
            content = np.memmap(file, np.uint8, "c")
    except NotPrivateError as error:
        reason = error.strerror
        raise WorkError(f"the shared file {path} is not private to this user ({reason}); it is not read") from None
    except OSError as error:
        raise WorkError(f"the shared file {path} cannot be read: {error.strerror}") from error
    *buffers, message = (content[start:stop] for start, stop in reference.spans)
    values: tuple[Any, ...] = pickle.loads(message.data, buffers=buffers)
    return values


def _drop_when_deleted(path: str) -> None:
    """Drop the mapping once the owner has deleted the file, so that an idle worker holds no memory."""
    while path in _mapped and os.path.exists(path):
        time.sleep(POLL_SECONDS)
    if not sys.is_finalizing():
        _mapped.pop(path, None)
