"""Policies as users write them in plain Python, shared by tests."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import backcast as bc
from backcast._kernels.contexts import add_scores


class FollowTheLeader:
    """Take the action with the higher mean reward so far with probability 0.9, of two actions.

    It is no compiled policy, so that evaluations in parallel use processes.
    """

    def __init__(self) -> None:
        self.sums, self.counts = np.ones(2), np.full(2, 2.0)

    def probabilities(self, contexts: Any, available: Any = None) -> Any:
        return np.tile(np.where(np.arange(2) == np.argmax(self.sums / self.counts), 0.9, 0.1), (len(contexts), 1))

    def learn(self, contexts: Any, actions: Any, rewards: Any, probabilities: Any) -> None:
        np.add.at(self.sums, actions, rewards)
        np.add.at(self.counts, actions, 1)


class CountedLeader(FollowTheLeader):
    """Append a byte to a file when a run learns for the first time, then wait for ``pause`` seconds.

    The checks of an evaluation start copies too, but teach them nothing.
    """

    def __init__(self, runs: str, pause: float = 0.0) -> None:
        super().__init__()
        self.runs, self.pause = runs, pause

    def learn(self, contexts: Any, actions: Any, rewards: Any, probabilities: Any) -> None:
        if self.counts.sum() == 4:
            with open(self.runs, "ab") as file:
                file.write(b".")
            time.sleep(self.pause)
        super().learn(contexts, actions, rewards, probabilities)


def count_runs(runs: Path) -> int:
    """Return how many runs a ``CountedLeader`` has started."""
    return runs.stat().st_size


class RewardProportional:
    """Take each of three actions with a probability proportional to the reward it has earned, which starts at 1."""

    def __init__(self) -> None:
        self.earned = np.ones(3)

    def probabilities(self, contexts: Any, available: Any = None) -> Any:
        return np.tile(self.earned / self.earned.sum(), (len(contexts), 1))

    def learn(self, contexts: Any, actions: Any, rewards: Any, probabilities: Any) -> None:
        np.add.at(self.earned, actions, rewards)


class TablePolicy:
    """A policy given by a table of probabilities, one row per context."""

    def __init__(self, table: Any) -> None:
        self.table = np.asarray(table, dtype=float)

    def probabilities(self, contexts: Any, available: Any = None) -> Any:
        chosen: Any = np.asarray(contexts @ self.table)
        return chosen


class RewardCounts:
    """Take actions in proportion to their rewards plus one, and record the sizes and probabilities of the batches."""

    def __init__(self, n_actions: int, batch_size: int = 1) -> None:
        self.earned = np.ones(n_actions)
        self.batch_size = batch_size
        self.batches: list[int] = []
        self.learned_probabilities: list[float] = []

    def probabilities(self, contexts: Any, available: Any = None) -> Any:
        share: Any = self.earned / self.earned.sum()
        return np.tile(share, (contexts.shape[0], 1))

    def learn(self, contexts: Any, actions: Any, rewards: Any, probabilities: Any) -> None:
        np.add.at(self.earned, actions, rewards)
        self.batches.append(actions.size)
        self.learned_probabilities += probabilities.tolist()


class AnsweringPolicy:
    """A learning policy that returns a given answer, or calls it with the contexts."""

    def __init__(self, answer: Any, batch_size: Any = 1) -> None:
        self.answer, self.batch_size = answer, batch_size

    def probabilities(self, contexts: Any, available: Any = None) -> Any:
        return self.answer(contexts) if callable(self.answer) else self.answer

    def learn(self, contexts: Any, actions: Any, rewards: Any, probabilities: Any) -> None:
        pass


def uniform(contexts: Any) -> Any:
    """Return equal probabilities of three actions."""
    return np.full((contexts.shape[0], 3), 1 / 3)


def fixed_scores(contexts: Any) -> Any:
    """Fixed scores of three actions, from contexts of any layout."""
    if contexts.ndim == 3:
        return contexts @ np.array([1.0, -1.0])
    return contexts @ np.array([[1.0, 0.5, -1.0], [-0.5, 1.0, 0.0]])


class Counting:
    """A policy of a user, in NumPy: it leans towards the actions that paid."""

    def __init__(self, batch_size: int) -> None:
        self.batch_size = batch_size

    def start(self, n_actions: int, n_features: int, rng: np.random.Generator) -> None:
        self.paid = np.ones(n_actions)

    def probabilities(self, contexts: Any, available: Any = None) -> Any:
        mask = np.ones((contexts.shape[0], self.paid.size)) if available is None else available
        return mask * self.paid / (mask * self.paid).sum(axis=1, keepdims=True)

    def learn(self, contexts: Any, actions: Any, rewards: Any, probabilities: Any) -> None:
        np.add.at(self.paid, actions, rewards / probabilities)


class Favourite(NamedTuple):
    """State of a user's compiled policy: the summed rewards of each action, and directions of the features."""

    paid: Any
    directions: Any


def favourite_score(state: Any, view: Any, k: Any, available: Any, out: Any) -> None:
    out[:] = 0.0
    add_scores(view, k, state.directions, out)
    for a in range(out.size):
        is_open = available.size == 0 or available[k, a]
        out[a] = np.exp(out[a]) + state.paid[a] if is_open else 0.0
    out /= out.sum()


def favourite_learn(state: Any, view: Any, k: Any, action: Any, reward: Any, probability: Any) -> None:
    state.paid[action] += reward / probability


def make_favourite(batch_size: int) -> bc.Compiled:
    """Return a policy that prefers the actions that paid, compiled by the user."""

    def initial(n_actions: int, n_features: int) -> Favourite:
        return Favourite(np.ones(n_actions), np.ones((n_features, n_actions)))

    return bc.Compiled(initial, favourite_score, favourite_learn, batch_size=batch_size)
