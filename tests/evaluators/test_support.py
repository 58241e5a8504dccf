"""What evaluators do where a log supports little or nothing: refuse, or give intervals within the reward range."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import backcast as bc

ONE_ACTION: dict[str, Any] = {
    "actions": [0] * 40,
    "rewards": [1.0, 0.0] * 20,
    "propensities": [0.5] * 40,
    "n_actions": 2,
}
NEVER = bc.Fixed([0, 1])


@pytest.mark.parametrize(
    "evaluator",
    [bc.DR(), bc.IPS(), bc.SNIPS(), bc.SNDR(), bc.DRns(q=0.01), bc.WC(), bc.RS(), bc.Replay(), "auto"],
    ids=lambda evaluator: getattr(evaluator, "name", type(evaluator).__name__),
)
def test_a_policy_that_never_takes_a_logged_action_is_refused(evaluator: Any) -> None:
    log = bc.Log(None, **ONE_ACTION, reward_range=(0, 1))
    with pytest.raises(bc.NoOverlap, match=r"no event|none of 40 events|all 40 events"):
        bc.evaluate(log, NEVER, evaluator)
    with pytest.raises((bc.NoOverlap, bc.HorizonNotReached)):
        bc.evaluate(log, NEVER, bc.ClockReplay(), horizon=5)


@pytest.mark.parametrize("evaluator", [bc.DR(), bc.IPS(), bc.DRns(q=0.01), bc.WC(), bc.RS(), bc.ClockReplay()])
def test_one_event_without_a_range_has_no_interval(evaluator: Any) -> None:
    horizon = 1 if isinstance(evaluator, bc.ClockReplay) else None
    log = bc.Log(None, [0], [1.0], [0.5], n_actions=2)
    assert bc.evaluate(log, bc.Fixed([1, 0]), evaluator, horizon=horizon).interval is None


@pytest.mark.parametrize(
    "evaluator", [bc.IPS(), bc.DR(), bc.SNIPS(), bc.SNDR(), bc.BaselineIPS(), bc.DRns(q=0.01), bc.WC(), bc.RS()]
)
@pytest.mark.parametrize("interval", [None, bc.Segments(2)], ids=["default", "segments"])
def test_value_and_interval_stay_within_the_declared_range(evaluator: Any, interval: Any) -> None:
    for seed in range(12):
        rng = np.random.default_rng(seed)
        actions = (rng.random(24) < 0.3).astype(int)
        rewards = (rng.random(24) < np.array([0.1, 0.9])[actions]).astype(float)
        log = bc.Log(None, actions, rewards, np.array([0.7, 0.3])[actions], n_actions=2, reward_range=(0, 1))
        try:
            estimate = bc.evaluate(log, bc.Fixed([0.05, 0.95]), evaluator, interval=interval, seed=seed)
        except bc.EvaluationError:
            continue
        assert 0 <= estimate.value <= 1
        if estimate.interval is not None:
            assert 0 <= estimate.interval.low <= estimate.value <= estimate.interval.high <= 1


def test_a_value_that_was_moved_into_the_range_says_so() -> None:
    log = bc.Log(None, actions=[0, 0, 0, 1], rewards=[1, 1, 1, 1], propensities=[0.5] * 4, reward_range=(0, 1))
    estimate = bc.evaluate(log, bc.Fixed([1, 0]), bc.IPS())
    # three of four events have weight 2
    assert estimate.value == 1.0
    assert estimate.notes[-1] == (
        "The weighted average is 1.5, outside the reward range 0 to 1; the value is the nearest end of the range."
    )
    # without a declared range nothing is known to be impossible
    unknown = bc.Log(None, actions=[0, 0, 0, 1], rewards=[1, 1, 1, 1], propensities=[0.5] * 4)
    assert bc.evaluate(unknown, bc.Fixed([1, 0]), bc.IPS()).value == 1.5


@pytest.mark.parametrize("evaluator", [bc.IPS(), bc.SNIPS(), bc.DR(), bc.SNDR(), bc.StableVar(), bc.CADR()])
def test_equal_rewards_leave_room_for_what_the_log_missed(evaluator: Any) -> None:
    """Of 20 events of the logger's own policy none is rewarded, which happens one time in three at a rate of 0.05."""
    logging = np.full((20, 2), 0.5)
    log = bc.Log(None, [0, 1] * 10, np.zeros(20), [0.5] * 20, reward_range=(0, 1), logging_probabilities=logging)
    estimate = bc.evaluate(log, bc.Uniform(), evaluator)
    # Clopper and Pearson's upper end is 0.168
    assert (estimate.value, estimate.interval.low) == (0.0, 0.0)
    assert 0.1 < estimate.interval.high < 0.2


def test_rates_of_the_own_policy_are_covered() -> None:
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(200):
        rewards = (rng.random(20) < 0.05).astype(float)
        log = bc.Log(None, rng.integers(2, size=20), rewards, np.full(20, 0.5), reward_range=(0, 1))
        interval = bc.evaluate(log, bc.Uniform(), bc.IPS()).interval
        hits += interval.low <= 0.05 <= interval.high
    # a coverage of 0.95 gives fewer hits once in 1,000 times; without the imagined event it was 0.64
    assert hits >= stats.binom.ppf(1e-3, 200, 0.95)


def test_segments_average_what_was_not_moved() -> None:
    """The mean of segments is unbiased only if none of them is moved into the range before."""
    log = bc.Log(None, [0, 0, 1, 1], [1, 1, 1, 1], [0.5] * 4, reward_range=(0, 1))
    assert bc.evaluate(log, bc.Fixed([0.75, 0.25]), bc.IPS(), interval=bc.Segments(2)).value == 1.0


def test_differences_stay_within_what_the_range_allows() -> None:
    log = bc.Log(None, [0, 1, 0, 1], [1, 0, 1, 0], [0.5] * 4, reward_range=(0, 1))
    [difference] = bc.compare(log, {"a": bc.Fixed([1, 0]), "b": bc.Fixed([0, 1])}, bc.IPS()).differences
    assert (difference.interval.low, difference.interval.high) == (-1.0, 1.0)
