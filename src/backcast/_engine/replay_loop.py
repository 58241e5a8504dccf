"""Algorithm 1 (DR-ns; Dudik, Erhan, Langford, Li 2012) as a compiled loop, and the records it keeps.

A built-in policy brings its own kernels. For a policy written in Python, the "policy" inside the loop is a table of the
probabilities it returned for a block of events; so there is one loop, and both drivers give the same result.
``backcast.reference`` is the same algorithm in plain Python.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from backcast._arrays import BoolArray, FloatArray, IntArray, as_kernel_array
from backcast._engine.equations import doubly_robust, excess_mass, is_accepted
from backcast._engine.quantile import TOTAL, RunningQuantile, insert, quantile
from backcast._kernels.contexts import Dense, View, dot, mask_of
from backcast._kernels.dispatch import is_builtin, learn, register, score
from backcast._kernels.jit import borrow, compiled, inlined, uncached
from backcast.log import Log

CURVE_BINS = 512
ROUNDING = 1e-12
NEVER = np.iinfo(np.int64).max

TRAJECTORY = np.dtype(
    [
        ("c", np.float64),  # multiplier c_t in force, and its inverse
        ("inverse_c", np.float64),
        ("accepted", np.int64),  # t - 1
        ("events", np.int64),
        ("reward", np.float64),  # R
        ("weight", np.float64),  # C
        ("value", np.float64),  # sum of R_k
        ("variation", np.float64),  # sum of (c R_k - c * predictable mean)^2
        ("closed_reward", np.float64),  # R and C at the last acceptance
        ("closed_weight", np.float64),
        ("accepted_reward", np.float64),
        ("accepted_variation", np.float64),  # sum of (r - mean)^2 over accepted events
        ("excess", np.float64),  # sum of max(0, c w - 1): a block's share estimates eps_t / (1 - eps_t)
        ("cut", np.int64),  # events with c w > 1
        ("ratio", np.float64),  # sums of w and w^2, and the largest w
        ("ratio_squared", np.float64),
        ("largest_ratio", np.float64),
        # the open block B(t): c does not change inside it, so plain sums are enough until it is closed
        ("block_events", np.int64),
        ("block_mean", np.float64),  # mean value of the blocks before, within the reward range
        ("block_value", np.float64),
        ("block_variation", np.float64),  # sum of (R_k - block_mean)^2
        ("block_excess", np.float64),
    ]
)


class EventArrays(NamedTuple):
    """Columns of a log for compiled code; ``predicted`` has one row per event, or one row for all.

    Values are read from ``rewards``; policies learn from ``learned``, which is the same array unless another outcome is
    read.
    """

    actions: IntArray
    rewards: FloatArray
    propensities: FloatArray
    predicted: FloatArray
    available: BoolArray
    uniforms: FloatArray
    learned: FloatArray

    @classmethod
    def from_log(cls, log: Log, predicted: FloatArray, uniforms: FloatArray) -> EventArrays:
        """Return the columns of a log in the memory layout that kernels are compiled for."""
        return cls(
            as_kernel_array(log.columns.actions, np.int64),
            as_kernel_array(log.columns.rewards),
            as_kernel_array(log.columns.propensities),
            as_kernel_array(predicted),
            mask_of(log.columns.available),
            as_kernel_array(uniforms),
            as_kernel_array(log.columns.learned_rewards),
        )


class ReplayConstants(NamedTuple):
    """Constants of a replay: largest multiplier, factor on all, whether a quantile adapts them, known reward range."""

    c_max: float
    scale: float
    adaptive: bool
    reward_low: float
    reward_high: float


class CurveSums(NamedTuple):
    """Sums by round, in bins that double their width when they are full: ``c R, c, c^2 R^2, c^2 R, c^2``."""

    sums: FloatArray
    width: IntArray

    @classmethod
    def empty(cls, horizon: int | None = None) -> CurveSums:
        """Return empty sums; with a known horizon the bins have their final width from the start."""
        width = 1 if horizon is None else -(-horizon // CURVE_BINS)
        return cls(np.zeros((CURVE_BINS, 5)), np.array([width], dtype=np.int64))


class TraceArrays(NamedTuple):
    """What happened at every event; empty arrays record nothing."""

    multiplier: FloatArray
    weight: FloatArray
    value: FloatArray
    accepted: BoolArray

    @classmethod
    def of_length(cls, n: int) -> TraceArrays:
        """Return arrays for ``n`` events."""
        return cls(np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n, dtype=np.bool_))


class AcceptedEvents(NamedTuple):
    """Positions of accepted events and the weights ``c_t |B(t)|`` of the blocks they close; of length 0 to skip it."""

    positions: IntArray
    weights: FloatArray
    filled: IntArray

    @classmethod
    def of_length(cls, n: int) -> AcceptedEvents:
        """Return room for ``n`` acceptances."""
        return cls(np.zeros(n, dtype=np.int64), np.zeros(n), np.zeros(1, dtype=np.int64))


class PendingBatch(NamedTuple):
    """Accepted events that the policy has not learned yet; of length 0 for a policy that does not learn."""

    positions: IntArray
    probabilities: FloatArray
    filled: IntArray

    @classmethod
    def of_length(cls, n: int) -> PendingBatch:
        """Return an empty queue for ``n`` events."""
        return cls(np.zeros(n, dtype=np.int64), np.zeros(n), np.zeros(1, dtype=np.int64))


class ReplayRecords(NamedTuple):
    """Everything that the loop writes."""

    trajectory: Any
    ratios: RunningQuantile
    curve: CurveSums
    accepted: AcceptedEvents
    trace: TraceArrays
    pending: PendingBatch


class StopConditions(NamedTuple):
    """The loop returns at this many acceptances or this many pending events; it learns by itself at ``learn``."""

    accepted: int
    pending: int
    learn: int


class ScoredBlock(NamedTuple):
    """Probabilities that a Python policy returned for the events from ``start`` on."""

    probabilities: FloatArray
    start: int


def _read_scores(state: Any, view: View, k: int, available: BoolArray, out: FloatArray) -> None:
    for a in range(out.size):
        out[a] = state.probabilities[k - state.start, a]


def _learn_in_python(state: Any, view: View, k: int, action: int, reward: float, probability: float) -> None:
    pass


register(ScoredBlock, score=_read_scores, learn=_learn_in_python)


def new_trajectory(c: float, constants: ReplayConstants) -> npt.NDArray[Any]:
    """Return the record of a trajectory without events, with its first multiplier (step 1)."""
    trajectory = np.zeros(1, dtype=TRAJECTORY)
    trajectory["c"] = c
    trajectory["inverse_c"] = 1.0 / c
    trajectory["block_mean"] = 0.5 * (constants.reward_low + constants.reward_high)
    return trajectory


@compiled
def set_multiplier(trajectory: Any, c: float) -> None:
    """Set the multiplier c_t."""
    trajectory.c = c
    trajectory.inverse_c = 1.0 / c


@compiled
def add_event_to_block(trajectory: Any, weight: float, value: float) -> None:
    """Add one event to the open block, and its weight to the sums behind the bias measures (section 3.2)."""
    trajectory.block_events += 1
    trajectory.block_value += value
    # squares about the mean: plain sums of squares lose precision where rewards are far from 0
    gap = value - trajectory.block_mean
    trajectory.block_variation += gap * gap
    trajectory.ratio += weight
    trajectory.ratio_squared += weight * weight
    if weight > trajectory.largest_ratio:
        trajectory.largest_ratio = weight
    excess = excess_mass(weight, trajectory.inverse_c)
    # c is often the inverse of a weight itself: a difference of rounding size is no excess
    if excess > ROUNDING * weight:
        trajectory.block_excess += excess
        trajectory.cut += 1


@compiled
def add_to_curve(curve: CurveSums, t: int, c: float, events: int, value: float, squared: float) -> None:
    """Add a block to the bin of round ``t``, merging neighbouring bins if there are more rounds than bins."""
    sums, width = curve.sums, curve.width
    while t >= sums.shape[0] * width[0]:
        half = sums.shape[0] // 2
        for i in range(half):
            for j in range(sums.shape[1]):
                sums[i, j] = sums[2 * i, j] + sums[2 * i + 1, j]
        sums[half:] = 0.0
        width[0] *= 2
    row = sums[t // width[0]]
    row[0] += c * value
    row[1] += c * events
    row[2] += c * c * squared
    row[3] += c * c * value
    row[4] += c * c * events


@compiled
def close_block(trajectory: Any, constants: ReplayConstants, curve: CurveSums) -> None:
    """Apply steps 2b and 2c to a whole block: ``R += c R_k`` and ``C += c``.

    The variation is taken about the mean of the blocks before, which does not depend on this block.
    """
    events, c = trajectory.block_events, trajectory.c
    if events == 0:
        return
    mean, value = trajectory.block_mean, trajectory.block_value
    trajectory.variation += c * c * trajectory.block_variation
    trajectory.reward += c * value
    trajectory.weight += c * events
    trajectory.value += value
    trajectory.events += events
    trajectory.excess += c * trajectory.block_excess
    squared = trajectory.block_variation + mean * (2.0 * value - events * mean)
    add_to_curve(curve, trajectory.accepted, c, events, value, squared)
    mean = trajectory.value / trajectory.events
    trajectory.block_mean = min(max(mean, constants.reward_low), constants.reward_high)
    trajectory.block_events = 0
    trajectory.block_value = 0.0
    trajectory.block_variation = 0.0
    trajectory.block_excess = 0.0


@compiled
def record_acceptance(trajectory: Any, k: int, reward: float, constants: ReplayConstants, records: Any) -> None:
    """Apply steps 2f i to iii to the records: the block is closed, t grows by one, the multiplier may change."""
    accepted = records.accepted
    if accepted.positions.size > 0:
        accepted.positions[accepted.filled[0]] = k
        accepted.weights[accepted.filled[0]] = trajectory.c * trajectory.block_events
        accepted.filled[0] += 1
    close_block(trajectory, constants, records.curve)
    if trajectory.accepted > 0:
        gap = reward - trajectory.accepted_reward / trajectory.accepted
        trajectory.accepted_variation += gap * gap * trajectory.accepted / (trajectory.accepted + 1)
    trajectory.accepted += 1
    trajectory.accepted_reward += reward
    trajectory.closed_reward = trajectory.reward
    trajectory.closed_weight = trajectory.weight
    if constants.adaptive:
        set_multiplier(trajectory, constants.scale * min(constants.c_max, quantile(records.ratios)))


@inlined
def queue_event(pending: PendingBatch, k: int, probability: float) -> int:
    """Append an accepted event to the queue, if there is one, and return the length of the queue."""
    if pending.positions.size > 0:
        pending.positions[pending.filled[0]] = k
        pending.probabilities[pending.filled[0]] = probability
        pending.filled[0] += 1
    return int(pending.filled[0])


def _replay_events(
    start: int, stop: int, state: Any, view: Any, events: Any, constants: Any, stops: Any, records: Any
) -> int:
    state, view, events, records = borrow(state), borrow(view), borrow(events), borrow(records)
    actions, rewards, propensities, uniforms = events.actions, events.rewards, events.propensities, events.uniforms
    predicted, available, trace, pending = events.predicted, events.available, records.trace, records.pending
    multipliers, weights, values, accepted_flags = trace.multiplier, trace.weight, trace.value, trace.accepted
    trajectory, ratios, adaptive = records.trajectory[0], records.ratios, constants.adaptive
    counts, ceiling = ratios.counts, ratios.ceiling
    one_row_each, traced = predicted.shape[0] > 1, accepted_flags.size > 0
    target = np.empty(predicted.shape[1])
    for k in range(start, stop):
        # step 2: consider event (x_k, a_k, r_k, p_k); target = pi(. | x_k, h_{t-1})
        score(state, view, k, available, target)
        action, propensity = actions[k], propensities[k]
        probability = target[action]
        weight = probability / propensity
        row = k if one_row_each else 0
        # step 2a: R_k, the doubly robust value
        value = doubly_robust(dot(predicted[row], target), weight, rewards[k], predicted[row, action])
        # steps 2e, 2f: accept with probability min(1, c_t pi / p_k)
        accepted = probability > 0.0 and is_accepted(uniforms[k], trajectory.c, probability, propensity)
        if traced:
            multipliers[k], weights[k], values[k], accepted_flags[k] = trajectory.c, weight, value, accepted
        # steps 2b, 2c: c_t is constant within a block, so R_k is summed here and multiplied when the block is closed
        add_event_to_block(trajectory, weight, value)
        if adaptive:
            # step 2d: Q gains p_k / pi; ratios at or above the ceiling are only counted
            counts[TOTAL] += 1
            ratio = propensity / probability if probability > 0.0 else np.inf
            if ratio < ceiling[0]:
                insert(ratios, ratio)
        if accepted:
            # step 2f, i to iii
            record_acceptance(trajectory, k, rewards[k], constants, records)
            n_pending = queue_event(pending, k, probability)
            if trajectory.accepted >= stops.accepted or n_pending >= stops.pending:
                return k + 1
            if n_pending >= stops.learn:
                for i in range(n_pending):
                    j = pending.positions[i]
                    learn(state, view, j, actions[j], events.learned[j], pending.probabilities[i])
                pending.filled[0] = 0
    return stop


_replay_events_cached = compiled(_replay_events)
_replay_events_uncached = uncached(_replay_events)


def replay_events(
    start: int,
    stop: int,
    state: Any,
    view: View,
    events: EventArrays,
    constants: ReplayConstants,
    stops: StopConditions,
    records: ReplayRecords,
) -> int:
    """Process events ``start..stop-1`` with a compiled policy; return the position after the last one processed."""
    loop = _replay_events_cached if is_builtin(state) else _replay_events_uncached
    return int(loop(start, stop, state, view, events, constants, stops, records))


class PackedReplay(NamedTuple):
    """All arguments that are the same for the blocks of one part, without nesting.

    A plain tuple of arrays is passed to compiled code four times faster than nested named tuples; a Python policy needs
    one such call per block.
    """

    actions: IntArray
    rewards: FloatArray
    propensities: FloatArray
    predicted: FloatArray
    available: BoolArray
    uniforms: FloatArray
    learned: FloatArray
    c_max: float
    scale: float
    adaptive: bool
    reward_low: float
    reward_high: float
    trajectory: Any
    ratios_low: FloatArray
    ratios_high: FloatArray
    ratios_counts: IntArray
    ratios_ceiling: FloatArray
    ratios_q: float
    curve_sums: FloatArray
    curve_width: IntArray
    accepted_positions: IntArray
    accepted_weights: FloatArray
    accepted_filled: IntArray
    trace_multiplier: FloatArray
    trace_weight: FloatArray
    trace_value: FloatArray
    trace_accepted: BoolArray
    pending_positions: IntArray
    pending_probabilities: FloatArray
    pending_filled: IntArray


def pack_replay(events: EventArrays, constants: ReplayConstants, records: ReplayRecords) -> tuple[Any, ...]:
    """Return the fields of :class:`PackedReplay` as a plain tuple; :func:`replay_scored_block` is its inverse."""
    trajectory, *tuples = records
    fields: tuple[Any, ...] = (*events, *constants, trajectory, *(field for each in tuples for field in each))
    return tuple(PackedReplay(*fields))


@compiled
def replay_scored_block(
    start: int, stop: int, probabilities: FloatArray, max_accepted: int, max_pending: int, packed: Any
) -> int:
    """Process events ``start..stop-1``, for which a Python policy returned these probabilities."""
    p = PackedReplay(*packed)
    events = EventArrays(p.actions, p.rewards, p.propensities, p.predicted, p.available, p.uniforms, p.learned)
    constants = ReplayConstants(p.c_max, p.scale, p.adaptive, p.reward_low, p.reward_high)
    records = ReplayRecords(
        p.trajectory,
        RunningQuantile(p.ratios_low, p.ratios_high, p.ratios_counts, p.ratios_ceiling, p.ratios_q),
        CurveSums(p.curve_sums, p.curve_width),
        AcceptedEvents(p.accepted_positions, p.accepted_weights, p.accepted_filled),
        TraceArrays(p.trace_multiplier, p.trace_weight, p.trace_value, p.trace_accepted),
        PendingBatch(p.pending_positions, p.pending_probabilities, p.pending_filled),
    )
    block, stops = ScoredBlock(probabilities, start), StopConditions(max_accepted, max_pending, NEVER)
    return _replay_events_cached(start, stop, block, Dense(probabilities), events, constants, stops, records)
