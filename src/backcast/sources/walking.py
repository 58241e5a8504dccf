"""Files below a folder and of a pattern, where links may lead round."""

from __future__ import annotations

import glob
import os
import stat
from fnmatch import fnmatchcase

__all__ = ["matches", "walk"]


def walk(folder: str) -> list[str]:
    """Every file below a folder, by path in order; a folder that several links lead to is entered once.

    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> (folder / "log.csv").touch()
    >>> (folder / "round").symlink_to(folder)
    >>> [os.path.relpath(file, folder) for file in walk(str(folder))]
    ['log.csv']
    """
    found: list[str] = []
    entered: set[str] = set()
    waiting = [folder]
    while waiting:
        place = waiting.pop()
        if (real := os.path.realpath(place)) in entered:
            continue
        entered.add(real)
        folders, links = _look(place, found)
        # real folders before links to them: taken from the end
        waiting = [*links, *waiting, *folders]
    return sorted(found)


def _look(place: str, found: list[str]) -> tuple[list[str], list[str]]:
    """Folders in a folder, and links to folders; files are added to those found, and all that is neither left out."""
    folders: list[str] = []
    links: list[str] = []
    try:
        entries = sorted(os.scandir(place), key=lambda entry: entry.name)
    except OSError:
        return folders, links
    for entry in entries:
        try:
            mode = entry.stat().st_mode
        except OSError:  # a link that leads nowhere, or to itself
            continue
        if stat.S_ISDIR(mode):
            (links if entry.is_symlink() else folders).append(os.path.join(place, entry.name))
        elif stat.S_ISREG(mode):
            found.append(os.path.join(place, entry.name))
    return folders, links


def matches(pattern: str) -> list[str]:
    """Paths that a pattern stands for, in order; ``**`` is any number of folders, hidden ones left out."""
    parts = pattern.replace(os.sep, "/").split("/")
    if "**" not in parts:
        return sorted(glob.glob(pattern))
    fixed = next(place for place, part in enumerate(parts) if glob.has_magic(part))
    base = "/".join(parts[:fixed]) or ("/" if pattern.startswith("/") else ".")
    below = [(file, os.path.relpath(file, base).replace(os.sep, "/").split("/")) for file in walk(base)]
    return [file if fixed else os.path.relpath(file, base) for file, path in below if _fits(path, parts[fixed:])]


def _fits(path: list[str], pattern: list[str]) -> bool:
    if not pattern:
        return not path
    if pattern[0] != "**":
        return bool(path) and _is(path[0], pattern[0]) and _fits(path[1:], pattern[1:])
    if pattern[1:] in ([], ["**"]):
        return not any(part.startswith(".") for part in path)
    return _fits(path, pattern[1:]) or (bool(path) and not path[0].startswith(".") and _fits(path[1:], pattern))


def _is(name: str, pattern: str) -> bool:
    return fnmatchcase(name, pattern) and (pattern.startswith(".") or not name.startswith("."))
