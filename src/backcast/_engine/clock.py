"""Clock replay: an exact simulation of a learning policy from an exchangeable log that throws no event away.

Every event has a threshold ``u_k`` and a meter ``W_k`` that runs at speed ``w_k = pi_t(a_k|x_k)/p_k`` while the
learner sits at ``h_{t-1}``; the first meter to reach its threshold is accepted. While no meter passes 1, unused events
have the density ``f (1 - W)/(1 - tau)``, so the next event to fire is an exact draw from ``D x pi_t``, and the weights
``1/(1 - W_k)`` restore the law of the log for estimating V_t (derivation in docs/theory.md).

V_t is read before the clock moves on: just after, the event that is about to fire would count once too often.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba.extending import register_jitable

from backcast._arrays import FloatArray, IntArray
from backcast._engine.equations import corrected
from backcast._engine.replay_loop import EventArrays
from backcast._kernels.contexts import ActionFeatures, view_of
from backcast._kernels.dispatch import choose, is_builtin, is_context_free, is_divisible, is_greedy, learn, raw, score
from backcast._kernels.jit import compiled, uncached
from backcast.log import Log
from backcast.policies._calls import probabilities_of, start_copy, update_on_events
from backcast.policies.base import batch_size_of, is_learning
from backcast.policies.compiled import CompiledPolicy

SCORING_BLOCK = 1 << 14


class Meters(NamedTuple):
    """Every event's meter, its speed, its doubly robust value and their sum, when it would fire, whether it has."""

    meter: FloatArray
    speed: FloatArray
    value: FloatArray
    total: FloatArray
    delay: FloatArray
    used: Any

    @classmethod
    def of_length(cls, n: int) -> Meters:
        """Meters at zero."""
        used = np.zeros(n, dtype=np.bool_)
        return cls(np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n), used)


class Rounds(NamedTuple):
    """What each round leaves: the event accepted, the value V_t, the exhausted mass."""

    order: IntArray
    value: FloatArray
    exhausted: FloatArray

    @classmethod
    def of_length(cls, n: int) -> Rounds:
        """Room for ``n`` rounds."""
        return cls(np.zeros(n, dtype=np.int64), np.zeros(n), np.zeros(n))


@dataclass(frozen=True)
class ClockPass:
    """One pass: rounds played, accepted events in order, and by round the value V_t and the exhausted mass.

    ``event_values`` are the doubly robust values of all events, averaged over the rounds.
    """

    order: IntArray
    value: FloatArray
    exhausted: FloatArray
    event_values: FloatArray

    @property
    def rounds(self) -> int:
        """How many rounds were played."""
        return self.order.size


@compiled
def set_speeds_and_values(events: EventArrays, probabilities: FloatArray, start: int, meters: Meters) -> None:
    """Speeds ``w_k`` and values ``R_k`` of the events from ``start`` on, one row of probabilities each."""
    actions, rewards, propensities = events.actions, events.rewards, events.propensities
    predicted, speed, value = events.predicted, meters.speed, meters.value
    many = predicted.shape[0] > 1
    for i in range(probabilities.shape[0]):
        k = start + i
        action, row = actions[k], k if many else 0
        weight = probabilities[i, action] / propensities[k]
        expected = 0.0
        for a in range(probabilities.shape[1]):
            expected += probabilities[i, a] * predicted[row, a]
        speed[k] = weight
        value[k] = corrected(expected, weight, rewards[k], predicted[row, action])


@compiled
def read_clock(meters: Meters, thresholds: FloatArray) -> tuple[float, float]:
    """V_t and the exhausted mass at this moment; and when each unused event would fire.

    ``V_t = sum i_k R_k / sum i_k`` over unused events, ``i_k = 1/(1 - W_k)``; exhausted mass ``mean w_k [W_k >= 1]``.
    """
    meter, speed, value, delay, used = meters.meter, meters.speed, meters.value, meters.delay, meters.used
    total = weight = exhausted = 0.0
    for k in range(meter.size):
        if used[k]:
            delay[k] = np.inf
            if meter[k] >= 1.0:
                exhausted += speed[k]
            continue
        share = 1.0 / (1.0 - meter[k])
        weight += share
        total += share * value[k]
        delay[k] = (thresholds[k] - meter[k]) / speed[k] if speed[k] > 0.0 else np.inf
    if weight == 0.0:
        return np.nan, 1.0
    return total / weight, exhausted / meter.size


