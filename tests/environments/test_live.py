"""Live runs of policies in environments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from backcast.environments import coin_flips, run_live
from backcast.errors import OptionError
from tests.support.policies import RewardCounts, TablePolicy
from tests.support.statistics import assert_close
from tests.support.tabular import TabularWorld


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


# Live


@pytest.mark.parametrize("batch_size", [1, 2])
def test_live_runs_earn_the_enumerated_value(batch_size: int) -> None:
    world = TabularWorld([0.5, 0.5], mean_rewards=[[0.5, 0.25, 1.0], [0.125, 0.75, 0.0]])
    policy = RewardCounts(3, batch_size)
    earned = run_live(np.eye(2), world.mean_rewards, policy, horizon=4, runs=4000, rng=rng(9), draw=coin_flips)
    assert earned.shape == (4000,)
    assert_close(earned, world.learning_value(policy, 4))
    assert policy.batches == []


def test_a_policy_learns_whole_batches_with_its_probabilities() -> None:
    copies: list[RewardCounts] = []

    class Recorded(RewardCounts):
        def start(self, n_actions: int, n_features: int, rng: np.random.Generator) -> None:
            copies.append(self)

    run_live(np.zeros((3, 1)), np.tile([0.5, 0.0], (3, 1)), Recorded(2, batch_size=3), horizon=10, runs=2, rng=rng(1))
    assert [policy.batches for policy in copies] == [[3, 3, 3], [3, 3, 3]]
    assert copies[0].learned_probabilities[:3] == [0.5, 0.5, 0.5]


def test_rewards_are_those_of_the_table_without_draw() -> None:
    table = np.array([[0.25, 0.75]])
    earned = run_live(np.eye(1), table, TablePolicy([[0.0, 1.0]]), horizon=5, runs=3, rng=rng(1))
    assert np.array_equal(earned, [0.75] * 3)


def test_live_runs_depend_only_on_their_seed() -> None:
    arguments: dict[str, Any] = {"horizon": 20, "runs": 3}
    table = rng(1).random((30, 3))
    first, second, third = (
        run_live(np.zeros((30, 1)), table, RewardCounts(3), rng=rng(seed), **arguments) for seed in (5, 5, 6)
    )
    assert np.array_equal(first, second)
    assert not np.array_equal(first, third)
    assert np.unique(first).size == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reward_table": np.zeros(3)}, r"reward_table has shape \(3,\)"),
        ({"reward_table": np.zeros((2, 3))}, r"expected \(3, K\)"),
        ({"horizon": 0}, "horizon is 0"),
        ({"runs": 0}, "runs is 0"),
    ],
)
def test_run_live_rejects_invalid_options(options: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"reward_table": np.zeros((3, 3)), "horizon": 1, "runs": 1, **options}
    with pytest.raises(OptionError, match=message):
        run_live(np.zeros((3, 1)), policy=RewardCounts(3), rng=rng(1), **arguments)
