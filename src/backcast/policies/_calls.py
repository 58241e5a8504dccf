"""Asking a policy for probabilities, and holding it to its contract."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from backcast._arrays import BoolArray, Contexts, FloatArray, IntArray, concat_contexts, is_sparse
from backcast._kernels.contexts import mask_of
from backcast._kernels.jit import compiled
from backcast.errors import BackcastError, PolicyError
from backcast.log import Log
from backcast.policies.base import LogPolicy, StartsFresh, batch_size_of, is_learning
from backcast.policies.compiled import CompiledPolicy

TOLERANCE = 1e-9


FLOAT = np.dtype(np.float64)


FINE, NOT_A_NUMBER, NEGATIVE, WRONG_SUM, UNAVAILABLE = range(5)


@compiled
def first_contract_violation(probabilities: FloatArray, available: BoolArray) -> tuple[int, int, int, float]:
    """Row, action, kind and value of the first probability that breaks the contract; kind 0 if none does."""
    for k in range(probabilities.shape[0]):
        total = 0.0
        for a in range(probabilities.shape[1]):
            value = probabilities[k, a]
            if not np.isfinite(value):
                return k, a, NOT_A_NUMBER, value
            if value < 0.0:
                return k, a, NEGATIVE, value
            if value > 0.0 and available.size > 0 and not available[k, a]:
                return k, a, UNAVAILABLE, value
            total += value
        if abs(total - 1.0) > TOLERANCE:
            return k, -1, WRONG_SUM, total
    return 0, 0, FINE, 0.0


def policy_name(policy: object) -> str:
    """How messages call a policy.

    >>> policy_name(PolicyError("x"))
    'PolicyError'
    """
    return type(policy).__name__


def start_copy(policy: Any, log: Log, rng: np.random.Generator) -> Any:
    """A copy to run and train, told its sizes; the caller's object stays as it is."""
    try:
        twin = copy.deepcopy(policy)
    except Exception as problem:
        raise PolicyError(
            f"{policy_name(policy)} cannot be copied ({problem}); evaluators train a copy. Give it a __deepcopy__"
        ) from problem
    if isinstance(twin, StartsFresh):
        _start(twin, log, rng)
    if is_learning(twin) and batch_size_of(twin) < 1:
        raise PolicyError(f"{policy_name(policy)}.batch_size is {batch_size_of(twin)}; it must be at least 1")
    return twin


def _start(twin: StartsFresh, log: Log, rng: np.random.Generator) -> None:
    try:
        twin.start(log.n_actions, log.n_features, rng)
    except BackcastError:
        raise
    except Exception as problem:
        raise PolicyError(
            f"{policy_name(twin)}.start failed for {log.n_actions} actions and {log.n_features} features: "
            f"{type(problem).__name__}: {problem}"
        ) from problem


def contexts_for(policy: Any, log: Log) -> Contexts:
    """The contexts as a policy may see them: read-only, except for our own kernels, which want plain arrays."""
    return log._contexts if isinstance(policy, CompiledPolicy) else log.contexts


def probabilities_of(policy: Any, log: Log) -> FloatArray:
    """The policy's probabilities at every event of the log, checked."""
    return BlockScorer(policy, log)(0, len(log))


class TrainingBatch(NamedTuple):
    """Accepted events for a policy to learn from, with the policy's own probabilities and the rows they came from."""

    contexts: Contexts
    actions: IntArray
    rewards: FloatArray
    probabilities: FloatArray
    rows: IntArray


