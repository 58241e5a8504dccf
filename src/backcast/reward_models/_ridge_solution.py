"""The default ridge regression in closed form: that of scikit-learn, without loading it, for dense features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from backcast._arrays import Contexts, FloatArray

PENALTY = 1.0


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
    centred, residual = features - x_mean, rewards - y_mean
    if weights is not None:
        root = np.sqrt(weights)
        centred *= root[:, None]
        residual *= root
    n, d = centred.shape
    # the smaller of two systems with the same solution: X'X + 1 for the slopes, or X X' + 1 for their coordinates
    system = centred.T @ centred if d <= n else centred @ centred.T
    system.flat[:: len(system) + 1] += PENALTY
    try:
        np.linalg.cholesky(system)  # raises if it is not positive definite
    except np.linalg.LinAlgError:
        return None
    slopes: Any = (
        np.linalg.solve(system, centred.T @ residual) if d <= n else centred.T @ np.linalg.solve(system, residual)
    )
    return LinearPrediction(slopes, y_mean - float(x_mean @ slopes))
