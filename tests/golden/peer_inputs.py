"""Inputs for comparing numbers with other packages: exact on every machine, made of integers alone."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

MASK = (1 << 64) - 1
EVENTS = 200
ACTIONS = 4
RANGES = ((0.0, 1.0), (-1.0, 1.0), (2.0, 5.0))


class Inputs(NamedTuple):
    """A log with everything an estimator may ask for; ``target`` is (n, K), ``predicted`` too."""

    actions: Any
    rewards: Any
    propensities: Any
    target: Any
    predicted: Any
    reward_range: tuple[float, float]


def uniform(number: int) -> float:
    """A multiple of 2^-24 in [0, 1) from a whole number (the splitmix64 finaliser)."""
    z = (number * 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return ((z ^ (z >> 31)) >> 40) / float(1 << 24)


def table(case: int, salt: int, n: int, columns: int) -> Any:
    numbers = range(n * columns)
    flat = [uniform(((case * 16 + salt) << 32) + number + 1) for number in numbers]
    return np.array(flat).reshape(n, columns)


def inputs(case: int) -> Inputs:
    """The log of a case: binary rewards in even cases, in three ranges; deterministic policies in every fourth."""
    n, low, high = EVENTS, *RANGES[case % 3]
    logging = table(case, 0, n, ACTIONS) + (0.25 if case % 5 else 0.01)
    logging /= logging.sum(axis=1, keepdims=True)
    actions = (table(case, 1, n, 1) > logging.cumsum(axis=1)).sum(axis=1).clip(0, ACTIONS - 1)
    raw = table(case, 2, n, ACTIONS)
    target = (raw == raw.max(axis=1, keepdims=True)) * 1.0 if case % 4 == 3 else raw / raw.sum(axis=1, keepdims=True)
    chance = table(case, 3, n, 1)[:, 0]
    share = (chance < (actions + 1) / 6) * 1.0 if case % 2 == 0 else chance
    predicted = low + (high - low) * table(case, 4, n, ACTIONS)
    return Inputs(actions, low + (high - low) * share, logging[np.arange(n), actions], target, predicted, (low, high))
