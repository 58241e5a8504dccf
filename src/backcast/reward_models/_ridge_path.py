"""Ridge regression for a grid of penalties at the cost of a single one.

All solve ``min_(b, c) sum_k w_k (y_k - x_k b - c)^2 + alpha |b|^2`` with positive weights scaled to mean 1 and the
intercept c not penalised. Few features: one eigendecomposition of the Gram matrix serves every alpha. Many features, or
sparse ones: Golub-Kahan bidiagonalisation, whose Krylov space is the same for every alpha (Paige and Saunders 1982,
"LSQR"; Frommer and Maass 1999 on shifts).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from backcast._arrays import Contexts, FloatArray, IntArray, is_sparse
from backcast.reward_models.regression import scale_to_mean_one

MAX_GRAM_FEATURES = 200  # beyond, the Gram matrix costs more than the Krylov steps
KRYLOV_STEPS = 30


@dataclass(frozen=True, eq=False)
class Examples:
    """Training data of a regression: features ``(n, d)``, rewards ``(n,)`` and positive weights ``(n,)``."""

    features: Contexts
    rewards: FloatArray
    weights: FloatArray

    def __getitem__(self, index: Any) -> Examples:
        return Examples(self.features[index], self.rewards[index], self.weights[index])


class RidgePath(NamedTuple):
    """Slopes ``(A, d)`` and intercepts ``(A,)``, a row for each of A penalties."""

    slopes: FloatArray
    intercepts: FloatArray


class WeightedMoments(NamedTuple):
    """``Z' diag(w) Z`` of ``Z = [1, x, y]``, and the number of examples; both add over disjoint sets of examples."""

    matrix: FloatArray
    n: int


def ridge_path(examples: Examples, alphas: FloatArray) -> RidgePath:
    """Return the ridge solutions for every penalty.

    >>> two = Examples(np.array([[-1.0], [1.0]]), rewards=np.array([0.0, 1.0]), weights=np.ones(2))
    >>> ridge_path(two, alphas=np.array([2.0, 6.0])).slopes[:, 0]
    array([0.25 , 0.125])

    By hand: the slope is sum xy / (sum x^2 + alpha) = 1 / (2 + alpha).
    """
    if _prefers_krylov(examples.features):
        return _krylov_path(examples, alphas)
    center, centred = _center_features(examples)
    return _solve_moments(_moments(centred), center, alphas)


def ridge_paths_without_folds(examples: Examples, fold: IntArray, folds: int, alphas: FloatArray) -> list[RidgePath]:
    """Return, for each fold ``0..folds-1``, the path fitted on the examples outside it (there must be some).

    Moments add over examples, so each fold's are computed once and summed.
    """
    if _prefers_krylov(examples.features):
        return [_krylov_path(examples[fold != f], alphas) for f in range(folds)]
    center, centred = _center_features(examples)
    moments = [_moments(centred[fold == f]) for f in range(folds)]
    matrices, counts = np.array([m.matrix for m in moments]), np.array([m.n for m in moments])
    paths = []
    for f in range(folds):
        others = np.arange(folds) != f
        outside = WeightedMoments(matrices[others].sum(axis=0), int(counts[others].sum()))
        paths.append(_solve_moments(outside, center, alphas))
    return paths


def _prefers_krylov(features: Contexts) -> bool:
    return is_sparse(features) or features.shape[1] > MAX_GRAM_FEATURES


def _center_features(examples: Examples) -> tuple[FloatArray, Examples]:
    """Return the mean of the features and the examples around it: large offsets cost the Gram matrix its precision."""
    features = np.asarray(examples.features)
    center = features.mean(axis=0)
    return center, Examples(features - center, examples.rewards, examples.weights)


def _moments(examples: Examples) -> WeightedMoments:
    rewards, weights = examples.rewards, examples.weights
    z = np.column_stack([np.ones(rewards.size), np.asarray(examples.features), rewards])
    return WeightedMoments(z.T @ (weights[:, None] * z), rewards.size)


