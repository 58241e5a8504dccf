"""The columns that compiled code reads, and the records that a run of Algorithm 1 (Dudik et al. 2012) keeps."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from backcast._arrays import BoolArray, FloatArray, IntArray, plain
from backcast._engine.equations import accepts, corrected, excess_mass
from backcast._engine.quantile import TOTAL, RunningQuantile, keep, quantile
from backcast._kernels.contexts import Dense, View, dot, mask_of
from backcast._kernels.dispatch import is_builtin, learn, register, score
from backcast._kernels.jit import borrow, compiled, inlined, uncached
from backcast.log import Log

CURVE_BINS = 512


ROUNDING = 1e-12


REPLAY_RECORD = np.dtype(
    [
        ("c", np.float64),  # the multiplier in force, and one over it
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
        # the block under way: c does not change inside it, so plain sums are enough until it ends
        ("block_events", np.int64),
        ("block_mean", np.float64),  # of the blocks before, within the reward range
        ("block_value", np.float64),
        ("block_variation", np.float64),  # sum of (R_k - block_mean)^2
        ("block_excess", np.float64),
    ]
)


class EventArrays(NamedTuple):
    """Columns of a log for compiled code; ``predicted`` has a row an event, or one row for all."""

    actions: IntArray
    rewards: FloatArray
    propensities: FloatArray
    predicted: FloatArray
    available: BoolArray
    uniforms: FloatArray


class ReplayConstants(NamedTuple):
    """What stays fixed in a run: the largest multiplier, whether a quantile moves it, the known reward range."""

    c_max: float
    adaptive: bool
    reward_low: float
    reward_high: float


class CurveSums(NamedTuple):
    """Sums by round, in bins that double their width when they fill: ``c R, c, c^2 R^2, c^2 R, c^2``."""

    sums: FloatArray
    width: IntArray


class TraceArrays(NamedTuple):
    """What happened at every event; empty arrays where nobody asked."""

    multiplier: FloatArray
    weight: FloatArray
    value: FloatArray
    accepted: BoolArray

    @classmethod
    def of_length(cls, n: int) -> TraceArrays:
        """Arrays for ``n`` events; 0 to record nothing."""
        return cls(np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n, dtype=np.bool_))


class AcceptedEvents(NamedTuple):
    """Places of the accepted events and the weights ``c_t |B(t)|`` of the blocks they end; empty if nobody asked."""

    places: IntArray
    weights: FloatArray
    filled: IntArray

    @classmethod
    def of_length(cls, n: int) -> AcceptedEvents:
        """Room for ``n`` acceptances."""
        return cls(np.zeros(n, dtype=np.int64), np.zeros(n), np.zeros(1, dtype=np.int64))


class ReplayRecords(NamedTuple):
    """All that a run writes down, handed through the loops as one value."""

    run: Any
    ratios: RunningQuantile
    curve: CurveSums
    accepted: AcceptedEvents
    trace: TraceArrays


def event_arrays(log: Log, predicted: FloatArray, uniforms: FloatArray) -> EventArrays:
    """The log's columns for compiled code."""
    return EventArrays(
        plain(log._actions, np.int64),
        plain(log._rewards),
        plain(log._propensities),
        plain(predicted),
        mask_of(log._available),
        plain(uniforms),
    )


def new_record(c: float, rule: ReplayConstants) -> npt.NDArray[Any]:
    """The record of a trajectory that has seen nothing, with its first multiplier."""
    run = np.zeros(1, dtype=REPLAY_RECORD)
    run["c"] = c
    run["inverse_c"] = 1.0 / c
    run["block_mean"] = 0.5 * (rule.reward_low + rule.reward_high)
    return run


