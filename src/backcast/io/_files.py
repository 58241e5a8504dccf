"""Files of a log: which they are, and one error for all that can go wrong with one."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.fs

from backcast._files import check_readable
from backcast.errors import OptionError, SourceError, did_you_mean

FilePath: TypeAlias = "str | os.PathLike[str]"


FILE, FOLDER = pyarrow.fs.FileType.File, pyarrow.fs.FileType.Directory


EXTENSIONS = {
    "parquet": (".parquet", ".pq", ".parq"),
    "csv": (".csv",),
    "tsv": (".tsv",),
    "ndjson": (".ndjson", ".jsonl", ".json"),
}


FORMATS = {ending: known for known, endings in EXTENSIONS.items() for ending in endings}


SQUEEZED = {".gz", ".bz2", ".zst", ".lz4"}


TEXT_REMEDY = (
    "It must be text in UTF-8 with a header line that names each column once, as many fields in every line, "
    "and one type in a column"
)


REMEDIES = {
    "parquet": "Is it complete, and a Parquet file?",
    "csv": TEXT_REMEDY,
    "tsv": TEXT_REMEDY,
    "ndjson": "It must hold one JSON object a line, with one type in a field",
}


@dataclass(frozen=True)
class Files:
    """Files of one format, in the order they are read; ``base`` is where partition folders start."""

    paths: tuple[str, ...]
    format: str
    base: str | None
    filesystem: Any


def find_files(path: FilePath | Sequence[FilePath], file_format: str | None = None) -> Files:
    """The files that a path, pattern, folder, address or list of paths stands for.

    A list keeps its order; files of a pattern or folder are sorted by path. Names that start with ``.`` or ``_``
    are left out of folders.
    """
    if file_format is not None and file_format not in EXTENSIONS:
        raise OptionError(f"format is {file_format!r}; it must be one of {', '.join(map(repr, EXTENSIONS))}")
    paths = list(path) if isinstance(path, Iterable) and not isinstance(path, str | bytes) else [path]
    if not paths:
        raise SourceError("the list of files is empty; name at least one")
    texts = [path_text(each) for each in paths]
    filesystem, texts = _filesystem(texts)
    found: dict[str, None] = {}
    for text in texts:
        found.update(dict.fromkeys(_expand(text, file_format, filesystem)))
    base = _static_folder(texts[0]) if len(texts) == 1 else None
    return Files(tuple(found), file_format or _format_of_all(list(found)), base, filesystem)


def path_text(path: Any) -> str:
    """A path as text, if it is one that can be looked at."""
    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
        raise OptionError(f"a path is {path!r}; it must be text or a pathlib.Path")
    text = os.fspath(path)
    if "://" not in text:
        check_readable(text)
    elif "\0" in text:
        raise SourceError(f"{text!r}: an address cannot hold a NUL")
    return text


def _filesystem(paths: list[str]) -> tuple[Any, list[str]]:
    if not any("://" in path for path in paths):
        return pyarrow.fs.LocalFileSystem(), paths
    for path in paths:
        _check_name(path)
    try:
        opened = [pyarrow.fs.FileSystem.from_uri(path) for path in paths]
    except (pa.ArrowException, OSError) as problem:
        raise SourceError(f"{paths[0]}: not an address that can be read ({_brief(problem)})") from None
    return opened[0][0], [inner for _, inner in opened]


def _expand(path: str, file_format: str | None, filesystem: Any) -> list[str]:
    [kind] = _kinds_of([path], filesystem)
    if kind == FILE:
        return [path]
    if kind == FOLDER:
        return _data_files(path, file_format, filesystem)
    if not glob.has_magic(path):
        names: list[str] = []
        with suppress(OSError):
            names = sorted(os.listdir(Path(path).parent))
        raise SourceError(f"{path}: no such file or folder{did_you_mean(Path(path).name, names).removesuffix('.')}")
    found = matches(path)
    if not found:
        raise SourceError(f"no file matches {path!r}")
    kinds = zip(found, _kinds_of(found, filesystem), strict=True)
    each = ([match] if kind == FILE else _expand(match, file_format, filesystem) for match, kind in kinds)
    return [file for files in each for file in files]


def _kinds_of(paths: list[str], filesystem: Any) -> list[Any]:
    """Whether each is a file, a folder, or nothing at all; asked for all at once."""
    for path in paths:
        _check_name(path)
    try:
        return [info.type for info in filesystem.get_file_info(paths)]
    except (pa.ArrowException, OSError) as problem:
        raise SourceError(f"{paths[0]}: cannot be looked at ({_brief(problem)})") from None


def _check_name(path: str) -> None:
    """Refuse a name of bytes that are no text, which Arrow cannot open."""
    try:
        path.encode()
    except UnicodeEncodeError:
        raise SourceError(f"{path!r}: the name of the file is not UTF-8; rename it") from None


def _data_files(folder: str, file_format: str | None, filesystem: Any) -> list[str]:
    if isinstance(filesystem, pyarrow.fs.LocalFileSystem):
        files = walk(folder)
        for file in files:
            _check_name(file)
    else:
        try:
            infos = filesystem.get_file_info(pyarrow.fs.FileSelector(folder, recursive=True))
        except (pa.ArrowException, OSError) as problem:
            raise SourceError(f"{folder}: cannot be looked at ({_brief(problem)})") from None
        files = sorted(info.path for info in infos if info.type == FILE)
    seen = [file for file in files if not _is_hidden(file, folder)]
    known = [file for file in seen if (_format_of(file) == file_format if file_format else _format_of(file))]
    if not known and file_format is None:
        raise SourceError(f"{folder}: the folder holds no file of a known kind ({_kinds()})")
    if not seen:
        raise SourceError(f"{folder}: the folder is empty")
    return known or seen


def _is_hidden(file: str, folder: str) -> bool:
    return any(part.startswith((".", "_")) for part in file[len(folder) :].replace(os.sep, "/").split("/"))


def _format_of(path: str) -> str | None:
    """The kind of a file by its name.

    >>> _format_of("log/2026.PQ"), _format_of("log/day.csv.gz"), _format_of("log/.csv"), _format_of("a.gz")
    ('parquet', 'csv', None, None)
    """
    rest, ending = os.path.splitext(path.lower())
    if ending in SQUEEZED and _format_of(rest) in ("csv", "tsv", "ndjson"):
        return _format_of(rest)
    return FORMATS.get(ending)


def _format_of_all(paths: list[str]) -> str:
    first = _format_of(paths[0])
    for path in paths:
        if _format_of(path) is None:
            raise SourceError(
                f"{path}: unknown extension {PurePosixPath(path).suffix!r}; known are {_kinds()}. Give format=..., "
                "or read_vw for a log of Vowpal Wabbit"
            )
        if _format_of(path) != first:
            raise SourceError(f"{paths[0]} and {path} are of different kinds; read them apart, or give format=...")
    return str(first)


def _kinds() -> str:
    return ", ".join(ending for endings in EXTENSIONS.values() for ending in endings)


def _static_folder(path: str) -> str | None:
    """The folder before the first pattern: only below it are ``key=value`` folders partitions."""
    parts = path.replace(os.sep, "/").split("/")
    fixed = next((i for i, part in enumerate(parts) if glob.has_magic(part)), len(parts))
    return "/".join(parts[:fixed]) or None


@dataclass(frozen=True)
class FileStamp:
    """By what a file is known again: its size and when it was last written (None where its home does not say)."""

    size: int | None
    written: int | None

    def check(self, path: str, filesystem: Any) -> None:
        """Refuse a file that is no longer the one that was opened."""
        now = stamp_of(path, filesystem)
        if now == self:
            return
        if now.size is None and self.size is not None:
            raise SourceError(f"{path}: the file has vanished since the log was opened; put it back and run again")
        what = f"it had {self.size:,} bytes and has {now.size:,}" if now.size != self.size else "it was written anew"
        raise SourceError(
            f"{path}: the file has changed since the log was opened ({what}), so its rows would not belong together; "
            "run again when nobody writes to it"
        )


def stamp_of(path: str, filesystem: Any) -> FileStamp:
    """The stamp of a file as it is now."""
    try:
        info = filesystem.get_file_info(path)
    except OSError as problem:
        raise SourceError(f"{path}: cannot be looked at ({_brief(problem)})") from None
    return FileStamp(info.size, info.mtime_ns)


def stamps_of(paths: Sequence[str], filesystem: Any) -> tuple[FileStamp, ...]:
    """The stamps of files as they are now, asked for all at once."""
    try:
        return tuple(FileStamp(info.size, info.mtime_ns) for info in filesystem.get_file_info(list(paths)))
    except OSError:
        # one of them cannot be looked at: the message is to name it
        return tuple(stamp_of(path, filesystem) for path in paths)


@contextmanager
def reading(path: str, file_format: str) -> Iterator[None]:
    """Turn the many errors of reading a file into one of ours that names it."""
    try:
        yield
    except MemoryError as problem:
        raise SourceError(
            f"{path}: reading it takes more memory than there is ({_brief(problem)}); read it in parts with scan_log, "
            "or fewer columns"
        ) from None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as problem:
        raise SourceError(
            f"{path}: cannot be read as {file_format} ({_brief(problem)}). {REMEDIES[file_format]}"
        ) from None


def _brief(problem: BaseException) -> str:
    lines = str(problem).strip().splitlines() or [type(problem).__name__]
    # Arrow wraps the cause in where it happened, which our message says already.
    return lines[0].rpartition("Invalid: ")[2].rpartition("file?: ")[2][:300]


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
