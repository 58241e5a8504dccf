"""Worlds whose values a reader can work out: every evaluator must find them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import backcast as bc
from tests.support.tabular import TabularWorld

K = 10
N = 20_000
ALWAYS_FIRST = [1.0] + [0.0] * (K - 1)
MOSTLY_FIRST = [0.55] + [0.05] * (K - 1)
# .6 as it stands, and .55 * .6 + .45 * .2
VALUES = [(ALWAYS_FIRST, 0.600), (MOSTLY_FIRST, 0.420)]

EVALUATORS: dict[str, Any] = {
    "DRns": bc.DRns(),
    "DRns without quantile": bc.DRns(q=0.0),
    "DRns with budget": bc.DRns(acceptance=bc.Budget(eta=0.05, refreshes=5)),
    "DR": bc.DR(),
    "IPS": bc.IPS(),
    "SNIPS": bc.SNIPS(),
    "RS": bc.RS(),
    "WC": bc.WC(),
    "Replay": bc.Replay(),
}


def uniform_log(seed: int, n: int = N) -> bc.Log:
    """Uniform choice among ten actions; the first pays .6, the others .2."""
    means = [[0.6] + [0.2] * (K - 1)]
    return TabularWorld([1.0], mean_rewards=means).log(n, np.random.default_rng(seed))


@pytest.mark.parametrize(("probabilities", "value"), VALUES)
@pytest.mark.parametrize("name", EVALUATORS)
def test_uniform_log_with_one_good_action(name: str, probabilities: list[float], value: float) -> None:
    # 4 standard errors: a false alarm in 16,000 for one check, in 900 for the eighteen together (seeded).
    # A budget is shared among the rounds of many trajectories, so that their spread is well known.
    horizon = 50 if "budget" in name else None
    estimate = bc.evaluate(uniform_log(1), bc.Fixed(probabilities), EVALUATORS[name], horizon=horizon)
    assert estimate.std_error < 0.03
    assert abs(estimate.value - value) < 4 * estimate.std_error


def test_standard_errors_are_of_the_size_of_the_errors() -> None:
    # z of 60 logs: its mean square is a chi-square over 60, beyond [.45, 1.85] with odds of 1e-4 for each evaluator.
    for name in ("DRns", "WC", "DR", "IPS", "SNIPS", "RS", "Replay"):
        estimates = [
            bc.evaluate(uniform_log(seed, 1000), bc.Fixed(MOSTLY_FIRST), EVALUATORS[name], reward_model=0.3, seed=seed)
            for seed in range(60)
        ]
        squares = np.mean([((estimate.value - 0.42) / estimate.std_error) ** 2 for estimate in estimates])
        assert 0.45 < squares < 1.85, name


def test_evaluators_in_rounds_agree_with_those_in_one_pass() -> None:
    # The mean over trajectories of a fixed policy is its value; odds as above.
    for evaluator in (bc.DRns(q=0.05), bc.WC(), bc.RS()):
        estimate = bc.evaluate(uniform_log(2), bc.Fixed(MOSTLY_FIRST), evaluator, horizon=50)
        assert estimate.diagnostics.to_dict()["trajectories_complete"] > 20
        assert abs(estimate.value - 0.42) < 4 * estimate.std_error


WORLD = TabularWorld(
    [0.4, 0.6],
    mean_rewards=[[0.8, 0.3, 0.1], [0.2, 0.4, 0.9]],
    logging=[[0.5, 0.25, 0.25], [0.25, 0.5, 0.25]],
)
TARGET = np.array([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]])


def target(contexts: Any) -> Any:
    return contexts @ TARGET


@pytest.mark.parametrize("name", [name for name in EVALUATORS if name not in ("Replay", "DRns with budget")])
def test_contextual_world_with_a_logger_that_is_not_uniform(name: str) -> None:
    # 4 standard errors, odds 6e-5 each.
    log = WORLD.log(20_000, np.random.default_rng(5))
    estimate = bc.evaluate(log, bc.Fixed(target), EVALUATORS[name])
    assert estimate.std_error < 0.03
    assert abs(estimate.value - WORLD.value(TARGET)) < 4 * estimate.std_error


@pytest.mark.parametrize("policy", [bc.EpsilonGreedy(0.3), bc.LinUCB(0.5), bc.UCB1(), bc.RoundRobin()])
def test_first_rounds_of_a_learner(policy: Any) -> None:
    # Accepted rewards are those of live runs, so their mean has mean V_T, known by enumeration. R/C stopped at an
    # acceptance is pulled towards the model, which is therefore set at V_T. 4 standard errors, odds 6e-5 each.
    truth = WORLD.learning_value(policy, horizon=3)
    log = WORLD.log(15_000, np.random.default_rng(11))
    for evaluator in (bc.RS(), bc.WC()):
        estimate = bc.evaluate(log, policy, evaluator, horizon=3, reward_model=truth)
        assert estimate.std_error < 0.02
        assert abs(estimate.value - truth) < 4 * estimate.std_error, evaluator


def test_direct_method_finds_the_value_when_the_model_can() -> None:
    # One regression an action on indicators is the true model; its 20,000 rewards have a standard error below .01.
    log = WORLD.log(20_000, np.random.default_rng(3))
    assert abs(bc.evaluate(log, bc.Fixed(target), bc.DM()).value - WORLD.value(TARGET)) < 0.03
    learner = bc.UCB1()
    truth = WORLD.learning_value(learner, horizon=3)
    means = np.asarray(log.contexts) @ WORLD.mean_rewards
    simulated = bc.evaluate(log, learner, bc.DM(), reward_model=means, horizon=3)
    # 6,666 trajectories of a mean reward with deviation below .5: 4 standard errors are .025
    assert abs(simulated.value - truth) < 0.025
