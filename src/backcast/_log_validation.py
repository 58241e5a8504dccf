"""The door of the log: every check of its columns, each with one clear message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from backcast._arrays import BoolArray, Contexts, FloatArray, IntArray, is_sparse
from backcast.errors import LONGEST_MESSAGE, LogError, printable

MOST_ACTIONS = 2**22  # every evaluator holds the probabilities of all actions for a block of events


class RowError(LogError):
    """One row of the log is wrong; remembers which, so that a source can say where the row came from.

    >>> str(RowError(2, "reward is nan").moved(100, "b.parquet"))
    'row 102 (b.parquet): reward is nan'
    """

    def __init__(self, row: int, problem: str, file: str = "") -> None:
        super().__init__(row, problem, file)
        self.row, self.problem, self.file = row, problem, file

    def __str__(self) -> str:
        return printable(f"row {self.row}{f' ({self.file})' if self.file else ''}: {self.problem}", LONGEST_MESSAGE)

    def moved(self, rows: int, file: str = "") -> RowError:
        """The same error, ``rows`` further down, in a file of this name."""
        return RowError(self.row + rows, self.problem, file)


class EncodedActions(NamedTuple):
    """Actions that a source has coded already: codes ``0..K-1`` and the K labels."""

    codes: IntArray
    labels: tuple[Any, ...]


def float_column(values: Any, name: str) -> FloatArray:
    """One number an event as float64; no copy where it is that already."""
    try:
        column = np.ascontiguousarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        row, value = _first_not_a_number(values)
        raise RowError(row, f"{name} is {value!r}; it must be a number") from None
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
    """Contexts as a float64 array or CSR matrix, all finite; None is no features at all."""
    if contexts is None:
        return np.zeros((n, 0))
    if is_sparse(contexts):
        return _sparse_contexts(contexts)
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
    if not _all_finite(array):
        row, *column = (int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise _bad_context(row, column[-1], float(array[(row, *column)]))
    return array


def _all_finite(array: FloatArray) -> bool:
    # A finite sum proves it ten times faster than looking at each number; only an overflow needs the second look.
    with np.errstate(all="ignore"):
        return bool(np.isfinite(array.sum()) or np.isfinite(array).all())


def _sparse_contexts(contexts: Any) -> Contexts:
    import scipy.sparse

    matrix: Any = scipy.sparse.csr_array(contexts, dtype=np.float64)
    if matrix.ndim != 2:
        raise LogError(f"contexts have shape {matrix.shape}; expected a sparse matrix of shape (n, d)")
    bad = np.flatnonzero(~np.isfinite(matrix.data))
    if bad.size:
        row = int(np.searchsorted(matrix.indptr, bad[0], side="right")) - 1
        raise _bad_context(row, int(matrix.indices[bad[0]]), float(matrix.data[bad[0]]))
    return matrix  # type: ignore[no-any-return]


def _bad_context(row: int, column: int, value: float) -> RowError:
    return RowError(
        row, f"context column {column} is {value}; contexts must be finite. Fill or drop missing values first"
    )


def availability_mask(available: Any) -> BoolArray | None:
    """The mask of eligible actions as booleans; numbers must be 0 or 1."""
    if available is None:
        return None
    mask = np.asarray(available)
    if mask.ndim != 2:
        raise LogError(f"available has shape {mask.shape}; it must be a mask of shape (n, K)")
    if mask.dtype != np.bool_:
        wrong = ~((mask == 0) | (mask == 1))
        if wrong.any():
            row, action = (int(i) for i in np.argwhere(wrong)[0])
            raise RowError(row, f"available[{action}] is {mask[row, action].item()!r}; it must be True or False")
    return np.ascontiguousarray(mask, dtype=np.bool_)


def probability_matrix(probabilities: Any) -> FloatArray | None:
    """The logger's probabilities of all actions as an ``(n, K)`` array."""
    if probabilities is None:
        return None
    try:
        matrix = np.ascontiguousarray(probabilities, dtype=np.float64)
    except (TypeError, ValueError) as problem:
        raise LogError(f"logging_probabilities are not all numbers ({problem})") from None
    if matrix.ndim != 2:
        raise LogError(f"logging_probabilities have shape {matrix.shape}; expected (n, K)")
    return matrix


def time_column(times: Any) -> npt.NDArray[Any] | None:
    """The times as they are, one an event."""
    if times is None:
        return None
    column = np.asarray(times)
    if column.ndim != 1:
        raise LogError(f"times have shape {column.shape}; they must be one an event, shape (n,)")
    return column


