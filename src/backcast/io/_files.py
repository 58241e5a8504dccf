"""The files of a log: which files a path stands for, their stamps, and one error for failures of reading."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.fs

from backcast._files import check_readable
from backcast.errors import OptionError, ResourceError, SourceError, did_you_mean
from backcast.io.limits import IN_PARTS

FilePath: TypeAlias = "str | os.PathLike[str]"

FILE, FOLDER = pyarrow.fs.FileType.File, pyarrow.fs.FileType.Directory
EXTENSIONS = {
    "parquet": (".parquet", ".pq", ".parq"),
    "csv": (".csv",),
    "tsv": (".tsv",),
    "ndjson": (".ndjson", ".jsonl", ".json"),
}
FORMATS = {extension: name for name, extensions in EXTENSIONS.items() for extension in extensions}
COMPRESSED = {".gz", ".bz2", ".zst", ".lz4"}
TEXT_REMEDY = (
    "It must be text in UTF-8 with a header line that names each column once, as many fields in every line, "
    "and one type per column"
)
REMEDIES = {
    "parquet": "Is it complete, and a Parquet file?",
    "csv": TEXT_REMEDY,
    "tsv": TEXT_REMEDY,
    "ndjson": "It must hold one JSON object per line, with one type per field",
}


@dataclass(frozen=True)
class Files:
    """Files of one format in reading order; ``key=value`` folders below ``base`` are partitions."""

    paths: tuple[str, ...]
    format: str
    base: str | None
    filesystem: Any


def find_files(path: FilePath | Sequence[FilePath], file_format: str | None = None) -> Files:
    """Return the files that a path, pattern, folder, address or list of paths stands for.

    A list keeps its order; files of a pattern or folder are in natural order (``part-2`` before ``part-10``). Names
    that start with ``.`` or ``_`` are left out of folders.
    """
    if file_format is not None and file_format not in EXTENSIONS:
        raise OptionError(f"format is {file_format!r}; it must be one of {', '.join(map(repr, EXTENSIONS))}")
    filesystem, paths = _open_filesystem(list_paths(path))
    files = list(dict.fromkeys(file for path in paths for file in _expand_path(path, file_format, filesystem)))
    base = _find_static_folder(paths[0]) if len(paths) == 1 else None
    return Files(tuple(files), file_format or _find_common_format(files), base, filesystem)


def list_paths(path: FilePath | Sequence[FilePath]) -> list[str]:
    """Return a path or a list of paths as a list of texts; refuse other types, and pipes and devices."""
    paths: list[Any] = list(path) if isinstance(path, Iterable) and not isinstance(path, str | bytes) else [path]
    if not paths:
        raise SourceError("the list of files is empty; name at least one")
    for path in paths:
        if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
            raise OptionError(f"a path is {path!r}; it must be text or a pathlib.Path")
        if "://" not in os.fspath(path):
            check_readable(path)
        elif "\0" in os.fspath(path):
            raise SourceError(f"{path!r}: an address cannot hold a NUL")
    return [os.fspath(path) for path in paths]


def _open_filesystem(paths: list[str]) -> tuple[Any, list[str]]:
    """Return the file system of the paths, and the paths inside of it."""
    if not any("://" in path for path in paths):
        return pyarrow.fs.LocalFileSystem(), paths
    for path in paths:
        _check_name(path)
    try:
        opened = [pyarrow.fs.FileSystem.from_uri(path) for path in paths]
    except (pa.ArrowException, OSError) as problem:
        raise SourceError(f"{paths[0]}: not an address that can be read ({_shorten(problem)})") from None
    return opened[0][0], [inner for _, inner in opened]


def _expand_path(path: str, file_format: str | None, filesystem: Any) -> list[str]:
    [file_type] = _find_types([path], filesystem)
    if file_type == FILE:
        return [path]
    if file_type == FOLDER:
        return _list_folder(path, file_format, filesystem)
    if not glob.has_magic(path):
        names: list[str] = []
        with suppress(OSError):
            names = os.listdir(Path(path).parent)
        raise SourceError(f"{path}: no such file or folder{did_you_mean(Path(path).name, names).removesuffix('.')}")
    matches = match_pattern(path)
    if not matches:
        raise SourceError(f"no file matches {path!r}")
    files: list[str] = []
    for match, file_type in zip(matches, _find_types(matches, filesystem), strict=True):
        files += [match] if file_type == FILE else _expand_path(match, file_format, filesystem)
    return files


def _find_types(paths: list[str], filesystem: Any) -> list[Any]:
    """Return for each path whether it is a file, a folder, or does not exist, in one request for all."""
    for path in paths:
        _check_name(path)
    with _convert_access_errors(paths[0]):
        infos = filesystem.get_file_info(paths)
    return [info.type for info in infos]


def _check_name(path: str) -> None:
    """Refuse a name whose bytes are not text, which Arrow cannot open."""
    try:
        path.encode()
    except UnicodeEncodeError:
        raise SourceError(f"{path!r}: the name of the file is not UTF-8; rename it") from None


def _list_folder(folder: str, file_format: str | None, filesystem: Any) -> list[str]:
    if isinstance(filesystem, pyarrow.fs.LocalFileSystem):
        files = list_files(folder)
        for file in files:
            _check_name(file)
    else:
        with _convert_access_errors(folder):
            infos = filesystem.get_file_info(pyarrow.fs.FileSelector(folder, recursive=True))
        files = sorted((info.path for info in infos if info.type == FILE), key=natural_key)
    visible = [
        file
        for file in files
        if not any(name.startswith((".", "_")) for name in file[len(folder) :].replace(os.sep, "/").split("/"))
    ]
    known = [file for file in visible if (_guess_format(file) == file_format if file_format else _guess_format(file))]
    if not known and file_format is None:
        raise SourceError(f"{folder}: the folder holds no file of a known format ({', '.join(FORMATS)})")
    if not visible:
        raise SourceError(f"{folder}: the folder is empty")
    return known or visible


def _guess_format(path: str) -> str | None:
    """Return the format of a file by its name.

    >>> _guess_format("log/2026.PQ"), _guess_format("log/day.csv.gz"), _guess_format("log/.csv"), _guess_format("a.gz")
    ('parquet', 'csv', None, None)
    """
    stem, extension = os.path.splitext(path.lower())
    if extension in COMPRESSED and _guess_format(stem) in ("csv", "tsv", "ndjson"):
        return _guess_format(stem)
    return FORMATS.get(extension)


def _find_common_format(paths: list[str]) -> str:
    first = _guess_format(paths[0])
    for path in paths:
        if _guess_format(path) is None:
            raise SourceError(
                f"{path}: unknown extension {PurePosixPath(path).suffix!r}; known are {', '.join(FORMATS)}. "
                "Give format=..., or use read_vw for a log of Vowpal Wabbit"
            )
        if _guess_format(path) != first:
            raise SourceError(
                f"{paths[0]} and {path} are of different formats; read them separately, or give format=..."
            )
    return str(first)


def _find_static_folder(path: str) -> str | None:
    """Return the folder before the first pattern: only below it are ``key=value`` folders partitions."""
    parts = path.replace(os.sep, "/").split("/")
    return "/".join(parts[: _count_static_parts(parts)]) or None


def _count_static_parts(parts: list[str]) -> int:
    return next((index for index, part in enumerate(parts) if glob.has_magic(part)), len(parts))


def match_pattern(pattern: str) -> list[str]:
    """Return the paths that a glob pattern matches, in natural order; ``**`` is any number of visible folders.

    The standard library's ``**`` follows links in a circle until the path is too long.
    """
    parts = pattern.replace(os.sep, "/").split("/")
    if "**" not in parts:
        return sorted(glob.glob(pattern), key=natural_key)
    n_static = _count_static_parts(parts)
    base = "/".join(parts[:n_static]) or ("/" if pattern.startswith("/") else ".")
    files = [(file, os.path.relpath(file, base)) for file in list_files(base)]
    return [
        file if n_static else relative
        for file, relative in files
        if _matches(relative.replace(os.sep, "/").split("/"), parts[n_static:])
    ]


def _matches(path: list[str], pattern: list[str]) -> bool:
    """Return whether the parts of a path match the parts of a pattern.

    >>> _matches(["a", "b", "c.csv"], ["**", "*.csv"]), _matches(["a", ".b", "c.csv"], ["**", "*.csv"])
    (True, False)
    """
    if not pattern:
        return not path
    if pattern[0] == "**":
        if pattern[1:] in ([], ["**"]):
            return not any(part.startswith(".") for part in path)
        if _matches(path, pattern[1:]):
            return True
        return bool(path) and not path[0].startswith(".") and _matches(path[1:], pattern)
    if not path or not fnmatchcase(path[0], pattern[0]):
        return False
    may_be_hidden = pattern[0].startswith(".")
    return (may_be_hidden or not path[0].startswith(".")) and _matches(path[1:], pattern[1:])


def list_files(folder: str) -> list[str]:
    """Return every file below a folder, in natural order; a folder that several links lead to is entered once.

    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> (folder / "log.csv").touch()
    >>> (folder / "round").symlink_to(folder)
    >>> [os.path.relpath(file, folder) for file in list_files(str(folder))]
    ['log.csv']
    """
    files: list[str] = []
    entered: set[str] = set()
    roots = [folder]
    for root in roots:
        # Links to folders wait until all real folders are entered, so that a file has its real path if it has one.
        for parent, folders, names in os.walk(root, onerror=_refuse_folder):
            real = os.path.realpath(parent)
            if real in entered:
                folders.clear()
                continue
            entered.add(real)
            folders.sort()
            roots += [path for name in folders if os.path.islink(path := os.path.join(parent, name))]
            # Neither pipes and devices, nor links that lead nowhere.
            files += [path for name in names if os.path.isfile(path := os.path.join(parent, name))]
    return sorted(files, key=natural_key)


def _refuse_folder(problem: OSError) -> None:
    """Refuse a folder that cannot be listed: the files in it would be left out of the log without notice."""
    if isinstance(problem, PermissionError):
        raise SourceError(
            f"{problem.filename}: the folder cannot be listed ({problem.strerror}); permission to read it is needed"
        )


def natural_key(path: str) -> tuple[list[int | str], str]:
    """Return a sort key by which numbers in names count as numbers.

    >>> sorted(["part-10", "part-2", "part-02b", "part"], key=natural_key)
    ['part', 'part-2', 'part-02b', 'part-10']
    """
    # text and digits alternate, so that only like is compared with like
    pieces = re.split("([0-9]+)", path)
    return [int(piece) if i % 2 else piece for i, piece in enumerate(pieces)], path


@dataclass(frozen=True)
class FileStamp:
    """Size of a file and time of its last change; None where the file system does not have them."""

    size: int | None
    written: int | None

    def check(self, path: str, filesystem: Any) -> None:
        """Refuse a file that has changed since the stamp was read."""
        [current] = read_stamps([path], filesystem)
        if current == self:
            return
        if current.size is None and self.size is not None:
            raise SourceError(f"{path}: the file has vanished since the log was opened; restore it and run again")
        resized = current.size != self.size
        change = f"it had {self.size:,} bytes and has {current.size:,}" if resized else "it was written again"
        raise SourceError(
            f"{path}: the file has changed since the log was opened ({change}), so its rows would not belong "
            "together; run again when no program writes to it"
        )


def read_stamps(paths: Sequence[str], filesystem: Any) -> tuple[FileStamp, ...]:
    """Return the current stamps of files, in one request for all."""
    try:
        return tuple(FileStamp(info.size, info.mtime_ns) for info in filesystem.get_file_info(list(paths)))
    except OSError as problem:
        if len(paths) == 1:
            raise SourceError(f"{paths[0]}: cannot be accessed ({_shorten(problem)})") from None
        # The message must name the file that cannot be accessed.
        return tuple(stamp for path in paths for stamp in read_stamps([path], filesystem))


@contextmanager
def convert_read_errors(path: str, file_format: str) -> Iterator[None]:
    """Convert the many errors of reading a file to a SourceError that names it."""
    try:
        yield
    except MemoryError as problem:
        raise ResourceError(
            f"{path}: reading it takes more memory than there is ({_shorten(problem)}); {IN_PARTS}, or fewer columns"
        ) from None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as problem:
        raise SourceError(
            f"{path}: cannot be read as {file_format} ({_shorten(problem)}). {REMEDIES[file_format]}"
        ) from None


@contextmanager
def _convert_access_errors(path: str) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError) as problem:
        raise SourceError(f"{path}: cannot be accessed ({_shorten(problem)})") from None


def _shorten(problem: BaseException) -> str:
    lines = str(problem).strip().splitlines() or [type(problem).__name__]
    # Arrow prefixes the cause with its location, which the message above already gives.
    return lines[0].rpartition("Invalid: ")[2].rpartition("file?: ")[2][:300]
