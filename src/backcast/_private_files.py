"""Folders and files that only this user can write.

Compiled code and the arguments of worker processes are unpickled, which can run any code, and a checkpoint is part of
the answer. They are therefore read only from files that no other user could have written. Where the operating system
has no user ids (Windows), nothing is checked: its folders of temporary files and caches are private to the user.

Not covered are access control lists, and what the administrator does.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

HAS_USERS = hasattr(os, "getuid")


class NotPrivateError(OSError):
    """A file or folder that another user could have written."""

    def __init__(self, path: str | os.PathLike[str], reason: str) -> None:
        super().__init__(errno.EPERM, reason, os.fspath(path))


def make_private_folder(folder: Path) -> None:
    """Create a folder and its missing parents, accessible to this user only; raise if others could replace its files.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp(), "cache", "code")
    >>> make_private_folder(folder)
    >>> oct(folder.stat().st_mode & 0o777)
    '0o700'
    """
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=0o700, exist_ok=True)
    reason = find_other_writer(folder)
    if reason is not None:
        raise NotPrivateError(folder, reason)


def find_other_writer(folder: Path) -> str | None:
    """Return why another user could replace files of a folder, or None if that is impossible.

    The folder must belong to this user and be writable by no one else, and the same holds for every folder on its path,
    which may also belong to the administrator. A parent that everybody can write must be sticky, as /tmp is: in it,
    only the owner of an entry can replace it. Links are followed and checked like folders.
    """
    if not HAS_USERS:
        return None
    if os.lstat(folder).st_uid != os.getuid():
        return f"{folder} belongs to another user"
    pending, seen = [Path(os.path.abspath(folder))], set()
    while pending:
        path = pending.pop()
        if path in seen:
            continue
        seen.add(path)
        status = os.lstat(path)
        if status.st_uid not in (os.getuid(), 0):
            return f"{path} belongs to another user"
        if stat.S_ISLNK(status.st_mode):
            pending.append(Path(os.path.abspath(path.parent / os.readlink(path))))
        elif others_can_write(status) and (path == folder or not status.st_mode & stat.S_ISVTX):
            return f"other users can write to {path}"
        pending.append(path.parent)
    return None


def others_can_write(status: os.stat_result) -> bool:
    """Return whether permission bits let another user write; a group that has only this user does not count."""
    if status.st_mode & stat.S_IWOTH:
        return True
    return bool(status.st_mode & stat.S_IWGRP) and not _is_private_group(status.st_gid)


def _is_private_group(group: int) -> bool:
    """Return whether a group is the private group of this user, as most Linux systems create one for each user."""
    import grp
    import pwd

    try:
        name, entry = pwd.getpwuid(os.getuid()).pw_name, grp.getgrgid(group)
    except KeyError:
        return False
    return entry.gr_name == name and set(entry.gr_mem) <= {name}


def check_private_file(path: str | os.PathLike[str], status: os.stat_result) -> None:
    """Raise unless this is the status of a regular file that only this user can write."""
    if not stat.S_ISREG(status.st_mode):
        raise NotPrivateError(path, "it is not a regular file")
    if HAS_USERS and status.st_uid != os.getuid():
        raise NotPrivateError(path, "it belongs to another user")
    if HAS_USERS and others_can_write(status):
        raise NotPrivateError(path, "other users can write to it")


@contextmanager
def open_private(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file for reading if it is a regular file that only this user can write; else raise OSError.

    The open file is checked, not its name, so it cannot be exchanged after the check. A pipe in its place does not
    block, and a link is refused.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "pipe")
    >>> os.mkfifo(path)
    >>> with open_private(path) as file:
    ...     pass
    Traceback (most recent call last):
    ...
    backcast._private_files.NotPrivateError: [Errno 1] it is not a regular file: '...pipe'
    """
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags)
    try:
        check_private_file(path, os.fstat(descriptor))
    except NotPrivateError:
        os.close(descriptor)
        raise
    with open(descriptor, "rb") as file:
        yield file
