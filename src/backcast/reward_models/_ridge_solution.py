"""The default ridge regression in closed form: that of scikit-learn, without loading it, for dense features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from backcast._arrays import Contexts, FloatArray

PENALTY = 1.0
BLOCK_ROWS = 1024  # that are centred at a time: a centred copy of all features would be half of the memory of DR


@dataclass(frozen=True, eq=False)
class LinearPrediction:
    """``x'slopes + intercept`` for every row x."""

    slopes: FloatArray
    intercept: float

    def predict(self, features: Contexts) -> FloatArray:
        """Return the prediction of each row."""
        product: Any = features @ self.slopes
        return np.asarray(product) + self.intercept


def solve_ridge(features: FloatArray, rewards: FloatArray, weights: FloatArray | None) -> LinearPrediction | None:
    """Minimise ``sum_k w_k (y_k - x_k b - c)^2 + |b|^2``; None if rounding errors make the system indefinite.

    >>> solution = solve_ridge(np.array([[-1.0], [1.0]]), np.array([0.0, 1.0]), None)
    >>> solution.slopes.round(12), round(solution.intercept, 12)
    (array([0.33333333]), 0.5)

    By hand: the slope is sum xy / (sum x^2 + 1) = 1/3.
    """
    x_mean, y_mean = np.average(features, axis=0, weights=weights), float(np.average(rewards, weights=weights))
    residual = rewards - y_mean
    root = None if weights is None else np.sqrt(weights)
    if root is not None:
        residual *= root
    n, d = features.shape
    # the smaller of two systems with the same solution: X'X + 1 for the slopes, or X X' + 1 for their coordinates
    if d <= n:
        system, target = np.zeros((d, d)), np.zeros(d)
        for start in range(0, n, BLOCK_ROWS):
            rows = slice(start, start + BLOCK_ROWS)
            centred = _centre_rows(features, x_mean, root, rows)
            system += centred.T @ centred
            target += centred.T @ residual[rows]
        slopes: Any = _solve_positive(system, target)
    else:
        centred = _centre_rows(features, x_mean, root, slice(None))
        solution = _solve_positive(centred @ centred.T, residual)
        slopes = None if solution is None else centred.T @ solution
    return None if slopes is None else LinearPrediction(slopes, y_mean - float(x_mean @ slopes))


def _centre_rows(features: FloatArray, mean: FloatArray, root: FloatArray | None, rows: slice) -> FloatArray:
    """Return rows of the features less their mean, times the roots of the weights."""
    centred = features[rows] - mean
    if root is not None:
        centred *= root[rows, None]
    return np.asarray(centred)


def _solve_positive(system: FloatArray, target: FloatArray) -> FloatArray | None:
    """Solve a system with the penalty on its diagonal; None if it is not positive definite."""
    system.flat[:: len(system) + 1] += PENALTY
    try:
        np.linalg.cholesky(system)  # raises if it is not positive definite
    except np.linalg.LinAlgError:
        return None
    return np.asarray(np.linalg.solve(system, target))
