"""Clock replay simulates the law of live histories, and estimates V_t without bias even where meters come near 1."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import stats

import backcast as bc
from backcast._engine.clock import run_clock_pass
from backcast._engine.replay_loop import EventArrays
from backcast._kernels.contexts import add_scores, load_row
from tests.support.statistics import p_value
from tests.support.tabular import Event, TabularWorld

ALARM = 1e-3  # odds of a false alarm of one test
SURELY = 1e-12
WORLD = TabularWorld([0.4, 0.6], mean_rewards=[[0.7, 0.3], [0.2, 0.6]], logging=[[0.75, 0.25], [0.4, 0.6]])
LOGS, N, T = 20_000, 40, 3


class Paid(NamedTuple):
    """One more than twice the summed rewards of each context and action, and a scratch row."""

    table: Any
    row: Any


def leaning_score(state: Any, view: Any, k: Any, available: Any, out: Any) -> None:
    # contexts are indicators, so that the scores are the context's row of the table
    out[:] = 0.0
    add_scores(view, k, state.table, out)
    out /= out.sum()


def leaning_learn(state: Any, view: Any, k: Any, action: Any, reward: Any, probability: Any) -> None:
    load_row(view, k, action, state.row)
    state.table[:, action] += 2 * reward * state.row


def leaning(batch_size: int = 1) -> bc.Compiled:
    """Leans towards the action that paid in this context."""
    return bc.Compiled(
        lambda n_actions, n_features: Paid(np.ones((n_features, n_actions)), np.zeros(n_features)),
        leaning_score,
        leaning_learn,
        batch_size=batch_size,
    )


@dataclass(frozen=True)
class Logs:
    """Many logs of one world side by side, a row each, with thresholds for one pass."""

    contexts: Any
    actions: Any
    rewards: Any
    propensities: Any
    thresholds: Any

    @classmethod
    def of(cls, world: TabularWorld, count: int, n: int, seed: int) -> Logs:
        rng = np.random.default_rng(seed)
        log = world.log(count * n, rng)
        contexts = np.asarray(log.contexts).argmax(axis=1)
        columns = (contexts, log.actions, log.rewards.astype(int), log.propensities, rng.random(count * n))
        return cls(*(column.reshape(count, n) for column in columns))

    def log(self, row: int) -> bc.Log:
        return bc.Log(
            np.eye(2)[self.contexts[row]], self.actions[row], self.rewards[row], self.propensities[row], n_actions=2
        )


MANY = Logs.of(WORLD, LOGS, N, seed=40)


class Passes(NamedTuple):
    """The events accepted and the values V_t, a row a log and a column a round."""

    order: Any
    value: Any


def all_passes(logs: Logs, policy: Any, horizon: int) -> Passes:
    """The engine, log by log."""
    rng, predicted = np.random.default_rng(0), np.zeros((1, 2))
    stacked = bc.Log(
        np.eye(2)[logs.contexts.ravel()],
        logs.actions.ravel(),
        logs.rewards.ravel(),
        logs.propensities.ravel(),
        n_actions=2,
    )
    n, order, value = logs.actions.shape[1], [], []
    for row in range(len(logs.actions)):
        selected = stacked[row * n : (row + 1) * n]
        item = run_clock_pass(
            policy, selected, EventArrays.from_log(selected, predicted, logs.thresholds[row]), horizon, rng
        )
        order.append(item.order)
        value.append(item.value)
    return Passes(np.array(order), np.array(value))


def side_by_side(logs: Logs, horizon: int, *, broken: str = "", seed: int = 0) -> Passes:
    """Clock replay of the leaning policy on all logs at once, line by line as derived; or broken on purpose.

    "largest weight" accepts the unused event of largest weight, "fresh thresholds" draws thresholds anew in every
    round and keeps the meters, "plain mean" leaves 1/(1 - W) out of V_t.
    """
    rng = np.random.default_rng(seed)
    rows, shape = np.arange(len(logs.actions)), logs.actions.shape
    meter, used, paid = np.zeros(shape), np.zeros(shape, dtype=bool), np.ones((len(rows), 2, 2))
    order, value = [], []
    for _ in range(horizon):
        pi = paid / paid.sum(axis=2, keepdims=True)
        weight = pi[rows[:, None], logs.contexts, logs.actions] / logs.propensities
        thresholds = rng.random(shape) if broken == "fresh thresholds" else logs.thresholds
        share = np.where(used, 0.0, 1.0 if broken == "plain mean" else 1 / (1 - np.where(used, 0.0, meter)))
        value.append((share * weight * logs.rewards).sum(axis=1) / share.sum(axis=1))
        delay = np.where(used, np.inf, (thresholds - meter) / weight)
        first = np.where(used, -1.0, weight).argmax(axis=1) if broken == "largest weight" else delay.argmin(axis=1)
        meter += weight * delay[rows, first][:, None]
        used[rows, first] = True
        paid[rows, logs.contexts[rows, first], logs.actions[rows, first]] += 2 * logs.rewards[rows, first]
        order.append(first)
    return Passes(np.array(order).T, np.array(value).T)


def histories(logs: Logs, order: Any) -> Counter[tuple[Event, ...]]:
    rows = np.arange(len(order))[:, None]
    columns = np.stack([logs.contexts[rows, order], logs.actions[rows, order], logs.rewards[rows, order]], axis=2)
    return Counter(tuple(Event(*event) for event in history) for history in columns.tolist())


POLICIES: dict[str, Any] = {
    "leaning": leaning(),
    "leaning in twos": leaning(batch_size=2),
    "epsilon-greedy": bc.EpsilonGreedy(0.4),
}


@pytest.mark.parametrize("name", POLICIES)
def test_histories_have_the_law_of_live_ones(name: str) -> None:
    law = WORLD.history_law(POLICIES[name], T)
    order = all_passes(MANY, POLICIES[name], T).order
    assert order.shape == (LOGS, T)
    assert p_value(histories(MANY, order), law) > ALARM


def test_trace_gives_the_same_histories() -> None:
    few = Logs.of(WORLD, 50, N, seed=43)
    for row, order in enumerate(all_passes(few, leaning(), T).order):
        passed = bc.trace(few.log(row), leaning(), bc.ClockReplay(), uniforms=few.thresholds[row], horizon=T)
        np.testing.assert_array_equal(passed.order, order)


def test_the_derivation_line_by_line_is_the_engine() -> None:
    few = Logs.of(WORLD, 300, N, seed=41)
    ours, engines = side_by_side(few, 8), all_passes(few, leaning(), 8)
    np.testing.assert_array_equal(ours.order, engines.order)
    np.testing.assert_allclose(ours.value, engines.value, rtol=1e-12)


@pytest.mark.parametrize("broken", ["largest weight", "fresh thresholds"])
def test_the_test_sees_a_broken_clock(broken: str) -> None:
    law = WORLD.history_law(leaning(), T)
    assert p_value(histories(MANY, side_by_side(MANY, T).order), law) > ALARM
    assert p_value(histories(MANY, side_by_side(MANY, T, broken=broken).order), law) < SURELY


SCARCE = TabularWorld([0.5, 0.5], mean_rewards=[[0.9, 0.2], [0.1, 0.8]], logging=[[0.4, 0.6], [0.55, 0.45]])
ROUNDS = 60


def live_values(world: TabularWorld, rounds: int, runs: int) -> Any:
    """Mean of V_t over ``rounds`` live rounds of the leaning policy, one figure a run."""
    rng, rows = np.random.default_rng(7), np.arange(runs)
    paid, total = np.ones((runs, 2, 2)), np.zeros(runs)
    for _ in range(rounds):
        pi = paid / paid.sum(axis=2, keepdims=True)
        total += ((pi * world.mean_rewards).sum(axis=2) * world.context_probabilities).sum(axis=1)
        x = rng.choice(world.n_contexts, runs, p=world.context_probabilities)
        a = (rng.random(runs) >= pi[rows, x, 0]).astype(int)
        paid[rows, x, a] += 2 * (rng.random(runs) < world.mean_rewards[x, a])
    return total / rounds


def z_score(values: Any, live: Any) -> float:
    return float((values.mean() - live.mean()) / np.hypot(stats.sem(values), stats.sem(live)))


def test_values_are_unbiased_where_meters_come_near_1_and_the_plain_mean_is_not() -> None:
    # 60 of 200 events: the meters of the favoured actions end near 0.65, and values lean on what is left of them
    scarce = Logs.of(SCARCE, 2000, 200, seed=42)
    live = live_values(SCARCE, ROUNDS, 40_000)
    result = all_passes(scarce, leaning(), ROUNDS).value.mean(axis=1)
    plain = side_by_side(scarce, ROUNDS, broken="plain mean").value.mean(axis=1)
    assert abs(z_score(result, live)) < stats.norm.isf(ALARM / 2)
    assert plain.mean() < live.mean() - 0.03
    assert z_score(plain, live) < -50
