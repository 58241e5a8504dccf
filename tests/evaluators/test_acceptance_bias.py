"""Bias estimate of DRns in log order: larger multipliers on the same draws, extrapolated to no bias mass."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import backcast as bc
from backcast._engine.replay import MultiplierSchedule
from backcast._request import EvaluationRequest
from backcast.estimate import POLICY_VALUE, PROGRESSIVE_VALUE, student_quantile
from backcast.evaluators import _acceptance_bias
from backcast.evaluators._acceptance_bias import AcceptanceLevel, extrapolate_bias
from backcast.evaluators._replay import replay_request
from backcast.grading import grade_diagnostics

SHARES = np.array([0.1, 0.9])  # of the logger; the better action is the rare one
MEANS = np.array([0.6, 0.3])
HORIZON = 30


def make_log(n: int, seed: int = 0) -> bc.Log:
    rng = np.random.default_rng(seed)
    actions = (rng.random(n) < SHARES[1]).astype(int)
    rewards = (rng.random(n) < MEANS[actions]).astype(float)
    return bc.Log(None, actions, rewards, SHARES[actions], n_actions=2, reward_range=(0, 1))


LOG = make_log(5_000)


def evaluate(evaluator: Any, policy: Any = None, **options: Any) -> bc.Estimate:
    settings = {"horizon": HORIZON, "reward_model": 0.0, "exchangeable": False, **options}
    return bc.evaluate(settings.pop("log", LOG), policy or bc.UCB1(), evaluator, **settings)


def level(values: list[float], mass: float) -> AcceptanceLevel:
    return AcceptanceLevel(np.array(values), mass)


def test_the_slope_is_fitted_through_the_reported_level() -> None:
    further = [level([0.6, 0.8], 0.2), level([0.9, 1.1], 0.3)]
    bias = extrapolate_bias(level([0.4, 0.6, 0.5], 0.1), further, reward_spread=0.0)
    assert bias is not None
    # increases of 0.1 and 0.2 in mass, of 0.2 and 0.5 in value: slope (0.02 + 0.1) / 0.05
    assert bias.value == pytest.approx(0.1 * 2.4)


def test_it_is_unknown_where_the_mass_hardly_grows_or_trajectories_are_few() -> None:
    reported = level([0.4, 0.6, 0.5], 0.5)
    assert extrapolate_bias(reported, [level([0.4, 0.6, 0.5], 0.7)], 0.5) is None
    assert extrapolate_bias(reported, [level([0.4, 0.6], 1.0)], 0.5) is None
    assert extrapolate_bias(level([0.4] * 9, 0.1), [level([], math.nan)], 0.5) is None


def test_the_error_contains_the_mass() -> None:
    bias = extrapolate_bias(level([0.5] * 3, 0.125), [level([0.5] * 3, 0.5)], reward_spread=0.5)
    assert bias is not None
    assert (bias.value, bias.std_error) == (0.0, 0.0625)


def test_nothing_cut_is_no_bias_without_further_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_acceptance_bias, "LEVELS", (math.nan,))
    estimate = evaluate(bc.WC())
    assert estimate.bias_estimate is not None
    assert (estimate.bias_estimate.value, estimate.bias_estimate.std_error) == (0.0, 0.0)
    half_width = student_quantile(0.95, estimate.diagnostics.trajectories_complete - 1) * estimate.std_error
    assert estimate.interval.half_width == pytest.approx(half_width, rel=1e-12)


def test_values_of_events_without_bias_have_no_estimate() -> None:
    assert evaluate(bc.DRns(acceptance=0.2), bc.Fixed([0.5, 0.5])).bias_estimate is None
    assert evaluate(bc.DRns(acceptance=0.2), horizon=None).bias_estimate is None
    assert evaluate(bc.DRns(q="auto")).bias_estimate is None


def test_a_scaled_schedule_is_that_of_a_larger_multiplier() -> None:
    request = EvaluationRequest(LOG, bc.UCB1(), horizon=HORIZON, reward_model=0.0)
    schedule = MultiplierSchedule(c_max=0.125)
    scaled, larger = (
        replay_request(request, each) for each in (replace(schedule, scale=2.0), replace(schedule, c_max=0.25))
    )
    assert [each.sums for each in scaled.trajectories] == [each.sums for each in larger.trajectories]


def test_every_rule_has_an_estimate() -> None:
    rules = bc.DRns(q=0.05), bc.DRns(q=0.05, warm_up=100, carry=True), bc.DRns(acceptance=bc.Budget(3.0, 500))
    for evaluator in rules:
        bias = evaluate(evaluator).bias_estimate
        assert bias is not None
        assert bias.std_error > 0


def test_it_depends_on_the_seed_alone() -> None:
    def biases(policies: dict[str, Any], n_jobs: int) -> Any:
        options: dict[str, Any] = {"horizon": HORIZON, "exchangeable": False, "n_jobs": n_jobs, "seed": 3}
        return bc.compare(LOG, policies, bc.DRns(acceptance=0.15), **options)["first"].bias_estimate

    alone = biases({"first": bc.UCB1()}, 1)
    assert alone is not None
    assert alone == biases({"first": bc.UCB1(), "second": bc.UCB1(exploration=2.0)}, 2)


def test_it_widens_the_interval_for_the_value_and_is_graded() -> None:
    estimate = evaluate(bc.DRns(acceptance=0.13))
    bias = estimate.bias_estimate
    assert bias is not None
    total = math.hypot(estimate.std_error, bias.size)
    quantile = student_quantile(0.95, estimate.diagnostics.trajectories_complete - 1)
    assert estimate.interval.estimand == POLICY_VALUE
    assert estimate.interval.half_width == pytest.approx(quantile * total, rel=1e-9)
    rows = {row.name: row for row in grade_diagnostics(estimate)}
    assert rows["bias estimate"].grade in ("good", "fair", "poor")
    assert rows["bias certificate"].grade == ""
    assert "bias estimate +0.021 ± 0.079" in " ".join(str(estimate).split())
    assert bc.Estimate.from_dict(estimate.to_dict()) == estimate


def test_an_interval_for_the_progressive_policy_is_not_widened() -> None:
    estimate = evaluate(bc.DRns(acceptance=0.13), interval=bc.Anytime())
    assert estimate.bias_estimate is not None
    assert estimate.interval.estimand == PROGRESSIVE_VALUE
    assert "widened" not in grade_diagnostics(estimate)[0].judgement


def test_segments_have_the_mean_of_their_biases() -> None:
    estimate = evaluate(bc.DRns(acceptance=0.15), interval=bc.Segments(5), log=make_log(20_000))
    assert estimate.bias_estimate is not None
    total = math.hypot(estimate.std_error, estimate.bias_estimate.size)
    assert estimate.interval.half_width == pytest.approx(student_quantile(0.95, 4) * total, rel=1e-9)


def test_the_bias_of_a_known_world_is_found() -> None:
    """The true bias is the difference to the worst-case multiplier, which cuts nothing: about +0.024.

    On 600,000 events its standard error is 0.0041, that of the extrapolation 0.0021. The two differ by more than
    0.018, 3.9 standard errors, in one log of 10,000; an estimate of 0 or of the wrong sign is detected.
    """
    log = make_log(600_000)
    unbiased, cut = evaluate(bc.WC(), log=log), evaluate(bc.DRns(acceptance=0.15), log=log)
    assert cut.bias_estimate is not None
    assert cut.value - unbiased.value > 0.018
    assert abs(cut.bias_estimate.value - (cut.value - unbiased.value)) < 0.018
