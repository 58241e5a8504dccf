"""Clock replay on the parts of a stream: right on average, with intervals that hold, agreeing with the whole log."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import backcast as bc
from tests.support.tabular import TabularWorld

ALARM = 1e-3  # odds of a false alarm of one test
WORLD = TabularWorld([0.4, 0.6], mean_rewards=[[0.7, 0.3], [0.2, 0.6]], logging=[[0.75, 0.25], [0.4, 0.6]])
HORIZON, EVENTS, LOGS = 5, 800, 60


def found_on(number: int, policies: dict[str, Any]) -> Any:
    log = WORLD.log(EVENTS, np.random.default_rng(500 + number))
    return bc.compare(
        bc.LogStream.from_logs([log]), policies, bc.ClockReplay(), horizon=HORIZON, reward_model=0.5, seed=number
    )


@pytest.fixture(scope="module")
def answers() -> list[Any]:
    return [found_on(number, {"ucb": bc.UCB1(), "fixed": bc.Fixed([0.5, 0.5])}) for number in range(LOGS)]


def covered(intervals: list[Any], truth: float) -> int:
    return sum(item.low <= truth <= item.high for item in intervals)


@pytest.mark.parametrize("name", ["ucb", "fixed"])
def test_values_are_right_on_average_and_intervals_hold_the_truth(answers: list[Any], name: str) -> None:
    truth = WORLD.learning_value(bc.UCB1() if name == "ucb" else bc.Fixed([0.5, 0.5]), HORIZON)
    selected = [result.estimates[name] for result in answers]
    values, errors = np.array([item.value for item in selected]), np.array([item.std_error for item in selected])
    surprise = (values.mean() - truth) / stats.sem(values)
    assert abs(surprise) < stats.norm.isf(ALARM / 2)
    # odds of fewer with true coverage of 0.95
    assert covered([item.interval for item in selected], truth) >= stats.binom.ppf(ALARM, LOGS, 0.95)
    # nor do they cover by being wide: the mean variance is that over logs, up to chance in 60 of them
    low, high = values.var(ddof=1) * (LOGS - 1) / stats.chi2.ppf(np.array([1 - ALARM, ALARM]), LOGS - 1)
    assert 0.9 * low < np.mean(errors**2) < 1.1 * high


def test_differences_are_paired_by_part(answers: list[Any]) -> None:
    truth = WORLD.learning_value(bc.UCB1(), HORIZON) - WORLD.learning_value(bc.Fixed([0.5, 0.5]), HORIZON)
    gaps = [result.differences[0] for result in answers]
    assert covered([gap.interval for gap in gaps], truth) >= stats.binom.ppf(ALARM, LOGS, 0.95)
    # common events and thresholds: a difference is surer than two values that have nothing in common
    apart = [sum(item.std_error**2 for item in result.estimates.values()) for result in answers]
    assert np.mean([gap.std_error**2 for gap in gaps]) < 0.9 * np.mean(apart)


def test_parts_agree_with_the_log_in_memory() -> None:
    log = WORLD.log(4000, np.random.default_rng(9))
    options: dict[str, Any] = {"horizon": HORIZON, "reward_model": 0.5}
    parts = bc.evaluate(bc.LogStream.from_logs([log]), bc.UCB1(), bc.ClockReplay(), **options)
    whole = bc.evaluate(log, bc.UCB1(), bc.ClockReplay(), replicates=200, **options)
    # the same events: they differ by the Monte-Carlo errors of both, and by chance less often than once in a thousand
    apart = np.hypot(parts.diagnostics.to_dict()["monte_carlo_error"], whole.diagnostics.to_dict()["monte_carlo_error"])
    assert abs(parts.value - whole.value) < stats.t.isf(ALARM / 2, 15) * apart
    assert parts.std_error == pytest.approx(whole.std_error, rel=0.6)  # known from nine and from 29 degrees of freedom
