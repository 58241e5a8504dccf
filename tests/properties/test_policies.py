"""Laws that every policy keeps: the built-in ones, and a user's that `backcast.checks.policy` approves of."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.tree import DecisionTreeRegressor

import backcast as bc
from backcast import checks
from backcast.log import replace_columns
from backcast.policies._calls import probabilities_of

K, D = 3, 2
LAYOUTS = ("dense", "sparse", "masked", "actions")


def scores(contexts: Any) -> Any:
    return contexts @ np.array([1.0, -1.0]) if contexts.ndim == 3 else contexts @ np.arange(6.0).reshape(D, K)


FIXED: dict[str, Any] = {
    "Uniform": bc.Uniform(),
    "Fixed": bc.Fixed([0.5, 0.25, 0.25]),
    "FromScores": bc.FromScores(scores, epsilon=0.2),
    "Logged": bc.Logged(),
}
LEARNING: dict[str, Any] = {
    "EpsilonGreedy": bc.EpsilonGreedy(0.2),
    "EpsilonGreedy in threes": bc.EpsilonGreedy(0.2, batch_size=3),
    "Softmax": bc.Softmax(0.5),
    "LinUCB": bc.LinUCB(0.5),
    "LinearThompson": bc.LinearThompson(0.5),
    "UCB1": bc.UCB1(),
    "RoundRobin": bc.RoundRobin(),
    "FromClassifier": bc.FromClassifier(LinearRegression(), epsilon=0.2, batch_size=5),
    "FromClassifier, logistic": bc.FromClassifier(LogisticRegression(max_iter=10, tol=1e-2), batch_size=5),
    "FromClassifier, tree": bc.FromClassifier(DecisionTreeRegressor(max_depth=2, random_state=0), batch_size=5),
}
ONE_MODEL_AN_ACTION = ("FromClassifier", "FromClassifier, logistic", "FromClassifier, tree")
CASES = [
    (name, layout)
    for name in FIXED | LEARNING
    for layout in LAYOUTS
    if not (layout == "actions" and name in ONE_MODEL_AN_ACTION)
]


def policy_named(name: str) -> Any:
    return (FIXED | LEARNING)[name]


def log_for(name: str, log: bc.Log) -> bc.Log:
    """Classifiers learn classes, so their log pays 0 or 1."""
    return replace_columns(log, rewards=np.round(log.rewards)) if "logistic" in name else log


@pytest.mark.parametrize(("name", "layout"), CASES)
def test_policies_pass_the_checks_that_users_run(name: str, layout: str, make_log: Any) -> None:
    @settings(max_examples=3)
    @given(st.integers(0, 2**32 - 1), st.integers(1, 40))
    def holds(seed: int, n: int) -> None:
        log = log_for(name, make_log(layout, n, K, D, seed=seed))
        report = checks.check_policy(policy_named(name), log, seed=seed)
        assert report.events == n
        assert (report.batch_size is None) == (name in FIXED)
        assert len(report.laws) == (4 if name in FIXED else 7)

    holds()


def started(policy: Any, rng: Any = None) -> Any:
    policy_copy = copy.deepcopy(policy)
    policy_copy.start(K, D, np.random.default_rng(0) if rng is None else rng)
    return policy_copy


def batch(seed: int, n: int) -> tuple[Any, Any, Any, Any]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, D)), rng.integers(K, size=n), rng.integers(2, size=n) * 1.0, np.full(n, 0.5)


# Refitting from all events at once is what these are for; one at a time gives the same data.
@pytest.mark.parametrize("name", LEARNING)
def test_lessons_may_come_in_any_portions(name: str) -> None:
    @settings(max_examples=5)
    @given(st.integers(0, 2**32 - 1), st.integers(2, 12), st.integers(1, 11))
    def holds(seed: int, n: int, cut: int) -> None:
        contexts, actions, rewards, chances = batch(seed, n)
        whole, parts = started(LEARNING[name]), started(LEARNING[name])
        whole.learn(contexts, actions, rewards, chances)
        for part in (slice(0, cut), slice(cut, n)):
            if len(actions[part]):
                parts.learn(contexts[part], actions[part], rewards[part], chances[part])
        queries = np.random.default_rng(seed).normal(size=(20, D))
        np.testing.assert_allclose(whole.probabilities(queries), parts.probabilities(queries), atol=1e-9)

    holds()


@pytest.mark.parametrize("name", [name for name in LEARNING if name not in ("UCB1", "RoundRobin")])
def test_dense_and_sparse_contexts_are_one_to_a_policy(name: str) -> None:
    @settings(max_examples=5)
    @given(st.integers(0, 2**32 - 1), st.integers(2, 12))
    def holds(seed: int, n: int) -> None:
        contexts, actions, rewards, chances = batch(seed, n)
        contexts[np.abs(contexts) < 0.5] = 0.0
        dense, sparse = started(LEARNING[name]), started(LEARNING[name])
        dense.learn(contexts, actions, rewards, chances)
        sparse.learn(scipy.sparse.csr_array(contexts), actions, rewards, chances)
        queries = np.where(np.random.default_rng(seed).random((20, D)) < 0.5, 1.0, 0.0)
        np.testing.assert_allclose(
            dense.probabilities(queries), sparse.probabilities(scipy.sparse.csr_array(queries)), atol=1e-6
        )

    holds()


@pytest.mark.parametrize("name", ["EpsilonGreedy", "Softmax", "LinUCB", "LinearThompson", "UCB1"])
def test_names_of_actions_mean_nothing_to_a_learner(name: str) -> None:
    @settings(max_examples=10)
    @given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.permutations(range(K)))
    def holds(seed: int, n: int, names: list[int]) -> None:
        contexts, actions, rewards, chances = batch(seed, n)
        order = np.array(names)
        first, second = started(LEARNING[name]), started(LEARNING[name])
        first.learn(contexts, actions, rewards, chances)
        second.learn(contexts, order[actions], rewards, chances)
        queries = np.random.default_rng(seed).normal(size=(20, D))
        np.testing.assert_allclose(first.probabilities(queries), second.probabilities(queries)[:, order], atol=1e-9)

    holds()


@pytest.mark.parametrize("name", LEARNING)
def test_copies_share_nothing(name: str) -> None:
    original = started(LEARNING[name])
    original.learn(*batch(1, 6))
    queries = np.random.default_rng(0).normal(size=(20, D))
    before = original.probabilities(queries)
    policy_copy = copy.deepcopy(original)
    policy_copy.learn(*batch(2, 30))
    np.testing.assert_array_equal(original.probabilities(queries), before)
    # what was learned before the copy is kept by a start that comes after it
    late = copy.deepcopy(original)
    late.start(K, D, np.random.default_rng(0))
    np.testing.assert_array_equal(late.probabilities(queries), before)


@pytest.mark.parametrize("name", [*FIXED, "EpsilonGreedy", "Softmax", "LinearThompson", "FromClassifier"])
def test_unavailable_actions_get_nothing_and_the_rest_share_it(name: str, make_log: Any) -> None:
    log = make_log("masked", 200, K, D)
    policy_copy = copy.deepcopy(policy_named(name))
    if hasattr(policy_copy, "start"):
        policy_copy.start(K, D, np.random.default_rng(0))
    probabilities = probabilities_of(policy_copy, log)
    assert (probabilities[~log.available] == 0).all()
    # all of these explore, so every available action keeps a chance
    assert (probabilities[log.available] > 0).all()


@given(st.integers(0, 2**32 - 1), st.integers(1, 6))
@settings(max_examples=20)
def test_a_policy_that_cannot_choose_takes_what_there_is(seed: int, n: int) -> None:
    """Where one action alone is available, every policy takes it."""
    rng = np.random.default_rng(seed)
    only = rng.integers(K, size=n)
    mask = np.eye(K, dtype=bool)[only]
    log = bc.Log(
        rng.normal(size=(n, D)), only, rng.random(n), np.ones(n), available=mask, logging_probabilities=mask * 1.0
    )
    for policy in (FIXED | LEARNING).values():
        policy_copy = copy.deepcopy(policy)
        if hasattr(policy_copy, "start"):
            policy_copy.start(K, D, rng)
        np.testing.assert_allclose(probabilities_of(policy_copy, log), mask, atol=1e-12)


# What the checks are for: each broken law is named.


class Sound:
    """The least a learning policy can be."""

    batch_size = 2

    def __init__(self) -> None:
        self.paid = np.ones(K)

    def probabilities(self, contexts: Any, available: Any = None) -> Any:
        return np.tile(self.paid / self.paid.sum(), (contexts.shape[0], 1))

    def learn(self, contexts: Any, actions: Any, rewards: Any, probabilities: Any) -> None:
        np.add.at(self.paid, actions, rewards)


class Fickle(Sound):
    def probabilities(self, contexts: Any, available: Any = None) -> Any:
        self.paid = np.roll(self.paid, 1) + np.arange(K)
        return super().probabilities(contexts)


class Crowded(Sound):
    def probabilities(self, contexts: Any, available: Any = None) -> Any:
        centred = np.exp(contexts[:, :1] - contexts[:, :1].mean())
        return np.hstack([centred, np.ones((contexts.shape[0], K - 1))]) / (centred + K - 1)


class Sharing(Sound):
    def __deepcopy__(self, memo: Any) -> Sharing:
        policy_copy = Sharing()
        policy_copy.paid = self.paid
        return policy_copy


class Unsound(Sound):
    def learn(self, contexts: Any, actions: Any, rewards: Any, probabilities: Any) -> None:
        self.paid[0] = -1


class Moody(Sound):
    moods = np.random.default_rng(0)

    def learn(self, contexts: Any, actions: Any, rewards: Any, probabilities: Any) -> None:
        self.paid += self.moods.random(K)


class Scribbling(Sound):
    def probabilities(self, contexts: Any, available: Any = None) -> Any:
        contexts[:] = 0.0
        return super().probabilities(contexts)


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (Fickle(), "change between two calls; they may change only in learn. Action "),
        (Crowded(), "depend on the other events of the block"),
        (Sharing(), "changed because a copy learned; copies must share nothing"),
        (Unsound(), "probabilities must be numbers >= 0"),
        (Moody(), "differ between two copies trained on the same data; draw only from the rng"),
        (
            Scribbling(),
            "Scribbling.probabilities failed on rows 0..29: ValueError: assignment destination is read-only",
        ),
    ],
)
def test_a_broken_law_is_named(policy: Any, words: str, make_log: Any) -> None:
    with pytest.raises(bc.PolicyError) as caught:
        checks.check_policy(policy, make_log("dense", 30, K, D))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("policy", "words"),
    [(object(), "is not a policy; it needs a method probabilities"), (Sound, "Sound is a class; give an instance")],
)
def test_an_object_that_is_no_policy_is_rejected(policy: Any, words: str, make_log: Any) -> None:
    with pytest.raises(bc.OptionError, match=words):
        checks.check_policy(policy, make_log("dense", 30, K, D))


def test_a_report_says_what_was_checked(make_log: Any) -> None:
    policy = Sound()
    report = checks.check_policy(policy, make_log("dense", 30, K, D))
    assert str(report).startswith("Sound, learning in batches of 2, passed 7 checks on 30 events:\n- ")
    assert (policy.paid == 1).all()


def test_a_random_start_is_drawn_from_the_generator_given(make_log: Any) -> None:
    class Random(Sound):
        def start(self, n_actions: int, n_features: int, rng: np.random.Generator) -> None:
            self.paid = rng.random(n_actions)

    log = make_log("dense", 60, K, D)
    checks.check_policy(Random(), log)
    first, again, another = (bc.trace(log, Random(), bc.DRns(), seed=seed).weight for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, another)
