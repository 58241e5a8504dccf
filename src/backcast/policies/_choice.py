"""From scores to probabilities: the small rules that policies share, compiled."""

from __future__ import annotations

import math

import numpy as np

from backcast._arrays import BoolArray, FloatArray
from backcast._kernels.jit import compiled, inlined


@compiled
def is_open(available: BoolArray, k: int, action: int) -> bool:
    """Whether the action is eligible at event ``k``; an empty mask means that all always are."""
    return available.size == 0 or available[k, action]


@inlined
def shut_out(scores: FloatArray, available: BoolArray, k: int) -> int:
    """Put the scores of actions that are not eligible below all others; how many are."""
    eligible = scores.size
    if available.size > 0:
        for a in range(scores.size):
            if not available[k, a]:
                scores[a] = -np.inf
                eligible -= 1
    return eligible


@inlined
def best_and_ties(scores: FloatArray) -> tuple[float, int]:
    """The largest score, and how many actions share it.

    >>> best_and_ties(np.array([1.0, 3.0, 3.0]))
    (3.0, 2)
    """
    top = scores[0]
    for a in range(1, scores.size):
        top = max(top, scores[a])
    ties = 0
    for a in range(scores.size):
        ties += scores[a] == top
    return top, ties


@inlined
def best_of(scores: FloatArray, available: BoolArray, k: int) -> None:
    """Turn scores into probabilities of the best eligible action; ties share equally.

    >>> scores = np.array([1.0, 3.0, 3.0])
    >>> best_of(scores, np.ones((0, 0), dtype=np.bool_), 0)
    >>> scores
    array([0. , 0.5, 0.5])
    """
    shut_out(scores, available, k)
    top, ties = best_and_ties(scores)
    even = 1.0 / ties
    for a in range(scores.size):
        scores[a] = even if scores[a] == top else 0.0


@inlined
def epsilon_greedy(scores: FloatArray, epsilon: float, available: BoolArray, k: int) -> None:
    """Turn scores into ``(1 - epsilon) [best] + epsilon / K`` over the eligible actions; ties share equally.

    >>> scores = np.array([1.0, 3.0])
    >>> epsilon_greedy(scores, 0.5, np.ones((0, 0), dtype=np.bool_), 0)
    >>> scores
    array([0.25, 0.75])
    """
    eligible = shut_out(scores, available, k)
    top, ties = best_and_ties(scores)
    floor = epsilon / eligible
    best = (1.0 - epsilon) * (1.0 / ties) + floor
    for a in range(scores.size):
        scores[a] = best if scores[a] == top else floor
    if available.size > 0:
        for a in range(scores.size):
            if not available[k, a]:
                scores[a] = 0.0


@compiled
def greedy_block(scores: FloatArray, epsilon: float, available: BoolArray) -> None:
    """Turn each row of scores into epsilon-greedy probabilities."""
    for k in range(scores.shape[0]):
        epsilon_greedy(scores[k], epsilon, available, k)


@compiled
def softmax(scores: FloatArray, temperature: float, available: BoolArray, k: int) -> None:
    """Turn scores into ``exp(score / temperature)``, normalised over the eligible actions.

    >>> scores = np.array([0.0, np.log(3.0)])
    >>> softmax(scores, 1.0, np.ones((0, 0), dtype=np.bool_), 0)
    >>> scores.round(12)
    array([0.25, 0.75])
    """
    top = -np.inf
    for a in range(scores.size):
        if is_open(available, k, a) and scores[a] > top:
            top = scores[a]
    total = 0.0
    for a in range(scores.size):
        scores[a] = np.exp((scores[a] - top) / temperature) if is_open(available, k, a) else 0.0
        total += scores[a]
    for a in range(scores.size):
        scores[a] /= total


NODES, WEIGHTS = np.polynomial.legendre.leggauss(20)


REACH = 8.0


TURN = 6.0


SQRT_2 = math.sqrt(2.0)


