"""Fresh rewards of filled rounds: what their models have not seen, and which model they come from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

import backcast as bc
from backcast.environments import LinearEnvironment
from backcast.evaluators._fresh_rewards import FOLDS, FreshRewards, model_of_fresh_rewards
from backcast.log import replace_columns
from backcast.reward_models import Fitted, PerAction

LOG = LinearEnvironment(3, 2, seed=1).log(60, np.random.default_rng(0))


def fresh(log: bc.Log) -> FreshRewards:
    return FreshRewards.from_model(log, PerAction(), np.random.default_rng(5))


def test_means_depend_neither_on_the_own_reward_nor_on_held_out_ones() -> None:
    reference = fresh(LOG)
    for held_out in range(FOLDS):
        is_held_out, means = reference.hold_out(FOLDS + held_out)
        np.testing.assert_array_equal(is_held_out, reference.fold == held_out)
        changed = np.where(is_held_out, LOG.rewards + 10, LOG.rewards)
        changed_means = fresh(replace_columns(LOG, rewards=changed, reward_range=None)).hold_out(held_out)[1]
        np.testing.assert_allclose(changed_means, means, atol=1e-12)
    for event in (0, 17):
        rewards = LOG.rewards.copy()
        rewards[event] += 10
        again = fresh(replace_columns(LOG, rewards=rewards, reward_range=None))
        np.testing.assert_allclose(again.means[:, event], reference.means[:, event], atol=1e-12)
        assert np.abs(again.means - reference.means).max() > 0.1  # other events are predicted from it
        assert again.own_means()[event] == pytest.approx(reference.means[reference.fold[event], event])


def test_rows_keep_their_folds_and_means() -> None:
    rows = np.array([3, 40, 41])
    part, whole = fresh(LOG).of_rows(rows), fresh(LOG)
    np.testing.assert_array_equal(part.own_means(), whole.own_means()[rows])
    np.testing.assert_array_equal(part.hold_out(2)[1], whole.hold_out(2)[1][rows])


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, PerAction()),
        (0.5, PerAction()),
        (bc.LowVariance(), PerAction()),
        (bc.CrossFit(bc.LowVariance()), PerAction()),
        (bc.CrossFit(bc.Constant()), bc.Constant()),
        (LinearRegression(), PerAction(LinearRegression())),
        (Fitted(PerAction().fit(LOG)), None),
        (np.zeros((60, 3)), None),
    ],
    ids=["none", "number", "low variance", "cross-fitted", "other", "estimator", "fitted elsewhere", "table"],
)
def test_the_model_is_the_given_one_unless_it_shrinks_or_is_fitted_elsewhere(given: Any, expected: Any) -> None:
    assert repr(model_of_fresh_rewards(given, LOG)) == repr(expected)
