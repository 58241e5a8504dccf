"""A planned log distinguishes policies with the planned power.

Two actions chosen by a fair coin that pay with probability .35 and .65. The policies compared hardly ever agree, so
that one pilot estimates the error of their difference well; for policies that nearly agree it does much worse.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from scipy import stats

import backcast as bc
from tests.support.tabular import TabularWorld

CHANCES = np.array([0.35, 0.65])
HORIZON = 6


def log(events: int, seed: int, chances: Any = CHANCES) -> bc.Log:
    rng = np.random.default_rng(seed)
    actions = rng.integers(2, size=events)
    rewards = (rng.random(events) < chances[actions]).astype(float)
    return bc.Log(None, actions, rewards, np.full(events, 0.5), n_actions=2, reward_range=(0, 1))


def separated(comparisons: Iterable[bc.Comparison]) -> int:
    """How often the interval of the difference lies above 0."""
    return sum(comparison.differences[0].interval.low > 0 for comparison in comparisons)


def assert_as_likely(hits: int, runs: int, chance: float, slack: float) -> None:
    """A binomial count, where the chance may be off by the slack; a false alarm comes once in 500 times at most."""
    low = stats.binom.ppf(1e-3, runs, chance - slack)
    high = stats.binom.ppf(1 - 1e-3, runs, min(chance + slack, 1))
    assert low <= hits <= high


@pytest.mark.parametrize("power", [0.5, 0.8])
def test_fixed_policies(power: float) -> None:
    # The difference is .1, so that hundreds of events are needed. At 400 the interval's allowance for a missed event is
    # .006, an eighth of the standard error: without it in the plan the power would be .05 smaller at .5, and .04 at .8.
    policies = {"second": bc.Fixed([0, 1]), "first": bc.Fixed([1, 0])}

    def compared(events: int, seed: int) -> bc.Comparison:
        return bc.compare(log(events, seed, np.array([0.45, 0.55])), policies, bc.DR(), reward_model=0.5)

    events = bc.plan(compared(20_000, 1), 0.1, power=power).needs[0].events
    hits = separated(compared(events, 100 + seed) for seed in range(300))
    # the pilot has the spread to 0.5 %, which is 0.005 of power
    assert_as_likely(hits, 300, power, 0.01)


def test_a_policy_that_learns() -> None:
    # The pilot knows the spread as well as a chi-square with 29 degrees of freedom does, to 13 %: .1 of power.
    policies: dict[str, Any] = {"learner": bc.UCB1(0.5), "first": bc.Fixed([1, 0])}
    learned, first = (TabularWorld([1.0], [CHANCES]).learning_value(policy, HORIZON) for policy in policies.values())

    def compared(events: int, seed: int) -> bc.Comparison:
        options: dict[str, Any] = {"horizon": HORIZON, "replicates": 120, "seed": seed}
        return bc.compare(log(events, seed), policies, bc.ClockReplay(), **options)

    events = bc.plan(compared(600, 1), learned - first).needs[0].events
    hits = separated(compared(events, 100 + seed) for seed in range(40))
    assert_as_likely(hits, 40, 0.8, 0.1)


def test_intervals_of_policies_that_nearly_agree_are_not_too_short() -> None:
    # In six rounds of two actions UCB1 does little else than an even choice. 60 logs; 95 % intervals that cover 91 %
    # of the time would be taken for wrong once in a thousand times, and the spread of 60 values is known to 9 %.
    policies: dict[str, Any] = {"learner": bc.UCB1(), "even": bc.Uniform()}
    truth = TabularWorld([1.0], [CHANCES]).learning_value(policies["learner"], HORIZON) - CHANCES.mean()
    options: dict[str, Any] = {"horizon": HORIZON, "replicates": 120}
    differences = [
        bc.compare(log(600, 1000 + seed), policies, bc.ClockReplay(), seed=seed, **options).differences[0]
        for seed in range(60)
    ]
    covered = sum(difference.interval.low <= truth <= difference.interval.high for difference in differences)
    assert covered >= stats.binom.ppf(1e-3, len(differences), 0.91)
    spread = np.std([difference.value for difference in differences], ddof=1)
    assert np.sqrt(np.mean([difference.std_error**2 for difference in differences])) > 0.75 * spread
