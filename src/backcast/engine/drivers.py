"""The loop over a log, compiled, with the policy inside it.

A built-in policy brings its own kernels. For a policy written in Python the "policy" inside is a table of the
probabilities it gave for a block of events; so there is one loop, and both ways give the same answer.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from backcast.arrays import BoolArray, FloatArray, IntArray
from backcast.engine.equations import accepts, corrected
from backcast.engine.events import Accepted, Book, Curve, Events, Rule, TraceArrays, accept, note_event
from backcast.engine.quantile import TOTAL, RunningQuantile, keep
from backcast.kernels.borrow import borrow
from backcast.kernels.dispatch import is_builtin, learn, register, score
from backcast.kernels.jit import compiled, inlined, uncached
from backcast.kernels.sums import dot
from backcast.kernels.views import Dense, View

__all__ = ["NEVER", "Pending", "Scored", "Stops", "drive", "drive_scored", "pack"]


class Scored(NamedTuple):
    """Probabilities that a Python policy gave for the events from ``start`` on."""

    probabilities: FloatArray
    start: int


def _read_score(state: Any, view: View, k: int, available: BoolArray, out: FloatArray) -> None:
    for a in range(out.size):
        out[a] = state.probabilities[k - state.start, a]


def _learn_outside(state: Any, view: View, k: int, action: int, reward: float, probability: float) -> None:
    pass


register(Scored, score=_read_score, learn=_learn_outside)

NEVER = np.iinfo(np.int64).max


class Pending(NamedTuple):
    """Accepted events that wait to be learned; no room at all for a policy that does not learn."""

    places: IntArray
    probabilities: FloatArray
    filled: IntArray

    @classmethod
    def of_length(cls, n: int) -> Pending:
        """An empty queue for ``n`` events."""
        return cls(np.zeros(n, dtype=np.int64), np.zeros(n), np.zeros(1, dtype=np.int64))


class Stops(NamedTuple):
    """When the loop hands back: at this many acceptances, at this queue length; and when it learns by itself."""

    accepted: int
    queue: int
    learn: int


@inlined
def queue_up(pending: Pending, k: int, probability: float) -> int:
    """Put an accepted event in the queue, if there is one; its new length."""
    if pending.places.size > 0:
        pending.places[pending.filled[0]] = k
        pending.probabilities[pending.filled[0]] = probability
        pending.filled[0] += 1
    return int(pending.filled[0])


def _drive(span: Any, state: Any, view: Any, events: Any, rule: Any, stops: Any, book: Any, pending: Any) -> int:
    state, view, events, book, pending = borrow(state), borrow(view), borrow(events), borrow(book), borrow(pending)
    actions, rewards, propensities, uniforms = events.actions, events.rewards, events.propensities, events.uniforms
    predicted, available, trace = events.predicted, events.available, book.trace
    multiplier, weights, values, taken = trace.multiplier, trace.weight, trace.value, trace.accepted
    run, ratios, adaptive = book.run[0], book.ratios, rule.adaptive
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
        note_event(run, weight, value)
        if adaptive:
            totals[TOTAL] += 1
            ratio = propensity / probability if probability > 0.0 else np.inf
            if ratio < ceiling[0]:
                keep(ratios, ratio)
        if accepted:
            accept(run, k, rewards[k], rule, book)
            waiting = queue_up(pending, k, probability)
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
    events: Events,
    rule: Rule,
    stops: Stops,
    book: Book,
    pending: Pending,
) -> int:
    """Take events ``span[0]..span[1]`` through Algorithm 1, steps 2a to 2f; the place after the last one taken."""
    loop = _drive_cached if is_builtin(state) else _drive_fresh
    return int(loop(span, state, view, events, rule, stops, book, pending))


def pack(events: Events, rule: Rule, book: Book, pending: Pending) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Arrays and numbers as two plain tuples, which reach compiled code four times faster than named ones."""
    arrays = (*events, book.run, *book.ratios[:-1], *book.curve, *book.accepted, *book.trace, *pending)
    return arrays, (*rule, book.ratios.q)


@compiled
def drive_scored(
    span: tuple[int, int], probabilities: FloatArray, accepted: int, queue: int, arrays: Any, numbers: Any
) -> int:
    """The same for a block that a Python policy has scored, its events from ``span[0]`` on; see :func:`pack`."""
    events = Events(arrays[0], arrays[1], arrays[2], arrays[3], arrays[4], arrays[5])
    ratios = RunningQuantile(arrays[7], arrays[8], arrays[9], arrays[10], numbers[4])
    taken = Accepted(arrays[13], arrays[14], arrays[15])
    trace = TraceArrays(arrays[16], arrays[17], arrays[18], arrays[19])
    book = Book(arrays[6], ratios, Curve(arrays[11], arrays[12]), taken, trace)
    pending = Pending(arrays[20], arrays[21], arrays[22])
    rule = Rule(numbers[0], numbers[1], numbers[2], numbers[3])
    scored, stops = Scored(probabilities, span[0]), Stops(accepted, queue, NEVER)
    return _drive_cached(span, scored, Dense(probabilities), events, rule, stops, book, pending)
