"""Laws of logs: parts, frames and files give the same log."""

from __future__ import annotations

import json
import pickle
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backcast.errors import BackcastError
from backcast.io.tables import read_log, scan_log
from backcast.log import Log

quick = settings(max_examples=60, deadline=None)


class Columns(NamedTuple):
    """Columns of a log as a user holds them, and the text columns that only files can take."""

    features: dict[str, list[float]]
    words: dict[str, list[str | None]]
    actions: list[Any]
    rewards: list[float]
    propensities: list[float]

    @property
    def n(self) -> int:
        return len(self.actions)

    def table(self) -> pa.Table:
        words = {name: pa.array(values, pa.string()) for name, values in self.words.items()}
        return pa.table({**self.features, **words, "A": self.actions, "R": self.rewards, "P": self.propensities})

    def log(self) -> Log:
        contexts = np.array(list(self.features.values())).reshape(len(self.features), self.n).T
        return Log(contexts, self.actions, self.rewards, self.propensities)

    def parts(self) -> dict[str, Any]:
        context = [*self.features, *self.words]
        return {
            "context": context,
            "action": "A",
            "reward": "R",
            "propensity": "P",
            "fill": dict.fromkeys(self.words, ""),
        }


numbers = st.floats(-1e12, 1e12, allow_nan=False)
propensities = st.floats(1e-6, 1.0)
text = st.text(max_size=4)
labels = st.one_of(
    st.integers(-3, 3), st.integers(-(2**62), 2**62), text, st.booleans(), st.sampled_from(["mail", "call"])
)
label_kinds = st.sampled_from([st.integers(0, 3), st.integers(-(2**62), 2**62), text, st.booleans()])
# The C data interface, through which frames come, ends a name at NUL.
letters = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
names = st.text(letters, min_size=1, max_size=4).filter(lambda name: name not in ("A", "R", "P"))
plain_names = st.sampled_from(["x", "y", "x.y", "x_1", "x=1", "x[0]"])


@st.composite
def columns(draw: st.DrawFn, names: Any = names, words: bool = False, min_features: int = 0) -> Columns:
    n = draw(st.integers(1, 30))

    def column(kind: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(kind, min_size=n, max_size=n))

    result = draw(st.lists(names, unique=True, min_size=min_features, max_size=4))
    n_words = draw(st.integers(0, len(result))) if words else 0
    return Columns(
        {name: column(numbers) for name in result[n_words:]},
        {name: column(st.none() | text) for name in result[:n_words]},
        column(draw(label_kinds)),
        column(numbers),
        column(propensities),
    )


@contextmanager
def parquet(table: pa.Table, group: int) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "log.parquet")
        pa.parquet.write_table(table, path, row_group_size=group)
        yield path


def dense(log: Log) -> Any:
    contexts: Any = log.contexts
    return contexts if isinstance(contexts, np.ndarray) else contexts.toarray()


def same(ours: Log, theirs: Log) -> None:
    assert ours.action_labels == theirs.action_labels
    assert ours.n_actions == theirs.n_actions
    assert np.array_equal(dense(ours), dense(theirs))
    for name in ("actions", "rewards", "propensities", "rows"):
        assert np.array_equal(getattr(ours, name), getattr(theirs, name)), name


@quick
@given(columns(), st.integers(1, 40))
def test_parquet_gives_back_the_arrays(given: Columns, group: int) -> None:
    with parquet(given.table(), group) as path:
        same(read_log(path, **given.parts()), given.log())


@quick
@given(columns(names=plain_names))
def test_csv_gives_back_the_arrays(given: Columns) -> None:
    if any(isinstance(action, str) for action in given.actions):  # a label "1" in CSV is the number
        given = given._replace(actions=["u" + str(number % 3) for number in range(given.n)])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "log.csv")
        pa.csv.write_csv(given.table(), path)
        same(read_log(path, **given.parts()), given.log())


@quick
@given(columns(names=plain_names))
def test_ndjson_gives_back_the_arrays(given: Columns) -> None:
    if any(isinstance(action, str) for action in given.actions):  # a label such as "2000-01-01" becomes a date
        given = given._replace(actions=["u" + str(number % 3) for number in range(given.n)])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "log.ndjson")
        path.write_text("".join(json.dumps(row) + "\n" for row in given.table().to_pylist()))
        same(read_log(path, **given.parts()), given.log())


@quick
@given(columns())
def test_every_frame_gives_the_arrays(given: Columns) -> None:
    table = given.table()
    data = {name: table[name].to_pylist() for name in table.column_names}
    for frame in (table, table.to_reader(max_chunksize=3), data, pd.DataFrame(data), pl.DataFrame(data)):
        same(Log.from_frame(frame, **given.parts()), given.log())


