"""Policies that learn in batches, and ones that collect the same batches themselves, have equal certificates."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import backcast as bc
from backcast._engine.clock import run_clock_pass
from backcast._engine.replay_loop import EventArrays


class Buffered:
    """Learns one event at a time from outside, and passes them on in batches."""

    batch_size = 1

    def __init__(self, policy: Any) -> None:
        self.policy = policy
        self.buffer: list[Any] = []

    def start(self, n_actions: int, n_features: int, rng: np.random.Generator) -> None:
        self.policy, self.buffer = copy.deepcopy(self.policy), []
        self.policy.start(n_actions, n_features, rng)

    def probabilities(self, contexts: Any, available: Any = None) -> Any:
        return self.policy.probabilities(contexts, available)

    def learn(self, *events: Any) -> None:
        self.buffer.append(events)
        if len(self.buffer) == self.policy.batch_size:
            self.policy.learn(*(np.concatenate(columns) for columns in zip(*self.buffer, strict=True)))
            self.buffer = []


class Stubborn:
    """Plays arm 0 with probability .97 in its first batch, then settles on arm 1 if it met that arm 50 times."""

    batch_size = 600

    def start(self, n_actions: int, n_features: int, rng: np.random.Generator) -> None:
        self.best = np.array([0.97, 0.03])

    def probabilities(self, contexts: Any, available: Any = None) -> Any:
        return np.tile(self.best, (len(contexts), 1))

    def learn(self, contexts: Any, actions: Any, rewards: Any, probabilities: Any) -> None:
        self.best = np.array([0.0, 1.0]) if (actions == 1).sum() >= 50 else np.array([1.0, 0.0])


def uniform_log(n: int, seed: int, n_actions: int = 4) -> bc.Log:
    rng = np.random.default_rng(seed)
    contexts = np.column_stack([np.ones(n), rng.normal(size=n)])
    actions = rng.integers(n_actions, size=n)
    rewards = (rng.random(n) < 0.3 + 0.4 * (actions == 1)).astype(np.float64)
    return bc.Log(contexts, actions, rewards, np.full(n, 1 / n_actions), n_actions=n_actions, reward_range=(0, 1))


def run(policy: Any, log: bc.Log, horizon: int, seed: int) -> Any:
    uniforms = np.random.default_rng([seed, 1]).random(len(log))
    events = EventArrays.from_log(log, np.full((1, log.n_actions), 0.5), uniforms)
    return run_clock_pass(policy, log, events, horizon, np.random.default_rng(seed))


@settings(max_examples=25)
@given(seed=st.integers(0, 2**32), n=st.integers(30, 300), batch_size=st.integers(2, 60), share=st.floats(0.1, 0.9))
def test_batches_have_the_certificate_of_single_events(seed: int, n: int, batch_size: int, share: float) -> None:
    log, horizon = uniform_log(n, seed), max(1, int(share * n))
    policy = bc.EpsilonGreedy(0.1, batch_size=batch_size)
    batched, buffered = (run(each, log, horizon, seed) for each in (policy, Buffered(policy)))
    assert np.array_equal(batched.order, buffered.order)
    assert batched.exhausted == pytest.approx(buffered.exhausted, abs=1e-9)


@pytest.mark.parametrize(("n", "batch_size", "horizon"), [(2000, 300, 900), (2000, 600, 1200), (5000, 1000, 2500)])
def test_a_certificate_is_not_blind_inside_a_batch(n: int, batch_size: int, horizon: int) -> None:
    """The greedy arm has about n/4 events, so a history of n/2 rounds exhausts it, whatever the batches are."""
    log = uniform_log(n, seed=1)
    policy = bc.EpsilonGreedy(0.05, batch_size=batch_size)
    batched, buffered = (run(each, log, horizon, 1).exhausted.sum() for each in (policy, Buffered(policy)))
    assert batched > 1
    assert batched == pytest.approx(buffered, rel=1e-9)


def test_a_history_that_the_log_cannot_give_is_not_certified() -> None:
    """Of 600 rounds .97 would be on arm 0, which has 500 events: nearly all histories differ from live ones.

    Total variation is at most 1, so a certificate above 1 is at least the true one, in each of 200 logs.
    """
    certificates = [run(Stubborn(), uniform_log(1000, seed, 2), 800, seed).exhausted.sum() for seed in range(200)]
    assert min(certificates) > 1
