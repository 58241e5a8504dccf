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
from backcast._kernels.contexts import view_of
from backcast._kernels.dispatch import choose, is_builtin, is_context_free, is_divisible, is_greedy, learn, raw, score
from backcast._kernels.jit import compiled, inlined, uncached
from backcast._parallel.stop import STOP_FLAG, raise_if_stopped
from backcast.log import Log
from backcast.policies._calls import probabilities_of, start_copy, update_on_events
from backcast.policies.base import batch_size_of, is_learning
from backcast.policies.compiled import CompiledPolicy

NO_EDGES: IntArray = np.zeros(0, dtype=np.int64)
SCORING_BLOCK = 1 << 14  # events that a Python policy scores per call


class Meters(NamedTuple):
    """Per event: meter W_k, speed w_k, value R_k and its sum over rounds, time until it fires, whether it is used.

    The other columns are for standard errors (docs/theory.md, section 5): ``share`` is ``i_k = 1/(1 - W_k)`` while
    unused, else 0; with ``o_k = i_k (R_k - V_t) / sum i``, ``reading`` is the sum of ``o_k`` over rounds, ``hazard``
    the compensator of the event's acceptance, and ``own`` the sum of ``-o_k hazard_k``.
    """

    meter: FloatArray
    speed: FloatArray
    value: FloatArray
    value_sum: FloatArray
    delay: FloatArray
    used: Any
    share: FloatArray
    reading: FloatArray
    hazard: FloatArray
    own: FloatArray

    @classmethod
    def of_length(cls, n: int) -> Meters:
        """Return meters at zero."""
        columns: dict[str, Any] = {name: np.zeros(n) for name in cls._fields}
        return cls(**{**columns, "used": np.zeros(n, dtype=np.bool_)})


class Rounds(NamedTuple):
    """Per round: the event accepted, the value V_t, the exhausted mass, the variance of reading V_t.

    ``compensator[j]`` holds the compensators of all events at round ``edges[j]``. A pass ends early once ``stop[0]`` is
    not 0.
    """

    order: IntArray
    value: FloatArray
    exhausted: FloatArray
    variance: FloatArray
    edges: IntArray
    compensator: Any
    stop: IntArray

    @classmethod
    def of_length(cls, horizon: int, n_events: int, edges: IntArray) -> Rounds:
        """Return room for the rounds of a pass."""
        compensator = np.zeros((edges.size, n_events), np.float32)
        order = np.zeros(horizon, np.int64)
        return cls(order, np.zeros(horizon), np.zeros(horizon), np.zeros(horizon), edges, compensator, STOP_FLAG)


@dataclass(frozen=True)
class ClockPass:
    """One pass: per round the accepted event, V_t, the exhausted mass, the variance of reading V_t.

    Per event: the value R_k averaged over rounds, and what standard errors need (see :class:`Meters`), per round.
    """

    order: IntArray
    value: FloatArray
    exhausted: FloatArray
    variance: FloatArray
    event_values: FloatArray
    reading: FloatArray
    own: FloatArray
    compensator: Any

    @property
    def n_rounds(self) -> int:
        """Number of rounds played."""
        return self.order.size


def run_clock_pass(
    policy: Any,
    log: Log,
    events: EventArrays,
    horizon: int,
    rng: np.random.Generator,
    edges: IntArray = NO_EDGES,
) -> ClockPass:
    """Run a copy of the policy for ``horizon`` rounds, or until no event can fire.

    ``events.uniforms`` are the thresholds; ``edges`` are rounds at which compensators are recorded.
    """
    policy = start_copy(policy, log, rng)
    horizon = min(horizon, len(log))
    meters, rounds = Meters.of_length(len(log)), Rounds.of_length(horizon, len(log), edges)
    run = _run_compiled if isinstance(policy, CompiledPolicy) else _run_python
    n = run(policy, log, events, meters, rounds)
    raise_if_stopped()
    return ClockPass(
        order=rounds.order[:n],
        value=rounds.value[:n],
        exhausted=rounds.exhausted[:n],
        variance=rounds.variance[:n],
        event_values=meters.value_sum / max(n, 1),
        reading=meters.reading / max(n, 1),
        own=meters.own / max(n, 1),
        compensator=rounds.compensator,
    )


def _run_compiled(policy: CompiledPolicy, log: Log, events: EventArrays, meters: Meters, rounds: Rounds) -> int:
    view, state = view_of(log.columns.contexts), policy.state_for(log.columns.contexts)
    if is_divisible(state) and not log.has_action_features:
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
    while t < horizon and rounds.stop[0] == 0:
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


