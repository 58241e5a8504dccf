"""Policies that ignore the context: UCB1 and RoundRobin."""

from __future__ import annotations

from typing import Any, NamedTuple, final

import numpy as np

from backcast._arrays import BoolArray, FloatArray, IntArray
from backcast._kernels.contexts import View
from backcast._kernels.dispatch import register
from backcast._validation import at_least, count
from backcast.policies._choice import argmax_probabilities, is_available
from backcast.policies.compiled import CompiledPolicy


class CountState(NamedTuple):
    """Plays and summed rewards of each action, and the exploration constant."""

    plays: FloatArray
    sums: FloatArray
    exploration: float


class CycleState(NamedTuple):
    """Rounds played so far."""

    played: IntArray


def score_ucb1(state: Any, view: View, k: int, available: BoolArray, out: FloatArray) -> None:
    """``mean + exploration sqrt(2 ln t / plays)``, unplayed actions first (Auer, Cesa-Bianchi and Fischer 2002)."""
    bonus = state.exploration * np.sqrt(2.0 * np.log(max(state.plays.sum(), 1.0)))
    for a in range(out.size):
        if state.plays[a] == 0.0:
            out[a] = np.inf
        else:
            out[a] = state.sums[a] / state.plays[a] + bonus / np.sqrt(state.plays[a])
    argmax_probabilities(out, available, k)


def learn_ucb1(state: Any, view: View, k: int, action: int, reward: float, probability: float) -> None:
    """Add the play and its reward."""
    state.plays[action] += 1.0
    state.sums[action] += reward


def score_cycle(state: Any, view: View, k: int, available: BoolArray, out: FloatArray) -> None:
    """Choose the next eligible action of the cycle."""
    out[:] = 0.0
    for step in range(out.size):
        action = (state.played[0] + step) % out.size
        if is_available(available, k, action):
            out[action] = 1.0
            return


def learn_cycle(state: Any, view: View, k: int, action: int, reward: float, probability: float) -> None:
    """Advance to the next action."""
    state.played[0] += 1


register(CountState, score=score_ucb1, learn=learn_ucb1, context_free=True)
register(CycleState, score=score_cycle, learn=learn_cycle, context_free=True)


@final
class UCB1(CompiledPolicy):
    """The action of largest ``mean + exploration sqrt(2 ln t / plays)``; unplayed ones first (Auer et al. 2002).

    Examples
    --------
    >>> policy = UCB1()
    >>> policy.start(2, 0, np.random.default_rng(0))
    >>> policy.learn(np.zeros((1, 0)), np.array([0]), np.array([1.0]), np.array([0.5]))
    >>> policy.probabilities(np.zeros((1, 0)))
    array([[0., 1.]])
    """

    def __init__(self, exploration: float = 1.0, *, batch_size: int = 1) -> None:
        super().__init__(count("batch_size", batch_size))
        self.exploration = at_least("exploration", exploration, 0.0)

    def __repr__(self) -> str:
        return f"UCB1(exploration={self.exploration:g}, batch_size={self.batch_size})"

    def initial_state(self, n_actions: int, n_features: int, has_action_features: bool) -> CountState:
        """Return the state without plays."""
        return CountState(np.zeros(n_actions), np.zeros(n_actions), self.exploration)


@final
class RoundRobin(CompiledPolicy):
    """The actions in turn, independent of the rewards: 0, 1, ..., K-1, 0, ...

    Examples
    --------
    >>> policy = RoundRobin()
    >>> policy.start(3, 0, np.random.default_rng(0))
    >>> policy.probabilities(np.zeros((1, 0)))
    array([[1., 0., 0.]])
    """

    def __init__(self, *, batch_size: int = 1) -> None:
        super().__init__(count("batch_size", batch_size))

    def __repr__(self) -> str:
        return f"RoundRobin(batch_size={self.batch_size})"

    def initial_state(self, n_actions: int, n_features: int, has_action_features: bool) -> CycleState:
        """Return the state at the first action."""
        return CycleState(np.zeros(1, dtype=np.int64))
