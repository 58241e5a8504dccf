"""Predictions out of sample."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from backcast.errors import EvaluationError, OptionError
from backcast.reward_models import Constant, CrossFit, PerAction, Progressive, Split
from backcast.reward_models.cross_fitting import Given, as_out_of_sample
from tests.support.logs import small_log


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


# Predictions out of sample


def test_what_users_may_pass_as_a_reward_model() -> None:
    log = small_log()
    wrapped = Split(Constant())
    assert as_out_of_sample(wrapped) is wrapped
    assert as_out_of_sample() == CrossFit(PerAction())
    assert as_out_of_sample(Constant(), folds=3) == CrossFit(Constant(), 3)
    ridge = Ridge()
    assert as_out_of_sample(ridge) == CrossFit(PerAction(ridge))
    assert np.array_equal(as_out_of_sample(0.5).predictions(log, rng()).predicted, np.full((60, 3), 0.5))
    table = rng(1).random((60, 3))
    assert np.array_equal(as_out_of_sample(table).predictions(log, rng()).predicted, table)
    assert np.array_equal(as_out_of_sample(table.tolist()).predictions(log, rng()).predicted, table)


@pytest.mark.parametrize("wrong", ["ridge", np.zeros(3), object()])
def test_other_things_are_refused(wrong: object) -> None:
    with pytest.raises(OptionError, match="reward_model is a"):
        as_out_of_sample(wrong)


def test_predictions_of_a_wrong_shape_or_value_are_refused() -> None:
    log = small_log()
    with pytest.raises(OptionError, match=r"shape \(60, 2\); expected \(60, 3\)"):
        Given(np.zeros((60, 2))).predictions(log, rng())
    table = np.zeros((60, 3))
    table[7, 1] = np.nan
    with pytest.raises(OptionError, match="row 7, action 1 is nan"):
        Given(table).predictions(log, rng())


def test_given_predictions_are_contiguous_and_writable_whatever_came_in() -> None:
    table = np.asfortranarray(rng(1).random((60, 3)))
    table.flags.writeable = False
    predicted = Given(table).predictions(small_log(), rng()).predicted
    assert predicted.flags.c_contiguous
    assert predicted.flags.writeable


def test_before_anything_is_seen_the_midpoint_of_the_declared_range_is_predicted() -> None:
    bounded = small_log(reward_range=(-1.0, 2.0))
    start = Progressive(Constant(), first=10).predictions(bounded, rng()).predicted[:10]
    assert np.array_equal(start, np.full((10, 3), 0.5))
    assert not Progressive(Constant(), first=10).predictions(small_log(), rng()).predicted[:10].any()
    assert CrossFit(Constant()).predictions(bounded[:1], rng()).predicted.tolist() == [[0.5] * 3]


def test_one_event_cannot_be_split() -> None:
    with pytest.raises(EvaluationError, match="cannot be split"):
        Split(Constant()).predictions(small_log()[:1], rng())
