"""Row ranges of files: every sequence of cuts selects the rows that slicing a list selects."""

from __future__ import annotations

from itertools import accumulate, pairwise
from pathlib import Path

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from backcast.io._files import FileStamp, list_files
from backcast.io._slices import FileSlice, RowRange, _select_rows

ROWS = range(30)
STAMP = FileStamp(None, None)
RANGES = st.tuples(st.integers(0, 20), st.none() | st.integers(0, 10)).map(
    lambda pair: RowRange(pair[0], None if pair[1] is None else pair[0] + pair[1])
)


def rows_in(rows: RowRange) -> list[int]:
    return list(ROWS[rows.start : rows.stop])


@given(RANGES, RANGES)
def test_intersection_holds_the_rows_of_both(first: RowRange, second: RowRange) -> None:
    both = first.intersect(second)
    assert set(rows_in(both)) == set(rows_in(first)) & set(rows_in(second))
    assert both.n_rows is None or both.n_rows >= 0


@given(RANGES, st.integers(0, 20))
def test_a_shift_moves_every_row(rows: RowRange, by: int) -> None:
    assert rows.shift(by).shift(-by) == rows
    assert rows.shift(by).n_rows == rows.n_rows
    if rows.stop is not None:
        assert rows.shift(by) == (rows.start + by, rows.stop + by)


@given(st.lists(st.integers(0, 6), max_size=6), RANGES)
def test_rows_of_batches_are_selected_by_number(lengths: list[int], rows: RowRange) -> None:
    edges = [0, *accumulate(lengths)]
    batches = [pa.record_batch({"row": pa.array(range(*edge), pa.int64())}) for edge in pairwise(edges)]
    selected = [batch["row"].to_pylist() for batch in _select_rows(iter(batches), rows)]
    assert [row for batch in selected for row in batch] == list(range(edges[-1]))[rows.start : rows.stop]
    assert all(selected)


@given(st.lists(st.integers(0, 6), max_size=6), st.data())
def test_random_cuts_of_a_parquet_file(group_rows: list[int], data: st.DataObject) -> None:
    """Cut a slice up to four times; its rows and the row groups to read are those found row by row."""
    edges = tuple(accumulate(group_rows, initial=0))
    rows = list(range(edges[-1]))
    group_of = {row: group for group, edge in enumerate(pairwise(edges)) for row in range(*edge)}
    file_slice = FileSlice(
        None, "parquet", pa.schema([]), STAMP, n_rows=len(rows), groups=range(len(group_rows)), edges=edges
    )
    for _ in range(data.draw(st.integers(0, 4), "cuts")):
        start = data.draw(st.integers(0, len(rows)), "start")
        stop = data.draw(st.none() | st.integers(start, len(rows)), "stop")
        rows, file_slice = rows[start:stop], file_slice.slice_rows(start, stop)
    assert file_slice.n_rows == len(rows)
    assert file_slice.rows.stop is None or list(range(edges[-1]))[slice(*file_slice.rows)] == rows
    assert len(file_slice.edges) == len(file_slice.groups) + 1
    groups = [group_of[row] for row in rows]
    assert file_slice.group_rows == tuple(groups.count(group) for group in file_slice.groups)
    if rows:
        assert (file_slice.groups[0], file_slice.groups[-1]) == (groups[0], groups[-1]) or not file_slice.rows.stop
        assert file_slice.edges[0] <= rows[0] <= rows[-1] < file_slice.edges[-1]


@given(st.lists(st.integers(1, 6), min_size=1, max_size=6), st.data())
def test_slices_of_row_groups(group_rows: list[int], data: st.DataObject) -> None:
    edges = tuple(accumulate(group_rows, initial=0))
    whole = FileSlice(
        None, "parquet", pa.schema([]), STAMP, n_rows=edges[-1], groups=range(len(group_rows)), edges=edges
    )
    first = data.draw(st.integers(0, len(group_rows) - 1))
    last = data.draw(st.integers(first + 1, len(group_rows)))
    part = whole.slice_groups(first, last)
    assert part.groups == range(first, last)
    assert part.group_rows == tuple(group_rows[first:last])


@given(st.integers(0, 20), st.integers(0, 20), st.integers(0, 20))
def test_cuts_of_a_file_of_unknown_length(first: int, second: int, length: int) -> None:
    whole = FileSlice(None, "csv", pa.schema([]), STAMP)
    part = whole.slice_rows(first).slice_rows(second)
    assert (part.rows, part.n_rows, part.group_rows) == (RowRange(first + second), None, ())
    assert part.slice_rows(1, 1 + length).rows == RowRange(first + second + 1, first + second + 1 + length)


def test_linked_folders_are_entered_once_and_after_real_ones(tmp_path: Path) -> None:
    for folder in ("log/b", "elsewhere"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "x.csv").touch()
    (tmp_path / "log" / "a").mkdir()
    (tmp_path / "log" / "a" / "link").symlink_to(tmp_path / "log" / "b")
    for name in ("c", "d"):
        (tmp_path / "log" / name).symlink_to(tmp_path / "elsewhere")
    files = [str(Path(file).relative_to(tmp_path)) for file in list_files(str(tmp_path / "log"))]
    assert files == ["log/b/x.csv", "log/c/x.csv"]
