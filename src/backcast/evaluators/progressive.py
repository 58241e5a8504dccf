"""The progressive-validation policy pi_PV of a run: a stationary mixture of the policies met on the way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from backcast.arrays import BoolArray, Contexts, FloatArray
from backcast.engine.scoring import fresh_copy, teach
from backcast.engine.trajectory import Trajectory
from backcast.log import Log
from backcast.policies.protocol import batch_size_of, is_learning

__all__ = ["ProgressivePolicy", "progressive_policy"]


@dataclass(frozen=True)
class ProgressivePolicy:
    """``pi_PV(a|x) = sum_t (c_t |B(t)| / C) pi(a|x, h_{t-1})`` (Dudik et al. 2012, section 3.3).

    Nothing is stored but the accepted events: each call replays them through a copy of the policy and averages its
    probabilities on the way. It is stationary, so it can be evaluated by any estimator, or deployed.
    """

    policy: Any
    histories: tuple[tuple[Log, FloatArray], ...]
    seed: int = 0

    def __repr__(self) -> str:
        return f"ProgressivePolicy({self.policy!r}, {len(self.histories)} histories)"

    def probabilities(self, contexts: Contexts, available: BoolArray | None = None) -> FloatArray:
        """Probabilities of all actions under the mixture."""
        parts = [self._mixture(history, weights, contexts, available) for history, weights in self.histories]
        mixed = np.mean(parts, axis=0)
        return np.asarray(mixed / mixed.sum(axis=1, keepdims=True))

    def _mixture(
        self, history: Log, weights: FloatArray, contexts: Contexts, available: BoolArray | None
    ) -> FloatArray:
        twin = fresh_copy(self.policy, history, np.random.default_rng(self.seed))
        batch = batch_size_of(twin) if is_learning(twin) else len(history)
        total = np.zeros((contexts.shape[0], history.n_actions))
        for start in range(0, len(history), batch):
            lesson = history[start : start + batch]
            total += weights[start : start + batch].sum() * twin.probabilities(contexts, available)
            if is_learning(twin) and start + batch < len(history):
                own = twin.probabilities(lesson.contexts, lesson.available)[np.arange(len(lesson)), lesson.actions]
                teach(twin, [lesson], own)
        return np.asarray(total / weights.sum())


def progressive_policy(policy: Any, log: Log, trajectories: list[Trajectory], seed: int) -> ProgressivePolicy:
    """The mixture over the blocks of these histories, each history with the same weight."""
    place = {int(row): k for k, row in enumerate(log.rows)}
    histories = tuple(
        (log[np.array([place[int(row)] for row in trajectory.order])], trajectory.block_weights)
        for trajectory in trajectories
        if trajectory.accepted > 0
    )
    return ProgressivePolicy(policy, histories, seed)