SQRT_2PI = math.sqrt(2.0 * math.pi)


@compiled
def sort_small(values: FloatArray) -> None:
    """Put a few values in ascending order, in place, by insertion.

    >>> values = np.array([2.0, 3.0, 1.0])
    >>> sort_small(values)
    >>> values
    array([1., 2., 3.])
    """
    for i in range(1, values.size):
        value, place = values[i], i
        while place > 0 and values[place - 1] > value:
            values[place] = values[place - 1]
            place -= 1
        values[place] = value


@compiled
def panel_edges(means: FloatArray, spreads: FloatArray) -> FloatArray:
    """Where to cut the line: the turning points of every action, within reach of the eventual maximum."""
    low, high = means[0] - REACH * spreads[0], means[0] + REACH * spreads[0]
    for a in range(1, means.size):
        low, high = max(low, means[a] - REACH * spreads[a]), max(high, means[a] + REACH * spreads[a])
    edges = np.empty(3 * means.size + 2)
    edges[-2], edges[-1] = low, high
    for a in range(means.size):
        for i in range(3):
            edges[3 * a + i] = min(max(means[a] + (i - 1) * TURN * spreads[a], low), high)
    sort_small(edges)
    return edges


@compiled
def gather(means: FloatArray, spreads: FloatArray, available: BoolArray, k: int) -> tuple[FloatArray, FloatArray]:
    """Means and spreads of the eligible actions."""
    centre, spread = np.empty(means.size), np.empty(means.size)
    eligible = 0
    for a in range(means.size):
        if is_open(available, k, a):
            centre[eligible], spread[eligible] = means[a], spreads[a]
            eligible += 1
    return centre[:eligible], spread[:eligible]


@compiled
def add_wins(
    z: float, weight: float, centre: FloatArray, spread: FloatArray, below: FloatArray, wins: FloatArray
) -> None:
    """Add ``weight * phi_a(z) prod_{b != a} Phi_b(z)`` to every action (``below`` is scratch)."""
    for b in range(centre.size):
        below[b] = 0.5 * math.erfc((centre[b] - z) / spread[b] / SQRT_2)
    for a in range(centre.size):
        score = (z - centre[a]) / spread[a]
        density = math.exp(-0.5 * score * score) / (spread[a] * SQRT_2PI)
        for b in range(centre.size):
            if b != a:
                density *= below[b]
        wins[a] += weight * density


@compiled
def win_probabilities(means: FloatArray, spreads: FloatArray, available: BoolArray, k: int) -> None:
    """Overwrite ``means`` by the probability that each eligible action's Gaussian draw is the largest.

    >>> means = np.array([1.0, 0.0])
    >>> win_probabilities(means, np.array([0.6, 0.8]), np.ones((0, 0), dtype=np.bool_), 0)
    >>> means.round(6)
    array([0.841345, 0.158655])

    By hand: the difference is N(1, 1), so the first wins with probability Phi(1) = 0.841345.
    """
    centre, spread = gather(means, spreads, available, k)
    widest = spread.max()
    if widest <= 0.0:
        best_of(means, available, k)
        return
    # an action without spread is a step; a sliver of spread keeps it a function
    sliver = 1e-9 * (widest + centre.max() - centre.min())
    for a in range(spread.size):
        spread[a] = max(spread[a], sliver)
    wins, below = np.zeros(centre.size), np.empty(centre.size)
    edges = panel_edges(centre, spread)
    for panel in range(edges.size - 1):
        half = 0.5 * (edges[panel + 1] - edges[panel])
        if half > 0.0:
            for i in range(NODES.size):
                z = edges[panel] + half * (1.0 + NODES[i])
                add_wins(z, WEIGHTS[i] * half, centre, spread, below, wins)
    total, place = wins.sum(), 0
    for a in range(means.size):
        means[a] = 0.0
        if is_open(available, k, a):
            means[a] = wins[place] / total
            place += 1
