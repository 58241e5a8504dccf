"""Linear environments: the values they report are the mean rewards they pay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backcast._arrays import BoolArray, Contexts, FloatArray
from backcast.environments import LinearEnvironment
from backcast.environments.live import draw_exploration_scores, paper_logging, sharp_logging
from backcast.errors import LogError, OptionError
from backcast.policies._calls import draw_actions
from tests.support.statistics import FAR, assert_close, chi_square_is_small, inverse_propensity


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


# Drawing actions


def test_actions_are_drawn_with_their_probabilities() -> None:
    law = np.array([0.0, 0.5, 0.125, 0.375, 0.0])
    drawn = draw_actions(np.tile(law, (20_000, 1)), rng(1).random(20_000))
    assert chi_square_is_small(np.bincount(drawn, minlength=5).astype(float), 20_000 * law)


@given(
    n_actions=st.integers(1, 8),
    seed=st.integers(0, 2**32 - 1),
    temperature=st.floats(0.01, 10.0),
)
@settings(max_examples=50, deadline=None)
def test_probabilities_of_loggers_are_positive_and_sum_to_one(n_actions: int, seed: int, temperature: float) -> None:
    scores = draw_exploration_scores(20, n_actions, rng(seed))
    assert ((scores >= 0.1) & (scores <= 1)).all()
    good = np.arange(n_actions) == rng(seed).integers(n_actions, size=20)[:, None]
    floor = 0.5 / n_actions
    paper, sharp = paper_logging(scores, good), sharp_logging(scores, temperature, floor)
    assert np.allclose(paper.sum(axis=1), 1)
    assert np.allclose(sharp.sum(axis=1), 1)
    assert (paper[good] >= 0.7).all()
    assert paper.min() >= 0.3 * 0.1 / n_actions
    assert sharp.min() >= floor


# Linear


class Greedy:
    """A softmax of fixed linear scores."""

    def __init__(self, n_features: int, n_actions: int) -> None:
        self.slopes = rng(9).standard_normal((n_features, n_actions))

    def probabilities(self, contexts: Contexts, available: BoolArray | None = None) -> FloatArray:
        odds = np.exp(np.asarray(contexts @ self.slopes))
        law: FloatArray = odds / odds.sum(axis=1, keepdims=True)
        return law


@pytest.mark.parametrize("logging", ["uniform", "paper", "sharp"])
@pytest.mark.parametrize("logistic", [False, True])
def test_linear_value_agrees_with_inverse_propensity_weighting(logging: Any, logistic: bool) -> None:
    world = LinearEnvironment(3, 4, logistic=logistic, curvature=0.25, spread=0.5, logging=logging)
    policy = Greedy(4, 3)
    log = world.log(30_000, rng(4))
    truth = world.value(policy, 100_000, rng(5))
    assert_close(inverse_propensity(log, policy.probabilities(log.contexts)), truth.value, truth.std_error)


@pytest.mark.parametrize("logging", ["uniform", "paper", "sharp"])
def test_linear_propensities_match_the_frequencies(logging: Any) -> None:
    log = LinearEnvironment(4, 3, logging=logging).log(20_000, rng(6))
    law = log.logging_probabilities
    assert law is not None
    # Events sorted by the chance of action 0 and cut in ten: the action's count in each part is known.
    hits = (log.actions == 0).astype(float)
    for part in np.array_split(np.argsort(law[:, 0]), 10):
        surplus = hits[part] - law[part, 0]
        error = (law[part, 0] * (1 - law[part, 0])).sum() ** 0.5
        assert abs(surplus.sum()) < FAR * error


def test_paper_logger_prefers_the_best_action_and_sharp_logger_explores_little() -> None:
    world = LinearEnvironment(4, 3, logging="paper")
    log = world.log(500, rng(7))
    law = log.logging_probabilities
    assert law is not None
    means = world.mean_rewards(np.asarray(log.contexts))
    assert np.array_equal(law.argmax(axis=1), means.argmax(axis=1))
    sharp = LinearEnvironment(4, 3, logging="sharp").log(500, rng(7)).logging_probabilities
    assert sharp is not None
    assert sharp.min() == pytest.approx(0.01, abs=1e-4)
    assert sharp.max(axis=1).mean() > 0.8


def test_rewards_are_around_their_means() -> None:
    linear = LinearEnvironment(1, 3, noise=0.5)
    log = linear.log(20_000, rng(8))
    residuals = log.rewards - linear.mean_rewards(np.asarray(log.contexts))[:, 0]
    assert_close(residuals, 0.0)
    assert_close(np.square(residuals), 0.25)
    coin = LinearEnvironment(1, 3, noise=1.0, logistic=True, signal=5.0)
    assert np.array_equal(coin.mean_rewards(rng(1).standard_normal((5, 3))), np.full((5, 1), 0.5))


def test_scores_are_linear_without_curvature() -> None:
    contexts = rng(1).standard_normal((50, 3))
    linear = LinearEnvironment(2, 3, seed=4)
    assert np.allclose(linear.mean_rewards(2 * contexts), 2 * linear.mean_rewards(contexts))
    curved = LinearEnvironment(2, 3, seed=4, curvature=0.5)
    assert not np.allclose(curved.mean_rewards(contexts), linear.mean_rewards(contexts), atol=0.1)
    # The quadratic part has mean 0: it changes what a linear model can fit, but not the mean.
    surplus = (curved.mean_rewards(rng(2).standard_normal((50_000, 3))))[:, 0]
    assert_close(surplus, 0.0)


def test_an_environment_depends_only_on_its_seed() -> None:
    contexts = rng(1).standard_normal((5, 3))
    same = LinearEnvironment(2, 3, seed=1).mean_rewards(contexts)
    assert np.array_equal(same, LinearEnvironment(2, 3, seed=1).mean_rewards(contexts))
    assert not np.array_equal(same, LinearEnvironment(2, 3, seed=2).mean_rewards(contexts))


def test_a_function_can_be_the_logger() -> None:
    world = LinearEnvironment(2, 3, logging=lambda contexts: np.tile([0.25, 0.75], (len(contexts), 1)))
    log = world.log(100, rng(1))
    assert set(log.propensities) == {0.25, 0.75}
    broken = LinearEnvironment(2, 3, logging=lambda contexts: np.tile([0.25, 0.5], (len(contexts), 1)))
    with pytest.raises(LogError, match="sum to 1"):
        broken.log(10, rng(1))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_actions": 0}, "n_actions is 0"),
        ({"noise": -1.0}, "noise is -1.0"),
        ({"noise": 2.0, "logistic": True}, "<= 1 if logistic=True"),
        ({"logging": "best"}, "logging is 'best'"),
    ],
)
def test_linear_environment_rejects_invalid_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        LinearEnvironment(**{"n_actions": 2, "n_features": 2, **options})
