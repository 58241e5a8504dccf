"""Lifts over what the log earned: pairing by event, pass, group and part; simultaneous and relative intervals."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

import backcast as bc
from backcast._differences import simultaneous_level
from backcast.environments import LinearEnvironment
from backcast.io.stream import LogStream
from tests.support.logs import random_log, two_action_log

LOG = LinearEnvironment(3, 4, logistic=True, logging="paper").log(1200, np.random.default_rng(2))
FIXED: dict[str, Any] = {"a": bc.Fixed([0.5, 0.3, 0.2]), "b": bc.Fixed([0.2, 0.3, 0.5])}


def agreeing_log(n: int, seed: int, agreement: float) -> tuple[bc.Log, bc.Fixed]:
    """A log of two actions, and the fixed policy that takes the logger's preferred action, as this share of events."""
    rng = np.random.default_rng(seed)
    actions = (rng.random(n) < agreement).astype(int)
    rewards = (rng.random(n) < np.where(actions == 1, 0.5, 0.4)).astype(float)
    propensities = np.where(actions == 1, agreement, 1 - agreement)
    return bc.Log(None, actions, rewards, propensities, n_actions=2, reward_range=(0, 1)), bc.Fixed([0.0, 1.0])


def lift_of(estimate: bc.Estimate) -> bc.Difference:
    assert estimate.lift is not None
    return estimate.lift


def test_the_baseline_is_the_mean_of_the_logged_rewards() -> None:
    result = bc.compare(LOG, FIXED)
    assert result.baseline is not None
    assert result.baseline.value == pytest.approx(LOG.rewards.mean(), abs=1e-15)
    assert result.baseline.std_error == pytest.approx(LOG.rewards.std(ddof=1) / math.sqrt(1200))
    for name, estimate in result.estimates.items():
        assert result.lifts[name].value == estimate.value - result.baseline.value
        assert (result.lifts[name].first, result.lifts[name].second) == (name, "logged")
        assert lift_of(estimate).std_error == result.lifts[name].std_error
        # simultaneous over two policies, so wider than alone
        assert result.lifts[name].interval.low < lift_of(estimate).interval.low
        alone = bc.evaluate(LOG, FIXED[name])
        assert alone.lift == estimate.lift


@pytest.mark.parametrize("evaluator", [bc.IPS(), bc.SNIPS(), bc.DR(), bc.SwitchDR(), bc.BaselineIPS(), bc.CADR()])
def test_fixed_policies_are_paired_with_the_log_event_by_event(evaluator: Any) -> None:
    estimate = bc.evaluate(LOG, FIXED["a"], evaluator)
    assert estimate.influences is not None
    by_event = estimate.influences - (LOG.rewards - LOG.rewards.mean())
    assert lift_of(estimate).std_error == pytest.approx(by_event.std(ddof=1) / math.sqrt(1200), rel=1e-3)
    assert lift_of(estimate).interval.method == "paired by event"


def test_pairing_halves_the_error_where_policy_and_logger_agree_on_most_events() -> None:
    log, policy = agreeing_log(4_000, 0, agreement=0.8)
    estimate = bc.evaluate(log, policy, bc.DR())
    baseline_error = log.rewards.std(ddof=1) / math.sqrt(len(log))
    assert lift_of(estimate).std_error < 0.5 * math.hypot(estimate.std_error, baseline_error)


def test_a_stream_has_the_lift_of_the_log_in_memory(tmp_path: Path) -> None:
    columns = {f"x{j}": LOG.contexts[:, j] for j in range(4)}
    table = pa.table({**columns, "a": LOG.actions, "r": LOG.rewards, "p": LOG.propensities})
    pq.write_table(table, tmp_path / "log.parquet", row_group_size=100)
    stream = bc.scan_log(tmp_path / "log.parquet", context="x*", action="a", reward="r", propensity="p")
    for log in (stream, LogStream.from_logs([LOG[:500], LOG[500:]])):
        scanned, in_memory = (lift_of(bc.evaluate(each, FIXED["a"], bc.SNIPS())) for each in (log, LOG))
        assert scanned.value == pytest.approx(in_memory.value, abs=1e-12)
        assert scanned.std_error == pytest.approx(in_memory.std_error, rel=1e-9)
        assert scanned.interval.method == "paired by event"


