"""Damaged files and random columns of every type: each gives a valid log or a BackcastError."""

from __future__ import annotations

import bz2
import gzip
import io
import json
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import backcast as bc
from backcast.io._column_guesses import take_sample
from tests.security.attack import PARTS, damaged_bytes, read_or_refuse

EXAMPLES = 40  # of each test; make fuzz runs more


def table(n: int = 40) -> pa.Table:
    rng = np.random.default_rng(0)
    return pa.table(
        {
            "x1": rng.normal(size=n).round(3),
            "x2": pa.array(["red", "blue", "", "é"] * (n // 4)),
            "x3": rng.integers(0, 2, n).astype(bool),
            "a": pa.array(["mail", "call"] * (n // 2)),
            "r": rng.integers(0, 2, n),
            "p": np.full(n, 0.5),
        }
    )


def parquet(**options: Any) -> bytes:
    sink = io.BytesIO()
    pa.parquet.write_table(table(), sink, row_group_size=16, **options)
    return sink.getvalue()


def csv(delimiter: str = ",") -> bytes:
    sink = io.BytesIO()
    pa.csv.write_csv(table(), sink, pa.csv.WriteOptions(delimiter=delimiter))
    return sink.getvalue()


def ndjson() -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in table().to_pylist())


def dsjson() -> bytes:
    line = {
        "_label_cost": -1,
        "_label_probability": 0.5,
        "_label_Action": 1,
        "_labelIndex": 0,
        "a": [1, 2],
        "p": [0.5, 0.5],
        "Timestamp": "2026-01-01",
        "c": {"u": {"age": 3, "city": "Rome"}, "_multi": [{"x": 1}, {"x": [0.5, "b"], "_text": "two words"}]},
    }
    return (json.dumps(line) + "\n").encode() * 3


CB = b"1:0.5:0.25 |user age:2 new |:0.5 x\n2:-1:0.75 | age:3\n1:0:0.5 2 3 'tag | a b:0.5\n" * 3
ADF = b"shared |u a:1 b\n0:1:0.5 | c:2\n| d\n\n| e\n0:-1:0.25 |v f:3\n\n" * 3


@cache
def original_files() -> dict[str, bytes]:
    return {
        "plain.parquet": parquet(compression="none", use_dictionary=False),
        "coded.parquet": parquet(compression="snappy", data_page_version="2.0"),
        "zstd.parquet": parquet(compression="zstd", write_page_index=True),
        "log.csv": csv(),
        "log.tsv": csv("\t"),
        "log.ndjson": ndjson(),
        "log.csv.gz": gzip.compress(csv(), mtime=0),
        "log.ndjson.gz": gzip.compress(ndjson(), mtime=0),
        "log.csv.bz2": bz2.compress(csv()),
        "log.dsjson": dsjson(),
        "cb.vw": CB,
        "adf.vw": ADF,
        "cb.vw.gz": gzip.compress(CB, mtime=0),
    }


NAMES = [
    *("plain.parquet", "coded.parquet", "zstd.parquet", "log.csv", "log.tsv", "log.ndjson", "log.csv.gz"),
    *("log.ndjson.gz", "log.csv.bz2", "log.dsjson", "cb.vw", "adf.vw", "cb.vw.gz"),
]


def read(path: Path) -> Any:
    if ".vw" in path.name or ".dsjson" in path.name:
        return bc.read_vw(path, hash_size=8)
    return bc.read_log(path, **PARTS, hash_size=8)


def test_the_list_of_names_is_complete() -> None:
    assert list(original_files()) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_undamaged_files_are_logs(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(original_files()[name])
    assert read_or_refuse(lambda: read(tmp_path / name)) == ""


@pytest.mark.parametrize("name", NAMES)
def test_damaged_files_are_logs_or_refused(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    path = tmp_path_factory.mktemp("damaged") / name

    @settings(max_examples=EXAMPLES)
    @given(content=damaged_bytes(original_files()[name]))
    def attack(content: bytes) -> None:
        path.write_bytes(content)
        read_or_refuse(lambda: read(path))

    attack()


@pytest.mark.parametrize("name", ["coded.parquet", "log.csv", "log.ndjson"])
def test_samples_of_damaged_files(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    path = tmp_path_factory.mktemp("sampled") / name

    @settings(max_examples=EXAMPLES // 2)
    @given(content=damaged_bytes(original_files()[name]))
    def attack(content: bytes) -> None:
        path.write_bytes(content)
        read_or_refuse(lambda: take_sample(path))

    attack()


def test_damaged_folders_of_the_open_bandit_dataset(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("obd")
    log = (
        b",timestamp,item_id,position,click,propensity_score,user_feature_0,user-item_affinity_0\n"
        b"0,2019-11-24,2,3,1,0.25,ab12,0\n1,2019-11-25,1,1,0,0.5,cd,1\n"
    )
    items = b",item_id,item_feature_0\n0,0,0.5\n1,1,0.25\n2,2,0.5\n"

    @settings(max_examples=EXAMPLES)
    @given(first=st.just(log) | damaged_bytes(log), second=st.just(items) | damaged_bytes(items))
    def attack(first: bytes, second: bytes) -> None:
        (folder / "all.csv").write_bytes(first)
        (folder / "item_context.csv").write_bytes(second)
        read_or_refuse(lambda: bc.read_obd(folder, hash_size=8))

    attack()


# Every type in every column

N = 3
TEXTS = st.text(max_size=6) | st.sampled_from(["", "\0", "\x1b[2J", "[bold]x[/]", "‮", "nan", "1e400", "a" * 200])
FLOATS = st.sampled_from([0.0, -0.0, 1.0, 0.5, 5e-324, 1e308, -1e308, float("inf"), float("-inf"), float("nan")])


def filled(values: st.SearchStrategy[Any], kind: pa.DataType) -> st.SearchStrategy[pa.Array]:
    rows = st.lists(st.none() | values, min_size=N, max_size=N) | st.lists(values, min_size=N, max_size=N)
    return rows.map(lambda items: pa.array(items, kind))


COLUMNS = st.one_of(
    filled(FLOATS, pa.float64()),
    filled(FLOATS, pa.float32()),
    filled(st.sampled_from([0.0, 1.0, float("nan")]).map(np.float16), pa.float16()),
    filled(st.integers(-(2**63), 2**63 - 1), pa.int64()),
    filled(st.integers(0, 2**64 - 1), pa.uint64()),
    filled(st.integers(0, 2), pa.int8()),
    filled(st.booleans(), pa.bool_()),
    filled(TEXTS, pa.string()),
    filled(TEXTS, pa.large_string()),
    filled(TEXTS, pa.dictionary(pa.int8(), pa.string())),
    filled(st.binary(max_size=4), pa.binary()),
    filled(st.binary(min_size=2, max_size=2), pa.binary(2)),
    filled(st.sampled_from([Decimal("1.5"), Decimal("-999.99")]), pa.decimal128(5, 2)),
    filled(st.datetimes().map(lambda time: time.replace(microsecond=0)), pa.timestamp("s")),
    filled(st.dates(), pa.date32()),
    filled(st.times(), pa.time64("us")),
    filled(st.integers(0, 2**40), pa.duration("us")),
    filled(st.lists(st.booleans(), max_size=3), pa.list_(pa.bool_())),
    filled(st.lists(FLOATS, max_size=3), pa.list_(pa.float64())),
    filled(st.lists(FLOATS, min_size=2, max_size=2), pa.list_(pa.float64(), 2)),
    filled(st.lists(TEXTS, max_size=2), pa.large_list(pa.string())),
    filled(st.fixed_dictionaries({"y": FLOATS}), pa.struct([("y", pa.float64())])),
    filled(st.lists(st.tuples(st.text(max_size=2), FLOATS), max_size=2), pa.map_(pa.string(), pa.float64())),
    st.just(pa.nulls(N)),
    st.just(pa.array([0.5] * N)),
    st.just(pa.array([0, 1, 0])),
    st.just(pa.array([b"a" * 16] * N, pa.binary(16)).cast(pa.binary(16))),
)
EXTRA = ["available", "logging_probabilities", "times"]


@settings(max_examples=150)
@given(data=st.data())
def test_columns_of_every_type_in_every_role(data: st.DataObject) -> None:
    columns = {name: data.draw(COLUMNS, name) for name in ("x1", "x2", "a", "r", "p", "e")}
    n_rows = data.draw(st.sampled_from([N, N, N, 0]))
    parts = {**PARTS, **dict.fromkeys(data.draw(st.sets(st.sampled_from(EXTRA), max_size=1)), "e")}
    options: dict[str, Any] = data.draw(st.sampled_from([{}, {"n_actions": 2}, {"action_labels": [0, 1]}]))
    frame = pa.table(columns).slice(0, n_rows)
    read_or_refuse(lambda: bc.Log.from_frame(frame, **parts, **options, hash_size=4))


@settings(max_examples=60)
@given(columns=st.lists(COLUMNS, min_size=6, max_size=6), groups=st.integers(1, 3))
def test_the_same_through_parquet(tmp_path_factory: pytest.TempPathFactory, columns: list[Any], groups: int) -> None:
    path = tmp_path_factory.mktemp("types") / "log.parquet"
    frame = pa.table(dict(zip(("x1", "x2", "a", "r", "p", "e"), columns, strict=True)))
    try:
        pa.parquet.write_table(frame, path, row_group_size=groups)
    except pa.ArrowException:
        return  # a type that Parquet does not have
    read_or_refuse(lambda: bc.read_log(path, **PARTS, hash_size=4))
    read_or_refuse(lambda: take_sample(path))


CELLS = st.sampled_from(["", "1", "0.5", "-0", "nan", "inf", "1e999", "true", '"a,b"', '"', "é", "\0", "[1]"])
HEADS = st.sampled_from(["x1", "x2", "a", "r", "p", "p", "", " ", "x\x1b[2J", '"x\n1"', "é"])


@settings(max_examples=100)
@given(
    head=st.lists(HEADS, max_size=7),
    rows=st.lists(st.lists(CELLS, max_size=7), max_size=5),
    end=st.sampled_from(["\n", "\r\n", "\r", "\n\n"]),
)
def test_random_tables_as_text(
    tmp_path_factory: pytest.TempPathFactory, head: list[str], rows: list[list[str]], end: str
) -> None:
    path = tmp_path_factory.mktemp("text") / "log.csv"
    path.write_text(end.join(",".join(row) for row in [head, *rows]), newline="")
    read_or_refuse(lambda: bc.read_log(path, **PARTS, hash_size=4))
    read_or_refuse(lambda: take_sample(path))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
KEYS = ["_label_cost", "_label_probability", "_label_Action", "_labelIndex", "a", "p", "c", "o", "pdrop", "Timestamp"]


@settings(max_examples=150)
@given(rows=st.lists(st.fixed_dictionaries({}, optional=dict.fromkeys([*KEYS, "x1", "r"], JSON)), max_size=3))
def test_random_json_objects(tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]]) -> None:
    folder = tmp_path_factory.mktemp("objects")
    content = "".join(json.dumps(row) + "\n" for row in rows)
    for name in ("log.ndjson", "log.dsjson"):
        (folder / name).write_text(content)
        read_or_refuse(lambda name=name: read(folder / name))  # type: ignore[misc]
