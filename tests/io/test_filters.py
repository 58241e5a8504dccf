"""Row filters: conditions in the form of SQL, Arrow expressions, and what is refused."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from backcast.errors import ColumnError, OptionError
from backcast.io._filters import parse_filter

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
