"""What files hold, and their rows in order with bounded memory."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet

from backcast.errors import SourceError
from backcast.sources.files import Stamp, reading

__all__ = ["Piece", "announced_rows", "folders_of", "miscounted"]

READ_VALUES = 2**21  # values read at a time: 16 MB of numbers
READ_ROWS = 2**16
BUFFERED = 2**25  # bytes of pages held for all columns of a Parquet file together


@dataclass(frozen=True)
class Piece:
    """Rows of one file: all of them, or a stretch.

    ``groups`` are the row groups of a Parquet file that hold the stretch, ``group_rows`` how many of its rows are in
    each; ``skip`` rows are left out at the start, and all after ``limit``. ``stamp`` is the file as it was opened:
    one that has changed since is not read.
    """

    fragment: Any
    format: str
    schema: pa.Schema
    groups: range = range(0)
    group_rows: tuple[int, ...] = ()
    n_rows: int | None = None
    skip: int = 0
    limit: int | None = None
    stamp: Stamp | None = None

    @property
    def path(self) -> str:
        """The file."""
        return str(self.fragment.path)

    def batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """These columns in file order, never more than a few batches in memory.

        There are as many rows as the file announced, or an error comes where one is missing or one too many.
        """
        self._check_unchanged()
        came = 0
        with reading(self.path, self.format):
            for batch in _stretch(self._all_batches(names), self.skip, self.limit):
                came += batch.num_rows
                if self.n_rows is not None and came > self.n_rows:
                    break
                yield batch
        # rows of a file that was written to meanwhile may be neither the old ones nor the new
        self._check_unchanged()
        if self.n_rows not in (None, came):
            raise miscounted(self.path, f"{self.n_rows:,} rows are announced but {came:,} came")

    def _all_batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        rows = max(1024, min(READ_ROWS, READ_VALUES // max(1, len(names))))
        if self.format == "parquet":
            return _parquet_batches(self, names, rows)
        batches: Iterator[pa.RecordBatch] = self.fragment.to_batches(
            schema=self.schema, columns=list(names), batch_size=rows, batch_readahead=2, fragment_readahead=1
        )
        return batches

    def _check_unchanged(self) -> None:
        if self.stamp is not None:
            self.stamp.check(self.path, self.fragment.filesystem)

    def counted(self, name: str) -> Piece:
        """The same with its number of rows, found by reading one column where the file does not say."""
        return self if self.n_rows is not None else replace(self, n_rows=self.at_least(None, name))

    def at_least(self, rows: int | None, name: str) -> int:
        """Number of rows; where the file does not say, they are counted, no further than to ``rows``."""
        if self.n_rows is not None:
            return self.n_rows
        found = 0
        for batch in self.batches([name]):
            found += batch.num_rows
            if rows is not None and found >= rows:
                break
        return found

    def with_groups(self, first: int, last: int) -> Piece:
        """Only the rows in the row groups ``first..last-1`` of these."""
        before = sum(self.group_rows[:first])
        return self.between(before, before + sum(self.group_rows[first:last]))

    def between(self, start: int, end: int | None) -> Piece:
        """Only the rows ``start..end-1`` of these (all from ``start`` on, if ``end`` is None).

        Row groups before and after them will not be read.
        """
        if end is None and self.n_rows is not None:
            end = self.n_rows
        n_rows = None if end is None else end - start
        if not self.group_rows:
            return replace(self, skip=self.skip + start, limit=n_rows, n_rows=n_rows)
        assert end is not None
        edges = [0, *accumulate(self.group_rows)]
        first = bisect_right(edges, start) - 1
        last = bisect_left(edges, end)
        rows = [min(end, edges[g + 1]) - max(start, edges[g]) for g in range(first, last)]
        skip = start - edges[first] + (self.skip if first == 0 else 0)
        return replace(
            self, groups=self.groups[first:last], group_rows=tuple(rows), n_rows=n_rows, skip=skip, limit=n_rows
        )


def _stretch(batches: Iterator[pa.RecordBatch], skip: int, limit: int | None) -> Iterator[pa.RecordBatch]:
    """The rows after the first ``skip``, at most ``limit`` of them.

    >>> batch = pa.record_batch({"x": [1, 2, 3]})
    >>> [part["x"].to_pylist() for part in _stretch(iter([batch, batch, batch]), 4, 3)]
    [[2, 3], [1]]
    """
    left = limit
    for batch in batches:
        if left == 0:
            return
        start = min(skip, batch.num_rows)
        skip -= start
        kept = batch.slice(start) if left is None else batch.slice(start, left)
        if kept.num_rows:
            left = None if left is None else left - kept.num_rows
            yield kept


def _parquet_batches(piece: Piece, names: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
    """Pages are fetched as they are needed; the dataset scanner would hold one or two whole row groups."""
    folders = folders_of(piece.fragment)
    own = [name for name in names if name not in folders]
    known = frozenset(own)
    text = [name for name in own if pa.types.is_string(piece.schema.field(name).type)]
    buffer = max(2**14, min(2**20, BUFFERED // max(1, len(own))))
    with pyarrow.parquet.ParquetFile(
        piece.path, filesystem=piece.fragment.filesystem, read_dictionary=text, buffer_size=buffer, pre_buffer=False
    ) as file:
        # one by one: of several together, rows that one lacks would be taken from the next, and all after it be shifted
        for group in piece.groups:
            announced, came = announced_rows(file.metadata, group, known, piece.path), 0
            for batch in file.iter_batches(rows, row_groups=[group], columns=own):
                columns = [_column(batch, name, folders, piece.schema) for name in names]
                yield pa.RecordBatch.from_arrays(columns, names=list(names))
                came += batch.num_rows
            if came != announced:
                raise miscounted(piece.path, f"row group {group} announces {announced:,} rows but {came:,} came")


def announced_rows(metadata: Any, group: int, names: Collection[str], path: str) -> int:
    """Rows of a row group, if all its columns agree; of lists, whose values are more than rows, that is not told."""
    found = metadata.row_group(group)
    rows = int(found.num_rows)
    for place in range(found.num_columns):
        column = found.column(place)
        if column.path_in_schema in names and column.num_values != rows:
            name, values = column.path_in_schema, column.num_values
            raise miscounted(path, f"row group {group} announces {rows:,} rows but {values:,} values of {name!r}")
    return rows


def miscounted(path: str, how: str) -> SourceError:
    """The error for a file that holds other rows than it says."""
    return SourceError(f"{path}: {how}; the file is damaged or not whole. Write it anew")


def _column(batch: pa.RecordBatch, name: str, folders: dict[str, Any], schema: pa.Schema) -> pa.Array:
    if name not in folders:
        return batch.column(name)
    return pa.repeat(pa.scalar(folders[name], schema.field(name).type), batch.num_rows)


def folders_of(fragment: Any) -> dict[str, Any]:
    """What the ``key=value`` folders above a file say."""
    return dict(pyarrow.dataset.get_partition_keys(fragment.partition_expression))
