"""Clock replay: an exact simulation of a learning policy from an exchangeable log, in which no event is discarded.

Every event has a threshold ``u_k`` and a meter ``W_k`` that runs at speed ``w_k = pi_t(a_k|x_k)/p_k`` while the history
is ``h_{t-1}``; the first meter to reach its threshold is accepted. While no meter passes 1, unused events have the
density ``f (1 - W)/(1 - tau)``, so the next event to fire is an exact draw from ``D x pi_t``, and the weights
``1/(1 - W_k)`` restore the law of the log for estimating V_t (docs/theory.md). ``backcast.reference`` is the same
algorithm in plain Python.

V_t is read before the clock moves: directly after, the event that is about to fire would count once too often.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba.extending import register_jitable

from backcast._arrays import FloatArray, IntArray
from backcast._engine.equations import doubly_robust, expected_reward
from backcast._engine.replay_loop import EventArrays
from backcast._kernels.contexts import ActionFeatures, view_of
from backcast._kernels.dispatch import choose, is_builtin, is_context_free, is_divisible, is_greedy, learn, raw, score
from backcast._kernels.jit import compiled, inlined, uncached
from backcast.log import Log
from backcast.policies._calls import probabilities_of, start_copy, update_on_events
from backcast.policies.base import batch_size_of, is_learning
from backcast.policies.compiled import CompiledPolicy

SCORING_BLOCK = 1 << 14  # events that a Python policy scores per call


class Meters(NamedTuple):
    """Per event: meter W_k, speed w_k, value R_k, sum of R_k over rounds, time until it fires, whether it is used."""

    meter: FloatArray
    speed: FloatArray
    value: FloatArray
    value_sum: FloatArray
    delay: FloatArray
    used: Any

    @classmethod
    def of_length(cls, n: int) -> Meters:
        """Return meters at zero."""
        used = np.zeros(n, dtype=np.bool_)
        return cls(np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n), used)


class Rounds(NamedTuple):
    """Per round: the event accepted, the value V_t, the exhausted mass."""

    order: IntArray
    value: FloatArray
    exhausted: FloatArray

    @classmethod
    def of_length(cls, n: int) -> Rounds:
        """Return room for ``n`` rounds."""
        return cls(np.zeros(n, dtype=np.int64), np.zeros(n), np.zeros(n))


@dataclass(frozen=True)
class ClockPass:
    """One pass: accepted events in order, V_t and exhausted mass by round, and event values averaged over rounds."""

    order: IntArray
    value: FloatArray
    exhausted: FloatArray
    event_values: FloatArray

    @property
    def n_rounds(self) -> int:
        """Number of rounds played."""
        return self.order.size


def run_clock_pass(policy: Any, log: Log, events: EventArrays, horizon: int, rng: np.random.Generator) -> ClockPass:
    """Run a copy of the policy for ``horizon`` rounds, or until no event can fire.

    ``events.uniforms`` are the thresholds.
    """
    policy = start_copy(policy, log, rng)
    horizon = min(horizon, len(log))
    meters, rounds = Meters.of_length(len(log)), Rounds.of_length(horizon)
    run = _run_compiled if isinstance(policy, CompiledPolicy) else _run_python
    n_rounds = run(policy, log, events, meters, rounds)
    event_values = meters.value_sum / max(n_rounds, 1)
    return ClockPass(rounds.order[:n_rounds], rounds.value[:n_rounds], rounds.exhausted[:n_rounds], event_values)


def _run_compiled(policy: CompiledPolicy, log: Log, events: EventArrays, meters: Meters, rounds: Rounds) -> int:
    view, state = view_of(log.columns.contexts), policy.state_for(log.columns.contexts)
    if is_divisible(state) and not isinstance(view, ActionFeatures):
        loop = _PASS_BY_ACTION[is_builtin(state)]
        return int(loop(state, view, events, policy.batch_size, is_greedy(state), meters, rounds))
    same_everywhere = is_context_free(state) and log.columns.available is None
    return int(_PASS[is_builtin(state)](state, view, events, policy.batch_size, same_everywhere, meters, rounds))


def _run_python(policy: Any, log: Log, events: EventArrays, meters: Meters, rounds: Rounds) -> int:
    """Run the pass with a Python policy, which scores all events once per update."""
    horizon = rounds.order.size
    learning = is_learning(policy)
    batch_size = batch_size_of(policy) if learning else horizon
    t = 0
    while t < horizon:
        if learning or t == 0:
            for start in range(0, len(log), SCORING_BLOCK):
                probabilities = probabilities_of(policy, log[start : start + SCORING_BLOCK])
                set_speeds_and_values(events, probabilities, start, meters)
        fired = play_rounds(t, batch_size, events, meters, rounds)
        if fired.size == 0:
            break
        t += fired.size
        if learning and fired.size == batch_size and t < horizon:
            update_on_events(policy, log[fired], meters.speed[fired] * log.columns.propensities[fired])
    return t


@inlined
def set_speed_and_value(events: EventArrays, target: FloatArray, k: int, meters: Meters) -> None:
    """Set speed ``w_k`` and value ``R_k`` of one event from its row of probabilities."""
    action, row = events.actions[k], k if events.predicted.shape[0] > 1 else 0
    predicted = events.predicted[row]
    weight = target[action] / events.propensities[k]
    meters.speed[k] = weight
    meters.value[k] = doubly_robust(expected_reward(target, predicted), weight, events.rewards[k], predicted[action])


@compiled
def set_speeds_and_values(events: EventArrays, probabilities: FloatArray, start: int, meters: Meters) -> None:
    """Set speeds and values of the events from ``start`` on, one row of probabilities each."""
    for i in range(probabilities.shape[0]):
        set_speed_and_value(events, probabilities[i], start + i, meters)


@compiled
def read_clock(meters: Meters, thresholds: FloatArray) -> tuple[float, float]:
    """Return V_t and the exhausted mass, and set the time until each unused event fires.

    ``V_t = sum i_k R_k / sum i_k`` over unused events with ``i_k = 1/(1 - W_k)``; the exhausted mass is
    ``mean w_k [W_k >= 1]``.
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
    """Return the next events to fire in order, at most ``most``; fewer if no other would ever fire."""
    if most == 1:
        first = 0
        for k in range(1, delay.size):
            if delay[k] < delay[first]:
                first = k
        candidates = np.array([first])
    else:
        last = np.partition(delay, most - 1)[most - 1] if most < delay.size else np.inf
        candidates = np.flatnonzero(delay <= last)
        candidates = candidates[np.argsort(delay[candidates], kind="mergesort")][:most]
    fired: IntArray = candidates[np.isfinite(delay[candidates])]
    return fired


