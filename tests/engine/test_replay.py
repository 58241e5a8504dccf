"""The replay of one log: equations, sums, trajectories, batches, curves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import backcast as bc
from backcast._arrays import concat_contexts
from backcast._engine.equations import is_accepted, quantile_rank
from backcast._engine.replay import MultiplierSchedule, ReplayRun
from backcast._engine.replay_loop import CURVE_BINS, CurveSums, TraceArrays
from backcast.policies._calls import draw_action
from backcast.reference import event_value


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
    result = run.close()
    assert [trajectory.order.tolist() for trajectory in result] == [[0, 1], [2, 3], [4]]
    assert [trajectory.complete for trajectory in result] == [True, True, False]
    # c is 1 in a new trajectory, and 1/2 after its first acceptance
    assert [trajectory.sums["weight"] for trajectory in result] == [1.5, 1.5, 1.0]


def test_a_horizon_reached_with_the_last_event_leaves_nothing_unfinished() -> None:
    log = bc.Log(None, actions=[0, 1], rewards=[1, 0], propensities=[0.5, 0.5], n_actions=2)
    assert [t.complete for t in run_of(log, bc.RoundRobin(), [0.25] * 2, horizon=2).close()] == [True]


def test_a_run_that_is_told_keeps_no_order() -> None:
    log = bc.Log(None, actions=[0, 1], rewards=[1, 0], propensities=[0.5, 0.5], n_actions=2)
    (only,) = run_of(log, bc.RoundRobin(), [0.25] * 2, record_order=False).close()
    assert only.accepted == 2
    assert only.order.size == only.block_weights.size == 0


class RecordingPolicy:
    """Uniform over two actions; records each batch it learns."""

    def __init__(self, batch_size: int, batches: list[Any]) -> None:
        self.batch_size = batch_size
        self.batches = batches

    def __deepcopy__(self, memo: Any) -> RecordingPolicy:
        return self

    def probabilities(self, contexts: Any, available: Any = None) -> Any:
        return np.full((contexts.shape[0], 2), 0.5)

    def learn(self, contexts: Any, actions: Any, rewards: Any, probabilities: Any) -> None:
        self.batches.append((contexts[:, 0].tolist(), actions.tolist(), rewards.tolist(), probabilities.tolist()))


def test_lessons_are_full_batches_in_order_with_the_policys_own_probabilities() -> None:
    batches: list[Any] = []
    log = bc.Log(np.arange(6.0)[:, None], actions=[0, 1, 0, 1, 0, 1], rewards=np.arange(6) / 8, propensities=[0.75] * 6)
    schedule = MultiplierSchedule(c_max=1.0)
    run = ReplayRun(RecordingPolicy(2, batches), schedule, (0.0, 1.0), np.random.default_rng(0))
    # acceptance needs u <= 2/3: events 1 and 4 are turned down, the queue crosses the cut between parts
    uniforms = np.array([0.5, 0.9, 0.5, 0.5, 0.9, 0.5])
    for part in (slice(0, 1), slice(1, 5), slice(5, 6)):
        run.feed(log[part], np.zeros((1, 2)), uniforms[part])
    assert batches == [
        ([0.0, 2.0], [0, 0], [0.0, 0.25], [0.5, 0.5]),
        ([3.0, 5.0], [1, 1], [0.375, 0.625], [0.5, 0.5]),
    ]


def test_the_policy_learns_nothing_before_an_acceptance() -> None:
    batches: list[Any] = []
    log = bc.Log(np.zeros((3, 1)), actions=[0, 1, 0], rewards=[1, 1, 1], propensities=[1.0] * 3)
    bc.trace(log, RecordingPolicy(1, batches), bc.DRns(q=0), uniforms=[0.75] * 3)
    assert batches == []


def test_progress_counts_every_event_once() -> None:
    log = bc.Log(np.zeros((100, 1)), actions=[0, 1] * 50, rewards=[1, 0] * 50, propensities=[0.5] * 100)
    for policy in (bc.UCB1(), bc.Uniform(), RecordingPolicy(1, [])):
        reported: list[int] = []
        bc.evaluate(log, policy, bc.DRns(q=0.1), reward_model=0.5, progress=reported.append)
        assert sum(reported) == 100


def test_actions_are_drawn_where_the_cumulative_probability_passes() -> None:
    chances = np.array([0.25, 0.0, 0.5, 0.25])
    drawn = [draw_action(chances, u) for u in (0.0, 0.2499, 0.25, 0.7499, 0.75, 0.9999)]
    assert drawn == [0, 0, 2, 2, 3, 3]
    # a total that rounding left below the draw falls to the last action with a chance
    assert draw_action(np.array([0.5, 0.25, 0.0]), 0.999) == 1


def test_sparse_contexts_join_end_to_end() -> None:
    import scipy.sparse

    parts: list[Any] = [scipy.sparse.csr_array(np.eye(2)), scipy.sparse.csr_array(np.ones((1, 2)))]
    joined: Any = concat_contexts(parts)
    np.testing.assert_array_equal(joined.toarray(), [[1, 0], [0, 1], [1, 1]])
