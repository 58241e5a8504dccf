"""What evaluator="auto" chooses and why, and that it warns of drift where `check` does."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import backcast as bc
from backcast._auto import resolve_evaluator
from backcast._request import EvaluationRequest
from backcast.checks import check
from backcast.environments import LinearEnvironment
from backcast.errors import DriftWarning
from backcast.log import replace_columns
from bench.accuracy.adaptive import Setting

LOG = LinearEnvironment(3, 4, logistic=True).log(2000, np.random.default_rng(0))


def choose(
    policy: Any, log: Any = LOG, exchangeable: bool | None = None, **options: Any
) -> tuple[Any, EvaluationRequest, str]:
    request = EvaluationRequest(log, policy, **{"replicates": "default", "horizon": 40, **options})
    evaluator, request, (note, *_) = resolve_evaluator("auto", request, [policy], exchangeable)
    assert note.startswith("auto chose")
    return evaluator, request, note


def test_a_fixed_policy_gets_doubly_robust_weighting() -> None:
    evaluator, _, note = choose(bc.Uniform())
    assert isinstance(evaluator, bc.DR)
    assert "fixed" in note


@pytest.mark.parametrize(
    "policy", [bc.EpsilonGreedy(0.1), bc.LinUCB(), bc.UCB1(), bc.EpsilonGreedy(0.1, batch_size=15)]
)
def test_a_learning_policy_on_an_exchangeable_log_gets_clock_replay(policy: Any) -> None:
    evaluator, request, note = choose(policy)
    assert isinstance(evaluator, bc.ClockReplay)
    assert isinstance(request.reward_model, bc.CrossFit)
    assert request.replicates == "auto"
    assert "exchangeable" in note


def test_a_policy_that_is_slow_to_score_gets_permutations() -> None:
    evaluator, request, note = choose(bc.LinearThompson(), horizon=600, time_budget=0.1)
    assert evaluator == bc.DRns.recommended(len(LOG))
    assert request.replicates == "auto"
    assert "too long with this policy" in note
    assert isinstance(choose(bc.LinearThompson(), horizon=1000)[0], bc.ClockReplay)


@pytest.mark.parametrize("records_all", [True, False])
def test_a_fixed_policy_on_a_log_that_is_not_exchangeable(records_all: bool) -> None:
    log = LOG if records_all else replace_columns(LOG, logging_probabilities=None)
    evaluator, _, note = choose(bc.Uniform(), log, exchangeable=False)
    assert evaluator == (bc.StableVar() if records_all else bc.CADR())
    assert "not exchangeable (as given)" in note
    interval = bc.evaluate(log, bc.Uniform(), exchangeable=False).interval
    assert interval.assumption == "asymptotic martingale"
    streamed = bc.evaluate([log[:1000], log[1000:]], bc.Uniform(), exchangeable=False)
    assert streamed.evaluator == evaluator.name
    assert isinstance(choose(bc.Uniform(), log, exchangeable=True)[0], bc.DR)


def test_a_policy_of_logged_actions_alone_gets_cadr() -> None:
    class Even:
        def probability_of(self, contexts: Any, actions: Any) -> Any:
            return np.full(len(actions), 1 / 3)

    assert bc.evaluate(LOG, Even(), exchangeable=False, reward_model=0.5).evaluator == "CADR"


def test_no_interval_in_log_order_assumes_independent_draws() -> None:
    for horizon in (20, 200):
        estimate = bc.evaluate(LOG, bc.UCB1(), horizon=horizon, exchangeable=False)
        assert estimate.interval.assumption in ("martingale", "asymptotic martingale")


def thompson_log() -> bc.Log:
    return Setting("Thompson", 4_000, 3, 3).make_log(0)


def test_in_log_order_a_rule_is_chosen_that_the_certificate_accepts() -> None:
    log = thompson_log()
    usual: Any = bc.evaluate(log, bc.UCB1(), bc.DRns.recommended(len(log)), horizon=50)
    estimate: Any = bc.evaluate(log, bc.UCB1(), horizon=50, exchangeable=False)
    rejected = usual.diagnostics.bias_certificate
    assert rejected > 0.5
    assert estimate.diagnostics.bias_certificate <= 0.2
    assert f"the bias certificate would be {rejected:.3g}" in estimate.notes[0]


def test_a_horizon_that_the_log_does_not_support_is_refused_with_one_that_it_does() -> None:
    log = thompson_log()
    with pytest.raises(bc.HorizonNotReached, match="supports a horizon of about") as caught:
        bc.evaluate(log, bc.UCB1(), horizon=1_000, exchangeable=False)
    supported = int(re.findall(r"about (\d+) rounds", str(caught.value))[0])
    shorter: Any = bc.evaluate(log, bc.UCB1(), horizon=supported, exchangeable=False)
    assert shorter.diagnostics.bias_certificate <= 0.2


def test_a_log_declared_not_exchangeable_is_evaluated_in_order() -> None:
    evaluator, request, note = choose(bc.LinUCB(), exchangeable=False)
    assert isinstance(evaluator, bc.DRns)
    assert isinstance(request.reward_model, bc.Progressive)
    assert request.replicates is None
    assert "not exchangeable" in note


def test_options_of_the_caller_are_left_unchanged() -> None:
    _, request, _ = choose(bc.LinUCB(), reward_model=0.5, replicates=None)
    assert request.reward_model == 0.5
    assert request.replicates is None


# Drift

Rng = np.random.Generator


def make_log(rewards: Any, rng: Rng, actions: Any = None, propensities: Any = 0.5, **columns: Any) -> bc.Log:
    n = len(rewards)
    actions = rng.integers(2, size=n) if actions is None else actions
    return bc.Log(None, actions, rewards, np.broadcast_to(propensities, n), n_actions=2, **columns)


def without_drift(rng: Rng) -> bc.Log:
    return make_log(rng.normal(size=1000), rng)


def falling_rewards(rng: Rng) -> bc.Log:
    return make_log(rng.random(1000) < np.linspace(0.9, 0.1, 1000), rng)


def falling_rewards_in_few_events(rng: Rng) -> bc.Log:
    return make_log(rng.normal(size=120) - np.linspace(0, 5, 120), rng)


def falling_rewards_in_too_few_events(rng: Rng) -> bc.Log:
    return make_log(rng.normal(size=99) - np.linspace(0, 5, 99), rng)


def falling_rewards_of_very_different_actions(rng: Rng) -> bc.Log:
    actions = rng.integers(2, size=1000)
    return make_log(100 * actions - np.linspace(0, 1, 1000) + 0.5 * rng.normal(size=1000), rng, actions)


def rewards_that_change_places(rng: Rng) -> bc.Log:
    """One action becomes better, the other worse; the mean reward stays the same."""
    actions = rng.integers(2, size=1000)
    better = actions == (np.arange(1000) < 500)
    return make_log(rng.random(1000) < np.where(better, 0.8, 0.2), rng, actions)


def rewards_that_depend_on_the_last(rng: Rng) -> bc.Log:
    noise = rng.normal(size=1000)
    return make_log(noise + 0.8 * np.roll(noise, 1), rng)


def another_logger_at_half_time(rng: Rng) -> bc.Log:
    probability = np.where(np.arange(1000) < 500, 0.3, 0.7)
    actions = (rng.random(1000) < probability).astype(int)
    return make_log(rng.normal(size=1000), rng, actions, np.where(actions == 1, probability, 1 - probability))


def drift_in_time_of_a_shuffled_log(rng: Rng) -> bc.Log:
    times = rng.permutation(1000)
    return make_log(rng.normal(size=1000) - times / 200, rng, times=times)


def rare_rewards_without_drift(rng: Rng) -> bc.Log:
    return make_log(rng.random(10_000) < 0.02, rng)


CASES: list[tuple[Callable[[Rng], bc.Log], set[str]]] = [
    (without_drift, set()),
    (rare_rewards_without_drift, set()),
    (falling_rewards, {"reward_drift"}),
    (falling_rewards_in_few_events, {"reward_drift"}),
    (falling_rewards_in_too_few_events, set()),
    (falling_rewards_of_very_different_actions, {"reward_drift"}),
    (rewards_that_change_places, {"reward_drift"}),
    (rewards_that_depend_on_the_last, {"reward_drift"}),
    (another_logger_at_half_time, {"logger_drift"}),
    (drift_in_time_of_a_shuffled_log, {"reward_drift"}),
]


# Without drift an alarm has odds of about 2 in 100,000 per log; with drift each is missed less than once in 1,000 logs.
@pytest.mark.parametrize(("make", "expected"), CASES, ids=lambda case: getattr(case, "__name__", ""))
def test_evaluate_warns_exactly_where_check_reports_drift(make: Any, expected: set[str]) -> None:
    log = make(np.random.default_rng(0))
    reported = {name for name in ("logger_drift", "reward_drift") if check(log)[name].verdict == "warn"}
    assert reported == expected
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        evaluator, _, _ = choose(bc.UCB1(), log, horizon=5)
    assert [warning.category for warning in caught] == [DriftWarning] * bool(expected)
    assert isinstance(evaluator, bc.DRns if expected else bc.ClockReplay)


def test_the_warning_can_be_overridden() -> None:
    log = falling_rewards(np.random.default_rng(0))
    with pytest.warns(DriftWarning, match="rewards drift along the log, .* evaluated in log order"):
        assert isinstance(choose(bc.UCB1(), log)[0], bc.DRns)
    with pytest.warns(DriftWarning, match="its order may matter$"):
        assert isinstance(choose(bc.UCB1(), log, exchangeable=True)[0], bc.ClockReplay)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        choose(bc.UCB1(), log, exchangeable=False)


def test_the_warning_points_at_the_caller() -> None:
    with pytest.warns(DriftWarning) as caught:
        bc.evaluate(falling_rewards(np.random.default_rng(0)), bc.UCB1(), horizon=5)
    assert caught[0].filename == __file__