def declared_actions(
    contexts: Contexts,
    available: BoolArray | None,
    logging: FloatArray | None,
    n_actions: int | None,
    labels: Sequence[Any] | None,
) -> int | None:
    """The number of actions K, if any argument fixes it; they must agree."""
    if n_actions is not None and not isinstance(n_actions, int | np.integer):
        raise LogError(f"n_actions is {n_actions!r}; it must be a whole number")
    said = {
        "n_actions": n_actions,
        "action_labels": None if labels is None else len(labels),
        "available": None if available is None else available.shape[1],
        "logging_probabilities": None if logging is None else logging.shape[1],
        "contexts": contexts.shape[1] if contexts.ndim == 3 else None,
    }
    known = {name: int(count) for name, count in said.items() if count is not None}
    if len(set(known.values())) > 1:
        raise LogError(
            "the number of actions differs: " + ", ".join(f"{name} says {count}" for name, count in known.items())
        )
    count = next(iter(known.values()), None)
    if count is not None and count < 1:
        raise LogError(f"the number of actions is {count}; it must be at least 1")
    check_number_of_actions(count or 0)
    return count


def check_number_of_actions(count: int) -> None:
    """Refuse more actions than any evaluator could hold probabilities of; the likelier cause is the wrong column."""
    if count > MOST_ACTIONS:
        raise LogError(
            f"there are {count:,} actions or more, and {MOST_ACTIONS:,} are the most; is the column an identifier?"
        )


def action_codes(actions: Any, declared: int | None, labels: Sequence[Any] | None) -> tuple[IntArray, tuple[Any, ...]]:
    """Turn actions into codes 0..K-1 and the tuple of K labels.

    Declared labels are coded in their order. Whole numbers are codes when K is declared. Otherwise the labels
    are the distinct values seen, in sorted order; whole numbers that fill 0..K-1 are therefore their own codes.

    >>> action_codes([0, 2, 1], None, None)
    (array([0, 2, 1]), (0, 1, 2))
    >>> action_codes(["mail", "call", "mail"], None, None)
    (array([1, 0, 1]), ('call', 'mail'))
    """
    if isinstance(actions, EncodedActions):
        if declared not in (None, len(actions.labels)):
            raise LogError(f"the number of actions differs: {declared} are declared, {len(actions.labels)} are coded")
        return actions.codes, actions.labels
    column = _action_column(actions)
    if column.ndim != 1:
        raise LogError(f"actions have shape {column.shape}; they must be one label an event, shape (n,)")
    if labels is not None:
        return _codes_of_labels(column, tuple(labels))
    if column.dtype.kind == "f" and _all_whole(column):
        column = column.astype(np.int64)
    if column.dtype.kind in "iu" and (column.dtype != np.uint64 or column.max(initial=0) <= np.iinfo(np.int64).max):
        return _codes_of_integers(column.astype(np.int64), declared)
    if column.dtype.kind == "b" and declared in (None, 2):
        return column.astype(np.int64), (False, True)
    return _codes_of_anything(column, declared)


def _action_column(actions: Any) -> npt.NDArray[Any]:
    column = np.asarray(actions)
    if isinstance(actions, np.ndarray):
        return column
    # numpy would drop trailing NULs of text, turn numbers among text into text, and round whole numbers past 2**53.
    rounded = column.dtype.kind == "f" and np.abs(column).max(initial=0) > 2.0**53
    return np.asarray(actions, dtype=object) if column.dtype.kind in "US" or rounded else column


def _all_whole(column: npt.NDArray[Any]) -> bool:
    return bool((np.abs(column) < 2.0**63).all() and (column == np.floor(column)).all())


def _codes_of_labels(column: npt.NDArray[Any], labels: tuple[Any, ...]) -> tuple[IntArray, tuple[Any, ...]]:
    position = {label: code for code, label in enumerate(labels)}
    if len(position) != len(labels):
        raise LogError("action_labels repeat; each action needs a label of its own")
    codes = np.empty(column.size, dtype=np.int64)
    for row, label in enumerate(column.tolist()):
        code = position.get(label)
        if code is None:
            raise unknown_action_error(row, label, labels)
        codes[row] = code
    return codes, labels


def unknown_action_error(row: int, label: object, labels: tuple[Any, ...]) -> RowError:
    """The error of an action that is none of the K labels; missing ones say so."""
    if label is None or label != label:
        return RowError(row, f"action is missing ({label!r}); every event needs its logged action")
    if labels == tuple(range(len(labels))):
        return RowError(
            row,
            f"action {label!r} is outside 0..{len(labels) - 1}; "
            f"with {len(labels)} actions declared, actions are codes from 0 (or give action_labels)",
        )
    return RowError(row, f"action {label!r} is not one of the labels {_short(labels)}")


