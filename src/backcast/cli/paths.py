"""Paths of a command: no output may replace an input, be read as part of the log, or replace another output."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase

from backcast.errors import OptionError

CHECKPOINT = "checkpoint"  # the only output that is a folder


def check_outputs(outputs: Mapping[str, str | None], inputs: Iterable[str | None]) -> None:
    """Refuse outputs, by what they are ("report"), that are inputs or inside of an input that is a folder.

    Links are followed, and files are compared by identity, not by name: a log is never overwritten through a link or in
    another spelling.

    >>> check_outputs({"report": "./log.csv"}, ["log.csv"])
    Traceback (most recent call last):
    backcast.errors.OptionError: the report would be written to './log.csv', which is the input 'log.csv'; give \
another path
    """
    earlier: dict[str, str] = {}
    sources = [path for path in inputs if path is not None and "://" not in path and "\0" not in path]
    for what, path in outputs.items():
        if path is None or "\0" in path:
            continue
        real = os.path.realpath(path)
        for source in sources:
            _check_against_source(what, path, real, source)
        if real in earlier and not _is_device(real):
            raise OptionError(f"the {what} and the {earlier[real]} would both be written to {path!r}; give two paths")
        earlier[real] = what


def _check_against_source(what: str, path: str, real: str, source: str) -> None:
    is_folder = os.path.isdir(source)
    identity = _identity(real)
    folders = {_identity(folder) for folder in (real, *_parents(real))}
    if is_folder and _identity(source) in folders:
        problem = f"which is inside of the input {source!r}, where every file is part of the log"
    elif os.path.realpath(source) == real or (identity and identity in map(_identity, _files_of(source))):
        problem = f"which is the input {source!r}" if not is_folder else f"which is a file of the input {source!r}"
    elif what != CHECKPOINT and glob.has_magic(source) and fnmatchcase(real, _real_pattern(source)):
        problem = f"which the pattern {source!r} would match as part of the log"
    elif what == CHECKPOINT and os.path.realpath(source).startswith(os.path.join(real, "")):
        problem = f"which holds the input {source!r}"
    else:
        return
    raise OptionError(f"the {what} would be written to {path!r}, {problem}; give another path")


def _files_of(source: str) -> Iterator[str]:
    """Iterate over the files that a path, a folder or a pattern stands for."""
    for path in [source] if os.path.exists(source) else glob.iglob(source, recursive=True):
        if os.path.isdir(path):
            yield from (os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names)
        else:
            yield path


def _real_pattern(pattern: str) -> str:
    """Return a pattern with its folders resolved as far as they are without wildcards."""
    folder, name = os.path.split(pattern)
    return os.path.join(folder if glob.has_magic(folder) else os.path.realpath(folder), name)


def _parents(path: str) -> Iterator[str]:
    while (parent := os.path.dirname(path)) != path:
        yield parent
        path = parent


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _is_device(path: str) -> bool:
    return os.path.exists(path) and not os.path.isfile(path)
