"""Policies that never change: uniform, fixed probabilities, epsilon-greedy over given scores, the logger itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import numpy as np

from backcast._arrays import BoolArray, Contexts, FloatArray
from backcast._kernels.contexts import mask_of
from backcast._validation import share
from backcast.errors import OptionError, PolicyError
from backcast.log import Log
from backcast.policies._choice import greedy_block


def greedy_probabilities(scores: FloatArray, epsilon: float, available: BoolArray | None = None) -> FloatArray:
    """Epsilon-greedy probabilities from a block of scores, ties sharing.

    >>> greedy_probabilities(np.array([[0.0, 2.0]]), epsilon=0.5)
    array([[0.25, 0.75]])
    """
    out = np.array(scores, dtype=np.float64, ndmin=2, order="C")
    greedy_block(out, epsilon, mask_of(available))
    return out


@final
class Uniform:
    """Every eligible action with the same probability.

    Examples
    --------
    >>> policy = Uniform()
    >>> policy.start(4, 1, np.random.default_rng(0))
    >>> policy.probabilities(np.zeros((1, 1)))
    array([[0.25, 0.25, 0.25, 0.25]])
    """

    def __init__(self) -> None:
        self._n_actions: int | None = None

    def __repr__(self) -> str:
        return "Uniform()"

    def start(self, n_actions: int, n_features: int, rng: np.random.Generator) -> None:
        """Take note of the number of actions."""
        self._n_actions = n_actions

    def probabilities(self, contexts: Contexts, available: BoolArray | None = None) -> FloatArray:
        """``1/K`` everywhere, or one over the number of eligible actions."""
        if available is not None:
            return np.asarray(available / available.sum(axis=1, keepdims=True))
        if self._n_actions is None:
            raise PolicyError("Uniform() does not know the number of actions; call start(n_actions, ...) first")
        return np.full((contexts.shape[0], self._n_actions), 1.0 / self._n_actions)


@final
class Fixed:
    """A policy that never learns, from a probability vector or a function of the contexts.

    A vector meets unavailable actions by sharing their probability out in proportion; a function must
    return ``(n, K)`` probabilities itself. A single number is not a policy but a fixed acceptance multiplier, for
    ``DRns(acceptance=Fixed(c))``.

    Examples
    --------
    >>> Fixed([0.25, 0.75]).probabilities(np.zeros((2, 1)))
    array([[0.25, 0.75],
           [0.25, 0.75]])
    >>> Fixed(lambda x: np.column_stack([x[:, 0] > 0, x[:, 0] <= 0])).probabilities(np.array([[5.0]]))
    array([[1., 0.]])
    """

    def __init__(self, probabilities: Any) -> None:
        self._function: Callable[[Contexts], Any] | None = probabilities if callable(probabilities) else None
        self._vector = np.zeros(0) if callable(probabilities) else np.asarray(probabilities, dtype=np.float64)
        self.multiplier: float | None = float(self._vector) if self._vector.ndim == 0 else None
        if (
            self._function is None
            and self.multiplier is None
            and not (self._vector.ndim == 1 and (self._vector >= 0).all() and abs(self._vector.sum() - 1) <= 1e-9)
        ):
            raise OptionError(f"Fixed({probabilities!r}): give K probabilities >= 0 that sum to 1, or a function")

    def __repr__(self) -> str:
        if self._function is not None:
            return f"Fixed({getattr(self._function, '__name__', 'function')})"
        return f"Fixed({np.array2string(self._vector, threshold=8, separator=', ')})"

    def probabilities(self, contexts: Contexts, available: BoolArray | None = None) -> FloatArray:
        """The same probabilities always, or what the function says."""
        if self.multiplier is not None:
            raise PolicyError(f"Fixed({self.multiplier:g}) is an acceptance multiplier; a policy needs K probabilities")
        if self._function is not None:
            return np.asarray(self._function(contexts), dtype=np.float64)
        block = np.tile(self._vector, (contexts.shape[0], 1))
        if available is None:
            return block
        block = block * available
        total = block.sum(axis=1, keepdims=True)
        # where the vector has nothing left among the eligible, the choice among them is even
        return np.where(total > 0, block / np.where(total > 0, total, 1.0), available / available.sum(1, keepdims=True))


@final
class FromScores:
    """Epsilon-greedy over fixed scores: a function of the contexts, or a fitted scikit-learn classifier.

    Examples
    --------
    >>> FromScores(lambda x: np.column_stack([x[:, 0], -x[:, 0]]), epsilon=0.5).probabilities(np.array([[3.0]]))
    array([[0.75, 0.25]])
    """

    def __init__(self, scores: Any, *, epsilon: float = 0.0) -> None:
        function = getattr(scores, "predict_proba", scores)
        if not callable(function):
            raise OptionError(f"FromScores({scores!r}): give a function of the contexts or a fitted classifier")
        self._function: Callable[[Contexts], Any] = function
        self.epsilon = share("epsilon", epsilon)

    def __repr__(self) -> str:
        owner = getattr(self._function, "__self__", self._function)
        return f"FromScores({getattr(owner, '__name__', type(owner).__name__)}, epsilon={self.epsilon:g})"

    def probabilities(self, contexts: Contexts, available: BoolArray | None = None) -> FloatArray:
        """The best-scored action, softened."""
        return greedy_probabilities(np.asarray(self._function(contexts), dtype=np.float64), self.epsilon, available)


@final
class Logged:
    """The logger itself, for self-evaluation: its probabilities as recorded, or as a function of the contexts.

    With no argument it reads the ``logging_probabilities`` of the log; an ``(n, K)`` array is read by row number.

    Examples
    --------
    >>> log = Log([[0.0], [1.0]], actions=[1, 0], rewards=[0, 1], propensities=[0.75, 0.5], n_actions=2)
    >>> Logged(np.array([[0.25, 0.75], [0.5, 0.5]])).probabilities_of(log[1:])
    array([[0.5, 0.5]])
    """

    def __init__(self, source: Any = None) -> None:
        self._function: Callable[[Contexts], Any] | None = source if callable(source) else None
        self._table = None if source is None or callable(source) else np.asarray(source, dtype=np.float64)

    def __repr__(self) -> str:
        return "Logged()" if self._function is None else f"Logged({getattr(self._function, '__name__', 'function')})"

    def probabilities_of(self, log: Log) -> FloatArray:
        """What the logger gave to every action at these events."""
        if self._function is not None:
            return self.probabilities(log.contexts, log.available)
        if self._table is not None:
            if log.rows.size and log.rows.max() >= len(self._table):
                raise PolicyError(
                    f"Logged was given {len(self._table)} rows of probabilities; the log has row {log.rows.max()}"
                )
            return self._table[log.rows]
        if log.logging_probabilities is None:
            raise PolicyError(
                "Logged() needs the probabilities of all actions and this log records only those of the logged ones; "
                "pass logging_probabilities to the log, or use Logged(function) or Logged(array)"
            )
        return log.logging_probabilities

    def probabilities(self, contexts: Contexts, available: BoolArray | None = None) -> FloatArray:
        """What the logger's function says of these contexts."""
        if self._function is None:
            raise PolicyError("Logged() from a record knows only the log's own events; give it a function of contexts")
        return np.asarray(self._function(contexts), dtype=np.float64)
