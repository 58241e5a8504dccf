"""One event of Algorithm 1 (Dudik et al. 2012), and the records that a run keeps of it, compiled.

Both drivers call ``take_event`` for every event in order; they differ only in where the probabilities come from.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from backcast.arrays import BoolArray, FloatArray, IntArray
from backcast.engine.equations import accepts, event_value, excess_mass
from backcast.engine.quantile import RunningQuantile, observe, quantile
from backcast.kernels.jit import compiled
from backcast.kernels.views import mask_of
from backcast.log import Log

__all__ = [
    "CURVE_BINS",
    "Accepted",
    "Book",
    "Curve",
    "Events",
    "Rule",
    "TraceArrays",
    "events_of",
    "new_curve",
    "new_run",
    "take_event",
]

CURVE_BINS = 512

RUN = np.dtype(
    [
        ("c", np.float64),  # the multiplier in force
        ("accepted", np.int64),  # t - 1
        ("events", np.int64),
        ("reward", np.float64),  # R
        ("weight", np.float64),  # C
        ("closed_reward", np.float64),  # R, C and events at the last acceptance
        ("closed_weight", np.float64),
        ("closed_events", np.int64),
        ("accepted_reward", np.float64),
        ("accepted_squared", np.float64),
        ("block_excess", np.float64),  # of the block under way
        ("block_events", np.int64),
        ("certificate", np.float64),  # sum over blocks of the block mean of max(0, w - 1/c)
        ("excess", np.float64),  # sum of max(0, c w - 1)
        ("cut", np.int64),  # events with c w > 1
        ("ratio", np.float64),  # sums of w and w^2, and the largest w and c w
        ("ratio_squared", np.float64),
        ("largest_ratio", np.float64),
        ("largest_step", np.float64),
        ("value", np.float64),  # sum of R_k
        ("variation", np.float64),  # sum of (c R_k - c * predictable mean)^2
        ("squared_weight", np.float64),  # sum of c^2
    ]
)


class Events(NamedTuple):
    """Columns of a log for compiled code; ``predicted`` has a row an event, or one row for all."""

    actions: IntArray
    rewards: FloatArray
    propensities: FloatArray
    predicted: FloatArray
    available: BoolArray
    uniforms: FloatArray


class Rule(NamedTuple):
    """What stays fixed in a run: the largest multiplier, whether a quantile moves it, the known reward range."""

    c_max: float
    adaptive: bool
    reward_low: float
    reward_high: float


class Curve(NamedTuple):
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


class Accepted(NamedTuple):
    """Places of the accepted events and the weights ``c_t |B(t)|`` of the blocks they end; empty if nobody asked."""

    places: IntArray
    weights: FloatArray
    filled: IntArray

    @classmethod
    def of_length(cls, n: int) -> Accepted:
        """Room for ``n`` acceptances."""
        return cls(np.zeros(n, dtype=np.int64), np.zeros(n), np.zeros(1, dtype=np.int64))


class Book(NamedTuple):
    """All that a run writes down, handed through the loops as one value."""

    run: Any
    ratios: RunningQuantile
    curve: Curve
    accepted: Accepted
    trace: TraceArrays


def events_of(log: Log, predicted: FloatArray, uniforms: FloatArray) -> Events:
    """The log's columns for compiled code."""
    return Events(
        plain(log._actions, np.int64),
        plain(log._rewards),
        plain(log._propensities),
        plain(predicted),
        mask_of(log._available),
        plain(uniforms),
    )


def plain(column: npt.NDArray[Any], dtype: npt.DTypeLike = np.float64) -> npt.NDArray[Any]:
    """The column in the one memory layout that kernels are compiled for (copied only if it has another)."""
    return np.require(column, dtype=dtype, requirements=["C", "W"])


def new_run(c: float) -> npt.NDArray[Any]:
    """The record of a trajectory that has seen nothing, with its first multiplier."""
    run = np.zeros(1, dtype=RUN)
    run["c"] = c
    return run


def new_curve(horizon: int | None = None) -> Curve:
    """Empty sums by round; with a known horizon the bins are of their final width at once."""
    width = 1 if horizon is None else -(-horizon // CURVE_BINS)
    return Curve(np.zeros((CURVE_BINS, 5)), np.array([width], dtype=np.int64))


@compiled
def add_to_curve(curve: Curve, round_: int, c: float, value: float) -> None:
    """Add one event to the bin of its round, merging neighbours when the rounds outgrow the bins."""
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
    row[1] += c
    row[2] += c * c * value * value
    row[3] += c * c * value
    row[4] += c * c


@compiled
def note_weights(run: Any, weight: float, excess: float) -> None:
    """Keep count of the weights, and of what acceptance cuts off (section 3.2)."""
    run.ratio += weight
    run.ratio_squared += weight * weight
    run.largest_ratio = max(run.largest_ratio, weight)
    run.largest_step = max(run.largest_step, run.c * weight)
    run.excess += run.c * excess
    run.cut += excess > 0.0
    run.block_excess += excess
    run.block_events += 1


@compiled
def note_value(run: Any, rule: Rule, value: float) -> None:
    """Steps 2b and 2c, ``R += c R_k`` and ``C += c``, and the variation about a mean that event k did not set."""
    middle = 0.5 * (rule.reward_low + rule.reward_high)
    mean = run.value / run.events if run.events > 0 else middle
    mean = min(max(mean, rule.reward_low), rule.reward_high)
    run.variation += (run.c * (value - mean)) ** 2
    run.reward += run.c * value
    run.weight += run.c
    run.squared_weight += run.c * run.c
    run.value += value
    run.events += 1


@compiled
def close_block(run: Any, k: int, reward: float, accepted: Accepted) -> None:
    """Book an acceptance: the block ends, its mean excess joins the certificate."""
    if accepted.places.size > 0:
        accepted.places[accepted.filled[0]] = k
        accepted.weights[accepted.filled[0]] = run.weight - run.closed_weight
        accepted.filled[0] += 1
    run.accepted += 1
    run.accepted_reward += reward
    run.accepted_squared += reward * reward
    run.closed_reward = run.reward
    run.closed_weight = run.weight
    run.closed_events = run.events
    run.certificate += run.block_excess / run.block_events
    run.block_excess = 0.0
    run.block_events = 0


@compiled
def take_event(
    k: int,
    target: FloatArray,
    events: Events,
    rule: Rule,
    run: Any,
    book: Book,
) -> bool:
    """Steps 2a to 2f of Algorithm 1 for event ``k``; whether it is accepted."""
    action, reward, propensity = events.actions[k], events.rewards[k], events.propensities[k]
    predicted = events.predicted[k if events.predicted.shape[0] > 1 else 0]
    probability = target[action]
    weight = probability / propensity
    value = event_value(target, predicted, action, reward, propensity)
    accepted = probability > 0.0 and accepts(events.uniforms[k], run.c, probability, propensity)
    trace = book.trace
    if trace.accepted.size > 0:
        trace.multiplier[k] = run.c
        trace.weight[k] = weight
        trace.value[k] = value
        trace.accepted[k] = accepted
    add_to_curve(book.curve, run.accepted, run.c, value)
    note_weights(run, weight, excess_mass(weight, run.c))
    note_value(run, rule, value)
    if rule.adaptive:
        observe(book.ratios, propensity / probability if probability > 0.0 else np.inf)
    if accepted:
        close_block(run, k, reward, book.accepted)
        if rule.adaptive:
            run.c = min(rule.c_max, quantile(book.ratios))
    return accepted
