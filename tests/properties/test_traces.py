"""The engine is Algorithm 1, whatever the layout of the log, the policy, the driver or the way the log is cut."""

from __future__ import annotations

import copy
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression, LogisticRegression

import backcast as bc
from backcast._engine.replay import MultiplierSchedule, ReplayRun
from backcast._engine.replay_loop import TraceArrays
from backcast._request import EvaluationRequest
from backcast.log import replace_columns
from backcast.reference import OneEventAtATime, dr_ns
from tests.support.policies import Counting, fixed_scores, make_favourite

LAYOUTS = ("dense", "sparse", "masked", "actions")
QUANTILES = (0.0, 0.01, 0.05, 0.1, 1.0)


BUILT_IN = {
    "greedy": bc.EpsilonGreedy(0.25),
    "greedy in threes": bc.EpsilonGreedy(0.25, batch_size=3),
    "greedy without exploration": bc.EpsilonGreedy(0.0),
    "softmax": bc.Softmax(0.5),
    "linucb": bc.LinUCB(0.5),
    "thompson": bc.LinearThompson(0.5, batch_size=2),
    "ucb1": bc.UCB1(),
    "round robin": bc.RoundRobin(),
}
STATIONARY = {
    "uniform": bc.Uniform(),
    "fixed": bc.Fixed([0.5, 0.5, 0.0]),
    "scores": bc.FromScores(fixed_scores, epsilon=0.25),
    "greedy scores": bc.FromScores(fixed_scores),
    "logged": bc.Logged(),
}
PYTHON = {
    "logistic": bc.FromClassifier(LogisticRegression(max_iter=20, tol=1e-2), epsilon=0.25, batch_size=15),
    "linear": bc.FromClassifier(LinearRegression(), epsilon=0.25, batch_size=4),
    "counting": Counting(batch_size=2),
}
POLICIES: dict[str, Any] = BUILT_IN | STATIONARY | PYTHON
# One regression an action knows nothing of features of the actions.
CASES = [
    (name, layout)
    for name in POLICIES
    for layout in LAYOUTS
    if not (layout == "actions" and name in ("logistic", "linear"))
]
CASES += [("compiled", layout) for layout in ("dense", "masked")]


def policy_named(name: str) -> Any:
    return make_favourite(batch_size=2) if name == "compiled" else POLICIES[name]


def log_for(name: str, log: bc.Log) -> bc.Log:
    """Classifiers learn classes, so their log pays 0 or 1."""
    return replace_columns(log, rewards=np.round(log.rewards)) if name == "logistic" else log


def reference(
    log: bc.Log, policy: Any, q: float, c_max: float, predicted: Any, uniforms: Any, horizon: int | None
) -> Any:
    """Algorithm 1 as ``backcast.reference`` has it: a row of (multiplier, weight, value, accepted) per event.

    With a horizon it starts again after that many acceptances, with a new copy of the policy.
    """
    start, rows = 0, []
    while start < len(log):
        adapter = OneEventAtATime(policy, log)
        result = dr_ns(adapter, adapter.events()[start:], predicted[start:], uniforms[start:], q, c_max)
        end = len(log)
        if horizon is not None and len(result.accepted) >= horizon:
            end = start + result.accepted[horizon - 1] + 1
        accepted = np.isin(np.arange(len(log) - start), result.accepted)
        columns = np.column_stack([result.multipliers, result.weights, result.values, accepted])
        rows.append(columns[: end - start])
        start = end
    return np.concatenate(rows)


runs = st.fixed_dictionaries(
    {
        "n": st.integers(1, 90),
        "seed": st.integers(0, 2**32 - 1),
        "q": st.sampled_from(QUANTILES),
        "c_max": st.sampled_from((0.5, 1.0, 2.0)),
        "horizon": st.sampled_from((None, None, 1, 5)),
    }
)


@pytest.mark.parametrize(("name", "layout"), CASES)
def test_trace_is_algorithm_1(name: str, layout: str, make_log: Any) -> None:
    @settings(max_examples=7)
    @given(runs)
    def holds(run: dict[str, Any]) -> None:
        log = log_for(name, make_log(layout, run["n"], seed=run["seed"]))
        rng = np.random.default_rng(run["seed"])
        predicted, uniforms = rng.normal(size=(len(log), log.n_actions)), rng.random(len(log))
        policy = policy_named(name)
        passed = bc.trace(
            log,
            policy,
            bc.DRns(q=run["q"], c_max=run["c_max"]),
            predicted=predicted,
            uniforms=uniforms,
            horizon=run["horizon"],
        )
        expected = reference(log, policy, run["q"], run["c_max"], predicted, uniforms, run["horizon"])
        result = np.column_stack([passed.multiplier, passed.weight, passed.value, passed.accepted])
        np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(passed.order, np.flatnonzero(expected[:, 3]))

    holds()


