"""read_log and scan_log for Parquet, CSV and NDJSON files, and logs from Arrow frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from backcast.errors import ColumnError, LogError, OptionError
from backcast.io._columns import ColumnSpec, fit_layout, make_column_spec, resolve_columns
from backcast.io._csv_dialect import check_dialect_options
from backcast.io._features import HEAD_ROWS
from backcast.io._file_stream import FileLogStream, open_stream, rechunk
from backcast.io._files import FilePath, find_files
from backcast.io._log_builder import build_log, collect_labels, find_known_labels
from backcast.io._slices import FileSlice, open_files, to_slices
from backcast.io.limits import without_stream_remedy
from backcast.io.stream import LogStream
from backcast.log import Log, replace_columns
from backcast.provenance import log_source
from backcast.reading_summary import not_selected


def read_log(
    path: FilePath | Sequence[FilePath],
    *,
    context: Sequence[str] | str,
    action: str,
    reward: str,
    propensity: str | float | None,
    format: str | None = None,  # noqa: A002
    delimiter: str | None = None,
    encoding: str | None = None,
    **options: Any,
) -> Log:
    r"""Read a log from Parquet, CSV or NDJSON files.

    Only the named columns are read. Numbers and booleans become features unchanged, and so does each entry of a list
    column. A text column becomes one feature per value if there are at most ``hash_size`` values, else it is hashed
    into ``hash_size`` features. A timestamp becomes its hour (on a circle) and its weekday. Many features of text give
    a sparse matrix. ``log.feature_names`` has the name of each feature.

    Parameters
    ----------
    path
        A file, a pattern (``"log/*.parquet"``), a folder (``key=value`` folders below it are columns too), an
        address (``"s3://..."``), or a list of these. Text files may be compressed (``.csv.gz``).
    context
        Names and patterns of the context columns, in the order of the features.
    action, reward, propensity
        Names of these columns. A propensity that was the same for all events may be given as a number. If none was
        recorded, give None to estimate it (see :func:`backcast.with_estimated_propensities`).
    format
        ``"parquet"``, ``"csv"``, ``"tsv"`` or ``"ndjson"``; by default from the extensions of the files.
    delimiter, encoding
        Of CSV and TSV files; by default found from the first file (``,`` ``;`` tab or ``|``; UTF-8, UTF-16 or
        Windows-1252). Decimal commas are recognized if the delimiter is not a comma.
    **options
        ``n_actions``, ``action_labels``, ``available``, ``times``, ``reward_range``, ``logging_probabilities``,
        ``hash_size``, ``one_hot``, ``fill``, ``where``, ``outcomes``, ``segments``: see :class:`ColumnSpec`.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp(), "log.csv")
    >>> _ = file.write_text("hour,shown,click,p\n7,mail,1,0.5\n9,none,0,0.25\n")
    >>> log = read_log(file, context="hour", action="shown", reward="click", propensity="p")
    >>> log, log.action_labels
    (Log(2 events, 2 actions, 1 feature), ('mail', 'none'))
    """
    options |= {"context": context, "action": action, "reward": reward, "propensity": propensity}
    options |= {"format": format, "delimiter": delimiter, "encoding": encoding}
    log = open_log_files(path, **options).read()
    return replace_columns(_add_propensities(log), source=log.source) if propensity is None else log


def scan_log(
    path: FilePath | Sequence[FilePath],
    *,
    context: Sequence[str] | str,
    action: str,
    reward: str,
    propensity: str | float,
    format: str | None = None,  # noqa: A002
    delimiter: str | None = None,
    encoding: str | None = None,
    batch_rows: int = 65_536,
    **options: Any,
) -> LogStream:
    r"""Read a log in parts, for logs larger than memory; arguments are those of :func:`read_log`.

    All parts use the same codes of the actions, so the labels must be known before the first part: give ``n_actions``
    (actions are then whole numbers from 0) or ``action_labels``, else a pass over the action column collects them now.

    Parameters
    ----------
    batch_rows
        Number of events in a part.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp(), "log.csv")
    >>> _ = file.write_text("hour,shown,click,p\n7,mail,1,0.5\n9,none,0,0.25\n8,mail,0,0.5\n")
    >>> stream = scan_log(file, context="hour", action="shown", reward="click", propensity="p", batch_rows=2)
    >>> stream
    LogStream(3 events in 1 file, 2 actions)
    >>> [part.actions.tolist() for part in stream]
    [[0, 1], [0]]
    """
    if propensity is None:
        raise OptionError("propensities can be estimated only from a log in memory; read it with read_log")
    options |= {"context": context, "action": action, "reward": reward, "propensity": propensity}
    options |= {"format": format, "delimiter": delimiter, "encoding": encoding}
    with without_stream_remedy():
        return open_log_files(path, batch_rows=batch_rows, **options).in_time_order()


def open_log_files(
    path: FilePath | Sequence[FilePath],
    *,
    format: str | None = None,  # noqa: A002
    delimiter: str | None = None,
    encoding: str | None = None,
    batch_rows: int = 65_536,
    **columns: Any,
) -> FileLogStream:
    """Open files as a stream whose order in time is not checked yet: ``read`` sorts it, ``in_time_order`` checks it.

    ``columns`` are the fields of :class:`ColumnSpec`.
    """
    spec = make_column_spec(**columns)
    check_dialect_options(delimiter, encoding)
    opened = open_files(find_files(path, format), delimiter=delimiter, encoding=encoding)
    layout = resolve_columns(spec, opened.schema)
    slices = to_slices(opened, layout)
    layout = fit_layout(layout, opened.schema, lambda names: _read_head(slices, names))
    dialect = {"format": format, "delimiter": delimiter, "encoding": encoding}
    source = log_source("scan_log", path, {**columns, **dialect, "batch_rows": batch_rows})
    return replace(open_stream(slices, layout, batch_rows), source=source)


def _read_head(slices: Sequence[FileSlice], names: list[str]) -> pa.Table:
    """Return the first rows of these columns."""
    batches = (batch for file_slice in slices for batch in file_slice.read_batches(names))
    head = next(rechunk(batches, HEAD_ROWS), [])
    if not head:
        raise LogError(f"{slices[0].path}: the log is empty, or `where` selects no row; it needs at least one event")
    # Files may differ in the types of a column; those of the first file decide.
    return pa.Table.from_batches([batch for batch in head if batch.schema.equals(head[0].schema)])


def log_from_frame(frame: Any, columns: ColumnSpec) -> Log:
    """Build a log from a frame with an Arrow interface (pandas, polars, pyarrow, duckdb) or a dict of arrays.

    Examples
    --------
    >>> columns = ColumnSpec(context="hour", action="shown", reward="click", propensity="p")
    >>> log_from_frame({"hour": [1, 2], "shown": ["a", "b"], "click": [0, 1], "p": [0.5, 0.5]}, columns)
    Log(2 events, 2 actions, 1 feature)
    """
    schema, batches = _read_frame(frame)
    layout = resolve_columns(columns, schema)
    left_out: list[int] = []
    if layout.where is not None:
        batches = list(layout.where.apply(batches, list(layout.names), left_out))
    batches = [batch.select(list(layout.names)) for batch in batches]
    n = sum(batch.num_rows for batch in batches)
    if n == 0:
        selected = "" if layout.where is None else ", or `where` selects none of its rows"
        raise LogError(f"the frame is empty{selected}; a log needs at least one event")
    head = pa.Table.from_batches(batches).slice(0, HEAD_ROWS)
    layout = fit_layout(layout, schema, head.select)
    labels = find_known_labels(layout, schema.field(columns.action).type)
    if labels is None:
        labels = collect_labels((batch.column(columns.action) for batch in batches), layout.declared)
    log = build_log(batches, n, layout, labels)
    log = replace_columns(log, reading=replace(log.reading, left_out=not_selected(sum(left_out))))
    return _add_propensities(log) if columns.propensity is None else log


def _read_frame(frame: Any) -> tuple[pa.Schema, list[pa.RecordBatch]]:
    try:
        if isinstance(frame, Mapping):
            frame = pa.table(dict(frame))
        if not hasattr(frame, "__arrow_c_stream__"):
            raise LogError(
                f"a {type(frame).__name__} has no Arrow interface (__arrow_c_stream__); give a pandas, polars, pyarrow "
                "or duckdb frame (collect a lazy one first), or a dict of columns"
            )
        reader = pa.RecordBatchReader.from_stream(frame)
        return reader.schema, list(reader)
    except (pa.ArrowException, TypeError) as problem:
        raise ColumnError(f"the frame has a column that Arrow cannot hold ({problem}); give it one type") from None


def _add_propensities(log: Log) -> Log:
    """Return the log with estimated propensities."""
    from backcast.propensities.estimate import with_estimated_propensities

    return with_estimated_propensities(log)
