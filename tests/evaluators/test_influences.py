"""What an estimate keeps of events, passes and groups, so that another interval can be computed from it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import backcast as bc
from backcast.intervals.learning import student_interval
from tests.support.logs import two_action_log

LOG = two_action_log(means=(0.25, 0.75))
N = len(LOG)


@pytest.mark.parametrize("evaluator", [bc.IPS(), bc.SNIPS(), bc.DR(), bc.BaselineIPS()])
def test_influences_of_a_fixed_policy_have_the_standard_error(evaluator: bc.evaluators.Evaluator) -> None:
    estimate = bc.evaluate(LOG, bc.Fixed([0.25, 0.75]), evaluator)
    influences = estimate.influences
    assert influences is not None
    assert influences.mean() == pytest.approx(0.0, abs=1e-12)
    assert influences.std(ddof=1) / np.sqrt(N) == pytest.approx(estimate.std_error)
    # the bound that the documentation states
    assert influences.nbytes == 8 * N <= LOG.bytes_in_memory / 4


def test_influences_by_clock_replay_are_those_of_doubly_robust_for_a_fixed_policy() -> None:
    policy = bc.Fixed([0.25, 0.75])
    model = np.full((N, 2), 0.5)
    clock = bc.evaluate(LOG, policy, bc.ClockReplay(), horizon=10, reward_model=model)
    assert clock.influences is not None
    assert clock.pass_values is not None
    expected = bc.evaluate(LOG, policy, bc.DR(), reward_model=model).influences
    assert expected is not None
    # a fixed policy is not influenced by its history, apart from Monte-Carlo noise
    assert np.corrcoef(clock.influences, expected)[0, 1] > 0.9
    assert clock.value == clock.pass_values.mean()
    error = clock.influences.std() / np.sqrt(N)
    assert clock.std_error / 1.5 < error < 1.5 * clock.std_error


def test_groups_of_a_jackknife_have_its_value_and_nearly_its_error() -> None:
    options: dict[str, Any] = {"horizon": 10, "interval": bc.GroupJackknife(12), "replicates": 240, "reward_model": 0.5}
    estimate = bc.evaluate(LOG, bc.UCB1(), bc.ClockReplay(), **options)
    assert estimate.group_values is not None
    assert estimate.group_values.size == 12
    assert estimate.group_values.mean() == pytest.approx(estimate.value, abs=1e-12)
    error, _, _ = student_interval(estimate.group_values, 0.95)
    assert error > 0.7 * estimate.std_error  # it contains the noise that the standard error is corrected for


def test_segments_keep_their_values() -> None:
    estimate = bc.evaluate(LOG, bc.UCB1(), bc.WC(), horizon=5, interval=bc.Segments(5), reward_model=0.5)
    assert estimate.group_values is not None
    error, low, high = student_interval(estimate.group_values, 0.95)
    assert (error, low, high) == (estimate.std_error, estimate.interval.low, estimate.interval.high)
    assert estimate.influences is None


def test_they_are_saved_on_request_only(tmp_path: Path) -> None:
    estimate = bc.evaluate(LOG, bc.UCB1(), bc.ClockReplay(), horizon=10, reward_model=0.5, replicates=16)
    small, large = tmp_path / "small.json", tmp_path / "large.json"
    bc.save_result(estimate, small)
    bc.save_result(estimate, large, influences=True)
    assert "influences" not in json.loads(small.read_text())["estimate"]
    read, without = bc.load_result(large).result, bc.load_result(small).result
    assert isinstance(read, bc.Estimate)
    assert isinstance(without, bc.Estimate)
    np.testing.assert_array_equal(read.influences, estimate.influences)
    np.testing.assert_array_equal(read.pass_values, estimate.pass_values)
    assert without.influences is None
    assert without.to_dict() == estimate.to_dict()
