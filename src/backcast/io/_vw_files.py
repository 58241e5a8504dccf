"""Files of Vowpal Wabbit's logs: which files a path stands for, their format, and the decisions in them."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import dropwhile, islice, takewhile
from typing import IO, Any

from backcast.errors import LogError, ResourceError, SourceError
from backcast.io._files import FilePath, list_files, list_paths, match_pattern
from backcast.io._vw_events import EVENT_READERS, Lines, VwEvent, is_adf_line
from backcast.io.limits import VW_IN_PARTS, read_lines
from backcast.reading_summary import LeftOut

VW_EXTENSIONS = (".vw", ".dsjson")
JSON_EXTENSIONS = (".json", ".jsonl", ".ndjson")
TEXT_EXTENSIONS = (".dat", ".ldf", ".txt", ".log")
DETECTION_LINES, DETECTION_CHARACTERS = 1000, 2**22  # at the head of a file, which decide on its format
LABELLED_LINE = re.compile(r"\s*(\d+\s+)*\d+:[-+.\deE]+:[-+.\deE]+\s[^|]*\|")
OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
FILE_ERRORS = (OSError, EOFError, lzma.LZMAError, zlib.error)


def looks_like_vw(path: str) -> bool:
    """Return whether a path stands for a log of Vowpal Wabbit, by the name of its first file or by its first lines.

    >>> looks_like_vw("day.dsjson.gz"), looks_like_vw("day.csv")
    (True, False)
    """
    try:
        file = _expand_path(path)[0]
    except SourceError:
        file = path  # reported when it is read
    stem = _strip_compression(file)
    if stem.endswith(VW_EXTENSIONS):
        return True
    is_json, is_text = stem.endswith(JSON_EXTENSIONS), stem.endswith(TEXT_EXTENSIONS)
    if not (is_json or is_text) or not os.path.isfile(file):
        return False
    try:
        head = _read_head(file)
    except (*FILE_ERRORS, ValueError):
        return False  # reported when the file is read
    if any('"_label_cost"' in line or '"_multi"' in line for line in head):
        return True
    # only some lines of adf have a label, but all have a bar
    return is_text and all("|" in line for line in head if line.strip()) and any(map(LABELLED_LINE.match, head))


def find_vw_files(path: FilePath | Sequence[FilePath]) -> list[str]:
    """Return the files of a path, pattern, folder or list of these, in reading order."""
    return [file for text in list_paths(path) for file in _expand_path(text)]


def _expand_path(path: str) -> list[str]:
    """Return the files of a path, in natural order; of a folder only those that look like logs of Vowpal Wabbit."""
    if os.path.isfile(path):
        return [path]
    if os.path.isdir(path):
        hidden = tuple(f"{os.sep}{mark}" for mark in "._")
        visible = [file for file in list_files(path) if not any(mark in file[len(path) :] for mark in hidden)]
        matches = [file for file in visible if looks_like_vw(file)]
        if not matches:
            raise SourceError(f"{path}: the folder holds no log of Vowpal Wabbit (dsjson, cb or adf)")
        return matches
    matches = list(filter(os.path.isfile, match_pattern(path)))
    if not matches:
        raise SourceError(f"no file matches {path!r}")
    return matches


def _strip_compression(file: str) -> str:
    stem, extension = os.path.splitext(file.lower())
    return stem if extension in OPENERS else file.lower()


def _open(file: str) -> IO[str]:
    opener = OPENERS.get(os.path.splitext(file)[1], open)
    # utf-8-sig: a byte-order mark is no part of the first line
    stream: IO[str] = opener(file, "rt", encoding="utf-8-sig", errors="replace")
    return stream


def _read_head(file: str) -> list[str]:
    """Return the first lines of a file, of bounded length together."""
    lines: list[str] = []
    n_left = DETECTION_CHARACTERS
    with _open(file) as stream:
        for line in islice(read_lines(stream, limit=False), DETECTION_LINES):
            lines.append(line)
            n_left -= len(line)
            if n_left < 0:
                break
    return lines


@dataclass
class ReadingCounts:
    """Lines read so far, and records that were left out, by reason."""

    lines: int = 0
    left_out: Counter[str] = field(default_factory=Counter)

    def list_left_out(self) -> tuple[LeftOut, ...]:
        """Return what was left out, for the summary of reading."""
        return tuple(LeftOut(reason, count) for reason, count in self.left_out.items())


def read_events(
    file: str, vw_format: str, counts: ReadingCounts, *, first_line: int = 1, limit: bool = True
) -> Iterator[VwEvent]:
    """Yield the decisions of a file from a line on, and count lines and what is left out.

    ``limit`` refuses a file whose decisions do not fit in memory together.
    """
    line = 0

    def number_lines(stream: IO[str]) -> Lines:
        nonlocal line
        for line, text in enumerate(read_lines(stream, limit=limit), 1):
            if line >= first_line:
                counts.lines += 1
                yield line, text

    try:
        with _open(file) as stream:
            for record in EVENT_READERS[vw_format](number_lines(stream)):
                if isinstance(record, VwEvent):
                    yield record
                else:
                    counts.left_out[record] += 1
    except MemoryError:
        raise ResourceError(f"{file}: its decisions do not fit in memory; {VW_IN_PARTS}") from None
    except (*FILE_ERRORS, ValueError, OverflowError, RecursionError) as problem:
        where = f"{file}, line {line}" if line else file
        raise SourceError(f"{where}: cannot be read as {vw_format} ({problem})") from None


def no_decision_error(files: Sequence[str], counts: ReadingCounts) -> LogError:
    """Return the error for files in which no decision can be used."""
    reasons = "".join(f"; left out: {count:,} ({reason})" for reason, count in counts.left_out.items())
    return LogError(f"{files[0]}: no decision with action, cost and probability is in it{reasons}")


def detect_format(file: str) -> str:
    """Return the format of a file by its first lines."""
    try:
        head = _read_head(file)
    except (*FILE_ERRORS, ValueError) as problem:
        raise SourceError(f"{file}: cannot be read as text ({problem})") from None
    first_block = list(takewhile(str.strip, dropwhile(lambda line: not line.strip(), head)))
    if first_block and first_block[0].lstrip()[0] in "{[":
        return "dsjson"
    return "adf" if any(map(is_adf_line, first_block)) else "cb"