@compiled
def move_clock(meters: Meters, fired: IntArray) -> None:
    """Advance all meters until the last of these events has fired, mark them used, and add up the values."""
    meter, speed, duration = meters.meter, meters.speed, meters.delay[fired[-1]]
    value, value_sum = meters.value, meters.value_sum
    for k in range(meter.size):
        meter[k] += speed[k] * duration
        value_sum[k] += fired.size * value[k]
    for k in fired:
        meters.used[k] = True


@compiled
def play_rounds(t: int, batch_size: int, events: EventArrays, meters: Meters, rounds: Rounds) -> IntArray:
    """Play the rounds of one update: the policy is the same in all of them, and so is V_t; return the fired events."""
    value, exhausted = read_clock(meters, events.uniforms)
    fired = next_to_fire(meters.delay, min(batch_size, rounds.order.size - t))
    if fired.size > 0:
        for i in range(fired.size):
            rounds.order[t + i] = fired[i]
            rounds.value[t + i] = value
            rounds.exhausted[t + i] = exhausted
        move_clock(meters, fired)
    return fired


# Functions that call kernels of the policy are compiled together with the loop that calls them.
@register_jitable  # type: ignore[untyped-decorator]  # numba has no types
def _learn_fired(state: Any, view: Any, events: Any, meters: Any, fired: Any) -> None:
    for k in fired:
        learn(state, view, k, events.actions[k], events.rewards[k], meters.speed[k] * events.propensities[k])


class ScoreCache(NamedTuple):
    """Scores of all actions at all events, so that only actions whose parameters changed are scored again.

    Invariant: where ``needs_rescoring[k]`` is False, speed and value of event k are those of the present policy. For a
    greedy choice, ``argmax[k]`` is the only action with the largest score ``top[k]`` (-1: ties, or not computed yet).
    """

    scores: FloatArray
    top: FloatArray
    argmax: IntArray
    needs_rescoring: Any


