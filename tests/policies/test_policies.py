"""What each built-in policy does, against the plainest way of computing it."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import special
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB

import backcast as bc
from backcast.policies._choice import argmax_probabilities, epsilon_greedy, softmax

NO_MASK = np.ones((0, 0), dtype=np.bool_)


def started(policy: Any, n_actions: int = 3, n_features: int = 4) -> Any:
    policy_copy = copy.deepcopy(policy)
    policy_copy.start(n_actions, n_features, np.random.default_rng(0))
    return policy_copy


class TrainingBatch(NamedTuple):
    contexts: Any
    actions: Any
    rewards: Any
    probabilities: Any


def make_batch(n: int = 40, n_actions: int = 3, n_features: int = 4, per_action: bool = False) -> TrainingBatch:
    rng = np.random.default_rng(1)
    contexts = rng.normal(size=(n, n_actions, n_features) if per_action else (n, n_features))
    return TrainingBatch(contexts, rng.integers(n_actions, size=n), rng.random(n), np.full(n, 0.5))


class PlainRidge:
    """Ridge regressions solved outright: one per action, or one for all when actions have features."""

    def __init__(self, taught: TrainingBatch, ridge: float, n_actions: int = 3) -> None:
        x, a, r, _ = taught
        self.per_action = x.ndim == 3
        rows = x[np.arange(len(a)), a] if self.per_action else x
        groups = [np.ones(len(a), bool)] if self.per_action else [a == action for action in range(n_actions)]
        self.n_actions = n_actions
        self.grams = [ridge * np.eye(rows.shape[1]) + rows[g].T @ rows[g] for g in groups]
        self.thetas = [np.linalg.solve(gram, rows[g].T @ r[g]) for gram, g in zip(self.grams, groups, strict=True)]

    def mean_and_deviation(self, contexts: Any) -> tuple[Any, Any]:
        mean, deviation = np.empty((2, len(contexts), self.n_actions))
        for a in range(self.n_actions):
            model = 0 if self.per_action else a
            x = contexts[:, a] if self.per_action else contexts
            mean[:, a] = x @ self.thetas[model]
            deviation[:, a] = np.sqrt(np.einsum("ij,ij->i", x, np.linalg.solve(self.grams[model], x.T).T))
        return mean, deviation


def greedy(scores: Any, epsilon: float = 0.0) -> Any:
    best = scores == scores.max(axis=1, keepdims=True)
    return (1 - epsilon) * best / best.sum(axis=1, keepdims=True) + epsilon / scores.shape[1]


@pytest.mark.parametrize("per_action", [False, True])
@pytest.mark.parametrize("ridge", [0.5, 2.0])
def test_linear_learners_are_ridge_regressions(ridge: float, per_action: bool) -> None:
    batch = make_batch(per_action=per_action)
    contexts = make_batch(25, per_action=per_action).contexts[:, ..., ::-1].copy()
    mean, deviation = PlainRidge(batch, ridge).mean_and_deviation(contexts)
    expected = {
        bc.EpsilonGreedy(0.25, ridge=ridge): greedy(mean, 0.25),
        bc.LinUCB(0.75, ridge=ridge): greedy(mean + 0.75 * deviation),
        bc.Softmax(0.5, ridge=ridge): np.exp(mean / 0.5) / np.exp(mean / 0.5).sum(axis=1, keepdims=True),
        bc.LinearThompson(0.5, ridge=ridge): np.array(
            [plain_race(*row) for row in zip(mean, 0.5 * deviation, strict=True)]
        ),
    }
    for policy, probabilities in expected.items():
        policy = started(policy)
        policy.learn(*batch)
        # Thompson's probabilities are integrals, documented to 1e-6; the others are exact up to rounding
        tolerance = 1e-6 if isinstance(policy, bc.LinearThompson) else 1e-7
        np.testing.assert_allclose(policy.probabilities(contexts), probabilities, atol=tolerance, err_msg=repr(policy))


def plain_race(means: Any, spreads: Any) -> Any:
    """Probability that each Gaussian draw is the largest, by the trapezoidal rule on a fine grid."""
    grid = np.linspace((means - 9 * spreads).min(), (means + 9 * spreads).max(), 100_001)[:, None]
    z = (grid - means) / spreads
    density, below = np.exp(-(z**2) / 2) / (spreads * np.sqrt(2 * np.pi)), special.ndtr(z)
    others = [np.prod(np.delete(below, a, axis=1), axis=1) for a in range(len(means))]
    return (density * np.column_stack(others)).sum(axis=0) * (grid[1] - grid[0])


def test_thompson_without_doubt_is_greedy() -> None:
    policy = started(bc.LinearThompson(0.0))
    policy.learn(*make_batch())
    assert set(np.unique(policy.probabilities(make_batch().contexts))) == {0.0, 1.0}


def test_ucb1_by_hand() -> None:
    policy = started(bc.UCB1(exploration=2.0), 2, 0)
    empty = np.zeros((1, 0))
    assert policy.probabilities(empty).tolist() == [[0.5, 0.5]]
    policy.learn(np.zeros((3, 0)), np.array([0, 1, 1]), np.array([0.9, 0.5, 0.7]), np.ones(3))
    bonus = 2 * np.sqrt(2 * np.log(3))
    assert 0.9 + bonus > 0.6 + bonus / np.sqrt(2)
    assert policy.probabilities(empty).tolist() == [[1.0, 0.0]]
    policy = started(bc.UCB1(exploration=0.0), 2, 0)
    policy.learn(np.zeros((3, 0)), np.array([0, 1, 1]), np.array([0.55, 0.5, 0.7]), np.ones(3))
    assert policy.probabilities(empty).tolist() == [[0.0, 1.0]]


def test_round_robin_skips_what_is_not_available() -> None:
    policy = started(bc.RoundRobin(), 3, 0)
    mask = np.array([[False, True, True], [False, False, True], [True, True, True]])
    assert policy.probabilities(np.zeros((3, 0)), mask).argmax(axis=1).tolist() == [1, 2, 0]
    policy.learn(np.zeros((4, 0)), np.zeros(4, dtype=np.int64), np.zeros(4), np.ones(4))
    assert policy.probabilities(np.zeros((1, 0))).tolist() == [[0.0, 1.0, 0.0]]


def test_ties_share() -> None:
    scores = np.array([1.0, 3.0, 3.0, 3.0])
    argmax_probabilities(scores, np.array([[True, True, False, True]]), 0)
    assert scores.tolist() == [0.0, 0.5, 0.0, 0.5]
    epsilon_greedy(scores, 0.5, NO_MASK, 0)
    assert scores.tolist() == [0.125, 0.375, 0.125, 0.375]


def test_softmax_survives_large_scores() -> None:
    scores = np.array([1000.0, 1000.0, -1000.0])
    softmax(scores, 0.01, NO_MASK, 0)
    assert scores.tolist() == [0.5, 0.5, 0.0]


def test_scores_come_from_a_function_or_a_fitted_classifier() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2))
    model = GaussianNB().fit(x, rng.integers(3, size=60))
    policy = bc.FromScores(model, epsilon=0.25)
    np.testing.assert_allclose(policy.probabilities(x), greedy(model.predict_proba(x), 0.25))
    assert repr(policy) == "FromScores(GaussianNB, epsilon=0.25)"
    assert repr(bc.FromScores(np.negative)) == "FromScores(negative, epsilon=0)"


def test_fixed_shares_out_what_unavailable_actions_leave() -> None:
    mask = np.array([[True, True, False], [False, False, True]])
    probabilities = bc.Fixed([0.25, 0.75, 0.0]).probabilities(np.zeros((2, 1)), mask)
    assert probabilities.tolist() == [[0.25, 0.75, 0.0], [0.0, 0.0, 1.0]]


def test_from_classifier_fits_one_model_an_action_on_its_own_events() -> None:
    batch, contexts = make_batch(30), make_batch(12).contexts[:, ::-1]
    policy = started(bc.FromClassifier(LinearRegression(), epsilon=0.25, batch_size=15))
    for part in (slice(0, 15), slice(15, 30)):
        policy.learn(*(column[part] for column in batch))
    x, a, r, _ = batch
    predicted = np.column_stack([LinearRegression().fit(x[a == k], r[a == k]).predict(contexts) for k in range(3)])
    np.testing.assert_allclose(policy.probabilities(contexts), greedy(predicted, 0.25), atol=1e-12)
    loss = started(bc.FromClassifier(LinearRegression(), epsilon=0.25, minimize=True))
    loss.learn(*batch)
    np.testing.assert_allclose(loss.probabilities(contexts), greedy(-predicted, 0.25), atol=1e-12)


def test_from_classifier_predicts_expected_rewards() -> None:
    x, a, _, p = make_batch(60, 2)
    rewards = (x[:, 0] > 0) * 2.0
    policy = started(bc.FromClassifier(LogisticRegression()), 2)
    policy.learn(x, a, rewards, p)
    models = [LogisticRegression().fit(x[a == k], rewards[a == k]) for k in range(2)]
    expected = np.column_stack([2.0 * model.predict_proba(x)[:, 1] for model in models])
    np.testing.assert_allclose(policy.probabilities(x), greedy(expected, 0.1), atol=1e-12)


def test_from_classifier_answers_for_actions_with_one_class_or_none() -> None:
    policy = started(bc.FromClassifier(LogisticRegression(), epsilon=0.0), 3, 1)
    x = np.array([[0.0], [1.0]])
    assert policy.probabilities(x).tolist() == [[1 / 3] * 3] * 2
    policy.learn(x, np.array([1, 1]), np.ones(2), np.ones(2))
    assert policy.probabilities(x).tolist() == [[0.0, 1.0, 0.0]] * 2


def test_from_classifier_begins_with_what_is_known_in_full() -> None:
    rng = np.random.default_rng(0)
    x, rewards = rng.normal(size=(20, 4)), rng.random((20, 3))
    policy = started(bc.FromClassifier(LinearRegression(), epsilon=0.0, initial=(x, rewards)))
    expected = np.column_stack([LinearRegression().fit(x, rewards[:, k]).predict(x) for k in range(3)])
    np.testing.assert_allclose(policy.probabilities(x), greedy(expected), atol=1e-12)


class Wheel(NamedTuple):
    turns: Any


def wheel_score(state: Any, view: Any, k: Any, available: Any, out: Any) -> None:
    out[:] = 0.0
    out[state.turns[0] % out.size] = 1.0


def wheel_learn(state: Any, view: Any, k: Any, action: Any, reward: Any, probability: Any) -> None:
    state.turns[0] += 1


def test_a_compiled_policy_of_a_user_runs_as_the_built_in_one(make_log: Any) -> None:
    log = make_log("dense", 200)
    compiled = bc.Compiled(lambda n_actions, n_features: Wheel(np.zeros(1, dtype=np.int64)), wheel_score, wheel_learn)
    first, second = (bc.trace(log, policy, bc.DRns(q=0.1)) for policy in (compiled, bc.RoundRobin()))
    np.testing.assert_array_equal(first.accepted, second.accepted)
    np.testing.assert_array_equal(first.value, second.value)


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        (bc.EpsilonGreedy(0.25), "EpsilonGreedy(epsilon=0.25, ridge=1, batch_size=1)"),
        (bc.Softmax(0.5, batch_size=3), "Softmax(temperature=0.5, ridge=1, batch_size=3)"),
        (bc.LinUCB(), "LinUCB(alpha=0.3, ridge=1, batch_size=1)"),
        (bc.LinearThompson(), "LinearThompson(scale=0.3, ridge=1, batch_size=1)"),
        (bc.UCB1(), "UCB1(exploration=1, batch_size=1)"),
        (bc.RoundRobin(), "RoundRobin(batch_size=1)"),
        (bc.Uniform(), "Uniform()"),
        (bc.Fixed([0.25, 0.75]), "Fixed([0.25, 0.75])"),
        (bc.Fixed(greedy), "Fixed(greedy)"),
        (bc.Logged(), "Logged()"),
        (bc.Logged(greedy), "Logged(greedy)"),
        (bc.FromClassifier(LinearRegression()), "FromClassifier(LinearRegression(), epsilon=0.1, batch_size=15)"),
    ],
)
def test_policies_say_what_they_are(policy: Any, text: str) -> None:
    assert repr(policy) == text
