"""What the policy really loses: live runs on examples labelled in full."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import numpy as np

from backcast.environments import ClassificationEnvironment
from backcast.policies._calls import draw_actions
from backcast.policies.classifier import FromClassifier

__all__ = ["Live", "live_runs"]


class Live(NamedTuple):
    """One live run: the losses it met on average, and the exact expected loss of its policies on the whole set.

    Both have the same mean over runs (but for meeting an example at most once); the second varies far less.
    """

    met: float
    exact: float


def live_runs(policy: FromClassifier, world: ClassificationEnvironment, horizon: int, seeds: list[Any]) -> list[Live]:
    """A run for each seed: the examples are shuffled, the policy meets the first ``horizon`` of them and learns."""
    return [_live(policy, world, horizon, np.random.default_rng(seed)) for seed in seeds]


def _live(policy: FromClassifier, world: ClassificationEnvironment, horizon: int, rng: np.random.Generator) -> Live:
    twin = copy.deepcopy(policy)
    # a set smaller than the horizon is met again from the start
    order = np.resize(rng.permutation(len(world)), horizon)
    met = exact = 0.0
    for start in range(0, horizon, twin.batch_size):
        rows = order[start : start + twin.batch_size]
        everywhere = twin.probabilities(world.features)
        actions = draw_actions(everywhere[rows], rng.random(len(rows)))
        losses = world.rewards[rows, actions]
        met += losses.sum()
        exact += rows.size * world.value(everywhere)
        twin.learn(world.features[rows], actions, losses, everywhere[rows, actions])
    return Live(met / horizon, exact / horizon)
