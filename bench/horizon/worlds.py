"""The worlds of the benchmark of long horizons: one with a soft logger, and five of the accuracy benchmark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import backcast as bc
from backcast.environments import LinearEnvironment
from bench.accuracy.worlds import World, make_world

N_ACTIONS, N_FEATURES, EXPLORATION = 10, 20, 0.2
SOFT = "soft"
# the others with the paper's logger, whose propensities are not small: long horizons need events to choose from
NAMES = (SOFT, "bent", "many actions", "noisy", "pendigits", "satimage")
NEED_DATA = ("pendigits", "satimage")
POLICIES: dict[str, Any] = {"EpsilonGreedy(0.1)": bc.EpsilonGreedy(0.1), "LinUCB(0.5)": bc.LinUCB(0.5)}


def log_softly(contexts: Any) -> Any:
    """Return the probabilities of the soft logger: a softmax of the scores, mixed with uniform exploration."""
    _, directions, _ = LinearEnvironment(N_ACTIONS, N_FEATURES, seed=1)._parameters
    scores = np.exp(contexts @ directions.T)
    return (1 - EXPLORATION) * scores / scores.sum(axis=1, keepdims=True) + EXPLORATION / N_ACTIONS


def make_long_world(name: str, data: Path | None) -> World:
    """Return a world by its name."""
    if name == SOFT:
        return LinearEnvironment(N_ACTIONS, N_FEATURES, logistic=True, logging=log_softly, noise=0.0, seed=1)
    return make_world(name, "paper", data)
