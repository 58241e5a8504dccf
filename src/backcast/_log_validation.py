"""Validation of the columns of a log, with one error message per fault."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from backcast._arrays import BoolArray, Contexts, FloatArray, IntArray, is_sparse
from backcast.errors import LONGEST_MESSAGE, LogError, printable

LARGEST = 1e75  # of rewards and contexts, so that no fourth power of them overflows
MOST_ACTIONS = 2**22  # every evaluator holds the probabilities of all actions for a block of events


class RowError(LogError):
    """A row of the log is wrong; keeps its number, so that a reader can add the file it came from.

    >>> str(RowError(2, "reward is nan").shift(100, "b.parquet"))
    'row 102 (b.parquet): reward is nan'
    """

    def __init__(self, row: int, problem: str, file: str = "") -> None:
        super().__init__(row, problem, file)
        self.row, self.problem, self.file = row, problem, file

    def __str__(self) -> str:
        return printable(f"row {self.row}{f' ({self.file})' if self.file else ''}: {self.problem}", LONGEST_MESSAGE)

    def shift(self, rows: int, file: str = "") -> RowError:
        """Return the same error ``rows`` further down, in a file of this name."""
        return RowError(self.row + rows, self.problem, file)


class EncodedActions(NamedTuple):
    """Actions that a reader has encoded already: codes ``0..K-1`` and the K labels."""

    codes: IntArray
    labels: tuple[Any, ...]


def to_float_column(values: Any, name: str) -> FloatArray:
    """Return one number per event as float64, without a copy if possible."""
    try:
        column = _to_float64(values, name)
    except LogError:
        raise
    except (TypeError, ValueError):
        row, value = _find_non_number(values)
        raise RowError(row, f"{name} is {value!r}; it must be a number") from None
    if column.ndim != 1:
        raise LogError(f"{name} has shape {column.shape}; it must be one number per event, shape (n,)")
    return column


def _to_float64(values: Any, name: str) -> FloatArray:
    """Return numbers as a contiguous float64 array; refuse complex numbers and dates, which numpy would convert."""
    array = np.asarray(values)
    if array.dtype.kind in "cmM":
        kind = "complex numbers" if array.dtype.kind == "c" else "dates"
        raise LogError(f"{name} holds {kind} ({array.dtype}); it must hold real numbers")
    return np.ascontiguousarray(array, dtype=np.float64)


def _find_non_number(values: Any) -> tuple[int, object]:
    if not isinstance(values, Iterable):
        return 0, values
    for row, value in enumerate(values):
        try:
            float(value)
        except (TypeError, ValueError):
            return row, value
    return 0, values


def to_contexts(contexts: Any, n: int, names: Any = None) -> Contexts:
    """Return contexts as a float64 array or CSR matrix, all finite; None gives zero features.

    ``names`` are the names of the features as given, for messages.
    """
    if contexts is None:
        return np.zeros((n, 0))
    if is_sparse(contexts):
        return _to_sparse_contexts(contexts, names)
    try:
        array = _to_float64(contexts, "contexts")
    except LogError:
        raise
    except (TypeError, ValueError) as problem:
        raise LogError(
            f"contexts are not all numbers ({problem}); encode text columns, or use Log.from_frame or read_log"
        ) from None
    if array.ndim not in (2, 3):
        raise LogError(
            f"contexts have shape {array.shape}; expected (n, d), or (n, K, d) with features of each action "
            "(for a single feature pass X[:, None])"
        )
    # A small sum of squares proves that all numbers are small, ten times faster; few logs need the second test.
    with np.errstate(all="ignore"):
        all_small = np.vdot(array, array) <= LARGEST**2 or (np.abs(array) <= LARGEST).all()
    if not all_small:
        row, *column = (int(i) for i in np.argwhere(~(np.abs(array) <= LARGEST))[0])
        raise _infinite_context_error(row, column[-1], float(array[(row, *column)]), names)
    return array


def _to_sparse_contexts(contexts: Any, names: Any) -> Contexts:
    import scipy.sparse

    if contexts.dtype.kind == "c":
        raise LogError(f"contexts holds complex numbers ({contexts.dtype}); it must hold real numbers")
    matrix: Any = scipy.sparse.csr_array(contexts, dtype=np.float64)
    if matrix.ndim != 2:
        raise LogError(f"contexts have shape {matrix.shape}; expected a sparse matrix of shape (n, d)")
    wrong = np.flatnonzero(~(np.abs(matrix.data) <= LARGEST))
    if wrong.size:
        row = int(np.searchsorted(matrix.indptr, wrong[0], side="right")) - 1
        raise _infinite_context_error(row, int(matrix.indices[wrong[0]]), float(matrix.data[wrong[0]]), names)
    return matrix  # type: ignore[no-any-return]


def _infinite_context_error(row: int, column: int, value: float, names: Any) -> RowError:
    # the names are checked after the contexts, whose width they must have
    is_named = isinstance(names, Sequence) and column < len(names)
    feature = f"context column {names[column]!r}" if is_named else f"context column {column}"
    if np.isfinite(value):
        return RowError(row, f"{feature} is {value:g}, more than {LARGEST:g}; scale the column")
    return RowError(row, f"{feature} is {value}; contexts must be finite. Fill or drop missing values first")


def to_availability_mask(available: Any) -> BoolArray | None:
    """Return the mask of eligible actions as booleans; numbers must be 0 or 1."""
    if available is None:
        return None
    try:
        mask = np.asarray(available)
    except ValueError:
        raise LogError("available has rows of different lengths; it must be a mask of shape (n, K)") from None
    if mask.ndim != 2:
        raise LogError(f"available has shape {mask.shape}; it must be a mask of shape (n, K)")
    if mask.dtype != np.bool_:
        wrong = ~((mask == 0) | (mask == 1))
        if wrong.any():
            row, action = (int(i) for i in np.argwhere(wrong)[0])
            raise RowError(row, f"available[{action}] is {mask[row, action].item()!r}; it must be True or False")
    return np.ascontiguousarray(mask, dtype=np.bool_)


def to_probability_matrix(probabilities: Any) -> FloatArray | None:
    """Return the logging probabilities of all actions as an ``(n, K)`` array."""
    if probabilities is None:
        return None
    try:
        matrix = _to_float64(probabilities, "logging_probabilities")
    except LogError:
        raise
    except (TypeError, ValueError) as problem:
        raise LogError(f"logging_probabilities are not all numbers ({problem})") from None
    if matrix.ndim != 2:
        raise LogError(f"logging_probabilities have shape {matrix.shape}; expected (n, K)")
    return matrix


def find_declared_actions(
    contexts: Contexts,
    available: BoolArray | None,
    logging: FloatArray | None,
    n_actions: int | None,
    labels: Sequence[Any] | None,
) -> int | None:
    """Return the number of actions K, if any argument determines it; they must agree."""
    if n_actions is not None and (isinstance(n_actions, bool) or not isinstance(n_actions, int | np.integer)):
        raise LogError(f"n_actions is {n_actions!r}; it must be a whole number")
    check_labels(labels)
    counts = {
        "n_actions": n_actions,
        "action_labels": None if labels is None else len(labels),
        "available": None if available is None else available.shape[1],
        "logging_probabilities": None if logging is None else logging.shape[1],
        "contexts": contexts.shape[1] if contexts.ndim == 3 else None,
    }
    known = {name: int(count) for name, count in counts.items() if count is not None}
    if len(set(known.values())) > 1:
        listed = ", ".join(f"{name} = {count}" for name, count in known.items())
        raise LogError(f"the number of actions differs: {listed}")
    count = next(iter(known.values()), None)
    if count is not None and count < 1:
        raise LogError(f"the number of actions is {count}; it must be at least 1")
    check_number_of_actions(count or 0)
    return count


def check_labels(labels: Any) -> None:
    """Refuse action labels that are no list, or that cannot be compared."""
    if labels is None:
        return
    if isinstance(labels, str | bytes) or not isinstance(labels, Iterable) or not hasattr(labels, "__len__"):
        raise LogError(f"action_labels is {labels!r}; it must be a list of the labels of all actions")
    try:
        set(labels)
    except TypeError:
        raise LogError(f"action_labels is {labels!r}; a label must be a text or a number") from None


def check_number_of_actions(count: int) -> None:
    """Refuse more actions than any evaluator could hold probabilities of; the likely cause is the wrong column."""
    if count > MOST_ACTIONS:
        raise LogError(
            f"there are {count:,} actions or more, and {MOST_ACTIONS:,} are the most; is the column an identifier?"
        )


def encode_actions(
    actions: Any, declared: int | None, labels: Sequence[Any] | None
) -> tuple[IntArray, tuple[Any, ...]]:
    """Return actions as codes 0..K-1, and the tuple of K labels.

    Declared labels are coded in their order. Whole numbers are codes when K is declared. Otherwise the labels
    are the distinct values in the log, in sorted order; whole numbers that fill 0..K-1 are then equal to their codes.

    >>> encode_actions([0, 2, 1], None, None)
    (array([0, 2, 1]), (0, 1, 2))
    >>> encode_actions(["mail", "call", "mail"], None, None)
    (array([1, 0, 1]), ('call', 'mail'))
    """
    if isinstance(actions, EncodedActions):
        if declared not in (None, len(actions.labels)):
            raise LogError(f"the number of actions differs: {declared} are declared, {len(actions.labels)} are coded")
        return actions.codes, actions.labels
    column = _to_action_column(actions)
    if column.ndim != 1:
        raise LogError(f"actions have shape {column.shape}; they must be one label per event, shape (n,)")
    if labels is not None:
        return _encode_with_labels(column, tuple(labels))
    if column.dtype.kind == "f" and (np.abs(column) < 2.0**63).all() and (column == np.floor(column)).all():
        column = column.astype(np.int64)
    if column.dtype.kind in "iu" and (column.dtype != np.uint64 or column.max(initial=0) <= np.iinfo(np.int64).max):
        return _encode_integers(column.astype(np.int64), declared)
    if column.dtype.kind == "b" and declared in (None, 2):
        return column.astype(np.int64), (False, True)
    return _encode_objects(column, declared)


def _to_action_column(actions: Any) -> npt.NDArray[Any]:
    try:
        column = np.asarray(actions)
    except ValueError:
        raise LogError("actions are lists of different lengths; they must be one label per event, shape (n,)") from None
    if isinstance(actions, np.ndarray):
        return column
    # numpy would drop trailing NULs of text, turn numbers among text into text, and round whole numbers past 2**53.
    rounded = column.dtype.kind == "f" and np.abs(column).max(initial=0) > 2.0**53
    return np.asarray(actions, dtype=object) if column.dtype.kind in "US" or rounded else column


def _encode_with_labels(column: npt.NDArray[Any], labels: tuple[Any, ...]) -> tuple[IntArray, tuple[Any, ...]]:
    code_of = {label: code for code, label in enumerate(labels)}
    if len(code_of) != len(labels):
        raise LogError("action_labels repeat; each action needs a different label")
    codes = np.empty(column.size, dtype=np.int64)
    for row, label in enumerate(column.tolist()):
        code = code_of.get(label)
        if code is None:
            raise unknown_action_error(row, label, labels)
        codes[row] = code
    return codes, labels


def _encode_integers(column: IntArray, declared: int | None) -> tuple[IntArray, tuple[Any, ...]]:
    if column.size == 0:
        return column, tuple(range(declared or 0))
    low, high = int(column.min()), int(column.max())
    if declared is not None:
        if low < 0 or high >= declared:
            row = int(np.flatnonzero((column < 0) | (column >= declared))[0])
            raise unknown_action_error(row, int(column[row]), tuple(range(declared)))
        return np.ascontiguousarray(column), tuple(range(declared))
    if low >= 0 and high < max(1024, column.size):
        distinct = np.flatnonzero(np.bincount(column, minlength=high + 1))
    else:
        distinct = np.unique(column)
    if distinct.size == high + 1 and low == 0:
        return np.ascontiguousarray(column), tuple(range(high + 1))
    return np.searchsorted(distinct, column).astype(np.int64), tuple(int(label) for label in distinct)


def _encode_objects(column: npt.NDArray[Any], declared: int | None) -> tuple[IntArray, tuple[Any, ...]]:
    values = column.tolist()
    for row, label in enumerate(values):
        if label is None or label != label:
            raise unknown_action_error(row, label, ())
    try:
        labels = tuple(sorted(set(values)))
    except TypeError:
        raise LogError("actions mix types that cannot be ordered; give action_labels") from None
    if declared is not None and len(labels) != declared:
        raise LogError(f"{declared} actions are declared but {len(labels)} labels are seen; give action_labels")
    code_of = {label: code for code, label in enumerate(labels)}
    return np.fromiter((code_of[value] for value in values), dtype=np.int64, count=len(values)), labels


def unknown_action_error(row: int, label: object, labels: tuple[Any, ...]) -> RowError:
    """Return the error for an action that is missing or not one of the K labels."""
    if label is None or label != label:
        return RowError(row, f"action is missing ({label!r}); every event needs its logged action")
    if labels == tuple(range(len(labels))):
        return RowError(
            row,
            f"action {label!r} is outside 0..{len(labels) - 1}; "
            f"with {len(labels)} actions declared, actions are codes from 0 (or give action_labels)",
        )
    listed = ", ".join(repr(label) for label in labels[:8])
    return RowError(row, f"action {label!r} is not one of the labels ({listed}{', ...' if len(labels) > 8 else ''})")


def check_length(name: str, length: int, n: int) -> None:
    """Refuse a column that does not have one row per event."""
    if length != n:
        raise LogError(f"{name} has {length} rows but rewards has {n}; all columns must have one row per event")


def check_rewards(rewards: FloatArray, reward_range: tuple[float, float] | None) -> None:
    """Refuse rewards that are not finite or outside of the declared range."""
    row = _first_true(~np.isfinite(rewards))
    if row is not None:
        raise RowError(row, f"reward is {rewards[row]}; rewards must be finite numbers. Drop or repair the event")
    row = _first_true(np.abs(rewards) > LARGEST)
    if row is not None:
        raise RowError(
            row, f"reward is {rewards[row]:g}, more than {LARGEST:g}; scale the rewards, or repair the event"
        )
    if reward_range is None:
        return
    low, high = check_reward_range(reward_range)
    row = _first_true((rewards < low) | (rewards > high))
    if row is not None:
        raise RowError(row, f"reward {rewards[row]} is outside the declared reward_range ({low:g}, {high:g})")


def check_reward_range(reward_range: Any) -> tuple[float, float]:
    """Return the declared range as two floats, low < high."""
    try:
        low, high = (float(bound) for bound in reward_range)
    except (TypeError, ValueError):
        low = high = float("nan")
    # the characters of a text are no bounds
    if isinstance(reward_range, str | bytes) or not -LARGEST <= low < high <= LARGEST:
        raise LogError(f"reward_range is {reward_range!r}; it must be two finite numbers, low < high")
    return low, high


def check_propensities(propensities: FloatArray) -> None:
    """Refuse propensities outside of (0, 1]."""
    row = _first_true(~((propensities > 0) & (propensities <= 1)))
    if row is not None:
        are_percents = float(np.median(propensities)) > 1 and float(propensities.max()) <= 100
        remedy = "Was the probability of the logged action recorded?"
        raise RowError(
            row,
            f"propensity is {propensities[row]:g}; it must lie in (0, 1]. "
            + ("Are these percents? Divide them by 100" if are_percents else remedy),
        )


def check_available(available: BoolArray | None, actions: IntArray, labels: tuple[Any, ...]) -> None:
    """Refuse a mask that excludes the logged action."""
    row = None if available is None else _first_true(~available[np.arange(actions.size), actions])
    if row is not None:
        raise RowError(
            row,
            f"the logged action {labels[actions[row]]!r} is marked unavailable; "
            "the mask must include the action that was taken",
        )


def check_logging(
    logging: FloatArray | None, actions: IntArray, propensities: FloatArray, n_actions: int
) -> FloatArray | None:
    """Refuse logging probabilities that are no distribution or contradict the propensity; normalise rounded ones."""
    if logging is None:
        return None
    if logging.shape != (actions.size, n_actions):
        raise LogError(f"logging_probabilities have shape {logging.shape}; expected ({actions.size}, {n_actions})")
    sums = logging.sum(axis=1)
    row = _first_true(~((logging >= 0).all(axis=1) & (np.abs(sums - 1) <= 1e-6)))
    if row is not None:
        raise RowError(row, f"logging_probabilities are {logging[row].tolist()}; they must be >= 0 and sum to 1")
    of_logged_action = logging[np.arange(actions.size), actions]
    row = _first_true(np.abs(of_logged_action - propensities) > 1e-6)
    if row is not None:
        raise RowError(
            row,
            f"propensity is {propensities[row]:g} but logging_probabilities give the logged action "
            f"{of_logged_action[row]:g}; one of the two columns is wrong",
        )
    is_rounded = np.abs(sums - 1) > 1e-9  # as float32 is
    return np.where(is_rounded[:, None], logging / sums[:, None], logging) if is_rounded.any() else logging


def check_feature_names(names: Any, n_features: int) -> tuple[str, ...] | None:
    """Return the names of features as a tuple; refuse a wrong number of them, and what is not text."""
    if names is None:
        return None
    if isinstance(names, str) or not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise LogError(f"feature_names are {names!r}; they must be a list of texts, one per feature")
    if len(names) != n_features:
        raise LogError(f"there are {len(names)} feature_names but {n_features} features; name each feature once")
    return tuple(names)


def _first_true(wrong: BoolArray) -> int | None:
    return int(wrong.argmax()) if wrong.any() else None
