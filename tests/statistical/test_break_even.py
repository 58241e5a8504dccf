"""Break-even and payback rounds, and values after learning, cover what many live runs show."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import stats

import backcast as bc

MEANS, LOGGING = np.array([0.1, 0.4, 0.9]), np.array([0.1, 0.25, 0.65])
BASELINE = float(MEANS @ LOGGING)
EVENTS, HORIZON, BATCH, LOGS, LEVEL = 2_000, 150, 10, 60, 0.95
ALARM = 1e-3  # odds of a false alarm of one assertion on coverage


class Leaning:
    """Plays each action in proportion to one more than what it has earned; learns from ten rounds at a time."""

    batch_size = BATCH

    def __init__(self) -> None:
        self.table = np.ones(MEANS.size)

    def probabilities(self, contexts: Any, available: Any = None) -> Any:
        return np.tile(self.table / self.table.sum(), (contexts.shape[0], 1))

    def learn(self, contexts: Any, actions: Any, rewards: Any, probabilities: Any) -> None:
        np.add.at(self.table, actions, rewards)


def live_curve(runs: int = 40_000) -> Any:
    """V_t by many live runs at once; the standard error is below 0.001."""
    rng = np.random.default_rng(0)
    table, rows, curve = np.ones((runs, MEANS.size)), np.arange(runs), np.empty(HORIZON)
    for start in range(0, HORIZON, BATCH):
        chances = table / table.sum(axis=1, keepdims=True)
        curve[start : start + BATCH] = (chances @ MEANS).mean()
        for _ in range(BATCH):
            actions = (rng.random((runs, 1)) > chances.cumsum(axis=1)[:, :-1]).sum(axis=1)
            table[rows, actions] += rng.random(runs) < MEANS[actions]
    return curve


class Truth(NamedTuple):
    """The curve, and the rounds after the last one that is not above: of gains, and of sums of gains."""

    curve: Any
    round: int
    payback: int


@pytest.fixture(scope="module")
def truth() -> Truth:
    curve = live_curve()
    gain = curve - BASELINE
    return Truth(curve, *(int(np.flatnonzero(each <= 0)[-1]) + 2 for each in (gain, gain.cumsum())))


@pytest.fixture(scope="module")
def estimates() -> list[bc.Estimate]:
    rng = np.random.default_rng(1)
    found = []
    for _ in range(LOGS):
        actions = rng.choice(MEANS.size, size=EVENTS, p=LOGGING)
        rewards = (rng.random(EVENTS) < MEANS[actions]).astype(float)
        log = bc.Log(None, actions, rewards, LOGGING[actions], n_actions=MEANS.size, reward_range=(0, 1))
        found.append(
            bc.evaluate(log, Leaning(), bc.ClockReplay(), horizon=HORIZON, reward_model=0.5, replicates=12, level=LEVEL)
        )
    return found


def covers(interval: bc.RoundInterval, true: int) -> bool:
    low, high = (HORIZON + 1 if end is None else end for end in (interval.low, interval.high))
    return low <= true <= high


def test_the_true_curve_crosses_within_the_horizon(truth: Truth) -> None:
    assert 1 < truth.round < truth.payback < HORIZON
    assert (np.diff(truth.curve) >= 0).all()


def test_intervals_of_rounds_cover(truth: Truth, estimates: list[bc.Estimate]) -> None:
    least = stats.binom.ppf(ALARM, LOGS, LEVEL)
    found = [estimate.break_even for estimate in estimates]
    assert sum(covers(each.interval, truth.round) for each in found if each is not None) >= least
    assert sum(covers(each.payback_interval, truth.payback) for each in found if each is not None) >= least


def test_intervals_of_rounds_are_informative(truth: Truth, estimates: list[bc.Estimate]) -> None:
    """Half of them are two-sided and shorter than half of the horizon; the estimates are around the truth."""
    found = [estimate.break_even for estimate in estimates if estimate.break_even is not None]
    lengths = [
        (HORIZON if each.interval.high is None else each.interval.high) - (each.interval.low or HORIZON)
        for each in found
    ]
    assert np.median(lengths) < HORIZON / 2
    rounds, paybacks = (np.median([getattr(each, key) or HORIZON for each in found]) for key in ("round", "payback"))
    assert abs(rounds - truth.round) <= 2 * BATCH
    assert abs(paybacks - truth.payback) <= 3 * BATCH


def test_values_after_learning_cover(truth: Truth, estimates: list[bc.Estimate]) -> None:
    least = stats.binom.ppf(ALARM, LOGS, LEVEL)
    after = [estimate.after_learning for estimate in estimates if estimate.after_learning is not None]
    last = [float(truth.curve[each.first_round - 1 :].mean()) for each in after]
    assert sum(each.interval.low <= true <= each.interval.high for each, true in zip(after, last, strict=True)) >= least
    ends = [each.end_interval for each in after if each.end_interval is not None]
    assert sum(each.low <= truth.curve[-1] <= each.high for each in ends) >= least
    # wrong by design would be the average over all rounds: it is smaller than the value after learning
    assert all(each.value > estimate.value for each, estimate in zip(after, estimates, strict=True))
