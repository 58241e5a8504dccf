"""The door of the log: every check of its columns, each with one clear message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from backcast.arrays import BoolArray, Contexts, FloatArray, IntArray, is_sparse
from backcast.errors import LogError


def float_column(values: Any, name: str) -> FloatArray:
    try:
        column = np.ascontiguousarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        row, value = _first_not_a_number(values)
        raise LogError(f"row {row}: {name} is {value!r}; it must be a number") from None
    if column.ndim != 1:
        raise LogError(f"{name} has shape {column.shape}; it must be one number an event, shape (n,)")
    return column


def _first_not_a_number(values: Any) -> tuple[int, object]:
    for row, value in enumerate(values):
        try:
            float(value)
        except (TypeError, ValueError):
            return row, value
    return 0, values


def context_columns(contexts: Any, n: int) -> Contexts:
    if contexts is None:
        return np.zeros((n, 0))
    if is_sparse(contexts):
        import scipy.sparse

        matrix = scipy.sparse.csr_array(contexts, dtype=np.float64)
        if not np.isfinite(matrix.data).all():
            where = int(np.flatnonzero(~np.isfinite(matrix.data))[0])
            row = int(np.searchsorted(matrix.indptr, where, side="right")) - 1
            _bad_context(row, int(matrix.indices[where]), float(matrix.data[where]))
        return matrix
    try:
        array = np.ascontiguousarray(contexts, dtype=np.float64)
    except (TypeError, ValueError) as problem:
        raise LogError(
            f"contexts are not all numbers ({problem}); encode text columns, or let Log.from_frame or read_log do it"
        ) from None
    if array.ndim not in (2, 3):
        raise LogError(
            f"contexts have shape {array.shape}; expected (n, d), or (n, K, d) with features of each action "
            "(for a single feature pass X[:, None])"
        )
    if not np.isfinite(array).all():
        row, *column = (int(i) for i in np.argwhere(~np.isfinite(array))[0])
        _bad_context(row, column[-1], float(array[(row, *column)]))
    return array


def _bad_context(row: int, column: int, value: float) -> None:
    raise LogError(
        f"row {row}: context column {column} is {value}; contexts must be finite. Fill or drop missing values first"
    )


def availability_mask(available: Any) -> BoolArray | None:
    if available is None:
        return None
    mask = np.ascontiguousarray(available, dtype=np.bool_)
    if mask.ndim != 2:
        raise LogError(f"available has shape {mask.shape}; it must be a mask of shape (n, K)")
    return mask


def declared_actions(
    contexts: Contexts,
    available: BoolArray | None,
    logging: FloatArray | None,
    n_actions: int | None,
    labels: Sequence[Any] | None,
) -> int | None:
    """The number of actions K, if any argument fixes it; they must agree."""
    said = {
        "n_actions": n_actions,
        "action_labels": None if labels is None else len(labels),
        "available": None if available is None else available.shape[1],
        "logging_probabilities": None if logging is None or logging.ndim != 2 else logging.shape[1],
        "contexts": contexts.shape[1] if contexts.ndim == 3 else None,
    }
    known = {name: count for name, count in said.items() if count is not None}
    if len(set(known.values())) > 1:
        raise LogError(
            "the number of actions differs: " + ", ".join(f"{name} says {count}" for name, count in known.items())
        )
    count = next(iter(known.values()), None)
    if count is not None and count < 1:
        raise LogError(f"the number of actions is {count}; it must be at least 1")
    return count


def action_codes(actions: Any, declared: int | None, labels: Sequence[Any] | None) -> tuple[IntArray, tuple[Any, ...]]:
    """Turn actions into codes 0..K-1 and the tuple of K labels."""
    column = np.asarray(actions)
    if column.ndim != 1:
        raise LogError(f"actions have shape {column.shape}; they must be one label an event, shape (n,)")
    if labels is not None:
        return _codes_of_labels(column, tuple(labels))
    if column.dtype.kind == "f" and np.isfinite(column).all() and (column == np.floor(column)).all():
        column = column.astype(np.int64)
    if column.dtype.kind in "iu":
        return _codes_of_integers(column.astype(np.int64), declared)
    if column.dtype.kind == "b" and declared in (None, 2):
        return column.astype(np.int64), (False, True)
    return _codes_of_anything(column, declared)


def _codes_of_labels(column: npt.NDArray[Any], labels: tuple[Any, ...]) -> tuple[IntArray, tuple[Any, ...]]:
    position = {label: code for code, label in enumerate(labels)}
    if len(position) != len(labels):
        raise LogError("action_labels repeat; each action needs a label of its own")
    codes = np.empty(column.size, dtype=np.int64)
    for row, label in enumerate(column.tolist()):
        code = position.get(label)
        if code is None:
            raise LogError(f"row {row}: action {label!r} is not one of the declared labels {_short(labels)}")
        codes[row] = code
    return codes, labels


def _codes_of_integers(column: IntArray, declared: int | None) -> tuple[IntArray, tuple[Any, ...]]:
    if column.size == 0:
        return column, tuple(range(declared or 0))
    low, high = int(column.min()), int(column.max())
    if declared is not None:
        if low < 0 or high >= declared:
            row = int(np.flatnonzero((column < 0) | (column >= declared))[0])
            raise LogError(
                f"row {row}: action {int(column[row])} is outside 0..{declared - 1}; "
                f"with {declared} actions declared, actions are codes from 0 (or give action_labels)"
            )
        return np.ascontiguousarray(column), tuple(range(declared))
    if low >= 0 and high < max(1024, column.size):
        seen = np.flatnonzero(np.bincount(column, minlength=high + 1))
    else:
        seen = np.unique(column)
    if seen.size == high + 1 and low == 0:
        return np.ascontiguousarray(column), tuple(range(high + 1))
    return np.searchsorted(seen, column).astype(np.int64), tuple(int(label) for label in seen)


def _codes_of_anything(column: npt.NDArray[Any], declared: int | None) -> tuple[IntArray, tuple[Any, ...]]:
    for row, label in enumerate(column.tolist()):
        if label is None or label != label:
            raise LogError(f"row {row}: action is missing ({label!r}); every event needs its logged action")
    try:
        found, codes = np.unique(column, return_inverse=True)
    except TypeError:
        raise LogError("actions mix types that cannot be ordered; give action_labels") from None
    if declared is not None and found.size != declared:
        raise LogError(f"{declared} actions are declared but {found.size} labels are seen; give action_labels")
    return codes.astype(np.int64), tuple(found.tolist())


def _short(labels: tuple[Any, ...]) -> str:
    shown = ", ".join(repr(label) for label in labels[:8])
    return f"({shown}{', ...' if len(labels) > 8 else ''})"


def check_length(name: str, length: int, n: int) -> None:
    if length != n:
        raise LogError(f"{name} has {length} rows but rewards has {n}; all columns must have one row an event")


def check_rewards(rewards: FloatArray, reward_range: tuple[float, float] | None) -> None:
    bad = ~np.isfinite(rewards)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise LogError(f"row {row}: reward is {rewards[row]}; rewards must be finite numbers. Drop or repair the event")
    if reward_range is None:
        return
    low, high = reward_range
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise LogError(f"reward_range is {reward_range}; it must be two finite numbers, low < high")
    outside = (rewards < low) | (rewards > high)
    if outside.any():
        row = int(np.flatnonzero(outside)[0])
        raise LogError(f"row {row}: reward {rewards[row]} is outside the declared reward_range {reward_range}")


def check_propensities(propensities: FloatArray) -> None:
    bad = ~((propensities > 0) & (propensities <= 1))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise LogError(
            f"row {row}: propensity is {propensities[row]:g}; it must lie in (0, 1]. "
            "Was the probability of the logged action recorded?"
        )


def check_available(available: BoolArray | None, actions: IntArray, labels: tuple[Any, ...]) -> None:
    if available is None:
        return
    shut = ~available[np.arange(actions.size), actions]
    if shut.any():
        row = int(np.flatnonzero(shut)[0])
        raise LogError(
            f"row {row}: the logged action {labels[actions[row]]!r} is marked unavailable; "
            "the mask must include the action that was taken"
        )


def check_logging(logging: FloatArray | None, actions: IntArray, propensities: FloatArray, n_actions: int) -> None:
    if logging is None:
        return
    if logging.shape != (actions.size, n_actions):
        raise LogError(f"logging_probabilities have shape {logging.shape}; expected ({actions.size}, {n_actions})")
    wrong = ~((logging >= 0).all(axis=1) & (np.abs(logging.sum(axis=1) - 1) <= 1e-6))
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise LogError(f"row {row}: logging_probabilities are {logging[row].tolist()}; they must be >= 0 and sum to 1")
    own = logging[np.arange(actions.size), actions]
    differ = np.abs(own - propensities) > 1e-6
    if differ.any():
        row = int(np.flatnonzero(differ)[0])
        raise LogError(
            f"row {row}: propensity is {propensities[row]:g} but logging_probabilities give the logged action "
            f"{own[row]:g}; one of the two columns is wrong"
        )
