"""Logs: sizes, codes of actions, slices, read-only columns, and the message of each fault."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import backcast as bc
from backcast._log_validation import EncodedActions, RowError
from backcast.errors import BackcastError, LogError
from backcast.log import Log, replace_columns


def four(**changes: Any) -> Log:
    """Four events, three actions, two features; each test changes what it is about."""
    given: dict[str, Any] = {
        "contexts": [[0.0, 1.0], [1.0, 0.0], [2.0, 2.0], [3.0, 1.0]],
        "actions": [0, 2, 1, 2],
        "rewards": [1.0, 0.0, 0.5, 1.0],
        "propensities": [0.5, 0.25, 0.125, 1.0],
    }
    return Log(**{**given, **changes})


def uniform_logging() -> list[list[float]]:
    return [[0.5, 0.25, 0.25], [0.5, 0.25, 0.25], [0.75, 0.125, 0.125], [0.0, 0.0, 1.0]]


# What a log says of itself


def test_sizes() -> None:
    log = four()
    assert (len(log), log.n_actions, log.n_features, log.has_action_features) == (4, 3, 2, False)
    assert repr(log) == "Log(4 events, 3 actions, 2 features)"
    assert log.propensities_estimated is False


def test_sizes_with_features_of_each_action() -> None:
    log = four(contexts=np.zeros((4, 3, 5)))
    assert (log.n_actions, log.n_features, log.has_action_features) == (3, 5, True)
    assert repr(log) == "Log(4 events, 3 actions, 5 features per action)"


def test_no_contexts_are_no_features() -> None:
    assert four(contexts=None).contexts.shape == (4, 0)


def test_sparse_contexts_stay_sparse() -> None:
    log = four(contexts=scipy.sparse.csr_array(np.eye(4)))
    assert scipy.sparse.issparse(log.contexts)
    assert log.contexts.toarray().tolist() == np.eye(4).tolist()


@pytest.mark.parametrize("make", [scipy.sparse.coo_array, scipy.sparse.csc_matrix, scipy.sparse.csr_matrix])
def test_any_sparse_kind_is_taken(make: Any) -> None:
    assert four(contexts=make(np.eye(4))).n_features == 4


def test_reward_bounds_are_declared_or_seen() -> None:
    assert four().reward_bounds == (0.0, 1.0)
    assert four(rewards=[0.25, 0.5, 0.25, 0.5]).reward_bounds == (0.25, 0.5)
    assert four(reward_range=[-1, 2]).reward_bounds == (-1.0, 2.0)
    assert four().reward_range is None


def test_times_are_kept_as_they_are() -> None:
    days = np.array(["2024-01-01", "2024-01-02", "2024-01-03", "2024-01-04"], dtype="datetime64[D]")
    times = four(times=days).times
    assert times is not None
    assert times.tolist() == days.tolist()


def test_mask_of_zeros_and_ones_is_a_mask() -> None:
    available = four(available=[[1, 0, 0], [0, 0, 1], [0, 1, 0], [1, 1, 1]]).available
    assert available is not None
    assert available.dtype == np.bool_
    assert available.sum() == 6


# Codes and labels of actions


@pytest.mark.parametrize(
    ("actions", "codes", "labels"),
    [
        ([0, 2, 1, 2], [0, 2, 1, 2], (0, 1, 2)),
        ([0.0, 2.0, 1.0, 2.0], [0, 2, 1, 2], (0, 1, 2)),
        ([5, 7, 5, -3], [1, 2, 1, 0], (-3, 5, 7)),
        ([1, 2, 1, 2], [0, 1, 0, 1], (1, 2)),
        ([2_000_000, 0, 0, 1], [2, 0, 0, 1], (0, 1, 2_000_000)),
        ([2**63 + 1, 4, 4, 4], [1, 0, 0, 0], (4, 2**63 + 1)),
        (np.array([2**63 + 1, 4, 4, 4], dtype=np.uint64), [1, 0, 0, 0], (4, 2**63 + 1)),
        ([0.5, 1.5, 0.5, 0.5], [0, 1, 0, 0], (0.5, 1.5)),
        (["b", "a", "c", "a"], [1, 0, 2, 0], ("a", "b", "c")),
        (["a\0", "a", "a", "a"], [1, 0, 0, 0], ("a", "a\0")),
        ([True, False, True, True], [1, 0, 1, 1], (False, True)),
        ([True, True, True, True], [1, 1, 1, 1], (False, True)),
        (np.array(["b", "a", "c", "a"]), [1, 0, 2, 0], ("a", "b", "c")),
    ],
)
def test_undeclared_actions_are_coded_in_sorted_order(actions: Any, codes: list[int], labels: tuple[Any, ...]) -> None:
    log = four(actions=actions)
    assert log.actions.tolist() == codes
    assert log.action_labels == labels
    assert [type(label) for label in log.action_labels] == [type(label) for label in labels]


def test_declared_number_makes_whole_numbers_codes() -> None:
    log = four(actions=[1, 2, 1, 2], n_actions=5)
    assert log.actions.tolist() == [1, 2, 1, 2]
    assert log.action_labels == (0, 1, 2, 3, 4)


@pytest.mark.parametrize(
    "declaration",
    [
        {"n_actions": 4},
        {"n_actions": np.int64(4)},
        {"available": np.ones((4, 4), dtype=bool)},
        {"contexts": np.zeros((4, 4, 2))},
    ],
)
def test_anything_that_counts_actions_declares_them(declaration: dict[str, Any]) -> None:
    assert four(**declaration).n_actions == 4


def test_declared_labels_keep_their_order() -> None:
    log = four(actions=["b", "a", "b", "a"], action_labels=["b", "none", "a"])
    assert log.actions.tolist() == [0, 2, 0, 2]
    assert log.action_labels == ("b", "none", "a")


def test_coded_actions_are_trusted() -> None:
    log = four(actions=EncodedActions(np.array([1, 0, 1, 0]), ("x", "y")))
    assert log.action_labels == ("x", "y")
    assert log.actions.tolist() == [1, 0, 1, 0]


# Slices


def test_slice_keeps_rows_and_coding() -> None:
    part = four()[1:3]
    assert part.actions.tolist() == [2, 1]
    assert part.rows.tolist() == [1, 2]
    assert part.n_actions == 3


@pytest.mark.parametrize(
    ("index", "rows"),
    [
        (2, [2]),
        (np.int64(-1), [3]),
        ([3, 0], [3, 0]),
        (np.array([True, False, False, True]), [0, 3]),
        ([], []),
        (slice(None, None, -2), [3, 1]),
        (np.array([1, 1]), [1, 1]),
    ],
)
@pytest.mark.parametrize("sparse", [False, True])
def test_every_kind_of_index(index: Any, rows: list[int], sparse: bool) -> None:
    features = np.arange(8.0).reshape(4, 2)
    log = four(contexts=scipy.sparse.csr_array(features) if sparse else features)[index]
    assert log.rows.tolist() == rows
    assert log.actions.tolist() == [[0, 2, 1, 2][row] for row in rows]
    contexts: Any = log.contexts
    assert (contexts.toarray() if sparse else contexts).tolist() == features[rows].tolist()


def test_slice_takes_every_column_along() -> None:
    mask = np.ones((4, 3), dtype=bool)
    mask[3, 0] = False
    part = four(available=mask, times=[1, 2, 3, 4], logging_probabilities=uniform_logging(), reward_range=(0, 2))[
        [3, 1]
    ]
    assert part.available is not None
    assert part.logging_probabilities is not None
    assert part.times is not None
    assert part.available.tolist() == [[False, True, True], [True, True, True]]
    assert part.times.tolist() == [4, 2]
    assert part.logging_probabilities.tolist() == [[0.0, 0.0, 1.0], [0.5, 0.25, 0.25]]
    assert part.reward_range == (0.0, 2.0)


def test_slice_of_slice_numbers_rows_of_the_first_log() -> None:
    assert four()[1:][1:].rows.tolist() == [2, 3]


def test_index_out_of_range_is_an_index_error() -> None:
    with pytest.raises(IndexError):
        four()[4]


# Nothing changes


def test_log_refuses_new_values() -> None:
    with pytest.raises(AttributeError, match="a Log is immutable; build a new one to change 'n_actions'"):
        four().n_actions = 2


@pytest.mark.parametrize("name", ["contexts", "actions", "rewards", "propensities", "available", "times", "rows"])
def test_columns_are_read_only(name: str) -> None:
    log = four(available=np.ones((4, 3), dtype=bool), times=[1, 2, 3, 4])
    with pytest.raises(ValueError, match="read-only"):
        getattr(log, name)[0] = 0


def test_logging_probabilities_are_read_only() -> None:
    probabilities = four(logging_probabilities=uniform_logging()).logging_probabilities
    assert probabilities is not None
    with pytest.raises(ValueError, match="read-only"):
        probabilities[0, 0] = 0


def test_sparse_contexts_are_read_only() -> None:
    contexts: Any = four(contexts=scipy.sparse.csr_array(np.eye(4))).contexts
    with pytest.raises(ValueError, match="read-only"):
        contexts.data[0] = 2.0


def test_callers_arrays_stay_writable_and_unchanged() -> None:
    features, actions = np.arange(8.0).reshape(4, 2), np.array([0, 2, 1, 2])
    before = features.copy(), actions.copy()
    log = four(contexts=features, actions=actions)
    assert log.contexts is not features
    assert features.flags.writeable
    assert actions.flags.writeable
    assert (features == before[0]).all()
    assert (actions == before[1]).all()


def test_replace_leaves_the_original() -> None:
    log = four()
    changed = replace_columns(log, rewards=np.zeros(4))
    assert changed.rewards.tolist() == [0.0] * 4
    assert log.rewards.tolist() == [1.0, 0.0, 0.5, 1.0]


@pytest.mark.parametrize("sparse", [False, True])
def test_pickle_gives_the_same_log(sparse: bool) -> None:
    contexts = scipy.sparse.csr_array(np.eye(4)) if sparse else np.eye(4)
    log = four(contexts=contexts, actions=["b", "a", "c", "a"], times=[1, 2, 3, 4], reward_range=(0, 1))[1:]
    back = pickle.loads(pickle.dumps(log))
    assert repr(back) == repr(log)
    assert back.action_labels == log.action_labels
    assert back.reward_range == log.reward_range
    for name in ("actions", "rewards", "propensities", "times", "rows"):
        assert (getattr(back, name) == getattr(log, name)).all()
    assert abs(back.contexts - log.contexts).sum() == 0


def test_row_error_survives_pickling() -> None:
    error = pickle.loads(pickle.dumps(RowError(3, "reward is nan", "a.csv")))
    assert str(error) == "row 3 (a.csv): reward is nan"
    assert isinstance(error, LogError)


# Errors, each with what, where, the value, the remedy

NAN, INF = float("nan"), float("inf")
SPARSE_NAN = scipy.sparse.csr_array(np.array([[0.0, 1.0], [0.0, 0.0], [0.0, NAN], [1.0, 1.0]]))
SHUT = np.array([[True, True, True], [True, True, True], [True, False, True], [True, True, True]])

ERRORS: list[tuple[dict[str, Any], str]] = [
    ({"propensities": [0.5, 0.0, 0.5, 0.5]}, "row 1: propensity is 0; it must lie in (0, 1]. Was the probability of"),
    ({"propensities": [0.5, 0.5, -0.25, 0.5]}, "row 2: propensity is -0.25; it must lie in (0, 1]"),
    ({"propensities": [0.5, 0.5, 0.5, 1.5]}, "row 3: propensity is 1.5; it must lie in (0, 1]"),
    ({"propensities": [NAN, 0.5, 0.5, 0.5]}, "row 0: propensity is nan; it must lie in (0, 1]"),
    ({"propensities": [0.5, "x", 0.5, 0.5]}, "row 1: propensity is 'x'; it must be a number"),
    ({"propensities": [0.5]}, "propensities has 1 rows but rewards has 4; all columns must have one row per event"),
    ({"rewards": [0.0, NAN, 0.0, 0.0]}, "row 1: reward is nan; rewards must be finite numbers. Drop or repair"),
    ({"rewards": [0.0, 0.0, INF, 0.0]}, "row 2: reward is inf"),
    ({"rewards": [0.0, 0.0, "high", 0.0]}, "row 2: reward is 'high'; it must be a number"),
    ({"rewards": [[0.0], [0.0], [0.0], [0.0]]}, "reward has shape (4, 1); it must be one number per event"),
    (
        {"rewards": [0.0, 0.0, 3.0, 0.0], "reward_range": (0, 1)},
        "row 2: reward 3.0 is outside the declared reward_range (0, 1)",
    ),
    ({"reward_range": (1, 0)}, "reward_range is (1, 0); it must be two finite numbers, low < high"),
    ({"reward_range": (0, INF)}, "reward_range is (0, inf); it must be two finite numbers"),
    ({"reward_range": 3}, "reward_range is 3; it must be two finite numbers"),
    ({"reward_range": "01"}, "reward_range is '01'; it must be two finite numbers"),
    ({"reward_range": (0, 1, 2)}, "reward_range is (0, 1, 2); it must be two finite numbers"),
    ({"rewards": []}, "the log is empty; it needs at least one event"),
    (
        {"contexts": [[0.0, 1.0], [0.0, NAN], [0.0, 1.0], [0.0, 1.0]]},
        "row 1: context column 1 is nan; contexts must be finite. Fill",
    ),
    ({"contexts": [[0.0, 1.0], [0.0, 1.0], [INF, 1.0], [0.0, 1.0]]}, "row 2: context column 0 is inf"),
    ({"contexts": SPARSE_NAN}, "row 2: context column 1 is nan"),
    ({"contexts": SPARSE_NAN, "feature_names": ["hour", "age"]}, "row 2: context column 'age' is nan"),
    ({"contexts": [0.0, 1.0, 2.0, 3.0]}, "contexts have shape (4,); expected (n, d), or (n, K, d)"),
    ({"contexts": [["a"], ["b"], ["c"], ["d"]]}, "contexts are not all numbers"),
    ({"contexts": np.zeros((3, 2))}, "contexts has 3 rows but rewards has 4"),
    ({"contexts": scipy.sparse.coo_array(np.zeros(4))}, "contexts have shape (4,); expected a sparse matrix"),
    (
        {"actions": [0, 1, 5, 2], "n_actions": 3},
        "row 2: action 5 is outside 0..2; with 3 actions declared, actions are codes",
    ),
    ({"actions": [0, -1, 0, 2], "n_actions": 3}, "row 1: action -1 is outside 0..2"),
    ({"actions": ["a", None, "b", "a"]}, "row 1: action is missing (None); every event needs its logged action"),
    ({"actions": [0.0, 1.0, NAN, 1.0]}, "row 2: action is missing (nan)"),
    (
        {"actions": ["a", "b", "c", "a"], "action_labels": ["a", "b"]},
        "row 2: action 'c' is not one of the labels ('a', 'b')",
    ),
    ({"actions": ["a", None, "b", "a"], "action_labels": ["a", "b"]}, "row 1: action is missing (None)"),
    ({"actions": ["z"] * 4, "action_labels": list("abcdefghij")}, "'g', 'h', ...)"),
    (
        {"actions": ["a", "b", "a", "a"], "action_labels": ["a", "b", "a"]},
        "action_labels repeat; each action needs a different label",
    ),
    ({"actions": ["a", 1, "b", "a"]}, "actions mix types that cannot be ordered; give action_labels"),
    (
        {"actions": ["a", "b", "b", "a"], "n_actions": 3},
        "3 actions are declared but 2 labels are seen; give action_labels",
    ),
    ({"actions": [[0], [1], [0], [1]]}, "actions have shape (4, 1); they must be one label per event"),
    ({"actions": [0, 1]}, "actions has 2 rows but rewards has 4"),
    ({"actions": EncodedActions(np.array([0, 1, 0, 1]), (0, 1)), "n_actions": 3}, "the number of actions differs"),
    ({"n_actions": 0}, "the number of actions is 0; it must be at least 1"),
    ({"n_actions": 2.5}, "n_actions is 2.5; it must be a whole number"),
    (
        {"n_actions": 4, "action_labels": [0, 1, 2]},
        "the number of actions differs: n_actions = 4, action_labels = 3",
    ),
    (
        {"n_actions": 3, "contexts": np.zeros((4, 5, 1))},
        "the number of actions differs: n_actions = 3, contexts = 5",
    ),
    ({"available": SHUT}, "row 2: the logged action 1 is marked unavailable; the mask must include the action"),
    ({"available": np.ones((2, 3), dtype=bool)}, "available has 2 rows but rewards has 4"),
    ({"available": [True] * 4}, "available has shape (4,); it must be a mask of shape (n, K)"),
    ({"available": np.full((4, 3), 0.5)}, "row 0: available[0] is 0.5; it must be True or False"),
    ({"available": np.full((4, 3), NAN)}, "row 0: available[0] is nan; it must be True or False"),
    ({"available": np.full((4, 3), "False")}, "row 0: available[0] is 'False'; it must be True or False"),
    ({"times": [1, 2]}, "times has 2 rows but rewards has 4"),
    ({"times": 5}, "times have shape (); they must be one per event"),
    (
        {"logging_probabilities": [[0.5, 0.25, 0.5]] * 4},
        "row 0: logging_probabilities are [0.5, 0.25, 0.5]; they must be >= 0 and sum to 1",
    ),
    ({"logging_probabilities": [[0.5, 0.75, -0.25]] * 4}, "row 0: logging_probabilities are"),
    ({"logging_probabilities": [[0.5, 0.25, NAN]] * 4}, "row 0: logging_probabilities are"),
    (
        {"logging_probabilities": [[0.5, 0.0, 0.5]] * 4},
        "row 1: propensity is 0.25 but logging_probabilities give the logged action 0.5",
    ),
    ({"logging_probabilities": [[0.5, 0.5]] * 4, "n_actions": 3}, "n_actions = 3, logging_probabilities = 2"),
    (
        {"logging_probabilities": [[0.5, 0.5]] * 4, "actions": EncodedActions(np.zeros(4, np.int64), (0, 1, 2))},
        "the number of actions differs",
    ),
    ({"logging_probabilities": [0.5] * 4}, "logging_probabilities have shape (4,); expected (n, K)"),
    ({"logging_probabilities": [["a", "b", "c"]] * 4}, "logging_probabilities are not all numbers"),
    ({"logging_probabilities": [[0.5, 0.25, 0.25]] * 3}, "logging_probabilities has 3 rows but rewards has 4"),
]


@pytest.mark.parametrize(("changes", "message"), ERRORS, ids=[message[:40] for _, message in ERRORS])
def test_each_fault_has_its_message(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(LogError) as caught:
        four(**changes)
    assert message in str(caught.value)


def test_the_largest_contexts_are_let_in() -> None:
    # the sum of their squares is above that of one such number, which needs the exact test
    assert four(contexts=np.full((4, 2), 1e75)).contexts[0, 0] == 1e75


# Values that no log can hold


@pytest.mark.parametrize("value", [1e76, -1e155, 1e308])
def test_values_whose_powers_overflow_are_refused_with_their_row(value: float) -> None:
    columns: dict[str, Any] = {"actions": [0, 1], "propensities": [0.5, 0.5]}
    with pytest.raises(LogError, match=r"row 1: reward is .*, more than 1e.75; scale the rewards"):
        Log(None, rewards=[1.0, value], **columns)
    with pytest.raises(LogError, match=r"row 1: context column 2 is .*, more than 1e.75; scale the column"):
        Log([[0.0, 0.0, 0.0], [0.0, 1.0, value]], rewards=[1.0, 0.0], **columns)
    with pytest.raises(LogError, match="row 1: context column 2 is"):
        Log(scipy.sparse.csr_array([[0.0, 0.0, 0.0], [0.0, 1.0, value]]), rewards=[1.0, 0.0], **columns)
    for contexts in ([[0.0, 0.0], [1.0, value]], scipy.sparse.csr_array([[0.0, 0.0], [1.0, value]])):
        with pytest.raises(LogError, match="row 1: context column 'age' is"):
            Log(contexts, rewards=[1.0, 0.0], feature_names=["hour", "age"], **columns)
    frame = {"x": [1.0, value], "a": [0, 1], "r": [0, 1]}
    with pytest.raises(LogError, match="row 1: context column 'x' is"):
        Log.from_frame(frame, context="x", action="a", reward="r", propensity=0.5)
    with pytest.raises(LogError, match="reward_range"):
        Log(None, rewards=[1.0, 0.0], reward_range=(-abs(value), 1), **columns)


@pytest.mark.parametrize("column", ["contexts", "rewards", "propensities", "logging_probabilities", "times"])
def test_complex_numbers_are_refused(column: str) -> None:
    arrays: dict[str, Any] = {
        "contexts": np.ones((2, 1)),
        "actions": [0, 1],
        "rewards": np.ones(2),
        "propensities": np.full(2, 0.5),
        "logging_probabilities": np.full((2, 2), 0.5),
        "times": np.ones(2),
    }
    with pytest.raises(LogError, match="complex"):
        Log(**{**arrays, column: arrays[column] + 0j})
    if column == "contexts":
        with pytest.raises(LogError, match="complex"):
            Log(**{**arrays, "contexts": scipy.sparse.csr_array(arrays["contexts"] + 0j)})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"actions": [[0], [1, 2]]}, "actions are lists of different lengths"),
        ({"available": [[1], [1, 1]]}, "available has rows of different lengths"),
        ({"action_labels": 5}, "action_labels is 5; it must be a list"),
        ({"action_labels": [[0], [1]]}, "a label must be a text or a number"),
        ({"n_actions": True}, "n_actions is True; it must be a whole number"),
        ({"feature_names": 5}, "feature_names are 5"),
        ({"feature_names": ["x"]}, "there are 1 feature_names but 0 features"),
        ({"rewards": 5}, "reward"),
        ({"rewards": np.array(["2026-01-01"] * 2, dtype="datetime64[D]")}, "reward holds dates"),
        ({"propensities": [50.0, 25.0]}, "Are these percents. Divide them by 100"),
    ],
)
def test_wrong_arguments(changes: dict[str, Any], message: str) -> None:
    arrays: dict[str, Any] = {"contexts": None, "actions": [0, 1], "rewards": [0, 1], "propensities": [0.5, 0.5]}
    with pytest.raises(LogError, match=message):
        Log(**{**arrays, **changes})


@pytest.mark.parametrize(
    "options",
    [
        *({"context": 5}, {"n_actions": "2"}, {"n_actions": 2.5}, {"action_labels": 5}, {"available": 5}, {"times": 5}),
        *({"logging_probabilities": 5}, {"propensity": True}, {"hash_size": "4"}, {"time": "x"}),
    ],
)
def test_wrong_options_of_frames(options: dict[str, Any]) -> None:
    roles: dict[str, Any] = {"context": "x", "action": "a", "reward": "r", "propensity": 0.5}
    with pytest.raises(BackcastError, match=next(iter(options))):
        Log.from_frame({"x": [1, 2], "a": [0, 1], "r": [0, 1]}, **{**roles, **options})


def test_float32_probabilities_are_normalised() -> None:
    table = np.array([[0.1, 0.2, 0.7], [0.3, 0.3, 0.4]], dtype=np.float32) * np.float32(1 + 2e-7)
    assert abs(float(table.astype(float).sum(axis=1)[0]) - 1) > 1e-9
    log = Log(None, [0, 2], [0, 1], table[[0, 1], [0, 2]], logging_probabilities=table, n_actions=3)
    assert log.logging_probabilities is not None
    assert np.abs(log.logging_probabilities.sum(axis=1) - 1).max() < 1e-15
    log = Log(None, [0, 2], [0, 1], [0.5, 0.5], n_actions=3)
    for policy in (bc.Fixed(table[0]), bc.Fixed(lambda contexts: table[: len(contexts)])):
        assert np.isfinite(bc.evaluate(log, policy, bc.IPS()).value)
