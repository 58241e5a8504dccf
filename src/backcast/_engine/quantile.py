"""Exact running quantile in two heaps: O(log n) per value, and only values that may still be needed are stored.

The largest of the ``rank`` smallest values is on top of a max-heap ``low``; the others wait in a min-heap ``high``.
Values at or above the ceiling are only counted, because ``min(c_max, .)`` hides them; if the length of the stream is
known, values beyond its last possible rank are dropped as well.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from backcast._arrays import FloatArray, IntArray
from backcast._engine.equations import quantile_rank
from backcast._kernels.jit import compiled, inlined

# positions in RunningQuantile.counts: sizes of the two heaps, number of values observed, most values ever needed
LOW, HIGH, TOTAL, MOST = 0, 1, 2, 3


class RunningQuantile(NamedTuple):
    """Two heaps, their counts, the ceiling from which on values are only counted, and the quantile ``q``."""

    low: FloatArray
    high: FloatArray
    counts: IntArray
    ceiling: FloatArray
    q: float


def new_quantile(q: float, ceiling: float, length: int | None = None) -> RunningQuantile:
    """Return an empty quantile; ``length``, if known, bounds how many values must ever be stored.

    >>> ratios = new_quantile(0.5, ceiling=1.0)
    >>> ratios = grow(ratios, 4)
    >>> for value in (0.75, 0.25, 0.5, np.inf):
    ...     observe(ratios, value)
    >>> quantile(ratios)
    0.5
    """
    most = np.iinfo(np.int64).max if length is None else max(1, math.ceil(q * length))
    counts = np.array([0, 0, 0, most], dtype=np.int64)
    return RunningQuantile(np.empty(16), np.empty(16), counts, np.array([ceiling, ceiling]), q)


def grow(ratios: RunningQuantile, n_values: int) -> RunningQuantile:
    """Return the same quantile with room for ``n_values`` more values (arrays may be copied)."""
    low, high, _, most = (int(count) for count in ratios.counts)
    # between two calls of balance any value may be in either heap; a full heap is balanced or pruned to ``most``
    stored = low + high + n_values
    return ratios._replace(
        low=_resize(ratios.low, low, min(stored, most) + 2),
        high=_resize(ratios.high, high, min(stored, 2 * min(most, 2**61) + 1024) + 1),
    )


def _resize(heap: FloatArray, used: int, size: int) -> FloatArray:
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
    """Remove and return the top of a heap of ``size`` values."""
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
    """Drop values that no later rank can reach, and lower the ceiling accordingly."""
    high, counts = ratios.high, ratios.counts
    needed = max(1, counts[MOST] - counts[LOW])
    if needed < counts[HIGH]:
        smallest = np.empty(needed)
        for i in range(needed):
            smallest[i] = pop_top(high, counts[HIGH] - i, 1.0)
        # an ascending array is a min-heap
        for i in range(needed):
            high[i] = smallest[i]
        counts[HIGH] = needed
        # as many as will ever be needed are stored, so a value as large as the largest of them is only counted
        ratios.ceiling[0] = min(ratios.ceiling[0], smallest[needed - 1])


@compiled
def balance(ratios: RunningQuantile, rank: int) -> None:
    """Move values between the heaps until ``low`` holds the ``rank`` smallest, or all values."""
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
def insert(ratios: RunningQuantile, value: float) -> None:
    """Insert a value below the ceiling into its heap."""
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
    """Add one value (see :func:`grow`); the heaps are balanced when the quantile is computed."""
    ratios.counts[TOTAL] += 1
    if value < ratios.ceiling[0]:
        insert(ratios, value)


@inlined
def quantile(ratios: RunningQuantile) -> float:
    """Return the q-quantile of all values so far, or the ceiling if it is at or above it."""
    counts = ratios.counts
    rank = quantile_rank(ratios.q, counts[TOTAL])
    if counts[LOW] != rank:
        balance(ratios, rank)
    return float(min(ratios.low[0], ratios.ceiling[1]) if counts[LOW] == rank else ratios.ceiling[1])
