"""Calling a policy: copy and start it, get checked probabilities, update it; every contract violation is one error."""

from __future__ import annotations

import copy
import random
import re
import sys
from collections import deque
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from backcast._arrays import BoolArray, Contexts, FloatArray, IntArray, concat_contexts, is_sparse
from backcast._kernels.contexts import mask_of
from backcast._kernels.jit import compiled
from backcast._parallel.stop import STOPPABLE
from backcast.errors import BackcastError, PolicyError, is_lack_of_memory
from backcast.log import Log
from backcast.policies.base import LogPolicy, NamesActions, StartsFresh, batch_size_of, is_learning
from backcast.policies.compiled import CompiledPolicy

TOLERANCE = 1e-9  # allowed error of the sum of a row of probabilities
ROUNDING = 1e-6  # error of the sum up to which probabilities are normalised, as of float32
FLOAT = np.dtype(np.float64)
VALID, NOT_A_NUMBER, NEGATIVE, WRONG_SUM, UNAVAILABLE = range(5)


SEARCH_DEPTH = 6  # nested attributes in which random generators are searched
GENERATORS = (np.random.Generator, np.random.RandomState, np.random.BitGenerator, random.Random)


def class_name_of(policy: object) -> str:
    """Return the name of a policy for error messages: its class."""
    return type(policy).__name__


def describe(thing: object) -> str:
    """Return the name of a policy or a reward model in results: its repr without memory addresses.

    >>> describe([object()])
    '[object]'
    """
    return re.sub(r"<(?:[\w.<>]*\.)?(\w+) object at 0x[0-9a-fA-F]+>", r"\1", repr(thing))


def start_copy(policy: Any, log: Log, rng: np.random.Generator) -> Any:
    """Return a copy of the policy, started with the sizes of the log; the caller's object is never changed."""
    try:
        policy_copy = copy.deepcopy(policy)
    except Exception as problem:
        raise PolicyError(
            f"{class_name_of(policy)} cannot be copied ({problem}); evaluators train a copy. Give it a __deepcopy__"
        ) from problem
    before = [] if isinstance(policy, CompiledPolicy) else [generator_state(g) for g in find_generators(policy)]
    if isinstance(policy_copy, NamesActions):
        policy_copy.use_labels(log.action_labels)
    if isinstance(policy_copy, StartsFresh):
        try:
            policy_copy.start(log.n_actions, log.n_features, rng)
        except BackcastError:
            raise
        except Exception as problem:
            raise PolicyError(
                f"{class_name_of(policy)}.start failed for {log.n_actions} actions and {log.n_features} features: "
                f"{type(problem).__name__}: {problem}"
            ) from problem
    if before and any(generator_state(generator) in before for generator in find_generators(policy_copy)):
        raise PolicyError(
            f"{class_name_of(policy)} has a random generator of its own, so every simulated history would use the same "
            "random numbers. Take the generator from start(self, n_actions, n_features, rng), or remove it"
        )
    if is_learning(policy_copy):
        batch_size_of(policy_copy)  # raises if it is not a number of events
    return policy_copy


def find_generators(policy: Any) -> list[Any]:
    """Return the random generators of NumPy, ``random`` and torch among the attributes of an object, nested ones too.

    >>> policy = type("Policy", (), {})()
    >>> policy.parts = {"rng": np.random.default_rng(0)}
    >>> len(find_generators(policy))
    1
    """
    generators, seen = [], set()
    queue = [(policy, 0)]
    while queue:
        value, depth = queue.pop()
        if id(value) in seen or depth > SEARCH_DEPTH or isinstance(value, np.ndarray | type | ModuleType | str | bytes):
            continue
        seen.add(id(value))
        is_torch = type(value).__module__.startswith("torch") and type(value).__name__ == "Generator"
        if isinstance(value, GENERATORS) or is_torch:
            generators.append(value)
        elif isinstance(value, dict):
            queue += [(entry, depth + 1) for entry in value.values()]
        elif isinstance(value, list | tuple | set | frozenset | deque):
            queue += [(entry, depth + 1) for entry in value]
        else:
            slots = (getattr(value, name, None) for name in getattr(type(value), "__slots__", ()))
            queue += [(entry, depth + 1) for entry in (*getattr(value, "__dict__", {}).values(), *slots)]
    return generators


def generator_state(generator: Any) -> str:
    """Return the state of a random generator as text, for comparison."""
    state: Any
    if isinstance(generator, np.random.Generator):
        state = generator.bit_generator.state
    elif isinstance(generator, random.Random):
        state = generator.getstate()
    else:
        state = generator.state if isinstance(generator, np.random.BitGenerator) else generator.get_state()
    with np.printoptions(threshold=sys.maxsize):
        return repr(np.asarray(state) if type(state).__module__.startswith("torch") else state)


