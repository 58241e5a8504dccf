"""Quadratic forms ``x' M x`` of many symmetric matrices at once: linear in the products of features.

A matrix is stored as a column of ``d (d + 1) / 2`` numbers, ``M_jj`` and ``2 M_ji`` for ``i < j``, in the order
``(0,0) (1,0) (1,1) (2,0) ...``; with the products ``x_j x_i`` in the same order the form is one sum of products, half
as many as ``d^2``, and the matrices of all actions are worked through side by side.
"""

from __future__ import annotations

from typing import Any

from numba.extending import overload

from backcast.arrays import FloatArray
from backcast.kernels.jit import ALWAYS_INLINE, inlined
from backcast.kernels.sums import add_products, dot
from backcast.kernels.views import ActionFeatures, Dense, Sparse, View

__all__ = ["add_squares", "products_of", "size_of", "square_of", "store_matrix"]


def size_of(n_features: int) -> int:
    """How many numbers a symmetric matrix takes.

    >>> size_of(3)
    6
    """
    return n_features * (n_features + 1) // 2


@inlined
def products_of(row: FloatArray, out: FloatArray) -> None:
    """Write ``x_j x_i``, ``i <= j``, into ``out``.

    >>> import numpy as np
    >>> out = np.zeros(3)
    >>> products_of(np.array([2.0, 3.0]), out)
    >>> out
    array([4., 6., 9.])
    """
    first = 0
    for j in range(row.size):
        feature = row[j]
        for i in range(j + 1):
            out[first + i] = feature * row[i]
        first += j + 1


@inlined
def store_matrix(matrix: FloatArray, squares: FloatArray, column: int) -> None:
    """Write a symmetric matrix into its column.

    >>> import numpy as np
    >>> squares = np.zeros((3, 1))
    >>> store_matrix(np.array([[1.0, 0.5], [0.5, 4.0]]), squares, 0)
    >>> squares[:, 0]
    array([1., 1., 4.])
    """
    first = 0
    for j in range(matrix.shape[0]):
        for i in range(j):
            squares[first + i, column] = matrix[j, i] + matrix[i, j]
        squares[first + j, column] = matrix[j, j]
        first += j + 1


def add_squares(view: View, k: int, squares: FloatArray, products: FloatArray, out: FloatArray) -> None:
    """Add ``x' M_a x`` to ``out[a]`` for every action, in compiled code only; ``products`` is scratch.

    Column 0 of ``squares`` serves all actions when each has features of its own.
    """
    raise NotImplementedError("add_squares runs inside compiled code")


def square_of(view: View, k: int, action: int, squares: FloatArray, products: FloatArray) -> float:
    """``x' M_action x``, with the bits of ``add_squares``. Compiled code only."""
    raise NotImplementedError("square_of runs inside compiled code")


def _dense_squares(view: Any, k: int, squares: FloatArray, products: FloatArray, out: FloatArray) -> None:
    products_of(view.x[k], products)
    add_products(squares, products, out)


def _sparse_squares(view: Any, k: int, squares: FloatArray, products: FloatArray, out: FloatArray) -> None:
    # features are in order and none comes twice: views make sure
    for j in range(view.indptr[k], view.indptr[k + 1]):
        first = view.indices[j] * (view.indices[j] + 1) // 2
        for i in range(view.indptr[k], j + 1):
            product = view.data[j] * view.data[i]
            for a in range(out.size):
                out[a] += squares[first + view.indices[i], a] * product


def _action_squares(view: Any, k: int, squares: FloatArray, products: FloatArray, out: FloatArray) -> None:
    for a in range(out.size):
        products_of(view.x[k, a], products)
        out[a] += dot(squares[:, 0], products)


def _dense_square(view: Any, k: int, action: int, squares: FloatArray, products: FloatArray) -> float:
    products_of(view.x[k], products)
    return dot(squares[:, action], products)


def _sparse_square(view: Any, k: int, action: int, squares: FloatArray, products: FloatArray) -> float:
    total = 0.0
    for j in range(view.indptr[k], view.indptr[k + 1]):
        first = view.indices[j] * (view.indices[j] + 1) // 2
        for i in range(view.indptr[k], j + 1):
            total += squares[first + view.indices[i], action] * (view.data[j] * view.data[i])
    return total


def _action_square(view: Any, k: int, action: int, squares: FloatArray, products: FloatArray) -> float:
    products_of(view.x[k, action], products)
    return dot(squares[:, 0], products)


_ADD = {Dense: _dense_squares, Sparse: _sparse_squares, ActionFeatures: _action_squares}
_ONE = {Dense: _dense_square, Sparse: _sparse_square, ActionFeatures: _action_square}


@overload(add_squares, strict=False, jit_options=ALWAYS_INLINE)  # type: ignore[untyped-decorator]  # numba has no types
def _add_squares(view: Any, k: Any, squares: Any, products: Any, out: Any) -> Any:
    return _ADD[view.instance_class]


@overload(square_of, strict=False, jit_options=ALWAYS_INLINE)  # type: ignore[untyped-decorator]  # numba has no types
def _square_of(view: Any, k: Any, action: Any, squares: Any, products: Any) -> Any:
    return _ONE[view.instance_class]
