"""What worlds ask of a policy, so that they need not know where policies live."""

from __future__ import annotations

import copy
from typing import Protocol, TypeVar

import numpy as np

from backcast.arrays import BoolArray, Contexts, FloatArray, IntArray
from backcast.errors import PolicyError

__all__ = ["AnyPolicy", "fresh_copy", "learning_batch", "scored", "teach"]


class AnyPolicy(Protocol):
    """Probabilities of all actions for a block of contexts; ``learn``, ``batch_size``, ``start`` where it has them."""

    def probabilities(self, contexts: Contexts, available: BoolArray | None = None) -> FloatArray:
        """Probabilities ``(n, K)`` under the present state."""
        ...


P = TypeVar("P", bound=AnyPolicy)


def fresh_copy(policy: P, n_actions: int, n_features: int, rng: np.random.Generator) -> P:
    """A copy of the policy, told the sizes if it wants to know them; the caller's own is never taught."""
    own = copy.deepcopy(policy)
    start = getattr(own, "start", None)
    if callable(start):
        start(n_actions, n_features, rng)
    return own


def learning_batch(policy: AnyPolicy) -> int | None:
    """How many events the policy takes at a time, or None for one that does not learn."""
    if not callable(getattr(policy, "learn", None)):
        return None
    return int(getattr(policy, "batch_size", 1))


def teach(
    policy: AnyPolicy, contexts: Contexts, actions: IntArray, rewards: FloatArray, probabilities: FloatArray
) -> None:
    """Hand a batch to a policy that learns."""
    policy.learn(contexts, actions, rewards, probabilities)  # type: ignore[attr-defined]


def scored(policy: AnyPolicy, contexts: Contexts, n_actions: int) -> FloatArray:
    """The policy's probabilities, refused unless they have the right shape and rows that sum to 1."""
    probabilities = np.asarray(policy.probabilities(contexts), dtype=np.float64)
    expected = (contexts.shape[0], n_actions)
    if probabilities.shape != expected:
        raise PolicyError(f"probabilities have shape {probabilities.shape}; expected {expected}")
    wrong = ~((probabilities >= 0).all(axis=1) & (np.abs(probabilities.sum(axis=1) - 1) <= 1e-9))
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise PolicyError(f"row {row}: probabilities are {probabilities[row].tolist()}; they must be >= 0 and sum to 1")
    return probabilities
