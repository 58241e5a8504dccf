"""One pass of clock replay: readings of spans of rounds, and predictions that are updated instead of computed."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import backcast as bc
from backcast._engine import clock
from backcast._engine.clock import NO_EDGES, Rounds, run_clock_pass
from backcast._engine.filling import Fill
from backcast._engine.meters import smallest_of_rank
from backcast._engine.replay_loop import EventArrays
from backcast._kernels import contexts as contexts_module
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


def make_near_ties(seed: int) -> bc.Log:
    """Return a log in which two actions have the same contexts and rewards, apart from at most 1e-9."""
    log = make_log(seed)
    contexts, rewards = np.repeat(np.asarray(log.contexts)[: N // 2], 2, axis=0), np.repeat(log.rewards[: N // 2], 2)
    actions = np.tile([0, 1], N // 2)
    rewards = 0.5 * rewards + 1e-9 * np.random.default_rng(seed).random(N)
    return bc.Log(contexts, actions, rewards, np.full(N, 1 / K), n_actions=K, reward_range=(0, 1))


def make_masked(seed: int) -> bc.Log:
    log = make_log(seed)
    available = np.random.default_rng(seed).random((N, K)) < 0.7
    available[np.arange(N), log.actions] = True
    columns = log.columns
    return bc.Log(columns.contexts, log.actions, log.rewards, columns.propensities, available=available, n_actions=K)


def make_categorical(seed: int) -> bc.Log:
    """Return a log of few different contexts, so that scores are equal at many events."""
    log = make_log(seed)
    contexts = np.eye(D)[np.random.default_rng(seed).integers(D, size=N)] / 3
    return bc.Log(contexts, log.actions, log.rewards, np.full(N, 1 / K), n_actions=K, reward_range=(0, 1))


def train(policy: Any) -> Any:
    """Return the policy with models of two actions that are nearly the same."""
    log = make_near_ties(9)
    policy.start(K, D, np.random.default_rng(0))
    policy.learn(log.contexts, log.actions, log.rewards, log.propensities)
    return policy


LOGS = {"normal": make_log, "near ties": make_near_ties, "masked": make_masked, "categorical": make_categorical}


def run_twice(
    policy: Any, log: bc.Log, monkeypatch: pytest.MonkeyPatch, **constants: float
) -> tuple[clock.ClockPass, clock.ClockPass]:
    """Return the same pass with scores in single and in double precision."""
    events = EventArrays.from_log(log, np.random.default_rng(1).random((N, K)), np.random.default_rng(2).random(N))
    passes = []
    for single in (True, False):
        with monkeypatch.context() as patch:
            if not single:
                patch.setattr(clock, "allows_rounding", lambda state: False)
            for name, value in constants.items():
                patch.setattr(clock if hasattr(clock, name) else contexts_module, name, value)
            passes.append(run_clock_pass(policy, log, events, 250, np.random.default_rng(3), np.array([100, 250])))
    return passes[0], passes[1]


@pytest.mark.parametrize("kind", LOGS)
@pytest.mark.parametrize(
    "policy",
    [
        bc.EpsilonGreedy(0.2),
        bc.EpsilonGreedy(0.0, batch_size=7),
        bc.LinUCB(0.5),
        bc.LinUCB(0.1, batch_size=40),
        train(bc.LinUCB(0.5)),
        train(bc.EpsilonGreedy(0.2)),
    ],
    ids=["greedy", "greedy by 7", "LinUCB", "LinUCB by 40", "trained LinUCB", "trained greedy"],
)
def test_scores_in_single_precision_give_the_choices_of_double(
    policy: Any, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(3):
        single, double = run_twice(policy, LOGS[kind](seed), monkeypatch)
        np.testing.assert_array_equal(single.order, double.order)
        for name in ("value", "exhausted", "event_values", "reading", "own", "compensator"):
            np.testing.assert_allclose(getattr(single, name), getattr(double, name), atol=1e-12, err_msg=name)


def test_choices_differ_without_margins(monkeypatch: pytest.MonkeyPatch) -> None:
    """A policy that starts with near ties needs the margins: without them single precision decides."""
    policy = train(bc.EpsilonGreedy(0.2))
    single, double = run_twice(policy, make_log(0), monkeypatch, NEAR_TIE_SINGLE=0.0, SINGLE_ROUNDING=0.0)
    assert not np.allclose(single.value, double.value, atol=1e-6)


def test_contexts_of_very_different_size_stay_in_double_precision() -> None:
    contexts = np.ones((1000, 2))
    assert with_columns(view_of(contexts), single=True).columns.dtype == np.float32  # type: ignore[union-attr]
    contexts[0] = 1e12
    assert with_columns(view_of(contexts), single=True).columns.dtype == np.float64  # type: ignore[union-attr]
    assert with_columns(view_of(np.full((3, 2), 1e200)), single=True).columns.dtype == np.float64  # type: ignore[union-attr]


TIMES = st.sampled_from([-1.0, 0.0, 0.25, 0.5, 3.0, np.inf, np.nan])  # few, so that there are ties


@given(values=st.lists(TIMES, min_size=1, max_size=40), data=st.data())
def test_selection_finds_the_value_of_a_rank(values: list[float], data: st.DataObject) -> None:
    rank = data.draw(st.integers(0, len(values) - 1))
    array = np.array(values)
    before = array.copy()
    assert smallest_of_rank(array, rank) == np.sort(np.where(np.isnan(array), np.inf, array))[rank]
    np.testing.assert_array_equal(array, before)
