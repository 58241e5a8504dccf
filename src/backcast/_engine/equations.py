"""The equations of the founding paper and its relatives, one function each, compiled.

Every kernel is small enough to be checked by hand; the drivers only put them in order.
"""

from __future__ import annotations

import numpy as np

from backcast._arrays import FloatArray
from backcast._kernels.jit import compiled


@compiled
def corrected(expected: float, weight: float, reward: float, predicted: float) -> float:
    """The doubly robust correction: ``expected + w (r - q(a))`` (Dudik et al. 2012, step 2a).

    >>> corrected(0.375, 2.0, 1.0, 0.5)
    1.375
    """
    return expected + weight * (reward - predicted)


@compiled
def event_value(target: FloatArray, predicted: FloatArray, action: int, reward: float, propensity: float) -> float:
    """Value of one event under the target: ``sum_a pi(a) q(a) + pi(a_k)/p_k (r_k - q(a_k))`` (Dudik et al. 2012, 2a).

    >>> event_value(np.array([0.5, 0.5]), np.array([0.25, 0.5]), 1, 1.0, 0.25)
    1.375

    By hand: the model says 0.375; the surprise 0.5 weighs 2; 0.375 + 2 * 0.5.
    """
    expected = 0.0
    for a in range(target.size):
        expected += target[a] * predicted[a]
    return corrected(expected, target[action] / propensity, reward, predicted[action])


@compiled
def accepts(uniform: float, multiplier: float, probability: float, propensity: float) -> bool:
    """Rejection sampling: ``u <= c pi / p`` (Dudik et al. 2012, step 2f).

    >>> accepts(0.5, 0.5, 0.5, 0.25), accepts(0.5, 0.25, 0.25, 0.25)
    (True, False)
    """
    return uniform <= multiplier * probability / propensity


@compiled
def excess_mass(weight: float, limit: float) -> float:
    """What acceptance at most 1 cuts off: ``max(0, w - 1/c)``, whose mean is the bias mass of section 3.2.

    >>> excess_mass(3.0, limit=2.0), excess_mass(1.0, limit=2.0)
    (1.0, 0.0)
    """
    return max(0.0, weight - limit)


@compiled
def quantile_rank(q: float, total: int) -> int:
    """Rank of the q-quantile: the least count ``>= q * total``, and at least one (inverted distribution function).

    >>> quantile_rank(0.0, 10), quantile_rank(0.25, 10), quantile_rank(1.0, 10)
    (1, 3, 10)
    """
    return max(1, int(np.ceil(q * total)))
