"""Meters of clock replay: how far each event is from its threshold, what is read from all of them, and who fires next.

A meter is a straight line in clock time until its speed changes, so it is stored as of its last change, with the time
at which it will fire. A round then costs a comparison per event, and more only where the policy changed its choice.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from backcast._arrays import BoolArray, FloatArray, IntArray
from backcast._engine.equations import doubly_robust, expected_reward
from backcast._engine.replay_loop import EventArrays
from backcast._kernels.jit import compiled, inlined
from backcast._kernels.logarithm import write_logarithms


class Meters(NamedTuple):
    """Per event: meter ``W_k`` at clock time ``since``, speed ``w_k``, value ``R_k``, and whether it is used.

    ``W_k`` at clock time ``tau`` is ``meter + speed (tau - since)``. ``fires`` is the time at which it reaches the
    threshold of an unused event (inf: never), ``exhausts`` the time at which it reaches 1 after that. ``value_sum`` is
    the sum of ``R_k`` over the rounds before ``value_round``.

    ``used_rows[:n_used[0]]`` are the used events in the order in which they were used: only they can be exhausted, and
    as long as they are few, looking through them alone is faster.

    ``reading`` and ``own`` are for standard errors (docs/theory.md, section 5): with the weights ``i_k`` of a reading
    (:func:`read_clock`), ``o_k = i_k (R_k - V_t) / sum i`` and the compensator ``-log(1 - W_k)`` of the event's
    acceptance, they are the sums over rounds of ``o_k`` and of ``o_k log(1 - W_k)``; ``refills`` is the compensator of
    being drawn again in filled rounds. ``share``, ``log_unused`` and ``influence`` are scratch for ``i_k``, for
    ``log(1 - W_k)`` and other logarithms, and for ``i_k (R_k - V_t)`` or ``1 - W_k``, ``next_speed`` and ``next_value``
    for a change of all events.
    """

    meter: FloatArray
    since: FloatArray
    speed: FloatArray
    fires: FloatArray
    exhausts: FloatArray
    used: Any
    used_rows: IntArray
    n_used: IntArray
    value: FloatArray
    value_sum: FloatArray
    value_round: IntArray
    next_speed: FloatArray
    next_value: FloatArray
    share: FloatArray
    log_unused: FloatArray
    influence: FloatArray
    reading: FloatArray
    own: FloatArray
    refills: FloatArray

    @classmethod
    def of_length(cls, n: int) -> Meters:
        """Return meters at zero that do not move."""
        columns: dict[str, Any] = {name: np.zeros(n) for name in cls._fields}
        columns |= {"fires": np.full(n, np.inf), "exhausts": np.full(n, np.inf)}
        integers = {"used_rows": n, "n_used": 1, "value_round": n}
        columns |= {name: np.zeros(size, dtype=np.int64) for name, size in integers.items()}
        return cls(**{**columns, "used": np.zeros(n, dtype=np.bool_)})

    def use_at_start(self, rows: IntArray) -> None:
        """Take events out of the unused ones before the first round."""
        self.used[rows] = True
        self.used_rows[: rows.size], self.n_used[0] = rows, rows.size


@inlined
def speed_and_value(events: EventArrays, target: FloatArray, k: int) -> tuple[float, float]:
    """Return speed ``w_k`` and value ``R_k`` of one event under its row of probabilities."""
    action, row = events.actions[k], k if events.predicted.shape[0] > 1 else 0
    predicted = events.predicted[row]
    speed = target[action] / events.propensities[k]
    return speed, doubly_robust(expected_reward(target, predicted), speed, events.rewards[k], predicted[action])


@inlined
def change_event(
    speed: float, value: float, k: int, t: int, tau: float, thresholds: FloatArray, meters: Meters
) -> None:
    """Change speed and value of one event from round t and clock time tau on."""
    meters.value_sum[k] += meters.value[k] * (t - meters.value_round[k])
    meters.value[k], meters.value_round[k] = value, t
    meter = meters.meter[k] + meters.speed[k] * (tau - meters.since[k])
    meters.meter[k], meters.since[k], meters.speed[k] = meter, tau, speed
    # division by a speed of 0 gives inf, which is right
    meters.fires[k] = np.inf if meters.used[k] else tau + (thresholds[k] - meter) / speed
    meters.exhausts[k] = tau + (1.0 - meter) / speed if meters.used[k] and meter < 1.0 else meters.exhausts[k]


@inlined
def use_event(k: int, tau: float, thresholds: FloatArray, meters: Meters) -> None:
    """Take an event out of the unused ones at clock time tau, when its meter is at its threshold."""
    meters.meter[k], meters.since[k] = thresholds[k], tau
    meters.exhausts[k] = tau + (1.0 - thresholds[k]) / meters.speed[k]
    meters.fires[k], meters.used[k] = np.inf, True
    meters.used_rows[meters.n_used[0]] = k
    meters.n_used[0] += 1


@compiled
def change_all_events(t: int, tau: float, thresholds: FloatArray, meters: Meters) -> None:
    """Change all events to ``next_speed`` and ``next_value`` from round t and clock time tau on."""
    for k in range(thresholds.size):
        change_event(meters.next_speed[k], meters.next_value[k], k, t, tau, thresholds, meters)


@compiled
def set_speeds_and_values(events: EventArrays, probabilities: FloatArray, start: int, meters: Meters) -> None:
    """Set next speeds and values of the events from ``start`` on, one row of probabilities each."""
    for i in range(probabilities.shape[0]):
        k = start + i
        meters.next_speed[k], meters.next_value[k] = speed_and_value(events, probabilities[i], k)


@compiled
def read_clock(tau: float, n_rounds: int, held_out: BoolArray, meters: Meters) -> tuple[float, float]:
    """Read V_t at clock time tau for ``n_rounds`` rounds; return it and the variance ``sum_k o_k^2`` of the reading.

    ``V_t = sum i_k R_k / sum i_k`` over the events that the history has not used, with ``i_k = 1/(1 - W_k)``. If ``m``
    of ``n`` events are held out from the history, they are read as well, and ``i_k = 1/((1 - W_k)_+ + m/(n - m))`` for
    all: among the events that are read, the density of contexts, actions and rewards is that of the log over ``i_k``,
    also where meters have passed 1 and only held-out events are left (docs/theory.md, section 4).
    """
    meter, since, speed, used, share = meters.meter, meters.since, meters.speed, meters.used, meters.share
    value, reading, own = meters.value, meters.reading, meters.own
    influence, log_unused = meters.influence, meters.log_unused
    if held_out.size == 0:
        for k in range(meter.size):
            unused = 1.0 - (meter[k] + speed[k] * (tau - since[k]))
            share[k] = 0.0 if used[k] else 1.0 / unused
            influence[k] = 1.0 if used[k] else unused
    else:
        n_held_out = held_out.sum()
        ratio = n_held_out / (held_out.size - n_held_out)
        for k in range(meter.size):
            unused = 1.0 - (meter[k] + speed[k] * (tau - since[k]))
            share[k] = 1.0 / (max(unused, 0.0) + ratio) if held_out[k] or not used[k] else 0.0
            influence[k] = 1.0 if used[k] else unused  # held-out events are marked as used, and have no compensator
    weight = sum_of_numbers(share)
    if weight == 0.0:
        return np.nan, np.nan
    mean = sum_of_products(share, value) / weight
    write_logarithms(influence, log_unused)
    per_round = n_rounds / weight
    for k in range(meter.size):
        influence[k] = share[k] * (value[k] - mean)
        reading[k] += per_round * influence[k]
        own[k] += per_round * influence[k] * log_unused[k]
    return mean, sum_of_products(influence, influence) / (weight * weight)


# Four sums, which a processor overlaps: 0.3 instead of 1.3 nanoseconds per number. Their order does not depend on the
# width of its registers.


@compiled
def sum_of_numbers(a: FloatArray) -> float:
    """Return ``sum_k a_k``.

    >>> sum_of_numbers(np.arange(6.0))
    15.0
    """
    first = second = third = fourth = 0.0
    whole = a.size - a.size % 4
    for k in range(0, whole, 4):
        first += a[k]
        second += a[k + 1]
        third += a[k + 2]
        fourth += a[k + 3]
    for k in range(whole, a.size):
        first += a[k]
    return (first + second) + (third + fourth)


@compiled
def sum_of_products(a: FloatArray, b: FloatArray) -> float:
    """Return ``sum_k a_k b_k``.

    >>> sum_of_products(np.arange(6.0), np.full(6, 2.0))
    30.0
    """
    first = second = third = fourth = 0.0
    whole = a.size - a.size % 4
    for k in range(0, whole, 4):
        first += a[k] * b[k]
        second += a[k + 1] * b[k + 1]
        third += a[k + 2] * b[k + 2]
        fourth += a[k + 3] * b[k + 3]
    for k in range(whole, a.size):
        first += a[k] * b[k]
    return (first + second) + (third + fourth)


@compiled
def smallest_of_rank(values: FloatArray, rank: int) -> float:
    """Return the value at position ``rank`` in ascending order, nan counted as inf (selection of Hoare 1961).

    ``np.partition`` does the same; compiling Numba's version takes 4 seconds of processor time.

    >>> smallest_of_rank(np.array([3.0, 1.0, 2.0, 1.0]), 2)
    2.0
    """
    remaining = np.empty(values.size)
    for k in range(values.size):
        remaining[k] = np.inf if np.isnan(values[k]) else values[k]
    first, last = 0, values.size - 1
    while first < last:
        pivot = remaining[(first + last) // 2]
        low, high = first, last
        while low <= high:
            while remaining[low] < pivot:
                low += 1
            while remaining[high] > pivot:
                high -= 1
            if low <= high:
                remaining[low], remaining[high] = remaining[high], remaining[low]
                low += 1
                high -= 1
        # none up to ``high`` is larger than the pivot, none from ``low`` on is smaller, one between is equal to it
        if rank <= high:
            last = high
        elif rank >= low:
            first = low
        else:
            break
    return float(remaining[rank])


@compiled
def next_to_fire(fires: FloatArray, most: int) -> IntArray:
    """Return the next events to fire in order, at most ``most``; fewer if no other would ever fire."""
    if most == 1:
        # four chains of comparisons, which a processor overlaps
        lanes = np.zeros(4, dtype=np.int64)
        whole = fires.size - fires.size % 4
        a, b, c, d = np.inf, np.inf, np.inf, np.inf
        for k in range(0, whole, 4):
            if fires[k] < a:
                a, lanes[0] = fires[k], k
            if fires[k + 1] < b:
                b, lanes[1] = fires[k + 1], k + 1
            if fires[k + 2] < c:
                c, lanes[2] = fires[k + 2], k + 2
            if fires[k + 3] < d:
                d, lanes[3] = fires[k + 3], k + 3
        first = lanes[0]
        for k in lanes[1:]:
            if fires[k] < fires[first] or (fires[k] == fires[first] and k < first):
                first = k
        for k in range(whole, fires.size):
            if fires[k] < fires[first]:
                first = k
        candidates = np.array([first])
    else:
        latest = smallest_of_rank(fires, most - 1) if most < fires.size else np.inf
        candidates = np.flatnonzero(fires <= latest)
        candidates = candidates[np.argsort(fires[candidates], kind="mergesort")][:most]
    fired: IntArray = candidates[np.isfinite(fires[candidates])]
    return fired


@compiled
def exhausted_masses(times: FloatArray, accepted: IntArray, meters: Meters) -> FloatArray:
    """Return the mass ``mean w_k [W_k >= 1]`` at each of these ascending clock times; only used events can have it.

    >>> meters = Meters.of_length(2)._replace(exhausts=np.array([0.5, 1.5]), speed=np.array([2.0, 1.0]))
    >>> exhausted_masses(np.array([0.25, 0.5, 2.0]), np.array([0, 1]), meters)
    array([0. , 1. , 1.5])
    """
    mass = np.zeros(times.size + 1)
    for k in accepted:
        if meters.exhausts[k] <= times[-1]:
            first = 0 if times.size == 1 else np.searchsorted(times, meters.exhausts[k])
            mass[first] += meters.speed[k]
    return np.cumsum(mass[:-1]) / meters.meter.size


@compiled
def record_compensators(tau: float, thresholds: FloatArray, meters: Meters, out: Any) -> None:
    """Write the compensator of each event's entries into the history.

    That is the integral of ``w/(1 - W)`` until it fired, or until tau, and its refills.
    """
    remaining, logarithms = meters.influence, meters.log_unused
    for k in range(out.size):
        meter = meters.meter[k] + meters.speed[k] * (tau - meters.since[k])
        remaining[k] = 1.0 - (thresholds[k] if meters.used[k] else meter)
    write_logarithms(remaining, logarithms)
    for k in range(out.size):
        out[k] = meters.refills[k] - logarithms[k]
