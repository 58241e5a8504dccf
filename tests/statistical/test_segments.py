"""Lifts by segment cover the true ones, for a fixed policy and a learner together."""

from __future__ import annotations

import numpy as np
from scipy import stats

import backcast as bc

MEANS = np.array([[0.3, 0.6], [0.5, 0.4]])  # reward of each action, by segment
SHARES = np.array([0.7, 0.3])
LOGGER = np.array([0.65, 0.35])
LOGS, N, T = 100, 600, 40


# the learner takes both actions in turn, so its value over an even horizon is the mean of both
TRUE = {
    "fixed": MEANS @ [0.2, 0.8] - MEANS @ LOGGER,
    "learner": MEANS @ [0.5, 0.5] - MEANS @ LOGGER,
}


def make_log(seed: int) -> bc.Log:
    rng = np.random.default_rng(seed)
    segment = (rng.random(N) < SHARES[1]).astype(int)
    actions = (rng.random(N) < LOGGER[1]).astype(int)
    rewards = (rng.random(N) < MEANS[segment, actions]).astype(float)
    return bc.Log(
        segment[:, None] * 1.0, actions, rewards, LOGGER[actions], reward_range=(0, 1), segments={"kind": segment}
    )


def test_lifts_by_segment_cover_jointly() -> None:
    policies = {"fixed": bc.Fixed([0.2, 0.8]), "learner": bc.RoundRobin()}
    covered, standardized = 0, []
    for seed in range(LOGS):
        found = bc.compare(
            make_log(seed), policies, bc.ClockReplay(), horizon=T, replicates=8, exchangeable=True, reward_model=0.45
        )
        hits = []
        for segment in found.by_segment("kind"):
            for name, lift in segment.lifts.items():
                truth = TRUE[name][int(segment.name)]
                hits.append(lift.interval.low <= truth <= lift.interval.high)
                standardized.append((lift.value - truth) / lift.std_error)
        covered += all(hits)
    # at a joint coverage of 95 %, fewer than 86 of 100 logs have odds of 1.5e-4
    assert covered >= 86
    assert stats.binom.cdf(85, LOGS, 0.95) < 2e-4
    # 400 deviations, correlated within a log: the mean of 100 independent ones is beyond 0.4 with odds of 6e-5
    assert abs(np.mean(standardized)) < 0.4
    # neither far too wide nor too narrow
    assert 0.75 < np.std(standardized) < 1.25
