"""Filled replay has the law of live histories although events run out, if its reward model is right."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import backcast as bc
from backcast._engine.clock import NO_EDGES, run_clock_pass
from backcast._engine.filling import COIN, LATE_COIN, Fill
from backcast._engine.replay_loop import EventArrays
from backcast._engine.thinning import run_thinned_pass
from tests.support.statistics import p_value
from tests.support.tabular import Event, TabularWorld

ALARM = 1e-3  # odds of a false alarm of one test
SURELY = 1e-9
# the logger rarely takes the better action, so that its events run out within a round or two
WORLD = TabularWorld([0.4, 0.6], mean_rewards=[[0.2, 0.7], [0.3, 0.6]], logging=[[0.9, 0.1], [0.8, 0.2]])
RUNS, T = 5000, 3
ACCEPTABLE = 10  # events of a log that may be accepted
SAMPLE = 500  # events that can only fill a round; every context and action has exactly its share of them
GREEDY, IN_TWOS, FIXED = bc.EpsilonGreedy(0.4), bc.EpsilonGreedy(0.4, batch_size=2), bc.Fixed([0.3, 0.7])


def sample_events() -> tuple[Any, Any]:
    """Contexts and actions in the shares of the world, which are hundredths."""
    counts = np.rint(SAMPLE * WORLD.context_probabilities[:, None] * WORLD.logging).astype(int)
    cells = np.repeat(np.arange(4), counts.ravel())
    return cells // 2, cells % 2


def run_histories(
    policy: Any, model: Any, *, thins: bool = False, broken: tuple[int, ...] = ()
) -> tuple[Counter[Any], float]:
    """Simulated histories, each from a log of its own, and the share of rounds that were filled.

    ``broken`` are coins that never fall on filling.
    """
    rng = np.random.default_rng(50)
    x, a = (np.concatenate([np.zeros(ACCEPTABLE, dtype=int), column]) for column in sample_events())
    held_out = np.arange(x.size) >= ACCEPTABLE
    rewards, stock = np.zeros(x.size), WORLD.log(RUNS * ACCEPTABLE, rng)
    contexts = np.asarray(stock.contexts).argmax(axis=1)
    found: Counter[Any] = Counter()
    filled = 0
    for run in range(RUNS):
        rows = slice(run * ACCEPTABLE, (run + 1) * ACCEPTABLE)
        x[:ACCEPTABLE], a[:ACCEPTABLE], rewards[:ACCEPTABLE] = contexts[rows], stock.actions[rows], stock.rewards[rows]
        log = bc.Log(np.eye(2)[x], a, rewards, WORLD.logging[x, a], n_actions=2, reward_range=(0, 1))
        predicted = np.asarray(model)[x]
        fill = Fill.from_log(log, predicted[np.arange(x.size), a], T, rng, held_out)
        fill.draws[:, broken] = 2.0
        events = EventArrays.from_log(log, predicted, rng.random(x.size))
        if thins:
            passed = run_thinned_pass(policy, log, events, T, rng, NO_EDGES, 1, fill)
        else:
            passed = run_clock_pass(policy, log, events, T, rng, fill=fill)
        filled += int(passed.filled.sum())
        columns = x[passed.order], a[passed.order], passed.reward.astype(int)
        found[tuple(Event(*map(int, event)) for event in zip(*columns, strict=True))] += 1
    return found, filled / (RUNS * T)


@pytest.mark.parametrize("thins", [False, True], ids=["meters", "thinning"])
@pytest.mark.parametrize("policy", [GREEDY, IN_TWOS], ids=["one by one", "in twos"])
def test_with_the_true_reward_model_histories_have_the_law_of_live_ones(policy: Any, thins: bool) -> None:
    found, filled = run_histories(policy, WORLD.mean_rewards, thins=thins)
    assert filled > 0.1
    assert p_value(found, WORLD.history_law(policy, T)) > ALARM


class Unchanged:
    """A policy that is updated after every round, so that V_t is read in every round, and never changes."""

    batch_size = 1

    def probabilities(self, contexts: Any, available: Any = None) -> Any:
        return np.tile([0.3, 0.7], (len(contexts), 1))

    def learn(self, contexts: Any, actions: Any, rewards: Any, probabilities: Any) -> None:
        pass


def read_exhausted_logs(share_held_out: float) -> tuple[float, float]:
    """Return the mean error of values over 500 logs whose events of the better action run out, and its standard error.

    Without predictions a value consists of the weighted rewards that were read: what is not read is missing.
    """
    rng, n, horizon = np.random.default_rng(3), 60, 40
    truth = float(WORLD.context_probabilities @ WORLD.mean_rewards @ [0.3, 0.7])
    errors = []
    for _ in range(500):
        log, predicted = WORLD.log(n, rng), np.zeros((n, 2))
        held_out = rng.permutation(n) < round(share_held_out * n) if share_held_out else None
        fill = Fill.from_log(log, predicted[:, 0], horizon, rng, held_out)
        events = EventArrays.from_log(log, predicted, rng.random(n))
        errors.append(float(run_clock_pass(Unchanged(), log, events, horizon, rng, fill=fill).value.mean()) - truth)
    return float(np.mean(errors)), float(np.std(errors)) / np.sqrt(len(errors))


def test_values_are_right_whatever_is_exhausted_if_events_are_held_out() -> None:
    """Read on unused events alone, the value is far too low: those of the better action are used up."""
    error, spread = read_exhausted_logs(0.2)
    assert abs(error) < 3.3 * spread  # odds of a false alarm: 1e-3
    error, spread = read_exhausted_logs(0.0)
    assert error < -10 * spread


def test_contexts_and_actions_have_the_law_of_live_ones_whatever_the_reward_model_is() -> None:
    found, filled = run_histories(FIXED, np.zeros((2, 2)))
    law: dict[Any, float] = {}
    for history, chance in WORLD.history_law(FIXED, T).items():
        key = tuple(event[:2] for event in history)
        law[key] = law.get(key, 0.0) + chance
    choices: Counter[Any] = Counter()
    for history, count in found.items():
        choices[tuple(event[:2] for event in history)] += count
    assert filled > 0.1
    assert p_value(choices, law) > ALARM


@pytest.mark.parametrize(
    ("model", "broken"),
    [
        pytest.param(WORLD.mean_rewards, (COIN, LATE_COIN), id="no filling"),
        pytest.param(WORLD.mean_rewards, (LATE_COIN,), id="none for what runs out within a round"),
        pytest.param(np.zeros((2, 2)), (), id="wrong rewards"),
    ],
)
def test_the_test_detects_what_is_wrong(model: Any, broken: tuple[int, ...]) -> None:
    assert p_value(run_histories(GREEDY, model, broken=broken)[0], WORLD.history_law(GREEDY, T)) < SURELY
