"""From scores to probabilities, compiled: argmax, epsilon-greedy and softmax."""

from __future__ import annotations

import numpy as np

from backcast._arrays import BoolArray, FloatArray
from backcast._kernels.jit import compiled, inlined


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
