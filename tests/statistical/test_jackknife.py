"""The group jackknife: exact where the variance is known by hand, covering on simulated logs of a learning policy."""

from __future__ import annotations

from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from scipy import stats

import backcast as bc
from backcast._engine.forward import run_forward
from backcast._engine.reward_law import RewardLaw
from backcast.environments import LinearEnvironment
from backcast.evaluators._passes import between_event_variance
from backcast.intervals.learning import group_influence

ALARM = 1e-3  # odds of a false alarm of one test


def memberships(groups: int, size: int) -> Any:
    """All subsets of this many groups, one per row."""
    chosen = np.array(list(combinations(range(groups), size)))
    return (chosen[:, :, None] == np.arange(groups)).any(axis=1).astype(float)


def means(member: Any, worth: Any) -> Any:
    """The statistic whose variance is known: the mean worth of the groups in the subset."""
    return member @ worth / member.sum(axis=1, keepdims=True)


@pytest.mark.parametrize(("groups", "size"), [(6, 2), (8, 3), (9, 6)])
def test_the_variance_of_a_mean_of_groups_is_exact(groups: int, size: int) -> None:
    # Over all subsets, C_g = (G-s)/(G(G-1)) (z_g - mean z), so that the formula gives the textbook's s^2/G.
    worth = np.random.default_rng(groups).normal(size=(groups, 2))
    member = np.tile(memberships(groups, size), (4000, 1))
    textbook = np.cov(worth.T) / groups
    np.testing.assert_allclose(group_influence(means(member, worth), member).covariance, textbook, rtol=2e-3)


def test_the_correction_for_few_replicates_is_what_they_add() -> None:
    # One round of all subsets: nothing is random, so the raw figure is exact and the correction is all that is off.
    groups, size = 7, 3
    worth = np.arange(7.0)[:, None]
    member = memberships(groups, size)
    estimates = means(member, worth)
    influence = group_influence(estimates, member)
    correction = 6 / 7 * (7 / 4) ** 2 * 3 * 4 / 7 * estimates.var() / len(member)
    assert influence.covariance[0, 0] + correction == pytest.approx(worth.var(ddof=1) / 7)
    assert influence.noise_share == pytest.approx(correction / (influence.covariance[0, 0] + correction))


@pytest.mark.parametrize("noise", [0.0, 2.0])
def test_randomly_drawn_subsets_give_the_variance_on_average(noise: float) -> None:
    # Noise that the groups do not explain, such as thresholds, is subtracted.
    groups, size, replicates = 20, 5, 200
    worth = np.random.default_rng(3).normal(size=(groups, 1))
    rng = np.random.default_rng(4)
    variances = []
    for _ in range(300):
        member = (rng.random((replicates, groups)).argsort(axis=1) < size).astype(float)
        estimates = means(member, worth) + noise * rng.normal(size=(replicates, 1))
        variances.append(float(group_influence(estimates, member).covariance[0, 0]))
    surprise = (np.mean(variances) - worth.var(ddof=1) / groups) / stats.sem(variances)
    # the correction is right up to a share of about 1/G of itself
    assert abs(surprise) < stats.norm.isf(ALARM / 2) + 2


def test_the_variance_uncertainty_is_the_spread_of_variances_that_are_all_noise() -> None:
    groups, size, replicates, runs = 30, 8, 300, 400
    rng = np.random.default_rng(6)
    influences = []
    for _ in range(runs):
        member = (rng.random((replicates, groups)).argsort(axis=1) < size).astype(float)
        influences.append(group_influence(rng.normal(size=(replicates, 1)), member))
    spread = np.std([float(each.covariance[0, 0]) for each in influences], ddof=1)
    uncertainty = np.mean([float(each.variance_uncertainty[0]) for each in influences])
    # a standard deviation from 400 runs is known to 1/sqrt(800) of itself: 4 of these are 14 %, odds of 1e-4
    assert spread == pytest.approx(uncertainty, rel=4 / np.sqrt(2 * runs))


def test_covariances_of_several_estimates_agree_with_their_differences() -> None:
    rng = np.random.default_rng(5)
    member = (rng.random((300, 12)).argsort(axis=1) < 4).astype(float)
    estimates = means(member, rng.normal(size=(12, 2))) + 0.1 * rng.normal(size=(300, 2))
    joint = group_influence(estimates, member).covariance
    difference = group_influence(estimates[:, :1] - estimates[:, 1:], member).covariance
    assert difference[0, 0] == pytest.approx(joint[0, 0] + joint[1, 1] - 2 * joint[0, 1])


