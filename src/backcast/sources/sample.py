"""A first look at a file: some rows of it, and what each column holds."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.types as kinds

from backcast.arrays import FloatArray
from backcast.errors import LogError
from backcast.sources.encode import list_rows, values_of
from backcast.sources.files import FilePath, Files, find_files, reading
from backcast.sources.layout import kind_of
from backcast.sources.opening import open_files

__all__ = ["Profile", "Sample", "profile_of", "take_sample"]

ROWS = 5_000
LOOKED_AT = 2**26  # bytes of JSON, more than a first look reads ahead
COUNTED = 2**22  # bytes of a text file in which lines are counted


@dataclass(frozen=True)
class Profile:
    """What a column holds, as far as the sample shows.

    ``kind`` is number, text, list, empty or other; ``numbers`` are the values of a number column, and of a list column
    the sums of its lists (nan where they are no numbers).
    """

    name: str
    kind: str
    distinct: int
    missing: int
    numbers: FloatArray
    lengths: tuple[int, ...] = ()
    is_truth: bool = False
    is_time: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether it holds whole numbers only."""
        return self.kind == "number" and self.numbers.size > 0 and bool((self.numbers == np.floor(self.numbers)).all())

    def lies_in(self, low: float, high: float) -> bool:
        """Whether it holds numbers of this range only."""
        return self.kind == "number" and self.numbers.size > 0 and self.low >= low and self.high <= high

    @property
    def low(self) -> float:
        """The smallest number."""
        return float(self.numbers.min()) if self.numbers.size else float("nan")

    @property
    def high(self) -> float:
        """The largest number."""
        return float(self.numbers.max()) if self.numbers.size else float("nan")


@dataclass(frozen=True)
class Sample:
    """The first rows of a log's first file: profiles of its columns, and about how many rows there are in all."""

    format: str
    rows: int
    total: int | None
    columns: tuple[Profile, ...]
    table: Any

    def values(self, name: str) -> list[Any]:
        """The values of a column."""
        return values_of(self.table.column(name).combine_chunks())


def take_sample(path: FilePath, file_format: str | None = None, rows: int = ROWS) -> Sample:
    r"""Look at the first rows of a log; no more than these are read, however long it is.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp(), "log.csv")
    >>> _ = file.write_text("hour,shown,p\n7,mail,0.5\n9,none,0.25\n")
    >>> sample = take_sample(file)
    >>> sample.rows, sample.total, [(column.name, column.kind, column.distinct) for column in sample.columns]
    (2, 2, [('hour', 'number', 2), ('shown', 'text', 2), ('p', 'number', 2)])
    """
    files = find_files(path, file_format)
    opened = open_files(files, LOOKED_AT)
    with reading(files.paths[0], files.format):
        table = _head(files, opened.fragments[0], rows)
    if table.num_rows == 0:
        raise LogError(f"{files.paths[0]}: there is no row in it; a log needs at least one event")
    profiles = tuple(profile_of(name, table.column(name).combine_chunks()) for name in table.column_names)
    return Sample(files.format, table.num_rows, _total(files, opened, table.num_rows), profiles, table)


def _head(files: Files, fragment: Any, rows: int) -> pa.Table:
    """The first rows; of text files, nothing after their last block is parsed."""
    if files.format not in ("csv", "tsv"):
        return fragment.head(rows)
    found: list[pa.RecordBatch] = []
    parsing = pyarrow.csv.ParseOptions(delimiter="\t" if files.format == "tsv" else ",")
    # the dataset reader would parse some blocks ahead, and fail on what is far from here
    with files.filesystem.open_input_stream(fragment.path) as stream:
        for batch in pyarrow.csv.open_csv(stream, pyarrow.csv.ReadOptions(use_threads=False), parsing):
            found.append(batch)
            if sum(one.num_rows for one in found) >= rows:
                break
    return pa.Table.from_batches(found, found[0].schema).slice(0, rows) if found else fragment.head(0)


def profile_of(name: str, column: pa.Array) -> Profile:
    """What a column holds."""
    type_ = column.type
    kind = kind_of(type_)
    missing = column.null_count
    if kind == "list":
        return Profile(name, kind, 0, missing, *_lists(column, name))
    numbers = np.zeros(0)
    if kind == "number":
        # whole numbers past 2**53 are rounded: they are identifiers, and only their size matters
        numbers = np.asarray(pc.cast(column.drop_null(), pa.float64(), safe=False).to_numpy(zero_copy_only=False))
        missing += int(np.isnan(numbers).sum())
        numbers = numbers[~np.isnan(numbers)]
    distinct = _distinct(column, kind)
    is_time = kinds.is_temporal(type_)
    return Profile(name, kind, distinct, missing, numbers, (), kinds.is_boolean(type_), is_time)


def _distinct(column: pa.Array, kind: str) -> int:
    if kind == "empty":
        return 0
    try:
        return len(pc.unique(column.drop_null()))
    except pa.ArrowNotImplementedError:
        return 0  # a table in a column, or another kind that no part is made of


def _lists(column: pa.Array, name: str) -> tuple[FloatArray, tuple[int, ...]]:
    """Sums of the lists, where they hold numbers, and their lengths, each once."""
    full = column.drop_null()
    entries, lengths = list_rows(full, name, "column")
    shown = tuple(sorted({int(length) for length in lengths}))
    if kind_of(entries.type) != "number" or kinds.is_boolean(entries.type) or entries.null_count:
        return np.full(len(full), np.nan), shown
    owner = np.repeat(np.arange(lengths.size), lengths)
    values = np.asarray(pc.cast(entries, pa.float64(), safe=False).to_numpy(zero_copy_only=False))
    return np.asarray(np.bincount(owner, weights=values, minlength=lengths.size), dtype=np.float64), shown


def _total(files: Files, opened: Any, seen: int) -> int | None:
    """Rows in all files: as they say, or by the length of a line; None where that cannot be told."""
    if files.format == "parquet":
        return sum(int(fragment.metadata.num_rows) for fragment in opened.fragments)
    if not all(os.path.isfile(path) and path.lower().endswith(PLAIN) for path in files.paths):
        return None if seen >= ROWS else seen
    return sum(_lines(path, header=files.format != "ndjson") for path in files.paths)


PLAIN = (".csv", ".tsv", ".ndjson", ".jsonl", ".json")


def _lines(path: str, *, header: bool) -> int:
    with open(path, "rb") as file:
        head = file.read(COUNTED)
    lines = head.count(b"\n") + (not head.endswith(b"\n"))
    size = os.path.getsize(path)
    return max(0, (lines if size <= len(head) else round(size * lines / len(head))) - header)
