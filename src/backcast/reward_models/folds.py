"""Cutting a log into parts: at random, or in stages that grow."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from backcast.arrays import IntArray

__all__ = ["fold_numbers", "growing_stages"]


def fold_numbers(n: int, folds: int, rng: np.random.Generator) -> IntArray:
    """A random fold ``0..folds-1`` for each of n events, all folds of nearly equal size.

    >>> np.bincount(fold_numbers(7, 3, np.random.default_rng(0))).tolist()
    [3, 2, 2]
    """
    return rng.permutation(n) % folds


def growing_stages(n: int, first: int, growth: float) -> Iterator[tuple[int, int]]:
    """Stretches ``[start, end)`` of n events, each predicted by a model fitted on the events before ``start``.

    >>> list(growing_stages(10, first=2, growth=2.0))
    [(2, 4), (4, 8), (8, 10)]
    """
    start = first
    while start < n:
        end = max(start + 1, math.ceil(start * growth))
        yield start, min(end, n)
        start = end
