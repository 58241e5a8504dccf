"""Work that is done and kept: small files, written whole or not at all, for one question only.

A folder belongs to one question. What it was, by log, policy, settings, seed and version, stands in its first file, and
another question is refused. Every other file is a finished piece under a seal of its content, its name and the
question: one that was damaged, changed or brought from elsewhere is not trusted. Nothing is ever unpickled.
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


HEAD = "checkpoint.json"


SEAL = 32  # bytes


class Stored(NamedTuple):
    """A piece that was kept."""

    value: Any


@dataclass(frozen=True)
class Checkpoint:
    """A folder of finished work; ``scope`` tells apart pieces of one name from different parts of the question.

    Examples
    --------
    >>> import tempfile
    >>> kept = open_checkpoint(tempfile.mkdtemp(), {"seed": "0"})
    >>> kept.put("pass-0", [0.5])
    >>> kept.get("pass-0")
    Stored(value=[0.5])
    >>> kept.get("pass-1") is None, kept.within("other").get("pass-0") is None
    (True, True)
    """

    folder: Path
    request: str
    scope: str = ""

    def within(self, name: str) -> Checkpoint:
        """The same folder for one part of the question."""
        return replace(self, scope=f"{self.scope}{name}.")

    def get(self, name: str, kinds: Sequence[type] = ()) -> Stored | None:
        """A finished piece; None where it is not finished, or its file cannot be trusted."""
        try:
            sealed = self._path(name).read_bytes()
        except OSError:
            return None
        seal, packed = sealed[:SEAL], sealed[SEAL:]
        # a piece that is damaged is done again; its new file takes the place of the old one
        return Stored(from_bytes(packed, kinds)) if seal == self._seal(name, packed) else None

    def put(self, name: str, value: Any, kinds: Sequence[type] = ()) -> None:
        """Keep a finished piece."""
        packed = to_bytes(value, kinds)
        try:
            with replace_atomically(self._path(name)) as file:
                file.write(self._seal(name, packed) + packed)
        except OSError as problem:
            raise WorkError(
                f"the checkpoint folder {self.folder.name!r} cannot be written to: {problem.strerror}; what was kept "
                "is whole, and the same run goes on from there once this is mended"
            ) from None

    def _path(self, name: str) -> Path:
        return self.folder / f"{self.scope}{name}.piece"

    def _seal(self, name: str, packed: bytes) -> bytes:
        return hashlib.sha256(f"{self.request} {self.scope}{name} ".encode() + packed).digest()


def open_checkpoint(folder: str | os.PathLike[str], facts: Mapping[str, str]) -> Checkpoint:
    """The checkpoint in this folder, new or of the same facts; one of other facts is refused.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> _ = open_checkpoint(folder, {"seed": "0"})
    >>> open_checkpoint(folder, {"seed": "1"})
    Traceback (most recent call last):
    backcast.errors.OptionError: the checkpoint was made for another seed (0, now 1); choose another folder or remove it
    """
    path = Path(folder)
    head = {"format": FORMAT, "version": str(VERSION), **facts}
    try:
        path.mkdir(parents=True, exist_ok=True)
        found = _read_head(path)
        if found is None:
            with replace_atomically(path / HEAD) as file:
                file.write(json.dumps(head, indent=1).encode())
    except OSError as problem:
        raise OptionError(
            f"the checkpoint folder {path.name!r} cannot be used: {problem.strerror}; choose one that can be written to"
        ) from None
    if found is not None:
        _check_same(found, head)
    return Checkpoint(path, hashlib.sha256(json.dumps(head).encode()).hexdigest())


def _read_head(folder: Path) -> dict[str, Any] | None:
    path = folder / HEAD
    if not path.exists():
        strangers = [entry.name for entry in folder.iterdir() if not entry.name.endswith(UNFINISHED)]
        if strangers:
            raise OptionError(
                f"the checkpoint folder {folder.name!r} holds {strangers[0]!r} and no {HEAD}; choose an empty one"
            )
        return None
    try:
        found = json.loads(path.read_text())
    except ValueError:
        found = None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise OptionError(f"{HEAD} in {folder.name!r} is not one of ours; choose another folder or remove it")
    return found


def _check_same(found: Mapping[str, Any], wanted: Mapping[str, str]) -> None:
    for name in [*wanted, *found]:
        if found.get(name) != wanted.get(name):
            raise OptionError(
                f"the checkpoint was made for another {name} ({found.get(name)}, now {wanted.get(name)}); "
                "choose another folder or remove it"
            )


LONGEST = 60


def object_fingerprint(value: Any) -> str:
    """How a value is told from others: in words, and by a digest of its state and code.

    >>> object_fingerprint(0.5), object_fingerprint(None)
    ('0.5', 'None')
    >>> import numpy as np
    >>> object_fingerprint(np.zeros((2, 1))) == object_fingerprint(np.ones((2, 1)))
    False
    """
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    bytes_of = io.BytesIO()
    try:
        _Digester(bytes_of).dump(value)
    except (pickle.PicklingError, TypeError, AttributeError, RecursionError) as problem:
        raise OptionError(
            f"{type(value).__name__} cannot be told from others by its state ({problem}), so its checkpoint could be "
            "taken for that of another; leave out what cannot be pickled (__getstate__), or do without a checkpoint"
        ) from None
    return f"{_words(value)} {hashlib.sha256(bytes_of.getvalue()).hexdigest()[:12]}"


def _words(value: Any) -> str:
    shape = getattr(value, "shape", None)
    text = f"array of {' by '.join(map(str, shape))}" if isinstance(shape, tuple) else repr(value)
    if re.search(r" at 0x[0-9a-fA-F]+", text):
        # an address says nothing and changes from run to run
        text = type(value).__name__
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


class _Digester(pickle.Pickler):
    """Writes functions and classes by their code instead of by name: an edited policy is another policy."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=5)

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, FunctionType):
            inside = tuple(cell.cell_contents for cell in value.__closure__ or ())
            return tuple, ([_code(value.__code__), value.__qualname__, value.__defaults__, inside],)
        if isinstance(value, type) and value.__module__ != "builtins":
            written = [f"{value.__module__}.{value.__qualname__}"]
            for kind in value.__mro__:
                functions = [one for one in vars(kind).values() if isinstance(one, FunctionType)]
                written += [f"{one.__qualname__} {_code(one.__code__)}" for one in functions]
            return str, ("\n".join(written),)
        return NotImplemented


def _code(code: CodeType) -> str:
    """A digest of what a function does, wherever it stands in its file."""
    constants = [_constant(one) for one in code.co_consts]
    written = code.co_code.hex(), code.co_names, code.co_varnames, code.co_freevars, constants
    return hashlib.sha256(repr(written).encode()).hexdigest()[:16]


def _constant(value: Any) -> str:
    if isinstance(value, CodeType):
        return _code(value)
    # a set has no order of its own: it changes from process to process
    return repr(sorted(map(repr, value)) if isinstance(value, frozenset) else value)
