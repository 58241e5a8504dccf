"""Sums over weighed rewards, and how far their distribution function may be off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from backcast.arrays import FloatArray, IntArray

__all__ = ["RewardSums", "band_reach", "cells_of", "weighted_error"]

BAND_CELLS = 2000
BAND_DRAWS = 2000


@dataclass(frozen=True, eq=False)
class RewardSums:
    """Distinct rewards in order, with the sums of the weights and of their squares at each; shards add up.

    Examples
    --------
    >>> both = RewardSums.of([1.0, 0.0], [2.0, 1.0]) + RewardSums.of([1.0], [0.5])
    >>> both.rewards, both.weights, both.squares
    (array([0., 1.]), array([1. , 2.5]), array([1.  , 4.25]))
    """

    n: int
    rewards: FloatArray
    weights: FloatArray
    squares: FloatArray
    largest: float = 0.0

    @classmethod
    def of(cls, rewards: Any, weights: Any) -> RewardSums:
        """Of events with these rewards and weights."""
        weight = np.asarray(weights, dtype=np.float64)
        return cls._gathered(weight.size, rewards, weight, weight**2, float(weight.max(initial=0.0)))

    @classmethod
    def none(cls) -> RewardSums:
        """Of no events."""
        return cls.of([], [])

    @classmethod
    def _gathered(cls, n: int, rewards: Any, weights: FloatArray, squares: FloatArray, largest: float) -> RewardSums:
        values, place = np.unique(np.asarray(rewards, dtype=np.float64), return_inverse=True)
        return cls(n, values, _summed(place, weights, values.size), _summed(place, squares, values.size), largest)

    def __add__(self, other: RewardSums) -> RewardSums:
        rewards = np.concatenate([self.rewards, other.rewards])
        weights = np.concatenate([self.weights, other.weights])
        squares = np.concatenate([self.squares, other.squares])
        return self._gathered(self.n + other.n, rewards, weights, squares, max(self.largest, other.largest))

    def thinned(self, most: int) -> RewardSums:
        """With neighbouring rewards put together, at their weighted mean, until at most ``most`` are left.

        >>> RewardSums.of([0.0, 1.0, 5.0, 6.0], [1.0, 3.0, 2.0, 2.0]).thinned(2).rewards
        array([0.75, 5.5 ])
        """
        if self.rewards.size <= most:
            return self
        cells = cells_of(self.weights, most)
        size = int(cells[-1]) + 1
        weights, squares = _summed(cells, self.weights, size), _summed(cells, self.squares, size)
        totals = _summed(cells, self.weights * self.rewards, size)
        # a cell without weight has no mean of its own: its first reward stands for it
        first = self.rewards[np.searchsorted(cells, np.arange(size))]
        means = np.divide(totals, weights, out=first, where=weights > 0)
        return self._gathered(self.n, means, weights, squares, self.largest)


def cells_of(weights: FloatArray, most: int) -> IntArray:
    """Number the values so that cells of neighbours hold about the same weight, at most ``most`` cells in a row.

    >>> cells_of(np.array([1.0, 1.0, 1.0, 1.0]), 2)
    array([0, 0, 1, 1])
    """
    share = (np.cumsum(weights) - weights / 2) / weights.sum()
    raw = np.minimum((share * most).astype(np.int64), most - 1)
    return np.unique(raw, return_inverse=True)[1].astype(np.int64)


def weighted_error(parts: FloatArray, sums: RewardSums) -> float:
    """``sqrt(sum_k w_k^2 (z_k - mean)^2) / sum_k w_k`` of the weighted mean of z.

    >>> weighted_error(np.array([0.0, 1.0]), RewardSums.of([0.0, 1.0], [1.0, 1.0]))
    0.3535533905932738

    By hand: both are 1/2 from the mean, and sqrt(1/2) / 2.
    """
    total = sums.weights.sum()
    mean = parts @ sums.weights / total
    return float(np.sqrt((parts - mean) ** 2 @ sums.squares) / total)


def band_reach(sums: RewardSums, level: float, seed: int) -> float:
    """Half-width of the band: the level's quantile of ``sup_t |sum_k g_k w_k (I(r_k <= t) - F(t))| / sum w``.

    The g are standard normal; the sum over equal rewards is normal with variance ``sum w^2``, so that one draw a
    distinct reward is enough.
    """
    cells = cells_of(sums.weights, BAND_CELLS)
    size = int(cells[-1]) + 1
    weights, squares = _summed(cells, sums.weights, size), _summed(cells, sums.squares, size)
    cdf = np.cumsum(weights) / weights.sum()
    rng = np.random.default_rng((seed, 2021))
    suprema = np.empty(BAND_DRAWS)
    for start in range(0, BAND_DRAWS, 100):
        steps = rng.standard_normal((100, weights.size)) * np.sqrt(squares)
        paths = np.cumsum(steps, axis=1)
        suprema[start : start + 100] = np.abs(paths - cdf * paths[:, -1:]).max(axis=1)
    return float(np.quantile(suprema, level) / weights.sum())


def _summed(places: npt.NDArray[np.intp] | IntArray, column: FloatArray, size: int) -> FloatArray:
    return np.bincount(places, column, minlength=size).astype(np.float64)