@compiled
def next_to_fire(delay: FloatArray, most: int) -> IntArray:
    """The events that fire next, at most ``most``, in order; fewer where the rest never would."""
    if most == 1:
        first = 0
        for k in range(1, delay.size):
            if delay[k] < delay[first]:
                first = k
        found = np.array([first])
    else:
        last = np.partition(delay, most - 1)[most - 1] if most < delay.size else np.inf
        found = np.flatnonzero(delay <= last)
        found = found[np.argsort(delay[found], kind="mergesort")][:most]
    reached: IntArray = found[np.isfinite(delay[found])]
    return reached


@compiled
def move_clock(meters: Meters, fired: IntArray) -> None:
    """Run all meters until the last of these events has fired, and mark them used; add up the values meanwhile."""
    meter, speed, duration = meters.meter, meters.speed, meters.delay[fired[-1]]
    value, total = meters.value, meters.total
    for k in range(meter.size):
        meter[k] += speed[k] * duration
        total[k] += fired.size * value[k]
    for k in fired:
        meters.used[k] = True


@compiled
def note_rounds(rounds: Rounds, t: int, fired: IntArray, reading: Any) -> None:
    """Write down the rounds of one update: the policy is the same in all of them, so is V_t."""
    for i in range(fired.size):
        rounds.order[t + i] = fired[i]
        rounds.value[t + i] = reading[0]
        rounds.exhausted[t + i] = reading[1]


@compiled
def play_round(t: int, batch: int, events: EventArrays, meters: Meters, rounds: Rounds) -> IntArray:
    """Read the clock, let the next events fire, write the rounds down; the events that fired."""
    reading = read_clock(meters, events.uniforms)
    fired = next_to_fire(meters.delay, min(batch, rounds.order.size - t))
    if fired.size > 0:
        note_rounds(rounds, t, fired, reading)
        move_clock(meters, fired)
    return fired


def _learn_fired(state: Any, view: Any, events: Any, meters: Any, fired: Any) -> None:
    for k in fired:
        learn(state, view, k, events.actions[k], events.rewards[k], meters.speed[k] * events.propensities[k])


class Standing(NamedTuple):
    """Raw scores; at each event the largest, whose it is (-1: tied or unknown), and whether that is stale."""

    scores: FloatArray
    top: FloatArray
    winner: IntArray
    stale: Any


@compiled
def take_scores(standing: Standing, action: int, fresh: FloatArray, greedy: bool) -> None:
    """Put in one action's new scores, and mark the events where the choice may have changed.

    A greedy choice stays if the winner gains, or if another's score is still below the largest.
    """
    scores, top, winner, stale = standing.scores, standing.top, standing.winner, standing.stale
    for k in range(fresh.size):
        before, now = scores[k, action], fresh[k]
        scores[k, action] = now
        if greedy and winner[k] == action and now >= before:
            top[k] = now
        elif not greedy or winner[k] < 0 or winner[k] == action or now >= top[k]:
            stale[k] = True


@compiled
def find_winner(standing: Standing, k: int, available: Any) -> int:
    """Find the largest score at event ``k``; the action that has it alone, or -1."""
    scores, best, winner = standing.scores, -np.inf, -1
    for a in range(scores.shape[1]):
        if available.size == 0 or available[k, a]:
            if scores[k, a] > best:
                best, winner = scores[k, a], a
            elif scores[k, a] == best:
                winner = -1
    standing.top[k] = best
    return winner


def _rechoose(state: Any, events: Any, standing: Any, greedy: bool, meters: Any) -> None:
    actions, rewards, propensities = events.actions, events.rewards, events.propensities
    predicted, available, speed, value = events.predicted, events.available, meters.speed, meters.value
    scores, winners, stale = standing.scores, standing.winner, standing.stale
    target = np.empty(scores.shape[1])
    for k in range(stale.size):
        if not stale[k]:
            continue
        stale[k] = False
        winner = find_winner(standing, k, available)
        if greedy and winner >= 0 and winner == winners[k]:
            continue
        winners[k] = winner
        target[:] = scores[k]
        choose(state, available, k, target)
        row, action = k if predicted.shape[0] > 1 else 0, actions[k]
        expected = 0.0
        for a in range(target.size):
            expected += target[a] * predicted[row, a]
        speed[k] = target[action] / propensities[k]
        value[k] = corrected(expected, speed[k], rewards[k], predicted[row, action])


