"""How context columns become features: categories, lists, times, missing values; the same in memory and on streams."""

from __future__ import annotations

import datetime
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
import pytest

import backcast as bc
from backcast.io import _features
from backcast.io._features import WEEKDAYS

ROLES: dict[str, Any] = {"action": "a", "reward": "r", "propensity": "p"}


def frame(**columns: Any) -> pa.Table:
    n = len(next(iter(columns.values())))
    return pa.table({**columns, "a": [i % 2 for i in range(n)], "r": [0.5] * n, "p": [0.5] * n})


def log_of(table: pa.Table, context: Any, **options: Any) -> bc.Log:
    return bc.Log.from_frame(table, context=context, **ROLES, **options)


def contexts(log: bc.Log) -> list[list[float]]:
    rows: list[list[float]] = np.asarray(log.contexts).tolist()
    return rows


def mixed_table(n: int = 300) -> pa.Table:
    start = datetime.datetime(2026, 1, 1)
    return frame(
        embedding=[[float(i), i + 0.5] for i in range(n)],
        when=[start + datetime.timedelta(hours=5 * i) for i in range(n)],
        age=[None if i % 7 == 0 else i % 50 for i in range(n)],
        device=[None if i % 11 == 0 else ("phone", "desk")[i % 2] for i in range(n)],
        word=[f"w{i % 90}" for i in range(n)],
    )


