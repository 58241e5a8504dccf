"""Clock replay is its derivation line by line, whatever the policy, the layout of the log or the driver."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression

import backcast as bc
from backcast.log import replace_columns
from backcast.reference import ClockResult, OneEventAtATime, clock_replay
from tests.support.policies import Counting, fixed_scores, make_favourite

LAYOUTS = ("dense", "sparse", "masked", "actions")
BATCHES = (1, 3, 15)


POLICIES: dict[str, Callable[[int], Any]] = {
    "greedy": lambda batch: bc.EpsilonGreedy(0.25, batch_size=batch),
    "greedy without exploration": lambda batch: bc.EpsilonGreedy(0.0, batch_size=batch),
    "softmax": lambda batch: bc.Softmax(0.5, batch_size=batch),
    "linucb": lambda batch: bc.LinUCB(0.5, batch_size=batch),
    "thompson": lambda batch: bc.LinearThompson(0.5, batch_size=batch),
    "ucb1": lambda batch: bc.UCB1(batch_size=batch),
    "round robin": lambda batch: bc.RoundRobin(batch_size=batch),
    "numpy": Counting,
    "regression": lambda batch: bc.FromClassifier(LinearRegression(), epsilon=0.25, batch_size=batch),
    "compiled by the user": make_favourite,
    "fixed": lambda batch: bc.FromScores(fixed_scores, epsilon=0.25),
}
# One regression an action knows nothing of features of the actions; the others would only cost compiling anew.
LEFT_OUT = {
    ("regression", "actions"),
    ("compiled by the user", "sparse"),
    ("compiled by the user", "actions"),
    ("thompson", "sparse"),
    *((name, layout) for name in ("ucb1", "round robin") for layout in ("sparse", "actions")),
}
CASES = [(name, layout) for name in POLICIES for layout in LAYOUTS if (name, layout) not in LEFT_OUT]


def clock(log: bc.Log, policy: Any, **options: Any) -> Any:
    return bc.trace(log, policy, bc.ClockReplay(fill=False), **options)


def reference(log: bc.Log, policy: Any, predicted: Any, uniforms: Any, horizon: int) -> ClockResult:
    adapter = OneEventAtATime(policy, log)
    batch_size = adapter.batch_size if hasattr(policy, "learn") else horizon
    return clock_replay(adapter, adapter.events(), predicted.tolist(), uniforms.tolist(), horizon, batch_size)


runs = st.fixed_dictionaries(
    {
        "n": st.integers(1, 80),
        "seed": st.integers(0, 2**32 - 1),
        "batch": st.sampled_from(BATCHES),
        "share": st.sampled_from((0.1, 0.3, 1.0)),
    }
)


@pytest.mark.parametrize(("name", "layout"), CASES)
def test_every_driver_is_the_derivation(name: str, layout: str, make_log: Any) -> None:
    @settings(max_examples=10)
    @given(runs)
    def holds(run: dict[str, Any]) -> None:
        log = make_log(layout, run["n"], seed=run["seed"])
        rng = np.random.default_rng(run["seed"])
        predicted, uniforms = rng.normal(size=(len(log), log.n_actions)), rng.random(len(log))
        policy = POLICIES[name](run["batch"])
        rounds = max(1, int(run["share"] * len(log)))
        expected = reference(log, policy, predicted, uniforms, rounds)
        horizon = None if len(expected.accepted) < rounds else rounds
        passed = clock(log, policy, predicted=predicted, uniforms=uniforms, horizon=horizon)
        np.testing.assert_array_equal(passed.order, expected.accepted)
        np.testing.assert_allclose(passed.curve, expected.curve, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(passed.exhausted, expected.exhausted, rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(np.flatnonzero(passed.accepted), np.sort(expected.accepted))

    holds()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_logger_evaluated_on_its_own_log_accepts_all_of_it(layout: str, make_log: Any) -> None:
    @settings(max_examples=20)
    @given(st.integers(1, 80), st.integers(0, 2**32 - 1))
    def holds(n: int, seed: int) -> None:
        log = make_log(layout, n, seed=seed)
        uniforms = np.random.default_rng(seed).random(n)
        passed = clock(log, bc.Logged(log.logging_probabilities), uniforms=uniforms, horizon=n)
        assert passed.accepted.all()
        # all meters run at the same speed, so the thresholds set the order and all events count alike
        np.testing.assert_array_equal(passed.order, np.argsort(uniforms))
        np.testing.assert_allclose(passed.curve, log.rewards.mean(), rtol=1e-9)

    holds()


@given(st.integers(0, 2**32 - 1), st.sampled_from(("greedy", "softmax", "ucb1", "numpy")), st.sampled_from(BATCHES))
@settings(max_examples=20)
def test_a_shorter_horizon_is_the_beginning_of_a_longer_one(make_log: Any, seed: int, name: str, batch: int) -> None:
    log, uniforms = make_log("dense", 60, seed=seed), np.random.default_rng(seed).random(60)
    long, short = (clock(log, POLICIES[name](batch), uniforms=uniforms, horizon=rounds) for rounds in (12, 7))
    np.testing.assert_array_equal(long.order[:7], short.order)
    np.testing.assert_array_equal(long.curve[:7], short.curve)


@given(st.integers(0, 2**32 - 1), st.sampled_from(("greedy", "linucb", "numpy")), st.sampled_from(BATCHES))
@settings(max_examples=20)
def test_the_order_of_the_log_does_not_matter(make_log: Any, seed: int, name: str, batch: int) -> None:
    log, rng = make_log("dense", 60, seed=seed), np.random.default_rng(seed)
    uniforms, shuffled = rng.random(60), rng.permutation(60)
    policy = POLICIES[name](batch)
    item = clock(log, policy, uniforms=uniforms, horizon=10)
    two = clock(log[shuffled], policy, uniforms=uniforms[shuffled], horizon=10)
    np.testing.assert_array_equal(item.order, shuffled[two.order])
    np.testing.assert_allclose(item.curve, two.curve, rtol=1e-12)


@given(st.integers(0, 2**32 - 1), st.floats(-2, 2), st.sampled_from(("softmax", "round robin")))
@settings(max_examples=20)
def test_a_constant_reward_is_the_value(make_log: Any, seed: int, constant: float, name: str) -> None:
    log = replace_columns(make_log("dense", 60, seed=seed), rewards=np.full(60, constant))
    predicted = np.full((60, 3), constant)
    passed = clock(log, POLICIES[name](1), predicted=predicted, horizon=5, seed=seed)
    np.testing.assert_allclose(passed.curve, constant, rtol=1e-9, atol=1e-12)


def test_the_callers_policy_is_left_as_it_was(make_log: Any) -> None:
    log = make_log("dense", 60)
    for name in ("greedy", "numpy", "compiled by the user"):
        policy = POLICIES[name](1)
        before = copy.deepcopy(policy.__dict__)
        first, second = (clock(log, policy, horizon=10, seed=1) for _ in range(2))
        np.testing.assert_array_equal(first.order, second.order)
        assert policy.__dict__.keys() == before.keys()
        assert getattr(policy, "_state", None) is None
