"""FileSlice: opened files, compared schemas, and row ranges read in bounded memory."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet

from backcast.errors import LogError, SourceError
from backcast.io._arrow import kind_of
from backcast.io._columns import ColumnLayout
from backcast.io._csv_dialect import HEAD_BYTES, CsvDialect, find_dialect
from backcast.io._files import REMEDIES, Files, FileStamp, convert_read_errors, read_stamps
from backcast.io._filters import RowFilter
from backcast.io.limits import check_columns, check_depth

SCHEMA_THREADS = 8
READ_VALUES = 2**21  # values read at a time: 16 MB of numbers
READ_ROWS = 2**16  # rows read at a time, at most
BUFFER_BYTES = 2**25  # for the pages of all columns of a Parquet file together


@dataclass(frozen=True)
class OpenedFiles:
    """Files that could be opened: the fragment, schema and stamp of each, and the schema of all together."""

    format: str
    fragments: tuple[Any, ...]
    schemas: tuple[pa.Schema, ...]
    schema: pa.Schema
    stamps: tuple[FileStamp, ...]
    dialect: CsvDialect | None = None


def open_files(
    files: Files, checked_bytes: int | None = None, *, delimiter: str | None = None, encoding: str | None = None
) -> OpenedFiles:
    """Read the schema of each file, with the columns that its ``key=value`` folders add.

    The first ``checked_bytes`` of JSON (all, if None) are checked for nesting that would crash Arrow's reader.
    Delimiter and encoding of CSV are found from the first file, unless they are given.
    """
    if files.format == "ndjson":
        for path in files.paths:
            _check_nesting(path, files.filesystem, checked_bytes)
    stamps = read_stamps(files.paths, files.filesystem)
    format_name: Any = {"ndjson": "json"}.get(files.format, files.format)
    dialect = None
    if files.format in ("csv", "tsv"):
        with (
            convert_read_errors(files.paths[0], files.format),
            files.filesystem.open_input_stream(files.paths[0]) as text,
        ):
            head = text.read(HEAD_BYTES)
        dialect = find_dialect(head, delimiter or ("\t" if files.format == "tsv" else None), encoding)
        format_name = dialect.file_format()
    with convert_read_errors(files.paths[0], files.format):
        dataset = pyarrow.dataset.dataset(
            list(files.paths),
            format=format_name,
            filesystem=files.filesystem,
            partitioning=pyarrow.dataset.HivePartitioning.discover(),
            partition_base_dir=files.base,
        )
    by_path = {fragment.path: fragment for fragment in dataset.get_fragments()}
    fragments = tuple(by_path[path] for path in files.paths)
    # Several at once: a remote disk has a long latency per file.
    with ThreadPoolExecutor(SCHEMA_THREADS, "backcast reads schemas") as pool:
        schemas = tuple(pool.map(lambda fragment: _read_schema(fragment, files.format, dataset.schema), fragments))
    return OpenedFiles(files.format, fragments, schemas, _common_schema(schemas), stamps, dialect)


def _check_nesting(path: str, filesystem: Any, checked_bytes: int | None) -> None:
    try:
        with convert_read_errors(path, "ndjson"), filesystem.open_input_stream(path) as stream:
            check_depth(stream, checked_bytes)
    except SourceError:
        raise
    except LogError as problem:
        raise SourceError(f"{path}: {problem}. {REMEDIES['ndjson']}") from None


def _read_schema(fragment: Any, file_format: str, dataset_schema: pa.Schema) -> pa.Schema:
    with convert_read_errors(fragment.path, file_format):
        schema = fragment.physical_schema
        check_columns(fragment.path, len(schema))
        names = schema.names  # raises here, not later, if a name is not UTF-8
        partitions = [dataset_schema.field(name) for name in partition_values(fragment) if name not in names]
        return pa.schema([*schema, *partitions])


def _common_schema(schemas: Sequence[pa.Schema]) -> pa.Schema:
    """Return the schema of the first file; a column that is all null there has the type of another file."""
    fields = list(schemas[0])
    for number, field in enumerate(fields):
        for schema in schemas[1:] if pa.types.is_null(field.type) else ():
            index = schema.get_field_index(field.name)
            if index >= 0 and not pa.types.is_null(schema.field(index).type):
                fields[number] = schema.field(index)
                break
    return pa.schema(fields)


def to_slices(opened: OpenedFiles, layout: ColumnLayout) -> tuple[FileSlice, ...]:
    """Return a slice per file; check that the files hold the same columns and that Parquet row counts agree."""
    slices: list[FileSlice] = []
    names, checked_schema = layout.read_names, None
    for fragment, schema, stamp in zip(opened.fragments, opened.schemas, opened.stamps, strict=True):
        # Of thousands of files nearly all are alike, and need no second check.
        if checked_schema is None or not schema.equals(checked_schema, check_metadata=True):
            _check_same_columns(opened, schema, fragment.path, layout)
            read_schema, checked_schema = _schema_to_read(schema, opened.format, layout), schema
        file_slice = FileSlice(fragment, opened.format, read_schema, stamp, opened.dialect, layout.where)
        if opened.format == "parquet":
            group_rows = _read_group_rows(fragment, names)
            n_all = sum(group_rows)
            if layout.where is not None:
                group_rows = replace(file_slice, groups=range(len(group_rows))).count_selected()
            edges = tuple(accumulate(group_rows, initial=0))
            file_slice = replace(file_slice, groups=range(len(group_rows)), edges=edges)
            file_slice = replace(file_slice, n_rows=edges[-1], n_left_out=n_all - edges[-1])
        slices.append(file_slice)
    return tuple(slices)


def _check_same_columns(opened: OpenedFiles, schema: pa.Schema, path: str, layout: ColumnLayout) -> None:
    first = opened.fragments[0].path
    for name in layout.read_names:
        index = schema.get_field_index(name)
        if index < 0:
            raise SourceError(
                f"{first} and {path} differ: column {name!r} is missing in the second. "
                "Read them separately, or add the column"
            )
        expected, actual = opened.schema.field(name).type, schema.field(index).type
        if kind_of(actual) not in (kind_of(expected), "empty"):
            raise SourceError(
                f"{first} and {path} differ: column {name!r} is {expected} in the first and {actual} in the second. "
                "Write it with one type everywhere"
            )


def _schema_to_read(schema: pa.Schema, file_format: str, layout: ColumnLayout) -> pa.Schema:
    """Return the needed fields; of a text file, those guessed to be integers as floats.

    The types of a text file are guessed from its first block, and fractions may follow.
    """
    fields = [schema.field(name) for name in layout.read_names]
    if file_format == "parquet":
        return pa.schema(fields)
    unchanged = {layout.columns.action, layout.columns.times}
    for number, field in enumerate(fields):
        if (pa.types.is_integer(field.type) or pa.types.is_null(field.type)) and field.name not in unchanged:
            fields[number] = field.with_type(pa.float64())
        elif pa.types.is_list(field.type) and pa.types.is_integer(field.type.value_type):
            fields[number] = field.with_type(pa.list_(pa.float64()))
    return pa.schema(fields)


def _read_group_rows(fragment: Any, names: Sequence[str]) -> tuple[int, ...]:
    """Return the number of rows that each row group of a Parquet file announces, if the file is consistent."""
    with convert_read_errors(fragment.path, "parquet"):
        rows = tuple(group.num_rows for group in fragment.row_groups)
        total = fragment.metadata.num_rows
    if min(rows, default=0) < 0 or sum(rows) != total:
        raise _row_count_error(fragment.path, f"it announces {total:,} rows and row groups of {sum(rows):,} together")
    for group, announced in enumerate(rows):
        if announced == 0:
            # Reading skips an empty group, so this is the only check that it is empty.
            _check_group(fragment.metadata, group, names, fragment.path)
    return rows


class RowRange(NamedTuple):
    """Rows ``start..stop-1``; without ``stop``, all rows from ``start`` on."""

    start: int
    stop: int | None = None

    @property
    def n_rows(self) -> int | None:
        """Number of rows, if there is an end."""
        return None if self.stop is None else self.stop - self.start

    def shift(self, rows: int) -> RowRange:
        """Return the range that lies this many rows further down.

        >>> RowRange(2, 5).shift(-2)
        RowRange(start=0, stop=3)
        """
        return RowRange(self.start + rows, None if self.stop is None else self.stop + rows)

    def intersect(self, other: RowRange) -> RowRange:
        """Return the rows in both ranges; an empty range has equal ends.

        >>> RowRange(2).intersect(RowRange(0, 5)), RowRange(2, 4).intersect(RowRange(6, 8))
        (RowRange(start=2, stop=5), RowRange(start=6, stop=6))
        """
        start = max(self.start, other.start)
        stops = [stop for stop in (self.stop, other.stop) if stop is not None]
        return RowRange(start, max(start, min(stops)) if stops else None)


ALL_ROWS = RowRange(0)


@dataclass(frozen=True)
class FileSlice:
    """Rows of one file: all of them, or a range.

    ``stamp`` identifies the version of the file that was opened: a file that has changed since is not read.
    ``n_rows`` is the number of rows, None until it is known. Of a Parquet file, ``groups`` are the row groups that
    hold the rows, and ``edges`` the rows of the file at which these groups begin, then where the last one ends. With a
    filter ``where``, only the rows that it selects count in all of these; ``n_left_out`` is the number of the others,
    None until it is known, and for a range of rows.
    """

    fragment: Any
    format: str
    schema: pa.Schema
    stamp: FileStamp
    dialect: CsvDialect | None = None
    where: RowFilter | None = None
    rows: RowRange = ALL_ROWS
    n_rows: int | None = None
    n_left_out: int | None = None
    groups: range = range(0)
    edges: tuple[int, ...] = ()

    @property
    def path(self) -> str:
        return str(self.fragment.path)

    @property
    def group_rows(self) -> tuple[int, ...]:
        """Number of rows of this slice in each of its row groups; empty for other formats than Parquet."""
        return tuple(self.rows.intersect(RowRange(*edges)).n_rows or 0 for edges in pairwise(self.edges))

    def slice_rows(self, start: int, stop: int | None = None) -> FileSlice:
        """Return the rows ``start..stop-1`` of this slice; row groups outside of them will not be read."""
        rows = RowRange(start, self.n_rows if stop is None else stop).shift(self.rows.start)
        if not self.edges:
            return replace(self, rows=rows, n_rows=rows.n_rows, n_left_out=None)
        assert rows.stop is not None  # the metadata of Parquet files announces the number of rows
        first = bisect_right(self.edges, rows.start) - 1
        last = max(first, bisect_left(self.edges, rows.stop))
        groups, edges = self.groups[first:last], self.edges[first : last + 1]
        return replace(self, rows=rows, n_rows=rows.n_rows, n_left_out=None, groups=groups, edges=edges)

    def slice_groups(self, first: int, last: int) -> FileSlice:
        """Return the rows of this slice in its row groups ``first..last-1``."""
        start = sum(self.group_rows[:first])
        return self.slice_rows(start, start + sum(self.group_rows[first:last]))

    def with_row_count(self, name: str) -> FileSlice:
        """Return the slice with a known number of rows; if it is unknown, read one column."""
        if self.n_rows is not None:
            return self
        left_out: list[int] = []
        n_rows = sum(batch.num_rows for batch in self.read_batches([name], left_out))
        return replace(self, n_rows=n_rows, n_left_out=sum(left_out))

    def count_rows(self, name: str, most: int | None = None) -> int:
        """Return the number of rows; if it is unknown, read one column and stop counting at ``most``."""
        if self.n_rows is not None:
            return self.n_rows
        n_rows = 0
        for batch in self.read_batches([name]):
            n_rows += batch.num_rows
            if most is not None and n_rows >= most:
                break
        return n_rows

    def read_batches(
        self, names: Sequence[str], left_out: list[int] | None = None, most_rows: int = READ_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """Yield these columns in file order in batches of at most ``most_rows``, with only a few in memory.

        The numbers of rows that the filter leaves out are appended to ``left_out``. Raises if the file has more or
        fewer rows than it announced.
        """
        self.stamp.check(self.path, self.fragment.filesystem)
        needed = list(dict.fromkeys((*names, *(self.where.columns if self.where else ()))))
        batch_rows = max(1024, min(most_rows, READ_ROWS, READ_VALUES // max(1, len(needed))))
        n_read = 0
        with convert_read_errors(self.path, self.format):
            if self.format == "parquet":
                batches: Iterator[pa.RecordBatch] = self._read_parquet(needed, batch_rows)
            else:
                options = {"batch_size": batch_rows, "batch_readahead": 2, "fragment_readahead": 1}
                batches = self._text_fragment().to_batches(schema=self.schema, columns=needed, **options)
            if self.where is not None:
                batches = self.where.apply(batches, list(names), [] if left_out is None else left_out)
            for batch in _select_rows(batches, self.rows.shift(-self.edges[0] if self.edges else 0)):
                n_read += batch.num_rows
                if self.n_rows is not None and n_read > self.n_rows:
                    break
                yield batch
        # Rows of a file that was written to while it was read may be neither the old nor the new ones.
        self.stamp.check(self.path, self.fragment.filesystem)
        if self.n_rows not in (None, n_read):
            raise _row_count_error(self.path, f"{self.n_rows:,} rows are announced but {n_read:,} were read")

    def _text_fragment(self) -> Any:
        """Return the fragment with its encoding, which a fragment loses when it is sent to another process."""
        if self.dialect is None or self.dialect.encoding == "utf8":
            return self.fragment
        return self.dialect.file_format().make_fragment(
            self.path, self.fragment.filesystem, self.fragment.partition_expression
        )

    def count_selected(self) -> tuple[int, ...]:
        """Return the number of rows that the filter selects in each row group of a Parquet file."""
        assert self.where is not None
        counts = []
        for group in self.groups:
            with convert_read_errors(self.path, self.format):
                batches = replace(self, groups=range(group, group + 1))._read_parquet(self.where.columns, READ_ROWS)
                counts.append(sum(self.where.select(batch).num_rows for batch in batches))
        return tuple(counts)

    def _read_parquet(self, names: Sequence[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the row groups, page by page; the dataset scanner would hold one or two whole groups."""
        partitions = partition_values(self.fragment)
        in_file = [name for name in names if name not in partitions]
        text = [name for name in in_file if pa.types.is_string(self.schema.field(name).type)]
        with pyarrow.parquet.ParquetFile(
            self.path,
            filesystem=self.fragment.filesystem,
            read_dictionary=text,
            buffer_size=max(2**14, min(2**20, BUFFER_BYTES // max(1, len(in_file)))),
            pre_buffer=False,
        ) as file:
            # With one thread, giving it each column as a task only costs time: a tenth of that of decoding.
            use_threads = pa.cpu_count() > 1
            # One group at a time: in a joint read, rows that one group lacks would be filled from the next one.
            for group in self.groups:
                announced = _check_group(file.metadata, group, frozenset(in_file), self.path)
                n_read = 0
                for batch in file.iter_batches(batch_rows, [group], in_file, use_threads=use_threads):
                    columns = [
                        pa.repeat(pa.scalar(partitions[name], self.schema.field(name).type), batch.num_rows)
                        if name in partitions
                        else batch.column(name)
                        for name in names
                    ]
                    yield pa.RecordBatch.from_arrays(columns, names=list(names))
                    n_read += batch.num_rows
                if n_read != announced:
                    raise _row_count_error(
                        self.path, f"row group {group} announces {announced:,} rows but {n_read:,} were read"
                    )


def _select_rows(batches: Iterator[pa.RecordBatch], rows: RowRange) -> Iterator[pa.RecordBatch]:
    """Yield the rows of this range, counted from the first row of the first batch.

    >>> batch = pa.record_batch({"x": [1, 2, 3]})
    >>> [part["x"].to_pylist() for part in _select_rows(iter([batch, batch, batch]), RowRange(4, 7))]
    [[2, 3], [1]]
    """
    first = 0
    for batch in batches:
        if rows.stop is not None and first >= rows.stop:
            return
        selected = rows.shift(-first).intersect(RowRange(0, batch.num_rows))
        if selected.n_rows:
            yield batch.slice(selected.start, selected.n_rows)
        first += batch.num_rows


def _check_group(metadata: Any, group: int, names: Collection[str], path: str) -> int:
    """Return the number of rows of a row group; refuse it if one of its columns announces another number.

    Columns of lists have other names than in the schema and are not checked: they have more values than rows.
    """
    group_metadata = metadata.row_group(group)
    n_rows = int(group_metadata.num_rows)
    for index in range(group_metadata.num_columns):
        column = group_metadata.column(index)
        if column.path_in_schema in names and column.num_values != n_rows:
            raise _row_count_error(
                path,
                f"row group {group} announces {n_rows:,} rows but {column.num_values:,} values of "
                f"{column.path_in_schema!r}",
            )
    return n_rows


def _row_count_error(path: str, problem: str) -> SourceError:
    return SourceError(f"{path}: {problem}; the file is damaged or incomplete. Write it again")


def partition_values(fragment: Any) -> dict[str, Any]:
    """Return the values of the ``key=value`` folders above a file."""
    return dict(pyarrow.dataset.get_partition_keys(fragment.partition_expression))
