"""Ranks and what they tell: association, drift and dependence, whatever the scale of a column."""

from __future__ import annotations

import numpy as np

from backcast.arrays import FloatArray, IntArray

__all__ = ["association_with", "drift_share", "rank_correlation", "ranks", "step_correlation"]


def ranks(columns: FloatArray) -> FloatArray:
    """Ranks of each column from -1/2 to 1/2, ties sharing theirs.

    >>> ranks(np.array([3.0, 1.0, 1.0, 9.0]))
    array([ 0.125, -0.25 , -0.25 ,  0.375])
    """
    from scipy.stats import rankdata

    n = columns.shape[0]
    return np.asarray((rankdata(columns, axis=0) - (n + 1) / 2) / n)


def rank_correlation(first: FloatArray, second: FloatArray) -> float:
    """Spearman's correlation, 0 where a column is constant.

    >>> round(rank_correlation(np.array([1.0, 2.0, 5.0]), np.array([1.0, 4.0, 9.0])), 9)
    1.0
    """
    a, b = ranks(first), ranks(second)
    size = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / size if size > 0 else 0.0


def association_with(columns: FloatArray, target: FloatArray) -> FloatArray:
    """How surely each column orders the target, from 0 to 1: for two values ``|2 AUC - 1|``, else like Spearman's.

    >>> association_with(np.array([[1.0, 5.0], [2.0, 0.0], [3.0, 5.0]]), np.array([0.0, 0.0, 1.0])).round(9)
    array([1. , 0.5])
    """
    goal = ranks(target)
    spread = float(goal @ goal)
    if spread == 0:
        return np.zeros(columns.shape[1])
    return np.asarray(np.abs(goal @ ranks(columns)) / spread)


def drift_share(column: FloatArray, segments: IntArray, n_segments: int) -> float:
    """Share of the variance of ranks that lies between segments: Kruskal and Wallis's H over n - 1.

    >>> drift_share(np.array([0.0, 0.0, 1.0, 1.0]), np.array([0, 0, 1, 1]), 2)
    1.0
    """
    own = ranks(column)
    total = float(own @ own)
    if total == 0:
        return 0.0
    sums = np.bincount(segments, weights=own, minlength=n_segments)
    sizes = np.bincount(segments, minlength=n_segments)
    return float((np.square(sums) / np.maximum(sizes, 1)).sum()) / total


def step_correlation(column: FloatArray) -> float:
    """Correlation of ranks between an event and the next.

    >>> step_correlation(np.array([0.0, 1.0] * 50)) < -0.9
    True
    """
    own = ranks(column)
    total = float(own @ own)
    return float(own[1:] @ own[:-1]) / total if total > 0 else 0.0
