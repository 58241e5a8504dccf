"""Logs from Parquet, CSV and NDJSON files, in memory and as streams."""

from __future__ import annotations

import errno
import gzip
import json
import os
import pickle
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet
import pytest

from backcast.errors import BackcastError, ColumnError, LogError, OptionError, SourceError
from backcast.evaluation import evaluate
from backcast.evaluators.drns import DRns
from backcast.io._slices import FileSlice
from backcast.io.stream import LogStream
from backcast.io.tables import read_log, scan_log
from backcast.log import Log
from backcast.policies.linear import EpsilonGreedy

PARTS: dict[str, Any] = {"context": "x_*", "action": "a", "reward": "r", "propensity": "p"}


def table(n: int = 6, start: int = 0) -> pa.Table:
    rows = range(start, start + n)
    return pa.table(
        {
            "x_1": [row / 2 for row in rows],
            "x_2": list(rows),
            "a": ["mail" if row % 3 else "call" for row in rows],
            "r": [row % 2 for row in rows],
            "p": [0.25 + 0.5 * (row % 2) for row in rows],
        }
    )


def write(data: pa.Table, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    name = path.name.removesuffix(".gz")
    if name.endswith((".csv", ".tsv")):
        options = pa.csv.WriteOptions(delimiter="\t" if name.endswith(".tsv") else ",")
        pa.csv.write_csv(data, path.with_name(name), options)
    elif name.endswith((".ndjson", ".jsonl", ".json")):
        path.with_name(name).write_text("".join(json.dumps(row) + "\n" for row in data.to_pylist()))
    else:
        pa.parquet.write_table(data, path, row_group_size=4)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(path.with_name(name).read_bytes()))
        path.with_name(name).unlink()
    return path


def check_log(log: Log, data: pa.Table) -> None:
    assert np.asarray(log.contexts).T.tolist() == [data["x_1"].to_pylist(), data["x_2"].to_pylist()]
    assert [log.action_labels[code] for code in log.actions] == data["a"].to_pylist()
    assert log.rewards.tolist() == data["r"].to_pylist()
    assert log.propensities.tolist() == data["p"].to_pylist()
    assert log.rows.tolist() == list(range(data.num_rows))


def message_of(*args: Any, **options: Any) -> str:
    with pytest.raises(BackcastError) as caught:
        read_log(*args, **{**PARTS, **options})
    return str(caught.value)


# Formats

NAMES = ["log.parquet", "log.pq", "log.csv", "log.csv.gz", "log.tsv", "log.ndjson", "log.jsonl", "log.json",
         "log.ndjson.gz"]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_every_format(tmp_path: Path, name: str) -> None:
    path = write(table(), tmp_path / name)
    check_log(read_log(path, **PARTS), table())
    check_log(read_log(str(path), **PARTS), table())


@pytest.mark.parametrize("name", ["log.parquet", "log.csv", "log.ndjson"])
def test_format_may_be_given(tmp_path: Path, name: str) -> None:
    path = write(table(), tmp_path / name).rename(tmp_path / "log.data")
    check_log(read_log(path, format=name.rpartition(".")[2], **PARTS), table())


@pytest.mark.parametrize("kind", ["parquet", "csv", "ndjson"])
def test_pattern_list_and_folder_join_files(tmp_path: Path, kind: str) -> None:
    first = write(table(4), tmp_path / f"day_1.{kind}")
    second = write(table(3, 4), tmp_path / f"day_2.{kind}")
    (tmp_path / "_SUCCESS").write_text("")
    (tmp_path / ".hidden.parquet").write_text("")
    (tmp_path / "notes.txt").write_text("not data")
    sources: list[Any] = [str(tmp_path / f"*.{kind}"), tmp_path, [first, str(second)], f"file://{tmp_path}"]
    for source in sources:
        check_log(read_log(source, **PARTS), table(7))


def test_list_keeps_its_order(tmp_path: Path) -> None:
    early, late = write(table(2), tmp_path / "b.parquet"), write(table(2, 2), tmp_path / "a.parquet")
    check_log(read_log([early, late], **PARTS), table(4))


