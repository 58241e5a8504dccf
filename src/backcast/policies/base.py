"""The protocols of a policy: Policy, LearningPolicy, StartsFresh, NamesActions and LogPolicy."""

from __future__ import annotations

from numbers import Integral
from typing import Any, Protocol, TypeGuard, runtime_checkable

import numpy as np

from backcast._arrays import BoolArray, Contexts, FloatArray, IntArray
from backcast.errors import PolicyError
from backcast.log import Log


@runtime_checkable
class Policy(Protocol):
    """A rule for choosing actions: ``probabilities`` under the current state, for a block of events."""

    def probabilities(self, contexts: Contexts, available: BoolArray | None = None) -> FloatArray:
        """Return the probabilities of all K actions for each event, shape ``(n, K)``, rows summing to 1."""
        ...


@runtime_checkable
class LearningPolicy(Policy, Protocol):
    """A policy that learns: accepted events arrive ``batch_size`` at a time, in order.

    ``batch_size`` defaults to 1. Between two calls of ``learn`` the probabilities must not change.
    """

    def learn(self, contexts: Contexts, actions: IntArray, rewards: FloatArray, probabilities: FloatArray) -> None:
        """Learn from accepted events; ``probabilities`` are the policy's, of the actions taken."""
        ...


@runtime_checkable
class StartsFresh(Protocol):
    """A policy that needs the sizes before the first event; evaluators call ``start`` on their copy."""

    def start(self, n_actions: int, n_features: int, rng: np.random.Generator) -> None:
        """Prepare for ``n_actions`` actions and ``n_features`` features (per action, if actions have features)."""
        ...


@runtime_checkable
class NamesActions(Protocol):
    """A policy that names actions by their labels; evaluators call ``use_labels`` on their copy, before ``start``."""

    def use_labels(self, labels: tuple[Any, ...]) -> None:
        """Relate what the policy names to the actions of the log; ``labels[a]`` is the label of action ``a``."""
        ...


@runtime_checkable
class LogPolicy(Protocol):
    """A policy that reads the log's record of each event, such as the logging policy."""

    def probabilities_of(self, log: Log) -> FloatArray:
        """Return the probabilities of all K actions at each event of this (part of a) log."""
        ...


def is_learning(policy: object) -> TypeGuard[LearningPolicy]:
    """Whether the policy learns from accepted events.

    >>> class NeverLearns:
    ...     def probabilities(self, contexts, available=None): ...
    >>> is_learning(NeverLearns())
    False
    """
    return callable(getattr(policy, "learn", None))


def batch_size_of(policy: object) -> int:
    """Return how many accepted events the policy learns from at a time (1 by default).

    >>> class Hasty:
    ...     batch_size = 0
    >>> batch_size_of(Hasty())
    Traceback (most recent call last):
    ...
    backcast.errors.PolicyError: Hasty.batch_size is 0; it must be at least 1, a whole number
    """
    size = getattr(policy, "batch_size", 1)
    if isinstance(size, bool) or not isinstance(size, Integral) or size < 1:
        raise PolicyError(f"{type(policy).__name__}.batch_size is {size!r}; it must be at least 1, a whole number")
    return int(size)
