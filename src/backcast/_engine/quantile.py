"""Exact running quantile of a stream, in two heaps: O(log n) an event, and only what may still be needed is kept.

The largest of the ``rank`` smallest values sits on top of a max-heap ``low``; the rest wait in a min-heap ``high``.
Values at or above the ceiling are only counted, since ``min(c_max, .)`` hides them; when the length of the stream is
known, values beyond its last possible rank are dropped as well.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from backcast._arrays import FloatArray, IntArray
from backcast._engine.equations import quantile_rank
from backcast._kernels.jit import compiled, inlined

LOW, HIGH, TOTAL, KEEP = 0, 1, 2, 3


class RunningQuantile(NamedTuple):
    """Two heaps with their sizes, the ceiling above which values are only counted, and the rank's share ``q``."""

    low: FloatArray
    high: FloatArray
    counts: IntArray
    ceiling: FloatArray
    q: float


def new_quantile(q: float, ceiling: float, length: int | None = None) -> RunningQuantile:
    """An empty quantile; ``length``, if known, bounds how many values it must ever keep.

    >>> ratios = new_quantile(0.5, ceiling=1.0)
    >>> ratios = make_room(ratios, 4)
    >>> for value in (0.75, 0.25, 0.5, np.inf):
    ...     observe(ratios, value)
    >>> quantile(ratios)
    0.5
    """
    keep = np.iinfo(np.int64).max if length is None else max(1, math.ceil(q * length))
    counts = np.array([0, 0, 0, keep], dtype=np.int64)
    return RunningQuantile(np.empty(16), np.empty(16), counts, np.array([ceiling, ceiling]), q)


def make_room(ratios: RunningQuantile, events: int) -> RunningQuantile:
    """The same quantile with room for ``events`` more values (arrays move, contents do not)."""
    low, high, _, most = (int(count) for count in ratios.counts)
    # between two balances any value may sit in either heap; a full one is balanced or pruned to ``most`` values
    kept = low + high + events
    return ratios._replace(
        low=_grown(ratios.low, low, min(kept, most) + 2),
        high=_grown(ratios.high, high, min(kept, 2 * min(most, 2**61) + 1024) + 1),
    )


def _grown(heap: FloatArray, used: int, size: int) -> FloatArray:
    if size <= heap.size:
        return heap
    larger = np.empty(max(size, heap.size + heap.size // 2))
    larger[:used] = heap[:used]
    return larger


@compiled
def push_up(heap: FloatArray, size: int, value: float, sign: float) -> None:
    """Push into a heap ordered by ``sign * value`` (+1: smallest on top, -1: largest)."""
    i = size
    while i > 0:
        parent = (i - 1) // 2
        if sign * heap[parent] <= sign * value:
            break
        heap[i] = heap[parent]
        i = parent
    heap[i] = value


@compiled
def pop_top(heap: FloatArray, size: int, sign: float) -> float:
    """Take the top off a heap of ``size`` values."""
    top = heap[0]
    value = heap[size - 1]
    last = size - 1
    i = 0
    while True:
        child = 2 * i + 1
        if child >= last:
            break
        if child + 1 < last and sign * heap[child + 1] < sign * heap[child]:
            child += 1
        if sign * heap[child] >= sign * value:
            break
        heap[i] = heap[child]
        i = child
    heap[i] = value
    return float(top)


@compiled
def prune(ratios: RunningQuantile) -> None:
    """Drop waiting values that no later rank can reach, and lower the ceiling to match."""
    high, counts = ratios.high, ratios.counts
    needed = max(1, counts[KEEP] - counts[LOW])
    if needed < counts[HIGH]:
        kept = np.empty(needed)
        for i in range(needed):
            kept[i] = pop_top(high, counts[HIGH] - i, 1.0)
        # an ascending array is a min-heap already
        for i in range(needed):
            high[i] = kept[i]
        counts[HIGH] = needed
        # as many as will ever be needed are kept, so another as large as the largest of them need only be counted
        ratios.ceiling[0] = min(ratios.ceiling[0], kept[needed - 1])


@compiled
def balance(ratios: RunningQuantile, rank: int) -> None:
    """Move values between the heaps until ``low`` holds the ``rank`` smallest, or all there are."""
    low, high, counts = ratios.low, ratios.high, ratios.counts
    while counts[LOW] > rank:
        if counts[HIGH] == high.size:
            prune(ratios)
        push_up(high, counts[HIGH], pop_top(low, counts[LOW], -1.0), 1.0)
        counts[LOW] -= 1
        counts[HIGH] += 1
    while counts[LOW] < rank and counts[HIGH] > 0:
        push_up(low, counts[LOW], pop_top(high, counts[HIGH], 1.0), -1.0)
        counts[HIGH] -= 1
        counts[LOW] += 1


@compiled
def keep(ratios: RunningQuantile, value: float) -> None:
    """Put a value below the ceiling into the heap where it belongs."""
    low, high, counts = ratios.low, ratios.high, ratios.counts
    if counts[LOW] == low.size:
        balance(ratios, quantile_rank(ratios.q, counts[TOTAL]))
    if counts[LOW] > 0 and value < low[0]:
        push_up(low, counts[LOW], value, -1.0)
        counts[LOW] += 1
    else:
        if counts[HIGH] == high.size:
            prune(ratios)
        push_up(high, counts[HIGH], value, 1.0)
        counts[HIGH] += 1


@compiled
def observe(ratios: RunningQuantile, value: float) -> None:
    """Take in one value; room must have been made. The heaps are balanced when the quantile is asked for."""
    ratios.counts[TOTAL] += 1
    if value < ratios.ceiling[0]:
        keep(ratios, value)


@inlined
def quantile(ratios: RunningQuantile) -> float:
    """The q-quantile of all values so far, or the ceiling where it lies at or above it."""
    counts = ratios.counts
    rank = quantile_rank(ratios.q, counts[TOTAL])
    if counts[LOW] != rank:
        balance(ratios, rank)
    return float(min(ratios.low[0], ratios.ceiling[1]) if counts[LOW] == rank else ratios.ceiling[1])
