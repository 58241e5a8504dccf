"""The probability that each of several independent Gaussian draws is the largest, by quadrature.

``P(a wins) = integral of phi_a(z) prod_{b != a} Phi_b(z) dz``. All actions share the nodes: panels are cut at
``mean, mean +- 6 spread`` of every action, so that no cumulative function turns inside a panel, and each panel takes
a Gauss-Legendre rule. The result is exact to about 1e-9, so weights carry no sampling noise.
"""

from __future__ import annotations

import math

import numpy as np

from backcast.arrays import BoolArray, FloatArray
from backcast.kernels.jit import compiled
from backcast.policies.choice import best_of, is_open

__all__ = ["win_probabilities"]

NODES, WEIGHTS = np.polynomial.legendre.leggauss(20)
REACH = 8.0
TURN = 6.0
SQRT_2 = math.sqrt(2.0)
SQRT_2PI = math.sqrt(2.0 * math.pi)


@compiled
def panel_edges(means: FloatArray, spreads: FloatArray) -> FloatArray:
    """Where to cut the line: the turning points of every action, within reach of the eventual maximum."""
    low = np.max(means - REACH * spreads)
    high = np.max(means + REACH * spreads)
    cuts = np.concatenate((means - TURN * spreads, means, means + TURN * spreads, np.array([low, high])))
    return np.unique(np.clip(cuts, low, high))


@compiled
def win_probabilities(means: FloatArray, spreads: FloatArray, available: BoolArray, k: int) -> None:
    """Overwrite ``means`` by the probability that each eligible action's Gaussian draw is the largest.

    >>> means = np.array([1.0, 0.0])
    >>> win_probabilities(means, np.array([0.6, 0.8]), np.ones((0, 0), dtype=np.bool_), 0)
    >>> means.round(6)
    array([0.841345, 0.158655])

    By hand: the difference is N(1, 1), so the first wins with probability Phi(1) = 0.841345.
    """
    eligible = np.array([a for a in range(means.size) if is_open(available, k, a)])
    centre, spread = means[eligible], spreads[eligible]
    if spread.max() <= 0.0:
        best_of(means, available, k)
        return
    # an action without spread is a step; a sliver of spread keeps it a function
    spread = np.maximum(spread, 1e-9 * (spread.max() + np.ptp(centre)))
    wins = np.zeros(centre.size)
    edges = panel_edges(centre, spread)
    below = np.empty(centre.size)
    for panel in range(edges.size - 1):
        half = 0.5 * (edges[panel + 1] - edges[panel])
        middle = 0.5 * (edges[panel + 1] + edges[panel])
        for i in range(NODES.size):
            z = middle + half * NODES[i]
            for b in range(centre.size):
                below[b] = 0.5 * math.erfc((centre[b] - z) / spread[b] / SQRT_2)
            for a in range(centre.size):
                score = (z - centre[a]) / spread[a]
                density = math.exp(-0.5 * score * score) / (spread[a] * SQRT_2PI)
                for b in range(centre.size):
                    if b != a:
                        density *= below[b]
                wins[a] += WEIGHTS[i] * half * density
    means[:] = 0.0
    means[eligible] = wins / wins.sum()