def test_cases_hold_events_the_policy_would_never_choose(make_log: Any) -> None:
    for name in ("greedy without exploration", "fixed", "greedy scores", "linucb", "round robin"):
        passed = bc.trace(make_log("dense"), POLICIES[name], bc.DRns(q=0.1))
        assert (passed.weight == 0).any()
        assert not passed.accepted[passed.weight == 0].any()


@given(st.integers(0, 2**32 - 1), st.sampled_from(QUANTILES))
@settings(max_examples=30)
def test_no_event_sets_its_own_multiplier(make_log: Any, seed: int, q: float) -> None:
    log = make_log("dense", 40, seed=seed)
    uniforms = np.random.default_rng(seed).random(40)
    other = uniforms.copy()
    other[20:] = 1 - other[20:]
    policy = POLICIES["greedy"]
    first, two = (bc.trace(log, policy, bc.DRns(q=q), uniforms=draws) for draws in (uniforms, other))
    np.testing.assert_array_equal(first.multiplier[:21], two.multiplier[:21])
    changed = replace_columns(log, propensities=np.where(np.arange(40) == 20, 1 / 128, log.propensities))
    three = bc.trace(changed, policy, bc.DRns(q=q), uniforms=uniforms)
    np.testing.assert_array_equal(first.multiplier[:21], three.multiplier[:21])


class PassResult(NamedTuple):
    """All that a run leaves, as bytes that either are the same or are not."""

    traces: TraceArrays
    sums: list[bytes]
    order: list[list[int]]
    curve: bytes


def outcome(log: bc.Log, policy: Any, schedule: MultiplierSchedule, parts: list[slice], **options: Any) -> PassResult:
    rng = np.random.default_rng(len(log))
    predicted, uniforms = rng.normal(size=(len(log), log.n_actions)), rng.random(len(log))
    run = ReplayRun(policy, schedule, (0.0, 1.0), np.random.default_rng(0), **options)
    traces = []
    for part in parts:
        traces.append(TraceArrays.of_length(len(log[part])))
        run.feed(log[part], predicted[part], uniforms[part], traces[-1])
    trajectories = run.close()
    return PassResult(
        TraceArrays(*(np.concatenate(column) for column in zip(*traces, strict=True))),
        [trajectory.sums.tobytes() for trajectory in trajectories],
        [trajectory.order.tolist() for trajectory in trajectories],
        run.curve.sums.tobytes(),
    )


def assert_same(one: PassResult, other: PassResult) -> None:
    for name in TraceArrays._fields:
        np.testing.assert_array_equal(getattr(one.traces, name), getattr(other.traces, name), err_msg=name)
    assert one.sums == other.sums
    assert one.order == other.order
    assert one.curve == other.curve


def cut(n: int, places: list[int]) -> list[slice]:
    edges = sorted({0, n, *(place % n for place in places)})
    return [slice(a, b) for a, b in pairwise(edges)]


STEERINGS = (
    MultiplierSchedule(q=0.05),
    MultiplierSchedule(q=1.0, c_max=2.0),
    MultiplierSchedule(q=0.1, carry=True),
    MultiplierSchedule(c_max=0.25),
    MultiplierSchedule(calibrate=lambda policy: 0.5, refresh=2),
)


@pytest.mark.parametrize(("name", "layout"), CASES)
def test_every_driver_block_and_cut_gives_the_same_run(name: str, layout: str, make_log: Any) -> None:
    n = 47

    @settings(max_examples=3)
    @given(st.integers(0, 999), st.sampled_from(STEERINGS), st.sampled_from((None, 4)), st.lists(st.integers(0, n)))
    def holds(seed: int, schedule: MultiplierSchedule, horizon: int | None, cuts: list[int]) -> None:
        log = log_for(name, make_log(layout, n, seed=seed))
        policy, whole = policy_named(name), [slice(0, n)]
        usual = outcome(log, policy, schedule, whole, horizon=horizon, n_events=n)
        for block_size in (1, 3, 8, 46, 100):
            blocks = outcome(log, policy, schedule, whole, horizon=horizon, driver="block", block_size=block_size)
            assert_same(usual, blocks)
        assert_same(usual, outcome(log, policy, schedule, cut(n, cuts), horizon=horizon))
        assert_same(usual, outcome(log, policy, schedule, cut(n, cuts), horizon=horizon, driver="block"))

    holds()


