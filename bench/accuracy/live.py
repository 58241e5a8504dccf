"""The true value of a policy: live runs in a world whose mean rewards are known."""

from __future__ import annotations

import copy
import math
from typing import Any, NamedTuple

import numpy as np

from backcast.environments import coin_flips
from backcast.policies._calls import draw_actions
from backcast.policies.base import batch_size_of
from bench.accuracy.worlds import World

TEST_CONTEXTS = 2000  # contexts on which the policies of a run are valued exactly


class Truth(NamedTuple):
    """The value V_T with its standard error, and the deviation over live runs of rewards met and of values."""

    value: float
    error: float
    sd_live: float
    sd_value: float

    def live_limit(self, events: int, horizon: int) -> float:
        """Return the standard error if all events were spent on live runs."""
        return self.sd_live * math.sqrt(horizon / events)

    def yardstick(self, spread: float, events: int, histories: float) -> float:
        """Return the root of ``sd(R_k)^2 / n + sd_V^2 / N`` for N separate histories (docs/theory.md, section 5)."""
        return math.sqrt(spread**2 / events + self.sd_value**2 / histories)


def estimate_truth(
    world: World, policy: Any, horizon: int, runs: int, seed: int, contexts: int = TEST_CONTEXTS
) -> Truth:
    """Return the average over live runs of the exact value of their policies.

    One test context is enough if contexts carry no information.
    """
    streams = np.random.default_rng([seed, 3]).spawn(runs)
    met, exact = np.array([run_live(world, policy, horizon, contexts, rng) for rng in streams]).T
    sd_live, sd_value = float(met.std(ddof=1)), float(exact.std(ddof=1))
    return Truth(float(exact.mean()), float(exact.std(ddof=1) / runs**0.5), sd_live, sd_value)


def run_live(world: World, policy: Any, horizon: int, count: int, rng: np.random.Generator) -> tuple[float, float]:
    """Return the mean reward met in one live run, and the mean value of its policies on test contexts."""
    test_contexts, test_means = world.table(count, rng)
    contexts, means = world.table(horizon, rng)
    policy = copy.deepcopy(policy)
    policy.start(world.n_actions, contexts.shape[1], rng)
    met = exact = 0.0
    batch_size = batch_size_of(policy)
    for start in range(0, horizon, batch_size):
        batch = slice(start, min(start + batch_size, horizon))
        probabilities = policy.probabilities(contexts[batch])
        actions = draw_actions(probabilities, rng.random(len(probabilities)))
        taken = (np.arange(actions.size), actions)
        rewards = coin_flips(means[batch][taken], rng)
        met += rewards.sum()
        exact += actions.size * float((policy.probabilities(test_contexts) * test_means).sum(axis=1).mean())
        if batch.stop < horizon:
            policy.learn(contexts[batch], actions, rewards, probabilities[taken])
    return met / horizon, exact / horizon
