"""The reward model that minimizes the variance of the estimate."""

from __future__ import annotations

import numpy as np
import pytest

from backcast._arrays import FloatArray
from backcast.environments import classification_environment
from backcast.errors import OptionError
from backcast.log import Log
from backcast.reward_models import CrossFit, LowVariance, PerAction, RewardModel
from tests.support.logs import small_log


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


# Little variance


def event_values(log: Log, target: FloatArray, predicted: FloatArray) -> FloatArray:
    logged = (np.arange(len(log)), log.actions)
    direct: FloatArray = (target * predicted).sum(axis=1)
    return direct + target[logged] / log.propensities * (log.rewards - predicted[logged])


def spread_ratio(seed: int, loss: bool) -> float:
    """Spread of the event values with the low-variance model, over that with a plain ridge."""
    generator = rng(seed)
    labels = generator.integers(6, size=2000)
    features = generator.standard_normal((6, 10))[labels] + generator.standard_normal((2000, 10))
    log = classification_environment(features, labels, loss=loss).log(generator)
    rough = PerAction().fit(log[:300]).predict(log.contexts)
    best = rough.argmin(axis=1) if loss else rough.argmax(axis=1)
    target = 0.1 / 6 + 0.9 * (np.arange(6) == best[:, None])
    models: list[RewardModel] = [LowVariance(), PerAction()]
    spreads = [
        event_values(log[300:], target[300:], CrossFit(model, 3).predictions(log[300:], rng(1)).predicted).std()
        for model in models
    ]
    return float(spreads[0] / spreads[1])


@pytest.mark.parametrize("loss", [False, True])
def test_low_variance_lowers_the_spread_on_logs_as_in_the_paper(loss: bool) -> None:
    # Over seeds the logarithm of the ratio has mean -0.92 and standard deviation 0.27: the mean of three would fail
    # to be below -0.3 once in 25,000 draws.
    assert np.mean([np.log(spread_ratio(seed, loss)) for seed in (1, 2, 3)]) < -0.3


def test_losses_are_treated_as_negated_rewards() -> None:
    labels = rng(1).integers(3, size=600)
    features = rng(2).standard_normal((3, 4))[labels] + rng(3).standard_normal((600, 4))
    gains, losses = (classification_environment(features, labels, loss=loss).log(rng(4)) for loss in (False, True))
    spreads = [[choice.std_dev for choice in LowVariance().fit(log).tried] for log in (gains, losses)]
    assert np.allclose(spreads[0], spreads[1])


def test_low_variance_chooses_the_least_spread_it_tried() -> None:
    log = small_log(n=300)
    model = LowVariance(alphas=(1.0, 10.0)).fit(log)
    assert model.choice is not None
    assert len(model.tried) == 2 * 4
    assert model.choice.std_dev == min(candidate.std_dev for candidate in model.tried)


def test_low_variance_takes_the_target_it_is_given() -> None:
    # Action 1 pays at random, action 0 along a line: a policy of action 0 wants the line, whatever it costs action 1.
    contexts = rng(1).standard_normal((400, 1))
    actions = rng(2).integers(2, size=400)
    rewards = np.where(actions == 0, contexts[:, 0], 5 * rng(3).standard_normal(400))
    log = Log(contexts, actions, rewards, np.full(400, 0.5))
    first = LowVariance(alphas=(0.1, 1e5), target=lambda x: np.tile([1.0, 0.0], (x.shape[0], 1))).fit(log)
    second = LowVariance(alphas=(0.1, 1e5), target=lambda x: np.tile([0.0, 1.0], (x.shape[0], 1))).fit(log)
    assert first.choice is not None
    assert second.choice is not None
    assert first.choice.alpha == 0.1
    assert first.choice.std_dev < 1.2 < 5 < second.choice.std_dev
    with pytest.raises(OptionError, match=r"target returned shape \(400, 3\)"):
        LowVariance(target=lambda x: np.zeros((400, 3))).fit(log)


def test_low_variance_stays_with_available_actions() -> None:
    available = np.ones((60, 3), dtype=bool)
    available[:, 2] = False
    actions = rng(1).integers(2, size=60)
    log = small_log(actions=actions, available=available)
    predicted = LowVariance().fit(log).predict(log.contexts)
    assert np.allclose(predicted[:, 2], log.rewards.mean())


@pytest.mark.parametrize("n", [1, 2, 3])
def test_low_variance_fits_a_few_events(n: int) -> None:
    log = small_log()[:n]
    assert np.isfinite(LowVariance().fit(log).predict(log.contexts)).all()
