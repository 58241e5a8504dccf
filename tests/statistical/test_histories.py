"""Simulated histories have the law of live ones: two contexts, two actions, three rounds, all 512 histories listed."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from scipy import stats

import backcast as bc
from tests.support.tabular import Event, TabularWorld

T = 3
ALARM = 1e-3  # odds of a false alarm of one chi-square test
WORLD = TabularWorld([0.4, 0.6], mean_rewards=[[0.7, 0.3], [0.2, 0.6]], logging=[[0.75, 0.25], [0.4, 0.6]])
LOG = WORLD.log(36_000, np.random.default_rng(2012))


class Leaning:
    """Leans towards the action that paid in this context; probabilities stay away from 0 and 1."""

    def __init__(self, batch_size: int = 1) -> None:
        self.batch_size = batch_size
        self.paid = np.ones((2, 2))

    def probabilities(self, contexts: Any, available: Any = None) -> Any:
        paid = contexts @ self.paid
        return paid / paid.sum(axis=1, keepdims=True)

    def learn(self, contexts: Any, actions: Any, rewards: Any, probabilities: Any) -> None:
        for x, a, r in zip(contexts @ np.arange(2), actions, rewards, strict=True):
            self.paid[int(x), a] += 2 * r


POLICIES: dict[str, Any] = {
    "a learner": Leaning(),
    "a learner in twos": Leaning(batch_size=2),
    "epsilon-greedy": bc.EpsilonGreedy(0.4),
    "a fixed policy": bc.Fixed([0.2, 0.8]),
}


def histories(policy: Any, evaluator: Any, log: bc.Log = LOG) -> Counter[tuple[Event, ...]]:
    """Complete histories of one long log, cut at every third acceptance; each starts with a fresh policy.

    With the worst-case multiplier c an event is accepted with probability c whatever the policy, so the unfinished
    history at the end is left out without favouring any.
    """
    order = bc.trace(log, policy, evaluator, horizon=T, seed=1).order
    rows = order[: len(order) // T * T].reshape(-1, T)
    contexts, rewards = np.asarray(log.contexts) @ np.arange(2), log.rewards
    return Counter(
        tuple(Event(int(contexts[k]), int(log.actions[k]), int(rewards[k])) for k in row) for row in rows.tolist()
    )


def p_value(found: Counter[tuple[Event, ...]], law: dict[tuple[Event, ...], float]) -> float:
    """Chi-square test of counts against a law; histories expected fewer than five times are taken together."""
    assert set(found) <= set(law)
    total = sum(found.values())
    common = [history for history, chance in law.items() if chance * total >= 5]
    counts = np.array([found[history] for history in common])
    expected = total * np.array([law[history] for history in common])
    if total - expected.sum() >= 5:
        counts, expected = np.append(counts, total - counts.sum()), np.append(expected, total - expected.sum())
    else:
        expected *= counts.sum() / expected.sum()
    return float(stats.chisquare(counts, expected).pvalue)


@pytest.mark.parametrize("name", POLICIES)
def test_rejection_with_the_worst_case_gives_the_law_of_live_histories(name: str) -> None:
    law = WORLD.history_law(POLICIES[name], T)
    assert sum(law.values()) == pytest.approx(1)
    result = histories(POLICIES[name], bc.WC())
    assert sum(result.values()) > 2500
    assert p_value(result, law) > ALARM


def test_rejection_sampling_gives_the_law_of_live_histories() -> None:
    assert p_value(histories(bc.UCB1(), bc.RS()), WORLD.history_law(bc.UCB1(), T)) > ALARM


@pytest.mark.parametrize("name", POLICIES)
def test_the_test_sees_a_multiplier_that_is_too_large(name: str) -> None:
    law = WORLD.history_law(POLICIES[name], T)
    assert p_value(histories(POLICIES[name], bc.DRns(acceptance=1.0), LOG[:9000]), law) < 1e-6


class Everything:
    """Wraps a policy so that every logged action looks as likely as the logger made it: all events are accepted."""

    def __init__(self, policy: Any) -> None:
        self.policy = policy

    def probabilities_of(self, log: bc.Log) -> Any:
        return log.logging_probabilities

    def learn(self, *batch: Any) -> None:
        self.policy.learn(*batch)


def test_the_test_sees_an_engine_that_accepts_everything() -> None:
    law = WORLD.history_law(Leaning(), T)
    result = histories(Everything(Leaning()), bc.DRns(acceptance=1.0), LOG[:6000])
    assert sum(result.values()) == 2000
    assert p_value(result, law) < 1e-6


def test_the_test_sees_a_learner_that_does_not_learn() -> None:
    law = WORLD.history_law(Leaning(), T)
    assert p_value(histories(bc.Fixed([0.5, 0.5]), bc.WC()), law) < 1e-6


def test_the_test_sees_a_learner_that_starts_with_what_another_learned() -> None:
    taught = Leaning()
    taught.learn(np.eye(2), np.array([0, 1]), np.ones(2), np.full(2, 0.5))
    law = WORLD.history_law(Leaning(), T)
    assert p_value(histories(taught, bc.WC()), law) < 1e-6


@pytest.mark.parametrize("c", [0.5, 1.0])
def test_first_accepted_event_has_the_law_that_the_multiplier_leaves(c: float) -> None:
    # Accepted events have law min(mu/c, pi)/(1 - eps), within eps of D pi in total variation (section 3.2).
    pi = np.array([[0.2, 0.8], [0.8, 0.2]])
    left = np.minimum(WORLD.logging / c, pi)
    eps = 1 - float(WORLD.context_probabilities @ left.sum(axis=1))
    law = WORLD.context_probabilities[:, None] * left / (1 - eps)
    passed = bc.trace(LOG, bc.Fixed(lambda contexts: contexts @ pi), bc.DRns(acceptance=c))
    taken = (np.asarray(LOG.contexts)[passed.order] @ np.arange(2)).astype(int), LOG.actions[passed.order]
    counts = np.zeros((2, 2))
    np.add.at(counts, taken, 1)
    expected = WORLD.context_probabilities[:, None] * pi
    assert stats.chisquare(counts.ravel(), counts.sum() * law.ravel()).pvalue > ALARM
    assert stats.chisquare(counts.ravel(), counts.sum() * expected.ravel()).pvalue < 1e-6
    assert np.abs(law - expected).sum() / 2 <= eps
