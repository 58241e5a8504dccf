"""Atomic writes, and checks that a path can be written or read before work begins."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from backcast.errors import OptionError, ResourceError, SourceError

UNFINISHED = ".part"  # suffix of a file that is being written
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
DEVICE_FOLDERS = ("/dev/", "/proc/")  # data written there is passed on at once, so no file can be replaced


def check_writable(path: str | os.PathLike[str], what: str) -> None:
    """Refuse a path that cannot be written to, before the work and not after it.

    >>> check_writable("no-such-folder/report.html", "report")
    Traceback (most recent call last):
    backcast.errors.OptionError: the report cannot be written to 'no-such-folder/report.html': there is no folder \
'no-such-folder'
    """
    target = os.fspath(path)
    if "\0" in target:
        raise _write_error(path, what, "a name cannot hold a NUL")
    folder = os.path.dirname(target) or "."
    if not os.path.isdir(folder):
        raise _write_error(path, what, f"there is no folder {folder!r}")
    if _is_device(target):
        return
    if os.path.isdir(target) or not os.path.basename(target):
        raise _write_error(path, what, "it is a folder; give the name of a file")
    if os.path.exists(target) and not _has_access(target, os.W_OK):
        raise _write_error(path, what, "a file of that name exists and is write-protected")
    if not _has_access(os.path.dirname(os.path.realpath(target)), os.W_OK | os.X_OK):
        raise _write_error(path, what, f"the folder {folder!r} is write-protected")


def _has_access(path: str, mode: int) -> bool:
    return os.access(path, mode, effective_ids=os.access in os.supports_effective_ids)


@contextmanager
def atomic_write(path: str | os.PathLike[str], what: str) -> Iterator[IO[bytes]]:
    """Open a file for writing that replaces an older one of that name only when all of it is on disk.

    After an error, a full disk or Ctrl-C, the older file is unchanged and no partial file is left.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "report.html")
    >>> with atomic_write(path, "report") as file:
    ...     _ = file.write(b"all of it")
    ...     path.exists()
    False
    >>> path.read_text()
    'all of it'
    """
    check_writable(path, what)
    try:
        if _is_device(os.fspath(path)):
            with open(path, "wb") as file:
                yield file
            return
        with replace_atomically(Path(os.path.realpath(path))) as file:
            yield file
    except OSError as problem:
        error = _write_error(path, what, problem.strerror or str(problem))
        raise (ResourceError(str(error)) if problem.errno in DISK_FULL else error) from None


@contextmanager
def replace_atomically(target: Path) -> Iterator[IO[bytes]]:
    """Do the same for a path that is known to be writable; failures are an OSError."""
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


def _write_error(path: str | os.PathLike[str], what: str, reason: str) -> OptionError:
    return OptionError(f"the {what} cannot be written to {os.fspath(path)!r}: {reason}")


def _is_device(path: str) -> bool:
    """Return whether a path is a pipe or a device, which cannot be replaced by a file."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)) or path.startswith(DEVICE_FOLDERS)


def check_readable(path: str | os.PathLike[str]) -> None:
    """Refuse a path that exists and is neither a file nor a folder: a pipe may never end, and is read only once.

    >>> check_readable("/dev/null")
    Traceback (most recent call last):
    backcast.errors.SourceError: /dev/null: this is a device; only files and folders can be read. Save it to a \
file first
    """
    text = os.fspath(path)
    if "\0" in text:
        raise SourceError(f"{text!r}: the name of a file cannot hold a NUL")
    try:
        mode = os.stat(text).st_mode
    except OSError:
        return
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        kind = "pipe" if stat.S_ISFIFO(mode) else "socket" if stat.S_ISSOCK(mode) else "device"
        raise SourceError(f"{text}: this is a {kind}; only files and folders can be read. Save it to a file first")


def read_text(path: str | os.PathLike[str], most_bytes: int) -> str:
    """Return the text of a small file; raises ValueError if it is not UTF-8."""
    check_readable(path)
    try:
        with open(path, "rb") as file:
            # The size may be unknown or grow, so the content is limited as well.
            size = os.fstat(file.fileno()).st_size
            content = b"" if size > most_bytes else file.read(most_bytes + 1)
    except OSError as problem:
        raise SourceError(f"{os.fspath(path)}: cannot be read ({problem.strerror or problem})") from None
    if max(size, len(content)) > most_bytes:
        raise SourceError(f"{os.fspath(path)}: it is larger than {most_bytes:,} bytes, the most for a file of its kind")
    return content.decode("utf-8")
