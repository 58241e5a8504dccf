"""Fresh rewards of filled rounds: what their models have not seen, and which model they come from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression

import backcast as bc
from backcast.environments import LinearEnvironment
from backcast.evaluators import _fresh_rewards
from backcast.evaluators._fresh_rewards import FOLDS, FreshRewards, choose_fresh_rewards, list_candidates
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
        (None, []),
        (0.5, []),
        (bc.LowVariance(), []),
        (bc.CrossFit(bc.LowVariance()), []),
        (PerAction(), []),
        (bc.CrossFit(bc.Constant()), [bc.Constant()]),
        (LinearRegression(), [PerAction(LinearRegression())]),
        (Fitted(bc.Constant().fit(LOG)), []),
        (np.zeros((60, 3)), []),
    ],
    ids=[
        "none",
        "number",
        "low variance",
        "cross-fitted",
        "default",
        "other",
        "estimator",
        "fitted elsewhere",
        "table",
    ],
)
def test_candidates_can_be_fitted_and_do_not_shrink(given: Any, expected: list[Any]) -> None:
    default = [PerAction(weights=weights) for weights in (None, "inverse", "inverse_square")]
    various = replace_columns(LOG, propensities=np.linspace(0.2, 0.4, 60))
    assert repr(list_candidates(given, various)) == repr([*expected, *default])
    # equal propensities leave nothing to weight
    assert repr(list_candidates(given, LOG)) == repr([*expected, default[0]])


def make_bent_log(*, is_bent: bool, n: int = 2000) -> bc.Log:
    """Return a log that rarely has the action where the context is positive; there a line may not go on."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, n)
    share = np.where(x > 0, 0.05, 0.95)
    actions = (rng.random(n) >= share).astype(int)
    mean = np.where(x > 0, 0.9, 0.1) if is_bent else np.full(n, 0.5)
    rewards = (rng.random(n) < np.where(actions == 0, mean, 0.5)).astype(float)
    propensities = np.where(actions == 0, share, 1 - share)
    return bc.Log(np.column_stack([x, np.maximum(-x - 0.5, 0)]), actions, rewards, propensities, reward_range=(0, 1))


def test_a_model_that_is_wrong_is_fitted_where_the_logger_rarely_acts() -> None:
    chosen = choose_fresh_rewards(None, make_bent_log(is_bent=True), np.random.default_rng(0)).model
    assert chosen == PerAction(weights="inverse_square")
    # weights only add noise to a model that is right
    assert choose_fresh_rewards(None, make_bent_log(is_bent=False), np.random.default_rng(0)).model == PerAction()


def test_a_given_model_is_used_only_if_it_predicts_better() -> None:
    """Trees see the step at zero, which no line does; a constant sees nothing."""
    log = make_bent_log(is_bent=True)
    for given, is_better in ((HistGradientBoostingRegressor(max_iter=20), True), (bc.Constant(), False)):
        chosen = choose_fresh_rewards(given, log, np.random.default_rng(0)).model
        assert (repr(chosen) == repr(list_candidates(given, log)[0])) == is_better


def test_the_choice_on_a_sample_is_fitted_on_the_whole_log(monkeypatch: pytest.MonkeyPatch) -> None:
    log = make_bent_log(is_bent=True)
    monkeypatch.setattr(_fresh_rewards, "MOST_CHOICE_EVENTS", 500)
    chosen = choose_fresh_rewards(None, log, np.random.default_rng(0))
    assert (chosen.model, chosen.fold.size) == (PerAction(weights="inverse_square"), len(log))


def test_a_half_of_the_log_is_predicted_from_itself() -> None:
    half = np.arange(0, 60, 2)
    reference = fresh(LOG).of_rows(half).refit(LOG[half], number=7)
    rewards = LOG.rewards.copy()
    rewards[1::2] += 10
    changed = replace_columns(LOG, rewards=rewards, reward_range=None)
    again = fresh(changed).of_rows(half).refit(changed[half], number=7)
    is_held_out, means = again.hold_out(7)
    np.testing.assert_allclose(means, reference.hold_out(7)[1], atol=1e-12)
    np.testing.assert_array_equal(is_held_out, fresh(LOG).hold_out(7)[0][half])
    assert (means != 0).all()
