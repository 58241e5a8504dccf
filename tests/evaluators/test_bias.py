"""The bias estimate of filled replay: by hand, where it is needed, and of a reward model that is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
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


def rare_action_log(low: float, high: float, n: int = N) -> bc.Log:
    """Return a log whose better action has various small propensities, so that its events run out one by one."""
    rng = np.random.default_rng(0)
    share = rng.uniform(low, high, n)
    actions = (rng.random(n) < share).astype(int)
    rewards = (rng.random(n) < np.where(actions == 1, HIGH, LOW)).astype(float)
    propensities = np.where(actions == 1, share, 1 - share)
    return bc.Log(None, actions, rewards, propensities, n_actions=2, reward_range=(0, 1))


def evaluate(reward_model: Any) -> bc.Estimate:
    log, policy = rare_action_log(0.05, 0.15), bc.UCB1(batch_size=20)
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


def test_a_difference_has_the_bias_of_both_and_a_lift_that_of_the_policy() -> None:
    """Two equal policies have the same bias, which cancels; beside a fixed policy it does not."""
    log = rare_action_log(0.05, 0.15)
    policies = {"a": bc.UCB1(batch_size=20), "b": bc.UCB1(batch_size=20), "first": bc.Fixed([1.0, 0.0])}
    options: dict[str, Any] = {"horizon": T, "replicates": 16, "exchangeable": True}
    wrong = np.tile([HIGH, LOW], (N, 1))
    found = bc.compare(log, policies, bc.ClockReplay(), reward_model=wrong, **options)
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
