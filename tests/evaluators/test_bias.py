"""The bias estimate of filled replay: by hand, where it is needed, and of a policy that learns from few events."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import backcast as bc
from backcast.environments import LinearEnvironment
from backcast.environments.live import coin_flips, run_live
from backcast.evaluators._bias import SMALL_SHARE, estimate_bias
from backcast.evaluators._passes import PassResult

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


def test_the_error_is_that_of_passes_and_of_pairs_of_halves() -> None:
    bias = estimate_bias(passes([0.4, 0.6], 500), passes([0.0, 0.4, 0.5, 0.3], 1000), 0.5)
    assert bias is not None
    # full passes: mean 0.5, standard error 0.1; pairs: 0.2 and 0.4, mean 0.3, standard error 0.1; the growth is 8
    assert (bias.value, bias.std_error) == pytest.approx((-0.2 / 7, np.hypot(0.1, 0.1) / 7))


def test_where_all_rounds_are_filled_the_bias_is_that_of_twice_the_variance_of_the_model() -> None:
    bias = estimate_bias(passes([0.4, 0.6], 1000), passes([0.3, 0.5], 1000), reward_spread=0.5)
    assert bias is not None
    assert bias.value == pytest.approx(-0.1)


def rare_action_log(low: float, high: float, n: int = N) -> bc.Log:
    """Return a log whose better action has various small propensities, so that its events run out one by one."""
    rng = np.random.default_rng(0)
    share = rng.uniform(low, high, n)
    actions = (rng.random(n) < share).astype(int)
    rewards = (rng.random(n) < np.where(actions == 1, HIGH, LOW)).astype(float)
    propensities = np.where(actions == 1, share, 1 - share)
    return bc.Log(None, actions, rewards, propensities, n_actions=2, reward_range=(0, 1))


def test_a_policy_that_learns_from_few_events_is_undervalued_and_the_bias_shows_it() -> None:
    """Four of five rounds are filled from a model of about 60 events per action; live, the policy goes on learning.

    Over 16 logs the mean error is -0.034 with a standard error of 0.009, the mean estimate -0.014 with one of 0.0044.
    With other seeds one of the two would be above -2 standard errors with a probability of about 0.15.
    """
    world = LinearEnvironment(6, 15, logistic=True, logging="uniform", seed=1)
    contexts, means = world.table(20_000, np.random.default_rng(5))
    policy, horizon = bc.EpsilonGreedy(0.1), 1200
    live = run_live(contexts, means, policy, horizon=horizon, runs=40, rng=np.random.default_rng(1), draw=coin_flips)
    errors, biases = [], []
    for number in range(16):
        log = world.log(600, np.random.default_rng(number))
        options: dict[str, Any] = {"horizon": horizon, "replicates": 16, "exchangeable": True, "seed": number}
        estimate = bc.evaluate(log, policy, bc.ClockReplay(), **options)
        bias, interval = estimate.bias_estimate, estimate.interval
        assert bias is not None
        assert interval is not None
        errors.append(estimate.value - float(live.mean()))
        biases.append(bias.value)
        # the interval is widened by the bias
        assert interval.half_width > 1.96 * np.hypot(estimate.std_error, bias.size)
        assert abs(errors[-1]) < interval.half_width
    for values in (errors, biases):
        assert np.mean(values) < -2 * np.std(values, ddof=1) / np.sqrt(16)


def test_a_difference_has_the_bias_of_both_and_a_lift_that_of_the_policy() -> None:
    """Two equal policies have the same bias, which cancels; beside a fixed policy it does not."""
    log = rare_action_log(0.05, 0.15)
    policies = {"a": bc.UCB1(batch_size=20), "b": bc.UCB1(batch_size=20), "first": bc.Fixed([1.0, 0.0])}
    options: dict[str, Any] = {"horizon": T, "replicates": 16, "exchangeable": True}
    found = bc.compare(log, policies, bc.ClockReplay(), **options)
    assert found["a", "b"].interval.half_width < 1e-9
    bias = found["a"].bias_estimate
    assert bias is not None
    lift = found.lifts["a"]
    # a quantile of at least 1.96 times the root of both squares
    assert lift.interval.half_width > 1.96 * np.hypot(lift.std_error, bias.size)
    assert found["a", "first"].interval.half_width > 1.96 * bias.size


def test_parts_of_a_stream_report_filled_rounds_and_their_bias(tmp_path: Path) -> None:
    log = rare_action_log(0.2, 0.4, 2000)
    columns = {"a": log.actions, "r": log.rewards, "p": log.propensities}
    pyarrow.parquet.write_table(pa.table(columns), tmp_path / "log.parquet")
    stream = bc.scan_log(tmp_path / "log.parquet", context=[], action="a", reward="r", propensity="p")
    short, long = (
        bc.evaluate(stream, bc.UCB1(), bc.ClockReplay(), horizon=rounds, exchangeable=True) for rounds in (5, 150)
    )
    assert (short.diagnostics.to_dict()["filled_share"], short.bias_estimate) == (0.0, None)
    assert long.diagnostics.to_dict()["filled_share"] > 0.1
    assert long.bias_estimate is not None
    assert long.bias_estimate.std_error > 0
    assert long.interval is not None
    # 10 parts have 9 degrees of freedom
    total = np.hypot(long.std_error, long.bias_estimate.size)
    assert long.interval.half_width == pytest.approx(2.262 * total, rel=1e-3)


def test_the_bias_of_segments_is_that_of_all_of_them() -> None:
    log = rare_action_log(0.2, 0.4, 2000)
    result = bc.evaluate(
        log, bc.UCB1(), bc.ClockReplay(), horizon=150, replicates=8, interval=bc.Segments(10), exchangeable=True
    )
    assert result.bias_estimate is not None
    assert result.interval is not None
    total = np.hypot(result.std_error, result.bias_estimate.size)
    assert result.interval.half_width == pytest.approx(2.262 * total, rel=1e-3)
