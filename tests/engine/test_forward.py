"""Forward runs of policies on drawn rewards."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import backcast as bc
from backcast._engine.forward import run_forward
from backcast._engine.reward_law import RewardLaw, draw_reward


def test_rewards_are_drawn_by_their_law() -> None:
    two_point = RewardLaw(0.0, 2.0, np.zeros(0))
    assert draw_reward(two_point, 0.5, 0.24) == 2.0
    assert draw_reward(two_point, 0.5, 0.25) == 0.0
    residual = RewardLaw(0.0, 2.0, np.array([-0.5, 0.5]))
    assert draw_reward(residual, 1.0, 0.49) == 0.5
    assert draw_reward(residual, 1.0, 0.5) == 1.5


class PlainUCB:
    """UCB1 in NumPy, to be run in blocks."""

    def __init__(self, batch_size: int) -> None:
        self.batch_size = batch_size

    def start(self, n_actions: int, n_features: int, rng: np.random.Generator) -> None:
        self.plays, self.sums = np.zeros(n_actions), np.zeros(n_actions)

    def probabilities(self, contexts: Any, available: Any = None) -> Any:
        bonus = np.sqrt(2 * np.log(max(self.plays.sum(), 1.0)))
        known = np.maximum(self.plays, 1)
        index = np.where(self.plays == 0, np.inf, self.sums / known + bonus / np.sqrt(known))
        best = (index == index.max()) / (index == index.max()).sum()
        return np.tile(best, (contexts.shape[0], 1))

    def learn(self, contexts: Any, actions: Any, rewards: Any, probabilities: Any) -> None:
        np.add.at(self.plays, actions, 1)
        np.add.at(self.sums, actions, rewards)


@pytest.mark.parametrize("batch_size", [1, 3])
def test_forward_runs_agree_in_compiled_code_and_in_blocks(batch_size: int) -> None:
    log = bc.Log(np.zeros((50, 1)), actions=[0] * 50, rewards=[0, 1] * 25, propensities=[0.5] * 50, n_actions=3)
    means = np.tile([0.25, 0.5, 0.75], (50, 1))
    law = RewardLaw(0.0, 1.0, np.zeros(0))
    policies = bc.UCB1(batch_size=batch_size), PlainUCB(batch_size)
    first, two = (run_forward(policy, log, means, law, np.random.default_rng(0)) for policy in policies)
    np.testing.assert_array_equal(first, two)
    assert set(np.unique(first)) > {0.25, 0.5}
