"""What the founding paper proves of its algorithm (Dudik et al. 2012, section 3), on worlds known exactly."""

from __future__ import annotations

import copy
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import backcast as bc
from backcast.reference import event_value
from tests.support.tabular import TabularWorld

WORLD = TabularWorld(
    [0.3, 0.7],
    mean_rewards=[[0.9, 0.2, 0.4], [0.1, 0.6, 0.3]],
    logging=[[0.2, 0.5, 0.3], [0.4, 0.2, 0.4]],
)
LARGEST_WEIGHT = 1 / 0.2
POLICIES = {
    "epsilon-greedy": bc.EpsilonGreedy(0.2),
    "epsilon-greedy in fives": bc.EpsilonGreedy(0.2, batch_size=5),
    "linucb": bc.LinUCB(0.5),
    "softmax": bc.Softmax(0.3),
    "ucb1": bc.UCB1(),
}


# Worlds, policies and models of any kind, for the lemmas that hold event by event.


@st.composite
def small_worlds(draw: st.DrawFn) -> tuple[TabularWorld, Any, Any]:
    """A world, the table of a policy, and a table of predictions that need not be any good."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    x, k = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    logging = 0.02 + (1 - 0.02 * k) * rng.dirichlet(np.full(k, 0.5), size=x)
    sharp = rng.random() < 0.5
    policy = np.eye(k)[rng.integers(k, size=x)] if sharp else rng.dirichlet(np.ones(k), size=x)
    means = rng.random((x, k)).round() if rng.random() < 0.5 else rng.random((x, k))
    predicted = rng.random((x, k)).round() if rng.random() < 0.5 else rng.random((x, k))
    return TabularWorld(rng.dirichlet(np.ones(x)), means, logging), policy, predicted


def outcomes(world: TabularWorld, policy: Any, predicted: Any) -> tuple[Any, Any]:
    """Every R_k that can be met, and its probability under the logger."""
    values, chances = [], []
    for x, a, r in np.ndindex(world.n_contexts, world.n_actions, 2):
        paid = world.mean_rewards[x, a] if r else 1 - world.mean_rewards[x, a]
        values.append(event_value(policy[x], predicted[x], a, float(r), float(world.logging[x, a])))
        chances.append(world.context_probabilities[x] * world.logging[x, a] * paid)
    return np.array(values), np.array(chances)


@given(small_worlds())
def test_lemma_3_an_event_is_worth_the_policys_value_on_average(case: tuple[TabularWorld, Any, Any]) -> None:
    world, policy, _ = case
    values, chances = outcomes(*case)
    assert chances.sum() == pytest.approx(1)
    assert chances @ values == pytest.approx(world.value(policy), abs=1e-12)


@given(small_worlds())
def test_lemmas_4_and_5_bound_an_event_and_its_square(case: tuple[TabularWorld, Any, Any]) -> None:
    world, policy, _ = case
    largest = float((policy / world.logging).max())
    values, chances = outcomes(*case)
    assert np.abs(values).max() <= 1 + largest + 1e-12
    assert chances @ values**2 <= 3 + largest + 1e-12


def test_lemma_4_is_met_by_no_less_than_its_bound() -> None:
    # the model says 1 where the world pays 0 and the policy does what the logger hardly ever does
    value = event_value([1.0, 0.0], [0.0, 0.0], 0, 1.0, 0.125)
    assert value == 8.0
    value = event_value([1.0, 0.0], [1.0, 0.0], 0, 0.0, 0.125)
    assert value == 1 - 8.0


# Runs of learning policies, whose present policy is found by replaying what was accepted.


def tables_along(accepted: Any, log: bc.Log, policy: Any) -> Any:
    """Probabilities (n, X, K) that the policy had at each event, from the accepted events alone."""
    order = np.flatnonzero(accepted)
    selected = copy.deepcopy(policy)
    selected.start(WORLD.n_actions, WORLD.n_contexts, np.random.default_rng(0))
    contexts, batch = np.asarray(log.contexts), selected.batch_size
    tables = [selected.probabilities(np.eye(WORLD.n_contexts))]
    for start in range(0, len(order) - batch + 1, batch):
        rows = order[start : start + batch]
        selected.learn(contexts[rows], log.actions[rows], log.rewards[rows], np.ones(batch))
        tables.append(selected.probabilities(np.eye(WORLD.n_contexts)))
    return np.array(tables)[(np.cumsum(accepted) - accepted) // batch]


@pytest.mark.parametrize("q", [0.0, 0.1])
@pytest.mark.parametrize("name", POLICIES)
def test_lemma_3_along_a_run(name: str, q: float) -> None:
    # R_k - V_t are martingale differences: their mean over 6,000 events lies beyond 4 standard errors with odds of
    # 6e-5, in ten runs 6e-4.
    log = WORLD.log(6000, np.random.default_rng(4))
    model = np.random.default_rng(5).random((WORLD.n_contexts, WORLD.n_actions))
    predicted = np.asarray(log.contexts) @ model
    passed = bc.trace(log, POLICIES[name], bc.DRns(q=q), predicted=predicted, seed=6)
    tables = tables_along(passed.accepted, log, POLICIES[name])
    now = np.einsum("x,kxa,xa->k", WORLD.context_probabilities, tables, WORLD.mean_rewards)
    gaps = passed.value - now
    assert abs(gaps.mean()) < 4 * gaps.std() / np.sqrt(len(log))
    assert np.abs(passed.value).max() <= 1 + LARGEST_WEIGHT
    # the mean square has a bound of 3 + M; its own standard error is far below the slack of 4 of them
    squares = passed.value**2
    assert squares.mean() <= 3 + LARGEST_WEIGHT + 4 * squares.std() / np.sqrt(len(log))


def test_lemma_3_tells_the_present_policy_from_its_neighbours() -> None:
    # Round robin: V_t takes three values in turn. Multiplied by what is known beforehand, the
    # differences stay martingale differences; with the policy of another round they do not.
    log = WORLD.log(6000, np.random.default_rng(4))
    passed = bc.trace(log, bc.RoundRobin(), bc.DRns(q=0.0), seed=6)
    tables = tables_along(passed.accepted, log, bc.RoundRobin())
    scores = []
    for shift in (0, 1, 2):
        now = np.einsum("x,kxa,xa->k", WORLD.context_probabilities, np.roll(tables, shift, 2), WORLD.mean_rewards)
        gaps = (passed.value - now) * (now - now.mean())
        scores.append(abs(gaps.mean()) / gaps.std() * np.sqrt(len(log)))
    assert scores[0] < 4 < min(scores[1:])


# Section 3.2: the mass that acceptance at most 1 cuts off.


@pytest.mark.parametrize("c", [0.3, 0.6, 1.0])
def test_bias_mass_averages_to_the_enumerated_one(c: float) -> None:
    target = np.array([[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]])
    excess = np.maximum(0, target / WORLD.logging - 1 / c)
    mass = float(WORLD.context_probabilities @ (WORLD.logging * excess).sum(axis=1))
    assert mass > 0
    log = WORLD.log(20_000, np.random.default_rng(9))
    policy = bc.Fixed(lambda contexts: contexts @ target)
    passed = bc.trace(log, policy, bc.DRns(acceptance=c))
    each = np.maximum(0, passed.weight - 1 / c)
    result: Any = bc.evaluate(log, policy, bc.DRns(acceptance=c), reward_model=0.5).diagnostics
    assert result.bias_mass == pytest.approx(each.mean(), rel=1e-9)
    # 4 standard errors, odds 6e-5 each
    assert abs(result.bias_mass - mass) < 4 * each.std() / np.sqrt(len(log))
    # acceptance is cut exactly where the weight exceeds 1/c
    assert result.cut_share == np.mean(each > 0)


def test_no_mass_is_cut_with_the_worst_case_multiplier() -> None:
    log = WORLD.log(2000, np.random.default_rng(9))
    for policy in POLICIES.values():
        result: Any = bc.evaluate(log, policy, bc.WC(), reward_model=0.5).diagnostics
        assert result.bias_mass == result.bias_certificate == result.cut_share == result.theorem_1 == 0.0


def test_certificate_bounds_the_bias_of_a_multiplier_that_is_too_large() -> None:
    # Three rounds of a fixed policy with c = 1: the accepted law is known, so is the bias of the mean reward.
    target = np.array([[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]])
    left = np.minimum(WORLD.logging, target)
    law = WORLD.context_probabilities[:, None] * left / (WORLD.context_probabilities @ left.sum(axis=1))
    bias = abs(float((law * WORLD.mean_rewards).sum()) - WORLD.value(target))
    log = WORLD.log(20_000, np.random.default_rng(10))
    policy = bc.Fixed(lambda contexts: contexts @ target)
    result: Any = bc.evaluate(log, policy, bc.DRns(acceptance=1.0), reward_model=0.5, horizon=3).diagnostics
    assert result.trajectories_complete > 500
    assert 0 < bias < result.bias_certificate / 3 < result.theorem_1
    # a block's share of it estimates eps / (1 - eps); 4 standard errors over the blocks, odds 6e-5
    eps = 1 - float(WORLD.context_probabilities @ left.sum(axis=1))
    passed = bc.trace(log, policy, bc.DRns(acceptance=1.0))
    blocks = np.bincount(np.cumsum(passed.accepted) - passed.accepted, np.maximum(0, passed.weight - 1))[:-1]
    assert abs(blocks.mean() - eps / (1 - eps)) < 4 * blocks.std() / np.sqrt(blocks.size)
    assert result.bias_certificate == pytest.approx(3 * eps / (1 - eps), rel=0.1)


# Section 3.3 and its modern sibling: intervals for V(pi_PV) of one run.


LEVEL = 0.8
RUNS = 200
LOOKS = (30, 80, 200)


def truth_of(estimate: bc.Estimate, log: bc.Log) -> float:
    return WORLD.value(estimate.progressive_policy(log).probabilities(np.eye(WORLD.n_contexts)))


def looks(seed: int, interval: Any, moments: tuple[int, ...] = LOOKS) -> list[tuple[bc.Interval, float]]:
    """The same run at several moments: its interval, and the exact value of its progressive policy then."""
    log = WORLD.log(LOOKS[-1], np.random.default_rng(seed))
    result = []
    for events in moments:
        head = log[:events]
        estimate = bc.evaluate(
            head, bc.EpsilonGreedy(0.2), bc.DRns(q=0.05), reward_model=0.4, interval=interval, level=LEVEL
        )
        assert estimate.interval is not None
        result.append((estimate.interval, truth_of(estimate, head)))
    return result


def shrunk(interval: bc.Interval, factor: float) -> tuple[float, float]:
    middle = (interval.low + interval.high) / 2
    return middle - interval.half_width / factor, middle + interval.half_width / factor


@pytest.fixture(scope="module")
def anytime_looks() -> list[list[tuple[bc.Interval, float]]]:
    return [looks(seed, bc.Anytime()) for seed in range(RUNS)]


@pytest.fixture(scope="module")
def theorem_2_looks() -> list[list[tuple[bc.Interval, float]]]:
    return [looks(seed, bc.TheoremTwo(), LOOKS[-1:]) for seed in range(RUNS)]


def hits(found: list[list[tuple[bc.Interval, float]]], factor: float = 1.0) -> int:
    """Runs whose interval holds the truth at every look."""
    held = 0
    for run in found:
        ends = [(*shrunk(interval, factor), value) for interval, value in run]
        held += all(low <= value <= high for low, high, value in ends)
    return held


def test_anytime_interval_covers_at_every_look_together(anytime_looks: Any) -> None:
    # odds of a false alarm 1e-3, were the coverage no better than its level
    assert hits(anytime_looks) >= stats.binom.ppf(1e-3, RUNS, LEVEL)


def test_theorem_2_covers_at_the_end(theorem_2_looks: Any) -> None:
    assert hits(theorem_2_looks) >= stats.binom.ppf(1e-3, RUNS, LEVEL)


def test_the_test_of_coverage_sees_intervals_that_are_too_narrow(anytime_looks: Any, theorem_2_looks: Any) -> None:
    assert hits(anytime_looks, factor=8) < stats.binom.ppf(1e-3, RUNS, LEVEL)
    # Theorem 2 is far wider than it need be
    assert hits(theorem_2_looks, factor=50) < stats.binom.ppf(1e-3, RUNS, LEVEL)


def test_anytime_interval_is_narrower_than_theorem_2(anytime_looks: Any, theorem_2_looks: Any) -> None:
    narrow, wide = (np.mean([run[-1][0].half_width for run in result]) for result in (anytime_looks, theorem_2_looks))
    assert wide == 0.5  # the whole range of rewards
    assert narrow < 0.9 * wide


def test_looks_are_moments_of_one_run() -> None:
    log = WORLD.log(LOOKS[-1], np.random.default_rng(0))
    early, late = (bc.trace(log[:events], bc.EpsilonGreedy(0.2), bc.DRns(q=0.05)) for events in LOOKS[-2:])
    np.testing.assert_array_equal(early.accepted, late.accepted[: LOOKS[-2]])


@given(st.integers(0, 2**32 - 1), st.sampled_from([None, 4]), st.sampled_from([1, 3]))
@settings(max_examples=20)
def test_progressive_policy_is_the_mixture_of_the_paper(seed: int, horizon: int | None, batch_size: int) -> None:
    log = WORLD.log(80, np.random.default_rng(seed))
    policy = bc.Softmax(0.3, batch_size=batch_size)  # changes with every batch
    evaluator = bc.DRns(q=0.05)
    estimate = bc.evaluate(log, policy, evaluator, reward_model=0.4, horizon=horizon)
    mixed = estimate.progressive_policy().probabilities(np.eye(WORLD.n_contexts))
    passed = bc.trace(log, policy, evaluator, horizon=horizon)
    ends = [0, *(passed.order[horizon - 1 :: horizon] + 1)] if horizon else [0, len(log)]
    parts = []
    for start, end in pairwise(ends):
        accepted, c = passed.accepted[start:end], passed.multiplier[start:end]
        tables = tables_along(accepted, log[start:end], policy)
        parts.append(np.einsum("k,kxa->xa", c, tables) / c.sum())
    np.testing.assert_allclose(mixed, np.mean(parts, axis=0), atol=1e-12)