_learn_fired_inside = register_jitable(_learn_fired)


_rechoose_inside = register_jitable(_rechoose)


def _divided_pass(state: Any, view: Any, events: Any, batch: int, greedy: bool, meters: Any, rounds: Any) -> int:
    n, n_actions = events.actions.size, events.predicted.shape[1]
    fresh = np.empty(n)
    unknown = np.full(n, -1)
    standing = Standing(np.empty((n, n_actions)), np.full(n, -np.inf), unknown, np.ones(n, dtype=np.bool_))
    changed = np.ones(n_actions, dtype=np.bool_)
    t = 0
    while t < rounds.order.size:
        for a in range(n_actions):
            if changed[a]:
                raw(state, view, a, fresh)
                take_scores(standing, a, fresh, greedy)
        _rechoose_inside(state, events, standing, greedy, meters)
        fired = play_round(t, batch, events, meters, rounds)
        if fired.size == 0:
            break
        t += fired.size
        changed[:] = False
        if fired.size == batch:
            _learn_fired_inside(state, view, events, meters, fired)
            for k in fired:
                changed[events.actions[k]] = True
    return t


def _whole_pass(state: Any, view: Any, events: Any, batch: int, alike: bool, meters: Any, rounds: Any) -> int:
    n = events.actions.size
    target = np.empty((n, events.predicted.shape[1]))
    t = 0
    while t < rounds.order.size:
        for k in range(1 if alike else n):
            score(state, view, k, events.available, target[k])
        if alike:
            for k in range(1, n):
                target[k] = target[0]
        set_speeds_and_values(events, target, 0, meters)
        fired = play_round(t, batch, events, meters, rounds)
        if fired.size == 0:
            break
        t += fired.size
        if fired.size == batch:
            _learn_fired_inside(state, view, events, meters, fired)
    return t


_DIVIDED = {True: compiled(_divided_pass), False: uncached(_divided_pass)}


_WHOLE = {True: compiled(_whole_pass), False: uncached(_whole_pass)}


def clock_pass(policy: Any, log: Log, events: EventArrays, horizon: int, rng: np.random.Generator) -> ClockPass:
    """Run a fresh copy of the policy for ``horizon`` rounds, or until no event can fire.

    ``events.uniforms`` are the thresholds.
    """
    twin = start_copy(policy, log, rng)
    horizon = min(horizon, len(log))
    meters, rounds = Meters.of_length(len(log)), Rounds.of_length(horizon)
    if isinstance(twin, CompiledPolicy):
        played = _compiled_pass(twin, log, events, meters, rounds)
    else:
        played = _scored_pass(twin, log, events, meters, rounds)
    event_values = meters.total / max(played, 1)
    return ClockPass(rounds.order[:played], rounds.value[:played], rounds.exhausted[:played], event_values)


def _compiled_pass(twin: CompiledPolicy, log: Log, events: EventArrays, meters: Meters, rounds: Rounds) -> int:
    view, state = view_of(log._contexts), twin.state_for(log._contexts)
    if is_divisible(state) and not isinstance(view, ActionFeatures):
        divided = _DIVIDED[is_builtin(state)]
        return int(divided(state, view, events, twin.batch_size, is_greedy(state), meters, rounds))
    alike = is_context_free(state) and log._available is None
    return int(_WHOLE[is_builtin(state)](state, view, events, twin.batch_size, alike, meters, rounds))


def _scored_pass(twin: Any, log: Log, events: EventArrays, meters: Meters, rounds: Rounds) -> int:
    """The pass with a policy that lives in Python: scored once per update."""
    horizon = rounds.order.size
    learning = is_learning(twin)
    batch = batch_size_of(twin) if learning else horizon
    t = 0
    while t < horizon:
        if learning or t == 0:
            _score_all(twin, log, events, meters)
        fired = play_round(t, batch, events, meters, rounds)
        if fired.size == 0:
            break
        t += fired.size
        if learning and fired.size == batch and t < horizon:
            update_on_events(twin, log[fired], meters.speed[fired] * log._propensities[fired])
    return t


def _score_all(twin: Any, log: Log, events: EventArrays, meters: Meters) -> None:
    for start in range(0, len(log), SCORING_BLOCK):
        set_speeds_and_values(events, probabilities_of(twin, log[start : start + SCORING_BLOCK]), start, meters)
