"""Filled replay is its derivation line by line, and clock replay itself where nothing is exhausted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import backcast as bc
from backcast._engine.clock import ClockPass, run_clock_pass
from backcast._engine.filling import Fill
from backcast._engine.replay_loop import EventArrays
from backcast.reference import ClockResult, FillDraws, OneEventAtATime, clock_replay
from tests.support.policies import Counting

POLICIES: dict[str, Any] = {
    "by action": lambda batch: bc.LinUCB(0.5, batch_size=batch),
    "as a whole": lambda batch: bc.UCB1(batch_size=batch),
    "in Python": Counting,
    "fixed": lambda batch: bc.Fixed([0.1, 0.2, 0.7]),
}


def engine(log: bc.Log, policy: Any, predicted: Any, thresholds: Any, fill: Fill | None, horizon: int) -> ClockPass:
    events = EventArrays.from_log(log, predicted, thresholds)
    return run_clock_pass(policy, log, events, horizon, np.random.default_rng(0), fill=fill)


def specification(log: bc.Log, policy: Any, predicted: Any, thresholds: Any, fill: Fill) -> ClockResult:
    horizon, law = len(fill.draws), fill.law

    def fresh_reward(k: int, uniform: float) -> float:
        mean = predicted[k, log.actions[k]]
        if law.residuals.size:
            return float(np.clip(mean + law.residuals[int(uniform * law.residuals.size)], law.low, law.high))
        return law.high if uniform < (mean - law.low) / (law.high - law.low) else law.low

    adapter = OneEventAtATime(policy, log)
    return clock_replay(
        adapter,
        adapter.events(),
        predicted.tolist(),
        thresholds.tolist(),
        horizon,
        adapter.batch_size if hasattr(policy, "learn") else horizon,
        FillDraws([tuple(row) for row in fill.draws.tolist()], fresh_reward),
        np.flatnonzero(fill.held_out).tolist(),
    )


@pytest.mark.parametrize("name", POLICIES)
def test_the_engine_fills_as_derived(name: str, make_log: Any) -> None:
    @settings(max_examples=8)
    @given(
        st.integers(2, 12), st.integers(0, 2**32 - 1), st.sampled_from((1, 3)), st.sampled_from((1, 3)), st.booleans()
    )
    def holds(n: int, seed: int, batch: int, times: int, splits: bool) -> None:
        log = make_log("dense", n, seed=seed)
        rng = np.random.default_rng(seed)
        predicted, thresholds = rng.random((n, log.n_actions)), rng.random(n)
        held_out = rng.permutation(n) < n // 2 if splits else None
        fill = Fill.from_log(log, predicted[np.arange(n), log.actions], times * n, rng, held_out)
        policy = POLICIES[name](batch)
        passed = engine(log, policy, predicted, thresholds, fill, times * n)
        expected = specification(log, policy, predicted, thresholds, fill)
        np.testing.assert_array_equal(passed.order, expected.accepted)
        np.testing.assert_array_equal(passed.filled, expected.filled)
        np.testing.assert_allclose(passed.value, expected.curve, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(passed.exhausted, expected.exhausted, rtol=1e-9, atol=1e-9)

    holds()


@pytest.mark.parametrize("name", POLICIES)
def test_nothing_changes_where_nothing_is_exhausted(name: str, make_log: Any) -> None:
    log = make_log("dense", 400, seed=1)
    rng = np.random.default_rng(1)
    predicted, thresholds = rng.random((400, log.n_actions)), rng.random(400)
    plain, filled = (
        engine(log, POLICIES[name](2), predicted, thresholds, fill, 8)
        for fill in (None, Fill.from_log(log, predicted[:, 0], 8, rng))
    )
    assert plain.exhausted.sum() == 0
    for column in ("order", "filled", "value", "exhausted", "variance", "event_values", "reading", "own"):
        np.testing.assert_array_equal(getattr(plain, column), getattr(filled, column))


def test_a_pass_ends_only_where_no_event_has_an_action_of_the_policy() -> None:
    log = bc.Log(None, actions=[0, 0], rewards=[1, 0], propensities=[0.5, 0.5], n_actions=2)
    model = np.full((1, 2), 0.5)
    for share, rounds in ((0.25, 10), (0.0, 0)):
        fill = Fill.from_log(log, np.full(2, 0.5), 10, np.random.default_rng(0))
        assert engine(log, bc.Fixed([share, 1 - share]), model, np.array([0.25, 0.5]), fill, 10).n_rounds == rounds
