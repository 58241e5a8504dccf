"""Environments made from classification data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse

from backcast._arrays import BoolArray, FloatArray
from backcast.environments import classification_environment
from backcast.errors import OptionError
from tests.support.statistics import FAR, assert_close, inverse_propensity


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


# Classification


def labelled(n: int) -> tuple[FloatArray, BoolArray]:
    labels = rng(3).random((n, 4)) < 0.4
    labels[np.arange(n), rng(4).integers(4, size=n)] = True
    return rng(5).standard_normal((n, 3)), labels


@pytest.mark.parametrize("loss", [False, True])
def test_conversion_follows_the_paper(loss: bool) -> None:
    features, labels = labelled(20_000)
    log = classification_environment(features, labels, loss=loss).log(rng(6))
    law = log.logging_probabilities
    assert law is not None
    right = labels[np.arange(20_000), log.actions]
    assert np.array_equal(log.rewards, (right != loss).astype(float))
    # Without the share of the labels, the random part remains, between 0.3 * 0.1 / 3.1 and 0.3 * 1 / 1.3.
    spread = law - 0.7 * labels / labels.sum(axis=1, keepdims=True)
    assert np.allclose(spread.sum(axis=1), 0.3)
    assert spread.min() >= 0.3 * 0.1 / 3.1 - 1e-12
    assert spread.max() <= 0.3 / 1.3 + 1e-12
    counts = np.bincount(log.actions, minlength=4)
    error = np.sqrt((law * (1 - law)).sum(axis=0))
    assert (np.abs(counts - law.sum(axis=0)) < FAR * error).all()
    assert log.reward_range == (0.0, 1.0)


@pytest.mark.parametrize("loss", [False, True])
def test_classification_value_agrees_with_inverse_propensity_weighting(loss: bool) -> None:
    features, labels = labelled(20_000)
    world = classification_environment(features, labels, loss=loss)
    target = rng(7).dirichlet(np.ones(4), size=20_000)
    log = world.log(rng(8))
    assert_close(inverse_propensity(log, target), world.value(target))


def test_losses_are_one_minus_rewards() -> None:
    features, labels = labelled(50)
    target = rng(7).dirichlet(np.ones(4), size=50)
    gain, cost = (classification_environment(features, labels, loss=loss).value(target) for loss in (False, True))
    assert gain + cost == pytest.approx(1)


def test_labels_of_one_kind_and_sparse_features() -> None:
    features = scipy.sparse.csr_matrix(np.eye(4))
    world = classification_environment(features, ["b", "a", "c", "a"])
    assert world.action_labels == ("a", "b", "c")
    assert world.n_actions == 3
    assert np.array_equal(world.rewards, [[0, 1, 0], [1, 0, 0], [0, 0, 1], [1, 0, 0]])
    part = world[[1, 3]]
    assert len(part) == 2
    log = part.log(rng(1))
    assert log.action_labels == ("a", "b", "c")
    assert np.array_equal(log.contexts.toarray(), np.eye(4)[[1, 3]])  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([[True, False], [False, False]], "row 1: the example has no label"),
        ([0, 1, 0], "features have 2 rows but labels have 3"),
        (0, r"labels have shape \(\)"),
    ],
)
def test_classification_environment_rejects_invalid_labels(labels: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        classification_environment(np.zeros((2, 1)), labels)


def test_probabilities_must_have_the_shape_of_the_labels() -> None:
    with pytest.raises(OptionError, match=r"shape \(1, 2\); expected \(2, 2\)"):
        classification_environment(np.zeros((2, 1)), [0, 1]).value([[0.5, 0.5]])