class TestCategories:
    def test_few_values_have_one_feature_each(self) -> None:
        log = log_of(frame(device=["phone", "desk", "phone"]), "device")
        assert log.feature_names == ("device=desk", "device=phone")
        assert contexts(log) == [[0, 1], [1, 0], [0, 1]]

    def test_more_values_than_hash_size_are_hashed(self) -> None:
        log = log_of(frame(word=["u", "v", "w"]), "word", hash_size=2)
        assert log.feature_names == ("word (hash 0)", "word (hash 1)")

    def test_declared_values_and_others(self) -> None:
        log = log_of(frame(device=["phone", "watch"]), "device", one_hot={"device": ["tv", "phone"]})
        assert log.feature_names == ("device=tv", "device=phone")
        assert contexts(log) == [[0, 1], [0, 0]]

    def test_a_value_after_the_first_rows_has_no_feature(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("backcast.io.tables.HEAD_ROWS", 2)
        log = log_of(frame(device=["phone", "desk", "watch"]), "device")
        assert contexts(log) == [[0, 1], [1, 0], [0, 0]]

    @pytest.mark.parametrize(
        ("one_hot", "message"),
        [
            ("yes", "one_hot is 'yes'"),
            ({"device": "phone"}, "it must be a list of the values"),
            ({"device": ["u", "u"]}, "one_hot repeats a category of 'device'"),
            ({"devise": ["u"]}, "there is no column 'devise'"),
        ],
    )
    def test_wrong_declarations(self, one_hot: Any, message: str) -> None:
        with pytest.raises(bc.BackcastError, match=message):
            log_of(frame(device=["phone", "desk"]), "device", one_hot=one_hot)


class TestLists:
    @pytest.mark.parametrize("type_", [pa.list_(pa.float32()), pa.list_(pa.float32(), 2), pa.large_list(pa.int64())])
    def test_each_entry_is_a_feature(self, type_: pa.DataType) -> None:
        log = log_of(frame(e=pa.array([[1, 2], [3, 4]], type_)), "e")
        assert log.feature_names == ("e[0]", "e[1]")
        assert contexts(log) == [[1, 2], [3, 4]]

    def test_other_lengths_are_refused_with_their_row(self) -> None:
        with pytest.raises(bc.LogError, match=r"row 1: context column 'e' is a list of 1 numbers, and of 2"):
            log_of(frame(e=[[1.0, 2.0], [3.0]]), "e")

    def test_lists_of_text_and_empty_lists(self) -> None:
        with pytest.raises(bc.ColumnError, match="lists of a context must hold numbers"):
            log_of(frame(e=[["u"], ["v"]]), "e")
        with pytest.raises(bc.ColumnError, match="empty lists"):
            log_of(frame(e=pa.array([[], []], pa.list_(pa.int64()))), "e")

    def test_missing_lists_and_entries(self) -> None:
        table = frame(e=pa.array([[1.0, None], None, [3.0, 4.0]]))
        with pytest.raises(bc.LogError, match="row 1: context is missing"):
            log_of(table, "e")
        log = log_of(table, "e", fill=9)
        assert log.feature_names == ("e[0]", "e[1]", "e is missing")
        assert contexts(log) == [[1, 9, 1], [9, 9, 1], [3, 4, 0]]


class TestTimes:
    def test_hour_on_a_circle_and_weekday(self) -> None:
        # 24 December 2026 is a Thursday, 06:00 is a quarter of the day
        log = log_of(frame(t=[datetime.datetime(2026, 12, 24, 6), datetime.datetime(2026, 12, 25, 12)]), "t")
        assert log.feature_names[:2] == ("t hour (sine)", "t hour (cosine)")
        assert [name.split()[-1] for name in log.feature_names[2:]] == list(WEEKDAYS)
        expected = [[1, 0, 0, 0, 0, 1, 0, 0, 0], [0, -1, 0, 0, 0, 0, 1, 0, 0]]
        assert np.allclose(contexts(log), expected, atol=1e-12)

    def test_local_time_of_a_zone(self) -> None:
        midnight = pa.array([datetime.datetime(2026, 12, 24, 23, 0)] * 2, pa.timestamp("us", "UTC"))
        in_berlin = log_of(frame(t=midnight.cast(pa.timestamp("us", "Europe/Berlin"))), "t")
        assert np.asarray(in_berlin.contexts)[0, 1] == math.cos(0)
        assert dict(zip(in_berlin.feature_names, contexts(in_berlin)[0], strict=True))["t is a Friday"] == 1

    def test_dates_have_a_weekday_only(self) -> None:
        log = log_of(frame(t=[datetime.date(2026, 12, 24), datetime.date(2026, 12, 25)]), "t")
        assert log.n_features == 7
        assert np.asarray(log.contexts).argmax(axis=1).tolist() == [3, 4]

    def test_text_dates_by_day_and_month(self) -> None:
        log = log_of(frame(t=["24/12/2026 06:00", "01/02/2026 12:00"]), "t", times="t")
        assert contexts(log)[1][5] == 1
        assert log.times is not None
        assert log.times.astype("datetime64[D]").tolist() == [datetime.date(2026, 2, 1), datetime.date(2026, 12, 24)]

    def test_times_that_may_be_read_in_two_ways_are_refused(self) -> None:
        with pytest.raises(bc.ColumnError, match="whether the day or the month comes first"):
            log_of(frame(t=["01/02/2026", "03/04/2026"]), [], times="t")


class TestMissingValues:
    @pytest.mark.parametrize(
        ("column", "remedy"),
        [([1.0, None], "fill={'x': 'mean'}"), (["u", None], "fill={'x': 'unknown'}"), ([1.0, math.nan], "'mean'")],
    )
    def test_they_are_refused_with_both_remedies(self, column: list[Any], remedy: str) -> None:
        with pytest.raises(bc.LogError) as caught:
            log_of(frame(x=pa.array(column)), "x")
        assert str(caught.value).startswith("row 1: context")
        assert "where='x is not null'" in str(caught.value)
        assert remedy in str(caught.value)

    @pytest.mark.parametrize(("fill", "value"), [("mean", 2.0), ("zero", 0.0), (7, 7.0), ({"x": "mean"}, 2.0)])
    def test_numbers_are_filled_and_marked(self, fill: Any, value: float) -> None:
        log = log_of(frame(x=pa.array([1.0, None, 3.0, math.nan], from_pandas=False)), "x", fill=fill)
        assert log.feature_names == ("x", "x is missing")
        assert contexts(log) == [[1, 0], [value, 1], [3, 0], [value, 1]]

    def test_text_is_a_category_or_a_text(self) -> None:
        table = frame(w=["u", None])
        assert log_of(table, "w", fill="mean").feature_names == ("w=u", "w is missing")
        assert log_of(table, "w", fill={"w": "none"}).feature_names == ("w=none", "w=u")

    def test_columns_without_missing_values_are_not_marked(self) -> None:
        log = log_of(frame(x=[1, None], y=[1, 2]), ["x", "y"], fill="zero")
        assert log.feature_names == ("x", "x is missing", "y")
        assert log_of(frame(y=[1, 2]), "y", fill={"y": 0}).feature_names == ("y", "y is missing")

    def test_the_mean_is_that_of_the_first_rows(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("backcast.io.tables.HEAD_ROWS", 2)
        log = log_of(frame(x=[1.0, 3.0, None, 100.0]), "x", fill={"x": "mean"})
        assert contexts(log)[2] == [2.0, 1.0]
        with pytest.raises(bc.LogError, match=r"row 2: context is missing.*fill=\{'x': 'mean'\}"):
            log_of(frame(x=[1.0, 3.0, None, 100.0]), "x", fill="mean")

    def test_nulls_in_a_dictionary(self) -> None:
        words = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["u", None]))
        with pytest.raises(bc.LogError, match="row 1: context is missing"):
            log_of(frame(w=words), "w")

    @pytest.mark.parametrize("fill", ["median", math.inf, True, {"x": None}, [1], {"x": "none"}])
    def test_wrong_values(self, fill: Any) -> None:
        with pytest.raises(bc.OptionError, match="give 'mean', 'zero', a number"):
            log_of(frame(x=[1.0, None]), "x", fill=fill)

    def test_other_mistakes(self) -> None:
        with pytest.raises(bc.ColumnError, match="there is no column 'z'"):
            log_of(frame(x=[1.0, None]), "x", fill={"z": 0})
        with pytest.raises(bc.ColumnError, match="no number in the first 2 rows"):
            log_of(frame(x=pa.nulls(2)), "x", fill="mean")