def new_curve(horizon: int | None = None) -> CurveSums:
    """Empty sums by round; with a known horizon the bins are of their final width at once."""
    width = 1 if horizon is None else -(-horizon // CURVE_BINS)
    return CurveSums(np.zeros((CURVE_BINS, 5)), np.array([width], dtype=np.int64))


@compiled
def add_to_curve(curve: CurveSums, round_: int, c: float, events: int, value: float, squared: float) -> None:
    """Add a block to the bin of its round, merging neighbours when the rounds outgrow the bins."""
    sums, width = curve.sums, curve.width
    while round_ >= sums.shape[0] * width[0]:
        half = sums.shape[0] // 2
        for i in range(half):
            for j in range(sums.shape[1]):
                sums[i, j] = sums[2 * i, j] + sums[2 * i + 1, j]
        sums[half:] = 0.0
        width[0] *= 2
    row = sums[round_ // width[0]]
    row[0] += c * value
    row[1] += c * events
    row[2] += c * c * squared
    row[3] += c * c * value
    row[4] += c * c * events


@compiled
def set_multiplier(run: Any, c: float) -> None:
    """Put a multiplier in force."""
    run.c = c
    run.inverse_c = 1.0 / c


@compiled
def add_event_to_block(run: Any, weight: float, value: float) -> None:
    """Add one event to the block under way, and its weight to what is known of the weights (section 3.2)."""
    run.block_events += 1
    run.block_value += value
    # taken about the mean at once: sums of squares would lose it where rewards are far from 0
    gap = value - run.block_mean
    run.block_variation += gap * gap
    run.ratio += weight
    run.ratio_squared += weight * weight
    if weight > run.largest_ratio:
        run.largest_ratio = weight
    excess = excess_mass(weight, run.inverse_c)
    # c is often one over a weight itself: rounding is no excess
    if excess > ROUNDING * weight:
        run.block_excess += excess
        run.cut += 1


@compiled
def close_block(run: Any, rule: ReplayConstants, curve: CurveSums) -> None:
    """Steps 2b and 2c for a whole block, ``R += c R_k`` and ``C += c``.

    The variation is taken about the mean of the blocks before, which this block did not set.
    """
    events, c = run.block_events, run.c
    if events == 0:
        return
    mean, value = run.block_mean, run.block_value
    run.variation += c * c * run.block_variation
    run.reward += c * value
    run.weight += c * events
    run.value += value
    run.events += events
    run.excess += c * run.block_excess
    add_to_curve(curve, run.accepted, c, events, value, run.block_variation + mean * (2.0 * value - events * mean))
    run.block_mean = min(max(run.value / run.events, rule.reward_low), rule.reward_high)
    run.block_events = 0
    run.block_value = 0.0
    run.block_variation = 0.0
    run.block_excess = 0.0


@compiled
def record_acceptance(run: Any, k: int, reward: float, rule: ReplayConstants, records: ReplayRecords) -> None:
    """Book an acceptance: the block ends, and the multiplier may move."""
    accepted = records.accepted
    if accepted.places.size > 0:
        accepted.places[accepted.filled[0]] = k
        accepted.weights[accepted.filled[0]] = run.c * run.block_events
        accepted.filled[0] += 1
    close_block(run, rule, records.curve)
    if run.accepted > 0:
        gap = reward - run.accepted_reward / run.accepted
        run.accepted_variation += gap * gap * run.accepted / (run.accepted + 1)
    run.accepted += 1
    run.accepted_reward += reward
    run.closed_reward = run.reward
    run.closed_weight = run.weight
    if rule.adaptive:
        set_multiplier(run, min(rule.c_max, quantile(records.ratios)))


class ScoredBlock(NamedTuple):
    """Probabilities that a Python policy gave for the events from ``start`` on."""

    probabilities: FloatArray
    start: int


def _read_score(state: Any, view: View, k: int, available: BoolArray, out: FloatArray) -> None:
    for a in range(out.size):
        out[a] = state.probabilities[k - state.start, a]


def _learn_outside(state: Any, view: View, k: int, action: int, reward: float, probability: float) -> None:
    pass


register(ScoredBlock, score=_read_score, learn=_learn_outside)


NEVER = np.iinfo(np.int64).max


class PendingBatch(NamedTuple):
    """Accepted events that wait to be learned; no room at all for a policy that does not learn."""

    places: IntArray
    probabilities: FloatArray
    filled: IntArray

    @classmethod
    def of_length(cls, n: int) -> PendingBatch:
        """An empty queue for ``n`` events."""
        return cls(np.zeros(n, dtype=np.int64), np.zeros(n), np.zeros(1, dtype=np.int64))


class StopConditions(NamedTuple):
    """When the loop hands back: at this many acceptances, at this queue length; and when it learns by itself."""

    accepted: int
    queue: int
    learn: int


@inlined
def queue_event(pending: PendingBatch, k: int, probability: float) -> int:
    """Put an accepted event in the queue, if there is one; its new length."""
    if pending.places.size > 0:
        pending.places[pending.filled[0]] = k
        pending.probabilities[pending.filled[0]] = probability
        pending.filled[0] += 1
    return int(pending.filled[0])


def _drive(span: Any, state: Any, view: Any, events: Any, rule: Any, stops: Any, records: Any, pending: Any) -> int:
    state, view, events, records, pending = (
        borrow(state),
        borrow(view),
        borrow(events),
        borrow(records),
        borrow(pending),
    )
    actions, rewards, propensities, uniforms = events.actions, events.rewards, events.propensities, events.uniforms
    predicted, available, trace = events.predicted, events.available, records.trace
    multiplier, weights, values, taken = trace.multiplier, trace.weight, trace.value, trace.accepted
    run, ratios, adaptive = records.run[0], records.ratios, rule.adaptive
    totals, ceiling = ratios.counts, ratios.ceiling
    many, traced = predicted.shape[0] > 1, taken.size > 0
    target = np.empty(predicted.shape[1])
    for k in range(span[0], span[1]):
        score(state, view, k, available, target)
        action, propensity = actions[k], propensities[k]
        probability = target[action]
        weight = probability / propensity
        row = k if many else 0
        value = corrected(dot(predicted[row], target), weight, rewards[k], predicted[row, action])
        accepted = probability > 0.0 and accepts(uniforms[k], run.c, probability, propensity)
        if traced:
            multiplier[k], weights[k], values[k], taken[k] = run.c, weight, value, accepted
        add_event_to_block(run, weight, value)
        if adaptive:
            totals[TOTAL] += 1
            ratio = propensity / probability if probability > 0.0 else np.inf
            if ratio < ceiling[0]:
                keep(ratios, ratio)
        if accepted:
            record_acceptance(run, k, rewards[k], rule, records)
            waiting = queue_event(pending, k, probability)
            if run.accepted >= stops.accepted or waiting >= stops.queue:
                return k + 1
            if waiting >= stops.learn:
                for i in range(waiting):
                    j = pending.places[i]
                    learn(state, view, j, actions[j], rewards[j], pending.probabilities[i])
                pending.filled[0] = 0
    return int(span[1])


_drive_cached = compiled(_drive)


_drive_fresh = uncached(_drive)


def drive(
    span: tuple[int, int],
    state: Any,
    view: View,
    events: EventArrays,
    rule: ReplayConstants,
    stops: StopConditions,
    records: ReplayRecords,
    pending: PendingBatch,
) -> int:
    """Take events ``span[0]..span[1]`` through Algorithm 1, steps 2a to 2f; the place after the last one taken."""
    loop = _drive_cached if is_builtin(state) else _drive_fresh
    return int(loop(span, state, view, events, rule, stops, records, pending))


def pack(
    events: EventArrays, rule: ReplayConstants, records: ReplayRecords, pending: PendingBatch
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Arrays and numbers as two plain tuples, which reach compiled code four times faster than named ones."""
    arrays = (*events, records.run, *records.ratios[:-1], *records.curve, *records.accepted, *records.trace, *pending)
    return arrays, (*rule, records.ratios.q)


@compiled
def drive_scored(
    span: tuple[int, int], probabilities: FloatArray, accepted: int, queue: int, arrays: Any, numbers: Any
) -> int:
    """The same for a block that a Python policy has scored, its events from ``span[0]`` on; see :func:`pack`."""
    events = EventArrays(arrays[0], arrays[1], arrays[2], arrays[3], arrays[4], arrays[5])
    ratios = RunningQuantile(arrays[7], arrays[8], arrays[9], arrays[10], numbers[4])
    taken = AcceptedEvents(arrays[13], arrays[14], arrays[15])
    trace = TraceArrays(arrays[16], arrays[17], arrays[18], arrays[19])
    records = ReplayRecords(arrays[6], ratios, CurveSums(arrays[11], arrays[12]), taken, trace)
    pending = PendingBatch(arrays[20], arrays[21], arrays[22])
    rule = ReplayConstants(numbers[0], numbers[1], numbers[2], numbers[3])
    scored, stops = ScoredBlock(probabilities, span[0]), StopConditions(accepted, queue, NEVER)
    return _drive_cached(span, scored, Dense(probabilities), events, rule, stops, records, pending)
