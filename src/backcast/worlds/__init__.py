"""Simulated worlds whose values are known."""

from __future__ import annotations

from backcast.worlds.classification import ClassificationWorld, classification_world
from backcast.worlds.linear import LinearWorld, WorldValue
from backcast.worlds.live import coin_flips, run_live
from backcast.worlds.tabular import Event, TabularWorld

__all__ = [
    "ClassificationWorld",
    "Event",
    "LinearWorld",
    "TabularWorld",
    "WorldValue",
    "classification_world",
    "coin_flips",
    "run_live",
]