def test_parts_of_a_stream_are_paired_with_their_own_rewards() -> None:
    log = two_action_log(3_000)
    stream = LogStream.from_logs([log[start : start + 300] for start in range(0, 3_000, 300)])
    result = bc.compare(stream, {"ucb": bc.UCB1(), "even": bc.RoundRobin()}, bc.ClockReplay(), horizon=20)
    lift, estimate = result.lifts["ucb"], result.estimates["ucb"]
    assert estimate.group_values is not None
    means = log.rewards.reshape(10, 300).mean(axis=1)
    assert lift.std_error == pytest.approx((estimate.group_values - means).std(ddof=1) / math.sqrt(10))
    assert (lift.interval.method, lift.degrees_of_freedom) == ("paired Student over parts", 9)
    assert lift.value == pytest.approx((estimate.group_values - means).mean())


@pytest.mark.parametrize(
    ("evaluator", "interval", "method"),
    [
        (bc.ClockReplay(), None, "paired infinitesimal jackknife"),
        (bc.ClockReplay(), bc.GroupJackknife(10), "paired group jackknife"),
        (bc.DRns(q=0.05), bc.GroupJackknife(10), "paired group jackknife"),
    ],
)
def test_a_learner_that_repeats_the_logger_shares_its_noise(evaluator: Any, interval: Any, method: str) -> None:
    """Round robin on a uniform log takes both actions equally often, as the logger does: most errors are common."""
    log = two_action_log(1_500, means=(0.45, 0.55))
    options: dict[str, Any] = {"horizon": 40, "replicates": 40, "exchangeable": True, "interval": interval}
    lift = lift_of(bc.evaluate(log, bc.RoundRobin(), evaluator, reward_model=0.5, **options))
    assert lift.interval.method == method
    baseline_error = log.rewards.std(ddof=1) / math.sqrt(len(log))
    assert math.sqrt(lift.std_error**2 - lift.monte_carlo_error**2) < 0.6 * baseline_error
    assert lift.interval.low < 0 < lift.interval.high


def test_segments_are_paired_with_their_own_rewards() -> None:
    estimate = bc.evaluate(LOG, FIXED["a"], bc.IPS(), interval=bc.Segments(10))
    assert estimate.group_values is not None
    values = estimate.group_values - LOG.rewards.reshape(10, 120).mean(axis=1)
    assert lift_of(estimate).std_error == pytest.approx(values.std(ddof=1) / math.sqrt(10))


@pytest.mark.parametrize("layout", ["dense", "sparse", "masked", "actions"])
def test_the_logger_is_evaluated_on_any_log(layout: str) -> None:
    recorded = random_log(layout)
    columns = recorded.columns
    bare = bc.Log(
        recorded.contexts,
        columns.actions,
        columns.rewards,
        columns.propensities,
        n_actions=3,
        available=columns.available,
    )
    for log in (bare, recorded, LogStream.from_logs([bare[:20], bare[20:]])):
        estimate = bc.evaluate(log, bc.Logged(), exchangeable=True)
        assert estimate.value == pytest.approx(columns.rewards.mean(), abs=1e-15)
        assert estimate.std_error == pytest.approx(columns.rewards.std(ddof=1) / math.sqrt(60))
        lift = lift_of(estimate)
        assert (lift.value, lift.std_error) == (0.0, 0.0)
    result = bc.compare(bare, {"logger": bc.Logged(), "even": bc.Uniform()}, exchangeable=True)
    assert result.estimates["logger"].value == result.baseline.value  # type: ignore[union-attr]
    assert result.estimates["logger"].replay_summary() is None
    for evaluator in (bc.IPS(), bc.SNIPS(), bc.DR()):
        assert bc.evaluate(bare, bc.Logged(), evaluator).value == pytest.approx(columns.rewards.mean())


