"""Compiled policies: the base class of the built-in learners, and Compiled for user kernels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import namedtuple
from collections.abc import Callable
from functools import cache
from itertools import count
from typing import Any, final

import numpy as np

from backcast._arrays import BoolArray, Contexts, FloatArray, IntArray
from backcast._kernels.contexts import View, mask_of, view_of
from backcast._kernels.contexts import add_scores as add_scores
from backcast._kernels.contexts import dot_row as dot_row
from backcast._kernels.contexts import load_row as load_row
from backcast._kernels.dispatch import Kernel, is_builtin, learn_block, register, score_block
from backcast._parameters import Parametrized
from backcast.errors import PolicyError

_CLASS_NUMBERS = count(1)


class CompiledPolicy(Parametrized, ABC):
    """A learning policy with compiled kernels, so that the engine's whole loop can be compiled.

    A subclass defines ``initial_state``: a NamedTuple of arrays and numbers whose class has kernels registered.
    """

    def __init__(self, batch_size: int = 1) -> None:
        self.batch_size = batch_size
        self._sizes: tuple[int, int] | None = None
        self._state: Any = None

    @abstractmethod
    def initial_state(self, n_actions: int, n_features: int, has_action_features: bool) -> Any:
        """Return the state before the first event; contexts are ``(n, K, d)`` if ``has_action_features``."""

    def start(self, n_actions: int, n_features: int, rng: np.random.Generator) -> None:
        """Store the sizes; a policy that has already learned keeps its state."""
        if self._state is None:
            self._sizes = (n_actions, n_features)

    @property
    def may_have_learned(self) -> bool:
        """Whether there is a state, which events may have changed."""
        return self._state is not None

    def state_for(self, contexts: Contexts) -> Any:
        """Return the current state, created when the first contexts arrive."""
        if self._state is None:
            if self._sizes is None:
                raise PolicyError(
                    f"{self!r} has not been started; call start(n_actions, n_features, rng) first "
                    "(evaluators do it on their copy)"
                )
            self._state = self.initial_state(*self._sizes, contexts.ndim == 3)
        return self._state

    def state_for_pass(self, contexts: Contexts, view: View) -> Any:
        """Return the state for a pass that scores all events of these contexts after every update."""
        return self.state_for(contexts)

    def probabilities(self, contexts: Contexts, available: BoolArray | None = None) -> FloatArray:
        """Return the probabilities of all actions for each event under the current state."""
        state = self.state_for(contexts)
        assert self._sizes is not None
        out = np.empty((contexts.shape[0], self._sizes[0]))
        score_block(state, view_of(contexts), mask_of(available), out)
        return out

    def learn(self, contexts: Contexts, actions: IntArray, rewards: FloatArray, probabilities: FloatArray) -> None:
        """Update from accepted events, in order."""
        learn_block(
            self.state_for(contexts),
            view_of(contexts),
            np.require(actions, dtype=np.int64, requirements=["C", "W"]),
            np.require(rewards, dtype=np.float64, requirements=["C", "W"]),
            np.require(probabilities, dtype=np.float64, requirements=["C", "W"]),
        )


@final
class Compiled(CompiledPolicy):
    """A user's compiled policy, from a state and two kernels.

    Both kernels are Python functions that Numba can compile; they are compiled together with the engine's loop.
    They read features by ``add_scores``, ``dot_row`` and ``load_row`` of this module.

    Parameters
    ----------
    initial
        ``initial(n_actions, n_features)`` returns the state: an instance of a NamedTuple class of arrays and numbers.
    score
        ``score(state, view, k, available, out)`` writes the probabilities of all actions at event ``k`` into ``out``.
    learn
        ``learn(state, view, k, action, reward, probability)`` changes the state's arrays in place.
    batch_size
        Number of accepted events that it learns from at a time.

    Examples
    --------
    A policy that repeats the last rewarded action, else picks uniformly:

    >>> from typing import NamedTuple
    >>> class Last(NamedTuple):
    ...     action: np.ndarray
    >>> def score(state, view, k, available, out):
    ...     for a in range(out.size):
    ...         sure = 1.0 if a == state.action[0] else 0.0
    ...         out[a] = 1.0 / out.size if state.action[0] < 0 else sure
    >>> def learn(state, view, k, action, reward, probability):
    ...     if reward > 0:
    ...         state.action[0] = action
    >>> policy = Compiled(lambda n_actions, n_features: Last(np.array([-1])), score, learn)
    >>> policy.start(2, 1, np.random.default_rng(0))
    >>> policy.probabilities(np.zeros((1, 1)))
    array([[0.5, 0.5]])
    >>> policy.learn(np.zeros((1, 1)), np.array([1]), np.array([1.0]), np.array([0.5]))
    >>> policy.probabilities(np.zeros((1, 1)))
    array([[0., 1.]])
    """

    def __init__(
        self, initial: Callable[[int, int], Any], score: Kernel, learn: Kernel, *, batch_size: int = 1
    ) -> None:
        super().__init__(batch_size)
        self._initial, self._score, self._learn = initial, score, learn

    def initial_state(self, n_actions: int, n_features: int, has_action_features: bool) -> Any:
        """Return the user's state, as an instance of a class that has the user's kernels registered."""
        state = self._initial(n_actions, n_features)
        if not (isinstance(state, tuple) and hasattr(state, "_fields")):
            raise PolicyError(
                f"initial() returned {type(state).__name__}; a compiled state must be a NamedTuple of arrays"
            )
        if is_builtin(state):
            raise PolicyError(f"{type(state).__name__} has kernels already; define a state class for this policy")
        return _state_class(type(state), self._score, self._learn)(*state)

    def __getstate__(self) -> dict[str, Any]:
        # the class of the state exists in this process only
        return {**vars(self), "_state": None if self._state is None else tuple(self._state)}

    def __setstate__(self, fields: dict[str, Any]) -> None:
        vars(self).update(fields)
        if self._state is not None:
            assert self._sizes is not None
            user_class: Any = type(self._initial(*self._sizes))
            self._state = _state_class(user_class, self._score, self._learn)(*self._state)


@cache
def _state_class(user_class: Any, score: Kernel, learn: Kernel) -> Any:
    """Return a copy of a state class with these kernels registered.

    Numba distinguishes named tuples by the name and the fields of their class. Without a unique name, a class that is
    defined again, as in a notebook's cell run twice, would get the kernels of the old one.
    """
    make: Any = namedtuple
    state_class = make(
        f"{user_class.__name__}_{next(_CLASS_NUMBERS)}", user_class._fields, module=user_class.__module__
    )
    register(state_class, score=score, learn=learn)
    return state_class