@pytest.mark.parametrize("count", [2, 5, 40])
def test_what_passes_have_in_common_is_told_from_what_each_does(count: int) -> None:
    rng = np.random.default_rng(count)
    lasting = rng.normal(size=20_000)
    passes = [lasting + 3 * rng.normal(size=lasting.size) for _ in range(count)]
    # standard error of the mean covariance of pairs: noise products of variance 81 a pair, 36 with the common part
    error = np.sqrt((81 / (count * (count - 1) / 2) + 36 / count + 2) / lasting.size)
    assert abs(between_event_variance(passes) - lasting.var()) < stats.norm.isf(ALARM / 2) * error
    assert between_event_variance([lasting, lasting]) == pytest.approx(lasting.var())
    assert between_event_variance([lasting]) == 0


# light weights, and heavy ones: up to 30
WORLDS = {logger: LinearEnvironment(3, 4, logistic=True, spread=0.5, logging=logger) for logger in ("uniform", "paper")}
WORLD = WORLDS["uniform"]
POLICY = bc.EpsilonGreedy(0.2)
HORIZON, EVENTS, LOGS = 12, 600, 40


@cache
def live_value(runs: int) -> tuple[float, float]:
    """V_T by running the policy live, and its standard error."""
    rng = np.random.default_rng(0)
    log = WORLD.log(runs * HORIZON, rng)
    table = WORLD.mean_rewards(np.asarray(log.contexts))
    law = RewardLaw(0.0, 1.0, np.zeros(0))
    values = []
    for start in range(0, len(log), HORIZON):
        part = slice(start, start + HORIZON)
        values.append(run_forward(POLICY, log[part], table[part], law, rng).mean())
    return float(np.mean(values)), float(stats.sem(values))


@pytest.mark.parametrize(
    ("evaluator", "logger", "replicates"),
    [
        (bc.ClockReplay(), "uniform", 300),
        (bc.ClockReplay(), "paper", 300),
        (bc.DRns.recommended(EVENTS), "uniform", 48),
    ],
    ids=["clock, uniform", "clock, paper", "permutations, uniform"],
)
def test_intervals_cover_the_live_value(evaluator: Any, logger: str, replicates: int) -> None:
    truth, error = live_value(5000)
    estimates = []
    for number in range(LOGS):
        log = WORLDS[logger].log(EVENTS, np.random.default_rng(1000 + number))
        model = bc.CrossFit(bc.PerAction())
        estimates.append(
            bc.evaluate(log, POLICY, evaluator, reward_model=model, horizon=HORIZON, replicates=replicates)
        )
    values = np.array([estimate.value for estimate in estimates])
    errors = np.array([estimate.std_error for estimate in estimates])
    assert error < 0.05 * values.std()
    intervals = [estimate.interval for estimate in estimates]
    covered = sum(interval is not None and interval.low <= truth <= interval.high for interval in intervals)
    # odds of fewer with true coverage of 0.95
    assert covered >= stats.binom.ppf(ALARM, LOGS, 0.95)
    # neither do they cover by being wide: the mean error is the spread over logs, up to 25 % of bias and chance
    spread = values.std(ddof=1) / np.sqrt(stats.chi2.ppf([1 - ALARM, ALARM], LOGS - 1) / (LOGS - 1))
    assert 0.8 * spread[0] < np.sqrt(np.mean(errors**2)) < 1.25 * spread[1]


def test_the_spread_over_passes_would_cover_far_too_seldom() -> None:
    truth, _ = live_value(5000)
    covered = 0
    for number in range(LOGS):
        log = WORLD.log(EVENTS, np.random.default_rng(1000 + number))
        estimate = bc.evaluate(log, POLICY, bc.ClockReplay(), reward_model=0.5, horizon=HORIZON, replicates=None)
        half_width = 1.96 * estimate.diagnostics.to_dict()["monte_carlo_error"]
        covered += abs(estimate.value - truth) <= half_width
    # this is why it is not offered; odds of a false alarm far below 1e-3 at the coverage of about a quarter it has
    assert covered < 0.6 * LOGS