def test_the_baseline_may_be_a_policy_or_none() -> None:
    result = bc.compare(LOG, {**FIXED, "even": bc.Uniform()}, baseline="even")
    assert result.baseline == result.estimates["even"]
    assert list(result.lifts) == ["a", "b"]
    pair = next(pair for pair in result.differences if (pair.first, pair.second) == ("a", "even"))
    assert (result.lifts["a"].value, result.lifts["a"].std_error) == (pair.value, pair.std_error)
    # two comparisons with a control need less than three pairs
    assert result.lifts["a"].interval.half_width < pair.interval.half_width
    assert result.verdict.against[0][0] == "even"
    without = bc.compare(LOG, FIXED, baseline=None)
    assert (without.baseline, without.lifts) == (None, {})
    assert without.verdict.policies == ()
    with pytest.raises(bc.OptionError, match="'deployed'; give 'logged'"):
        bc.compare(LOG, FIXED, baseline="deployed")


def test_results_with_lifts_are_stored_and_equal() -> None:
    result = bc.compare(LOG, FIXED)
    again = bc.Comparison.from_dict(result.to_dict())
    assert again == result
    assert again.verdict == result.verdict
    older = {key: value for key, value in result.to_dict().items() if key not in ("baseline", "baseline_name", "lifts")}
    assert bc.Comparison.from_dict(older).baseline is None


def test_other_quantities_than_the_mean_have_no_lift() -> None:
    assert bc.evaluate(LOG, FIXED["a"], bc.CVaR(0.25)).lift is None
    assert bc.compare(LOG, FIXED, bc.CVaR(0.25)).lifts == {}


def test_the_relative_interval_excludes_zero_if_the_absolute_one_does() -> None:
    for seed in range(20):
        log, policy = agreeing_log(300, seed, agreement=0.6)
        lift = lift_of(bc.evaluate(log, policy))
        assert lift.relative == pytest.approx(lift.value / log.rewards.mean())
        assert lift.relative_interval is not None
        assert lift.relative_interval.low < lift.relative < lift.relative_interval.high
        for interval in (lift.interval, lift.relative_interval):
            assert (interval.low > 0) == (lift.interval.low > 0)
            assert (interval.high < 0) == (lift.interval.high < 0)


def test_there_is_no_relative_lift_over_a_baseline_that_may_be_zero() -> None:
    rng = np.random.default_rng(0)
    log = bc.Log(None, rng.integers(2, size=100), rng.normal(size=100), np.full(100, 0.5))
    lift = lift_of(bc.evaluate(log, bc.Fixed([0.25, 0.75])))
    assert math.isnan(lift.relative)
    assert lift.relative_interval is None


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_the_simultaneous_level_is_dunnetts(correlation: float) -> None:
    """Against the multivariate normal distribution function of SciPy, for five policies with equal correlations."""
    covariance = np.full((5, 5), correlation) + (1 - correlation) * np.eye(5)
    quantile = float(stats.norm.ppf(0.5 + simultaneous_level(4.0 * covariance, 0.95) / 2))
    box = stats.multivariate_normal(np.zeros(5), covariance, allow_singular=True, seed=0)
    # 100,000 draws know the level to .0007, the distribution function to .001: 4 standard errors
    assert box.cdf(np.full(5, quantile), lower_limit=np.full(5, -quantile)) == pytest.approx(0.95, abs=0.005)


def test_drift_is_said_of_the_baseline() -> None:
    result = bc.compare(LOG, FIXED, exchangeable=False)
    assert any("mean reward of the whole log" in note for note in result.notes)
    assert not any("mean reward of the whole log" in note for note in bc.compare(LOG, FIXED).notes)
