"""From a policy's state to its compiled kernels: ``score``, ``learn``, ``raw``, ``choose`` and others by its class."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from numba.extending import overload

from backcast._arrays import BoolArray, FloatArray
from backcast._kernels.contexts import View
from backcast._kernels.jit import ALWAYS_INLINE, borrow, compiled, uncached
from backcast.errors import PolicyError

Kernel = Callable[..., Any]


class Kernels(NamedTuple):
    """The kernels of a state class and what is declared about them; see :func:`register`."""

    score: Kernel
    learn: Kernel
    raw: Kernel | None
    raw_row: Kernel | None
    choose: Kernel | None
    lipschitz: Kernel | None
    greedy: bool
    context_free: bool


_KERNELS: dict[type, Kernels] = {}


def register(
    state: type,
    *,
    score: Kernel,
    learn: Kernel,
    raw: Kernel | None = None,
    raw_row: Kernel | None = None,
    choose: Kernel | None = None,
    lipschitz: Kernel | None = None,
    greedy: bool = False,
    context_free: bool = False,
) -> None:
    """Register the kernels for states of this NamedTuple class; they are Python functions that Numba can compile.

    ``score(state, view, k, available, out)`` fills ``out`` with the probabilities of all actions at event ``k``;
    ``learn(state, view, k, action, reward, probability)`` changes the state's arrays in place.

    A policy with one model per action may split ``score`` in two, so that only the action that changed is scored
    again: ``raw(state, view, action, out)`` writes one action's score at every event, which changes only when that
    action is learned (if contexts are features of each action, when any is), and
    ``choose(state, available, k, out)`` turns a row of raw scores into probabilities.
    ``greedy`` declares that the choice depends only on which scores are the largest; ``context_free`` that it is the
    same at every event. If ``raw`` of a greedy policy has rounding errors that ``score`` does not have,
    ``raw_row(state, view, k, out)`` writes the scores of all actions at one event without them; it decides near ties.
    With ``lipschitz(state)``, a Lipschitz constant of every action's score as a function of the features, ``raw`` may
    also get features in single precision.
    """
    if state in _KERNELS and _KERNELS[state].score is not score:
        raise PolicyError(f"{state.__name__} has kernels already; define a state class for each compiled policy")
    _KERNELS[state] = Kernels(score, learn, raw, raw_row, choose, lipschitz, greedy, context_free)


def is_divisible(state: object) -> bool:
    """Whether the policy scores each action separately, so that only those that changed need scoring again."""
    kernels = _KERNELS.get(type(state))
    return kernels is not None and kernels.raw is not None


def is_builtin(state: object) -> bool:
    """Whether the state's kernels are part of this package, so that loops around them may be cached on disk."""
    state_class = type(state)
    # a class defined in a docstring example carries the module's name without being an attribute of it
    module = sys.modules.get(state_class.__module__)
    in_module = getattr(module, state_class.__name__, None) is state_class
    return in_module and state_class.__module__.split(".")[0] == "backcast"


def is_greedy(state: object) -> bool:
    """Whether the choice depends only on which raw scores are the largest."""
    return type(state) in _KERNELS and _KERNELS[type(state)].greedy


def is_approximate(state: object) -> bool:
    """Whether ``raw`` has rounding errors that ``score`` does not have, so that near ties need ``raw_row``."""
    kernels = _KERNELS.get(type(state))
    return kernels is not None and kernels.raw_row is not None


def allows_rounding(state: object) -> bool:
    """Whether ``raw`` may get features in single precision: ``raw_row`` decides what that leaves open."""
    kernels = _KERNELS.get(type(state))
    return kernels is not None and kernels.greedy and None not in (kernels.raw_row, kernels.lipschitz)


def is_context_free(state: object) -> bool:
    """Whether the probabilities are the same at every event (with all actions available)."""
    return type(state) in _KERNELS and _KERNELS[type(state)].context_free


def score(state: Any, view: View, k: int, available: BoolArray, out: FloatArray) -> None:
    """Fill ``out`` with the policy's probabilities at event ``k``. Compiled code only."""
    raise NotImplementedError("score runs inside compiled code")


def learn(state: Any, view: View, k: int, action: int, reward: float, probability: float) -> None:
    """Update the policy's state with event ``k``. Compiled code only."""
    raise NotImplementedError("learn runs inside compiled code")


def raw(state: Any, view: View, action: int, out: FloatArray) -> None:
    """Write the raw scores of one action at all events. Compiled code only."""
    raise NotImplementedError("raw runs inside compiled code")


def raw_row(state: Any, view: View, k: int, out: FloatArray) -> None:
    """Write the raw scores of all actions at event ``k``. Compiled code only."""
    raise NotImplementedError("raw_row runs inside compiled code")


def choose(state: Any, available: BoolArray, k: int, out: FloatArray) -> None:
    """Turn raw scores into probabilities. Compiled code only."""
    raise NotImplementedError("choose runs inside compiled code")


def lipschitz(state: Any) -> float:
    """Return a Lipschitz constant of the raw scores as functions of the features. Compiled code only."""
    raise NotImplementedError("lipschitz runs inside compiled code")


def _compile_by_state(function: Kernel, unused: Kernel) -> None:
    """Let compiled calls of ``function`` run the registered kernel of that name for their state, inlined.

    ``unused`` stands for a kernel that a policy does not have in a branch that is never taken for it.
    """

    @overload(function, strict=False, jit_options=ALWAYS_INLINE)  # type: ignore[untyped-decorator]  # numba has no types
    def select(state: Any, *arguments: Any) -> Any:
        return getattr(_KERNELS[state.instance_class], function.__name__) or unused


def _no_scores(state: Any, view: Any, k: Any, out: Any) -> None:
    pass


def _no_constant(state: Any) -> float:
    return 0.0


for function in (score, learn, raw, raw_row, choose):
    _compile_by_state(function, _no_scores)
_compile_by_state(lipschitz, _no_constant)


def _score_rows(state: Any, view: Any, available: Any, out: Any) -> None:
    state, view, available, out = borrow(state), borrow(view), borrow(available), borrow(out)
    for k in range(out.shape[0]):
        score(state, view, k, available, out[k])


def _learn_rows(state: Any, view: Any, actions: Any, rewards: Any, probabilities: Any) -> None:
    state, view = borrow(state), borrow(view)
    for k in range(actions.size):
        learn(state, view, k, actions[k], rewards[k], probabilities[k])


_score_rows_cached, _score_rows_uncached = compiled(_score_rows), uncached(_score_rows)
_learn_rows_cached, _learn_rows_uncached = compiled(_learn_rows), uncached(_learn_rows)


def score_block(state: Any, view: View, available: BoolArray, out: FloatArray) -> None:
    """Write the probabilities of a block of events, by the same kernel that the compiled replay loop calls."""
    (_score_rows_cached if is_builtin(state) else _score_rows_uncached)(state, view, available, out)


def learn_block(state: Any, view: View, actions: Any, rewards: Any, probabilities: Any) -> None:
    """Update the state with a block of accepted events in order."""
    (_learn_rows_cached if is_builtin(state) else _learn_rows_uncached)(state, view, actions, rewards, probabilities)
