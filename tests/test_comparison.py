"""Comparisons of policies: pairs, levels, order of the log."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

import backcast as bc
from backcast._request import EvaluationRequest
from backcast.checks._drift import find_drift
from backcast.environments import LinearEnvironment
from backcast.log import replace_columns
from tests.support.logs import two_action_log

WORLD = LinearEnvironment(3, 2, seed=3, logistic=True, logging="paper")
LOG = WORLD.log(1500, np.random.default_rng(1))
POLICIES = {"greedy": bc.EpsilonGreedy(0.2, batch_size=5), "even": bc.EpsilonGreedy(1.0, batch_size=5)}


@pytest.fixture(scope="module")
def comparison() -> bc.Comparison:
    return bc.compare(LOG, POLICIES, horizon=40, replicates=90)


def test_comparison_holds_each_policy_and_every_pair(comparison: bc.Comparison) -> None:
    assert list(comparison.estimates) == ["greedy", "even"]
    (difference,) = comparison.differences
    assert (difference.first, difference.second) == ("greedy", "even")
    gap = comparison.estimates["greedy"].value - comparison.estimates["even"].value
    assert difference.value == pytest.approx(gap, abs=1e-12)
    assert difference.interval.low < difference.value < difference.interval.high
    assert sum(chance for _, chance in comparison.ranking) == pytest.approx(1)
    json.dumps(comparison.to_dict(), allow_nan=False)


def test_pairs_are_surer_than_policies_apart(comparison: bc.Comparison) -> None:
    # both share the noise of the log, which cancels in their difference
    first, second = (estimate.std_error for estimate in comparison.estimates.values())
    assert comparison.differences[0].std_error < np.hypot(first, second)


def test_a_policy_against_itself_differs_by_nothing() -> None:
    result = bc.compare(LOG, {"a": bc.LinUCB(), "b": bc.LinUCB()}, horizon=20, replicates=60)
    assert result.differences[0].value == 0
    assert result.differences[0].std_error == pytest.approx(0, abs=1e-9)


def test_many_pairs_share_the_level() -> None:
    three = {**POLICIES, "ucb": bc.LinUCB()}
    result = bc.compare(LOG, three, horizon=20, replicates=60)
    assert len(result.differences) == 3
    assert "Bonferroni" in result.notes[-1]


def test_one_policy_is_compared_with_the_log_alone() -> None:
    result = bc.compare(LOG, {"only": bc.Uniform()})
    assert (list(result.lifts), result.differences) == (["only"], ())
    for baseline in (None, "only"):
        with pytest.raises(bc.OptionError, match="at least two"):
            bc.compare(LOG, {"only": bc.Uniform()}, baseline=baseline)


def test_in_log_order_policies_are_evaluated_one_by_one() -> None:
    result = bc.compare(LOG, POLICIES, horizon=20, exchangeable=False)
    assert any("one by one" in note for note in result.notes)
    assert result.estimates["greedy"].evaluator.startswith(("DRns", "WC"))


@pytest.mark.parametrize(
    ("policy", "options", "evaluator"),
    [
        (bc.Uniform(), {}, "DR"),
        (bc.LinUCB(batch_size=5), {"horizon": 20, "replicates": 60}, "ClockReplay"),
        (bc.LinUCB(), {"horizon": 20, "exchangeable": False}, "DRns(Budget(eta=0.1, calibration=150, refreshes=None))"),
        (bc.LinUCB(), {}, "DRns(q=0.01)"),
    ],
)
def test_auto_says_what_it_chose(policy: Any, options: dict[str, Any], evaluator: str) -> None:
    result = bc.evaluate(LOG, policy, **options)
    assert result.evaluator == evaluator
    assert result.notes[0].startswith("auto chose")
    assert "because" in result.notes[0]


def test_drift_is_seen_and_warned_of() -> None:
    moved = replace_columns(LOG, rewards=np.where(np.arange(1500) < 750, LOG.rewards, LOG.rewards / 4))
    assert find_drift(LOG).detected == []
    assert find_drift(moved).detected == ["rewards"]
    with pytest.warns(bc.DriftWarning, match="evaluated in log order"):
        result = bc.evaluate(moved, bc.LinUCB(), horizon=20)
    assert result.evaluator.startswith("DRns")


def test_clock_replay_refuses_a_log_whose_order_matters() -> None:
    with pytest.raises(bc.OptionError, match="exchangeable"):
        bc.evaluate(LOG, bc.LinUCB(), bc.ClockReplay(), horizon=20, exchangeable=False)


def test_q_auto_takes_a_grid_value_and_keeps_the_careful_error() -> None:
    select_threshold = bc.evaluate(LOG, bc.EpsilonGreedy(0.3), bc.DRns(q="auto"), horizon=20)
    grid = [bc.evaluate(LOG, bc.EpsilonGreedy(0.3), bc.DRns(q=q), horizon=20) for q in (0.0, 0.01, 0.05, 0.1)]
    assert select_threshold.value in [result.value for result in grid]
    assert select_threshold.std_error == grid[0].std_error
    assert select_threshold.interval is not None
    assert select_threshold.interval.low <= select_threshold.value <= select_threshold.interval.high


def test_fixed_policies_are_paired_by_event() -> None:
    log = LinearEnvironment(3, 4, logistic=True).log(1500, np.random.default_rng(2))
    near, far = bc.Fixed([0.4, 0.3, 0.3]), bc.Fixed([0.3, 0.4, 0.3])
    result = bc.compare(log, {"near": near, "far": far}, bc.IPS())
    gap = result.differences[0]
    weights = (np.array([0.4, 0.3, 0.3]) - np.array([0.3, 0.4, 0.3]))[log.actions] / log.propensities
    values = weights * log.rewards
    assert gap.value == pytest.approx(values.mean())
    assert gap.std_error == pytest.approx(values.std(ddof=1) / math.sqrt(1500))
    assert gap.interval.method == "paired by event"
    # policies that nearly agree are distinguished far better than their own errors suggest
    assert gap.std_error < 0.5 * result.estimates["near"].std_error
    assert not any("one by one" in note for note in result.notes)


@pytest.mark.parametrize("evaluator", [bc.SNIPS(), bc.DR(), bc.SNDR(), bc.BaselineIPS(), "auto"])
def test_a_policy_differs_from_itself_by_nothing(evaluator: Any) -> None:
    log = LinearEnvironment(3, 4, logistic=True).log(400, np.random.default_rng(2))
    policies = {name: bc.Fixed([0.5, 0.3, 0.2]) for name in ("one", "same")}
    result = bc.compare(log, policies, evaluator)
    gap = result.differences[0]
    assert (gap.value, gap.std_error) == (0.0, 0.0)
    # neither is more probably the best one
    assert [chance for _, chance in result.ranking] == pytest.approx([0.5, 0.5], abs=0.02)


def test_the_error_of_a_paired_difference_is_its_spread_over_logs() -> None:
    world, runs = LinearEnvironment(3, 4, logistic=True, logging="paper"), 120
    policies = {"a": bc.Fixed([0.6, 0.2, 0.2]), "b": bc.Fixed([0.2, 0.6, 0.2])}
    gaps = [
        bc.compare(world.log(400, np.random.default_rng(run)), policies, bc.SNIPS()).differences[0]
        for run in range(runs)
    ]
    spread = np.std([gap.value for gap in gaps], ddof=1)
    claimed = math.sqrt(np.mean([gap.std_error**2 for gap in gaps]))
    # the spread over 120 logs is known to 6.5 %; 4 standard errors: odds of a false alarm below 1e-4; 5 % for n = 400
    assert claimed == pytest.approx(spread, rel=4 * 0.065 + 0.05)


def test_learners_over_permutations_are_paired_too() -> None:
    log = LinearEnvironment(2, 2, logistic=True).log(600, np.random.default_rng(2))
    policies: dict[str, Any] = {"one": bc.UCB1(), "same": bc.UCB1(), "even": bc.Uniform()}
    options: dict[str, Any] = {"horizon": 10, "replicates": 60, "reward_model": 0.5}
    result = bc.compare(log, policies, bc.DRns(q=0.01), **options)
    same, other, _ = result.differences
    assert same.value == 0
    assert same.std_error == 0
    assert other.std_error > 0
    assert other.interval.method == "paired infinitesimal jackknife"
    assert result.estimates["one"].diagnostics.to_dict()["permutations"] == 60
    alone = bc.evaluate(log, bc.UCB1(), bc.DRns(q=0.01), **options)
    assert result.estimates["one"].value == pytest.approx(alone.value)


def test_the_order_of_the_log_is_kept_unless_it_may_be_permuted() -> None:
    log = LinearEnvironment(2, 2, logistic=True).log(600, np.random.default_rng(2))
    result = bc.compare(log, {"one": bc.UCB1(), "two": bc.LinUCB()}, bc.DRns(q=0.01), horizon=10, reward_model=0.5)
    assert any("one by one" in note for note in result.notes)


# Fixed policies beside learners

MIXED: dict[str, Any] = {"ucb": bc.UCB1(), "good": bc.Fixed([0.0, 1.0]), "even": bc.Uniform()}


def test_fixed_policies_beside_learners_are_evaluated_as_if_alone() -> None:
    log = two_action_log(600)
    result = bc.compare(log, MIXED, horizon=30, replicates=16)
    assert list(result.estimates) == list(MIXED)
    assert [estimate.evaluator for estimate in result.estimates.values()] == ["ClockReplay", "DR", "DR"]
    for name, policy in MIXED.items():
        alone = bc.evaluate(log, policy, horizon=30, replicates=16)
        assert (alone.value, alone.std_error) == (result.estimates[name].value, result.estimates[name].std_error)
    methods = [difference.interval.method for difference in result.differences]
    assert methods == ["paired infinitesimal jackknife"] * 2 + ["paired by event"]
    assert not any("one by one" in note for note in result.notes)


@pytest.mark.parametrize(
    ("evaluator", "options", "method"),
    [
        (bc.ClockReplay(), {"replicates": 16}, "paired infinitesimal jackknife"),
        (bc.DRns(q=0.01), {"replicates": 60, "exchangeable": True}, "paired infinitesimal jackknife"),
        (bc.DRns(q=0.01), {"exchangeable": True}, "paired infinitesimal jackknife"),
        (bc.WC(), {}, "errors added"),
        (bc.RS(), {}, "errors added"),
    ],
)
def test_an_evaluator_that_simulates_histories_is_for_policies_that_learn(
    evaluator: Any, options: dict[str, Any], method: str
) -> None:
    log = two_action_log(600)
    result = bc.compare(log, MIXED, evaluator, horizon=20, **options)
    ucb, *others = result.estimates.values()
    assert ucb.evaluator.startswith(evaluator.name)
    for name, estimate in zip(("good", "even"), others, strict=True):
        alone = bc.evaluate(log, MIXED[name])
        assert (estimate.evaluator, estimate.value, estimate.std_error) == ("DR", alone.value, alone.std_error)
    methods = [difference.interval.method for difference in result.differences]
    assert methods == [method] * 2 + ["paired by event"]
    assert any(f"{evaluator.name} simulates policies that learn" in note for note in result.notes)
    # the value does not depend on which other policies are compared
    fixed = {name: MIXED[name] for name in ("good", "even")}
    alone_together = bc.compare(log, fixed, evaluator, horizon=20, **options)
    assert [each.value for each in alone_together.estimates.values()] == [each.value for each in others]
    assert any("fixed policies are evaluated as fixed policies" in note for note in alone_together.notes)


def test_other_evaluators_are_used_for_all_policies() -> None:
    with pytest.raises(bc.EvaluationError, match="DM gives no standard error here"):
        bc.compare(two_action_log(600), MIXED, bc.DM(), horizon=10)
    with pytest.raises(bc.NeedsStationaryPolicy, match="UCB1 learns"):
        bc.compare(two_action_log(600), MIXED, bc.IPS())
    with pytest.raises(bc.OptionError, match="ClockReplay needs an exchangeable log"):
        bc.compare(
            two_action_log(600), {"a": bc.Uniform(), "b": bc.Fixed([1, 0])}, bc.ClockReplay(), exchangeable=False
        )


def test_the_error_of_a_learner_against_a_fixed_policy_by_permutations_is_the_spread_over_logs() -> None:
    policies: dict[str, Any] = {"ucb": bc.UCB1(), "even": bc.Uniform()}
    options: dict[str, Any] = {"horizon": 10, "replicates": 32, "reward_model": 0.5}
    differences = [
        bc.compare(two_action_log(1500, seed=seed, means=(0.3, 0.6)), policies, bc.DRns(q=0.01), **options).differences[
            0
        ]
        for seed in range(20)
    ]
    spread = np.std([each.value for each in differences], ddof=1)
    claimed = math.sqrt(np.mean([each.std_error**2 for each in differences]))
    # a standard deviation of 20 values is off by a factor outside of 0.6 to 1.6 with odds of 3e-3
    assert 0.6 < claimed / spread < 1.6
    assert {each.interval.method for each in differences} == {"paired infinitesimal jackknife"}


def test_the_error_of_a_learner_against_a_fixed_policy_is_the_spread_over_logs() -> None:
    comparisons = [
        bc.compare(
            two_action_log(400, seed=seed, means=(0.3, 0.6)), MIXED, horizon=20, exchangeable=True, replicates=16
        )
        for seed in range(30)
    ]
    values = np.array([[difference.value for difference in each.differences] for each in comparisons])
    errors = np.array([[difference.std_error for difference in each.differences] for each in comparisons])
    ratio = np.sqrt((errors**2).mean(axis=0)) / values.std(axis=0, ddof=1)
    # a standard deviation of 30 values is off by a factor outside of 0.65 to 1.5 with odds of 1e-3; the errors
    # themselves were 1.24, 0.98 and 1.08 times the spread over 60 logs
    assert ((ratio > 0.65) & (ratio < 1.24 * 1.5)).all()
    both = [(each.estimates["ucb"].std_error, each.estimates["even"].std_error) for each in comparisons]
    assert errors[:, 1].mean() < 0.8 * np.mean([math.hypot(*pair) for pair in both])


def test_a_pool_of_a_longer_log_is_paired_with_all_of_its_events() -> None:
    """Passes over a pool see some of the events, the fixed policy all: both errors agree with those of full passes."""
    log = two_action_log(2_000)
    inputs: dict[str, Any] = {"horizon": 20, "replicates": 16, "reward_model": 0.5}
    fixed = bc.evaluate(log, bc.Uniform(), reward_model=0.5)
    errors = []
    for pool in (2_000, 1_000):
        request = EvaluationRequest(log, None, **inputs)
        passes: Any = bc.ClockReplay(pool=pool).run_jointly(request, [bc.UCB1()])
        assert fixed.influences is not None
        errors.append(passes.fixed_difference_precision(0, fixed.influences).sampling ** 0.5)
    assert errors[1] == pytest.approx(errors[0], rel=0.5)


def test_fixed_policies_are_paired_where_learners_cannot_be() -> None:
    result = bc.compare(two_action_log(600), MIXED, horizon=10, exchangeable=False)
    methods = [difference.interval.method for difference in result.differences]
    assert methods == ["errors added"] * 2 + ["paired by event"]
    assert {difference.interval.assumption for difference in result.differences} == {"asymptotic martingale"}
    assert any("one by one" in note for note in result.notes)
