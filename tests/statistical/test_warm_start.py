"""The value of a policy that was trained on a part of the log, against running it live from there."""

from __future__ import annotations

import numpy as np
from scipy import stats

import backcast as bc
from backcast.environments import LinearEnvironment
from backcast.environments.live import coin_flips, run_live
from backcast.policies.wrappers import train_policy

WORLD = LinearEnvironment(3, 4, logistic=True, spread=0.5)
POLICY = bc.EpsilonGreedy(0.1, batch_size=5)
EVENTS, TRAINING, HORIZON, LOGS = 600, 150, 25, 40


def test_intervals_cover_the_live_value_of_the_trained_policy() -> None:
    covered, gains, errors = 0, [], []
    for number in range(LOGS):
        rng = np.random.default_rng(number)
        log = WORLD.log(EVENTS, rng)
        estimate = bc.evaluate(log, bc.WarmStart(POLICY, share=TRAINING / EVENTS), horizon=HORIZON, replicates=32)
        contexts, means = WORLD.table(2000, rng)
        trained = train_policy(POLICY, log[:TRAINING], rng)
        live, cold = (
            run_live(contexts, means, each, horizon=HORIZON, runs=60, rng=rng, draw=coin_flips)
            for each in (trained, POLICY)
        )
        # the live value is known up to an error of about a third of that of the estimate, which is added
        half_width = np.hypot(estimate.interval.half_width, stats.norm.isf(0.025) * stats.sem(live))
        covered += abs(estimate.value - live.mean()) <= half_width
        gains.append(live.mean() - cold.mean())
        errors.append(estimate.value - cold.mean())
    # odds of fewer with true coverage of 0.95: 1e-3
    assert covered >= stats.binom.ppf(1e-3, LOGS, 0.95)
    # training is worth something in this world, so that the value of an untrained policy would be off: the mean of 40
    # errors has a standard error of about 0.004, and the gain is about 0.05
    assert np.mean(gains) > 0.02
    assert np.mean(errors) > 0.02
