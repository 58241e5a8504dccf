"""Ridge regressions for many penalties at once."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from sklearn.linear_model import Ridge

from backcast._arrays import Contexts, FloatArray
from backcast.reward_models import _ridge_path
from backcast.reward_models._ridge_path import Examples, ridge_path, ridge_paths_without_folds
from backcast.reward_models.regression import scale_to_mean_one

ALPHAS = np.array([0.1, 10.0, 1000.0])


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


# Ridge paths


def expected_ridge(examples: Examples, alpha: float) -> tuple[FloatArray, float]:
    model = Ridge(
        alpha=alpha, solver="cholesky" if isinstance(examples.features, np.ndarray) else "sparse_cg", tol=1e-12
    )
    model.fit(examples.features, examples.rewards, sample_weight=scale_to_mean_one(examples.weights))
    return model.coef_, float(model.intercept_)


def some_examples(features: Contexts) -> Examples:
    n = int(features.shape[0])
    return Examples(features, rng(1).standard_normal(n), rng(2).uniform(0.1, 3.0, size=n))


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_ridge_path_is_ridge_at_every_penalty(offset: float) -> None:
    examples = some_examples(rng(3).standard_normal((50, 7)) + offset)
    path = ridge_path(examples, ALPHAS)
    for which, alpha in enumerate(ALPHAS):
        slopes, _ = expected_ridge(examples, float(alpha))
        assert np.allclose(path.slopes[which], slopes, rtol=1e-5, atol=1e-8)
    line = np.asarray(examples.features) @ path.slopes[0] + path.intercepts[0]
    assert np.average(line - examples.rewards, weights=examples.weights) == pytest.approx(0, abs=1e-7)


def test_fold_paths_are_fits_on_the_other_folds() -> None:
    examples = some_examples(rng(3).standard_normal((50, 4)))
    fold = rng(4).integers(3, size=50)
    for f, path in enumerate(ridge_paths_without_folds(examples, fold, 3, ALPHAS)):
        again = ridge_path(examples[fold != f], ALPHAS)
        assert np.allclose(path.slopes, again.slopes)
        assert np.allclose(path.intercepts, again.intercepts)


def test_krylov_path_is_ridge_on_sparse_features() -> None:
    filled = rng(5).random((300, 400)) * (rng(6).random((300, 400)) < 0.02)
    examples = some_examples(scipy.sparse.csr_array(filled))
    path = ridge_path(examples, np.array([1.0, 100.0]))
    for which, alpha in enumerate((1.0, 100.0)):
        slopes, intercept = expected_ridge(examples, alpha)
        assert np.allclose(path.slopes[which], slopes, atol=1e-4)
        assert path.intercepts[which] == pytest.approx(intercept, abs=1e-4)
    folds = ridge_paths_without_folds(examples, np.arange(300) % 2, 2, np.array([1.0]))
    assert np.allclose(folds[0].slopes, ridge_path(examples[1::2], np.array([1.0])).slopes)


@pytest.mark.parametrize("columns", [0, 1, 3])
def test_krylov_path_ends_where_its_space_does(columns: int) -> None:
    features = scipy.sparse.csr_array(rng(3).standard_normal((20, columns)))
    examples = some_examples(features)
    dense = ridge_path(Examples(features.toarray(), examples.rewards, examples.weights), ALPHAS)
    path = ridge_path(examples, ALPHAS)
    assert np.allclose(path.slopes, dense.slopes)
    assert np.allclose(path.intercepts, dense.intercepts)


@pytest.mark.parametrize("shape", [(25, 400), (400, 25)])
def test_a_krylov_space_of_the_shorter_side_gives_the_exact_solution(shape: tuple[int, int]) -> None:
    filled = rng(7).standard_normal(shape) * (rng(8).random(shape) < 0.3)
    examples = some_examples(scipy.sparse.csr_array(filled))
    path = ridge_path(examples, ALPHAS)
    for which, alpha in enumerate(ALPHAS):
        slopes, _ = expected_ridge(Examples(filled, examples.rewards, examples.weights), float(alpha))
        assert np.allclose(path.slopes[which], slopes, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("shape", [(60, 5000), (5000, 60)])
def test_only_vectors_of_the_shorter_side_are_orthogonalised(
    shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths = []
    orthogonalise = _ridge_path._orthogonalise

    def record(vector: FloatArray, rows: FloatArray) -> FloatArray:
        lengths.append(vector.size)
        return orthogonalise(vector, rows)

    monkeypatch.setattr(_ridge_path, "_orthogonalise", record)
    filled = rng(9).random(shape) * (rng(10).random(shape) < 0.02)
    ridge_path(some_examples(scipy.sparse.csr_array(filled)), ALPHAS)
    assert lengths == [60] * _ridge_path.KRYLOV_STEPS
