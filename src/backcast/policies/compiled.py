"""Policies whose kernels are compiled: the base of the built-in ones, and the way to write your own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import namedtuple
from collections.abc import Callable
from functools import cache
from itertools import count
from typing import Any, final

import numpy as np

from backcast._arrays import BoolArray, Contexts, FloatArray, IntArray
from backcast._kernels.contexts import mask_of, view_of
from backcast._kernels.dispatch import Kernel, is_builtin, learn_block, register, score_block
from backcast.errors import PolicyError

_NUMBERS = count(1)


class CompiledPolicy(ABC):
    """A learning policy that lives in compiled code, so that the engine can run it wholly compiled.

    A subclass gives ``initial_state``: a NamedTuple of arrays and numbers whose class has kernels registered.
    """

    def __init__(self, batch_size: int = 1) -> None:
        self.batch_size = batch_size
        self._sizes: tuple[int, int] | None = None
        self._state: Any = None

    @abstractmethod
    def initial_state(self, n_actions: int, n_features: int, own_features: bool) -> Any:
        """The state before the first event; ``own_features`` says that each action has features of its own."""

    def start(self, n_actions: int, n_features: int, rng: np.random.Generator) -> None:
        """Take note of the sizes; a state that has already learned is kept."""
        if self._state is None:
            self._sizes = (n_actions, n_features)

    def state_for(self, contexts: Contexts) -> Any:
        """The live state, made at the first sight of contexts."""
        if self._state is None:
            if self._sizes is None:
                raise PolicyError(
                    f"{self!r} does not know its sizes yet; call start(n_actions, n_features, rng) first "
                    "(evaluators do it on their copy)"
                )
            self._state = self.initial_state(*self._sizes, contexts.ndim == 3)
        return self._state

    def probabilities(self, contexts: Contexts, available: BoolArray | None = None) -> FloatArray:
        """Probabilities of all actions for each event under the present state."""
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
    """A compiled policy of your own, from a state and two kernels.

    Both kernels are plain Python within what Numba compiles; they are compiled with the engine's loop around them.
    Features are read through ``backcast.kernels.views``: ``add_scores``, ``dot_row`` and ``load_row``.

    Parameters
    ----------
    initial
        ``initial(n_actions, n_features)`` gives the state: an instance of a NamedTuple class of arrays and numbers.
    score
        ``score(state, view, k, available, out)`` writes the probabilities of all actions at event ``k`` into ``out``.
    learn
        ``learn(state, view, k, action, reward, probability)`` changes the state's arrays in place.
    batch_size
        How many accepted events it learns from at a time.

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

    def initial_state(self, n_actions: int, n_features: int, own_features: bool) -> Any:
        """The user's state, in a class that knows the user's kernels."""
        state = self._initial(n_actions, n_features)
        if not (isinstance(state, tuple) and hasattr(state, "_fields")):
            raise PolicyError(f"initial() gave {type(state).__name__}; a compiled state is a NamedTuple of arrays")
        if is_builtin(state):
            name = type(state).__name__
            raise PolicyError(f"{name} has kernels already; give each compiled policy a state class of its own")
        return _own_class(type(state), self._score, self._learn)(*state)

    def __getstate__(self) -> dict[str, Any]:
        # the class of the live state exists in this process only
        return {**vars(self), "_state": None if self._state is None else tuple(self._state)}

    def __setstate__(self, fields: dict[str, Any]) -> None:
        vars(self).update(fields)
        if self._state is not None:
            assert self._sizes is not None
            kind: Any = type(self._initial(*self._sizes))
            self._state = _own_class(kind, self._score, self._learn)(*self._state)


@cache
def _own_class(kind: Any, score: Kernel, learn: Kernel) -> Any:
    """A copy of a state class for these kernels alone.

    Numba tells named tuples apart by the name and the fields of their class. Without a name of its own, a class that is
    written anew, as in a notebook's cell run twice, would be served the kernels of the old one.
    """
    make: Any = namedtuple
    twin = make(f"{kind.__name__}_{next(_NUMBERS)}", kind._fields, module=kind.__module__)
    register(twin, score=score, learn=learn)
    return twin
