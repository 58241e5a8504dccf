"""Files looked into before anything is read: their columns, whether they belong together, the rows they announce."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset

from backcast.errors import LogError, SourceError
from backcast.sources.files import REMEDIES, Files, Stamp, reading, stamps_of
from backcast.sources.layout import Layout, kind_of
from backcast.sources.limits import check_columns, check_depth
from backcast.sources.pieces import Piece, announced_rows, folders_of, miscounted

__all__ = ["Opened", "open_files", "to_pieces"]

LOOKERS = 8  # threads that look into files
HANDFUL = 16  # files that one of them is given at a time


@dataclass(frozen=True)
class Opened:
    """Files that could be opened: a fragment and a schema each, and the schema of all."""

    format: str
    fragments: tuple[Any, ...]
    schemas: tuple[pa.Schema, ...]
    schema: pa.Schema
    stamps: tuple[Stamp, ...]


def open_files(files: Files, looked_at: int | None = None) -> Opened:
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
    return Opened(files.format, fragments, schemas, _common(schemas), stamps)


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


def to_pieces(opened: Opened, layout: Layout) -> tuple[Piece, ...]:
    """Check that the files hold the same columns, and note the rows of those that say so."""
    pieces: list[Piece] = []
    names, checked = layout.names, None
    for fragment, schema, stamp in zip(opened.fragments, opened.schemas, opened.stamps, strict=True):
        # of thousands of files nearly all are alike, and nothing need be looked at again
        if checked is None or not schema.equals(checked, check_metadata=True):
            _check_same(opened, schema, fragment.path, layout)
            read_as, checked = _read_as(schema, opened.format, layout), schema
        piece = Piece(fragment, opened.format, read_as, stamp=stamp)
        if opened.format == "parquet":
            rows = _group_rows(fragment, names)
            piece = replace(piece, groups=range(len(rows)), group_rows=rows, n_rows=sum(rows))
        pieces.append(piece)
    return tuple(pieces)


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


def _check_same(opened: Opened, schema: pa.Schema, path: str, layout: Layout) -> None:
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


def _read_as(schema: pa.Schema, file_format: str, layout: Layout) -> pa.Schema:
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
