"""What a policy must do, and no more: probabilities of all actions for a block of events."""

from __future__ import annotations

from typing import Protocol, TypeGuard, runtime_checkable

import numpy as np

from backcast._arrays import BoolArray, Contexts, FloatArray, IntArray
from backcast.log import Log


@runtime_checkable
class Policy(Protocol):
    """A rule for choosing actions: ``probabilities`` under the present state, for a block of events."""

    def probabilities(self, contexts: Contexts, available: BoolArray | None = None) -> FloatArray:
        """Probabilities of all K actions for each event, shape ``(n, K)``, rows summing to 1."""
        ...


@runtime_checkable
class LearningPolicy(Policy, Protocol):
    """A policy that changes: accepted events arrive ``batch_size`` at a time, in order.

    ``batch_size`` is 1 where it is missing. Between two calls of ``learn`` the probabilities may not change.
    """

    def learn(self, contexts: Contexts, actions: IntArray, rewards: FloatArray, probabilities: FloatArray) -> None:
        """Take in accepted events; ``probabilities`` are the policy's own, of the actions taken."""
        ...


@runtime_checkable
class StartsFresh(Protocol):
    """A policy that wants to know the sizes before the first event; called on the evaluator's copy."""

    def start(self, n_actions: int, n_features: int, rng: np.random.Generator) -> None:
        """Prepare for ``n_actions`` actions and ``n_features`` features (of each action, if they have their own)."""
        ...


@runtime_checkable
class LogPolicy(Protocol):
    """A policy that looks at the log's own record of each event, such as the logger itself."""

    def probabilities_of(self, log: Log) -> FloatArray:
        """Probabilities of all K actions at each event of this (part of a) log."""
        ...


def is_learning(policy: object) -> TypeGuard[LearningPolicy]:
    """Whether the policy learns from accepted events.

    >>> class Still:
    ...     def probabilities(self, contexts, available=None): ...
    >>> is_learning(Still())
    False
    """
    return callable(getattr(policy, "learn", None))


def batch_size_of(policy: object) -> int:
    """How many accepted events the policy takes at a time (1 where it does not say)."""
    return int(getattr(policy, "batch_size", 1))