def _solve_moments(moments: WeightedMoments, center: FloatArray, alphas: FloatArray) -> RidgePath:
    """Solve for every alpha from the moments of the centred features."""
    total = moments.matrix[0, 0]
    means = moments.matrix[0, 1:] / total
    # weighted covariance of [x, y], scaled to weights of mean 1
    scatter = (moments.matrix[1:, 1:] / total - np.outer(means, means)) * moments.n
    values, vectors = np.linalg.eigh(scatter[:-1, :-1])
    # b = V (D + alpha)^-1 V' (x'y) with the eigendecomposition x'x = V D V'
    shrunk = (vectors.T @ scatter[:-1, -1]) / (np.maximum(values, 0.0) + alphas[:, None])
    slopes = shrunk @ vectors.T
    return RidgePath(slopes, means[-1] - slopes @ (means[:-1] + center))


def _krylov_path(examples: Examples, alphas: FloatArray) -> RidgePath:
    """Project on the Krylov space of the centred, weighted design, then solve the small problem for every alpha."""
    weights = scale_to_mean_one(examples.weights)
    share = weights / weights.sum()
    transposed = examples.features.T
    x_mean: FloatArray = np.asarray(transposed @ share)
    y_mean = float(share @ examples.rewards)
    design = _Design(examples.features, transposed, x_mean, np.sqrt(weights))
    basis, bidiagonal, norm = _bidiagonalise(design, np.sqrt(weights) * (examples.rewards - y_mean))
    # the right side is norm times the first unit vector: only the first row of U is needed
    left, values, right = np.linalg.svd(bidiagonal, full_matrices=False)
    shrunk = norm * left[0] * values / (values**2 + alphas[:, None])
    slopes = shrunk @ right @ basis
    return RidgePath(slopes, y_mean - slopes @ x_mean)


@dataclass(frozen=True, eq=False)
class _Design:
    """``A = diag(root) (X - 1 x_mean')``, never formed, so that sparse features stay sparse."""

    features: Contexts
    transposed: Any
    x_mean: FloatArray
    root: FloatArray

    def times(self, v: FloatArray) -> FloatArray:
        return self.root * (np.asarray(self.features @ v) - self.x_mean @ v)

    def transposed_times(self, u: FloatArray) -> FloatArray:
        scaled = self.root * u
        product: FloatArray = np.asarray(self.transposed @ scaled) - self.x_mean * scaled.sum()
        return product


def _bidiagonalise(design: _Design, target: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """Golub-Kahan: orthonormal rows ``V``, lower bidiagonal ``B`` and ``|target|`` with ``A V' = U B``.

    The first column of ``U`` is the direction of the target. If the Krylov space is exhausted the last row is zero.

    Rounding errors would make ``U`` and ``V`` lose their orthogonality. Orthogonalising one of them, twice, is enough,
    against all its earlier vectors (Simon and Zha 2000, "Low-rank matrix approximation using the Lanczos
    bidiagonalization process"); it is the one with shorter vectors.
    """
    n, d = design.features.shape
    steps = max(1, min(KRYLOV_STEPS, n, d))
    basis, bidiagonal = np.zeros((steps, d)), np.zeros((steps + 1, steps))
    left = np.zeros((steps, n)) if n < d else None
    norm = float(np.linalg.norm(target))
    u = target / norm if norm > 0 else target
    for j in range(steps):
        # alpha_j v_j = A' u_j - beta_j v_(j-1)
        v = design.transposed_times(u)
        if left is None:
            v = _orthogonalise(v, basis[:j])
        elif j > 0:
            v -= bidiagonal[j, j - 1] * basis[j - 1]
        alpha = float(np.linalg.norm(v))
        if alpha <= 1e-12 * bidiagonal[0, 0] or alpha == 0:
            return basis[: j + 1], bidiagonal[: j + 2, : j + 1], norm
        bidiagonal[j, j], basis[j] = alpha, v / alpha
        # beta_(j+1) u_(j+1) = A v_j - alpha_j u_j
        next_u = design.times(basis[j]) - alpha * u
        if left is not None:
            left[j] = u
            next_u = _orthogonalise(next_u, left[: j + 1])
        u = next_u
        bidiagonal[j + 1, j] = beta = float(np.linalg.norm(u))
        u = u / beta if beta > 0 else u
    return basis, bidiagonal, norm


def _orthogonalise(vector: FloatArray, rows: FloatArray) -> FloatArray:
    for _ in range(2):
        vector = vector - (rows @ vector) @ rows
    return vector