class TestStreams:
    @pytest.mark.parametrize("hash_size", [32, 600])
    @pytest.mark.parametrize("where", [None, "age is null or age >= 10 and device = 'phone'", pc.field("age") > 20])
    def test_memory_frame_and_parts_agree(self, tmp_path: Path, where: Any, hash_size: int) -> None:
        table = mixed_table()
        pyarrow.parquet.write_table(table, tmp_path / "log.parquet", row_group_size=70)
        options = {
            **ROLES,
            "context": ["embedding", "when", "age", "device", "word"],
            "fill": "mean",
            "where": where,
            # 600 features of text make the contexts sparse
            "one_hot": hash_size == 32,
            "hash_size": hash_size,
        }
        whole = bc.read_log(tmp_path / "log.parquet", **options)
        assert bc.Log.from_frame(table, **options).fingerprint() == whole.fingerprint()
        stream = bc.scan_log(tmp_path / "log.parquet", batch_rows=37, n_actions=2, **options)
        stream = pickle.loads(pickle.dumps(stream))
        assert stream.n_events == len(whole)
        for part in [*stream, *(log for share in stream.split(3) for log in share)]:
            assert part.feature_names == whole.feature_names
            assert part.fingerprint() == whole[part.rows].fingerprint()
        assert stream.slice(10, 20).read().fingerprint() == whole[10:20].fingerprint()

    def test_csv_with_a_filter(self, tmp_path: Path) -> None:
        (tmp_path / "log.csv").write_text("x,a,r,p\n" + "".join(f"{i},{i % 2},1,0.5\n" for i in range(100)))
        stream = bc.scan_log(tmp_path / "log.csv", context="x", where="x >= 40 and x != 41", batch_rows=25, **ROLES)
        assert stream.with_event_count().n_events == 59
        values = np.concatenate([part.contexts for part in stream]).ravel()
        assert values.tolist() == [40.0, *range(42, 100)]
        assert contexts(stream.split_head(5)[0]) == [[40], [42], [43], [44], [45]]

    def test_numbers_alone_need_no_head(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        pyarrow.parquet.write_table(frame(x=[1.0, 2.0]), tmp_path / "log.parquet")
        monkeypatch.setattr("backcast.io.tables._read_head", lambda *_: pytest.fail("the head was read"))
        assert bc.read_log(tmp_path / "log.parquet", context="x", **ROLES).feature_names == ("x",)

    def test_an_empty_selection_is_an_error(self, tmp_path: Path) -> None:
        pyarrow.parquet.write_table(frame(x=[1.0, 2.0], w=["u", "v"]), tmp_path / "log.parquet")
        for context in ("x", "w"):
            with pytest.raises(bc.LogError, match="empty"):
                bc.read_log(tmp_path / "log.parquet", context=context, where="x > 5", **ROLES)
            with pytest.raises(bc.LogError, match="empty"):
                log_of(frame(x=[1.0, 2.0], w=["u", "v"]), context, where="x > 5")


def test_head_rows_are_those_of_the_manual() -> None:
    assert _features.HEAD_ROWS == 65_536
