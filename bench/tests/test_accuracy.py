"""The accuracy benchmark: its worlds, its truth, and its scores."""

from __future__ import annotations

import math

import numpy as np
import pytest

import backcast as bc
from bench.accuracy.evaluators import (
    BUDGET,
    CONSTANT,
    DEFAULT,
    ONE_PASS,
    PAPER,
    PRESET,
    RecordedEstimate,
    evaluate_as_published,
    evaluate_default,
)
from bench.accuracy.live import Truth, estimate_truth
from bench.accuracy.open_problem import ACTIONS, POLICIES, WORLD, count_rounds
from bench.accuracy.settings import Setting, list_settings
from bench.accuracy.tables import describe_goals, extremes_table, find_row, score_setting, steps_table
from bench.accuracy.worlds import LOGGERS, make_world
from bench.reproduction.protocol import Case


@pytest.mark.parametrize("logging", LOGGERS)
def test_a_converted_set_is_logged_with_known_probabilities(logging: str) -> None:
    world = make_world("digits", logging, None)
    log = world.log(400, np.random.default_rng(0))
    probabilities = log.logging_probabilities
    assert probabilities is not None
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    np.testing.assert_array_equal(log.propensities, probabilities[np.arange(400), log.actions])
    assert log.n_actions == 10
    assert log.n_features == 16


def test_truth_of_a_policy_that_cannot_learn() -> None:
    world = make_world("lopsided", "uniform", None)
    _, means = world.table(200_000, np.random.default_rng(1))
    truth = estimate_truth(world, bc.EpsilonGreedy(1.0), horizon=20, runs=50, seed=0)
    # both are averages over contexts; 5 standard errors, odds of a false alarm below 1e-6
    error = math.hypot(truth.error, float(means.mean(axis=1).std()) / math.sqrt(len(means)))
    assert abs(truth.value - means.mean()) < 5 * error
    assert truth.sd_live > truth.sd_value


def test_the_yardstick_and_the_live_limit_are_sums_of_squares() -> None:
    truth = Truth(value=0.5, error=0.0, sd_live=0.2, sd_value=0.1)
    assert truth.live_limit(events=400, horizon=4) == pytest.approx(0.02)
    assert truth.yardstick(spread=0.0, events=400, histories=100) == pytest.approx(0.01)
    assert truth.yardstick(spread=0.6, events=400, histories=4) == pytest.approx(math.hypot(0.03, 0.05))


SETTING = Setting("straight", "paper", "LinUCB", events=400, horizon=4)


def test_a_row_is_scored_by_hand() -> None:
    default = [
        RecordedEstimate(0.6, 0.4, 0.7, 1.0, 1.0, 0.0, 0.6, 3.0),
        RecordedEstimate(0.4, 0.3, 0.45, 3.0, 1.0, 0.0, 0.6, 6.0),
    ]
    rs = [RecordedEstimate(0.9, seconds=1.0, complete=0.0), RecordedEstimate(math.nan, seconds=1.0, complete=0.0)]
    trials = [{DEFAULT: a, "RS": b} for a, b in zip(default, rs, strict=True)]
    rows = score_setting(SETTING, Truth(0.5, 0.0, 0.2, 0.1), trials)
    row = find_row(rows, DEFAULT)
    assert (row.logs, row.coverage, row.seconds, row.complete) == (2, 0.5, 2.0, 1.0)
    assert row.rmse == pytest.approx(0.1)
    assert row.efficiency == pytest.approx(5.0)
    # histories share 1/3 and 1/6 of their events: a quarter on average
    assert row.to_yardstick == pytest.approx(0.1 / math.hypot(0.03, 0.05))
    assert row.to_live_yardstick == pytest.approx(0.1 / math.hypot(0.03, 0.01))
    assert find_row(rows, "RS").logs == 1


def test_a_call_without_an_interval_is_not_covered() -> None:
    estimates = [RecordedEstimate(0.5, 0.4, 0.6, 1.0, 1.0, 0.0, 0.6, 3.0), RecordedEstimate(math.nan, complete=0.0)]
    (row,) = score_setting(SETTING, Truth(0.5, 0.0, 0.2, 0.1), [{DEFAULT: each} for each in estimates])
    assert (row.coverage, row.logs) == (0.5, 1)


def test_steps_and_extremes_are_ratios_to_the_best_published_evaluator() -> None:
    values = {"DRns(q=0.01)": 0.54, ONE_PASS: 0.53, PRESET: 0.52, CONSTANT: 0.55, DEFAULT: 0.51}
    estimates = {name: RecordedEstimate(v, 0.4, 0.6, 1.0, 1.0, 0.0, 0.6, 4.0) for name, v in values.items()}
    truth = Truth(0.5, 0.0, 0.2, 0.1)
    tables = {SETTING: (truth, score_setting(SETTING, truth, [estimates, estimates]))}
    assert steps_table(tables).splitlines()[-1] == "| paper | 1 | 0.75 | 0.50 | 0.25 | 1.25 |"
    assert (
        "| coverage | 1.00 (straight, paper, LinUCB, T = 4) | 1.00 (straight, paper, LinUCB, T = 4) |"
        in extremes_table(tables)
    )


def test_missed_goals_are_listed() -> None:
    estimates = {
        DEFAULT: RecordedEstimate(0.6, 0.4, 0.7, 1.0, 1.0, 0.0, 0.6, 4.0),
        "DRns(q=0.01)": RecordedEstimate(0.52, seconds=1.0),
        BUDGET: RecordedEstimate(0.56, seconds=1.0),
    }
    rows = score_setting(SETTING, Truth(0.5, 0.0, 0.2, 0.1), [estimates, estimates])
    text = describe_goals({SETTING: (Truth(0.5, 0.0, 0.2, 0.1), rows)})
    assert text.count("in 0 of 1 settings; missed in straight/paper/LinUCB.") == 5


def test_every_policy_is_combined_with_every_logger() -> None:
    combinations = {(setting.logging, setting.policy) for setting in list_settings(None)}
    assert len(combinations) == 12
    assert len({setting.world for setting in list_settings(None)}) >= 6


def test_evaluators_run_on_a_log_of_the_benchmark() -> None:
    log = make_world("straight", "uniform", None).log(800, np.random.default_rng(0))
    case = Case(log, bc.UCB1(), 8, 0)
    estimates = {**evaluate_as_published(case), DEFAULT: evaluate_default(case)}
    assert list(estimates) == [*PAPER, DEFAULT]
    assert all(0 <= estimate.value <= 1 for estimate in estimates.values())
    assert estimates[DEFAULT].low < estimates[DEFAULT].value < estimates[DEFAULT].high


def test_clock_replay_of_round_robin_uses_nearly_the_whole_log() -> None:
    log = WORLD.log(600, np.random.default_rng(0))
    rounds = count_rounds(log, POLICIES["round robin"], seed=0)
    # matches are binomial(n, 1/K): six standard deviations
    assert abs(rounds["Replay"] - 600 / ACTIONS) < 6 * math.sqrt(600 * 0.09)
    # it stops at the turn of an action whose events are all used
    counts = np.bincount(log.actions, minlength=ACTIONS)
    assert rounds["until nothing fires"] == min(ACTIONS * count + action for action, count in enumerate(counts))
