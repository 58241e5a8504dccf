"""Rewards drawn around their predicted means, for simulations and for rounds that are filled."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from backcast._arrays import FloatArray
from backcast._kernels.jit import compiled


class RewardLaw(NamedTuple):
    """How rewards fall around their means: two-point on ``low, high``, or the mean plus a residual drawn at random.

    ``residuals`` is empty for the two-point law; a single zero means that the mean itself is paid.
    """

    low: float
    high: float
    residuals: FloatArray

    @classmethod
    def from_rewards(cls, rewards: FloatArray, means: FloatArray) -> RewardLaw:
        """Return the law that logged rewards show around their predicted means.

        >>> RewardLaw.from_rewards(np.array([0.0, 1.0]), np.array([0.25, 0.5]))
        RewardLaw(low=0.0, high=1.0, residuals=array([], dtype=float64))
        """
        low, high = float(rewards.min()), float(rewards.max())
        if np.isin(rewards, (low, high)).all() and low < high:
            return cls(low, high, np.zeros(0))
        return cls(low, high, rewards - means)


@compiled
def draw_reward(law: RewardLaw, mean: float, uniform: float) -> float:
    """One reward of this mean: ``high`` with probability ``(mean - low)/(high - low)``, or mean plus residual."""
    if law.residuals.size == 0:
        return law.high if uniform < (mean - law.low) / (law.high - law.low) else law.low
    return float(mean + law.residuals[int(uniform * law.residuals.size)])


@compiled
def draw_rewards(law: RewardLaw, means: FloatArray, uniforms: FloatArray) -> FloatArray:
    """One reward for each mean."""
    rewards = np.empty(uniforms.size)
    for k in range(uniforms.size):
        rewards[k] = draw_reward(law, means[k], uniforms[k])
    return rewards