def _codes_of_integers(column: IntArray, declared: int | None) -> tuple[IntArray, tuple[Any, ...]]:
    if column.size == 0:
        return column, tuple(range(declared or 0))
    low, high = int(column.min()), int(column.max())
    if declared is not None:
        if low < 0 or high >= declared:
            row = int(np.flatnonzero((column < 0) | (column >= declared))[0])
            raise unknown_action_error(row, int(column[row]), tuple(range(declared)))
        return np.ascontiguousarray(column), tuple(range(declared))
    if low >= 0 and high < max(1024, column.size):
        seen = np.flatnonzero(np.bincount(column, minlength=high + 1))
    else:
        seen = np.unique(column)
    if seen.size == high + 1 and low == 0:
        return np.ascontiguousarray(column), tuple(range(high + 1))
    return np.searchsorted(seen, column).astype(np.int64), tuple(int(label) for label in seen)


def _codes_of_anything(column: npt.NDArray[Any], declared: int | None) -> tuple[IntArray, tuple[Any, ...]]:
    values = column.tolist()
    for row, label in enumerate(values):
        if label is None or label != label:
            raise unknown_action_error(row, label, ())
    try:
        found = tuple(sorted(set(values)))
    except TypeError:
        raise LogError("actions mix types that cannot be ordered; give action_labels") from None
    if declared is not None and len(found) != declared:
        raise LogError(f"{declared} actions are declared but {len(found)} labels are seen; give action_labels")
    position = {label: code for code, label in enumerate(found)}
    return np.fromiter((position[value] for value in values), dtype=np.int64, count=len(values)), found


def _short(labels: tuple[Any, ...]) -> str:
    shown = ", ".join(repr(label) for label in labels[:8])
    return f"({shown}{', ...' if len(labels) > 8 else ''})"


def check_length(name: str, length: int, n: int) -> None:
    """Refuse a column that has not one row an event."""
    if length != n:
        raise LogError(f"{name} has {length} rows but rewards has {n}; all columns must have one row an event")


def check_rewards(rewards: FloatArray, reward_range: tuple[float, float] | None) -> None:
    """Refuse rewards that are not finite, or outside the declared range."""
    bad = ~np.isfinite(rewards)
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise RowError(row, f"reward is {rewards[row]}; rewards must be finite numbers. Drop or repair the event")
    if reward_range is None:
        return
    low, high = check_reward_range(reward_range)
    outside = (rewards < low) | (rewards > high)
    if outside.any():
        row = int(np.flatnonzero(outside)[0])
        raise RowError(row, f"reward {rewards[row]} is outside the declared reward_range ({low:g}, {high:g})")


def check_reward_range(reward_range: Any) -> tuple[float, float]:
    """The declared range as two floats, low < high."""
    try:
        low, high = (float(bound) for bound in reward_range)
    except (TypeError, ValueError):
        low = high = float("nan")
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise LogError(f"reward_range is {reward_range!r}; it must be two finite numbers, low < high")
    return low, high


def check_propensities(propensities: FloatArray) -> None:
    """Refuse propensities outside (0, 1]."""
    bad = ~((propensities > 0) & (propensities <= 1))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise RowError(
            row,
            f"propensity is {propensities[row]:g}; it must lie in (0, 1]. "
            "Was the probability of the logged action recorded?",
        )


def check_available(available: BoolArray | None, actions: IntArray, labels: tuple[Any, ...]) -> None:
    """Refuse a mask that shuts out the action that was taken."""
    if available is None:
        return
    shut = ~available[np.arange(actions.size), actions]
    if shut.any():
        row = int(np.flatnonzero(shut)[0])
        raise RowError(
            row,
            f"the logged action {labels[actions[row]]!r} is marked unavailable; "
            "the mask must include the action that was taken",
        )


def check_logging(logging: FloatArray | None, actions: IntArray, propensities: FloatArray, n_actions: int) -> None:
    """Refuse logging probabilities that are no distribution or contradict the propensity."""
    if logging is None:
        return
    if logging.shape != (actions.size, n_actions):
        raise LogError(f"logging_probabilities have shape {logging.shape}; expected ({actions.size}, {n_actions})")
    wrong = ~((logging >= 0).all(axis=1) & (np.abs(logging.sum(axis=1) - 1) <= 1e-6))
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise RowError(row, f"logging_probabilities are {logging[row].tolist()}; they must be >= 0 and sum to 1")
    own = logging[np.arange(actions.size), actions]
    differ = np.abs(own - propensities) > 1e-6
    if differ.any():
        row = int(np.flatnonzero(differ)[0])
        raise RowError(
            row,
            f"propensity is {propensities[row]:g} but logging_probabilities give the logged action "
            f"{own[row]:g}; one of the two columns is wrong",
        )
