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

from backcast._arrays import BoolArray, FloatArray, IntArray
from backcast._engine.action_scores import (
    NEAR_TIE,
    NEAR_TIE_SINGLE,
    OVERTAKEN,
    ScoreTable,
    decide_near_tie,
    find_best,
    is_near_tie,
    update_scores,
)
from backcast._engine.filling import (
    COIN,
    DONOR,
    LATE_COIN,
    REWARD,
    Fill,
    add_refills,
    draw_donor,
    draw_fresh_reward,
    exhausted_speed,
)
from backcast._engine.meters import (
    Meters,
    change_all_events,
    change_event,
    exhausted_masses,
    next_to_fire,
    read_clock,
    record_compensators,
    set_speeds_and_values,
    speed_and_value,
    use_event,
)
from backcast._engine.readings import FurtherReading, ReadColumns, ReadingMeters, change_outcomes, read_further
from backcast._engine.replay_loop import ROUNDING, EventArrays
from backcast._kernels.contexts import DenseColumns, view_of, with_columns
from backcast._kernels.dispatch import (
    allows_rounding,
    choose,
    is_approximate,
    is_builtin,
    is_context_free,
    is_divisible,
    is_greedy,
    learn,
    lipschitz,
    raw,
    raw_row,
    score,
)
from backcast._kernels.jit import borrow, compiled, uncached
from backcast._parallel.stop import STOP_FLAG, raise_if_stopped
from backcast.log import Log
from backcast.policies._calls import BlockScorer, start_copy, update_policy
from backcast.policies.base import batch_size_of, is_learning
from backcast.policies.compiled import CompiledPolicy

NO_EDGES: IntArray = np.zeros(0, dtype=np.int64)
SCORING_BLOCK = 1 << 14  # events that a Python policy scores per call
FIRST_LONG_SPAN = 64  # rounds from which one reading of V_t may serve several of them: at most 1 in 32
SPAN_SHARE = 32
# A literal 0 has a type of its own in Numba, for which play_rounds would be compiled a second time: 6 seconds of
# processor time.
FIRST_ROUND: int = np.int64(0)  # type: ignore[assignment]  # to Python an integer as any other


