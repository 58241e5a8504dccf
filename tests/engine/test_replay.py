"""The parts of the engine on their own: the running quantile, one event, the curve, the queue, the forward run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import backcast as bc
from backcast._arrays import concat_contexts
from backcast._engine.equations import is_accepted, quantile_rank
from backcast._engine.forward import RewardLaw, draw_reward, run_forward
from backcast._engine.quantile import grow, new_quantile, observe, quantile
from backcast._engine.replay import MultiplierSchedule, ReplayRun
from backcast._engine.replay_loop import CURVE_BINS, CurveSums, TraceArrays
from backcast.policies._calls import draw_action
from backcast.reference import event_value

ratios = st.lists(
    st.one_of(st.floats(0, 3), st.sampled_from((0.0, 0.25, 0.5, 1.0, 2.0, np.inf))), min_size=1, max_size=60
)
shares = st.one_of(st.sampled_from((0.0, 0.01, 0.05, 0.07, 0.1, 0.5, 1.0)), st.floats(0, 1))
ceilings = st.sampled_from((0.25, 1.0, 2.0, 10.0))


@given(ratios, shares, ceilings, st.booleans(), st.integers(1, 17), st.integers(0, 40))
def test_running_quantile_is_numpys_capped(
    values: list[float], q: float, ceiling: float, known: bool, chunk: int, more: int
) -> None:
    running = new_quantile(q, ceiling, len(values) + more if known else None)
    for k, value in enumerate(values):
        if k % chunk == 0:
            running = grow(running, chunk)
        observe(running, value)
        expected = min(ceiling, float(np.quantile(values[: k + 1], q, method="inverted_cdf")))
        assert quantile(running) == expected


@given(st.integers(0, 2**32 - 1), shares, st.integers(1, 60), st.booleans())
def test_running_quantile_may_be_asked_seldom(seed: int, q: float, every: int, known: bool) -> None:
    # two stretches of different size, so that values must move between the heaps in both directions
    rng = np.random.default_rng(seed)
    values = np.concatenate([rng.random(300) + rng.integers(2), rng.random(300)])
    running = new_quantile(q, 3.0, values.size if known else None)
    for k, value in enumerate(values):
        running = grow(running, 1)
        observe(running, value)
        if k % every == 0:
            assert quantile(running) == np.quantile(values[: k + 1], q, method="inverted_cdf")


@given(st.integers(0, 2**32 - 1), shares, st.sampled_from(("falling", "rising", "random")))
@settings(max_examples=25)
def test_long_streams_stay_exact_while_values_are_dropped(seed: int, q: float, order: str) -> None:
    n = 3000
    values = np.random.default_rng(seed).random(n)
    values = {"falling": np.sort(values)[::-1], "rising": np.sort(values), "random": values}[order]
    running = new_quantile(q, 2.0, n)
    for k, value in enumerate(values):
        running = grow(running, 1)
        observe(running, value)
        if k % 97 == 0 or k == n - 1:
            assert quantile(running) == np.quantile(values[: k + 1], q, method="inverted_cdf")


@pytest.mark.parametrize("order", ["falling", "random"])
@pytest.mark.parametrize("q", [0.0, 0.01, 0.1])
def test_memory_is_bounded_by_the_rank_when_the_length_is_known(q: float, order: str) -> None:
    n, chunk = 100_000, 2_000
    values = np.random.default_rng(0).random(n)
    values = np.sort(values)[::-1] if order == "falling" else values
    running = new_quantile(q, 2.0, n)
    most = 0
    for start in range(0, n, chunk):
        running = grow(running, chunk)
        feed(running, values[start : start + chunk])
        most = max(most, running.low.size + running.high.size)
    assert quantile(running) == np.quantile(values, q, method="inverted_cdf")
    # the rank itself, a waiting room of twice that, growth by half, and a constant
    assert most <= 6 * max(1, q * n) + 8192


def feed(running: Any, values: Any) -> None:
    for value in values:
        observe(running, value)


def test_values_at_the_ceiling_are_counted_and_not_kept() -> None:
    running = grow(new_quantile(0.5, 1.0), 1000)
    feed(running, [1.0, np.inf, 5.0] * 300)
    assert running.counts[:3].tolist() == [0, 0, 900]
    assert quantile(running) == 1.0
    feed(running, [0.5])
    assert quantile(running) == 1.0
    assert quantile_rank(0.5, 901) == 451


def test_probability_zero_is_never_accepted_even_by_a_draw_of_zero() -> None:
    log = bc.Log(None, actions=[1, 0], rewards=[1, 1], propensities=[0.5, 0.5], n_actions=2)
    passed = bc.trace(log, bc.Fixed([1.0, 0.0]), bc.DRns(q=0), uniforms=[0.0, 0.0])
    assert passed.accepted.tolist() == [False, True]


def test_equations_by_hand() -> None:
    assert event_value([0.0, 1.0], [0.5, 0.25], 0, 1.0, 0.5) == 0.25
    assert is_accepted(0.5, 1.0, 0.25, 0.5)
    assert not is_accepted(0.75, 1.0, 0.25, 0.5)
    assert quantile_rank(0.05, 100) == 5
    assert quantile_rank(0.05, 101) == 6


@pytest.mark.parametrize(("n", "width"), [(400, 1), (1500, 4)])
def test_curve_adds_up_the_events_of_each_round(n: int, width: int) -> None:
    rng = np.random.default_rng(0)
    log = bc.Log(None, rng.integers(2, size=n), rng.random(n), np.full(n, 0.5), n_actions=2)
    run = ReplayRun(bc.Fixed([0.375, 0.625]), MultiplierSchedule(q=0.25), (0.0, 1.0), np.random.default_rng(0))
    trace = TraceArrays.of_length(n)
    run.feed(log, np.full((1, 2), 0.5), rng.random(n), trace)
    run.close()
    assert run.curve.width[0] == width
    bins = (np.cumsum(trace.accepted) - trace.accepted) // width
    c, value = trace.multiplier, trace.value
    columns = c * value, c, (c * value) ** 2, c**2 * value, c**2
    expected = np.column_stack([np.bincount(bins, column, minlength=CURVE_BINS) for column in columns])
    np.testing.assert_allclose(run.curve.sums, expected, rtol=1e-12, atol=1e-12)


def test_curve_of_a_known_horizon_has_its_final_width_at_once() -> None:
    assert CurveSums.empty(horizon=CURVE_BINS).width[0] == 1
    assert CurveSums.empty(horizon=CURVE_BINS + 1).width[0] == 2


def run_of(log: bc.Log, policy: Any, uniforms: Any, **options: Any) -> ReplayRun:
    run = ReplayRun(policy, MultiplierSchedule(q=0.0), (0.0, 1.0), np.random.default_rng(0), **options)
    run.feed(log, np.zeros((1, log.n_actions)), np.asarray(uniforms, dtype=np.float64))
    return run


def test_sums_of_a_run_by_hand() -> None:
    log = bc.Log(None, actions=[0, 1, 0, 0], rewards=[1, 1, 0, 1], propensities=[0.5, 0.5, 0.25, 0.5], n_actions=2)
    (only,) = run_of(log, bc.Fixed([0.5, 0.5]), [0.5, 0.75, 0.75, 0.75]).close()
    # weights 1 1 2 1; ratios 1 1 .5 1; multiplier 1 1 1 .5: the third event is cut, the fourth is turned down
    assert only.complete
    assert only.order.tolist() == [0, 1, 2]
    assert only.sums["cut"] == 1
    assert only.sums["excess"] == 1.0
    assert only.sums["reward"] == 1 + 1 + 0 + 0.5
    assert only.sums["weight"] == 3.5
    assert only.value == 2.5 / 3.5
    assert only.value_per_round == 2 / 3
    assert only.mean_accepted_reward == 2 / 3
    assert only.block_weights.tolist() == [1.0, 1.0, 1.0]
    assert only.open_weight == 0.5
    assert only.sums["largest_ratio"] == 2.0
    assert only.sums["ratio"] == 5.0
    assert only.sums["ratio_squared"] == 7.0


def test_each_trajectory_starts_afresh_and_the_last_one_is_marked() -> None:
    log = bc.Log(None, actions=[0, 1, 0, 1, 0], rewards=[1, 0, 1, 0, 1], propensities=[0.5] * 5, n_actions=2)
    run = run_of(log, bc.RoundRobin(), [0.25] * 5, horizon=2)
    found = run.close()
    assert [trajectory.order.tolist() for trajectory in found] == [[0, 1], [2, 3], [4]]
    assert [trajectory.complete for trajectory in found] == [True, True, False]
    # c is 1 in a new trajectory, and 1/2 after its first acceptance
    assert [trajectory.sums["weight"] for trajectory in found] == [1.5, 1.5, 1.0]


def test_a_horizon_reached_with_the_last_event_leaves_nothing_unfinished() -> None:
    log = bc.Log(None, actions=[0, 1], rewards=[1, 0], propensities=[0.5, 0.5], n_actions=2)
    assert [t.complete for t in run_of(log, bc.RoundRobin(), [0.25] * 2, horizon=2).close()] == [True]


def test_a_run_that_is_told_keeps_no_order() -> None:
    log = bc.Log(None, actions=[0, 1], rewards=[1, 0], propensities=[0.5, 0.5], n_actions=2)
    (only,) = run_of(log, bc.RoundRobin(), [0.25] * 2, record_order=False).close()
    assert only.accepted == 2
    assert only.order.size == only.block_weights.size == 0


class Diary:
    """Uniform over two actions; writes down each lesson where the test can see it."""

    def __init__(self, batch_size: int, lessons: list[Any]) -> None:
        self.batch_size = batch_size
        self.lessons = lessons

    def __deepcopy__(self, memo: Any) -> Diary:
        return self

    def probabilities(self, contexts: Any, available: Any = None) -> Any:
        return np.full((contexts.shape[0], 2), 0.5)

    def learn(self, contexts: Any, actions: Any, rewards: Any, probabilities: Any) -> None:
        self.lessons.append((contexts[:, 0].tolist(), actions.tolist(), rewards.tolist(), probabilities.tolist()))


def test_lessons_are_full_batches_in_order_with_the_policys_own_probabilities() -> None:
    lessons: list[Any] = []
    log = bc.Log(np.arange(6.0)[:, None], actions=[0, 1, 0, 1, 0, 1], rewards=np.arange(6) / 8, propensities=[0.75] * 6)
    schedule = MultiplierSchedule(c_max=1.0)
    run = ReplayRun(Diary(2, lessons), schedule, (0.0, 1.0), np.random.default_rng(0))
    # acceptance needs u <= 2/3: events 1 and 4 are turned down, the queue crosses the cut between parts
    uniforms = np.array([0.5, 0.9, 0.5, 0.5, 0.9, 0.5])
    for part in (slice(0, 1), slice(1, 5), slice(5, 6)):
        run.feed(log[part], np.zeros((1, 2)), uniforms[part])
    assert lessons == [
        ([0.0, 2.0], [0, 0], [0.0, 0.25], [0.5, 0.5]),
        ([3.0, 5.0], [1, 1], [0.375, 0.625], [0.5, 0.5]),
    ]


def test_the_policy_learns_nothing_before_an_acceptance() -> None:
    lessons: list[Any] = []
    log = bc.Log(np.zeros((3, 1)), actions=[0, 1, 0], rewards=[1, 1, 1], propensities=[1.0] * 3)
    bc.trace(log, Diary(1, lessons), bc.DRns(q=0), uniforms=[0.75] * 3)
    assert lessons == []


def test_progress_counts_every_event_once() -> None:
    log = bc.Log(np.zeros((100, 1)), actions=[0, 1] * 50, rewards=[1, 0] * 50, propensities=[0.5] * 100)
    for policy in (bc.UCB1(), bc.Uniform(), Diary(1, [])):
        told: list[int] = []
        bc.evaluate(log, policy, bc.DRns(q=0.1), reward_model=0.5, progress=told.append)
        assert sum(told) == 100


def test_actions_are_drawn_where_the_cumulative_probability_passes() -> None:
    chances = np.array([0.25, 0.0, 0.5, 0.25])
    drawn = [draw_action(chances, u) for u in (0.0, 0.2499, 0.25, 0.7499, 0.75, 0.9999)]
    assert drawn == [0, 0, 2, 2, 3, 3]
    # a total that rounding left below the draw falls to the last action with a chance
    assert draw_action(np.array([0.5, 0.25, 0.0]), 0.999) == 1


def test_rewards_are_drawn_by_their_law() -> None:
    two_point = RewardLaw(0.0, 2.0, np.zeros(0))
    assert draw_reward(two_point, 0.5, 0.24) == 2.0
    assert draw_reward(two_point, 0.5, 0.25) == 0.0
    residual = RewardLaw(0.0, 2.0, np.array([-0.5, 0.5]))
    assert draw_reward(residual, 1.0, 0.49) == 0.5
    assert draw_reward(residual, 1.0, 0.5) == 1.5


class PlainUCB:
    """UCB1 in NumPy, to be run in blocks."""

    def __init__(self, batch_size: int) -> None:
        self.batch_size = batch_size

    def start(self, n_actions: int, n_features: int, rng: np.random.Generator) -> None:
        self.plays, self.sums = np.zeros(n_actions), np.zeros(n_actions)

    def probabilities(self, contexts: Any, available: Any = None) -> Any:
        bonus = np.sqrt(2 * np.log(max(self.plays.sum(), 1.0)))
        known = np.maximum(self.plays, 1)
        index = np.where(self.plays == 0, np.inf, self.sums / known + bonus / np.sqrt(known))
        best = (index == index.max()) / (index == index.max()).sum()
        return np.tile(best, (contexts.shape[0], 1))

    def learn(self, contexts: Any, actions: Any, rewards: Any, probabilities: Any) -> None:
        np.add.at(self.plays, actions, 1)
        np.add.at(self.sums, actions, rewards)


@pytest.mark.parametrize("batch_size", [1, 3])
def test_forward_runs_agree_in_compiled_code_and_in_blocks(batch_size: int) -> None:
    log = bc.Log(np.zeros((50, 1)), actions=[0] * 50, rewards=[0, 1] * 25, propensities=[0.5] * 50, n_actions=3)
    means = np.tile([0.25, 0.5, 0.75], (50, 1))
    law = RewardLaw(0.0, 1.0, np.zeros(0))
    policies = bc.UCB1(batch_size=batch_size), PlainUCB(batch_size)
    one, two = (run_forward(policy, log, means, law, np.random.default_rng(0)) for policy in policies)
    np.testing.assert_array_equal(one, two)
    assert set(np.unique(one)) > {0.25, 0.5}


def test_sparse_contexts_join_end_to_end() -> None:
    import scipy.sparse

    parts: list[Any] = [scipy.sparse.csr_array(np.eye(2)), scipy.sparse.csr_array(np.ones((1, 2)))]
    joined: Any = concat_contexts(parts)
    np.testing.assert_array_equal(joined.toarray(), [[1, 0], [0, 1], [1, 1]])