def test_file_named_twice_is_read_once(tmp_path: Path) -> None:
    path = write(table(), tmp_path / "a.parquet")
    check_log(read_log([path, str(tmp_path / "*.parquet")], **PARTS), table())


def test_name_with_pattern_characters(tmp_path: Path) -> None:
    check_log(read_log(write(table(), tmp_path / "a[1].parquet"), **PARTS), table())


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_folders_are_columns(tmp_path: Path, kind: str) -> None:
    base = tmp_path / "run=7"
    write(table(2), base / "day=1" / "shop=north east" / f"x.{kind}")
    write(table(2, 2), base / "day=2" / "shop=south" / f"x.{kind}")
    log = read_log(base, **{**PARTS, "context": ["day", "x_*", "shop"]}, hash_size=4, one_hot=False)
    assert np.asarray(log.contexts)[:, 0].tolist() == [1, 1, 2, 2]
    assert log.n_features == 3 + 4
    by_folder = read_log(str(base / "day=*" / "*" / f"*.{kind}"), **{**PARTS, "action": "shop"})
    assert by_folder.action_labels == ("north east", "south")
    assert by_folder.actions.tolist() == [0, 0, 1, 1]
    assert "there is no column 'run'" in message_of(base, context="run")


def test_partitions_written_by_arrow(tmp_path: Path) -> None:
    data = table(12).append_column("k", pa.array([row // 6 for row in range(12)]))
    pa.dataset.write_dataset(data, tmp_path, format="parquet", partitioning=["k"], partitioning_flavor="hive")
    log = read_log(tmp_path, **{**PARTS, "context": ["k", "x_2"]})
    assert np.asarray(log.contexts).tolist() == [[row // 6, row] for row in range(12)]


def test_only_the_columns_named_are_read(tmp_path: Path) -> None:
    data = table().append_column("blob", pa.array([{"k": [1]}] * 6)).append_column("x_1.more", pa.array([None] * 6))
    log = read_log(write(data, tmp_path / "a.parquet"), **{**PARTS, "context": ["x_1", "x_2"]})
    check_log(log, table())


def test_unnamed_column_beside_the_log(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(",x_1,x_2,a,r,p\n0,0.5,1,u,1,0.5\n1,1.5,2,v,0,0.5\n")
    assert read_log(path, **PARTS).n_features == 2


def test_numbers_may_get_a_fraction_far_down(tmp_path: Path) -> None:
    n = 200_000  # more than the first block, from which types are guessed
    lines = [f"{row},{row},u,{0.5 if row == n - 1 else 1},1" for row in range(n)]
    path = tmp_path / "a.csv"
    path.write_text("x_1,x_2,a,r,p\n" + "\n".join(lines))
    log = read_log(path, **PARTS, n_actions=1, action_labels=["u"])
    assert log.rewards[-1] == 0.5
    assert len(log) == n


def test_files_of_different_width_of_number_join(tmp_path: Path) -> None:
    write(table(3), tmp_path / "a.parquet")
    narrow = table(3, 3)
    narrow = narrow.set_column(0, "x_1", narrow["x_1"].cast("float32")).set_column(3, "r", narrow["r"].cast("int8"))
    narrow = narrow.set_column(2, "a", narrow["a"].dictionary_encode())
    write(narrow, tmp_path / "b.parquet")
    check_log(read_log(tmp_path, **PARTS), table(6))


def test_columns_in_another_order_join(tmp_path: Path) -> None:
    write(table(3), tmp_path / "a.parquet")
    write(table(3, 3).select(["p", "a", "x_2", "r", "x_1"]), tmp_path / "b.parquet")
    check_log(read_log(tmp_path, **PARTS), table(6))


def test_empty_files_among_others_are_skipped(tmp_path: Path) -> None:
    write(table(0), tmp_path / "a.parquet")
    write(table(3), tmp_path / "b.parquet")
    write(table(0), tmp_path / "c.parquet")
    check_log(read_log(tmp_path, **PARTS), table(3))


# Errors


def test_paths_that_do_not_exist(tmp_path: Path) -> None:
    write(table(), tmp_path / "january.parquet")
    assert message_of(tmp_path / "janary.parquet").endswith("no such file or folder; did you mean 'january.parquet'?")
    assert message_of(tmp_path / "none" / "x.csv").endswith("no such file or folder")
    assert message_of(str(tmp_path / "*.csv")) == f"no file matches '{tmp_path}/*.csv'"
    assert message_of([]) == "the list of files is empty; name at least one"
    (tmp_path / "void").mkdir()
    assert "void: the folder holds no file of a known format (.parquet, .pq" in message_of(tmp_path / "void")
    assert message_of(tmp_path / "void", format="csv").endswith("void: the folder is empty")
    assert "not an address that can be read" in message_of("nowhere://bucket/x.parquet")


def test_formats_that_are_unknown_or_mixed(tmp_path: Path) -> None:
    (tmp_path / "log.xlsx").write_text("")
    message = message_of(tmp_path / "log.xlsx")
    assert "log.xlsx: unknown extension '.xlsx'; known are .parquet" in message
    assert "Give format=..., or use read_vw" in message
    write(table(), tmp_path / "a.parquet")
    write(table(), tmp_path / "b.csv")
    assert "a.parquet and " in message_of(tmp_path)
    assert "b.csv are of different formats; read them separately, or give format=..." in message_of(tmp_path)
    check_log(read_log(tmp_path, format="csv", **PARTS), table())
    with pytest.raises(OptionError, match="format is 'xml'; it must be one of 'parquet', 'csv'"):
        read_log(tmp_path, format="xml", **PARTS)


@pytest.mark.parametrize("name", ["log.parquet", "log.csv", "log.ndjson", "log.csv.gz"])
@pytest.mark.parametrize("content", [b"", b"\x00\xff\xfe garbage \x9f" * 9, b'{"a": 1,\n\n]'])
def test_files_that_cannot_be_read(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    assert str(tmp_path / name) in message_of(tmp_path / name) or "there is no column" in message_of(tmp_path / name)


@pytest.mark.parametrize("keep", [0.3, 0.9, 0.99])
def test_truncated_parquet(tmp_path: Path, keep: float) -> None:
    path = write(table(50), tmp_path / "log.parquet")
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * keep)])
    assert f"{path}: cannot be read as parquet (" in message_of(path)
    assert "Is it complete, and a Parquet file?" in message_of(path)


def test_damaged_parquet_behind_an_intact_footer(tmp_path: Path) -> None:
    path = write(table(5000), tmp_path / "log.parquet")
    content = bytearray(path.read_bytes())
    content[4:2000] = bytes(1996)
    path.write_bytes(content)
    assert f"{path}: cannot be read as parquet (" in message_of(path)


def test_truncated_gzip(tmp_path: Path) -> None:
    path = write(table(5000), tmp_path / "log.csv.gz")
    path.write_bytes(path.read_bytes()[:-200])
    assert f"{path}: cannot be read as csv (" in message_of(path)


def test_csv_with_ragged_lines(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("x_1,x_2,a,r,p\n1,2,u,0,0.5\n1,2,u\n")
    assert f"{path}: cannot be read as csv (" in message_of(path)
    assert "as many fields in every line" in message_of(path)


def test_csv_that_names_a_column_twice(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("x_1,x_2,a,r,p,p\n1,2,u,0,0.5,0.5\n")
    assert "(CSV file contained multiple columns named p)" in message_of(path)
    assert "names each column once" in message_of(path)


def test_csv_that_turns_into_words_far_down(tmp_path: Path) -> None:
    lines = ["1,2,0,0,0.5"] * 200_000 + ["1,2,0,broken,0.5"]
    path = tmp_path / "log.csv"
    path.write_text("x_1,x_2,a,r,p\n" + "\n".join(lines))
    message = message_of(path)
    assert f"{path}: cannot be read as csv (" in message
    assert "broken" in message


def test_json_that_is_one_array(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    path.write_text(json.dumps(table().to_pylist(), indent=1))
    assert "It must hold one JSON object per line" in message_of(path)


def test_json_field_missing_in_some_rows(tmp_path: Path) -> None:
    path = tmp_path / "log.ndjson"
    rows = table().to_pylist()
    del rows[3]["p"]
    path.write_text("\n".join(map(json.dumps, rows)))
    assert f"row 3 ({path}): propensity is missing (null in column 'p')" in message_of(path)


def test_files_with_different_columns(tmp_path: Path) -> None:
    first, second = write(table(), tmp_path / "a.parquet"), write(table().drop_columns(["p"]), tmp_path / "b.parquet")
    assert f"{first} and {second} differ: column 'p' is missing in the second" in message_of(tmp_path)
    with pytest.raises(SourceError):
        read_log(tmp_path, **PARTS)


def test_files_with_different_types(tmp_path: Path) -> None:
    first = write(table(), tmp_path / "a.parquet")
    words = table().set_column(0, "x_1", pa.array(list("abcdef")))
    second = write(words, tmp_path / "b.parquet")
    message = message_of(tmp_path)
    assert f"{first} and {second} differ: column 'x_1' is double in the first and string in the second" in message
    assert "Write it with one type everywhere" in message


def test_columns_are_suggested(tmp_path: Path) -> None:
    path = write(table(), tmp_path / "a.parquet")
    assert "there is no column 'x_3' (given as context); did you mean 'x_" in message_of(path, context="x_3")
    with pytest.raises(ColumnError):
        read_log(path, **{**PARTS, "reward": "click"})


@pytest.mark.parametrize("name", ["log.parquet", "log.csv", "log.ndjson"])
def test_log_without_rows(tmp_path: Path, name: str) -> None:
    path = write(table(1), tmp_path / name)
    if name == "log.parquet":
        write(table(0), path)
    else:
        path.write_text("x_1,x_2,a,r,p\n" if name == "log.csv" else "")
    message = message_of(path)
    assert message == f"{path}: the log is empty; it needs at least one event" or "cannot be read as ndjson" in message


@pytest.mark.parametrize("kind", ["parquet", "csv", "ndjson"])
@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("p", 0.0, "propensity is 0; it must lie in (0, 1]"),
        ("p", None, "propensity is missing (null in column 'p')"),
        ("r", None, "reward is missing (null in column 'r')"),
        ("a", "post", "action 'post' is not one of the labels ('call', 'mail')"),
        ("x_1", None, "context is missing (null in column 'x_1')"),
    ],
)
def test_bad_row_is_numbered_through_and_its_file_named(
    tmp_path: Path, kind: str, column: str, value: Any, message: str
) -> None:
    rows = table(5, 5).to_pylist()
    rows[3][column] = value
    write(table(5), tmp_path / f"a.{kind}")
    bad = write(pa.Table.from_pylist(rows, schema=table().schema if column != "p" else None), tmp_path / f"b.{kind}")
    write(table(5), tmp_path / f"c.{kind}")
    for batch_rows in (1, 3, 1000):
        with pytest.raises(LogError) as caught:
            list(scan_log(tmp_path, batch_rows=batch_rows, action_labels=["call", "mail"], **PARTS))
        assert str(caught.value).startswith(f"row 8 ({bad}): {message}")
    assert message_of(tmp_path, action_labels=["call", "mail"]).startswith(f"row 8 ({bad}): {message}")


def test_more_rows_than_fit_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memory(*_: Any, **__: Any) -> Any:
        raise MemoryError

    path = write(table(), tmp_path / "a.parquet")
    monkeypatch.setattr("backcast.io._arrow.np.empty", no_memory)
    assert "read it in parts with scan_log" in message_of(path)


@pytest.mark.parametrize("n", [1, 3, 5, 100])
def test_bounds_of_the_first_rewards(tmp_path: Path, n: int) -> None:
    data = table(12).set_column(3, "r", pa.array([3.0, 2.0, 5.0, 1.0, 7.0, 0.0] * 2))
    stream = scan_log(write(data, tmp_path / "a.parquet"), **PARTS)
    assert stream.first_reward_bounds(n) == stream.split_head(n)[0].reward_bounds


def test_a_missing_reward_among_the_first_is_reported_with_file_and_row(tmp_path: Path) -> None:
    paths = [write(table(6), tmp_path / "a.parquet")]
    paths.append(write(table(6).set_column(3, "r", pa.array([1, 0, None, 1, 0, 1])), tmp_path / "b.parquet"))
    with pytest.raises(LogError, match=r"row 8 \(.*b\.parquet\): reward is missing"):
        scan_log(paths, **PARTS).first_reward_bounds(100)


def test_an_evaluation_reads_the_contexts_of_a_stream_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    n_read = 0

    def count_events(file_slice: FileSlice, names: Sequence[str], *options: Any) -> Iterator[pa.RecordBatch]:
        nonlocal n_read
        for batch in read_batches(file_slice, names, *options):
            n_read += batch.num_rows * ("x_1" in names)
            yield batch

    read_batches = FileSlice.read_batches
    monkeypatch.setattr(FileSlice, "read_batches", count_events)
    stream = scan_log(write(table(40), tmp_path / "a.parquet"), **PARTS, batch_rows=8)
    evaluate(stream, EpsilonGreedy(), DRns(q=0.01), reward_model=0.5)
    assert n_read == 40


def test_file_that_changes_after_it_was_opened(tmp_path: Path) -> None:
    path = write(table(6), tmp_path / "a.parquet")
    stream = scan_log(path, **PARTS)
    write(table(4), path)
    with pytest.raises(SourceError):
        stream.read()
    path.unlink()
    with pytest.raises(SourceError, match="has vanished"):
        list(stream)


# Streams


def stream_of(path: Path, **options: Any) -> LogStream:
    return scan_log(path, **{**PARTS, **options})


@pytest.mark.parametrize("name", ["log.parquet", "log.csv", "log.ndjson"])
def test_stream_gives_parts_of_the_requested_length(tmp_path: Path, name: str) -> None:
    stream = stream_of(write(table(11), tmp_path / name), batch_rows=4)
    assert (stream.n_actions, stream.action_labels, stream.n_features, stream.n_events) == (2, ("call", "mail"), 2, 11)
    for _ in range(2):
        parts = list(stream)
        assert [len(part) for part in parts] == [4, 4, 3]
        assert [part.rows.tolist() for part in parts] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10]]
        assert {part.action_labels for part in parts} == {("call", "mail")}


def test_rows_of_text_files_are_counted_on_request(tmp_path: Path) -> None:
    path = write(table(11), tmp_path / "log.csv")
    stream = stream_of(path, action_labels=["call", "mail"])
    assert stream.n_events is None
    assert repr(stream) == "LogStream(? events in 1 file, 2 actions)"
    assert stream.with_event_count().n_events == 11
    assert len(stream.read()) == 11


def test_stream_is_pickled(tmp_path: Path) -> None:
    for name in ("log.parquet", "log.csv"):
        stream = stream_of(write(table(11), tmp_path / name), batch_rows=4, reward_range=(0, 1))
        back = pickle.loads(pickle.dumps(stream))
        assert [part.rewards.tolist() for part in back] == [part.rewards.tolist() for part in stream]
        assert back.reward_range == (0, 1)
        assert len(pickle.dumps(stream)) < 10_000


@pytest.mark.parametrize("n_parts", [1, 2, 3, 5, 50])
def test_split_covers_every_row_once(tmp_path: Path, n_parts: int) -> None:
    write(table(11), tmp_path / "a.parquet")
    write(table(2, 11), tmp_path / "b.parquet")
    write(table(9, 13), tmp_path / "c.parquet")
    parts = stream_of(tmp_path, batch_rows=3).split(n_parts)
    # Row groups of at most four rows: 4 4 3 | 2 | 4 4 1.
    assert len(parts) == min(n_parts, 7)
    rows = [row for part in parts for log in pickle.loads(pickle.dumps(part)) for row in log.rows.tolist()]
    assert rows == list(range(22))
    assert [part.n_events for part in parts] == [sum(len(log) for log in part) for part in parts]
    again = [half.n_events for part in parts for half in part.split(2)]
    assert sum(rows for rows in again if rows is not None) == 22


def test_split_is_balanced(tmp_path: Path) -> None:
    pa.parquet.write_table(table(1000), tmp_path / "a.parquet", row_group_size=10)
    assert [part.n_events for part in stream_of(tmp_path).split(4)] == [250, 250, 250, 250]


def test_split_of_text_files_is_by_file(tmp_path: Path) -> None:
    write(table(5), tmp_path / "a.csv")
    write(table(5, 5), tmp_path / "b.csv")
    parts = stream_of(tmp_path, action_labels=["call", "mail"]).split(3)
    assert len(parts) == 2
    assert [log.rows.tolist() for part in parts for log in part] == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]


def test_error_in_a_split_part_numbers_rows_of_the_whole(tmp_path: Path) -> None:
    data = table(12).set_column(4, "p", pa.array([0.5] * 9 + [2.0] + [0.5] * 2))
    path = write(data, tmp_path / "a.parquet")
    last = stream_of(path).split(3)[-1]
    with pytest.raises(LogError) as caught:
        list(last)
    assert str(caught.value).startswith(f"row 9 ({path}): propensity is 2")


@pytest.mark.parametrize("batch_rows", [0, -1, 2.5])
def test_invalid_length_of_parts(tmp_path: Path, batch_rows: Any) -> None:
    with pytest.raises(OptionError, match="it must be a whole number, at least 1"):
        stream_of(write(table(), tmp_path / "a.parquet"), batch_rows=batch_rows)


def test_invalid_number_of_parts(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="n_parts is 0; it must be at least 1"):
        stream_of(write(table(), tmp_path / "a.parquet")).split(0)


def test_labels_that_come_late_are_known_early(tmp_path: Path) -> None:
    data = table(9).set_column(2, "a", pa.array([7] * 8 + [3]))
    stream = stream_of(write(data, tmp_path / "a.parquet"), batch_rows=2)
    assert next(iter(stream)).action_labels == (3, 7)


def test_memory_does_not_grow_with_the_length(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    peaks = []
    for n in (400_000, 1_600_000):
        columns = {f"x_{i}": rng.random(n) for i in range(4)}
        data = pa.table({**columns, "a": np.zeros(n, np.int8), "r": np.zeros(n), "p": np.ones(n)})
        pa.parquet.write_table(data, tmp_path / "a.parquet", row_group_size=n // 2)
        del data, columns
        pool = pa.default_memory_pool()
        before, peak = pool.bytes_allocated(), 0
        for _ in stream_of(tmp_path / "a.parquet", batch_rows=50_000):
            peak = max(peak, pool.bytes_allocated() - before)
        peaks.append(peak)
    # The longer log is 90 MB; a part of it and the buffered pages take a few.
    assert peaks[1] < 1.5 * peaks[0] + 2e6
    assert peaks[1] < 40e6


@pytest.mark.parametrize("inside", ["", "day=2"])
def test_a_folder_without_permission(tmp_path: Path, inside: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # permissions do not bind the superuser, who may run the tests
    write(table(), tmp_path / "day=1" / "log.parquet")
    write(table(), tmp_path / "day=2" / "log.parquet")
    locked, scandir = str(tmp_path / inside), os.scandir

    def refuse(path: Any) -> Any:
        if os.path.normpath(path) == os.path.normpath(locked):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    message = message_of(tmp_path)
    assert "the folder cannot be listed (Permission denied)" in message
    assert locked.rstrip("/") in message