class Rounds(NamedTuple):
    """Per round: the event, whether it filled the round, the reward, V_t, the exhausted mass, the variance of reading.

    A reading of V_t serves a span of rounds: one in round t serves those from ``first[t]`` to ``last[t]``, and there is
    none if ``last[t]`` is 0. ``compensator[j]`` and ``readings[j]`` hold the compensators and readings of all events at
    round ``edges[j]``. ``further`` is what is read besides the reward. A pass ends early once ``stop[0]`` is not 0.
    """

    order: IntArray
    filled: BoolArray
    reward: FloatArray
    value: FloatArray
    exhausted: FloatArray
    variance: FloatArray
    first: IntArray
    last: IntArray
    edges: IntArray
    compensator: Any
    readings: Any
    fill: Fill
    further: ReadingMeters
    stop: IntArray

    @classmethod
    def of_length(
        cls, horizon: int, n_events: int, edges: IntArray, fill: Fill, columns: ReadColumns | None = None
    ) -> Rounds:
        """Return room for the rounds of a pass."""
        order, first, last = (np.zeros(horizon, np.int64) for _ in range(3))
        reward, value, exhausted, variance = (np.zeros(horizon) for _ in range(4))
        compensator, readings = (np.zeros((edges.size, n_events), np.float32) for _ in range(2))
        rounds = order, np.zeros(horizon, np.bool_), reward, value, exhausted, variance
        further = ReadingMeters.of_length(horizon, n_events, columns or ReadColumns.nothing())
        return cls(*rounds, first, last, edges, compensator, readings, fill, further, STOP_FLAG)

    def plan_readings(self, batch_size: int, longest: int, rng: np.random.Generator) -> None:
        """Plan the rounds in which V_t is read: one random update in every span of at most ``longest`` rounds.

        Spans grow in proportion to the rounds played, because the policy changes most at the beginning. A random round
        of each keeps the mean over rounds unbiased.
        """
        horizon, t = self.order.size, 0
        while t < horizon:
            length = min(longest, t // SPAN_SHARE) if t >= FIRST_LONG_SPAN else 1
            n_updates = max(1, length // batch_size)
            end = min(t + n_updates * batch_size, horizon)
            n_updates = -(-(end - t) // batch_size)
            read = t + batch_size * (int(rng.integers(n_updates)) if n_updates > 1 else 0)
            self.first[read], self.last[read] = t, end
            t = end


@dataclass(frozen=True)
class ClockPass:
    """One pass: per round the event, whether it filled the round, the reward that was learned, V_t and its variance.

    ``exhausted`` is the exhausted mass of each round.

    Per event: the value R_k averaged over rounds, and what standard errors need (see :class:`Meters`), per round.
    ``further`` has the same for each outcome and segment that was read.
    """

    order: IntArray
    filled: BoolArray
    reward: FloatArray
    value: FloatArray
    exhausted: FloatArray
    variance: FloatArray
    event_values: FloatArray
    reading: FloatArray
    own: FloatArray
    compensator: Any
    readings: Any
    further: tuple[FurtherReading, ...] = ()

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
    reading_interval: int = 1,
    fill: Fill | None = None,
    columns: ReadColumns | None = None,
) -> ClockPass:
    """Run a copy of the policy for ``horizon`` rounds, or until no event can fire.

    ``events.uniforms`` are the thresholds; ``edges`` are rounds at which compensators are recorded. A policy that is
    scored action by action may be read once in ``reading_interval`` rounds; others are read after every update. With
    ``fill``, rounds for which the log has no event left are filled; the pass ends early only if no event of the log
    has an action that the policy would choose there. ``columns`` are read besides the reward.
    """
    policy = start_copy(policy, log, rng)
    fill = fill or Fill.off()
    horizon = len(fill.draws) or min(horizon, len(log))
    meters, rounds = Meters.of_length(len(log)), Rounds.of_length(horizon, len(log), edges, fill, columns)
    if fill.held_out.size:
        meters.use_at_start(np.flatnonzero(fill.held_out))  # they never fire, and have no compensator
        events = events._replace(uniforms=np.where(fill.held_out, 0.0, events.uniforms))
    run = _run_compiled if isinstance(policy, CompiledPolicy) else _run_python
    n = run(policy, log, events, meters, rounds, reading_interval, rng)
    raise_if_stopped()
    meters.value_sum[:] += meters.value * (n - meters.value_round)
    event_values = meters.value_sum / max(n, 1)
    return ClockPass(
        order=rounds.order[:n],
        filled=rounds.filled[:n],
        reward=rounds.reward[:n],
        value=rounds.value[:n],
        exhausted=rounds.exhausted[:n],
        variance=rounds.variance[:n],
        event_values=event_values,
        reading=meters.reading / max(n, 1),
        own=meters.own / max(n, 1),
        compensator=rounds.compensator,
        readings=rounds.readings / np.float32(max(n, 1)),
        further=rounds.further.finish(n, event_values),
    )


def _run_compiled(
    policy: CompiledPolicy,
    log: Log,
    events: EventArrays,
    meters: Meters,
    rounds: Rounds,
    reading_interval: int,
    rng: np.random.Generator,
) -> int:
    contexts = log.columns.contexts
    is_fresh = not policy.may_have_learned
    view, state = view_of(contexts), policy.state_for(contexts)
    if is_divisible(state):
        view = with_columns(view, single=allows_rounding(state))
        state = policy.state_for_pass(contexts, view)
        rounds.plan_readings(policy.batch_size, reading_interval, rng.spawn(1)[0])
        dtype, rounding = (view.columns.dtype, view.rounding) if isinstance(view, DenseColumns) else (np.float64, 0.0)
        margin = 0.0
        if is_approximate(state):
            margin = NEAR_TIE if dtype == np.float64 else NEAR_TIE_SINGLE
        table = ScoreTable.of_size(log.n_actions, len(log), dtype, margin, are_alike=is_fresh or margin == 0.0)
        numbers = policy.batch_size, is_greedy(state), log.has_action_features, rounding
        return int(_PASS_BY_ACTION[is_builtin(state)](state, view, events, *numbers, table, meters, rounds))
    rounds.plan_readings(policy.batch_size, 1, rng)
    same_everywhere = is_context_free(state) and log.columns.available is None
    return int(_PASS[is_builtin(state)](state, view, events, policy.batch_size, same_everywhere, meters, rounds))


def _run_python(
    policy: Any,
    log: Log,
    events: EventArrays,
    meters: Meters,
    rounds: Rounds,
    reading_interval: int,
    rng: np.random.Generator,
) -> int:
    """Run the pass with a Python policy, which scores all events once per update."""
    horizon = rounds.order.size
    learning = is_learning(policy)
    batch_size = batch_size_of(policy) if learning else horizon
    rounds.plan_readings(batch_size, 1, rng)
    scorer = BlockScorer(policy, log)
    t, tau = 0, 0.0
    while t < horizon and rounds.stop[0] == 0:
        if learning or t == 0:
            for start in range(0, len(log), SCORING_BLOCK):
                probabilities = scorer(start, min(start + SCORING_BLOCK, len(log)))
                set_speeds_and_values(events, probabilities, start, meters)
                if rounds.further.changed.size:
                    changed = np.arange(start, start + len(probabilities))
                    change_outcomes(events, changed, probabilities, t, rounds.further)
            change_all_events(t, tau, events.uniforms, meters)
        fired, tau = play_rounds(t, tau, batch_size, events, meters, rounds)
        if fired.size == 0:
            break
        t += fired.size
        if learning and fired.size == batch_size and t < horizon:
            chosen = meters.speed[fired] * log.columns.propensities[fired]
            batch = scorer.training_batch(fired, chosen)
            update_policy(policy, batch._replace(rewards=rounds.reward[t - fired.size : t].copy()))
    return t


@compiled
def play_rounds(
    t: int, tau: float, batch_size: int, events: EventArrays, meters: Meters, rounds: Rounds
) -> tuple[IntArray, float]:
    """Play the rounds of one update from clock time tau; return the fired events and the time of the last of them.

    The policy is the same in all of them, and so is V_t; what is exhausted grows with every event that fires.
    """
    if rounds.last[t] > 0:
        _read_value(tau, rounds.first[t], rounds.last[t], meters, rounds)
    if rounds.fill.draws.shape[0] > 0:
        return _play_filled_rounds(t, tau, batch_size, events, meters, rounds)
    fired = next_to_fire(meters.fires, min(batch_size, rounds.order.size - t))
    if fired.size == 0:
        return fired, tau
    end = t + fired.size
    times = np.empty(fired.size)  # at which the rounds begin
    times[0] = tau
    for i in range(fired.size):
        k = fired[i]
        tau = max(tau, meters.fires[k])  # rounding may put it before the present time
        if i + 1 < fired.size:
            times[i + 1] = tau
        use_event(k, tau, events.uniforms, meters)
        rounds.order[t + i], rounds.reward[t + i] = k, events.learned[k]
    masses = exhausted_masses(times, rounds.order[:end], meters)
    # a loop, here and elsewhere: the first assignment of an array to a slice takes Numba 4 seconds to compile, for the
    # message of arrays that do not fit
    for i in range(fired.size):
        rounds.exhausted[t + i] = masses[i]
    _record_edges(t, end, tau, events.uniforms, meters, rounds)
    return fired, tau


@compiled
def _read_value(tau: float, first: int, last: int, meters: Meters, rounds: Rounds) -> None:
    """Read V_t at clock time tau for the rounds from ``first`` to ``last``."""
    value, variance = read_clock(tau, last - first, rounds.fill.held_out, meters)
    if np.isnan(value) and rounds.fill.draws.shape[0] > 0 and first > 0:
        # no event is unused any more; in a horizon that gets here events are held out (ClockReplay)
        value, variance = rounds.value[first - 1], rounds.variance[first - 1]
    rounds.value[first:last], rounds.variance[first:last] = value, variance
    read_further(first, last, meters.share, meters.log_unused, meters.value, rounds.further)


@compiled
def _record_edges(t: int, end: int, tau: float, thresholds: FloatArray, meters: Meters, rounds: Rounds) -> None:
    """Record compensators and readings if one of the edges is in these rounds."""
    for j in range(rounds.edges.size):
        if t < rounds.edges[j] <= end:
            record_compensators(tau, thresholds, meters, rounds.compensator[j])
            for k in range(meters.reading.size):
                rounds.readings[j, k] = meters.reading[k]


@compiled
def _play_filled_rounds(
    t: int, tau: float, batch_size: int, events: EventArrays, meters: Meters, rounds: Rounds
) -> tuple[IntArray, float]:
    """Play the rounds of one update as ``play_rounds`` does; rounds without an event of their own are filled."""
    n, fill = events.actions.size, rounds.fill
    most = min(batch_size, rounds.order.size - t)
    candidates, position = next_to_fire(meters.fires, most), 0
    for i in range(t, t + most):
        draws = fill.draws[i]
        speed, following = exhausted_speed(-np.inf, tau, meters)
        if speed == 0.0 and position == candidates.size:
            # no unused event can fire and none is exhausted yet: the clock runs until the first one is
            if following == np.inf:
                most = i - t
                break
            tau = following * (1.0 + ROUNDING)  # events with equal meters are exhausted together
            speed, following = exhausted_speed(-np.inf, tau, meters)
        mass = speed / n
        rounds.exhausted[i] = mass
        if mass > 0.0:
            add_refills(tau, meters)
        if draws[COIN] < mass or position == candidates.size:
            k, is_filled = draw_donor(-np.inf, tau, draws[DONOR], meters), True
        else:
            k, is_filled = candidates[position], False
            position += 1
            before, tau = tau, max(tau, meters.fires[k])  # rounding may put it before the present time
            use_event(k, tau, events.uniforms, meters)
            if following <= tau:
                # an event that fires at this time does not stand for what was exhausted since the round began
                speed, _ = exhausted_speed(before, tau, meters)
                if draws[LATE_COIN] * (1.0 - mass) < speed / n:
                    k, is_filled = draw_donor(before, tau, draws[DONOR], meters), True
        rounds.order[i], rounds.filled[i], rounds.reward[i] = k, is_filled, events.learned[k]
        if is_filled:
            rounds.reward[i] = draw_fresh_reward(fill, k, draws[REWARD])
    _record_edges(t, t + most, tau, events.uniforms, meters, rounds)
    return rounds.order[t : t + most], tau


# Functions that call kernels of the policy are compiled together with the loop that calls them.
@register_jitable  # type: ignore[untyped-decorator]  # numba has no types
def _learn_fired(state: Any, view: Any, events: Any, meters: Any, fired: Any, rewards: Any) -> None:
    for i in range(fired.size):
        k = fired[i]
        learn(state, view, k, events.actions[k], rewards[i], meters.speed[k] * events.propensities[k])


@register_jitable  # type: ignore[untyped-decorator]  # numba has no types
def _rescore(state: Any, events: Any, table: Any, t: int, meters: Any, further: Any) -> None:
    """Set next speeds and values of all events from their scores."""
    target = np.empty(table.scores.shape[0])
    for k in range(table.stale.size):
        for a in range(target.size):
            target[a] = table.scores[a, k]
        choose(state, events.available, k, target)
        meters.next_speed[k], meters.next_value[k] = speed_and_value(events, target, k)
        if further.changed.size > 0:
            further.changed[k] = k
            for a in range(target.size):
                further.targets[k, a] = target[a]
    change_outcomes(events, further.changed, further.targets, t, further)


@register_jitable  # type: ignore[untyped-decorator]  # numba has no types
def _rescore_stale(
    state: Any, view: Any, events: Any, table: Any, t: int, tau: float, meters: Any, further: Any
) -> None:
    """Change the stale events that have another best action now; afterwards no event is stale."""
    n_changed = 0
    target, choices = np.empty(table.scores.shape[0]), table.choices
    # the choice depends only on which score is the largest, and on which actions are available
    for a in range(target.size):
        for b in range(target.size):
            choices[a, b] = 1.0 if a == b else 0.0
        if events.available.size == 0:
            choose(state, events.available, 0, choices[a])
    for k in range(table.stale.size):
        reason = table.stale[k]
        if reason == 0:
            continue
        table.stale[k] = 0
        best, is_exact = table.best[k], False
        if reason != OVERTAKEN:
            best = find_best(table, k)
            if is_near_tie(table, k):
                raw_row(state, view, k, target)
                best, is_exact = decide_near_tie(table, k, target), True
            # one that was overtaken in this update is not the former best action
            if best >= 0 and best == table.best[k] and reason < OVERTAKEN:
                continue
            table.best[k] = best
        if best >= 0:
            for a in range(target.size):
                target[a] = choices[best, a]
        elif not is_exact:
            for a in range(target.size):
                target[a] = table.scores[a, k]
        if best < 0 or events.available.size > 0:
            choose(state, events.available, k, target)
        speed, value = speed_and_value(events, target, k)
        if speed != meters.speed[k] or value != meters.value[k]:
            change_event(speed, value, k, t, tau, events.uniforms, meters)
        if further.changed.size > 0:
            further.changed[n_changed] = k
            for a in range(target.size):
                further.targets[n_changed, a] = target[a]
            n_changed += 1
    if n_changed > 0:
        change_outcomes(events, further.changed[:n_changed], further.targets[:n_changed], t, further)


def _pass_by_action(
    state: Any,
    view: Any,
    events: Any,
    batch_size: int,
    greedy: bool,
    is_shared: bool,
    rounding: float,
    table: Any,
    meters: Any,
    rounds: Any,
) -> int:
    # without this, counting references took 150 of 520 nanoseconds per event and round of LinearThompson (K = 10)
    state, view, events, table, meters, rounds = borrow((state, view, events, table, meters, rounds))
    n_actions, margin = table.alike.size, table.margins[1]
    changed = np.ones(n_actions, dtype=np.bool_)
    t, tau = FIRST_ROUND, 0.0
    while t < rounds.order.size and rounds.stop[0] == 0:
        # 1. speeds w_k and values R_k under pi_t
        for a in range(n_actions):
            if changed[a]:
                raw(state, view, a, table.scores[a])
        if rounding > 0.0:
            # both of two scores change by at most this much if features are rounded
            table.margins[0] = margin + 2.0 * rounding * lipschitz(state)
        if greedy:
            for a in range(n_actions):
                if changed[a]:
                    update_scores(table, a, events.available)
            _rescore_stale(state, view, events, table, t, tau, meters, rounds.further)
        else:
            _rescore(state, events, table, t, meters, rounds.further)
            change_all_events(t, tau, events.uniforms, meters)
        # 2. read V_t, let the next events fire
        fired, tau = play_rounds(t, tau, batch_size, events, meters, rounds)
        if fired.size == 0:
            break
        t += fired.size
        # 3. learn a full batch
        changed[:] = False
        if fired.size == batch_size:
            _learn_fired(state, view, events, meters, fired, rounds.reward[t - fired.size : t])
            for k in fired:
                changed[events.actions[k]] = True
            if is_shared:
                changed[:] = True
            for a in range(n_actions):
                table.alike[a] &= not changed[a] or margin == 0.0
    return t


def _pass(state: Any, view: Any, events: Any, batch_size: int, same_everywhere: bool, meters: Any, rounds: Any) -> int:
    state, view, events, meters, rounds = borrow((state, view, events, meters, rounds))
    n = events.actions.size
    target = np.empty((n, events.predicted.shape[1]))
    t, tau = FIRST_ROUND, 0.0
    while t < rounds.order.size and rounds.stop[0] == 0:
        # 1. speeds w_k and values R_k under pi_t
        for k in range(1 if same_everywhere else n):
            score(state, view, k, events.available, target[k])
        if same_everywhere:
            for k in range(1, n):
                for a in range(target.shape[1]):
                    target[k, a] = target[0, a]
        set_speeds_and_values(events, target, 0, meters)
        if rounds.further.changed.size > 0:
            change_outcomes(events, np.arange(n), target, t, rounds.further)
        change_all_events(t, tau, events.uniforms, meters)
        # 2. read V_t, let the next events fire
        fired, tau = play_rounds(t, tau, batch_size, events, meters, rounds)
        if fired.size == 0:
            break
        t += fired.size
        # 3. learn a full batch
        if fired.size == batch_size:
            _learn_fired(state, view, events, meters, fired, rounds.reward[t - fired.size : t])
    return t


# by whether the policy's kernels are of this package, whose compiled code can be cached on disk
_PASS_BY_ACTION = {True: compiled(_pass_by_action), False: uncached(_pass_by_action)}
_PASS = {True: compiled(_pass), False: uncached(_pass)}
