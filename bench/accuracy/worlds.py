"""The worlds of the accuracy benchmark: each gives logs, and live runs with known mean rewards."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from backcast._arrays import FloatArray, is_sparse
from backcast.environments import LinearEnvironment
from backcast.environments.live import draw_exploration_scores, paper_logging, sharp_logging
from backcast.log import Log
from backcast.policies._calls import draw_actions
from bench.reproduction.datasets import load_world

LOGGERS = ("paper", "uniform", "sharp")
SIMULATED: dict[str, dict[str, Any]] = {
    "straight": {"n_actions": 4, "n_features": 10},
    "bent": {"n_actions": 4, "n_features": 8, "signal": 0.5, "curvature": 0.7},
    "many actions": {"n_actions": 10, "n_features": 5},
    "lopsided": {"n_actions": 5, "n_features": 4, "signal": 0.4, "spread": 1.0},
    "noisy": {"n_actions": 3, "n_features": 6, "noise": 0.6},
}
CONVERTED = ("digits",)
CONVERTED_FROM_FILES = ("pendigits", "satimage", "rcv1")
COMPONENTS = 15  # principal components of a converted set, so that LinUCB's matrices stay small
TEMPERATURE, FLOOR = 0.2, 0.01  # of the sharp logger, as in LinearEnvironment


class World(Protocol):
    """A source of logs, and of random contexts with the mean reward of every action there (``table``)."""

    @property
    def n_actions(self) -> int: ...
    def log(self, n: int, rng: np.random.Generator) -> Log: ...
    def table(self, n: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]: ...


@dataclass(frozen=True, eq=False)
class LabelledWorld:
    """A labelled set as a world: contexts are drawn from it with replacement, the right action pays 1."""

    features: FloatArray
    labels: Any
    logging: str

    @property
    def n_actions(self) -> int:
        """Number of classes."""
        return int(self.labels.shape[1])

    def table(self, n: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Return random examples, and 1 for each right action."""
        rows = rng.integers(len(self.features), size=n)
        return self.features[rows], self.labels[rows].astype(np.float64)

    def log(self, n: int, rng: np.random.Generator) -> Log:
        """Return random examples with one logged action each."""
        contexts, means = self.table(n, rng)
        logging = self._logging_probabilities(means, rng)
        actions = draw_actions(logging, rng.random(len(logging)))
        taken = (np.arange(n), actions)
        return Log(
            contexts,
            actions,
            means[taken],
            logging[taken],
            n_actions=self.n_actions,
            reward_range=(0.0, 1.0),
            logging_probabilities=logging,
        )

    def _logging_probabilities(self, means: FloatArray, rng: np.random.Generator) -> FloatArray:
        if self.logging == "uniform":
            return np.full(means.shape, 1 / self.n_actions)
        if self.logging == "paper":
            return paper_logging(draw_exploration_scores(len(means), self.n_actions, rng), means > 0)
        scores = means / means.std() + rng.standard_normal(means.shape)
        return sharp_logging(scores, TEMPERATURE, min(FLOOR, 0.5 / self.n_actions))


def list_worlds(data: Path | None) -> list[str]:
    """Return the names of the worlds; more with a data folder."""
    return [*SIMULATED, *CONVERTED, *(CONVERTED_FROM_FILES if data else ())]


def make_world(name: str, logging: Any, data: Path | None) -> World:
    """Return a world with its logger."""
    if name in SIMULATED:
        return LinearEnvironment(logistic=True, logging=logging, seed=1, **SIMULATED[name])
    labelled = load_world(name, data)
    return LabelledWorld(principal_components(labelled.features), labelled.labels, logging)


def principal_components(features: Any) -> FloatArray:
    """Return the leading principal components in units of the first one's deviation, and a constant column."""
    from sklearn.decomposition import PCA, TruncatedSVD

    count = min(COMPONENTS, features.shape[1])
    decomposition = TruncatedSVD(count, random_state=0) if is_sparse(features) else PCA(count)
    components = decomposition.fit_transform(features)
    return np.column_stack([np.ones(len(components)), components / components[:, 0].std()])
