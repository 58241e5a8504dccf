"""Policies as users write them in plain Python, shared by tests."""

from __future__ import annotations

from typing import Any

import numpy as np


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


class RewardProportional:
    """Take each of three actions with a probability proportional to the reward it has earned, which starts at 1."""

    def __init__(self) -> None:
        self.earned = np.ones(3)

    def probabilities(self, contexts: Any, available: Any = None) -> Any:
        return np.tile(self.earned / self.earned.sum(), (len(contexts), 1))

    def learn(self, contexts: Any, actions: Any, rewards: Any, probabilities: Any) -> None:
        np.add.at(self.earned, actions, rewards)
