"""Probabilities of Gaussian draws to be the largest: within the stated error of an integral on a fine grid."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special

from backcast._kernels.contexts import NO_MASK
from backcast.policies._largest_draw import Draws, win_probabilities


def computed(means: Any, sds: Any, available: Any = NO_MASK) -> Any:
    out = np.array(means, dtype=float)
    win_probabilities(out, np.array(sds, dtype=float), available, 0, Draws.of_size(out.size))
    return out


def integrated(means: Any, sds: Any) -> Any:
    """The integrals by Gauss-Legendre quadrature with 16 nodes per standard deviation of every draw."""
    low, high = (means - 7 * sds).max(), (means + 8 * sds).max()
    edges = np.unique(np.clip([*(means + j * sds for j in range(-8, 9)), np.full(means.size, low)], low, high))
    nodes, weights = np.polynomial.legendre.leggauss(16)
    half = np.diff(edges)[:, None] / 2
    z, weight = (edges[:-1, None] + half * (1 + nodes)).ravel(), (half * weights).ravel()
    score = (z[:, None] - means) / sds
    hazard = np.exp(-0.5 * score**2 - special.log_ndtr(score)) / (sds * np.sqrt(2 * np.pi))
    return (weight * np.exp(special.log_ndtr(score).sum(axis=1))) @ hazard


def make_draws(kind: str, n: int, rng: np.random.Generator) -> tuple[Any, Any]:
    if kind == "alike":
        return np.where(np.arange(n) == 0, rng.normal(), 0.0), np.ones(n)
    if kind == "similar":
        return rng.normal(size=n), rng.uniform(0.5, 2, size=n)
    if kind == "two groups":
        return np.where(np.arange(n) < n // 2, 0.0, -1.5) + 0.1 * rng.normal(size=n), rng.uniform(0.9, 1.1, size=n)
    if kind == "one wide":
        return rng.normal(size=n), np.where(np.arange(n) == 0, rng.uniform(1, 8), 1.0)
    if kind == "one narrow":
        return rng.normal(size=n) / 3, np.where(np.arange(n) == 0, rng.uniform(0.1, 1), 1.0)
    sds = 10 ** rng.uniform(-3, 0.5, size=n)
    return (rng.normal(size=n) if kind == "all scales" else sds * rng.normal(-2, 1, size=n)), sds


@pytest.mark.parametrize("kind", ["alike", "similar", "two groups", "one wide", "one narrow", "all scales", "nested"])
@pytest.mark.parametrize("n", [2, 3, 5, 10, 40])
def test_the_error_is_at_most_what_is_stated(kind: str, n: int) -> None:
    rng = np.random.default_rng(n)
    for _ in range(40):
        means, sds = make_draws(kind, n, rng)
        np.testing.assert_allclose(computed(means, sds), integrated(means, sds), rtol=0, atol=1e-7 * max(n, 10))


def test_it_agrees_with_a_million_draws() -> None:
    # the largest of three frequencies of a million draws lies beyond 5 standard errors (.0025) with odds below 2e-6
    means, sds = np.array([0.2, 0.0, -0.1]), np.array([0.1, 0.4, 1.0])
    draws = np.random.default_rng(0).normal(means, sds, size=(1_000_000, 3)).argmax(axis=1)
    np.testing.assert_allclose(computed(means, sds), np.bincount(draws) / 1e6, atol=0.0025)


def test_units_do_not_matter() -> None:
    means, sds = make_draws("similar", 6, np.random.default_rng(1))
    expected = computed(means, sds)
    for unit in (2.0**-40, 2.0**40):
        np.testing.assert_allclose(computed(unit * means, unit * sds), expected, atol=1e-12)
    np.testing.assert_allclose(computed(means + 1e3, sds), expected, atol=1e-9)


@pytest.mark.parametrize("n", [3, 4, 12])
def test_equal_draws_share(n: int) -> None:
    np.testing.assert_allclose(computed(np.full(n, 0.5), np.full(n, 0.25)), 1 / n, rtol=1e-12)


def test_draws_without_variance() -> None:
    assert computed([0.5, 1.0, 1.0], np.zeros(3)).tolist() == [0.0, 0.5, 0.5]
    # a constant 0 against draws from N(0, 1): it is the largest if both are negative
    np.testing.assert_allclose(computed([0.0, 0.0, 0.0], [0.0, 1.0, 1.0]), [0.25, 0.375, 0.375], atol=1e-6)
    assert computed([0.0, 1.0, -1e9], [0.0, 1e-3, 1e-3]).tolist() == [0.0, 1.0, 0.0]


def test_actions_that_are_not_available_never_win() -> None:
    available = np.array([[True, False, True, True]])
    out = computed([0.0, 9.0, 0.5, 0.25], [1.0, 1.0, 0.5, 2.0], available)
    assert out[1] == 0.0
    np.testing.assert_allclose(out[[0, 2, 3]], computed([0.0, 0.5, 0.25], [1.0, 0.5, 2.0]), rtol=1e-12)
    assert computed([0.0, 9.0], [1.0, 1.0], np.array([[True, False]])).tolist() == [1.0, 0.0]
