"""The loop over a log, compiled, with the policy inside it.

A built-in policy brings its own kernels. For a policy written in Python the "policy" inside is a table of the
probabilities it gave for a block of events; so there is one loop, and both ways give the same answer.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from backcast.arrays import BoolArray, FloatArray, IntArray
from backcast.engine.equations import accepts, corrected
from backcast.engine.events import Book, Events, Rule, accept, note_event
from backcast.engine.quantile import TOTAL, observe
from backcast.kernels.dispatch import is_builtin, learn, register, score
from backcast.kernels.jit import compiled, uncached
from backcast.kernels.views import Dense, View

__all__ = ["NO_VIEW", "Pending", "Scored", "Stops", "drive"]


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

NO_VIEW = Dense(np.zeros((0, 0)))


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


@compiled
def queue_up(pending: Pending, k: int, probability: float) -> int:
    """Put an accepted event in the queue, if there is one; its new length."""
    if pending.places.size > 0:
        pending.places[pending.filled[0]] = k
        pending.probabilities[pending.filled[0]] = probability
        pending.filled[0] += 1
    return int(pending.filled[0])


def _drive(span: Any, state: Any, view: Any, events: Any, rule: Any, stops: Any, book: Any, pending: Any) -> int:
    # arrays are taken out of their tuples once: inside the loop that costs more than the arithmetic
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
        expected = 0.0
        for a in range(target.size):
            expected += target[a] * predicted[row, a]
        value = corrected(expected, weight, rewards[k], predicted[row, action])
        accepted = probability > 0.0 and accepts(uniforms[k], run.c, probability, propensity)
        if traced:
            multiplier[k], weights[k], values[k], taken[k] = run.c, weight, value, accepted
        note_event(run, weight, value)
        if adaptive:
            ratio = propensity / probability if probability > 0.0 else np.inf
            if ratio < ceiling[0]:
                observe(ratios, ratio)
            else:
                totals[TOTAL] += 1
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
