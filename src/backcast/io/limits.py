"""What a file may ask for: limits with their reasons, so that a damaged or hostile one cannot take all memory or time.

Each is a plain number of this module. A program that must read more sets it before it reads, such as
``backcast.sources.limits.MOST_LINE = 2**30``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from backcast.errors import LogError, OptionError, SourceError

if TYPE_CHECKING:
    pass


MOST_FEATURES = 2**31 - 1  # positions in sparse matrices are numbers of 32 bits


MOST_COLUMNS = 100_000  # of a file: Arrow takes 14 KB of memory for each, however few rows there are


MOST_LINE = 2**26  # signs in a line of a log of Vowpal Wabbit: 64 million


MOST_DEPTH = 100  # levels in NDJSON: a log is flat, and Arrow's reader overflows its stack at some 10,000


CGROUP = Path("/sys/fs/cgroup/memory.max")


HELD = 10  # bytes of memory that a byte of a Vowpal Wabbit log becomes, at the least


def memory() -> int:
    """Bytes that this process can have at most: the machine's, or less where it was told so."""
    known = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")] if hasattr(os, "sysconf") else []
    with suppress(OSError, ValueError):  # no such file, or the word max
        known.append(int(CGROUP.read_text()))
    try:
        import resource
    except ImportError:  # not on Windows
        return min(known, default=2**62)
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return min([*known, *([] if limit == resource.RLIM_INFINITY else [limit])], default=2**62)


def check_columns(path: str, columns: int) -> None:
    """Refuse a file of so many columns that reading one row would take gigabytes."""
    if columns > MOST_COLUMNS:
        raise SourceError(
            f"{path}: it has {columns:,} columns, and {MOST_COLUMNS:,} are the most; write fewer, or make them "
            "features of a Vowpal Wabbit log, which is sparse"
        )


def check_size(rows: int, numbers: int) -> None:
    """Refuse a table of so many rows, each of so many numbers of eight bytes, that cannot be in memory.

    >>> check_size(2**40, 4)
    Traceback (most recent call last):
    backcast.errors.SourceError: 1,099,511,627,776 rows of 4 numbers need 35,184 GB, more than there is; read it in \
parts with scan_log, or fewer columns
    """
    if rows < 0:
        raise SourceError(f"a file says that it has {rows:,} rows; it is damaged")
    size = 8 * rows * numbers
    if size > memory():
        raise SourceError(
            f"{rows:,} rows of {numbers:,} numbers need {size / 1e9:,.0f} GB, more than there is; read it in parts "
            "with scan_log, or fewer columns"
        )


def within_memory(batches: Iterable[Any]) -> Iterator[Any]:
    """The same record batches, until together they are more than memory can hold."""
    most, held = memory(), 0
    for batch in batches:
        held += batch.nbytes
        if held > most // 2:  # the log made of them takes as much again
            raise SourceError(
                f"{held / 1e9:,.1f} GB are read, there is more, and all of it needs more memory than there is; read it "
                "in parts with scan_log, or fewer columns"
            )
        yield batch


def check_whole(name: str, value: Any, most: int) -> None:
    """Refuse what is not a whole number from 1 to ``most``.

    >>> check_whole("hash_size", 10**12, 2**31 - 1)
    Traceback (most recent call last):
    backcast.errors.OptionError: hash_size is 1000000000000; it must be a whole number from 1 to 2,147,483,647
    """
    if not isinstance(value, int | np.integer) or isinstance(value, bool):
        raise OptionError(f"{name} is {value!r}; it must be a whole number, at least 1")
    if value < 1:
        raise OptionError(f"{name} is {value!r}; it must be a whole number, at least 1")
    if value > most:
        raise OptionError(f"{name} is {value!r}; it must be a whole number from 1 to {most:,}")


def lines_of(stream: IO[str]) -> Iterator[str]:
    """The lines of a text: none longer than makes sense, nor all together more than memory holds once parsed."""
    most, read = memory() // HELD, 0
    while text := stream.readline(MOST_LINE + 1):
        read += len(text)
        if len(text) > MOST_LINE:
            raise LogError(f"the line is longer than {MOST_LINE:,} signs")
        if read > most:
            raise LogError(f"the text is longer than {most:,} signs, too many for the memory; read fewer at a time")
        yield text


NO_BRACKETS = bytes(sign for sign in range(256) if sign not in b"[]{}")


STEPS = bytes.maketrans(b"[]{}", bytes([1, 255, 1, 255]))


def check_depth(stream: Any, most_bytes: int | None = None) -> None:
    """Refuse JSON that nests deeper than any log: Arrow's reader would end the whole process.

    Brackets are counted outside of texts, in one pass of a few milliseconds a megabyte.

    >>> import io
    >>> check_depth(io.BytesIO(b'{"a": [1, "[[[["]}' * 3))
    >>> check_depth(io.BytesIO(b'{"a":' * 101))
    Traceback (most recent call last):
    backcast.errors.LogError: JSON nests deeper than 100 levels
    """
    depth, inside, rest, read = 0, False, b"", 0
    while (block := stream.read(2**20)) and (most_bytes is None or read < most_bytes):
        read += len(block)
        block = rest + block
        # an escape that the block's end cuts in two waits for the next block
        rest = b"\\" if (len(block) - len(block.rstrip(b"\\"))) % 2 else b""
        block = block.removesuffix(rest)
        slices = block.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        if any(b"\n" in text for text in slices[not inside :: 2]):
            raise LogError("a text of JSON goes on past the end of its line; is a quotation mark missing?")
        marks = b"".join(slices[inside::2]).translate(STEPS, NO_BRACKETS)
        inside ^= len(slices) % 2 == 0
        heights = depth + np.cumsum(np.frombuffer(marks, dtype=np.int8), dtype=np.int64)
        if heights.size:
            # brackets that close what was never open do not make room for others
            heights -= np.minimum(np.minimum.accumulate(heights), 0)
            depth = int(heights[-1])
            if int(heights.max()) > MOST_DEPTH:
                raise LogError(f"JSON nests deeper than {MOST_DEPTH} levels")


MEMORY = Path("/proc/meminfo")


GROUP = Path("/sys/fs/cgroup")


def free_memory() -> int | None:
    """Bytes that a process may still take, by what the system and its control group say; None where they do not."""
    found = []
    try:
        lines = dict(line.split(":") for line in MEMORY.read_text().splitlines())
        found.append(1024 * int(lines["MemAvailable"].split()[0]))
        limit = (GROUP / "memory.max").read_text().strip()
        if limit != "max":
            found.append(int(limit) - int((GROUP / "memory.current").read_text()))
    except (OSError, KeyError, ValueError):
        pass  # other systems, and systems without control groups
    return max(0, min(found)) if found else None
