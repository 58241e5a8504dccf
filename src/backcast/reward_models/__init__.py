"""Reward models and the wrappers that keep them honest."""

from __future__ import annotations

from backcast.reward_models.constant import Constant
from backcast.reward_models.honesty import (
    CrossFit,
    Fitted,
    Given,
    HonestModel,
    HonestPredictions,
    Progressive,
    Split,
    make_honest,
)
from backcast.reward_models.joint import Joint
from backcast.reward_models.low_variance import LowVariance
from backcast.reward_models.per_action import PerAction
from backcast.reward_models.protocol import RewardModel

__all__ = [
    "Constant",
    "CrossFit",
    "Fitted",
    "Given",
    "HonestModel",
    "HonestPredictions",
    "Joint",
    "LowVariance",
    "PerAction",
    "Progressive",
    "RewardModel",
    "Split",
    "make_honest",
]