class Reading(NamedTuple):
    """V_t, the exhausted mass, and the sums of ``i_k`` and ``i_k w_k`` over unused events."""

    value: float
    exhausted: float
    weight: float
    hazard: float


@compiled
def read_clock(meters: Meters, thresholds: FloatArray) -> Reading:
    """Read V_t and the exhausted mass, and set the time until each unused event fires.

    ``V_t = sum i_k R_k / sum i_k`` over unused events with ``i_k = 1/(1 - W_k)``; the exhausted mass is
    ``mean w_k [W_k >= 1]``.
    """
    meter, speed, value, delay, used = meters.meter, meters.speed, meters.value, meters.delay, meters.used
    total = weight = exhausted = hazard = 0.0
    for k in range(meter.size):
        if used[k]:
            meters.share[k] = 0.0
            delay[k] = np.inf
            if meter[k] >= 1.0:
                exhausted += speed[k]
            continue
        share = 1.0 / (1.0 - meter[k])
        meters.share[k] = share
        weight += share
        hazard += share * speed[k]
        total += share * value[k]
        delay[k] = (thresholds[k] - meter[k]) / speed[k] if speed[k] > 0.0 else np.inf
    if weight == 0.0:
        return Reading(np.nan, 1.0, 0.0, 0.0)
    return Reading(total / weight, exhausted / meter.size, weight, hazard)


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
def move_clock(meters: Meters, reading: Reading, fired: IntArray, thresholds: FloatArray) -> float:
    """Advance all meters until the last of these events has fired, mark them used, and add up what is recorded.

    Returns the variance ``sum_k o_k^2`` of reading V_t.
    """
    meter, speed, duration, n_rounds = meters.meter, meters.speed, meters.delay[fired[-1]], fired.size
    value, value_sum, share, hazard = meters.value, meters.value_sum, meters.share, meters.hazard
    variance = 0.0
    for k in range(meter.size):
        value_sum[k] += n_rounds * value[k]
        moved = meter[k] + speed[k] * duration
        if share[k] > 0.0:
            influence = share[k] / reading.weight * (value[k] - reading.value)
            variance += influence * influence
            meters.reading[k] += n_rounds * influence
            meters.own[k] -= n_rounds * influence * hazard[k]
            if n_rounds == 1:
                hazard[k] += share[k] * speed[k] / reading.hazard  # the probability that it is the next to fire
            else:
                # the integral of w/(1 - W) until the event fires, or the clock stops
                hazard[k] += np.log((1.0 - meter[k]) / (1.0 - min(moved, thresholds[k])))
        meter[k] = moved
    for k in fired:
        meters.used[k] = True
    return variance


@compiled
def exhausted_within(meters: Meters, durations: FloatArray) -> FloatArray:
    """Return the mass ``mean w_k [W_k < 1 <= W_k + w_k d_i]`` that is exhausted by each of the ascending durations.

    >>> meters = Meters.of_length(2)._replace(meter=np.array([0.0, 0.5]), speed=np.array([2.0, 1.0]))
    >>> exhausted_within(meters, np.array([0.25, 0.5, 0.75]))
    array([0. , 1.5, 1.5])
    """
    meter, speed = meters.meter, meters.speed
    mass = np.zeros(durations.size)
    for k in range(meter.size):
        if meter[k] < 1.0 and meter[k] + speed[k] * durations[-1] >= 1.0:
            first = np.searchsorted(durations, (1.0 - meter[k]) / speed[k])
            mass[min(first, durations.size - 1)] += speed[k]
    return np.cumsum(mass) / meter.size


@compiled
def play_rounds(t: int, batch_size: int, events: EventArrays, meters: Meters, rounds: Rounds) -> IntArray:
    """Play the rounds of one update and return the fired events.

    The policy is the same in all of them, and so is V_t; what is exhausted grows with every event that fires.
    """
    reading = read_clock(meters, events.uniforms)
    fired = next_to_fire(meters.delay, min(batch_size, rounds.order.size - t))
    if fired.size > 0:
        end = t + fired.size
        rounds.order[t:end] = fired
        rounds.value[t:end] = reading.value
        rounds.exhausted[t:end] = reading.exhausted
        if fired.size > 1:
            rounds.exhausted[t + 1 : end] += exhausted_within(meters, meters.delay[fired[:-1]])
        rounds.variance[t:end] = move_clock(meters, reading, fired, events.uniforms)
        for j in range(rounds.edges.size):
            if t < rounds.edges[j] <= end:
                rounds.compensator[j, :] = meters.hazard
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
    while t < rounds.order.size and rounds.stop[0] == 0:
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
    while t < rounds.order.size and rounds.stop[0] == 0:
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
