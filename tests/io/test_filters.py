"""Row filters: conditions in the form of SQL, Arrow expressions, and what is refused."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import backcast as bc
from backcast.errors import ColumnError, OptionError
from backcast.io._filters import parse_filter
from backcast.reading_summary import LeftOut

BATCH = pa.record_batch(
    {
        "age": pa.array([10, 20, None, 40]),
        "city": pa.array(["Bonn", "St. John's", "", None]),
        "paid": [True, False, True, False],
        "f 1": [0.5, float("nan"), 1.5, -2.0],
        "when": [datetime.datetime(2026, 1, day) for day in (1, 2, 3, 4)],
        "zoned": pa.array([datetime.datetime(2026, 1, day) for day in (1, 2, 3, 4)], pa.timestamp("us", "UTC")),
        "tags": [["u"], [], ["v"], ["u"]],
    }
)


def rows(where: Any) -> list[int]:
    numbered = BATCH.append_column("row", pa.array(range(4)))
    return list(parse_filter(where, BATCH.schema).select(numbered).column("row").to_pylist())


@pytest.mark.parametrize(
    ("where", "selected"),
    [
        ("age = 10", [0]),
        ("age == 1e1", [0]),
        ("age <> 10", [1, 3]),
        ("age > 10 AND age <= 40", [1, 3]),
        ("age is null", [2]),
        ("age IS NOT NULL", [0, 1, 3]),
        ('"f 1" is null', [1]),
        ('"f 1" < -1.5', [3]),
        ("city = 'St. John''s'", [1]),
        ("city in ('Bonn', '')", [0, 2]),
        ("city not in ('Bonn')", [1, 2]),
        ("age between 10 and 20 or paid", [0, 1, 2]),
        ("not (paid or age > 30)", [1]),
        ("paid = true", [0, 2]),
        ("when >= '2026-01-03'", [2, 3]),
        ("zoned < '2026-01-02 12:00:00'", [0, 1]),
        ("when = when and paid", [0, 2]),
        ((pc.field("age") > 10) & pc.field("f 1").is_valid(), [1, 3]),
    ],
)
def test_rows_that_are_selected(where: Any, selected: list[int]) -> None:
    assert rows(where) == selected


@pytest.mark.parametrize("file_format", ["parquet", "csv"])
@pytest.mark.parametrize("options", [{}, {"n_actions": 2}, {"times": "t"}])
def test_rows_that_are_not_selected_are_counted(tmp_path: Path, file_format: str, options: dict[str, Any]) -> None:
    """Of the first file nothing is selected, of the second 30 of 60 rows."""
    write = pq.write_table if file_format == "parquet" else pyarrow.csv.write_csv
    for number in (0, 1):
        rows = range(60 * number, 60 * number + 60)
        table = {"x": [row % 2 + number - 1 for row in rows], "a": [row % 3 % 2 for row in rows], "t": list(rows)}
        write(pa.table({**table, "r": [0.5] * 60, "p": [0.5] * 60}), tmp_path / f"{number}.{file_format}")
    roles: dict[str, Any] = {
        "context": "x",
        "action": "a",
        "reward": "r",
        "propensity": "p",
        "where": "x > 0",
        **options,
    }
    left_out = (LeftOut("not selected by where", 90),)
    log, stream = bc.read_log(tmp_path, **roles), bc.scan_log(tmp_path, **roles)
    assert (len(log), log.reading.left_out) == (30, left_out)
    assert stream.with_event_count().reading.left_out == stream.read().reading.left_out == left_out
    # that of a part is not known
    assert stream.slice(3, 5).reading.left_out == ()
    readings = [bc.check(each).reading for each in (stream, log)]
    assert all(reading is not None and reading.left_out == left_out for reading in readings)
    note = "Reading left out 90 (not selected by where)."
    assert note in bc.evaluate(log, bc.Uniform(), bc.IPS()).notes
    assert note in bc.evaluate(stream.with_event_count(), bc.Uniform(), bc.IPS()).notes
    frame = pa.table({"x": [0, 1, 1], "a": [0, 1, 0], "r": [1, 1, 1], "p": [0.5] * 3, "t": [1, 2, 3]})
    assert bc.Log.from_frame(frame, **roles).reading.left_out == (LeftOut("not selected by where", 1),)
    assert bc.Log.from_frame(frame, **{**roles, "where": None}).reading.left_out == ()


def test_dictionary_columns() -> None:
    batch = pa.record_batch({"city": pa.array(["Bonn", "Graz"]).dictionary_encode()})
    assert parse_filter("city = 'Graz'", batch.schema).select(batch).num_rows == 1


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("age > 'old'", r"where compares the column 'age' \(int64\) with 'old'; give a number"),
        ("city = 5", "give text in single quotes"),
        ("paid = 1", "give true or false"),
        ("when > 'soon'", "give a time such as"),
        ("tags = 'u'", "with 'u'; give another column"),
        ("age >", "with nothing"),
        ("age", "a comparison is expected after the column 'age'"),
        ("age not 5", "'in' or 'between' is expected"),
        ("(age > 5", r"'\)' is expected at the end"),
        ("age > 5 5", "'5' is not expected there"),
        ("age > 5; drop", "'; drop' is not understood"),
        ("'Bonn' = city", "a column is expected before"),
        ("", "a column is expected at the end"),
        ("age in (1, 2", r"'\)' is expected"),
        ("(" * 5000 + "age > 5", "nests too deep"),
        ("age > 5 and " * 1000 + "paid", "characters"),
        (7, "give a condition such as"),
        (pc.field("age") + 1, "cannot be applied"),
        (pc.field("none") > 1, "cannot be applied"),
    ],
)
def test_wrong_conditions(where: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        rows(where)


def test_a_misspelled_column_is_suggested() -> None:
    with pytest.raises(ColumnError, match=r"there is no column 'aeg' .given as where.; did you mean 'age'"):
        rows("aeg > 5")
