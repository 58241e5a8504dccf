"""Checkpoint: a folder of finished jobs of one request.

The folder's first file lists the facts of the request (log, policy, options, seed, versions); a request with other
facts is refused. Every other file is a finished job, sealed by a digest of its content, its name and the request: a
damaged or changed file is ignored, and so is one that another user could have written. Nothing is ever unpickled.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from backcast._files import UNFINISHED, replace_atomically
from backcast._private_files import HAS_USERS, open_private, others_can_write
from backcast._serialization import from_bytes, to_bytes
from backcast.errors import BackcastError, OptionError, WorkError

FORMAT, VERSION = "backcast checkpoint", 2
HEADER_FILE = "checkpoint.json"
SEAL_BYTES = 32
# what unusable values of a stored job may raise where they are used
DAMAGE = (ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


class Stored(NamedTuple):
    """A stored result (which may itself be None)."""

    value: Any


@dataclass(frozen=True)
class Checkpoint:
    """A folder of finished jobs; ``scope`` separates jobs of one name in different parts of the request.

    Examples
    --------
    >>> import tempfile
    >>> checkpoint = open_checkpoint(tempfile.mkdtemp(), {"seed": "0"})
    >>> checkpoint.put("pass-0", [0.5])
    >>> checkpoint.get("pass-0")
    Stored(value=[0.5])
    >>> checkpoint.get("pass-1") is None, checkpoint.scoped("other").get("pass-0") is None
    (True, True)
    """

    folder: Path
    request_digest: str
    scope: str = ""
    used: list[str] = field(default_factory=list)  # names of the stored results that were returned

    def scoped(self, name: str) -> Checkpoint:
        """Return the same folder for one part of the request."""
        return replace(self, scope=f"{self.scope}{name}.")

    def get(self, name: str, types: Sequence[type] = ()) -> Stored | None:
        """Return the stored result of a job; None if there is none, or its file is damaged or foreign."""
        try:
            with open_private(self._path(name)) as file:
                sealed = file.read()
        except OSError:
            return None
        seal, content = sealed[:SEAL_BYTES], sealed[SEAL_BYTES:]
        if seal != self._seal(name, content):
            return None
        self.used.append(f"{self.scope}{name}")
        return Stored(from_bytes(content, types))

    @contextmanager
    def report_damage(self) -> Iterator[None]:
        """Raise one error of ours if stored results have values that no job returns, though their seals are right."""
        try:
            yield
        except BackcastError:
            raise
        except DAMAGE as problem:
            if not self.used:
                raise
            raise WorkError(
                f"{type(problem).__name__} ({problem}) after {len(self.used)} stored results were read from the "
                f"checkpoint {self.folder.name!r}, so one of them may be damaged; remove the folder and start again. "
                "The error is not due to the checkpoint if it then occurs again"
            ) from problem

    def put(self, name: str, value: Any, types: Sequence[type] = ()) -> None:
        """Store the result of a job."""
        content = to_bytes(value, types)
        try:
            with replace_atomically(self._path(name)) as file:
                file.write(self._seal(name, content) + content)
        except OSError as error:
            raise WorkError(
                f"the checkpoint folder {self.folder.name!r} cannot be written: {error.strerror}; finished jobs are "
                "stored, and the same run continues from there once this is fixed"
            ) from None

    def _path(self, name: str) -> Path:
        return self.folder / f"{self.scope}{name}.piece"

    def _seal(self, name: str, content: bytes) -> bytes:
        return hashlib.sha256(f"{self.request_digest} {self.scope}{name} ".encode() + content).digest()


def open_checkpoint(folder: str | os.PathLike[str], facts: Mapping[str, str]) -> Checkpoint:
    """Open or create the checkpoint of a request with these facts; a folder with other facts is refused.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> _ = open_checkpoint(folder, {"seed": "0"})
    >>> open_checkpoint(folder, {"seed": "1"})
    Traceback (most recent call last):
    backcast.errors.OptionError: the checkpoint was made with a different seed (0, now 1); choose another folder or \
remove it
    """
    path = Path(folder)
    header = {"format": FORMAT, "version": str(VERSION), **facts}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)
        _check_folder(path)
        stored_header = _read_header(path)
        if stored_header is None:
            with replace_atomically(path / HEADER_FILE) as file:
                file.write(json.dumps(header, indent=1).encode())
    except OSError as error:
        raise OptionError(
            f"the checkpoint folder {path.name!r} cannot be used: {error.strerror}; choose a folder that can be written"
        ) from None
    stored_header = header if stored_header is None else stored_header
    for name in (*header, *stored_header):
        before, now = stored_header.get(name), header.get(name)
        if before != now:
            raise OptionError(
                f"the checkpoint was made with a different {name} ({before}, now {now}); choose another folder or "
                "remove it"
            )
    return Checkpoint(path, hashlib.sha256(json.dumps(header).encode()).hexdigest())


def _check_folder(folder: Path) -> None:
    """Raise if another user could put results into the folder.

    The folders above it are not checked: with their permissions the folder can be moved, but no file in it can be made
    that belongs to this user.
    """
    status = os.stat(folder)
    if HAS_USERS and status.st_uid != os.getuid():
        raise OptionError(
            f"the checkpoint folder {folder.name!r} belongs to another user, whose results could be taken for yours; "
            "give the name of a new folder, which is then created"
        )
    if HAS_USERS and others_can_write(status):
        raise OptionError(
            f"other users can write to the checkpoint folder {folder.name!r}, and their results could be taken for "
            f"yours; run 'chmod go-w' on it, or give the name of a new folder"
        )


def _read_header(folder: Path) -> dict[str, Any] | None:
    path = folder / HEADER_FILE
    if not os.path.lexists(path):
        others = [entry.name for entry in folder.iterdir() if not entry.name.endswith(UNFINISHED)]
        if others:
            raise OptionError(
                f"the checkpoint folder {folder.name!r} contains {others[0]!r} and no {HEADER_FILE}; choose an "
                "empty one"
            )
        return None
    try:
        with open_private(path) as file:
            header = json.loads(file.read().decode())
    except (OSError, ValueError, RecursionError):
        header = None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise OptionError(
            f"{HEADER_FILE} in {folder.name!r} is not a checkpoint of backcast; choose another folder or remove it"
        )
    return header
