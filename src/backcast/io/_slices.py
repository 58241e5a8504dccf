"""Files looked into before anything is read: their columns, whether they belong together, the rows they announce."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet

from backcast.errors import LogError, SourceError
from backcast.io._columns import ColumnLayout, kind_of
from backcast.io._files import REMEDIES, Files, FileStamp, reading, stamps_of
from backcast.io.limits import check_columns, check_depth

LOOKERS = 8  # threads that look into files


HANDFUL = 16  # files that one of them is given at a time


@dataclass(frozen=True)
class OpenedFiles:
    """Files that could be opened: a fragment and a schema each, and the schema of all."""

    format: str
    fragments: tuple[Any, ...]
    schemas: tuple[pa.Schema, ...]
    schema: pa.Schema
    stamps: tuple[FileStamp, ...]


def open_files(files: Files, looked_at: int | None = None) -> OpenedFiles:
    """Look into each file: its columns, and those that its ``key=value`` folders add.

    Of JSON, the first ``looked_at`` bytes (all, if not given) are shown not to nest too deeply for Arrow's reader.
    """
    if files.format == "ndjson":
        for path in files.paths:
            _check_nesting(path, files.filesystem, looked_at)
    stamps = stamps_of(files.paths, files.filesystem)
    with reading(files.paths[0], files.format):
        dataset = pyarrow.dataset.dataset(
            list(files.paths),
            format=_dataset_format(files.format),
            filesystem=files.filesystem,
            partitioning=pyarrow.dataset.HivePartitioning.discover(),
            partition_base_dir=files.base,
        )
    by_path = {fragment.path: fragment for fragment in dataset.get_fragments()}
    fragments = tuple(by_path[path] for path in files.paths)
    schemas = tuple(_schemas(fragments, files.format, dataset.schema))
    return OpenedFiles(files.format, fragments, schemas, _common(schemas), stamps)


def _check_nesting(path: str, filesystem: Any, looked_at: int | None) -> None:
    try:
        with reading(path, "ndjson"), filesystem.open_input_stream(path) as stream:
            check_depth(stream, looked_at)
    except SourceError:
        raise
    except LogError as problem:
        raise SourceError(f"{path}: {problem}. {REMEDIES['ndjson']}") from None


def _dataset_format(file_format: str) -> Any:
    if file_format == "tsv":
        return pyarrow.dataset.CsvFileFormat(parse_options=pyarrow.csv.ParseOptions(delimiter="\t"))
    return "json" if file_format == "ndjson" else file_format


def _schemas(fragments: Sequence[Any], file_format: str, dataset: pa.Schema) -> Iterator[pa.Schema]:
    """The columns of each file; several are looked into at once, because a disk far away takes its time for each."""

    def look(some: Sequence[Any]) -> list[pa.Schema]:
        return [_schema_of(fragment, file_format, dataset) for fragment in some]

    with ThreadPoolExecutor(LOOKERS, "backcast looks into files") as pool:
        for found in pool.map(look, [fragments[i : i + HANDFUL] for i in range(0, len(fragments), HANDFUL)]):
            yield from found


def _schema_of(fragment: Any, file_format: str, dataset: pa.Schema) -> pa.Schema:
    with reading(fragment.path, file_format):
        own = fragment.physical_schema
        check_columns(fragment.path, len(own))
        names = own.names  # fails here, not later, where a name is not UTF-8
        return pa.schema([*own, *(dataset.field(name) for name in folders_of(fragment) if name not in names)])


def _common(schemas: Sequence[pa.Schema]) -> pa.Schema:
    """The first file's columns; a type it cannot know, all being null, is another's."""
    fields = list(schemas[0])
    for number, field in enumerate(fields):
        for schema in schemas[1:] if pa.types.is_null(field.type) else ():
            place = schema.get_field_index(field.name)
            if place >= 0 and not pa.types.is_null(schema.field(place).type):
                fields[number] = schema.field(place)
                break
    return pa.schema(fields)


def to_slices(opened: OpenedFiles, layout: ColumnLayout) -> tuple[FileSlice, ...]:
    """Check that the files hold the same columns, and note the rows of those that say so."""
    slices: list[FileSlice] = []
    names, checked = layout.names, None
    for fragment, schema, stamp in zip(opened.fragments, opened.schemas, opened.stamps, strict=True):
        # of thousands of files nearly all are alike, and nothing need be looked at again
        if checked is None or not schema.equals(checked, check_metadata=True):
            _check_same(opened, schema, fragment.path, layout)
            read_as, checked = _read_as(schema, opened.format, layout), schema
        file_slice = FileSlice(fragment, opened.format, read_as, stamp=stamp)
        if opened.format == "parquet":
            rows = _group_rows(fragment, names)
            file_slice = replace(file_slice, groups=range(len(rows)), group_rows=rows, n_rows=sum(rows))
        slices.append(file_slice)
    return tuple(slices)


def _group_rows(fragment: Any, names: Sequence[str]) -> tuple[int, ...]:
    """How many rows each row group of a Parquet file announces, if that is what the file does."""
    with reading(fragment.path, "parquet"):
        rows = tuple(group.num_rows for group in fragment.row_groups)
        total = fragment.metadata.num_rows
    if min(rows, default=0) < 0 or sum(rows) != total:
        raise miscounted(fragment.path, f"it announces {total:,} rows and row groups of {sum(rows):,} together")
    for group, announced in enumerate(rows):
        if announced == 0:
            # nobody will read it, and see that it is not empty
            announced_rows(fragment.metadata, group, names, fragment.path)
    return rows


def _check_same(opened: OpenedFiles, schema: pa.Schema, path: str, layout: ColumnLayout) -> None:
    first = opened.fragments[0].path
    for name in layout.names:
        place = schema.get_field_index(name)
        if place < 0:
            raise SourceError(
                f"{first} and {path} differ: column {name!r} is missing in the second. "
                "Read them apart, or add the column"
            )
        ours, theirs = opened.schema.field(name).type, schema.field(place).type
        if kind_of(theirs) not in (kind_of(ours), "empty"):
            raise SourceError(
                f"{first} and {path} differ: column {name!r} is {ours} in the first and {theirs} in the second. "
                "Write it with one type everywhere"
            )


def _read_as(schema: pa.Schema, file_format: str, layout: ColumnLayout) -> pa.Schema:
    """The needed fields; numbers guessed from a text file's first lines may have a fraction further down."""
    given = layout.columns
    fields = [schema.field(name) for name in layout.names]
    if file_format not in ("csv", "tsv", "ndjson"):
        return pa.schema(fields)
    kept = {given.action, given.times}
    return pa.schema([_widened(field) if field.name not in kept else field for field in fields])