@quick
@given(columns(words=True), st.integers(1, 40), st.integers(1, 40), st.sampled_from([3, 700]))
def test_parts_joined_are_the_whole(given: Columns, group: int, batch_rows: int, hash_size: int) -> None:
    with parquet(given.table(), group) as path:
        whole = read_log(path, hash_size=hash_size, **given.parts())
        stream = scan_log(path, batch_rows=batch_rows, hash_size=hash_size, **given.parts())
        parts = list(stream)
        assert all(len(part) == batch_rows for part in parts[:-1])
        assert stream.n_events == len(whole) == sum(map(len, parts))
        assert {part.action_labels for part in parts} == {whole.action_labels}
        for part in parts:
            same(part, whole[part.rows])


@quick
@given(columns(words=True), st.integers(1, 10), st.integers(1, 6))
def test_splits_joined_are_the_whole(given: Columns, group: int, n_parts: int) -> None:
    with parquet(given.table(), group) as path:
        whole = read_log(path, **given.parts())
        logs = [log for stream in scan_log(path, **given.parts()).split(n_parts) for log in stream]
        assert np.concatenate([log.rows for log in logs]).tolist() == list(range(len(whole)))
        for log in logs:
            same(log, whole[log.rows])


@quick
@given(columns(words=True), st.randoms(use_true_random=False))
def test_encoding_does_not_look_at_other_rows(given: Columns, random: Any) -> None:
    order = list(range(given.n))
    random.shuffle(order)
    table = given.table()
    straight = Log.from_frame(table, **given.parts())
    shuffled = Log.from_frame(table.take(order), **given.parts())
    assert np.array_equal(dense(shuffled), dense(straight)[order])
    assert np.array_equal(shuffled.actions, straight.actions[order])


@quick
@given(st.lists(labels, min_size=1, max_size=20), st.data())
def test_declared_labels_are_codes_in_their_order(seen: list[Any], data: Any) -> None:
    declared = data.draw(st.permutations(list(dict.fromkeys(seen))))
    n = len(seen)
    log = Log(None, np.array([*seen, None], dtype=object)[:-1], [0.0] * n, [1.0] * n, action_labels=declared)
    assert [log.action_labels[code] for code in log.actions] == seen
    assert log.action_labels == tuple(declared)


@quick
@given(columns())
def test_labels_of_codes_are_the_actions(given: Columns) -> None:
    log = given.log()
    assert [log.action_labels[code] for code in log.actions] == given.actions
    assert list(log.action_labels) == sorted(log.action_labels)


@quick
@given(columns(min_features=1), st.data())
def test_slices_compose(given: Columns, data: Any) -> None:
    log = given.log()
    outer = np.array(data.draw(st.lists(st.integers(0, given.n - 1), min_size=1)))
    inner = np.array(data.draw(st.lists(st.integers(0, outer.size - 1), min_size=1)))
    same(log[outer][inner], log[outer[inner]])
    same(log[:], log)


@quick
@given(columns())
def test_pickle_changes_nothing(given: Columns) -> None:
    same(pickle.loads(pickle.dumps(given.log())), given.log())


@quick
@given(columns(), st.data())
def test_one_bad_propensity_is_found_in_any_part(given: Columns, data: Any) -> None:
    row = data.draw(st.integers(0, given.n - 1))
    value = data.draw(st.sampled_from([0.0, -0.5, 1.5, float("inf")]))
    spoilt = given._replace(propensities=[*given.propensities[:row], value, *given.propensities[row + 1 :]])
    with pytest.raises(ValueError, match=rf"^row {row}: propensity is {value:g}; it must lie in"):
        spoilt.log()
    with (
        parquet(spoilt.table(), 7) as path,
        pytest.raises(ValueError, match=rf"^row {row} .*: propensity is {value:g}"),
    ):
        list(scan_log(path, batch_rows=4, **spoilt.parts()))


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(["parquet", "csv", "ndjson"]), st.data())
def test_damaged_files_raise_nothing_but_our_errors(kind: str, data: Any) -> None:
    rows = [{"x": row / 2, "w": str(row), "A": "uv"[row % 2], "R": row % 2, "P": 0.5} for row in range(20)]
    table = pa.Table.from_pylist(rows)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"log.{kind}")
        if kind == "parquet":
            pa.parquet.write_table(table, path, row_group_size=7)
        elif kind == "csv":
            pa.csv.write_csv(table, path)
        else:
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        content = bytearray(path.read_bytes())
        for _ in range(data.draw(st.integers(1, 4))):
            place = data.draw(st.integers(0, len(content) - 1))
            content[place : place + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=9))
        path.write_bytes(content)
        with suppress(BackcastError):
            read_log(path, context=["x", "w"], action="A", reward="R", propensity="P")
