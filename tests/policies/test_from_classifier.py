"""FromClassifier: models side by side predict as each alone, and a warm start ends at the optimum of a cold one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression, SGDClassifier, SGDRegressor

import backcast as bc
from backcast.policies.classifier import _predict

RNG = np.random.default_rng(3)
CONTEXTS = RNG.normal(size=(400, 4))
ACTIONS = RNG.integers(2, size=400)
REWARDS = (RNG.random(400) < 1 / (1 + np.exp(-2 * CONTEXTS[:, 0] * (1 - 2 * ACTIONS)))).astype(float)


def train(estimator: Any, batches: int) -> bc.FromClassifier:
    policy = bc.FromClassifier(estimator, batch_size=50)
    policy.start(2, 4, np.random.default_rng(0))
    for part in np.split(np.arange(400), batches):
        policy.learn(CONTEXTS[part], ACTIONS[part], REWARDS[part], np.full(part.size, 0.5))
    return policy


@pytest.mark.parametrize(
    "estimator",
    [
        LogisticRegression(),
        LinearRegression(),
        SGDClassifier(loss="log_loss", random_state=0),
        SGDRegressor(random_state=0),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_linear_models_side_by_side_predict_as_each_alone(estimator: Any) -> None:
    policy = train(estimator, 4)
    policy.probabilities(CONTEXTS)
    assert policy._stacked is not None
    np.testing.assert_allclose(policy._stacked.predict(CONTEXTS), _predict(policy._models, CONTEXTS), atol=1e-12)


def test_a_loss_without_a_logistic_link_is_predicted_model_by_model() -> None:
    policy = train(SGDClassifier(loss="modified_huber", random_state=0), 4)
    policy.probabilities(CONTEXTS)
    assert policy._stacked is None


@pytest.mark.parametrize("solver", ["lbfgs", "newton-cholesky"])
def test_a_warm_start_ends_at_the_optimum(solver: str) -> None:
    estimator = LogisticRegression(solver=solver, tol=1e-8)
    warm, cold = train(estimator, 8), train(estimator, 1)
    for one, other in zip(warm._models, cold._models, strict=True):
        np.testing.assert_allclose(one.coef_, other.coef_, atol=1e-6)
        assert one.n_iter_[0] < other.n_iter_[0]
    assert not estimator.warm_start  # the caller's estimator is not changed


def test_a_new_class_of_rewards_starts_anew() -> None:
    policy = train(LogisticRegression(), 4)
    policy.learn(CONTEXTS[:2], np.zeros(2, dtype=int), np.array([2.0, 2.0]), np.full(2, 0.5))
    assert policy._models[0].classes_.tolist() == [0.0, 1.0, 2.0]