def _widened(field: pa.Field) -> pa.Field:
    guessed = pa.types.is_integer(field.type) or pa.types.is_null(field.type)
    return field.with_type(pa.float64()) if guessed else field


READ_VALUES = 2**21  # values read at a time: 16 MB of numbers


READ_ROWS = 2**16


BUFFERED = 2**25  # bytes of pages held for all columns of a Parquet file together


@dataclass(frozen=True)
class FileSlice:
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
    stamp: FileStamp | None = None

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

    def counted(self, name: str) -> FileSlice:
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

    def with_groups(self, first: int, last: int) -> FileSlice:
        """Only the rows in the row groups ``first..last-1`` of these."""
        before = sum(self.group_rows[:first])
        return self.between(before, before + sum(self.group_rows[first:last]))

    def between(self, start: int, end: int | None) -> FileSlice:
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


def _parquet_batches(file_slice: FileSlice, names: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
    """Pages are fetched as they are needed; the dataset scanner would hold one or two whole row groups."""
    folders = folders_of(file_slice.fragment)
    own = [name for name in names if name not in folders]
    known = frozenset(own)
    text = [name for name in own if pa.types.is_string(file_slice.schema.field(name).type)]
    buffer = max(2**14, min(2**20, BUFFERED // max(1, len(own))))
    with pyarrow.parquet.ParquetFile(
        file_slice.path,
        filesystem=file_slice.fragment.filesystem,
        read_dictionary=text,
        buffer_size=buffer,
        pre_buffer=False,
    ) as file:
        # one by one: of several together, rows that one lacks would be taken from the next, and all after it be shifted
        for group in file_slice.groups:
            announced, came = announced_rows(file.metadata, group, known, file_slice.path), 0
            for batch in file.iter_batches(rows, row_groups=[group], columns=own):
                columns = [_column(batch, name, folders, file_slice.schema) for name in names]
                yield pa.RecordBatch.from_arrays(columns, names=list(names))
                came += batch.num_rows
            if came != announced:
                raise miscounted(file_slice.path, f"row group {group} announces {announced:,} rows but {came:,} came")


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
