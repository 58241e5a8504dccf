"""Asking a policy for probabilities, and holding it to its contract."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from backcast.arrays import BoolArray, Contexts, FloatArray, is_sparse
from backcast.errors import BackcastError, PolicyError
from backcast.kernels.jit import compiled
from backcast.kernels.views import mask_of
from backcast.log import Log
from backcast.policies.compiled import CompiledPolicy
from backcast.policies.protocol import LogPolicy, StartsFresh, batch_size_of, is_learning

__all__ = ["TOLERANCE", "contexts_for", "fresh_copy", "joined_contexts", "name_of", "probabilities_of", "teach"]

TOLERANCE = 1e-9
FINE, NOT_A_NUMBER, NEGATIVE, WRONG_SUM, UNAVAILABLE = range(5)


@compiled
def first_fault(probabilities: FloatArray, available: BoolArray) -> tuple[int, int, int, float]:
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


def name_of(policy: object) -> str:
    """How messages call a policy.

    >>> name_of(PolicyError("x"))
    'PolicyError'
    """
    return type(policy).__name__


def fresh_copy(policy: Any, log: Log, rng: np.random.Generator) -> Any:
    """A copy to run and train, told its sizes; the caller's object stays as it is."""
    try:
        twin = copy.deepcopy(policy)
    except Exception as problem:
        raise PolicyError(
            f"{name_of(policy)} cannot be copied ({problem}); evaluators train a copy. Give it a __deepcopy__"
        ) from problem
    if isinstance(twin, StartsFresh):
        _start(twin, log, rng)
    if is_learning(twin) and batch_size_of(twin) < 1:
        raise PolicyError(f"{name_of(policy)}.batch_size is {batch_size_of(twin)}; it must be at least 1")
    return twin


def _start(twin: StartsFresh, log: Log, rng: np.random.Generator) -> None:
    try:
        twin.start(log.n_actions, log.n_features, rng)
    except BackcastError:
        raise
    except Exception as problem:
        raise PolicyError(
            f"{name_of(twin)}.start failed for {log.n_actions} actions and {log.n_features} features: "
            f"{type(problem).__name__}: {problem}"
        ) from problem


def contexts_for(policy: Any, log: Log) -> Contexts:
    """The contexts as a policy may see them: read-only, except for our own kernels, which want plain arrays."""
    return log._contexts if isinstance(policy, CompiledPolicy) else log.contexts


def probabilities_of(policy: Any, log: Log) -> FloatArray:
    """The policy's probabilities at every event of the log, checked."""
    try:
        if isinstance(policy, LogPolicy):
            raw = policy.probabilities_of(log)
        else:
            raw = policy.probabilities(contexts_for(policy, log), log.available)
    except BackcastError:
        raise
    except Exception as problem:
        raise PolicyError(
            f"{name_of(policy)}.probabilities failed on rows {_rows(log)}: {type(problem).__name__}: {problem}"
        ) from problem
    block = _as_block(policy, raw, log)
    if block.shape != (len(log), log.n_actions):
        raise PolicyError(
            f"{name_of(policy)}.probabilities returned shape {block.shape}; expected {(len(log), log.n_actions)}: "
            "one row an event, one column an action"
        )
    row, action, kind, value = first_fault(block, mask_of(log._available))
    if kind != FINE:
        raise PolicyError(_fault(name_of(policy), log, int(row), int(action), int(kind), float(value)))
    return block


def _as_block(policy: Any, raw: Any, log: Log) -> FloatArray:
    try:
        return np.require(raw, dtype=np.float64, requirements=["C", "W"])
    except (TypeError, ValueError) as problem:
        raise PolicyError(
            f"{name_of(policy)}.probabilities returned {type(raw).__name__}; expected an array of numbers, shape "
            f"{(len(log), log.n_actions)}: {problem}"
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


def teach(policy: Any, parts: list[Log], probabilities: FloatArray) -> None:
    """Let the policy learn from accepted events, in order."""
    contexts = joined_contexts([contexts_for(policy, part) for part in parts])
    actions = np.concatenate([part._actions for part in parts])
    rewards = np.concatenate([part._rewards for part in parts])
    try:
        policy.learn(contexts, actions, rewards, probabilities)
    except BackcastError:
        raise
    except Exception as problem:
        rows = np.concatenate([part.rows for part in parts]).tolist()
        raise PolicyError(
            f"{name_of(policy)}.learn failed on rows {rows[:5]}: {type(problem).__name__}: {problem}"
        ) from problem


def joined_contexts(parts: list[Contexts]) -> Contexts:
    """Contexts end to end, dense or sparse.

    >>> joined_contexts([np.zeros((1, 2)), np.ones((2, 2))]).shape
    (3, 2)
    """
    if len(parts) == 1:
        return parts[0]
    if is_sparse(parts[0]):
        import scipy.sparse

        blocks: Any = parts
        return scipy.sparse.csr_array(scipy.sparse.vstack(blocks))
    return np.concatenate([np.asarray(part) for part in parts])
