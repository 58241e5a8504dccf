"""A policy as users write it: NumPy only, nothing compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:  # bench.horizon.answer runs this with an earlier commit, where the module has another name
    from backcast._arrays import BoolArray, FloatArray, IntArray


class NumpyGreedy:
    """Epsilon-greedy on one ridge regression per action, learning from every accepted event."""

    batch_size = 1

    def __init__(self, n_actions: int, n_features: int, epsilon: float = 0.1) -> None:
        self.epsilon = epsilon
        self.theta = np.zeros((n_actions, n_features))
        self.inverse = np.repeat(np.eye(n_features)[None], n_actions, axis=0)

    def probabilities(self, contexts: FloatArray, available: BoolArray | None = None) -> FloatArray:
        scores = contexts @ self.theta.T
        out = np.full(scores.shape, self.epsilon / scores.shape[1])
        out[np.arange(len(out)), scores.argmax(axis=1)] += 1 - self.epsilon
        return out

    def learn(self, contexts: FloatArray, actions: IntArray, rewards: FloatArray, probabilities: FloatArray) -> None:
        for x, a, r in zip(contexts, actions, rewards, strict=True):
            inverse = self.inverse[a]
            gain = inverse @ x
            gain /= 1 + x @ gain
            self.theta[a] += gain * (r - self.theta[a] @ x)
            inverse -= np.outer(gain, inverse @ x)
