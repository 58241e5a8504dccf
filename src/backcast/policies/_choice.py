"""From scores to probabilities, compiled: argmax, epsilon-greedy, softmax, and the probability of being the maximum."""

from __future__ import annotations

import math

import numpy as np

from backcast._arrays import BoolArray, FloatArray
from backcast._kernels.jit import compiled, inlined

NODES, WEIGHTS = np.polynomial.legendre.leggauss(20)  # of the quadrature within a panel
TAIL_SDS = 8.0  # standard deviations beyond which a normal tail (6e-16) does not count
PANEL_SDS = 6.0  # standard deviations around a mean within which its density and distribution function change
SQRT_2 = math.sqrt(2.0)
SQRT_2PI = math.sqrt(2.0 * math.pi)


@compiled
def is_available(available: BoolArray, k: int, action: int) -> bool:
    """Whether the action is eligible at event ``k``; an empty mask means that all always are."""
    return available.size == 0 or available[k, action]


@inlined
def mask_unavailable(scores: FloatArray, available: BoolArray, k: int) -> int:
    """Set the scores of actions that are not eligible to -inf; return the number of eligible ones."""
    eligible = scores.size
    if available.size > 0:
        for a in range(scores.size):
            if not available[k, a]:
                scores[a] = -np.inf
                eligible -= 1
    return eligible


@inlined
def max_and_ties(scores: FloatArray) -> tuple[float, int]:
    """The largest score, and how many actions have it.

    >>> max_and_ties(np.array([1.0, 3.0, 3.0]))
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
def argmax_probabilities(scores: FloatArray, available: BoolArray, k: int) -> None:
    """Turn scores into probabilities of the best eligible action; ties share equally.

    >>> scores = np.array([1.0, 3.0, 3.0])
    >>> argmax_probabilities(scores, np.ones((0, 0), dtype=np.bool_), 0)
    >>> scores
    array([0. , 0.5, 0.5])
    """
    mask_unavailable(scores, available, k)
    top, ties = max_and_ties(scores)
    share = 1.0 / ties
    for a in range(scores.size):
        scores[a] = share if scores[a] == top else 0.0


@inlined
def epsilon_greedy(scores: FloatArray, epsilon: float, available: BoolArray, k: int) -> None:
    """Turn scores into ``(1 - epsilon) [best] + epsilon / K`` over the eligible actions; ties share equally.

    >>> scores = np.array([1.0, 3.0])
    >>> epsilon_greedy(scores, 0.5, np.ones((0, 0), dtype=np.bool_), 0)
    >>> scores
    array([0.25, 0.75])
    """
    eligible = mask_unavailable(scores, available, k)
    top, ties = max_and_ties(scores)
    floor = epsilon / eligible
    best = (1.0 - epsilon) * (1.0 / ties) + floor
    for a in range(scores.size):
        scores[a] = best if scores[a] == top else floor
    if available.size > 0:
        for a in range(scores.size):
            if not available[k, a]:
                scores[a] = 0.0


@compiled
def epsilon_greedy_rows(scores: FloatArray, epsilon: float, available: BoolArray) -> None:
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
    # relative to the largest score, so that no exponential overflows
    top = -np.inf
    for a in range(scores.size):
        if is_available(available, k, a) and scores[a] > top:
            top = scores[a]
    total = 0.0
    for a in range(scores.size):
        scores[a] = np.exp((scores[a] - top) / temperature) if is_available(available, k, a) else 0.0
        total += scores[a]
    for a in range(scores.size):
        scores[a] /= total


@compiled
def win_probabilities(means: FloatArray, sds: FloatArray, available: BoolArray, k: int) -> None:
    """Overwrite ``means`` by the probability that each eligible action's Gaussian draw is the largest.

    ``P(a wins) = integral phi_a(z) prod_{b != a} Phi_b(z) dz`` with the density phi and distribution function Phi of
    each action, by Gauss-Legendre quadrature in panels between the points where these functions change.

    >>> means = np.array([1.0, 0.0])
    >>> win_probabilities(means, np.array([0.6, 0.8]), np.ones((0, 0), dtype=np.bool_), 0)
    >>> means.round(6)
    array([0.841345, 0.158655])

    By hand: the difference is N(1, 1), so the first wins with probability Phi(1) = 0.841345.
    """
    # step 1: means and standard deviations of the eligible actions
    mean, sd, eligible = np.empty(means.size), np.empty(means.size), 0
    for a in range(means.size):
        if is_available(available, k, a):
            mean[eligible], sd[eligible] = means[a], sds[a]
            eligible += 1
    mean, sd = mean[:eligible], sd[:eligible]
    largest_sd = sd.max()
    if largest_sd <= 0.0:
        argmax_probabilities(means, available, k)
        return
    # a draw without variance has no density: give it a tiny one
    tiny = 1e-9 * (largest_sd + mean.max() - mean.min())
    for a in range(eligible):
        sd[a] = max(sd[a], tiny)
    # step 2: integrate, panel by panel
    wins, below = np.zeros(eligible), np.empty(eligible)
    edges = panel_edges(mean, sd)
    for panel in range(edges.size - 1):
        half = 0.5 * (edges[panel + 1] - edges[panel])
        if half > 0.0:
            for i in range(NODES.size):
                z = edges[panel] + half * (1.0 + NODES[i])
                add_integrand(z, WEIGHTS[i] * half, mean, sd, below, wins)
    # step 3: normalise, and write back to the positions of the eligible actions
    total, index = wins.sum(), 0
    for a in range(means.size):
        means[a] = 0.0
        if is_available(available, k, a):
            means[a] = wins[index] / total
            index += 1


@compiled
def panel_edges(means: FloatArray, sds: FloatArray) -> FloatArray:
    """Sorted ends of the panels: ``mean, mean ± PANEL_SDS sd`` of every action, within the range of the maximum."""
    low, high = means[0] - TAIL_SDS * sds[0], means[0] + TAIL_SDS * sds[0]
    for a in range(1, means.size):
        low, high = max(low, means[a] - TAIL_SDS * sds[a]), max(high, means[a] + TAIL_SDS * sds[a])
    edges = np.empty(3 * means.size + 2)
    edges[-2], edges[-1] = low, high
    for a in range(means.size):
        for i in range(3):
            edges[3 * a + i] = min(max(means[a] + (i - 1) * PANEL_SDS * sds[a], low), high)
    edges.sort()
    return edges


@compiled
def add_integrand(
    z: float, weight: float, mean: FloatArray, sd: FloatArray, below: FloatArray, wins: FloatArray
) -> None:
    """Add ``weight * phi_a(z) prod_{b != a} Phi_b(z)`` to ``wins[a]`` of every action (``below`` is scratch)."""
    for b in range(mean.size):
        below[b] = 0.5 * math.erfc((mean[b] - z) / sd[b] / SQRT_2)
    for a in range(mean.size):
        score = (z - mean[a]) / sd[a]
        density = math.exp(-0.5 * score * score) / (sd[a] * SQRT_2PI)
        for b in range(mean.size):
            if b != a:
                density *= below[b]
        wins[a] += weight * density