def contexts_for(policy: Any, log: Log) -> Contexts:
    """Return the contexts to pass to a policy: read-only, except for built-in kernels, which need writable arrays."""
    return log.columns.contexts if isinstance(policy, CompiledPolicy) else log.contexts


def probabilities_of(policy: Any, log: Log) -> FloatArray:
    """Return the policy's checked probabilities of all actions at every event of the log."""
    return BlockScorer(policy, log)(0, len(log))


def probability_of(policy: Any, log: Log) -> FloatArray:
    """Return the policy's probability of each logged action, by its method ``probability_of`` if it has one.

    >>> from backcast.policies.fixed import Fixed
    >>> log = Log(contexts=None, actions=[1, 0], rewards=[0, 0], propensities=[0.5, 0.5])
    >>> probability_of(Fixed([0.25, 0.75]), log)
    array([0.75, 0.25])
    """
    method = getattr(policy, "probability_of", None)
    if not callable(method):
        return select_logged(probabilities_of(policy, log), log.columns.actions)
    options = {} if log.available is None else {"available": log.available}
    raw = _call(policy, "probability_of", log.columns.rows, contexts_for(policy, log), log.actions, **options)
    probability = _as_column(policy, "probability_of", raw, log)
    invalid = ~((probability >= 0) & (probability <= 1 + TOLERANCE))
    if invalid.any():
        k = int(np.flatnonzero(invalid)[0])
        raise PolicyError(
            f"row {int(log.rows[k])}: {class_name_of(policy)}.probability_of is {probability[k]:g}; "
            "it must lie in [0, 1]"
        )
    return probability


def expectation_of(policy: Any, log: Log, values: Callable[[IntArray], FloatArray]) -> FloatArray:
    """``sum_a pi(a|x_k) values(a)_k`` by the policy's method ``expectation``."""
    raw = _call(policy, "expectation", log.columns.rows, contexts_for(policy, log), values)
    return _as_column(policy, "expectation", raw, log)


def _call(policy: Any, method: str, rows: IntArray, *arguments: Any, **options: Any) -> Any:
    """Return what a method of the policy returns for these rows of the log; what it raises becomes one error."""
    try:
        with STOPPABLE:
            return getattr(policy, method)(*arguments, **options)
    except BackcastError:
        raise
    except Exception as problem:
        if is_lack_of_memory(problem):
            raise
        raise PolicyError(
            f"{class_name_of(policy)}.{method} failed on rows {int(rows[0])}..{int(rows[-1])}: "
            f"{type(problem).__name__}: {problem}"
        ) from problem


def _as_column(policy: Any, method: str, raw: Any, log: Log) -> FloatArray:
    """Return the result of a policy's method as one finite number per event, or raise."""
    column = np.asarray(raw, dtype=np.float64)
    name = f"{class_name_of(policy)}.{method}"
    if column.shape != (len(log),):
        raise PolicyError(f"{name} returned shape {column.shape}; expected ({len(log)},), one number per event")
    if not np.isfinite(column).all():
        k = int(np.flatnonzero(~np.isfinite(column))[0])
        raise PolicyError(f"row {int(log.rows[k])}: {name} is {column[k]}; it must be a finite number")
    return column


@compiled
def select_logged(table: FloatArray, actions: IntArray) -> FloatArray:
    """Return the entry of the logged action in every row.

    >>> select_logged(np.array([[0.25, 0.75], [0.5, 0.5]]), np.array([1, 0]))
    array([0.75, 0.5 ])
    """
    out = np.empty(actions.size)
    for k in range(actions.size):
        out[k] = table[k, actions[k]]
    return out