class BlockScorer:
    """A policy asked about blocks of one (part of a) log; what is the same for every block is looked up once.

    >>> from backcast.policies.fixed import Fixed
    >>> log = Log(None, actions=[0, 1], rewards=[0, 0], propensities=[0.5, 0.5])
    >>> BlockScorer(Fixed([0.25, 0.75]), log)(1, 2)
    array([[0.25, 0.75]])
    """

    def __init__(self, policy: Any, log: Log) -> None:
        self._policy, self._log = policy, log
        self._by_log = isinstance(policy, LogPolicy)
        self._contexts = contexts_for(policy, log)
        self._available = log.available
        self._mask = mask_of(log._available)

    def __call__(self, start: int, end: int) -> FloatArray:
        """Probabilities of all actions at events ``start..end-1``, checked."""
        available = None if self._available is None else self._available[start:end]
        try:
            if self._by_log:
                raw = self._policy.probabilities_of(self._log[start:end])
            else:
                raw = self._policy.probabilities(self._contexts[start:end], available)
        except BackcastError:
            raise
        except Exception as problem:
            rows, kind = _rows(self._log[start:end]), type(problem).__name__
            raise PolicyError(
                f"{policy_name(self._policy)}.probabilities failed on rows {rows}: {kind}: {problem}"
            ) from problem
        return self._checked(raw, start, end)

    def lesson(self, places: IntArray, probabilities: FloatArray) -> TrainingBatch:
        """The events at these places, copied out of the log."""
        log = self._log
        columns = log._actions[places], log._rewards[places], probabilities, log._rows[places]
        return TrainingBatch(self._contexts[places], *columns)

    def _checked(self, raw: Any, start: int, end: int) -> FloatArray:
        shape = (end - start, self._log.n_actions)
        block = raw if _is_plain(raw) else _as_block(policy_name(self._policy), raw, shape)
        if block.shape != shape:
            raise PolicyError(
                f"{policy_name(self._policy)}.probabilities returned shape {block.shape}; expected {shape}: "
                "one row an event, one column an action"
            )
        mask = self._mask if self._available is None else self._mask[start:end]
        row, action, kind, value = first_contract_violation(block, mask)
        if kind != FINE:
            name, part = policy_name(self._policy), self._log[start:end]
            raise PolicyError(_fault(name, part, int(row), int(action), int(kind), float(value)))
        return block


def _is_plain(raw: Any) -> bool:
    """Whether this is an array just as compiled code wants it."""
    return type(raw) is np.ndarray and raw.dtype == FLOAT and raw.flags.carray


def _as_block(name: str, raw: Any, shape: tuple[int, int]) -> FloatArray:
    try:
        return np.require(raw, dtype=np.float64, requirements=["C", "W"])
    except (TypeError, ValueError) as problem:
        raise PolicyError(
            f"{name}.probabilities returned {type(raw).__name__}; expected an array of numbers, shape {shape}: "
            f"{problem}"
        ) from problem


def _rows(log: Log) -> str:
    return f"{int(log.rows[0])}..{int(log.rows[-1])}"


def _fault(name: str, log: Log, row: int, action: int, kind: int, value: float) -> str:
    where = f"row {int(log.rows[row])}: {name}.probabilities"
    if kind == WRONG_SUM:
        return f"{where} sum to {value:.12g}; they must sum to 1 (within {TOLERANCE:g}). Normalise them in float64"
    label = log.action_labels[action]
    if kind == UNAVAILABLE:
        return f"{where} give {value:g} to action {label!r}, which is not available there; it must get 0"
    return f"{where} give {value:g} to action {label!r}; probabilities must be numbers >= 0"


def concat_batches(lessons: list[TrainingBatch]) -> TrainingBatch:
    """Lessons end to end."""
    if len(lessons) == 1:
        return lessons[0]
    contexts = concat_contexts([lesson.contexts for lesson in lessons])
    columns: Any = [np.concatenate(column) for column in zip(*(lesson[1:] for lesson in lessons), strict=True)]
    return TrainingBatch(contexts, *columns)


def update_policy(policy: Any, lesson: TrainingBatch) -> None:
    """Let the policy learn from accepted events, in order."""
    try:
        policy.learn(lesson.contexts, lesson.actions, lesson.rewards, lesson.probabilities)
    except BackcastError:
        raise
    except Exception as problem:
        rows = lesson.rows[:5].tolist()
        raise PolicyError(
            f"{policy_name(policy)}.learn failed on rows {rows}: {type(problem).__name__}: {problem}"
        ) from problem


def teach(policy: Any, parts: list[Log], probabilities: FloatArray) -> None:
    """Let the policy learn from the events of these logs, in order."""
    contexts = concat_contexts([contexts_for(policy, part) for part in parts])
    actions = np.concatenate([part._actions for part in parts])
    rewards = np.concatenate([part._rewards for part in parts])
    rows = np.concatenate([part._rows for part in parts])
    update_policy(policy, TrainingBatch(contexts, actions, rewards, probabilities, rows))


