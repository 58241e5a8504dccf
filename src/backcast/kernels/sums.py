"""Sums of products in one fixed order, so that a score has the same bits in every driver and block size.

Terms are added four at a time, ``total + ((a + b) + (c + d))``: short chains of dependent additions, which a processor
overlaps, and the same ones whether one action is scored or all of them side by side. No fast-math anywhere.
"""

from __future__ import annotations

from backcast.arrays import FloatArray
from backcast.kernels.jit import inlined

__all__ = ["add_products", "dot"]


@inlined
def add_products(weights: FloatArray, row: FloatArray, out: FloatArray) -> None:
    """``out[a] += sum_j weights[j, a] row[j]`` for every column ``a``.

    >>> import numpy as np
    >>> out = np.zeros(2)
    >>> add_products(np.array([[1.0, 2.0], [0.5, 0.0]]), np.array([2.0, 4.0]), out)
    >>> out
    array([4., 4.])
    """
    # columns inside: their sums are independent, so the loop vectorises without reordering any of them
    whole = row.size - row.size % 4
    for j in range(0, whole, 4):
        first, second, third, fourth = row[j], row[j + 1], row[j + 2], row[j + 3]
        for a in range(out.size):
            out[a] += (weights[j, a] * first + weights[j + 1, a] * second) + (
                weights[j + 2, a] * third + weights[j + 3, a] * fourth
            )
    for j in range(whole, row.size):
        for a in range(out.size):
            out[a] += weights[j, a] * row[j]


@inlined
def dot(weights: FloatArray, row: FloatArray) -> float:
    """``sum_j weights[j] row[j]``, with the bits of :func:`add_products`.

    >>> import numpy as np
    >>> dot(np.array([1.0, 0.5]), np.array([2.0, 4.0]))
    4.0
    """
    total = 0.0
    whole = row.size - row.size % 4
    for j in range(0, whole, 4):
        total += (weights[j] * row[j] + weights[j + 1] * row[j + 1]) + (
            weights[j + 2] * row[j + 2] + weights[j + 3] * row[j + 3]
        )
    for j in range(whole, row.size):
        total += weights[j] * row[j]
    return total