class BlockScorer:
    """Checked probabilities of a policy for blocks of one (part of a) log; prepares once what all blocks share.

    >>> from backcast.policies.fixed import Fixed
    >>> log = Log(None, actions=[0, 1], rewards=[0, 0], propensities=[0.5, 0.5])
    >>> BlockScorer(Fixed([0.25, 0.75]), log)(1, 2)
    array([[0.25, 0.75]])
    """

    def __init__(self, policy: Any, log: Log) -> None:
        self._policy, self._log = policy, log
        self._reads_log = isinstance(policy, LogPolicy)
        self._contexts = contexts_for(policy, log)
        self._available = log.available
        self._mask = mask_of(log.columns.available)

    def __call__(self, start: int, end: int) -> FloatArray:
        """Return the probabilities of all actions at events ``start..end-1``, checked."""
        available = None if self._available is None else self._available[start:end]
        rows = self._log.columns.rows[start:end]
        if self._reads_log:
            raw = _call(self._policy, "probabilities_of", rows, self._log[start:end])
        else:
            raw = _call(self._policy, "probabilities", rows, self._contexts[start:end], available)
        return self._validated(raw, start, end)

    def training_batch(self, positions: IntArray, probabilities: FloatArray) -> TrainingBatch:
        """Return the events at these positions, copied out of the log."""
        columns = self._log.columns
        actions, rewards, rows = columns.actions[positions], columns.learned_rewards[positions], columns.rows[positions]
        return TrainingBatch(self._contexts[positions], actions, rewards, probabilities, rows)

    def _validated(self, raw: Any, start: int, end: int) -> FloatArray:
        """Return the probabilities as an array for compiled code, or raise the first contract violation."""
        name, shape = f"{class_name_of(self._policy)}.probabilities", (end - start, self._log.n_actions)
        block: FloatArray = raw
        if not (type(raw) is np.ndarray and raw.dtype == FLOAT and raw.flags.carray):
            try:
                block = np.require(raw, dtype=np.float64, requirements=["C", "W"])
            except (TypeError, ValueError) as problem:
                raise PolicyError(
                    f"{name} returned {type(raw).__name__}; expected an array of numbers, shape {shape}: {problem}"
                ) from problem
        if block.shape != shape:
            raise PolicyError(
                f"{name} returned shape {block.shape}; expected {shape}: one row per event, one column per action"
            )
        mask = self._mask if self._available is None else self._mask[start:end]
        row, action, kind, value = first_contract_violation(block, mask)
        if kind == WRONG_SUM and abs(value - 1.0) <= ROUNDING:
            sums = block.sum(axis=1, keepdims=True)
            block = np.where(np.abs(sums - 1.0) <= ROUNDING, block / sums, block)
            row, action, kind, value = first_contract_violation(block, mask)
        if kind != VALID:
            raise PolicyError(_describe_violation(name, self._log[start:end], int(row), int(action), kind, value))
        return block


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
    return 0, 0, VALID, 0.0


def _describe_violation(name: str, log: Log, row: int, action: int, kind: int, value: float) -> str:
    where = f"row {int(log.rows[row])}: {name}"
    if kind == WRONG_SUM:
        return f"{where} sum to {value:.12g}; they must sum to 1 (within {ROUNDING:g}). Normalise them"
    label = log.action_labels[action]
    if kind == UNAVAILABLE:
        return f"{where} give {value:g} to action {label!r}, which is not available there; it must get 0"
    return f"{where} give {value:g} to action {label!r}; probabilities must be numbers >= 0"


class TrainingBatch(NamedTuple):
    """Accepted events for a policy to learn from, with the policy's probabilities and the rows they came from."""

    contexts: Contexts
    actions: IntArray
    rewards: FloatArray
    probabilities: FloatArray
    rows: IntArray


def update_policy(policy: Any, batch: TrainingBatch) -> None:
    """Update the policy on accepted events, in order."""
    try:
        policy.learn(batch.contexts, batch.actions, batch.rewards, batch.probabilities)
    except BackcastError:
        raise
    except Exception as problem:
        raise PolicyError(
            f"{class_name_of(policy)}.learn failed on rows {batch.rows[:5].tolist()}: "
            f"{type(problem).__name__}: {problem}"
        ) from problem


def update_on_events(policy: Any, log: Log, probabilities: FloatArray) -> None:
    """Update the policy on all events of a log, in order; it gets copies of actions and rewards."""
    columns = log.columns.actions.copy(), log.columns.learned_rewards.copy(), probabilities, log.columns.rows
    update_policy(policy, TrainingBatch(contexts_for(policy, log), *columns))


def concat_batches(batches: list[TrainingBatch]) -> TrainingBatch:
    if len(batches) == 1:
        return batches[0]
    contexts = concat_contexts([batch.contexts for batch in batches])
    columns: Any = [np.concatenate(column) for column in zip(*(batch[1:] for batch in batches), strict=True)]
    return TrainingBatch(contexts, *columns)


def batch_to_arrays(batch: TrainingBatch) -> list[Any]:
    """Return a training batch as a list of arrays, for a checkpoint.

    >>> batch = TrainingBatch(np.zeros((1, 2)), np.array([1]), np.array([0.5]), np.array([0.25]), np.array([7]))
    >>> batch_from_arrays(batch_to_arrays(batch)) == batch
    True
    """
    contexts: Any = batch.contexts
    if is_sparse(contexts):
        contexts = [contexts.data, contexts.indices, contexts.indptr, int(contexts.shape[1])]
    else:
        contexts = np.asarray(contexts)
    return [contexts, *batch[1:]]


def batch_from_arrays(arrays: list[Any]) -> TrainingBatch:
    """Return the training batch that :func:`batch_to_arrays` converted."""
    contexts, *columns = arrays
    if isinstance(contexts, list):
        import scipy.sparse

        data, indices, indptr, width = contexts
        contexts = scipy.sparse.csr_array((data, indices, indptr), shape=(indptr.size - 1, width))
    return TrainingBatch(contexts, *columns)


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
