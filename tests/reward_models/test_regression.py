"""Regressions of rewards, one per action and joint."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeRegressor

from backcast.errors import OptionError
from backcast.log import Log, replace_columns
from backcast.reward_models import (
    Constant,
    CrossFit,
    Fitted,
    Joint,
    LowVariance,
    PerAction,
    Progressive,
    RewardModel,
    Split,
)
from backcast.reward_models.regression import scale_to_mean_one
from tests.support.logs import small_log


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


# One estimator per action


def test_per_action_is_a_ridge_on_the_actions_own_events() -> None:
    log = small_log(rewards=rng(1).standard_normal(60), reward_range=(-9.0, 9.0))
    predicted = PerAction().fit(log).predict(log.contexts)
    for action in range(3):
        rows = log.actions == action
        expected = Ridge(alpha=1.0).fit(log.contexts[rows], log.rewards[rows]).predict(log.contexts)
        assert np.allclose(predicted[:, action], expected)


@pytest.mark.parametrize(("weights", "power"), [("inverse", 1), ("inverse_square", 2)])
def test_weights_are_scaled_to_mean_one_within_the_action(weights: Any, power: int) -> None:
    log = small_log(rewards=rng(1).standard_normal(60), reward_range=(-9.0, 9.0))
    predicted = PerAction(weights=weights).fit(log).predict(log.contexts)
    rows = log.actions == 1
    weight = scale_to_mean_one(log.propensities[rows] ** -power)
    expected = Ridge(alpha=1.0).fit(log.contexts[rows], log.rewards[rows], sample_weight=weight).predict(log.contexts)
    assert np.allclose(predicted[:, 1], expected)


def test_a_function_may_give_the_weights() -> None:
    log = small_log()
    by_name = PerAction(weights="inverse").fit(log).predict(log.contexts)
    by_function = PerAction(weights=lambda part: 1 / part.propensities).fit(log).predict(log.contexts)
    assert np.allclose(by_name, by_function)


def test_tiny_propensities_do_not_overflow_the_weights() -> None:
    log = replace_columns(small_log(), propensities=np.geomspace(1e-200, 1.0, 60))
    assert np.isfinite(PerAction(weights="inverse_square").fit(log).predict(log.contexts)).all()


def test_weights_of_a_pipeline_reach_its_last_step() -> None:
    log = small_log(rewards=rng(1).standard_normal(60), reward_range=(-9.0, 9.0))
    bare = PerAction(LinearRegression(), weights="inverse").fit(log).predict(log.contexts)
    scaled = make_pipeline(StandardScaler(), LinearRegression())
    assert np.allclose(PerAction(scaled, weights="inverse").fit(log).predict(log.contexts), bare)


def test_a_classifier_is_read_as_an_expectation() -> None:
    rewards = rng(3).choice([-1.0, 0.25, 2.0], size=60)
    log = small_log(rewards=rewards)
    predicted = PerAction(LogisticRegression()).fit(log).predict(log.contexts)
    rows = log.actions == 2
    codes = np.searchsorted([-1.0, 0.25, 2.0], rewards[rows])
    chances = LogisticRegression().fit(log.contexts[rows], codes).predict_proba(log.contexts)
    assert np.allclose(predicted[:, 2], chances @ [-1.0, 0.25, 2.0])


def test_an_action_never_taken_gets_the_mean_reward() -> None:
    log = small_log(n_actions=4, actions=rng(1).integers(3, size=60))
    assert np.allclose(PerAction().fit(log).predict(log.contexts)[:, 3], log.rewards.mean())


def test_one_class_gets_that_reward() -> None:
    actions = np.repeat([0, 1], 30)
    log = small_log(n_actions=2, actions=actions, rewards=np.where(actions == 0, 1.0, rng(2).integers(0, 2, 60)))
    predicted = PerAction(LogisticRegression()).fit(log).predict(log.contexts)
    assert np.array_equal(predicted[:, 0], np.ones(60))


def test_a_class_too_small_for_the_classifier_gets_the_mean() -> None:
    from sklearn.calibration import CalibratedClassifierCV

    rewards = np.zeros(60)
    rewards[0] = 1.0
    log = small_log(n_actions=1, actions=np.zeros(60, dtype=int), rewards=rewards)
    predicted = PerAction(CalibratedClassifierCV(LogisticRegression(), cv=5)).fit(log).predict(log.contexts)
    assert np.allclose(predicted, 1 / 60)


def test_a_classifiers_own_errors_come_through_when_there_is_enough_data() -> None:
    log = small_log(n_actions=1, actions=np.zeros(60, dtype=int), rewards=np.tile([0.0, 1.0], 30))
    with pytest.raises(ValueError, match="C"):
        PerAction(LogisticRegression(C=-1.0)).fit(log)


def test_contexts_without_features_give_each_actions_mean() -> None:
    log = Log(contexts=None, actions=[0, 0, 1, 1], rewards=[0.0, 1.0, 1.0, 2.0], propensities=[0.25, 0.5, 0.5, 0.5])
    assert np.allclose(PerAction().fit(log).predict(log.contexts), [[0.5, 1.5]] * 4)
    # By hand: the first event weighs twice the second.
    assert np.allclose(PerAction(weights="inverse").fit(log).predict(log.contexts)[0], [1 / 3, 1.5])
    assert np.allclose(LowVariance().fit(log).predict(log.contexts)[0, 1], 1.5)


def test_predictions_stay_in_the_declared_range() -> None:
    log = small_log(reward_range=(-2.0, 3.0))
    predicted = PerAction(LinearRegression()).fit(log).predict(100 * log.contexts)
    assert (predicted.min(), predicted.max()) == (-2.0, 3.0)


def test_each_action_is_fitted_on_its_features() -> None:
    contexts = rng(4).standard_normal((80, 2, 3))
    actions = rng(5).integers(2, size=80)
    rewards = contexts[np.arange(80), actions, 0] * np.where(actions == 0, 1.0, -1.0)
    log = Log(contexts, actions, rewards, np.full(80, 0.5), reward_range=(-9.0, 9.0))
    predicted = PerAction(LinearRegression()).fit(log).predict(log.contexts)
    assert np.allclose(predicted, contexts[:, :, 0] * [1.0, -1.0])
    # One line for both actions cannot have both slopes.
    joint = Joint(LinearRegression()).fit(log).predict(log.contexts)
    assert not np.allclose(joint, predicted, atol=0.5)


# One estimator for all


def test_joint_shares_one_line_over_action_features() -> None:
    contexts = rng(4).standard_normal((80, 3, 2))
    actions = rng(5).integers(3, size=80)
    rewards = contexts[np.arange(80), actions] @ [0.5, -0.25]
    log = Log(contexts, actions, rewards, np.full(80, 0.5), reward_range=(-9.0, 9.0))
    predicted = Joint(LinearRegression()).fit(log).predict(log.contexts)
    assert np.allclose(predicted, contexts @ [0.5, -0.25])


def test_joint_distinguishes_actions_by_an_indicator() -> None:
    log = small_log()
    tree = Joint(DecisionTreeRegressor(random_state=0)).fit(log).predict(log.contexts)
    assert np.allclose(tree[np.arange(60), log.actions], log.rewards)


# What is refused


class NoProba(LinearSVC):  # type: ignore[misc]
    """A classifier that gives no probabilities."""


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (PerAction(NoProba()), "without predict_proba"),
        (PerAction(KNeighborsRegressor(), weights="inverse"), "KNeighborsRegressor takes no sample weights"),
        (PerAction(weights=lambda log: np.ones(3)), r"weights returned shape \(3,\) for a log of 60"),
        (PerAction(weights=lambda log: np.full(60, -1.0)), "row 0: weights returned -1.0"),
    ],
)
def test_unusable_estimators_and_weights_are_refused(model: PerAction, message: str) -> None:
    log = small_log(actions=np.repeat([0, 1, 2], 20), rewards=np.tile([0.0, 1.0], 30))
    with pytest.raises(OptionError, match=message):
        model.fit(log)


def test_a_classifier_of_a_quantity_is_refused() -> None:
    with pytest.raises(OptionError, match="use a regressor"):
        Joint(LogisticRegression()).fit(small_log(n=200, rewards=rng(1).standard_normal(200)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PerAction(weights="squared"), "weights is 'squared'"),  # type: ignore[arg-type]
        (lambda: CrossFit(Constant(), folds=1), "folds is 1"),
        (lambda: Split(Constant(), fraction=1.0), "fraction is 1.0"),
        (lambda: Progressive(Constant(), first=0), "first is 0"),
        (lambda: Progressive(Constant(), growth=1.0), "growth is 1.0"),
        (lambda: LowVariance(folds=1), "folds is 1"),
        (lambda: LowVariance(alphas=(0.0,)), "alphas are"),
        (lambda: LowVariance(weights=("inverse", "cube")), "choose from"),
    ],
)
def test_options_that_make_no_sense_are_refused(make: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        make()


@pytest.mark.parametrize("model", [Constant(), PerAction(), Joint(), LowVariance()])
def test_a_model_must_be_fitted_before_it_predicts(model: RewardModel) -> None:
    with pytest.raises(OptionError, match="has not been fitted"):
        Fitted(model).predictions(small_log(), rng())


def test_reward_models_load_without_scikit_learn() -> None:
    code = "import sys, backcast.reward_models; print([m for m in ('sklearn', 'scipy', 'numba') if m in sys.modules])"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "[]"
