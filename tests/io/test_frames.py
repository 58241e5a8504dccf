"""Logs from Arrow frames: columns, numbers, hashed text, actions, masks."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
from sklearn.utils import murmurhash3_32

from backcast.errors import BackcastError, ColumnError, LogError, OptionError
from backcast.io._columns import ColumnSpec
from backcast.io.tables import log_from_frame
from backcast.log import Log

PARTS = {"action": "a", "reward": "r", "propensity": "p"}
DATA: dict[str, list[Any]] = {
    "x_1": [0.5, 1.5, 2.5],
    "x_2": [1, 2, 3],
    "a": ["mail", "call", "mail"],
    "r": [1, 0, 1],
    "p": [0.5, 0.25, 0.125],
}


def table(**changes: Any) -> pa.Table:
    return pa.table({**DATA, **changes})


def log_of(frame: Any, context: Any = "x_*", **options: Any) -> Log:
    return Log.from_frame(frame, context=context, **{**PARTS, **options})


def bucket_of(name: str, value: str | None, size: int) -> int:
    """The feature that a value of a text column switches on."""
    key = name if value is None else f"{name}={value}"
    return int(murmurhash3_32(key.encode(), seed=0, positive=True)) % size


# Frames

FRAMES: dict[str, Callable[[], Any]] = {
    "dict of lists": lambda: DATA,
    "dict of arrays": lambda: {name: np.array(values) for name, values in DATA.items()},
    "pandas": lambda: pd.DataFrame(DATA),
    "pandas with an index": lambda: pd.DataFrame(DATA, index=["u", "v", "w"]),
    "pandas nullable": lambda: pd.DataFrame(DATA).convert_dtypes(),
    "pandas categories": lambda: pd.DataFrame(DATA).astype({"a": "category"}),
    "polars": lambda: pl.DataFrame(DATA),
    "polars categories": lambda: pl.DataFrame(DATA).with_columns(pl.col("a").cast(pl.Categorical)),
    "pyarrow table": table,
    "pyarrow reader": lambda: table().to_reader(max_chunksize=2),
    "pyarrow batch": lambda: table().to_batches()[0],
    "duckdb": lambda: duckdb.connect().sql(
        "select * from (values (0.5, 1, 'mail', 1, 0.5), (1.5, 2, 'call', 0, 0.25), (2.5, 3, 'mail', 1, 0.125)) "
        "as t(x_1, x_2, a, r, p)"
    ),
}


@pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES.keys())
def test_every_kind_of_frame(make: Callable[[], Any]) -> None:
    log = log_of(make())
    assert np.asarray(log.contexts).tolist() == [[0.5, 1.0], [1.5, 2.0], [2.5, 3.0]]
    assert log.actions.tolist() == [1, 0, 1]
    assert log.action_labels == ("call", "mail")
    assert log.rewards.tolist() == [1.0, 0.0, 1.0]
    assert log.propensities.tolist() == [0.5, 0.25, 0.125]
    assert np.asarray(log.contexts).flags.c_contiguous


def test_frame_is_not_changed() -> None:
    frame = pd.DataFrame(DATA)
    before = frame.copy()
    log_of(frame)
    pd.testing.assert_frame_equal(frame, before)


def test_other_types_are_refused() -> None:
    with pytest.raises(LogError, match=r"a list has no Arrow interface .* or a dict of columns"):
        log_of([1, 2])


def test_frame_without_rows_is_refused() -> None:
    with pytest.raises(LogError, match="the frame is empty; a log needs at least one event"):
        log_of(table().slice(0, 0))


def test_column_of_mixed_types_is_refused() -> None:
    with pytest.raises(ColumnError, match=r"the frame has a column that Arrow cannot hold .*; give it one type"):
        log_of({**DATA, "x_1": [0.5, "a", 2]})


def test_columns_of_different_length_are_refused() -> None:
    with pytest.raises(ColumnError, match="the frame has a column that Arrow cannot hold"):
        log_of({**DATA, "x_1": [0.5]})


# Which columns


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        ("x_1", ["x_1"]),
        (["x_2", "x_1"], ["x_2", "x_1"]),
        (["x_2", "x_*"], ["x_2", "x_1"]),
        ("*", ["x_1", "x_2", "[z]"]),
        (["x_?", "x_2", "[[]z]"], ["x_1", "x_2", "[z]"]),
        ("[z]", ["[z]"]),
        ("[!apr]*", ["x_1", "x_2", "[z]"]),
        ([], []),
    ],
)
def test_context_by_name_and_pattern(context: Any, expected: list[str]) -> None:
    frame = table(**{"[z]": [7.0, 8.0, 9.0]})
    log = log_of(frame, context)
    columns = [frame.column(name).to_pylist() for name in expected]
    assert np.asarray(log.contexts).T.tolist() == columns


def test_pattern_skips_columns_with_other_roles() -> None:
    frame = table(t=[3, 2, 1], ok_0=[True] * 3, ok_1=[True] * 3, mu_0=[0.5, 0.25, 0.875], mu_1=[0.5, 0.75, 0.125])
    log = log_of(
        frame,
        "*",
        times="t",
        available="ok_*",
        logging_probabilities="mu_*",
        action_labels=["call", "mail"],
    )
    assert log.n_features == 2
    assert log.logging_probabilities is not None
    assert log.logging_probabilities[0].tolist() == [0.875, 0.125]


def test_propensity_may_be_a_context_by_name() -> None:
    assert log_of(table(), ["x_1", "p"]).n_features == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"reward": "gain"}, "there is no column 'gain' (given as reward). Columns: x_1, x_2, a, r, p"),
        ({"propensity": "P"}, "there is no column 'P' (given as propensity); did you mean 'p'? Columns: x_1"),
        ({"context": "x1"}, "there is no column 'x1' (given as context); did you mean 'x_1'?"),
        ({"context": ["x_1", "z*"]}, "no column matches the pattern 'z*' (given as context). Columns: x_1, x_2, a"),
        ({"context": "r"}, "context names the column 'r', which is the log's action or reward; leave it out"),
        ({"context": ["x_1", "a"]}, "context names the column 'a', which is the log's action or reward"),
        ({"context": [3]}, "context holds 3; columns are given by name"),
        ({"times": "day"}, "there is no column 'day' (given as times)"),
        ({"available": "ok_*"}, "no column matches the pattern 'ok_*' (given as available)"),
        ({"logging_probabilities": ["m"]}, "there is no column 'm' (given as logging_probabilities)"),
    ],
)
def test_missing_and_wrong_names(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ColumnError) as caught:
        log_of(table(), **{"context": "x_*", **changes})
    assert message in str(caught.value)


def test_many_columns_are_not_all_listed() -> None:
    frame = table(**{f"y_{i}": [0, 0, 0] for i in range(30)})
    with pytest.raises(ColumnError, match=r"y_14, and 15 more$"):
        log_of(frame, "nope")


def test_column_that_appears_twice_is_refused() -> None:
    twice = pa.Table.from_arrays([pa.array([1.0])] * 5, names=["x", "x", "a", "r", "p"])
    with pytest.raises(ColumnError, match=r"column 'x' .given as context. appears 2 times; rename all but one"):
        log_of(twice, "x")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hash_size": 0}, "hash_size is 0; it must be a whole number, at least 1"),
        ({"hash_size": 2.5}, "hash_size is 2.5; it must be a whole number, at least 1"),
        ({"reward": 3}, "reward is 3; it must be the name of a column"),
    ],
)
def test_invalid_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError) as caught:
        log_of(table(), **options)
    assert str(caught.value) == message


# Numbers


@pytest.mark.parametrize(
    "type_",
    ["int8", "int16", "int32", "int64", "uint8", "uint64", "float32", "float64", "halffloat", "bool"],
)
def test_every_type_of_number(type_: str) -> None:
    column = pa.array([1, 0, 1]).cast(type_)
    log = log_of(table(x_1=column, r=column), "x_1")
    assert np.asarray(log.contexts).tolist() == [[1.0], [0.0], [1.0]]
    assert log.rewards.tolist() == [1.0, 0.0, 1.0]


def test_decimals_and_numbers_written_as_text() -> None:
    price = pa.array([decimal.Decimal("0.50"), decimal.Decimal("1.25"), decimal.Decimal("2.00")])
    log = log_of(table(x_1=price, r=["1", "0.5", "-2"]), "x_1")
    assert np.asarray(log.contexts).ravel().tolist() == [0.5, 1.25, 2.0]
    assert log.rewards.tolist() == [1.0, 0.5, -2.0]


def test_contexts_of_many_strips_keep_their_order() -> None:
    n = 10_001
    frame = {"x": np.arange(n), "y": -np.arange(n), "a": np.arange(n) % 2, "r": np.zeros(n), "p": np.ones(n)}
    assert (np.asarray(log_of(frame, ["x", "y"]).contexts) == np.arange(n)[:, None] * [1.0, -1.0]).all()


NAN = float("nan")
BAD_ROWS: list[tuple[dict[str, Any], str]] = [
    ({"p": [0.5, None, 0.5]}, "row 1: propensity is missing (null in column 'p'). Leave such rows out"),
    ({"r": [1, 0, None]}, "row 2: reward is missing (null in column 'r')"),
    ({"a": ["mail", None, "call"]}, "row 1: action is missing (None); every event needs its logged action"),
    ({"x_2": [1, 2, None]}, "row 2: context is missing (null in column 'x_2')"),
    ({"x_2": pa.nulls(3)}, "row 0: context is missing (null in column 'x_2')"),
    ({"x_2": [1, NAN, 3]}, "row 1: context column 'x_2' is nan; contexts must be finite"),
    ({"x_1": [float("inf"), NAN, 3]}, "row 0: context column 'x_1' is inf"),
    ({"p": [0.5, 0.5, NAN]}, "row 2: propensity is nan; it must lie in (0, 1]"),
    ({"p": [0.5, 0.0, 0.5]}, "row 1: propensity is 0; it must lie in (0, 1]"),
    ({"p": [0.5, 1.25, 0.5]}, "row 1: propensity is 1.25"),
    ({"p": [0.5, -0.5, 0.5]}, "row 1: propensity is -0.5"),
    ({"r": [1.0, NAN, 1.0]}, "row 1: reward is nan; rewards must be finite"),
    ({"r": ["0", "high", "1"]}, "row 1: reward is 'high' (column 'r'); it must be a number"),
    ({"p": ["0.5", "0.5", "half"]}, "row 2: propensity is 'half' (column 'p'); it must be a number"),
    ({"r": [datetime.date(2024, 1, 1)] * 3}, "row 0: reward is datetime.date(2024, 1, 1) (column 'r'); it must be"),
]


@pytest.mark.parametrize(("changes", "message"), BAD_ROWS, ids=[message[:40] for _, message in BAD_ROWS])
@pytest.mark.parametrize("chunk", [1, 3])
def test_bad_rows_are_named(changes: dict[str, Any], message: str, chunk: int) -> None:
    frame = table(**changes)
    with pytest.raises(LogError) as caught:
        log_of(frame.to_reader(max_chunksize=chunk))
    assert message in str(caught.value)


def test_nan_behind_a_text_column_is_named() -> None:
    with pytest.raises(LogError, match="row 2: context column 'y' is nan"):
        log_of(table(w=["u", "v", "u"], y=[1.0, 2.0, NAN]), ["w", "y"])


def test_nan_in_sparse_contexts_is_named() -> None:
    with pytest.raises(LogError, match="row 2: context column 'y' is nan"):
        log_of(table(w=["u", "v", "u"], y=[1.0, 2.0, NAN]), ["w", "y"], hash_size=1000)


@pytest.mark.parametrize(
    ("column", "type_name"),
    [
        (pa.array([datetime.time(10, 30)] * 3), "time64"),
        (pa.array([{"k": 1}] * 3), "struct"),
    ],
)
def test_contexts_that_are_no_features(column: pa.Array, type_name: str) -> None:
    with pytest.raises(ColumnError) as caught:
        log_of(table(when=column), ["x_1", "when"])
    assert f"context column 'when' has type {type_name}" in str(caught.value)
    assert "Turn it into such columns first" in str(caught.value)


# Text


def test_text_switches_on_its_bucket() -> None:
    log = log_of(table(w=["u", None, ""]), ["x_1", "w"], hash_size=8, one_hot=False, fill="zero")
    contexts = np.asarray(log.contexts)
    assert contexts.shape == (3, 9)
    assert contexts[:, 0].tolist() == [0.5, 1.5, 2.5]
    assert contexts[:, 1:].argmax(axis=1).tolist() == [bucket_of("w", value, 8) for value in ("u", None, "")]
    assert contexts[:, 1:].sum(axis=1).tolist() == [1.0, 1.0, 1.0]


def test_null_empty_and_column_hash_differently() -> None:
    buckets = [bucket_of("w", None, 2**31), bucket_of("w", "", 2**31), bucket_of("v", "", 2**31)]
    assert len(set(buckets)) == 3


def test_every_encoding_of_text_gives_the_same_features() -> None:
    words = pa.array(["u", "v", None])
    kinds = [words, words.cast("large_string"), words.dictionary_encode(), words.cast("binary")]
    for one_hot in (False, True):
        logs = [log_of(table(w=kind), "w", fill="zero", one_hot=one_hot) for kind in kinds]
        assert len({log.fingerprint() for log in logs}) == len({log.feature_names for log in logs}) == 1


def test_dictionary_longer_than_the_column() -> None:
    words = pa.DictionaryArray.from_arrays(pa.array([3, 1, 3]), pa.array(["p", "q", "r", "s"]))
    plain = log_of(table(w=["s", "q", "s"]), "w")
    assert (np.asarray(log_of(table(w=words), "w").contexts) == np.asarray(plain.contexts)).all()


def test_many_hashed_features_are_sparse_and_the_same() -> None:
    frame = table(w=["u", "v", None], x_1=[0.0, 2.0, 0.0])
    sparse: Any = log_of(frame, ["w", "x_1", "x_2"], hash_size=1000, one_hot=False, fill="zero").contexts
    assert isinstance(sparse, scipy.sparse.csr_array)
    assert sparse.shape == (3, 1002)
    assert sparse.nnz == 3 + 1 + 3
    dense = np.zeros((3, 1002))
    dense[:, 1000:] = [[0, 1], [2, 2], [0, 3]]
    for row, value in enumerate(["u", "v", None]):
        dense[row, bucket_of("w", value, 1000)] = 1
    assert (sparse.toarray() == dense).all()


# Actions


@pytest.mark.parametrize(
    ("actions", "options", "codes", "labels"),
    [
        ([0, 2, 1], {}, [0, 2, 1], (0, 1, 2)),
        ([7, 3, 7], {}, [1, 0, 1], (3, 7)),
        ([0, 2, 0], {"n_actions": 4}, [0, 2, 0], (0, 1, 2, 3)),
        ([0.0, 2.0, 0.0], {"n_actions": 4}, [0, 2, 0], (0, 1, 2, 3)),
        ([1.0, 2.0, 1.0], {}, [0, 1, 0], (1, 2)),
        ([True, True, True], {}, [1, 1, 1], (False, True)),
        (["b", "a", "b"], {"action_labels": ["b", "c", "a"]}, [0, 2, 0], ("b", "c", "a")),
        (["b", "a", "b"], {"n_actions": 2}, [1, 0, 1], ("a", "b")),
        (pa.array([7, 3, 7], pa.uint64()), {"action_labels": [7, 3]}, [0, 1, 0], (7, 3)),
        (pa.array(["b", "a", "b"]).dictionary_encode(), {}, [1, 0, 1], ("a", "b")),
        (pa.array([2**63, 1, 1], pa.uint64()), {}, [1, 0, 0], (1, 2**63)),
        (
            [datetime.date(2024, 1, 2), datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)],
            {},
            [1, 0, 1],
            (datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)),
        ),
    ],
)
def test_actions_are_coded_as_from_arrays(
    actions: Any, options: dict[str, Any], codes: list[int], labels: tuple[Any, ...]
) -> None:
    log = log_of(table(a=actions), **options)
    assert log.actions.tolist() == codes
    assert log.action_labels == labels


@pytest.mark.parametrize(
    ("actions", "options", "message"),
    [
        ([0, 5, 1], {"n_actions": 3}, "row 1: action 5 is outside 0..2; with 3 actions declared"),
        ([0, 1, -1], {"n_actions": 3}, "row 2: action -1 is outside 0..2"),
        ([0, None, 1], {"n_actions": 3}, "row 1: action is missing (None)"),
        ([0.0, NAN, 1.0], {}, "row 1: action is missing (nan)"),
        ([None, None, None], {}, "row 0: action is missing (None)"),
        (["u", "v", "w"], {"action_labels": ["u", "w"]}, "row 1: action 'v' is not one of the labels ('u', 'w')"),
        (["u", "v", "w"], {"n_actions": 2}, "2 actions are declared but 3 labels are seen; give action_labels"),
        (["u", "v", "w"], {"action_labels": ["u", "u"]}, "action_labels repeat"),
        ([[0], [1], [0]], {}, "action column 'a' has type list<item: int64>; an action is one label per event"),
        ([{"k": 1}] * 3, {}, "action column 'a' has type struct<k: int64>; an action is one label per event"),
    ],
)
def test_wrong_actions(actions: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(BackcastError) as caught:
        log_of(table(a=actions), **options)
    assert message in str(caught.value)


# Masks, probabilities, times


def test_mask_from_columns_and_from_lists_agree() -> None:
    rows = [[True, False, True], [True, True, False], [True, True, True]]
    numbers = {"a": [0, 1, 2]}
    columns = {f"ok_{action}": [row[action] for row in rows] for action in range(3)}
    labels = [[action for action in range(3) if row[action]] for row in rows]
    logs = [
        log_of(table(**numbers, **columns), available="ok_*"),
        log_of(table(**numbers, ok=rows), available="ok"),
        log_of(table(**numbers, ok=labels), available="ok"),
        log_of(table(**numbers, ok=pa.array(rows, pa.list_(pa.bool_(), 3))), available=["ok"]),
    ]
    for log in logs:
        assert log.available is not None
        assert log.available.tolist() == rows


def test_mask_of_labels_needs_no_order() -> None:
    log = log_of(table(ok=[["mail"], ["mail", "call"], ["call", "mail"]]), available="ok")
    assert log.available is not None
    assert log.available.tolist() == [[False, True], [True, True], [True, True]]


def test_columns_of_an_action_each_declare_their_number() -> None:
    log = log_of(table(a=[0, 1, 0], ok_0=[1, 1, 1], ok_1=[1, 1, 1], ok_2=[0, 0, 0]), available="ok_*")
    assert log.n_actions == 3


def test_probabilities_from_columns_and_lists_agree() -> None:
    rows = [[0.5, 0.5], [0.75, 0.25], [0.125, 0.875]]
    by_list = log_of(table(a=[0, 1, 0], mu=rows), logging_probabilities="mu")
    by_column = log_of(
        table(a=[0, 1, 0], mu_0=[0.5, 0.75, 0.125], mu_1=[0.5, 0.25, 0.875]), logging_probabilities=["mu_0", "mu_1"]
    )
    for log in (by_list, by_column):
        assert log.logging_probabilities is not None
        assert log.logging_probabilities.tolist() == rows


def test_times_of_any_kind() -> None:
    when = [datetime.datetime(2024, 1, 1), datetime.datetime(2024, 1, 3), datetime.datetime(2024, 1, 2)]
    for column in (when, [str(time) for time in when], ["9", "11", "10"], [1, 3, 2]):
        assert log_of(table(t=column), times="t").rows.tolist() == [0, 2, 1]


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        (
            {"ok": [[True], [True, True], [True, True]], "a": [0, 1, 0]},
            {"available": "ok"},
            "row 0: available (column 'ok') has 1 entries, but there are 2 actions",
        ),
        (
            {"ok": [["mail"], ["post"], ["mail"]]},
            {"available": "ok"},
            "row 1: in column 'ok' (available), action 'post' is not one of the labels",
        ),
        ({"ok": [["mail"], None, ["mail"]]}, {"available": "ok"}, "row 1: available is missing (null in column 'ok')"),
        (
            {"ok": [["call"], ["call"], ["mail"]]},
            {"available": "ok"},
            "row 0: the logged action 'mail' is marked unavailable",
        ),
        (
            {"ok_0": [True] * 3, "ok_1": [True] * 3},
            {"available": "ok_*"},
            "text labels have no order; give action_labels in that order",
        ),
        (
            {"mu": [[0.5, 0.5]] * 3},
            {"logging_probabilities": "mu"},
            "text labels have no order; give action_labels in that order",
        ),
        (
            {"ok": [True] * 3},
            {"available": "ok"},
            "available is given as ok (bool); it must be one column per action, or one column of lists",
        ),
        (
            {"ok_0": ["y"] * 3, "ok_1": [True] * 3},
            {"available": "ok_*"},
            "available is given as ok_0 (string), ok_1 (bool)",
        ),
        (
            {"ok_0": [2] * 3, "ok_1": [1] * 3, "a": [0, 1, 0]},
            {"available": "ok_*"},
            "row 0: available[0] is 2.0; it must be True or False",
        ),
        (
            {"ok_0": [1] * 3, "ok_1": [1] * 3, "a": [0, 1, 0]},
            {"available": "ok_*", "n_actions": 3},
            "available is given as 2 columns, but there are 3 actions",
        ),
        (
            {"mu": [[0.5, 0.5], [0.5, None], [0.5, 0.5]], "a": [0, 1, 0]},
            {"logging_probabilities": "mu"},
            "row 1: logging_probabilities is missing",
        ),
        (
            {"mu": [[0.5, 0.5], [0.5, 0.75], [0.5, 0.5]], "a": [0, 1, 0]},
            {"logging_probabilities": "mu"},
            "row 1: logging_probabilities are [0.5, 0.75]; they must be >= 0 and sum to 1",
        ),
        (
            {"mu": [[0.5, 0.5]] * 3, "a": [0, 1, 0]},
            {"logging_probabilities": "mu"},
            "row 1: propensity is 0.25 but logging_probabilities give the logged action 0.5",
        ),
        ({"t": [1, None, 2]}, {"times": "t"}, "row 1: time is missing (null in column 't')"),
        ({}, {"reward_range": (0, 0.5)}, "row 0: reward 1.0 is outside the declared reward_range (0, 0.5)"),
    ],
)
def test_wrong_masks_probabilities_times(changes: dict[str, Any], options: dict[str, Any], message: str) -> None:
    with pytest.raises(LogError) as caught:
        log_of(table(**changes), **options)
    assert message in str(caught.value)


def test_columns_as_an_object() -> None:
    columns = ColumnSpec(context="x_1", action="a", reward="r", propensity="p", reward_range=(0, 2))
    assert log_from_frame(DATA, columns).reward_range == (0.0, 2.0)
