"""read_log and scan_log for Parquet, CSV and NDJSON files, and logs from Arrow frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from backcast.errors import ColumnError, LogError, OptionError
from backcast.io._arrow import build_log, collect_labels, find_known_labels
from backcast.io._columns import ColumnSpec, resolve_columns
from backcast.io._file_stream import FileLogStream, open_stream
from backcast.io._files import FilePath, find_files
from backcast.io._slices import open_files, to_slices
from backcast.io.stream import LogStream
from backcast.log import Log


def read_log(
    path: FilePath | Sequence[FilePath],
    *,
    context: Sequence[str] | str,
    action: str,
    reward: str,
    propensity: str | float | None,
    format: str | None = None,  # noqa: A002
    **options: Any,
) -> Log:
    r"""Read a log from Parquet, CSV or NDJSON files.

    Only the named columns are read. Numbers and booleans become features unchanged; a text column is hashed into
    ``hash_size`` features. Many hashed features give a sparse matrix.

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
    **options
        ``n_actions``, ``action_labels``, ``available``, ``times``, ``reward_range``, ``logging_probabilities``,
        ``hash_size``: see :class:`ColumnSpec`.

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
    log = open_log_files(path, format=format, **options).read()
    return _add_propensities(log) if propensity is None else log


def scan_log(
    path: FilePath | Sequence[FilePath],
    *,
    context: Sequence[str] | str,
    action: str,
    reward: str,
    propensity: str | float,
    format: str | None = None,  # noqa: A002
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
    return open_log_files(path, format=format, batch_rows=batch_rows, **options).in_time_order()


def open_log_files(
    path: FilePath | Sequence[FilePath],
    *,
    format: str | None = None,  # noqa: A002
    batch_rows: int = 65_536,
    **columns: Any,
) -> FileLogStream:
    """Open files as a stream whose order in time is not checked yet: ``read`` sorts it, ``in_time_order`` checks it.

    ``columns`` are the fields of :class:`ColumnSpec`.
    """
    spec = ColumnSpec(**columns)
    opened = open_files(find_files(path, format))
    layout = resolve_columns(spec, opened.schema)
    return open_stream(to_slices(opened, layout), layout, batch_rows)


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
    batches = [batch.select(list(layout.names)) for batch in batches]
    n = sum(batch.num_rows for batch in batches)
    if n == 0:
        raise LogError("the frame is empty; a log needs at least one event")
    labels = find_known_labels(layout, schema.field(columns.action).type)
    if labels is None:
        labels = collect_labels((batch.column(columns.action) for batch in batches), layout.declared)
    log = build_log(batches, n, layout, labels)
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
