"""From a policy's state to its compiled kernels: ``score`` and ``learn`` mean what the state's class says."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from numba.extending import overload

from backcast._arrays import BoolArray, FloatArray
from backcast._kernels.contexts import View
from backcast._kernels.jit import ALWAYS_INLINE, borrow, compiled, uncached
from backcast.errors import PolicyError

Kernel = Callable[..., None]


_SCORE: dict[type, Kernel] = {}


_LEARN: dict[type, Kernel] = {}


_RAW: dict[type, Kernel] = {}


_CHOOSE: dict[type, Kernel] = {}


_GREEDY: set[type] = set()


_CONTEXT_FREE: set[type] = set()


def register(
    state: type,
    *,
    score: Kernel,
    learn: Kernel,
    raw: Kernel | None = None,
    choose: Kernel | None = None,
    greedy: bool = False,
    context_free: bool = False,
) -> None:
    """Say which kernels serve states of this NamedTuple class; they are written in Python that Numba compiles.

    ``score(state, view, k, available, out)`` fills ``out`` with the probabilities of all actions at event ``k``;
    ``learn(state, view, k, action, reward, probability)`` changes the state's arrays in place.

    A policy whose actions have models of their own may split ``score`` in two, so that only what changed is scored
    again: ``raw(state, view, action, out)`` writes one action's score at every event, which changes only when that
    action is learned, and ``choose(state, available, k, out)`` turns a row of raw scores into probabilities.
    ``greedy`` says that the choice hangs on which scores are the largest and nothing else; ``context_free`` that it
    is the same at every event.
    """
    known = _SCORE.get(state)
    if known is not None and known is not score:
        raise PolicyError(f"{state.__name__} has kernels already; give each compiled policy a state class of its own")
    _SCORE[state] = score
    _LEARN[state] = learn
    if raw is not None and choose is not None:
        _RAW[state] = raw
        _CHOOSE[state] = choose
    if greedy:
        _GREEDY.add(state)
    if context_free:
        _CONTEXT_FREE.add(state)


def is_divisible(state: object) -> bool:
    """Whether the policy scores each action by itself, so that only those that changed need scoring again."""
    return type(state) in _RAW


def is_builtin(state: object) -> bool:
    """Whether the state's kernels are the package's own, so that drivers around them may be cached on disk."""
    kind = type(state)
    # a class written in an example runs under a module's name without being of it
    home = sys.modules.get(kind.__module__)
    return kind.__module__.split(".")[0] == "backcast" and getattr(home, kind.__name__, None) is kind


def is_greedy(state: object) -> bool:
    """Whether the choice hangs only on which raw scores are the largest."""
    return type(state) in _GREEDY


def is_context_free(state: object) -> bool:
    """Whether the probabilities are the same at every event (with all actions available)."""
    return type(state) in _CONTEXT_FREE


def score(state: Any, view: View, k: int, available: BoolArray, out: FloatArray) -> None:
    """Fill ``out`` with the policy's probabilities at event ``k``. Compiled code only."""
    raise NotImplementedError("score runs inside compiled code")


def learn(state: Any, view: View, k: int, action: int, reward: float, probability: float) -> None:
    """Let the policy learn from event ``k``. Compiled code only."""
    raise NotImplementedError("learn runs inside compiled code")


def raw(state: Any, view: View, action: int, out: FloatArray) -> None:
    """Write the raw scores of one action at all events. Compiled code only."""
    raise NotImplementedError("raw runs inside compiled code")


def choose(state: Any, available: BoolArray, k: int, out: FloatArray) -> None:
    """Turn raw scores into probabilities. Compiled code only."""
    raise NotImplementedError("choose runs inside compiled code")


@overload(raw, strict=False, jit_options=ALWAYS_INLINE)  # type: ignore[untyped-decorator]  # numba has no types
def _raw(state: Any, view: Any, action: Any, out: Any) -> Any:
    return _RAW[state.instance_class]


@overload(choose, strict=False, jit_options=ALWAYS_INLINE)  # type: ignore[untyped-decorator]  # numba has no types
def _choose(state: Any, available: Any, k: Any, out: Any) -> Any:
    return _CHOOSE[state.instance_class]


@overload(score, strict=False, jit_options=ALWAYS_INLINE)  # type: ignore[untyped-decorator]  # numba has no types
def _score(state: Any, view: Any, k: Any, available: Any, out: Any) -> Any:
    return _SCORE[state.instance_class]


@overload(learn, strict=False, jit_options=ALWAYS_INLINE)  # type: ignore[untyped-decorator]  # numba has no types
def _learn(state: Any, view: Any, k: Any, action: Any, reward: Any, probability: Any) -> Any:
    return _LEARN[state.instance_class]


def _score_rows(state: Any, view: Any, available: Any, out: Any) -> None:
    state, view, available, out = borrow(state), borrow(view), borrow(available), borrow(out)
    for k in range(out.shape[0]):
        score(state, view, k, available, out[k])


def _learn_rows(state: Any, view: Any, actions: Any, rewards: Any, probabilities: Any) -> None:
    state, view = borrow(state), borrow(view)
    for k in range(actions.size):
        learn(state, view, k, actions[k], rewards[k], probabilities[k])


score_block_cached = compiled(_score_rows)


score_block_fresh = uncached(_score_rows)


learn_block_cached = compiled(_learn_rows)


learn_block_fresh = uncached(_learn_rows)


def score_block(state: Any, view: View, available: BoolArray, out: FloatArray) -> None:
    """Probabilities of a block of events, row by row with the very kernel the fused driver uses."""
    (score_block_cached if is_builtin(state) else score_block_fresh)(state, view, available, out)


def learn_block(state: Any, view: View, actions: Any, rewards: Any, probabilities: Any) -> None:
    """Learn from a block of accepted events in order."""
    (learn_block_cached if is_builtin(state) else learn_block_fresh)(state, view, actions, rewards, probabilities)
