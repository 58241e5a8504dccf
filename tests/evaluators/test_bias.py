"""The bias estimate of filled replay: by hand, where it is needed, and of a reward model that is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import backcast as bc
from backcast.evaluators._bias import SMALL_SHARE, estimate_bias
from backcast.evaluators._passes import PassResult
from backcast.grading import grade_diagnostics

LOW, HIGH = 0.2, 0.8  # mean rewards of the two actions
N, T = 1000, 180


def passes(values: list[float], filled: int, rounds: int = 1000) -> list[PassResult]:
    return [PassResult(value, np.zeros(1), rounds, 1.0, filled=np.arange(filled)) for value in values]


def test_next_to_no_filled_rounds_need_no_further_passes() -> None:
    bias = estimate_bias(passes([0.4, 0.6], int(1000 * SMALL_SHARE)), [], reward_spread=0.5)
    assert bias is not None
    assert (bias.value, bias.std_error) == (0.0, 0.5 * SMALL_SHARE)
    assert estimate_bias(passes([0.4, 0.6], 100), [], reward_spread=0.5) is None


def test_a_pass_that_fell_short_leaves_no_estimate() -> None:
    short = [PassResult(np.nan, np.zeros(0), 3, np.inf)]
    assert estimate_bias(passes([0.4, 0.6], 100), [*passes([0.5], 600), *short], 0.5) is None


def test_the_error_is_that_of_the_passes() -> None:
    bias = estimate_bias(passes([0.5, 0.5], 500), passes([0.3, 0.5], 1000), 0.5)
    assert bias is not None
    # the mean of two passes at 0.4 has the standard error 0.1, and the distance is as long as that to none
    assert (bias.value, bias.std_error) == pytest.approx((-0.1, 0.1))


def test_where_hardly_more_rounds_can_be_filled_the_bias_is_not_known() -> None:
    bias = estimate_bias(passes([0.4, 0.6], 500), passes([0.1, 0.1], 510), reward_spread=0.5)
    assert bias is not None
    assert (bias.value, bias.std_error) == (0.0, 0.25)


def evaluate(reward_model: Any) -> bc.Estimate:
    rng = np.random.default_rng(0)
    # different propensities, so that events of the rare action are exhausted one after another
    share = rng.uniform(0.05, 0.15, N)
    actions = (rng.random(N) < share).astype(int)
    rewards = (rng.random(N) < np.where(actions == 1, HIGH, LOW)).astype(float)
    propensities = np.where(actions == 1, share, 1 - share)
    log = bc.Log(None, actions, rewards, propensities, n_actions=2, reward_range=(0, 1))
    policy = bc.UCB1(batch_size=20)
    return bc.evaluate(log, policy, bc.ClockReplay(fill=True), horizon=T, replicates=16, reward_model=reward_model)


def test_a_wrong_reward_model_shows_in_the_bias_and_the_grade() -> None:
    """The better action is rare. A model that swaps the two makes the policy leave it once its events are used."""
    right, wrong = (evaluate(np.tile(means, (N, 1))) for means in ([LOW, HIGH], [HIGH, LOW]))
    assert right.bias_estimate is not None
    assert wrong.bias_estimate is not None
    assert abs(right.bias_estimate.value) < right.std_error / 2
    assert wrong.bias_estimate.value < -0.05
    rows = [grade_diagnostics(estimate)[0] for estimate in (right, wrong)]
    assert [(row.name, row.grade) for row in rows] == [("bias estimate", "good"), ("bias estimate", "fair")]
    # the interval is widened by the bias, which is larger than the standard error
    assert wrong.interval.half_width > 2.5 * wrong.std_error
