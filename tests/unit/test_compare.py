"""Comparisons, the choice that "auto" makes, and the monitor."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import backcast as bc
from backcast.choosing import drift
from backcast.worlds import LinearWorld

WORLD = LinearWorld(3, 2, seed=3, logistic=True, logging="paper")
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
    found = bc.compare(LOG, {"a": bc.LinUCB(), "b": bc.LinUCB()}, horizon=20, replicates=60)
    assert found.differences[0].value == 0
    assert found.differences[0].std_error == pytest.approx(0, abs=1e-9)


def test_many_pairs_share_the_level() -> None:
    three = {**POLICIES, "ucb": bc.LinUCB()}
    found = bc.compare(LOG, three, horizon=20, replicates=60)
    assert len(found.differences) == 3
    assert "Bonferroni" in found.notes[-1]


def test_one_policy_is_no_comparison() -> None:
    with pytest.raises(bc.OptionError, match="at least two"):
        bc.compare(LOG, {"only": bc.Uniform()}, horizon=5)


def test_in_log_order_policies_are_evaluated_one_by_one() -> None:
    found = bc.compare(LOG, POLICIES, horizon=20, exchangeable=False)
    assert any("one by one" in note for note in found.notes)
    assert found.estimates["greedy"].evaluator.startswith("DRns")


@pytest.mark.parametrize(
    ("policy", "options", "evaluator"),
    [
        (bc.Uniform(), {}, "DR"),
        (bc.LinUCB(batch_size=5), {"horizon": 20, "replicates": 60}, "ClockReplay"),
        (bc.LinUCB(), {"horizon": 20, "exchangeable": False}, "DRns(q=0.01, warm_up=75, carry=True)"),
        (bc.LinUCB(), {}, "DRns(q=0.01)"),
    ],
)
def test_auto_says_what_it_chose(policy: Any, options: dict[str, Any], evaluator: str) -> None:
    found = bc.evaluate(LOG, policy, **options)
    assert found.evaluator == evaluator
    assert found.notes[0].startswith("auto chose")
    assert "because" in found.notes[0]


def test_drift_is_seen_and_warned_of() -> None:
    moved = LOG.replace(_rewards=np.where(np.arange(1500) < 750, LOG.rewards, LOG.rewards / 4))
    assert drift(LOG) == []
    assert drift(moved) == ["rewards"]
    with pytest.warns(bc.DriftWarning, match="evaluated in log order"):
        found = bc.evaluate(moved, bc.LinUCB(), horizon=20)
    assert found.evaluator.startswith("DRns")


def test_clock_replay_refuses_a_log_whose_order_matters() -> None:
    with pytest.raises(bc.OptionError, match="exchangeable"):
        bc.evaluate(LOG, bc.LinUCB(), bc.ClockReplay(), horizon=20, exchangeable=False)


def test_q_auto_takes_a_grid_value_and_keeps_the_careful_error() -> None:
    tuned = bc.evaluate(LOG, bc.EpsilonGreedy(0.3), bc.DRns(q="auto"), horizon=20)
    grid = [bc.evaluate(LOG, bc.EpsilonGreedy(0.3), bc.DRns(q=q), horizon=20) for q in (0.0, 0.01, 0.05, 0.1)]
    assert tuned.value in [found.value for found in grid]
    assert tuned.std_error == grid[0].std_error
    assert tuned.interval is not None
    assert tuned.interval.low <= tuned.value <= tuned.interval.high


def test_monitor_in_parts_is_one_run() -> None:
    def fed(*cuts: int) -> bc.Estimate:
        monitor = bc.Monitor(bc.LinUCB(), reward_range=(0, 1), smallest_propensity=float(LOG.propensities.min()))
        for start, end in zip((0, *cuts), (*cuts, len(LOG)), strict=True):
            monitor.feed(LOG[start:end])
            monitor.estimate()
        return monitor.estimate()

    assert fed(500, 501).diagnostics.to_dict()["events"] == 1500
    # looking on the way disturbs nothing
    looked, straight = fed(500), fed(500)
    assert looked.value == straight.value


def test_monitor_refuses_what_breaks_its_promise() -> None:
    monitor = bc.Monitor(bc.UCB1(), reward_range=(0, 1), smallest_propensity=0.5)
    with pytest.raises(bc.EvaluationError, match="nothing has been fed"):
        monitor.estimate()
    with pytest.raises(bc.EvaluationError, match="below the declared bound"):
        monitor.feed(LOG)
    with pytest.raises(bc.EvaluationError, match="leave the declared range"):
        monitor.feed(bc.Log(None, [0, 1], [0.0, 2.0], [0.5, 0.5]))
    with pytest.raises(bc.OptionError, match="smallest_propensity"):
        bc.Monitor(bc.UCB1(), reward_range=(0, 1), smallest_propensity=0.0)
