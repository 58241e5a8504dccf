"""Ridge regression for a whole grid of penalties at the price of one.

All solve ``min_(b, c) sum_k w_k (y_k - x_k b - c)^2 + alpha |b|^2`` with positive weights scaled to mean 1 and the
intercept c free. Few features: one eigendecomposition of the Gram matrix serves every alpha. Many features, or
sparse ones: Golub-Kahan bidiagonalisation, whose Krylov space is the same for every alpha (Paige and Saunders 1982,
"LSQR"; Frommer and Maass 1999 on shifts).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from backcast._arrays import Contexts, FloatArray, IntArray, is_sparse
from backcast.reward_models.regression import mean_one

MOST_DENSE = 200  # beyond this many features the Gram matrix costs more than the Krylov steps


STEPS = 30


@dataclass(frozen=True, eq=False)
class Examples:
    """What a regression is fitted on: features ``(n, d)``, rewards ``(n,)`` and positive weights ``(n,)``."""

    features: Contexts
    rewards: FloatArray
    weights: FloatArray

    def __getitem__(self, index: Any) -> Examples:
        return Examples(self.features[index], self.rewards[index], self.weights[index])


class RidgePath(NamedTuple):
    """Slopes ``(A, d)`` and intercepts ``(A,)``, a row for each of A penalties."""

    slopes: FloatArray
    intercepts: FloatArray


def ridge_path(examples: Examples, alphas: FloatArray) -> RidgePath:
    """The ridge solutions of one set of examples for every penalty.

    >>> two = Examples(np.array([[-1.0], [1.0]]), rewards=np.array([0.0, 1.0]), weights=np.ones(2))
    >>> ridge_path(two, alphas=np.array([2.0, 6.0])).slopes[:, 0]
    array([0.25 , 0.125])

    By hand: the slope is sum xy / (sum x^2 + alpha) = 1 / (2 + alpha).
    """
    if _prefers_krylov(examples.features):
        return _krylov_path(examples, alphas)
    center, shifted = _shifted(examples)
    return _path_of_moments(_moments(shifted), center, alphas)


def ridge_paths_without_folds(examples: Examples, fold: IntArray, folds: int, alphas: FloatArray) -> list[RidgePath]:
    """For each fold ``0..folds-1``, the path fitted on the examples outside it (there must be some).

    Moments add over examples, so each fold's are taken once and summed.
    """
    if _prefers_krylov(examples.features):
        return [_krylov_path(examples[fold != f], alphas) for f in range(folds)]
    center, shifted = _shifted(examples)
    moments = np.array([_moments(shifted[fold == f]) for f in range(folds)])
    rest = [moments[np.arange(folds) != f].sum(axis=0) for f in range(folds)]
    return [_path_of_moments(part, center, alphas) for part in rest]


def _prefers_krylov(features: Contexts) -> bool:
    return is_sparse(features) or features.shape[1] > MOST_DENSE


def _shifted(examples: Examples) -> tuple[FloatArray, Examples]:
    """Examples with features moved to mean 0: large offsets would eat the digits of the Gram matrix."""
    dense = np.asarray(examples.features)
    center = dense.mean(axis=0)
    return center, Examples(dense - center, examples.rewards, examples.weights)


def _moments(examples: Examples) -> FloatArray:
    """``Z' diag(w, 1) Z`` in one additive array: weighted moments of ``Z = [1, x, y]``, and the count in the corner.

    The corner of ``y'y`` is not needed by the fit and carries the number of examples instead.
    """
    rewards, weights = examples.rewards, examples.weights
    columns = np.column_stack([np.ones(rewards.size), np.asarray(examples.features), rewards])
    moments: FloatArray = columns.T @ (weights[:, None] * columns)
    moments[-1, -1] = rewards.size
    return moments


def _path_of_moments(moments: FloatArray, center: FloatArray, alphas: FloatArray) -> RidgePath:
    """Solve for every alpha from the moments of the shifted features."""
    total, count = moments[0, 0], moments[-1, -1]
    means = moments[0, 1:] / total
    centred = (moments[1:, 1:] / total - np.outer(means, means)) * count
    values, vectors = np.linalg.eigh(centred[:-1, :-1])
    shrunk = (vectors.T @ centred[:-1, -1]) / (np.maximum(values, 0.0) + alphas[:, None])
    slopes = shrunk @ vectors.T
    return RidgePath(slopes, means[-1] - slopes @ (means[:-1] + center))


def _krylov_path(examples: Examples, alphas: FloatArray) -> RidgePath:
    """Project on the Krylov space of the centred, weighted design, then solve the small problem for every alpha."""
    weights = mean_one(examples.weights)
    share = weights / weights.sum()
    x_mean: FloatArray = np.asarray(examples.features.T @ share)
    y_mean = float(share @ examples.rewards)
    design = _Design(examples.features, x_mean, np.sqrt(weights))
    basis, small, norm = _bidiagonalise(design, np.sqrt(weights) * (examples.rewards - y_mean))
    left, values, right = np.linalg.svd(small, full_matrices=False)
    shrunk = norm * left[0] * values / (values**2 + alphas[:, None])
    slopes = shrunk @ right @ basis
    return RidgePath(slopes, y_mean - slopes @ x_mean)


@dataclass(frozen=True, eq=False)
class _Design:
    """``A = diag(root) (X - 1 x_mean')``, never formed, so that sparse features stay sparse."""

    features: Contexts
    x_mean: FloatArray
    root: FloatArray

    def times(self, v: FloatArray) -> FloatArray:
        return self.root * (np.asarray(self.features @ v) - self.x_mean @ v)

    def transposed_times(self, u: FloatArray) -> FloatArray:
        scaled = self.root * u
        product: FloatArray = np.asarray(self.features.T @ scaled) - self.x_mean * scaled.sum()
        return product


def _bidiagonalise(design: _Design, target: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """Golub-Kahan: orthonormal rows ``V``, lower bidiagonal ``B`` and ``|target|`` with ``A V' = U B``.

    The first column of ``U`` points to the target. A direction of zeros ends the basis where the space is exhausted.
    """
    n, d = design.features.shape
    steps = max(1, min(STEPS, n, d))
    basis, small = np.zeros((steps, d)), np.zeros((steps + 1, steps))
    norm = beta = float(np.linalg.norm(target))
    u = target / norm if norm > 0 else target
    for j in range(steps):
        v = design.transposed_times(u)
        # Rounding lets the basis lose its right angles; taking out the earlier rows (twice is enough) keeps them.
        for _ in range(2):
            v = v - (basis[:j] @ v) @ basis[:j]
        alpha = float(np.linalg.norm(v))
        if alpha <= 1e-12 * small[0, 0] or alpha == 0:
            return basis[: j + 1], small[: j + 2, : j + 1], norm
        small[j, j], basis[j] = alpha, v / alpha
        u = design.times(basis[j]) - alpha * u
        small[j + 1, j] = beta = float(np.linalg.norm(u))
        u = u / beta if beta > 0 else u
    return basis, small, norm
