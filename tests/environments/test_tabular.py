"""The tabular environment of the tests: the values it reports are the mean rewards it pays."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from backcast.errors import OptionError, PolicyError
from tests.support.policies import RewardCounts, TablePolicy
from tests.support.statistics import assert_close, chi_square_is_small, inverse_propensity
from tests.support.tabular import TabularWorld


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def some_world() -> TabularWorld:
    return TabularWorld(
        [0.25, 0.75],
        mean_rewards=[[0.5, 0.25, 1.0], [0.125, 0.75, 0.0]],
        logging=[[0.5, 0.25, 0.25], [0.125, 0.125, 0.75]],
    )


# Tabular


def test_tabular_propensities_match_the_frequencies() -> None:
    world = some_world()
    log = world.log(40_000, rng(2))
    contexts = np.asarray(log.contexts).argmax(axis=1)
    counts = np.zeros((2, 3, 2))
    np.add.at(counts, (contexts, log.actions, log.rewards.astype(int)), 1)
    joint = world.context_probabilities[:, None] * world.logging
    expected = 40_000 * np.stack([joint * (1 - world.mean_rewards), joint * world.mean_rewards], axis=2)
    assert chi_square_is_small(counts.ravel(), expected.ravel())
    assert np.array_equal(log.propensities, world.logging[contexts, log.actions])
    assert log.reward_range == (0.0, 1.0)


def test_tabular_value_agrees_with_inverse_propensity_weighting() -> None:
    world = some_world()
    table = np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])
    log = world.log(40_000, rng(3))
    target = np.asarray(log.contexts @ table)
    assert_close(inverse_propensity(log, target), world.value(table))


def test_uniform_logging_is_the_default() -> None:
    world = TabularWorld([1.0], [[0.5, 0.5]])
    assert np.array_equal(world.logging, [[0.5, 0.5]])
    assert repr(world) == "TabularWorld(1 contexts, 2 actions)"


@pytest.mark.parametrize("horizon", [1, 2, 3])
@pytest.mark.parametrize("batch_size", [1, 2])
def test_the_law_of_histories_sums_to_one(horizon: int, batch_size: int) -> None:
    law = some_world().history_law(RewardCounts(3, batch_size), horizon)
    assert sum(law.values()) == pytest.approx(1, abs=1e-12)
    assert all(len(history) == horizon for history in law)
    assert min(law.values()) > 0


def test_a_fixed_policys_histories_follow_the_product_law() -> None:
    world = TabularWorld([0.25, 0.75], mean_rewards=[[0.5, 0.25], [0.125, 1.0]])
    table = np.array([[0.25, 0.75], [0.5, 0.5]])
    law_of_one_round = {
        (x, a, r): world.context_probabilities[x] * table[x, a] * abs(1 - r - world.mean_rewards[x, a])
        for x, a, r in product(range(2), range(2), range(2))
    }
    law = world.history_law(TablePolicy(table), 3)
    for history in product(law_of_one_round, repeat=3):
        expected = np.prod([law_of_one_round[event] for event in history])
        total = sum(chance for events, chance in law.items() if tuple(map(tuple, events)) == history)
        assert total == pytest.approx(float(expected), abs=1e-15)


def test_the_learning_value_is_the_mean_over_histories() -> None:
    world = some_world()
    for batch_size in (1, 2, 3):
        policy = RewardCounts(3, batch_size)
        law = world.history_law(policy, 3)
        by_histories = sum(chance * sum(event.reward for event in history) / 3 for history, chance in law.items())
        assert world.learning_value(policy, 3) == pytest.approx(by_histories, abs=1e-12)
        assert policy.batches == []


def test_learning_by_hand() -> None:
    # One context; action 0 always pays, action 1 never. Start even: (1, 1). After a win the odds are 2 to 1.
    world = TabularWorld([1.0], [[1.0, 0.0]])
    assert world.learning_value(RewardCounts(2), 2) == pytest.approx(
        (1 / 2 + (1 / 2) * (2 / 3) + (1 / 2) * (1 / 2)) / 2
    )
    # With batches of 2 nothing is learnt in time.
    assert world.learning_value(RewardCounts(2, batch_size=2), 2) == pytest.approx(1 / 2)
    law = world.history_law(RewardCounts(2), 2)
    assert law[(0, 0, 1), (0, 0, 1)] == pytest.approx(1 / 2 * 2 / 3)  # type: ignore[index]


def test_a_fixed_policys_learning_value_is_its_value() -> None:
    world = some_world()
    table = [[0.25, 0.25, 0.5], [0.5, 0.5, 0.0]]
    assert world.learning_value(TablePolicy(table), 4) == pytest.approx(world.value(table), abs=1e-12)


def test_start_gets_the_numbers_of_actions_and_features() -> None:
    class Started(TablePolicy):
        def __init__(self) -> None:
            super().__init__(np.zeros((0, 0)))

        def start(self, n_actions: int, n_features: int, rng: np.random.Generator) -> None:
            self.table = np.full((n_features, n_actions), 1 / n_actions)

    world = some_world()
    policy = Started()
    assert world.learning_value(policy, 1) == pytest.approx(world.value(np.full((2, 3), 1 / 3)))
    assert policy.table.size == 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TabularWorld([1.0], [[2.0]]), "mean_rewards is"),
        (lambda: TabularWorld([1.0], [0.5]), "mean_rewards is"),
        (lambda: TabularWorld([0.5, 0.5], [[0.5]]), r"context_probabilities has shape \(2,\); expected \(1,\)"),
        (lambda: TabularWorld([0.5], [[0.5]]), "must sum to 1"),
        (lambda: TabularWorld([1.0], [[0.5, 0.5]], [[0.5, 0.25]]), "logging is"),
        (lambda: some_world().value([[1.0, 0.0, 0.0]]), r"probabilities has shape \(1, 3\)"),
        (lambda: some_world().learning_value(RewardCounts(3), 0), "horizon is 0"),
        (lambda: some_world().history_law(RewardCounts(3), 0), "horizon is 0"),
    ],
)
def test_tabular_world_rejects_invalid_options(make: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        make()


def test_invalid_probabilities_are_reported() -> None:
    world = some_world()
    with pytest.raises(PolicyError, match=r"shape \(2, 2\); expected \(2, 3\)"):
        world.learning_value(RewardCounts(2), 1)
    with pytest.raises(PolicyError, match=r"row 1: TablePolicy.probabilities sum to 0\.5"):
        world.learning_value(TablePolicy([[1.0, 0.0, 0.0], [0.5, 0.0, 0.0]]), 1)
