"""Environments: the values they report are the mean rewards they pay."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from backcast._arrays import BoolArray, Contexts, FloatArray, IntArray
from backcast.environments import LinearEnvironment, classification_environment, coin_flips, run_live
from backcast.environments.live import draw_exploration_scores, paper_logging, sharp_logging
from backcast.errors import LogError, OptionError, PolicyError
from backcast.log import Log
from backcast.policies._calls import draw_actions
from tests.support.tabular import TabularWorld

# Sample means may differ by 4 standard errors (false alarm: 1 in 16,000), chi-square statistics up to their 1e-4 tail.
# Seeds are fixed, so the tests are deterministic.
FAR = 4.0
TAIL = 1e-4


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


class Fixed:
    """A policy given by a table of probabilities, one row per context."""

    def __init__(self, table: Any) -> None:
        self.table = np.asarray(table, dtype=float)

    def probabilities(self, contexts: Contexts, available: BoolArray | None = None) -> FloatArray:
        chosen: FloatArray = np.asarray(contexts @ self.table)
        return chosen


class Counting:
    """Prefers the action with the largest total reward; learns ``batch_size`` events at a time."""

    def __init__(self, n_actions: int, batch_size: int = 1) -> None:
        self.earned = np.ones(n_actions)
        self.batch_size = batch_size
        self.taught: list[int] = []
        self.given: list[float] = []

    def probabilities(self, contexts: Contexts, available: BoolArray | None = None) -> FloatArray:
        share: FloatArray = self.earned / self.earned.sum()
        return np.tile(share, (contexts.shape[0], 1))

    def learn(self, contexts: Contexts, actions: IntArray, rewards: FloatArray, probabilities: FloatArray) -> None:
        np.add.at(self.earned, actions, rewards)
        self.taught.append(actions.size)
        self.given += probabilities.tolist()


def chi_square_is_small(observed: FloatArray, expected: FloatArray) -> bool:
    assert observed.sum() == pytest.approx(expected.sum())
    used = expected > 0
    assert not observed[~used].any()
    statistic = float((np.square(observed - expected)[used] / expected[used]).sum())
    return statistic < float(chi2.isf(TAIL, used.sum() - 1))


def some_world() -> TabularWorld:
    return TabularWorld(
        [0.25, 0.75],
        mean_rewards=[[0.5, 0.25, 1.0], [0.125, 0.75, 0.0]],
        logging=[[0.5, 0.25, 0.25], [0.125, 0.125, 0.75]],
    )


def inverse_propensity(log: Log, target: FloatArray) -> FloatArray:
    weights: FloatArray = target[np.arange(len(log)), log.actions] / log.propensities
    return weights * log.rewards


def assert_close(sample: FloatArray, truth: float, spread: float = 0.0) -> None:
    """The mean of the sample agrees with the truth, which has the standard error ``spread``."""
    error = (sample.var() / sample.size + spread**2) ** 0.5
    assert abs(sample.mean() - truth) < FAR * error


# Drawing actions


def test_actions_are_drawn_with_their_probabilities() -> None:
    law = np.array([0.0, 0.5, 0.125, 0.375, 0.0])
    drawn = draw_actions(np.tile(law, (20_000, 1)), rng(1).random(20_000))
    assert chi_square_is_small(np.bincount(drawn, minlength=5).astype(float), 20_000 * law)


@given(
    n_actions=st.integers(1, 8),
    seed=st.integers(0, 2**32 - 1),
    temperature=st.floats(0.01, 10.0),
)
@settings(max_examples=50, deadline=None)
def test_probabilities_of_loggers_are_positive_and_sum_to_one(n_actions: int, seed: int, temperature: float) -> None:
    scores = draw_exploration_scores(20, n_actions, rng(seed))
    assert ((scores >= 0.1) & (scores <= 1)).all()
    good = np.arange(n_actions) == rng(seed).integers(n_actions, size=20)[:, None]
    floor = 0.5 / n_actions
    paper, sharp = paper_logging(scores, good), sharp_logging(scores, temperature, floor)
    assert np.allclose(paper.sum(axis=1), 1)
    assert np.allclose(sharp.sum(axis=1), 1)
    assert (paper[good] >= 0.7).all()
    assert paper.min() >= 0.3 * 0.1 / n_actions
    assert sharp.min() >= floor


# Tabular


def test_tabular_propensities_match_the_frequencies() -> None:
    world = some_world()
    log = world.log(40_000, rng(2))
    contexts = np.asarray(log.contexts).argmax(axis=1)
    counts = np.zeros((2, 3, 2))
    np.add.at(counts, (contexts, log.actions, log.rewards.astype(int)), 1)
    joint = world.context_probabilities[:, None] * world.logging
    expected = 40_000 * np.stack([joint * (1 - world.mean_rewards), joint * world.mean_rewards], axis=2)
    assert chi_square_is_small(counts.ravel(), expected.ravel())
    assert np.array_equal(log.propensities, world.logging[contexts, log.actions])
    assert log.reward_range == (0.0, 1.0)


def test_tabular_value_agrees_with_inverse_propensity_weighting() -> None:
    world = some_world()
    table = np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])
    log = world.log(40_000, rng(3))
    target = np.asarray(log.contexts @ table)
    assert_close(inverse_propensity(log, target), world.value(table))


def test_uniform_logging_is_the_default() -> None:
    world = TabularWorld([1.0], [[0.5, 0.5]])
    assert np.array_equal(world.logging, [[0.5, 0.5]])
    assert repr(world) == "TabularWorld(1 contexts, 2 actions)"


@pytest.mark.parametrize("horizon", [1, 2, 3])
@pytest.mark.parametrize("batch_size", [1, 2])
def test_the_law_of_histories_sums_to_one(horizon: int, batch_size: int) -> None:
    law = some_world().history_law(Counting(3, batch_size), horizon)
    assert sum(law.values()) == pytest.approx(1, abs=1e-12)
    assert all(len(history) == horizon for history in law)
    assert min(law.values()) > 0


def test_a_fixed_policys_histories_follow_the_product_law() -> None:
    world = TabularWorld([0.25, 0.75], mean_rewards=[[0.5, 0.25], [0.125, 1.0]])
    table = np.array([[0.25, 0.75], [0.5, 0.5]])
    law_of_one_round = {
        (x, a, r): world.context_probabilities[x] * table[x, a] * abs(1 - r - world.mean_rewards[x, a])
        for x, a, r in product(range(2), range(2), range(2))
    }
    law = world.history_law(Fixed(table), 3)
    for history in product(law_of_one_round, repeat=3):
        expected = np.prod([law_of_one_round[event] for event in history])
        total = sum(chance for events, chance in law.items() if tuple(map(tuple, events)) == history)
        assert total == pytest.approx(float(expected), abs=1e-15)


def test_the_learning_value_is_the_mean_over_histories() -> None:
    world = some_world()
    for batch_size in (1, 2, 3):
        policy = Counting(3, batch_size)
        law = world.history_law(policy, 3)
        by_histories = sum(chance * sum(event.reward for event in history) / 3 for history, chance in law.items())
        assert world.learning_value(policy, 3) == pytest.approx(by_histories, abs=1e-12)
        assert policy.taught == []


def test_learning_by_hand() -> None:
    # One context; action 0 always pays, action 1 never. Start even: (1, 1). After a win the odds are 2 to 1.
    world = TabularWorld([1.0], [[1.0, 0.0]])
    assert world.learning_value(Counting(2), 2) == pytest.approx((1 / 2 + (1 / 2) * (2 / 3) + (1 / 2) * (1 / 2)) / 2)
    # With batches of 2 nothing is learnt in time.
    assert world.learning_value(Counting(2, batch_size=2), 2) == pytest.approx(1 / 2)
    law = world.history_law(Counting(2), 2)
    assert law[(0, 0, 1), (0, 0, 1)] == pytest.approx(1 / 2 * 2 / 3)  # type: ignore[index]


def test_a_fixed_policys_learning_value_is_its_value() -> None:
    world = some_world()
    table = [[0.25, 0.25, 0.5], [0.5, 0.5, 0.0]]
    assert world.learning_value(Fixed(table), 4) == pytest.approx(world.value(table), abs=1e-12)


def test_start_gets_the_numbers_of_actions_and_features() -> None:
    class Started(Fixed):
        def __init__(self) -> None:
            super().__init__(np.zeros((0, 0)))

        def start(self, n_actions: int, n_features: int, rng: np.random.Generator) -> None:
            self.table = np.full((n_features, n_actions), 1 / n_actions)

    world = some_world()
    policy = Started()
    assert world.learning_value(policy, 1) == pytest.approx(world.value(np.full((2, 3), 1 / 3)))
    assert policy.table.size == 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TabularWorld([1.0], [[2.0]]), "mean_rewards is"),
        (lambda: TabularWorld([1.0], [0.5]), "mean_rewards is"),
        (lambda: TabularWorld([0.5, 0.5], [[0.5]]), r"context_probabilities has shape \(2,\); expected \(1,\)"),
        (lambda: TabularWorld([0.5], [[0.5]]), "must sum to 1"),
        (lambda: TabularWorld([1.0], [[0.5, 0.5]], [[0.5, 0.25]]), "logging is"),
        (lambda: some_world().value([[1.0, 0.0, 0.0]]), r"probabilities has shape \(1, 3\)"),
        (lambda: some_world().learning_value(Counting(3), 0), "horizon is 0"),
        (lambda: some_world().history_law(Counting(3), 0), "horizon is 0"),
    ],
)
def test_tabular_world_rejects_invalid_options(make: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        make()


def test_invalid_probabilities_are_reported() -> None:
    world = some_world()
    with pytest.raises(PolicyError, match=r"shape \(2, 2\); expected \(2, 3\)"):
        world.learning_value(Counting(2), 1)
    with pytest.raises(PolicyError, match=r"row 1: Fixed.probabilities sum to 0\.5"):
        world.learning_value(Fixed([[1.0, 0.0, 0.0], [0.5, 0.0, 0.0]]), 1)


# Linear


class Greedy:
    """A softmax of fixed linear scores."""

    def __init__(self, n_features: int, n_actions: int) -> None:
        self.slopes = rng(9).standard_normal((n_features, n_actions))

    def probabilities(self, contexts: Contexts, available: BoolArray | None = None) -> FloatArray:
        odds = np.exp(np.asarray(contexts @ self.slopes))
        law: FloatArray = odds / odds.sum(axis=1, keepdims=True)
        return law


@pytest.mark.parametrize("logging", ["uniform", "paper", "sharp"])
@pytest.mark.parametrize("logistic", [False, True])
def test_linear_value_agrees_with_inverse_propensity_weighting(logging: Any, logistic: bool) -> None:
    world = LinearEnvironment(3, 4, logistic=logistic, curvature=0.25, spread=0.5, logging=logging)
    policy = Greedy(4, 3)
    log = world.log(30_000, rng(4))
    truth = world.value(policy, 100_000, rng(5))
    assert_close(inverse_propensity(log, policy.probabilities(log.contexts)), truth.value, truth.std_error)


@pytest.mark.parametrize("logging", ["uniform", "paper", "sharp"])
def test_linear_propensities_match_the_frequencies(logging: Any) -> None:
    log = LinearEnvironment(4, 3, logging=logging).log(20_000, rng(6))
    law = log.logging_probabilities
    assert law is not None
    # Events sorted by the chance of action 0 and cut in ten: the action's count in each part is known.
    hits = (log.actions == 0).astype(float)
    for part in np.array_split(np.argsort(law[:, 0]), 10):
        surplus = hits[part] - law[part, 0]
        error = (law[part, 0] * (1 - law[part, 0])).sum() ** 0.5
        assert abs(surplus.sum()) < FAR * error


def test_paper_logger_prefers_the_best_action_and_sharp_logger_explores_little() -> None:
    world = LinearEnvironment(4, 3, logging="paper")
    log = world.log(500, rng(7))
    law = log.logging_probabilities
    assert law is not None
    means = world.mean_rewards(np.asarray(log.contexts))
    assert np.array_equal(law.argmax(axis=1), means.argmax(axis=1))
    sharp = LinearEnvironment(4, 3, logging="sharp").log(500, rng(7)).logging_probabilities
    assert sharp is not None
    assert sharp.min() == pytest.approx(0.01, abs=1e-4)
    assert sharp.max(axis=1).mean() > 0.8


def test_rewards_are_around_their_means() -> None:
    linear = LinearEnvironment(1, 3, noise=0.5)
    log = linear.log(20_000, rng(8))
    residuals = log.rewards - linear.mean_rewards(np.asarray(log.contexts))[:, 0]
    assert_close(residuals, 0.0)
    assert_close(np.square(residuals), 0.25)
    coin = LinearEnvironment(1, 3, noise=1.0, logistic=True, signal=5.0)
    assert np.array_equal(coin.mean_rewards(rng(1).standard_normal((5, 3))), np.full((5, 1), 0.5))


def test_scores_are_linear_without_curvature() -> None:
    contexts = rng(1).standard_normal((50, 3))
    linear = LinearEnvironment(2, 3, seed=4)
    assert np.allclose(linear.mean_rewards(2 * contexts), 2 * linear.mean_rewards(contexts))
    curved = LinearEnvironment(2, 3, seed=4, curvature=0.5)
    assert not np.allclose(curved.mean_rewards(contexts), linear.mean_rewards(contexts), atol=0.1)
    # The quadratic part has mean 0: it changes what a linear model can fit, but not the mean.
    surplus = (curved.mean_rewards(rng(2).standard_normal((50_000, 3))))[:, 0]
    assert_close(surplus, 0.0)


def test_an_environment_depends_only_on_its_seed() -> None:
    contexts = rng(1).standard_normal((5, 3))
    same = LinearEnvironment(2, 3, seed=1).mean_rewards(contexts)
    assert np.array_equal(same, LinearEnvironment(2, 3, seed=1).mean_rewards(contexts))
    assert not np.array_equal(same, LinearEnvironment(2, 3, seed=2).mean_rewards(contexts))


def test_a_function_can_be_the_logger() -> None:
    world = LinearEnvironment(2, 3, logging=lambda contexts: np.tile([0.25, 0.75], (len(contexts), 1)))
    log = world.log(100, rng(1))
    assert set(log.propensities) == {0.25, 0.75}
    broken = LinearEnvironment(2, 3, logging=lambda contexts: np.tile([0.25, 0.5], (len(contexts), 1)))
    with pytest.raises(LogError, match="sum to 1"):
        broken.log(10, rng(1))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_actions": 0}, "n_actions is 0"),
        ({"noise": -1.0}, "noise is -1.0"),
        ({"noise": 2.0, "logistic": True}, "<= 1 if logistic=True"),
        ({"logging": "best"}, "logging is 'best'"),
    ],
)
def test_linear_environment_rejects_invalid_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        LinearEnvironment(**{"n_actions": 2, "n_features": 2, **options})


# Classification


def labelled(n: int) -> tuple[FloatArray, BoolArray]:
    labels = rng(3).random((n, 4)) < 0.4
    labels[np.arange(n), rng(4).integers(4, size=n)] = True
    return rng(5).standard_normal((n, 3)), labels


@pytest.mark.parametrize("loss", [False, True])
def test_conversion_follows_the_paper(loss: bool) -> None:
    features, labels = labelled(20_000)
    log = classification_environment(features, labels, loss=loss).log(rng(6))
    law = log.logging_probabilities
    assert law is not None
    right = labels[np.arange(20_000), log.actions]
    assert np.array_equal(log.rewards, (right != loss).astype(float))
    # Without the share of the labels, the random part remains, between 0.3 * 0.1 / 3.1 and 0.3 * 1 / 1.3.
    spread = law - 0.7 * labels / labels.sum(axis=1, keepdims=True)
    assert np.allclose(spread.sum(axis=1), 0.3)
    assert spread.min() >= 0.3 * 0.1 / 3.1 - 1e-12
    assert spread.max() <= 0.3 / 1.3 + 1e-12
    counts = np.bincount(log.actions, minlength=4)
    error = np.sqrt((law * (1 - law)).sum(axis=0))
    assert (np.abs(counts - law.sum(axis=0)) < FAR * error).all()
    assert log.reward_range == (0.0, 1.0)


@pytest.mark.parametrize("loss", [False, True])
def test_classification_value_agrees_with_inverse_propensity_weighting(loss: bool) -> None:
    features, labels = labelled(20_000)
    world = classification_environment(features, labels, loss=loss)
    target = rng(7).dirichlet(np.ones(4), size=20_000)
    log = world.log(rng(8))
    assert_close(inverse_propensity(log, target), world.value(target))


def test_losses_are_one_minus_rewards() -> None:
    features, labels = labelled(50)
    target = rng(7).dirichlet(np.ones(4), size=50)
    gain, cost = (classification_environment(features, labels, loss=loss).value(target) for loss in (False, True))
    assert gain + cost == pytest.approx(1)


def test_labels_of_one_kind_and_sparse_features() -> None:
    features = scipy.sparse.csr_matrix(np.eye(4))
    world = classification_environment(features, ["b", "a", "c", "a"])
    assert world.action_labels == ("a", "b", "c")
    assert world.n_actions == 3
    assert np.array_equal(world.rewards, [[0, 1, 0], [1, 0, 0], [0, 0, 1], [1, 0, 0]])
    part = world[[1, 3]]
    assert len(part) == 2
    log = part.log(rng(1))
    assert log.action_labels == ("a", "b", "c")
    assert np.array_equal(log.contexts.toarray(), np.eye(4)[[1, 3]])  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([[True, False], [False, False]], "row 1: the example has no label"),
        ([0, 1, 0], "features have 2 rows but labels have 3"),
        (0, r"labels have shape \(\)"),
    ],
)
def test_classification_environment_rejects_invalid_labels(labels: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        classification_environment(np.zeros((2, 1)), labels)


def test_probabilities_must_have_the_shape_of_the_labels() -> None:
    with pytest.raises(OptionError, match=r"shape \(1, 2\); expected \(2, 2\)"):
        classification_environment(np.zeros((2, 1)), [0, 1]).value([[0.5, 0.5]])


# Live


@pytest.mark.parametrize("batch_size", [1, 2])
def test_live_runs_earn_the_enumerated_value(batch_size: int) -> None:
    world = TabularWorld([0.5, 0.5], mean_rewards=[[0.5, 0.25, 1.0], [0.125, 0.75, 0.0]])
    policy = Counting(3, batch_size)
    earned = run_live(np.eye(2), world.mean_rewards, policy, horizon=4, runs=4000, rng=rng(9), draw=coin_flips)
    assert earned.shape == (4000,)
    assert_close(earned, world.learning_value(policy, 4))
    assert policy.taught == []


def test_a_policy_learns_whole_batches_with_its_probabilities() -> None:
    copies: list[Counting] = []

    class Recorded(Counting):
        def start(self, n_actions: int, n_features: int, rng: np.random.Generator) -> None:
            copies.append(self)

    run_live(np.zeros((3, 1)), np.tile([0.5, 0.0], (3, 1)), Recorded(2, batch_size=3), horizon=10, runs=2, rng=rng(1))
    assert [policy.taught for policy in copies] == [[3, 3, 3], [3, 3, 3]]
    assert copies[0].given[:3] == [0.5, 0.5, 0.5]


def test_rewards_are_those_of_the_table_without_draw() -> None:
    table = np.array([[0.25, 0.75]])
    earned = run_live(np.eye(1), table, Fixed([[0.0, 1.0]]), horizon=5, runs=3, rng=rng(1))
    assert np.array_equal(earned, [0.75] * 3)


def test_live_runs_depend_only_on_their_seed() -> None:
    arguments: dict[str, Any] = {"horizon": 20, "runs": 3}
    table = rng(1).random((30, 3))
    first, second, third = (
        run_live(np.zeros((30, 1)), table, Counting(3), rng=rng(seed), **arguments) for seed in (5, 5, 6)
    )
    assert np.array_equal(first, second)
    assert not np.array_equal(first, third)
    assert np.unique(first).size == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reward_table": np.zeros(3)}, r"reward_table has shape \(3,\)"),
        ({"reward_table": np.zeros((2, 3))}, r"expected \(3, K\)"),
        ({"horizon": 0}, "horizon is 0"),
        ({"runs": 0}, "runs is 0"),
    ],
)
def test_run_live_rejects_invalid_options(options: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"reward_table": np.zeros((3, 3)), "horizon": 1, "runs": 1, **options}
    with pytest.raises(OptionError, match=message):
        run_live(np.zeros((3, 1)), policy=Counting(3), rng=rng(1), **arguments)
