"""The progressive-validation policy pi_PV of a run: a stationary mixture of the policies met on the way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from backcast.arrays import BoolArray, Contexts, FloatArray
from backcast.engine.scoring import fresh_copy, teach
from backcast.engine.trajectory import Trajectory
from backcast.evaluators.question import Streams
from backcast.log import Log
from backcast.policies.protocol import batch_size_of, is_learning

__all__ = ["ProgressivePolicy", "progressive_policy"]


@dataclass(frozen=True)
class ProgressivePolicy:
    """``pi_PV(a|x) = sum_t (c_t |B(t)| / C) pi(a|x, h_{t-1})`` (Dudik et al. 2012, section 3.3).

    Nothing is stored but the accepted events: each call replays them through a copy of the policy and averages its
    probabilities on the way. It is stationary, so it can be evaluated by any estimator, or deployed. ``histories``
    holds the accepted events of each trajectory and the weights of its blocks, the unfinished last one included.
    """

    policy: Any
    histories: tuple[tuple[Log, FloatArray], ...]
    seed: int = 0

    def __repr__(self) -> str:
        return f"ProgressivePolicy({self.policy!r}, {len(self.histories)} histories)"

    def probabilities(self, contexts: Contexts, available: BoolArray | None = None) -> FloatArray:
        """Probabilities of all actions under the mixture."""
        # the very streams that the run gave to its copies of the policy, in the same order
        streams = Streams.of(self.seed).policy.spawn(len(self.histories))
        twins = [fresh_copy(self.policy, log, rng) for (log, _), rng in zip(self.histories, streams, strict=True)]
        parts = [_mixture(twin, *own, contexts, available) for twin, own in zip(twins, self.histories, strict=True)]
        mixed = np.mean(parts, axis=0)
        return np.asarray(mixed / mixed.sum(axis=1, keepdims=True))


def _mixture(
    twin: Any, history: Log, weights: FloatArray, contexts: Contexts, available: BoolArray | None
) -> FloatArray:
    """The policies of one history, each weighed by the blocks that it stood for."""
    batch = batch_size_of(twin) if is_learning(twin) else weights.size
    total = np.zeros((contexts.shape[0], history.n_actions))
    for start in range(0, weights.size, batch):
        total += weights[start : start + batch].sum() * twin.probabilities(contexts, available)
        if is_learning(twin) and start + batch <= len(history):
            lesson = history[start : start + batch]
            own = twin.probabilities(lesson.contexts, lesson.available)[np.arange(batch), lesson.actions]
            teach(twin, [lesson], own)
    return np.asarray(total / weights.sum())


def progressive_policy(policy: Any, log: Log, trajectories: list[Trajectory], seed: int) -> ProgressivePolicy:
    """The mixture over the blocks of these histories, each history with the same weight."""
    place = {int(row): k for k, row in enumerate(log.rows)}
    histories = tuple(
        (
            log[np.array([place[int(row)] for row in trajectory.order], dtype=np.int64)],
            np.append(trajectory.block_weights, trajectory.open_weight),
        )
        for trajectory in trajectories
    )
    return ProgressivePolicy(policy, histories, seed)
