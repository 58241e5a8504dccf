"""One run seen from close by is the run that was evaluated, and adds up."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import backcast as bc
from backcast.replay_summary import N_BLOCKS, WEIGHT_EDGES

K = 3


@pytest.fixture(scope="module")
def log(make_log: Any) -> Any:
    return make_log("dense", n=600, n_actions=K, seed=3)


def seen(estimate: bc.Estimate) -> bc.ReplaySummary:
    replay_summary = estimate.replay_summary()
    assert replay_summary is not None
    return replay_summary


EVALUATORS: list[tuple[str, Any, dict[str, Any]]] = [
    ("DRns", bc.DRns(q=0.05), {"horizon": 20}),
    ("DRns warmed up", bc.DRns(q=0.05, warm_up=50), {"horizon": 20}),
    ("DRns permuted", bc.DRns(q=0.05), {"horizon": 20, "replicates": 60}),
    ("WC", bc.WC(), {"horizon": 5}),
    ("RS", bc.RS(), {"horizon": 5}),
    ("ClockReplay", bc.ClockReplay(), {"horizon": 20, "replicates": None}),
]


@pytest.mark.parametrize(("name", "evaluator", "options"), EVALUATORS, ids=[case[0] for case in EVALUATORS])
class TestRuns:
    def test_shares_add_up(self, log: bc.Log, name: str, evaluator: Any, options: dict[str, Any]) -> None:
        result = seen(bc.evaluate(log, bc.UCB1(), evaluator, **options))
        assert result.taken is not None
        np.testing.assert_allclose([result.logged.sum(), result.taken.sum(), result.weights.shares.sum()], 1.0)
        np.testing.assert_array_equal(result.logged, np.bincount(log.actions, minlength=K) / len(log))
        assert result.actions == tuple(map(str, log.action_labels))

    def test_same_estimate_same_passage(self, log: bc.Log, name: str, evaluator: Any, options: dict[str, Any]) -> None:
        estimate = bc.evaluate(log, bc.UCB1(), evaluator, **options)
        first, other = seen(estimate), seen(estimate)
        np.testing.assert_array_equal(first.accepted, other.accepted)
        np.testing.assert_array_equal(first.taken, other.taken)

    def test_as_many_are_accepted_as_stretches_say(
        self, log: bc.Log, name: str, evaluator: Any, options: dict[str, Any]
    ) -> None:
        estimate = bc.evaluate(log, bc.UCB1(), evaluator, **options)
        result = seen(estimate)
        assert result.accepted.size == result.ends.size <= N_BLOCKS
        accepted = float(result.accepted @ np.diff(result.ends, prepend=0))
        facts = estimate.diagnostics.to_dict()
        if name != "DRns permuted":
            # one run's acceptances, as the evaluation counted them
            assert round(accepted) == facts.get("accepted", facts.get("rounds"))


def test_weights_are_those_of_the_evaluation(log: bc.Log) -> None:
    estimate = bc.evaluate(log, bc.LinUCB(), bc.DRns(q=0.05), horizon=20)
    result, facts = seen(estimate), estimate.diagnostics.to_dict()
    assert result.weights.effective_sample_size == pytest.approx(facts["effective_sample_size"])
    assert result.weights.largest == pytest.approx(facts["largest_weight"])
    assert result.in_order


def test_the_clock_shows_the_first_pass_of_its_value(log: bc.Log) -> None:
    result = seen(bc.evaluate(log, bc.UCB1(), bc.ClockReplay(), horizon=400, replicates=None))
    assert result.rounds[-1] == 400
    assert (np.diff(result.exhausted) >= 0).all()
    assert result.multiplier.size == 0


def test_a_fixed_policy_shows_its_own_probabilities(log: bc.Log) -> None:
    result = seen(bc.evaluate(log, bc.Fixed([0.5, 0.25, 0.25]), bc.DR()))
    assert result.taken == pytest.approx([0.5, 0.25, 0.25])
    assert result.accepted.size == result.rounds.size == 0


def test_a_policy_that_tells_one_probability_shows_no_actions(log: bc.Log) -> None:
    class First:
        def probability_of(self, contexts: Any, actions: Any) -> Any:
            return (actions == 0).astype(float)

    result = seen(bc.evaluate(log, First(), bc.IPS()))
    assert result.taken is None
    assert result.weights.shares[0] == pytest.approx((log.actions != 0).mean())


@pytest.mark.parametrize(
    ("policy", "evaluator"), [(bc.UCB1(), bc.DRns(q="auto")), (bc.UCB1(), bc.DM())], ids=["tuned", "model"]
)
def test_where_there_is_no_single_run_there_is_nothing_to_see(log: bc.Log, policy: Any, evaluator: Any) -> None:
    assert bc.evaluate(log, policy, evaluator, horizon=10).replay_summary() is None


def test_comparisons_can_be_looked_into_and_sent_elsewhere(log: bc.Log) -> None:
    result = bc.compare(log, {"a": bc.UCB1(), "b": bc.Uniform()}, horizon=20, replicates=60)
    assert pickle.loads(pickle.dumps(result)).estimates["a"].replay_summary() is None  # the log does not travel
    before = {name: seen(result.estimates[name]) for name in ("a", "b")}
    again = pickle.loads(pickle.dumps(result))
    for name in ("a", "b"):
        np.testing.assert_array_equal(before[name].taken, seen(again.estimates[name]).taken)
    assert seen(result.estimates["b"]).taken == pytest.approx([1 / K] * K)


def test_reward_range_and_reward_model_are_among_the_settings(log: bc.Log) -> None:
    settings = bc.evaluate(log, bc.Uniform(), bc.DR(), reward_model=bc.CrossFit(bc.Constant())).settings
    assert settings["reward_range"] == [0.0, 1.0]
    assert settings["reward_model"] == repr(bc.CrossFit(bc.Constant()))
    given = bc.evaluate(log, bc.Uniform(), bc.DR(), reward_model=np.zeros((600, K))).settings
    assert given["reward_model"] == "predictions given, 600 by 3"


def test_weight_classes_double() -> None:
    assert np.allclose(np.diff(np.log2(WEIGHT_EDGES)), 1)
