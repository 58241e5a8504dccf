"""Resource limits of file readers, so that a damaged or hostile file cannot take all memory or time.

Each limit is a number of this module. A program that must read more sets it before reading, for example
``backcast.io.limits.MOST_LINE = 2**30``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import IO, Any

import numpy as np

from backcast.errors import LogError, OptionError, ResourceError, SourceError

MOST_FEATURES = 2**31 - 1  # column indices of sparse matrices have 32 bits
MOST_COLUMNS = 100_000  # of a file: Arrow takes 14 KB of memory for each, even if there are few rows
MOST_LINE = 2**26  # characters in a line of a Vowpal Wabbit log: 64 million
MOST_DEPTH = 100  # levels in NDJSON: a log is flat, and Arrow's reader overflows its stack at about 10,000
BYTES_PER_CHARACTER = 10  # memory that a character of a Vowpal Wabbit log takes once parsed, at least
JSON_BLOCK = 2**20  # bytes checked for nesting at a time
NO_BRACKETS = bytes(code for code in range(256) if code not in b"[]{}")
BRACKET_STEPS = bytes.maketrans(b"[]{}", np.array([1, -1, 1, -1], dtype=np.int8).tobytes())
PROC = Path("/proc")
CGROUP = Path("/sys/fs/cgroup")
# remedies in errors of read_log and read_vw; the command line names its flag instead
IN_PARTS, VW_IN_PARTS = "read it in parts with scan_log", "read it in parts with scan_vw"


@cache
def total_memory() -> int:
    """Return the bytes that this process can have at most: of the machine, of its control groups, of its ulimits.

    They are read once: it takes as long as reading some thousand events, and every part of a stream is checked.
    """
    limits = [limit for limit, _ in _cgroup_limits()] + [limit for limit, _ in _process_limits()]
    if hasattr(os, "sysconf"):
        limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min(limits, default=2**62)


def free_memory() -> int | None:
    """Return the bytes that this process may still take: of the machine, its control groups, its ulimits; or None."""
    free = [limit - used for limit, used in (*_cgroup_limits(), *_process_limits())]
    with suppress(OSError, KeyError, ValueError):  # only Linux has the file
        free.append(_read_sizes(PROC / "meminfo")["MemAvailable"])
    return max(0, min(free)) if free else None


def _read_sizes(path: Path) -> dict[str, int]:
    """Return the sizes in a file of lines such as "MemFree: 17 kB", in bytes."""
    lines = (line.split() for line in path.read_text().splitlines())
    return {words[0].rstrip(":"): 1024 * int(words[1]) for words in lines if len(words) == 3 and words[2] == "kB"}


def _process_limits() -> Iterator[tuple[int, int]]:
    """Yield limit and usage of the address space and of the data of this process, where they are limited."""
    try:
        import resource
    except ImportError:  # Windows
        return
    sizes: dict[str, int] = {}
    with suppress(OSError, ValueError):
        sizes = _read_sizes(PROC / "self" / "status")
    for kind, size in ((resource.RLIMIT_AS, "VmSize"), (resource.RLIMIT_DATA, "VmData")):
        limit = resource.getrlimit(kind)[0]
        if limit != resource.RLIM_INFINITY:
            yield limit, sizes.get(size, 0)


def _cgroup_limits() -> Iterator[tuple[int, int]]:
    """Yield limit and usage of the control groups of this process, version 1 and 2, and of their parents."""
    names = {2: ("memory.max", "memory.current", "inactive_file")}
    names[1] = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
    folders = {(2, CGROUP): None, (1, CGROUP / "memory"): None}
    with suppress(OSError, ValueError):
        for line in (PROC / "self" / "cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers in ("", "memory") or "memory" in controllers.split(","):
                version, root = (1, CGROUP / "memory") if controllers else (2, CGROUP)
                own = Path(path.lstrip("/"))
                folders |= {(version, root / folder): None for folder in (own, *own.parents)}
    for version, folder in folders:
        limit_name, usage_name, cache_name = names[version]
        with suppress(OSError, ValueError):  # there is no such file, or its value is "max"
            limit, usage = int((folder / limit_name).read_text()), int((folder / usage_name).read_text())
            lines = (folder / "memory.stat").read_text().splitlines()
            # files in the page cache are given up when memory is needed
            cached = sum(int(line.split()[1]) for line in lines if line.split()[0] == cache_name)
            yield limit, max(0, usage - cached)


def format_bytes(size: float) -> str:
    """Return a size with its unit.

    >>> format_bytes(2_500_000_000), format_bytes(12_345_678), format_bytes(640)
    ('2.5 GB', '12 MB', '1 KB')
    """
    if size >= 1e9:
        return f"{size / 1e9:,.1f} GB"
    return f"{size / 1e6:,.0f} MB" if size >= 1e6 else f"{max(1.0, size / 1e3):,.0f} KB"


def size_error(n_rows: int, size: float, remedy: str = f"{IN_PARTS}, or fewer columns") -> ResourceError:
    """Return the error for rows that do not fit in memory.

    >>> size_error(2**40, 2**45)
    ResourceError('1,099,511,627,776 rows need 35,184.4 GB of memory, more than there is; read it in parts with \
scan_log, or fewer columns')
    """
    return ResourceError(f"{n_rows:,} rows need {format_bytes(size)} of memory, more than there is; {remedy}")


@contextmanager
def without_stream_remedy() -> Iterator[None]:
    """Name another remedy in errors of a stream, which is read in parts already."""
    try:
        yield
    except ResourceError as problem:
        text = str(problem).replace(IN_PARTS, "allow more memory").replace(VW_IN_PARTS, "allow more memory")
        raise ResourceError(text) from None


def check_size(n_rows: int, numbers_per_row: int, remedy: str = f"{IN_PARTS}, or fewer columns") -> None:
    """Refuse a table that does not fit in memory; a number takes eight bytes."""
    if n_rows < 0:
        raise SourceError(f"a file announces {n_rows:,} rows; it is damaged")
    size = 8 * n_rows * numbers_per_row
    if size > total_memory():
        raise size_error(n_rows, size, remedy)


def limit_memory(batches: Iterable[Any]) -> Iterator[Any]:
    """Yield the same record batches; raise once they are together more than memory can hold."""
    limit, n_bytes = total_memory(), 0
    for batch in batches:
        n_bytes += batch.nbytes
        if n_bytes > limit // 2:  # the log made of them takes as much again
            raise ResourceError(
                f"{format_bytes(n_bytes)} are read, more follows, and all of it needs more memory than there is; "
                f"{IN_PARTS}, or fewer columns"
            )
        yield batch


def check_columns(path: str, n_columns: int) -> None:
    """Refuse a file with so many columns that reading one row would take gigabytes."""
    if n_columns > MOST_COLUMNS:
        raise SourceError(
            f"{path}: it has {n_columns:,} columns, and {MOST_COLUMNS:,} are the most; write fewer, or make them "
            "features of a Vowpal Wabbit log, which is sparse"
        )


def check_positive_integer(name: str, value: Any, most: int) -> None:
    """Refuse an option that is not a whole number from 1 to ``most``.

    >>> check_positive_integer("hash_size", 10**12, 2**31 - 1)
    Traceback (most recent call last):
    backcast.errors.OptionError: hash_size is 1000000000000; it must be a whole number from 1 to 2,147,483,647
    """
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
        raise OptionError(f"{name} is {value!r}; it must be a whole number, at least 1")
    if value > most:
        raise OptionError(f"{name} is {value!r}; it must be a whole number from 1 to {most:,}")


def read_lines(stream: IO[str], *, limit: bool = True) -> Iterator[str]:
    """Yield the lines of a text, none longer than allowed, and with ``limit`` no more than memory holds once parsed."""
    most, n_characters = total_memory() // BYTES_PER_CHARACTER, 0
    while line := stream.readline(MOST_LINE + 1):
        n_characters += len(line)
        if len(line) > MOST_LINE:
            raise LogError(f"the line is longer than {MOST_LINE:,} characters")
        if limit and n_characters > most:
            raise ResourceError(f"the text is longer than {most:,} characters, too many for the memory; {VW_IN_PARTS}")
        yield line


def check_depth(stream: Any, most_bytes: int | None = None) -> None:
    """Refuse JSON that nests deeper than any log: Arrow's reader would end the whole process.

    Brackets are counted outside of strings, in a few milliseconds per megabyte. Of a long stream, only about the
    first ``most_bytes`` are checked.

    >>> import io
    >>> check_depth(io.BytesIO(b'{"a": [1, "[[[["]}' * 3))
    >>> check_depth(io.BytesIO(b'{"a":' * 101))
    Traceback (most recent call last):
    backcast.errors.LogError: JSON nests deeper than 100 levels
    """
    depth, in_string, cut_escape, n_bytes = 0, False, b"", 0
    while (block := stream.read(JSON_BLOCK)) and (most_bytes is None or n_bytes < most_bytes):
        n_bytes += len(block)
        block = cut_escape + block
        # A backslash at the end of the block belongs to the first character of the next one.
        cut_escape = b"\\" if (len(block) - len(block.rstrip(b"\\"))) % 2 else b""
        marks, in_string = _strip_strings(block.removesuffix(cut_escape), in_string)
        deepest, depth = _max_depth(marks, depth)
        if deepest > MOST_DEPTH:
            raise LogError(f"JSON nests deeper than {MOST_DEPTH} levels")


def _strip_strings(block: bytes, in_string: bool) -> tuple[bytes, bool]:
    """Return what is outside of the strings of JSON, and whether the end of the block is inside of one.

    >>> _strip_strings(b'{"a": "[[", "b": [1, "c', in_string=False)
    (b'{: , : [1, ', True)
    >>> _strip_strings(b'[" }', in_string=True)
    (b' }', False)
    """
    # Without escapes, quotation marks separate text outside and inside of strings by turns.
    sections = block.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
    if any(b"\n" in section for section in sections[not in_string :: 2]):
        raise LogError("a string of JSON continues past the end of its line; is a quotation mark missing?")
    return b"".join(sections[in_string::2]), in_string ^ (len(sections) % 2 == 0)


def _max_depth(marks: bytes, depth: int) -> tuple[int, int]:
    """Return the largest and the last depth of brackets, if the text starts at this depth.

    A bracket that closes nothing does not lower the depth, so it makes no room for deeper nesting.

    >>> _max_depth(b"{: [1, {}], : 2", depth=1)
    (4, 2)
    >>> _max_depth(b"]]][", depth=1)
    (1, 1)
    """
    steps = np.frombuffer(marks.translate(BRACKET_STEPS, NO_BRACKETS), dtype=np.int8)
    if not steps.size:
        return depth, depth
    heights = depth + np.cumsum(steps, dtype=np.int64)
    heights -= np.minimum(np.minimum.accumulate(heights), 0)
    return int(heights.max()), int(heights[-1])