def test_every_block_size_there_is_gives_the_same_run(make_log: Any) -> None:
    log, policy, schedule = make_log("dense", 31), bc.EpsilonGreedy(0.25, batch_size=3), MultiplierSchedule(q=0.05)
    usual = outcome(log, policy, schedule, [slice(0, 31)])
    for size in range(1, 33):
        assert_same(usual, outcome(log, policy, schedule, [slice(0, 31)], driver="block", block_size=size))
        assert_same(usual, outcome(log, policy, schedule, [slice(i, i + size) for i in range(0, 31, size)]))


def logged_by(policy: Any, n: int, seed: int) -> bc.Log:
    """A log that the policy itself collected, learning as it went."""
    rng = np.random.default_rng(seed)
    contexts = rng.normal(size=(n, 2))
    selected = copy.deepcopy(policy)
    selected.start(3, 2, rng)
    actions, rewards, propensities = np.zeros(n, dtype=np.int64), np.zeros(n), np.zeros(n)
    for k in range(n):
        pi = selected.probabilities(contexts[k : k + 1])[0]
        actions[k] = rng.choice(3, p=pi / pi.sum())
        rewards[k], propensities[k] = float(rng.random() < 0.5), pi[actions[k]]
        batch = getattr(selected, "batch_size", 1)
        if (k + 1) % batch == 0:
            learned = slice(k + 1 - batch, k + 1)
            selected.learn(contexts[learned], actions[learned], rewards[learned], propensities[learned])
    return bc.Log(contexts, actions, rewards, propensities, n_actions=3)


LEARNERS: dict[str, Any] = BUILT_IN | PYTHON


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("q", QUANTILES)
def test_a_learner_evaluated_on_its_own_log_accepts_all_of_it(name: str, q: float) -> None:
    passed = bc.trace(logged_by(LEARNERS[name], 60, seed=7), LEARNERS[name], bc.DRns(q=q), seed=3)
    assert passed.accepted.all()
    np.testing.assert_allclose(passed.weight, 1.0, rtol=1e-12)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_logger_evaluated_on_its_own_log_accepts_all_of_it(layout: str, make_log: Any) -> None:
    @settings(max_examples=10)
    @given(st.integers(1, 80), st.integers(0, 2**32 - 1), st.sampled_from((*QUANTILES, 0.5)))
    def holds(n: int, seed: int, q: float) -> None:
        log = make_log(layout, n, seed=seed)
        recorded = log.logging_probabilities
        for policy in (bc.Logged(), bc.Logged(recorded)):
            assert bc.trace(log, policy, bc.DRns(q=q), seed=seed).accepted.all()

    holds()


@pytest.mark.parametrize("q", QUANTILES)
def test_a_logger_given_as_a_function_accepts_all_of_its_log(q: float) -> None:
    def logger(contexts: Any) -> Any:
        raw = np.exp(contexts @ np.array([[1.0, 0.5, -1.0]]))
        return raw / raw.sum(axis=1, keepdims=True)

    rng = np.random.default_rng(0)
    contexts = rng.normal(size=(300, 1))
    logging = logger(contexts)
    actions = np.array([rng.choice(3, p=row) for row in logging])
    log = bc.Log(contexts, actions, rng.random(300), logging[np.arange(300), actions], n_actions=3)
    assert bc.trace(log, bc.Logged(logger), bc.DRns(q=q)).accepted.all()


def test_more_than_1_as_the_largest_multiplier_is_not_idempotent(make_log: Any) -> None:
    passed = bc.trace(make_log("dense"), bc.Logged(), bc.DRns(q=1.0, c_max=2.0))
    assert (passed.multiplier[:1] == 2.0).all()
    assert (passed.multiplier[1:] == 1.0).all()


def test_the_question_is_passed_on_with_the_events_set_aside(make_log: Any) -> None:
    log = make_log("dense", 50)
    request, schedule = bc.DRns(q=0.1, warm_up=20).plan_replay(EvaluationRequest(log, bc.Uniform()))
    assert request.log.n_events == 30
    assert schedule.warm_up is not None
    assert len(schedule.warm_up) == 20
