"""Features of actions that are mostly zeros are scored as sparse rows, with the bits of dense ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import backcast as bc
from backcast._kernels import contexts
from backcast._kernels.contexts import dot, dot_entries, form_of_entries, packed_size, write_products


@pytest.mark.parametrize("d", [32, 37, 39])
def test_sums_have_the_same_bits(d: int) -> None:
    rng = np.random.default_rng(d)
    weights, packed = rng.normal(size=d), rng.normal(size=packed_size(d))
    products = np.zeros(packed.size)
    for _ in range(200):
        row = np.where(rng.random(d) < rng.random(), rng.normal(size=d), 0.0)
        indices = np.flatnonzero(row)
        data = np.concatenate([[np.nan], row[indices], [np.nan]])  # entries before and after are not read
        places = np.concatenate([[0], indices, [0]])
        assert dot_entries(weights, data, places, 1, 1 + indices.size) == dot(weights, row)
        write_products(row, products)
        assert form_of_entries(packed, data, places, 1, 1 + indices.size) == dot(packed, products)


def test_a_policy_learns_and_scores_with_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    features: Any = np.where(rng.random((60, 4, 35)) < 0.1, rng.normal(size=(60, 4, 35)), 0.0)
    features[0, 0] = 0.0
    scores = []
    for share, kind in ((0.25, contexts.SparseActionFeatures), (-1.0, contexts.ActionFeatures)):
        monkeypatch.setattr(contexts, "SPARSE_SHARE", share)
        assert isinstance(contexts.view_of(features), kind)
        policy = bc.LinUCB(0.5)
        policy.start(4, 35, np.random.default_rng(0))
        policy.learn(features[:40], np.ones(40, dtype=np.int64), features[:40, 1].sum(axis=1), np.full(40, 0.25))
        scores.append((policy.state_for(features).ridge.theta.copy(), policy.probabilities(features[40:])))
    for sparse, dense in zip(*scores, strict=True):
        assert np.array_equal(sparse, dense)
    assert len(np.unique(scores[0][1], axis=0)) > 1
