"""Sums over weighed events that shards can add up: counts, means, scatter, extremes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from backcast.arrays import FloatArray
from backcast.kernels.jit import compiled

__all__ = ["BASE", "BOUND", "RATIO", "RESIDUAL", "TERM", "WEIGHT", "Columns", "Moments"]

BASE, WEIGHT, TERM, RATIO, RESIDUAL, BOUND = range(6)
N_COLUMNS = 6


class Columns(NamedTuple):
    """A block of weighed events, one number an event in each column.

    Attributes
    ----------
    base
        ``sum_a pi(a|x_k) q(x_k, a)``, the reward model's own answer (0 without a model).
    weight
        The weight in use: the ratio itself, or what clipping or shrinking made of it.
    term
        ``weight * residual``, what the event adds to the base.
    ratio
        ``w_k = pi(a_k|x_k) / p_k``.
    residual
        ``r_k - q(x_k, a_k)``: the reward itself without a model.
    bound
        What the ratio could have been at most: ``max_a pi(a|x_k)/mu(a|x_k)`` where the log records all of mu, else
        ``1 / p_k``.
    """

    base: FloatArray
    weight: FloatArray
    term: FloatArray
    ratio: FloatArray
    residual: FloatArray
    bound: FloatArray


@dataclass(frozen=True, eq=False)
class Moments:
    """Number of events, and the mean, scatter and extremes of their six columns.

    ``scatter`` is ``sum_k (x_k - mean)(x_k - mean)'``. Adding two gives the moments of all their events together
    (Chan, Golub and LeVeque 1979), so shards can be summarised apart.

    Examples
    --------
    >>> def block(*rewards):
    ...     r, one = np.array(rewards), np.ones(len(rewards))
    ...     return Moments.of(Columns(0 * one, one, r, one, r, one))
    >>> both = block(1.0, 2.0) + block(6.0)
    >>> both.n, float(both.mean[TERM]), float(both.scatter[TERM, TERM])
    (3, 3.0, 14.0)

    By hand: the mean of 1, 2 and 6 is 3, and 4 + 1 + 9 = 14.
    """

    n: int
    mean: FloatArray
    scatter: FloatArray
    low: FloatArray
    high: FloatArray

    @classmethod
    def none(cls) -> Moments:
        """Of no events at all."""
        empty = np.full(N_COLUMNS, np.inf)
        return cls(0, np.zeros(N_COLUMNS), np.zeros((N_COLUMNS, N_COLUMNS)), empty, -empty)

    @classmethod
    def of(cls, columns: Columns) -> Moments:
        """Of one block."""
        if columns.base.size == 0:
            return cls.none()
        matrix = np.stack(columns)
        mean = matrix.mean(axis=1)
        return cls(columns.base.size, mean, scatter_about(matrix, mean), matrix.min(axis=1), matrix.max(axis=1))

    def __add__(self, other: Moments) -> Moments:
        n = self.n + other.n
        if self.n == 0 or other.n == 0:
            return other if self.n == 0 else self
        shift = other.mean - self.mean
        return Moments(
            n,
            self.mean + shift * (other.n / n),
            self.scatter + other.scatter + np.outer(shift, shift) * (self.n * other.n / n),
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
        )

    @property
    def covariance(self) -> FloatArray:
        """Unbiased covariance of the columns (nan for a single event)."""
        if self.n < 2:
            return np.full_like(self.scatter, np.nan)
        return self.scatter / (self.n - 1)

    def second(self, i: int, j: int) -> float:
        """``sum_k x_ki x_kj``, not centred."""
        return float(self.scatter[i, j] + self.n * self.mean[i] * self.mean[j])

    @property
    def effective_sample_size(self) -> float:
        """``(sum w)^2 / sum w^2`` of the ratios (Kish); 0 where all are 0."""
        squares = self.second(RATIO, RATIO)
        return float((self.n * self.mean[RATIO]) ** 2 / squares) if squares > 0 else 0.0


@compiled
def scatter_about(matrix: FloatArray, mean: FloatArray) -> FloatArray:
    """``sum_k (x_k - mean)(x_k - mean)'`` over the columns k of the matrix, in one fixed order.

    >>> scatter_about(np.array([[1.0, 3.0], [0.0, 4.0]]), np.array([2.0, 2.0]))
    array([[2., 4.],
           [4., 8.]])
    """
    rows = matrix.shape[0]
    scatter = np.zeros((rows, rows))
    centred = np.empty(rows)
    for k in range(matrix.shape[1]):
        for i in range(rows):
            centred[i] = matrix[i, k] - mean[i]
            for j in range(i + 1):
                scatter[i, j] += centred[i] * centred[j]
    for i in range(rows):
        for j in range(i):
            scatter[j, i] = scatter[i, j]
    return scatter