def probability_of(policy: Any, log: Log) -> FloatArray:
    """The policy's probability of each logged action, asked for directly where the policy can tell.

    >>> from backcast.policies.fixed import Fixed
    >>> log = Log(contexts=None, actions=[1, 0], rewards=[0, 0], propensities=[0.5, 0.5])
    >>> probability_of(Fixed([0.25, 0.75]), log)
    array([0.75, 0.25])
    """
    ask = getattr(policy, "probability_of", None)
    if not callable(ask):
        return taken(probabilities_of(policy, log), log._actions)
    more = {} if log.available is None else {"available": log.available}
    own = _column(policy, "probability_of", ask(contexts_for(policy, log), log.actions, **more), log)
    wrong = ~((own >= 0) & (own <= 1 + 1e-9))
    if wrong.any():
        place = int(np.flatnonzero(wrong)[0])
        raise PolicyError(
            f"row {int(log.rows[place])}: {policy_name(policy)}.probability_of is {own[place]:g}; it must lie in [0, 1]"
        )
    return own


def expectation_of(policy: Any, log: Log, values: Callable[[IntArray], FloatArray]) -> FloatArray:
    """``sum_a pi(a|x_k) values(a)_k`` by the policy's own ``expectation``."""
    return _column(policy, "expectation", policy.expectation(contexts_for(policy, log), values), log)


def _column(policy: Any, verb: str, raw: Any, log: Log) -> FloatArray:
    column = np.asarray(raw, dtype=np.float64)
    if column.shape != (len(log),):
        raise PolicyError(
            f"{policy_name(policy)}.{verb} returned shape {column.shape}; expected ({len(log)},), one number an event"
        )
    if not np.isfinite(column).all():
        place = int(np.flatnonzero(~np.isfinite(column))[0])
        raise PolicyError(
            f"row {int(log.rows[place])}: {policy_name(policy)}.{verb} is {column[place]}; it must be a finite number"
        )
    return column


def batch_to_arrays(lesson: TrainingBatch) -> list[Any]:
    """A lesson as arrays.

    >>> lesson = TrainingBatch(np.zeros((1, 2)), np.array([1]), np.array([0.5]), np.array([0.25]), np.array([7]))
    >>> batch_from_arrays(batch_to_arrays(lesson)) == lesson
    True
    """
    return [_plain_contexts(lesson.contexts), *lesson[1:]]


def batch_from_arrays(plain: list[Any]) -> TrainingBatch:
    """The lesson that :func:`batch_to_arrays` made plain."""
    contexts, *rest = plain
    if isinstance(contexts, list):
        import scipy.sparse

        values, indices, ends, width = contexts
        contexts = scipy.sparse.csr_array((values, indices, ends), shape=(ends.size - 1, width))
    return TrainingBatch(contexts, *rest)


def _plain_contexts(contexts: Contexts) -> Any:
    if not is_sparse(contexts):
        return np.asarray(contexts)
    matrix: Any = contexts
    return [matrix.data, matrix.indices, matrix.indptr, int(matrix.shape[1])]


@compiled
def taken(table: FloatArray, actions: IntArray) -> FloatArray:
    """The entry of the logged action in every row.

    >>> taken(np.array([[0.25, 0.75], [0.5, 0.5]]), np.array([1, 0]))
    array([0.75, 0.5 ])
    """
    out = np.empty(actions.size)
    for k in range(actions.size):
        out[k] = table[k, actions[k]]
    return out


@compiled
def draw_action(probabilities: FloatArray, uniform: float) -> int:
    """Return the first action whose cumulative probability exceeds the uniform number; never one of probability 0.

    >>> draw_action(np.array([0.25, 0.75]), 0.3)
    1
    """
    total = 0.0
    last = 0
    for a in range(probabilities.size):
        if probabilities[a] > 0.0:
            last = a
            total += probabilities[a]
            if uniform < total:
                return a
    return last


@compiled
def draw_actions(probabilities: FloatArray, uniforms: FloatArray) -> IntArray:
    """Draw one action per row of probabilities.

    >>> draw_actions(np.array([[0.0, 1.0], [0.5, 0.5]]), np.array([0.0, 0.25]))
    array([1, 0])
    """
    actions = np.empty(uniforms.size, dtype=np.int64)
    for k in range(uniforms.size):
        actions[k] = draw_action(probabilities[k], uniforms[k])
    return actions
