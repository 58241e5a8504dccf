"""Checkpoint: a folder of finished jobs of one request, and the fingerprints that identify the request.

The folder's first file lists the facts of the request (log, policy, options, seed, versions); a request with other
facts is refused. Every other file is a finished job, sealed by a digest of its content, its name and the request: a
damaged, changed or foreign file is ignored. Nothing is ever unpickled.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NamedTuple

from backcast._files import UNFINISHED, replace_atomically
from backcast._serialization import from_bytes, to_bytes
from backcast.errors import OptionError, WorkError

FORMAT, VERSION = "backcast checkpoint", 1
HEADER_FILE = "checkpoint.json"
SEAL_BYTES = 32
LONGEST_REPR = 60  # characters of an object's repr in the facts of a request


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

    def scoped(self, name: str) -> Checkpoint:
        """Return the same folder for one part of the request."""
        return replace(self, scope=f"{self.scope}{name}.")

    def get(self, name: str, types: Sequence[type] = ()) -> Stored | None:
        """Return the stored result of a job; None if there is none, or its file is damaged or foreign."""
        try:
            sealed = self._path(name).read_bytes()
        except OSError:
            return None
        seal, content = sealed[:SEAL_BYTES], sealed[SEAL_BYTES:]
        return Stored(from_bytes(content, types)) if seal == self._seal(name, content) else None

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
        path.mkdir(parents=True, exist_ok=True)
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


def _read_header(folder: Path) -> dict[str, Any] | None:
    path = folder / HEADER_FILE
    if not path.exists():
        others = [entry.name for entry in folder.iterdir() if not entry.name.endswith(UNFINISHED)]
        if others:
            raise OptionError(
                f"the checkpoint folder {folder.name!r} contains {others[0]!r} and no {HEADER_FILE}; choose an "
                "empty one"
            )
        return None
    try:
        header = json.loads(path.read_text())
    except ValueError:
        header = None
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise OptionError(
            f"{HEADER_FILE} in {folder.name!r} is not a checkpoint of backcast; choose another folder or remove it"
        )
    return header


def object_fingerprint(value: Any) -> str:
    """Return a short description and a digest of an object's state and of the code of its classes.

    The state is pickled to compute the digest, and the bytes are discarded.

    >>> import numpy as np
    >>> object_fingerprint(0.5), object_fingerprint(None)
    ('0.5', 'None')
    >>> object_fingerprint(np.zeros((2, 1))) == object_fingerprint(np.ones((2, 1)))
    False
    """
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    content = io.BytesIO()
    try:
        _CodePickler(content, protocol=5).dump(value)
    except (pickle.PicklingError, TypeError, AttributeError, RecursionError) as error:
        raise OptionError(
            f"the state of {type(value).__name__} cannot be fingerprinted ({error}), so a checkpoint could be used for "
            "another object by mistake; exclude what cannot be pickled (__getstate__), or do not use a checkpoint"
        ) from None
    return f"{_describe(value)} {hashlib.sha256(content.getvalue()).hexdigest()[:12]}"


def _describe(value: Any) -> str:
    shape = getattr(value, "shape", None)
    text = f"array of {' by '.join(map(str, shape))}" if isinstance(shape, tuple) else repr(value)
    if re.search(r" at 0x[0-9a-fA-F]+", text):
        # a memory address changes from run to run
        text = type(value).__name__
    return text if len(text) <= LONGEST_REPR else f"{text[: LONGEST_REPR - 3]}..."


class _CodePickler(pickle.Pickler):
    """Pickle functions and classes by their code instead of their name: an edited policy is another policy."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, FunctionType):
            closure = tuple(cell.cell_contents for cell in value.__closure__ or ())
            return tuple, ([_code_digest(value.__code__), value.__qualname__, value.__defaults__, closure],)
        if isinstance(value, type) and value.__module__ != "builtins":
            lines = [f"{value.__module__}.{value.__qualname__}"]
            for kind in value.__mro__:
                methods = [member for member in vars(kind).values() if isinstance(member, FunctionType)]
                lines += [f"{method.__qualname__} {_code_digest(method.__code__)}" for method in methods]
            return str, ("\n".join(lines),)
        return NotImplemented


def _code_digest(code: CodeType) -> str:
    """Return a digest of what a function does, independent of its position in the file."""
    facts = code.co_code.hex(), code.co_names, code.co_varnames, code.co_freevars, [*map(_constant, code.co_consts)]
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]


def _constant(value: Any) -> str:
    if isinstance(value, CodeType):
        return _code_digest(value)
    # the order of a set changes from process to process
    return repr(sorted(map(repr, value)) if isinstance(value, frozenset) else value)
