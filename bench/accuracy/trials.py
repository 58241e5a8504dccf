"""The pieces of work of the accuracy benchmark, in a module that worker processes can import."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from bench.accuracy.contestants import contest
from bench.accuracy.live import Truth, truth
from bench.accuracy.settings import POLICIES, Setting
from bench.accuracy.worlds import World, make_world

SEED = 2012
LIVE_RUNS = 500


@lru_cache(maxsize=4)
def world_of(name: str, logging: str, data: Path | None) -> World:
    """The world, made once a process."""
    return make_world(name, logging, data)


def one_log(setting: Setting, data: Path | None, number: int) -> dict[str, Any]:
    """All evaluators on one log of the setting."""
    world = world_of(setting.world, setting.logging, data)
    rng = np.random.default_rng([SEED, number, *map(ord, setting.stem)])
    return contest(world.log(setting.events, rng), POLICIES[setting.policy], setting.horizon, number)


def truth_of(setting: Setting, data: Path | None, number: int) -> Truth:
    """The truth of a setting; the number is that of its only piece."""
    world = world_of(setting.world, setting.logging, data)
    return truth(world, POLICIES[setting.policy], setting.horizon, LIVE_RUNS, SEED + number)
