"""The two loops over a log: *block* scans probabilities that a Python policy gave, *fused* has the policy inside."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from backcast.arrays import FloatArray, IntArray
from backcast.engine.events import Book, Events, Rule, take_event
from backcast.kernels.dispatch import is_builtin, learn, score
from backcast.kernels.jit import compiled, uncached
from backcast.kernels.views import View

__all__ = ["Pending", "Stops", "fused", "scan"]


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
    """When a loop hands back: at this many acceptances, at this queue length; and when it learns by itself."""

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


@compiled
def scan(
    start: int, probabilities: FloatArray, events: Events, rule: Rule, stops: Stops, book: Book, pending: Pending
) -> int:
    """Go through scored events from ``start`` until the policy must learn; the place after the last one taken."""
    run = book.run[0]
    for i in range(probabilities.shape[0]):
        k = start + i
        if take_event(k, probabilities[i], events, rule, run, book):
            waiting = queue_up(pending, k, probabilities[i, events.actions[k]])
            if run.accepted >= stops.accepted or waiting >= stops.queue:
                return k + 1
    return int(start + probabilities.shape[0])


def _fused(span: Any, state: Any, view: Any, events: Any, rule: Any, stops: Any, book: Any, pending: Any) -> int:
    run = book.run[0]
    target = np.empty(events.predicted.shape[1])
    for k in range(span[0], span[1]):
        score(state, view, k, events.available, target)
        if take_event(k, target, events, rule, run, book):
            waiting = queue_up(pending, k, target[events.actions[k]])
            if run.accepted >= stops.accepted or waiting >= stops.queue:
                return k + 1
            if waiting >= stops.learn:
                for i in range(waiting):
                    j = pending.places[i]
                    learn(state, view, j, events.actions[j], events.rewards[j], pending.probabilities[i])
                pending.filled[0] = 0
    return int(span[1])


_fused_cached = compiled(_fused)
_fused_fresh = uncached(_fused)


def fused(
    span: tuple[int, int],
    state: Any,
    view: View,
    events: Events,
    rule: Rule,
    stops: Stops,
    book: Book,
    pending: Pending,
) -> int:
    """Go through events ``span[0]..span[1]`` with the policy compiled into the loop; the place after the last one."""
    loop = _fused_cached if is_builtin(state) else _fused_fresh
    return int(loop(span, state, view, events, rule, stops, book, pending))
