"""Files of our own: written whole or not at all, and read only where they are files and no larger than makes sense."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from backcast.errors import OptionError, SourceError

UNFINISHED = ".part"


# what is written there goes on its way at once, and no other file can take the place of one
STREAMS = ("/dev/", "/proc/")


def check_writable(path: str | os.PathLike[str], what: str) -> None:
    """Refuse a place where a file cannot be written: better known before the work than after it.

    >>> check_writable("no-such-folder/report.html", "report")
    Traceback (most recent call last):
    backcast.errors.OptionError: the report cannot be written to 'no-such-folder/report.html': there is no folder \
'no-such-folder'
    """
    place = os.fspath(path)
    if "\0" in place:
        raise _cannot_write(path, what, "a name cannot hold a NUL")
    folder = os.path.dirname(place) or "."
    if not os.path.isdir(folder):
        raise _cannot_write(path, what, f"there is no folder {folder!r}")
    if _is_stream(place):
        return
    if os.path.isdir(place) or not os.path.basename(place):
        raise _cannot_write(path, what, "it is a folder; give the name of a file")
    if os.path.exists(place) and not _may(place, os.W_OK):
        raise _cannot_write(path, what, "a file of that name is there and must not be changed")
    if not _may(os.path.dirname(os.path.realpath(place)), os.W_OK | os.X_OK):
        raise _cannot_write(path, what, f"the folder {folder!r} must not be written to")


def _may(place: str, mode: int) -> bool:
    return os.access(place, mode, effective_ids=os.access in os.supports_effective_ids)


@contextmanager
def atomic_write(path: str | os.PathLike[str], what: str) -> Iterator[IO[bytes]]:
    """A file to write to that takes its name when all of it is on disk; till then an older one of that name stays.

    Whatever goes wrong, a full disk or Ctrl-C, nothing half-written is left.

    >>> import tempfile
    >>> place = Path(tempfile.mkdtemp(), "report.html")
    >>> with atomic_write(place, "report") as file:
    ...     _ = file.write(b"all of it")
    ...     place.exists()
    False
    >>> place.read_text()
    'all of it'
    """
    check_writable(path, what)
    try:
        if _is_stream(os.fspath(path)):
            with open(path, "wb") as file:
                yield file
            return
        with replace_atomically(Path(os.path.realpath(path))) as file:
            yield file
    except OSError as problem:
        raise _cannot_write(path, what, problem.strerror or str(problem)) from None


@contextmanager
def replace_atomically(target: Path) -> Iterator[IO[bytes]]:
    """The same for a place that is known to serve; what goes wrong is an OSError."""
    unfinished = target.with_name(f".backcast-{os.getpid()}-{secrets.token_hex(4)}{UNFINISHED}")
    try:
        with unfinished.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            unfinished.chmod(stat.S_IMODE(target.stat().st_mode))
        unfinished.replace(target)
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)


def _cannot_write(path: str | os.PathLike[str], what: str, why: str) -> OptionError:
    return OptionError(f"the {what} cannot be written to {os.fspath(path)!r}: {why}")


def _is_stream(place: str) -> bool:
    """Whether it is a pipe or a device, which takes what comes."""
    try:
        mode = os.stat(place).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)) or place.startswith(STREAMS)


def check_readable(path: str | os.PathLike[str]) -> None:
    """Refuse what is there and neither a file nor a folder: a pipe may never end, and is gone when it was read once.

    >>> check_readable("/dev/null")
    Traceback (most recent call last):
    backcast.errors.SourceError: /dev/null: this is a device; only files and folders can be read. Save it to a \
file first
    """
    place = os.fspath(path)
    if "\0" in place:
        raise SourceError(f"{place!r}: the name of a file cannot hold a NUL")
    try:
        mode = os.stat(place).st_mode
    except OSError:
        return
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        kind = "pipe" if stat.S_ISFIFO(mode) else "socket" if stat.S_ISSOCK(mode) else "device"
        raise SourceError(f"{place}: this is a {kind}; only files and folders can be read. Save it to a file first")


def read_text(path: str | os.PathLike[str], most: int) -> str:
    """The text of a small file, of at most so many bytes; ValueError where it is not UTF-8."""
    check_readable(path)
    try:
        with open(path, "rb") as file:
            # by its size where that is known, by what comes where it grows
            content = b"" if (size := os.fstat(file.fileno()).st_size) > most else file.read(most + 1)
    except OSError as problem:
        raise SourceError(f"{os.fspath(path)}: cannot be read ({problem.strerror or problem})") from None
    if max(size, len(content)) > most:
        raise SourceError(f"{os.fspath(path)}: it is larger than {most:,} bytes, which no file of its kind should be")
    return content.decode("utf-8")