@compiled
def update_scores(cache: ScoreCache, action: int, new_scores: FloatArray, greedy: bool) -> None:
    """Store new scores of one action and mark the events where the choice may have changed.

    A greedy choice does not change if the best action's score grows, or if another's is still below the largest.
    """
    scores, top, argmax, needs_rescoring = cache.scores, cache.top, cache.argmax, cache.needs_rescoring
    for k in range(new_scores.size):
        old, new = scores[k, action], new_scores[k]
        scores[k, action] = new
        if greedy and argmax[k] == action and new >= old:
            top[k] = new
        elif not greedy or argmax[k] < 0 or argmax[k] == action or new >= top[k]:
            needs_rescoring[k] = True


@compiled
def find_best(cache: ScoreCache, k: int, available: Any) -> int:
    """Set the largest score at event ``k`` and return the only action that has it, or -1."""
    scores, largest, best = cache.scores, -np.inf, -1
    for a in range(scores.shape[1]):
        if available.size == 0 or available[k, a]:
            if scores[k, a] > largest:
                largest, best = scores[k, a], a
            elif scores[k, a] == largest:
                best = -1
    cache.top[k] = largest
    return best


@register_jitable  # type: ignore[untyped-decorator]  # numba has no types
def _rescore(state: Any, events: Any, cache: Any, greedy: bool, meters: Any) -> None:
    """Set speed and value of the marked events; afterwards the invariant of the cache holds for all events."""
    available, argmax, needs_rescoring = events.available, cache.argmax, cache.needs_rescoring
    target = np.empty(cache.scores.shape[1])
    for k in range(needs_rescoring.size):
        if not needs_rescoring[k]:
            continue
        needs_rescoring[k] = False
        best = find_best(cache, k, available)
        if greedy and best >= 0 and best == argmax[k]:
            continue
        argmax[k] = best
        target[:] = cache.scores[k]
        choose(state, available, k, target)
        set_speed_and_value(events, target, k, meters)


def _pass_by_action(state: Any, view: Any, events: Any, batch_size: int, greedy: bool, meters: Any, rounds: Any) -> int:
    n, n_actions = events.actions.size, events.predicted.shape[1]
    new_scores = np.empty(n)
    cache = ScoreCache(np.empty((n, n_actions)), np.full(n, -np.inf), np.full(n, -1), np.ones(n, dtype=np.bool_))
    changed = np.ones(n_actions, dtype=np.bool_)
    t = 0
    while t < rounds.order.size:
        # 1. speeds w_k and values R_k under pi_t
        for a in range(n_actions):
            if changed[a]:
                raw(state, view, a, new_scores)
                update_scores(cache, a, new_scores, greedy)
        _rescore(state, events, cache, greedy, meters)
        # 2. read V_t, let the next events fire, move the clock
        fired = play_rounds(t, batch_size, events, meters, rounds)
        if fired.size == 0:
            break
        t += fired.size
        # 3. learn a full batch
        changed[:] = False
        if fired.size == batch_size:
            _learn_fired(state, view, events, meters, fired)
            for k in fired:
                changed[events.actions[k]] = True
    return t


def _pass(state: Any, view: Any, events: Any, batch_size: int, same_everywhere: bool, meters: Any, rounds: Any) -> int:
    n = events.actions.size
    target = np.empty((n, events.predicted.shape[1]))
    t = 0
    while t < rounds.order.size:
        # 1. speeds w_k and values R_k under pi_t
        for k in range(1 if same_everywhere else n):
            score(state, view, k, events.available, target[k])
        if same_everywhere:
            for k in range(1, n):
                target[k] = target[0]
        set_speeds_and_values(events, target, 0, meters)
        # 2. read V_t, let the next events fire, move the clock
        fired = play_rounds(t, batch_size, events, meters, rounds)
        if fired.size == 0:
            break
        t += fired.size
        # 3. learn a full batch
        if fired.size == batch_size:
            _learn_fired(state, view, events, meters, fired)
    return t


# by whether the policy's kernels are of this package, whose compiled code can be cached on disk
_PASS_BY_ACTION = {True: compiled(_pass_by_action), False: uncached(_pass_by_action)}
_PASS = {True: compiled(_pass), False: uncached(_pass)}
