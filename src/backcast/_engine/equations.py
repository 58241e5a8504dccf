"""The equations of the founding paper and of clock replay, one compiled function each: the only copy of each.

They are small enough to be checked by hand; the loops only put them in order.
"""

from __future__ import annotations

import numpy as np

from backcast._arrays import FloatArray
from backcast._kernels.jit import compiled


@compiled
def expected_reward(target: FloatArray, predicted: FloatArray) -> float:
    """Return ``sum_a pi(a) rhat(a)``, the model term of the doubly robust value.

    >>> expected_reward(np.array([0.5, 0.5]), np.array([0.25, 0.5]))
    0.375
    """
    total = 0.0
    for a in range(target.size):
        total += target[a] * predicted[a]
    return total


@compiled
def doubly_robust(expected: float, weight: float, reward: float, predicted: float) -> float:
    """Return ``R_k = expected + w_k (r_k - rhat(x_k, a_k))`` with ``expected = sum_a pi(a) rhat(a)`` (2012, step 2a).

    >>> doubly_robust(0.375, 2.0, 1.0, 0.5)
    1.375
    """
    return expected + weight * (reward - predicted)


@compiled
def is_accepted(uniform: float, multiplier: float, probability: float, propensity: float) -> bool:
    """Return whether ``u <= c pi / p`` (2012, step 2f).

    >>> is_accepted(0.5, 0.5, 0.5, 0.25), is_accepted(0.5, 0.25, 0.25, 0.25)
    (True, False)
    """
    return uniform <= multiplier * probability / propensity


@compiled
def excess_mass(weight: float, limit: float) -> float:
    """Return ``max(0, w - 1/c)``, what an acceptance probability of at most 1 cuts off (2012, section 3.2).

    >>> excess_mass(3.0, limit=2.0), excess_mass(1.0, limit=2.0)
    (1.0, 0.0)
    """
    return max(0.0, weight - limit)


@compiled
def quantile_rank(q: float, total: int) -> int:
    """Return the rank of the q-quantile: the least count ``>= q * total``, at least one (inverted distribution).

    >>> quantile_rank(0.0, 10), quantile_rank(0.25, 10), quantile_rank(1.0, 10)
    (1, 3, 10)
    """
    return max(1, int(np.ceil(q * total)))
