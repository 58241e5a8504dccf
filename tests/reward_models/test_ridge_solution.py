"""The ridge regression in closed form is that of scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from backcast.reward_models._ridge_solution import solve_ridge


@pytest.mark.parametrize(("n", "d"), [(400, 5), (60, 60), (30, 80), (2, 1)])
@pytest.mark.parametrize("weighted", [False, True])
def test_it_agrees_with_scikit_learn(n: int, d: int, weighted: bool) -> None:
    rng = np.random.default_rng(n)
    features, rewards = rng.normal(3.0, 2.0, size=(n, d)), rng.random(n)
    weights = rng.uniform(0.1, 4.0, size=n) if weighted else None
    expected = Ridge(alpha=1.0).fit(features, rewards, sample_weight=weights)
    solution = solve_ridge(features, rewards, weights)
    assert solution is not None
    np.testing.assert_allclose(solution.slopes, expected.coef_, rtol=0, atol=1e-10)
    np.testing.assert_allclose(solution.predict(features), expected.predict(features), rtol=0, atol=1e-10)


def test_features_are_not_changed() -> None:
    features = np.arange(6.0).reshape(3, 2)
    solve_ridge(features, np.arange(3.0), np.ones(3))
    assert features.tolist() == [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]


def test_columns_that_are_huge_and_equal_have_no_solution_in_closed_form() -> None:
    column = 1e12 * np.random.default_rng(0).normal(size=(50, 1))
    assert solve_ridge(np.hstack([column, column, column]), np.arange(50.0), None) is None
