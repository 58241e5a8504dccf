"""What a policy really earns: live runs in a world whose mean rewards are known."""

from __future__ import annotations

import copy
import math
from typing import Any, NamedTuple

import numpy as np

from backcast.environments import coin_flips
from backcast.policies._calls import draw_actions
from backcast.policies.base import batch_size_of
from bench.accuracy.worlds import Table, World

PLACES = 2000  # contexts on which each run's policies are valued exactly


class Truth(NamedTuple):
    """The value V_T with its standard error, and the spread over live runs of rewards met and of values."""

    value: float
    error: float
    sd_live: float
    sd_value: float

    def live_limit(self, events: int, horizon: int) -> float:
        """The standard error of spending all the events on live runs."""
        return self.sd_live * math.sqrt(horizon / events)

    def floor(self, spread: float, events: int, histories: float) -> float:
        """The log's information floor: ``sd(R_k)^2 / n + sd_V^2 / N``, as a root, N separate histories in it."""
        return math.sqrt(spread**2 / events + self.sd_value**2 / histories)


def truth(world: World, policy: Any, horizon: int, runs: int, seed: int, places: int = PLACES) -> Truth:
    """Average over live runs of the exact value of their policies; one place is enough where contexts mean nothing."""
    streams = np.random.default_rng([seed, 3]).spawn(runs)
    met, exact = np.array([live_run(world, policy, horizon, places, rng) for rng in streams]).T
    return Truth(
        float(exact.mean()), float(exact.std(ddof=1) / runs**0.5), float(met.std(ddof=1)), float(exact.std(ddof=1))
    )


def live_run(world: World, policy: Any, horizon: int, count: int, rng: np.random.Generator) -> tuple[float, float]:
    """Mean reward met in one live run, and the mean value of its policies on contexts of their own."""
    places, faced = Table(*world.table(count, rng)), Table(*world.table(horizon, rng))
    learner = copy.deepcopy(policy)
    learner.start(world.n_actions, faced.contexts.shape[1], rng)
    met = exact = 0.0
    batch = batch_size_of(learner)
    for start in range(0, horizon, batch):
        part = slice(start, min(start + batch, horizon))
        chances = learner.probabilities(faced.contexts[part])
        actions = draw_actions(chances, rng.random(len(chances)))
        taken = (np.arange(actions.size), actions)
        rewards = coin_flips(faced.means[part][taken], rng)
        met += rewards.sum()
        exact += actions.size * float((learner.probabilities(places.contexts) * places.means).sum(axis=1).mean())
        if part.stop < horizon:
            learner.learn(faced.contexts[part], actions, rewards, chances[taken])
    return met / horizon, exact / horizon
