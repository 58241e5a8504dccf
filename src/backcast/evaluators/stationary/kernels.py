"""What one event says of a fixed policy, compiled."""

from __future__ import annotations

import numpy as np

from backcast.arrays import FloatArray, IntArray
from backcast.kernels.jit import compiled

__all__ = ["beyond", "expectations", "largest_ratios", "taken"]


@compiled
def expectations(target: FloatArray, predicted: FloatArray) -> FloatArray:
    """``sum_a pi(a|x_k) q(x_k, a)`` for every event: the direct method's answer.

    >>> expectations(np.array([[0.5, 0.5]]), np.array([[0.25, 0.5]]))
    array([0.375])
    """
    out = np.zeros(target.shape[0])
    for k in range(target.shape[0]):
        for a in range(target.shape[1]):
            out[k] += target[k, a] * predicted[k, a]
    return out


@compiled
def taken(table: FloatArray, actions: IntArray) -> FloatArray:
    """The entry of the logged action in every row.

    >>> taken(np.array([[0.25, 0.75], [0.5, 0.5]]), np.array([1, 0]))
    array([0.75, 0.5 ])
    """
    out = np.empty(actions.size)
    for k in range(actions.size):
        out[k] = table[k, actions[k]]
    return out


@compiled
def beyond(target: FloatArray, predicted: FloatArray, logging: FloatArray, threshold: float) -> FloatArray:
    """``sum_a max(0, pi(a) - M mu(a)) q(a)``: what weights cut at M leave to the model (Su et al. 2019).

    >>> beyond(np.array([[0.75, 0.25]]), np.array([[0.5, 1.0]]), np.array([[0.25, 0.75]]), 2.0)
    array([0.125])

    By hand: action 0 has 0.75 - 2 * 0.25 left, at 0.5; action 1 has nothing left.
    """
    out = np.zeros(target.shape[0])
    for k in range(target.shape[0]):
        for a in range(target.shape[1]):
            left = target[k, a]
            if logging[k, a] > 0.0:  # an action the logger never takes is all the model's, however large M is
                left -= threshold * logging[k, a]
            if left > 0.0:
                out[k] += left * predicted[k, a]
    return out


@compiled
def largest_ratios(target: FloatArray, logging: FloatArray) -> FloatArray:
    """``max_a pi(a)/mu(a)`` over the actions the logger may take: how large a weight could have been.

    >>> largest_ratios(np.array([[0.5, 0.25, 0.25]]), np.array([[0.5, 0.5, 0.0]]))
    array([1.])
    """
    out = np.zeros(target.shape[0])
    for k in range(target.shape[0]):
        for a in range(target.shape[1]):
            if logging[k, a] > 0.0:
                out[k] = max(out[k], target[k, a] / logging[k, a])
    return out
