"""One pass of clock replay: readings of spans of rounds, and predictions that are updated instead of computed."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import backcast as bc
from backcast._engine.clock import NO_EDGES, Rounds, run_clock_pass
from backcast._engine.filling import Fill
from backcast._engine.meters import smallest_of_rank
from backcast._engine.replay_loop import EventArrays
from backcast._kernels.contexts import view_of, with_columns
from backcast.policies._ridge import learn_linear, with_predictions

N, K, D = 400, 4, 5


@pytest.mark.parametrize("batch_size", [1, 3, 50])
def test_spans_of_rounds_cover_every_round_once(batch_size: int) -> None:
    rounds = Rounds.of_length(1000, 10, NO_EDGES, Fill.off())
    rounds.plan_readings(batch_size, 8, np.random.default_rng(0))
    read = np.flatnonzero(rounds.last)
    assert (read % batch_size == 0).all()
    assert (rounds.first[read] <= read).all()
    assert (read < rounds.last[read]).all()
    np.testing.assert_array_equal(rounds.first[read], np.append(0, rounds.last[read][:-1]))
    assert rounds.last[read][-1] == 1000
    # up to round 64 every update is read, and at the end a span has 8 rounds, or one batch
    assert (np.diff(read[read < 64]) == batch_size).all()
    assert (rounds.last - rounds.first)[read].max() == max(8 // batch_size * batch_size, batch_size)


def make_log(seed: int) -> bc.Log:
    rng = np.random.default_rng(seed)
    contexts = rng.normal(size=(N, D))
    actions, rewards = rng.integers(K, size=N), (rng.random(N) < 0.5).astype(np.float64)
    return bc.Log(contexts, actions, rewards, np.full(N, 1 / K), n_actions=K, reward_range=(0, 1))


@pytest.mark.parametrize("policy", [bc.EpsilonGreedy(0.2), bc.LinUCB(0.5), bc.Softmax(0.2)])
def test_readings_do_not_change_the_history_and_keep_the_value(policy: Any) -> None:
    """Forty passes over 300 rounds: the mean change is within 4 of its standard errors (odds 1 in 16,000)."""
    log, changes = make_log(0), []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        events = EventArrays.from_log(log, np.full((1, K), 0.5), rng.random(N))
        every, some = (
            run_clock_pass(policy, log, events, 300, np.random.default_rng(seed), reading_interval=interval)
            for interval in (1, 8)
        )
        np.testing.assert_array_equal(every.order, some.order)
        np.testing.assert_array_equal(every.exhausted, some.exhausted)
        np.testing.assert_array_equal(every.event_values, some.event_values)
        changes.append(some.value.mean() - every.value.mean())
    assert np.std(changes) > 0
    assert abs(np.mean(changes)) < 4 * np.std(changes) / np.sqrt(40)


def test_updated_predictions_are_the_computed_ones() -> None:
    """After 300 updates the rounding errors are far below the margin that counts as a near tie."""
    log = make_log(1)
    contexts = log.columns.contexts
    policy = bc.LinUCB(0.5)
    policy.start(K, D, np.random.default_rng(0))
    view: Any = with_columns(view_of(contexts))
    state = policy.state_for_pass(contexts, view)
    learn: Any = numba.njit(learn_linear)
    for k in range(300):
        learn(state, view, k, int(log.actions[k]), float(log.rewards[k]), 0.25)
    fresh = with_predictions(state.ridge, view, N)
    assert np.abs(state.ridge.means).max() > 0.1
    np.testing.assert_allclose(state.ridge.means, fresh.means, atol=1e-12)
    np.testing.assert_allclose(state.ridge.variances, fresh.variances, atol=1e-12)


TIMES = st.sampled_from([-1.0, 0.0, 0.25, 0.5, 3.0, np.inf, np.nan])  # few, so that there are ties


@given(values=st.lists(TIMES, min_size=1, max_size=40), data=st.data())
def test_selection_finds_the_value_of_a_rank(values: list[float], data: st.DataObject) -> None:
    rank = data.draw(st.integers(0, len(values) - 1))
    array = np.array(values)
    before = array.copy()
    assert smallest_of_rank(array, rank) == np.sort(np.where(np.isnan(array), np.inf, array))[rank]
    np.testing.assert_array_equal(array, before)
