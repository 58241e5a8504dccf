"""Standard errors of replays of permuted logs, from what full passes record."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import backcast as bc
from backcast._engine.replay_loop import TraceArrays
from backcast.environments import LinearEnvironment
from backcast.evaluators._passes import PassResult
from backcast.evaluators._permutation_records import record_influences

LOG = LinearEnvironment(3, 4, logistic=True, seed=1).log(800, np.random.default_rng(0))
OPTIONS: dict[str, Any] = {"horizon": 40, "reward_model": 0.5, "replicates": 64, "exchangeable": True}


def record(accepted: Any, values: Any, horizon: int, edges: Any, multiplier: Any = None) -> PassResult:
    n = len(values)
    multiplier = np.ones(n) if multiplier is None else np.array(multiplier)
    trace = TraceArrays(multiplier, np.ones(n), np.array(values), np.array(accepted, dtype=np.bool_))
    result = PassResult(float(np.mean(values)), np.zeros(1), horizon, 0.0)
    return record_influences(result, trace, np.arange(n), horizon, np.array(edges), n + 1, centre=0.0)


def test_two_histories_in_one_pass_by_hand() -> None:
    # histories of two rounds: events 0 to 2 with multipliers 1, 1, 2, events 3 and 4 with 1 each, and one of a third
    result = record([1, 0, 1, 1, 1, 0], [1.0, 0.0, 1.0, 0.0, 1.0, 9.0], 2, [0, 1, 2], [1.0, 1.0, 2.0, 1.0, 1.0, 1.0])
    np.testing.assert_allclose(result.reading, [0.03125, -0.09375, 0.0625, -0.125, 0.125, 0.0, 0.0])
    assert result.accepted.tolist() == [0, 2, 3, 4]
    # first history: R/C is 1/4 in the first round, 2/4 in the second; second history: 0 and 1/2
    np.testing.assert_allclose(result.bins[0], [[0.0, 1.0], [0.0, 0.25], [0.5, 0.0]])
    np.testing.assert_allclose(result.bins[1], [[0.0, 0.0], [0.0, 0.0], [0.5, 0.0]])
    # every round is the first of its bin; the second one of the first history would go on with another (0 - 3/4) of
    # weight 1/4, over 1 - 4/5
    missing = np.array([0.0, 0.0, -0.1875, 0.0, 0.0]) / 0.2
    np.testing.assert_allclose(result.own, [*(missing - missing.mean()) / 2, 0.0, 0.0], atol=1e-15)


def test_an_event_does_not_count_as_what_follows_it() -> None:
    # one bin of three rounds: the events of the second and third round are in the sum after the first one
    result = record([1, 1, 1], [0.0, 1.0, 0.5], 3, [0, 3])
    assert result.bins[0, 2].tolist() == [0.5]
    np.testing.assert_allclose(result.own, [0.0, 1 / 12, -1 / 12, 0.0], atol=1e-15)


@pytest.mark.parametrize("evaluator", [bc.DRns(q=0.05), bc.WC()], ids=lambda evaluator: evaluator.name)
def test_both_jackknives_agree(evaluator: Any) -> None:
    """Standard errors of one log, from 64 passes and from 300 subsets; each is uncertain by about a tenth."""
    passes = bc.evaluate(LOG, bc.EpsilonGreedy(0.2), evaluator, **OPTIONS)
    options = {**OPTIONS, "replicates": 300, "interval": bc.GroupJackknife()}
    groups = bc.evaluate(LOG, bc.EpsilonGreedy(0.2), evaluator, **options)
    assert passes.std_error == pytest.approx(groups.std_error, rel=0.4)
    assert passes.interval is not None
    assert passes.interval.method == "infinitesimal jackknife"
    assert (passes.diagnostics.to_dict()["replicates"], passes.break_even) == (0, None)


def test_a_fixed_policy_has_the_error_of_the_mean_of_event_values() -> None:
    policy = bc.Fixed([0.5, 0.3, 0.2])
    estimate = bc.evaluate(LOG, policy, bc.DRns(q=0.05), **OPTIONS)
    doubly_robust = bc.evaluate(LOG, policy, bc.DR(), reward_model=0.5)
    assert estimate.std_error == pytest.approx(doubly_robust.std_error, rel=0.15)
    assert estimate.influences is not None
    assert doubly_robust.influences is not None
    # the others contain what histories add in 64 passes
    assert np.corrcoef(estimate.influences, doubly_robust.influences)[0, 1] > 0.6


def test_the_curve_has_a_band() -> None:
    curve = bc.evaluate(LOG, bc.EpsilonGreedy(0.2), bc.DRns(q=0.05), **OPTIONS).curve
    assert curve is not None
    assert (curve.low < curve.value).all()


def test_a_lift_and_a_difference_are_paired() -> None:
    policies: dict[str, Any] = {"greedy": bc.EpsilonGreedy(0.2), "less greedy": bc.EpsilonGreedy(0.3)}
    comparison = bc.compare(LOG, policies, bc.DRns(q=0.05), **OPTIONS)
    [difference] = comparison.differences
    first, second = (comparison[name].std_error for name in policies)
    assert difference.std_error < 0.8 * math.hypot(first, second)
    for lift in comparison.lifts.values():
        assert lift.interval.method == "paired infinitesimal jackknife"
