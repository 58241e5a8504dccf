"""The interval of DM for a learning policy: the uncertainty of the fitted model, carried into the simulation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import backcast as bc
from backcast.environments import coin_flips, run_live
from tests.support.logs import two_action_log

LOG = two_action_log(300)


def test_the_interval_covers_if_the_model_has_the_right_form() -> None:
    """Without contexts a mean per action is the right model."""
    rng, means = np.random.default_rng(0), np.array([[0.4, 0.7]])
    truth = run_live(np.zeros((1, 1)), means, bc.UCB1(), horizon=25, runs=2_000, rng=rng, draw=coin_flips).mean()
    estimates = [bc.evaluate(two_action_log(250, seed), bc.UCB1(), bc.DM(), horizon=25) for seed in range(25)]
    hits = sum(estimate.interval.low <= truth <= estimate.interval.high for estimate in estimates)
    # at a coverage of 0.9 (20 refits) fewer have odds of 1e-3
    assert hits >= stats.binom.ppf(1e-3, 25, 0.9)
    errors, values = (np.array([getattr(each, name) for each in estimates]) for name in ("std_error", "value"))
    # the standard deviation of 25 values is off by a factor outside of 0.6 to 1.6 with odds of 1e-3
    assert 0.6 < errors.mean() / values.std(ddof=1) < 1.6


def test_the_interval_states_its_assumption_and_leaves_the_value_unchanged() -> None:
    estimate = bc.evaluate(LOG, bc.UCB1(), bc.DM(), horizon=20)
    assert estimate.interval.assumption == "reward model"
    assert "assumes the reward model" in str(estimate)
    assert any("20 refits" in note for note in estimate.notes)
    more = bc.evaluate(LOG, bc.UCB1(), bc.DM(), horizon=20, replicates=30)
    assert more.value == estimate.value
    assert any("30 refits" in note for note in more.notes)
    assert estimate.curve is not None
    assert (estimate.curve.low < estimate.curve.high).all()


@pytest.mark.parametrize("model", [0.5, np.full((300, 2), 0.5), bc.Fitted(bc.Constant().fit(LOG))])
def test_a_model_that_is_given_has_no_interval(model: Any) -> None:
    estimate = bc.evaluate(LOG, bc.UCB1(), bc.DM(), horizon=20, reward_model=model)
    assert estimate.interval is None
    assert np.isnan(estimate.std_error)


def test_one_refit_has_no_spread() -> None:
    with pytest.raises(bc.OptionError, match="at least 2 refits"):
        bc.evaluate(LOG, bc.UCB1(), bc.DM(), horizon=20, replicates=1)
