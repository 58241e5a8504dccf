"""Dense, sparse and per-action contexts behind one set of functions for compiled code.

:func:`view_of` wraps contexts; ``add_scores``, ``dot_row``, ``dot_column``, ``load_row``, ``add_quadratic_forms`` and
``quadratic_form`` are declared as plain functions and compiled per view (``numba.extending.overload``).

Sums of products are taken in one fixed order, so that a score has the same bits in every driver and block size. Terms
are added four at a time, ``total + ((a + b) + (c + d))``: short chains of dependent additions, which a processor
overlaps, and the same ones whether one action is scored or all of them side by side. No fast-math anywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numba import float32
from numba.extending import overload, register_jitable

from backcast._arrays import BoolArray, Contexts, FloatArray, IntArray, is_sparse
from backcast._kernels.jit import ALWAYS_INLINE, compiled, inlined
from backcast._kernels.lanes import LANES, load_lanes, spread_double, store_lanes, widen

NO_MASK = np.ones((0, 0), dtype=np.bool_)
MAX_COPY_BYTES = 2**28  # of contexts that are also stored by column during a pass
EVENTS_PER_BLOCK = 1024  # events whose scores stay in the processor's first cache while all columns are added
ROWS_PER_BLOCK = 64  # of contexts that are transposed at a time
SINGLE_ROUNDING = 2.0**-22  # rounding features and a norm of them, by 2^-24 each, and the square of the norm
LARGEST_NORM = 100.0  # of contexts that are rounded, over the mean norm: one error bound serves all events
# Features of actions are scored as sparse rows if there are so many and so few are not 0, as of hashed features. Scores
# have the same bits, so that only time depends on it.
SPARSE_FEATURES, SPARSE_SHARE = 32, 0.25


class Dense(NamedTuple):
    """One row of features per event, shared by all actions: ``(n, d)``."""

    x: FloatArray


class DenseColumns(NamedTuple):
    """Dense contexts with a transposed copy ``(d, n)``, from which one action is scored at all events at once.

    The copy may be in single precision, because reading it is most of the cost of scores. A score with the Lipschitz
    constant L changes by at most ``L rounding`` then, also if a norm of the features is rounded to single precision.
    """

    x: FloatArray
    columns: Any
    rounding: float


class Sparse(NamedTuple):
    """One CSR row of features per event, shared by all actions; sorted, without duplicates."""

    data: FloatArray
    indices: IntArray
    indptr: IntArray


class ActionFeatures(NamedTuple):
    """One row of features for every action of every event: ``(n, K, d)``."""

    x: FloatArray


class SparseActionFeatures(NamedTuple):
    """One CSR row for every action of every event, row ``k K + a``; the same bits as :class:`ActionFeatures`."""

    data: FloatArray
    indices: IntArray
    indptr: IntArray
    n_actions: int


View: TypeAlias = Dense | DenseColumns | Sparse | ActionFeatures | SparseActionFeatures


def view_of(contexts: Contexts) -> View:
    """Wrap contexts for compiled code.

    >>> view_of(np.zeros((2, 3))).x.shape
    (2, 3)
    """
    if is_sparse(contexts):
        matrix: Any = contexts
        if not matrix.has_canonical_format:
            matrix = matrix.copy()
            matrix.sum_duplicates()
        columns = (matrix.data, np.float64), (matrix.indices, np.int64), (matrix.indptr, np.int64)
        return Sparse(*(np.require(column, dtype=dtype, requirements=["C", "W"]) for column, dtype in columns))
    array = np.require(contexts, dtype=np.float64, requirements=["C", "W"])
    if array.ndim == 2:
        return Dense(array)
    n, n_actions, d = array.shape
    if d < SPARSE_FEATURES or np.count_nonzero(array) > SPARSE_SHARE * array.size:
        return ActionFeatures(array)
    rows = array.reshape(n * n_actions, d)
    row, indices = np.nonzero(rows)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(rows)))])
    return SparseActionFeatures(rows[row, indices], indices.astype(np.int64), indptr.astype(np.int64), n_actions)


def with_columns(view: View, *, single: bool = False) -> View:
    """Return dense contexts with a transposed copy if it is not too large; other contexts as they are.

    The copy is in single precision if that is asked for and no event's features are far larger than those of others.

    >>> with_columns(view_of(np.array([[0.5, 0.1]])), single=True).rounding < 1e-6
    True
    """
    if not isinstance(view, Dense) or view.x.nbytes > MAX_COPY_BYTES:
        return view
    if single:
        columns = np.empty(view.x.shape[::-1], dtype=np.float32)
        largest, mean = _round_columns(view.x, columns)
        if largest <= min(LARGEST_NORM * mean, float(np.finfo(np.float32).max)):
            return DenseColumns(view.x, columns, SINGLE_ROUNDING * largest)
    return DenseColumns(view.x, np.ascontiguousarray(view.x.T), 0.0)


def as_copied(view: View) -> View:
    """Return dense contexts with the features of their transposed copy; other contexts as they are."""
    if isinstance(view, DenseColumns) and view.rounding > 0.0:
        return view._replace(x=np.ascontiguousarray(view.columns.T, dtype=np.float64))
    return view


@compiled
def _round_columns(x: FloatArray, columns: Any) -> tuple[float, float]:
    """Write the transposed copy; return the largest norm of a row, and the mean norm."""
    largest = total = 0.0
    n, d = x.shape
    for start in range(0, n, ROWS_PER_BLOCK):  # so that lines of memory that are written stay in the cache
        stop = min(start + ROWS_PER_BLOCK, n)
        for j in range(d):
            for k in range(start, stop):
                columns[j, k] = x[k, j]
        for k in range(start, stop):
            squares = 0.0
            for j in range(d):
                squares += x[k, j] * x[k, j]
            norm = np.sqrt(squares)
            largest, total = max(largest, norm), total + norm
    return largest, total / max(n, 1)


def mask_of(available: BoolArray | None) -> BoolArray:
    """Return the availability mask for compiled code; an empty one means that all actions always are."""
    return NO_MASK if available is None else np.require(available, dtype=np.bool_, requirements=["C", "W"])


@inlined
def add_products(weights: FloatArray, row: FloatArray, out: FloatArray) -> None:
    """``out[a] += sum_j weights[j, a] row[j]`` for every column ``a``.

    >>> import numpy as np
    >>> out = np.zeros(2)
    >>> add_products(np.array([[1.0, 2.0], [0.5, 0.0]]), np.array([2.0, 4.0]), out)
    >>> out
    array([4., 4.])
    """
    # the columns are the inner loop: their sums are independent, so it vectorises without reordering any of them
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


@inlined
def dot_entries(weights: FloatArray, data: FloatArray, indices: IntArray, start: int, stop: int) -> float:
    """``sum_i weights[indices[i]] data[i]`` over sorted entries ``start..stop-1``, with the bits of :func:`dot`.

    The terms that are left out are zeros; the others are added in the same groups of four.

    >>> import numpy as np
    >>> dot_entries(np.array([1.0, 0.5, 2.0, 4.0, 8.0]), np.array([2.0, 1.0, 3.0]), np.array([1, 3, 4]), 0, 3)
    29.0
    """
    total = 0.0
    whole = weights.size - weights.size % 4
    i = start
    while i < stop and indices[i] < whole:
        group = indices[i] // 4
        first, second = 0.0, 0.0
        while i < stop and indices[i] // 4 == group:
            if indices[i] % 4 < 2:
                first += weights[indices[i]] * data[i]
            else:
                second += weights[indices[i]] * data[i]
            i += 1
        total += first + second
    while i < stop:
        total += weights[indices[i]] * data[i]
        i += 1
    return total


def add_scores(view: View, k: int, weights: FloatArray, out: FloatArray) -> None:
    """Add ``weights[:, a] . x`` to ``out[a]`` for every action, in compiled code only.

    Column 0 of ``weights`` serves all actions if contexts are features of each action.
    """
    raise NotImplementedError("add_scores runs inside compiled code")


def dot_row(view: View, k: int, action: int, weights: FloatArray) -> float:
    """``weights[:, action] . x``, with the bits of ``add_scores``. Compiled code only."""
    raise NotImplementedError("dot_row runs inside compiled code")


def dot_column(view: View, action: int, weights: FloatArray, out: FloatArray) -> None:
    """Write ``dot_row`` of one action at every event. Compiled code only."""
    raise NotImplementedError("dot_column runs inside compiled code")


def load_row(view: View, k: int, action: int, row: FloatArray) -> None:
    """Write the features that ``action`` has at event ``k`` into ``row``. Compiled code only."""
    raise NotImplementedError("load_row runs inside compiled code")


def _dense_scores(view: Any, k: int, weights: FloatArray, out: FloatArray) -> None:
    add_products(weights, view.x[k], out)


def _sparse_scores(view: Any, k: int, weights: FloatArray, out: FloatArray) -> None:
    for i in range(view.indptr[k], view.indptr[k + 1]):
        feature = view.data[i]
        for a in range(out.size):
            out[a] += weights[view.indices[i], a] * feature


def _action_scores(view: Any, k: int, weights: FloatArray, out: FloatArray) -> None:
    for a in range(out.size):
        out[a] += dot(weights[:, 0], view.x[k, a])


def _sparse_action_scores(view: Any, k: int, weights: FloatArray, out: FloatArray) -> None:
    for a in range(out.size):
        row = k * view.n_actions + a
        out[a] += dot_entries(weights[:, 0], view.data, view.indices, view.indptr[row], view.indptr[row + 1])


def _dense_dot(view: Any, k: int, action: int, weights: FloatArray) -> float:
    return dot(weights[:, action], view.x[k])


def _sparse_dot(view: Any, k: int, action: int, weights: FloatArray) -> float:
    total = 0.0
    for i in range(view.indptr[k], view.indptr[k + 1]):
        total += weights[view.indices[i], action] * view.data[i]
    return total


def _action_dot(view: Any, k: int, action: int, weights: FloatArray) -> float:
    return dot(weights[:, 0], view.x[k, action])


def _sparse_action_dot(view: Any, k: int, action: int, weights: FloatArray) -> float:
    row = k * view.n_actions + action
    return dot_entries(weights[:, 0], view.data, view.indices, view.indptr[row], view.indptr[row + 1])


def _dense_column(view: Any, action: int, weights: FloatArray, out: FloatArray) -> None:
    x, column = view.x, weights[:, action].copy()
    for k in range(out.size):
        out[k] = dot(column, x[k])


def _columns_column(view: Any, action: int, weights: FloatArray, out: FloatArray) -> None:
    # events are the inner loop, which vectorises; per event the additions are those of dot
    columns, column = view.columns, weights[:, action].copy()
    whole = column.size - column.size % 4
    sums = np.empty(min(EVENTS_PER_BLOCK, out.size))
    for start in range(0, out.size, EVENTS_PER_BLOCK):
        stop = min(start + EVENTS_PER_BLOCK, out.size)
        block = sums[: stop - start]
        for k in range(block.size):
            block[k] = 0.0
        for j in range(0, whole, 4):
            a, b, c, d = column[j], column[j + 1], column[j + 2], column[j + 3]
            x_a, x_b = columns[j, start:stop], columns[j + 1, start:stop]
            x_c, x_d = columns[j + 2, start:stop], columns[j + 3, start:stop]
            for k in range(block.size):
                block[k] += (a * x_a[k] + b * x_b[k]) + (c * x_c[k] + d * x_d[k])
        for j in range(whole, column.size):
            a, x_a = column[j], columns[j, start:stop]
            for k in range(block.size):
                block[k] += a * x_a[k]
        for k in range(block.size):
            out[start + k] = block[k]


def _single_columns_column(view: Any, action: int, weights: FloatArray, out: FloatArray) -> None:
    # sixteen sums stay in registers: 1.6 instead of 2.3 nanoseconds per event with 20 features
    columns, column = view.columns, weights[:, action].copy()
    whole = column.size - column.size % 4
    n_lanes = out.size - out.size % LANES
    for k in range(0, n_lanes, LANES):
        total = spread_double(0.0)
        for j in range(0, whole, 4):
            a, b = load_product(column, columns, j, k), load_product(column, columns, j + 1, k)
            c, d = load_product(column, columns, j + 2, k), load_product(column, columns, j + 3, k)
            total = total + ((a + b) + (c + d))
        for j in range(whole, column.size):
            total = total + load_product(column, columns, j, k)
        store_lanes(out, k, total)
    for k in range(n_lanes, out.size):
        out[k] = dot(column, columns[:, k])


@register_jitable(inline="always")  # type: ignore[untyped-decorator]  # numba has no types
def load_product(column: FloatArray, columns: Any, j: int, k: int) -> Any:
    """``column[j] columns[j, k : k + 16]``. Compiled code only."""
    return spread_double(column[j]) * widen(load_lanes(columns[j], k))


def _any_column(view: Any, action: int, weights: FloatArray, out: FloatArray) -> None:
    for k in range(out.size):
        out[k] = dot_row(view, k, action, weights)


def _dense_row(view: Any, k: int, action: int, row: FloatArray) -> None:
    for j in range(row.size):
        row[j] = view.x[k, j]


def _sparse_row(view: Any, k: int, action: int, row: FloatArray) -> None:
    row[:] = 0.0
    for i in range(view.indptr[k], view.indptr[k + 1]):
        row[view.indices[i]] = view.data[i]


def _action_row(view: Any, k: int, action: int, row: FloatArray) -> None:
    for j in range(row.size):
        row[j] = view.x[k, action, j]


def _sparse_action_row(view: Any, k: int, action: int, row: FloatArray) -> None:
    row[:] = 0.0
    first = k * view.n_actions + action
    for i in range(view.indptr[first], view.indptr[first + 1]):
        row[view.indices[i]] = view.data[i]


def _compile_by_view(function: Callable[..., Any], implementations: dict[type, Callable[..., Any]]) -> None:
    """Let compiled calls of ``function`` run the implementation for the class of their view, inlined."""

    @overload(function, strict=False, jit_options=ALWAYS_INLINE)  # type: ignore[untyped-decorator]  # numba has no types
    def select(view: Any, *arguments: Any) -> Any:
        # the transposed copy of DenseColumns serves dot_column only
        own = implementations.get(view.instance_class, implementations[Dense])
        return _single_columns_column if own is _columns_column and view[1].dtype == float32 else own


KINDS = Dense, Sparse, ActionFeatures, SparseActionFeatures
_compile_by_view(
    add_scores, dict(zip(KINDS, (_dense_scores, _sparse_scores, _action_scores, _sparse_action_scores), strict=True))
)
_compile_by_view(dot_row, dict(zip(KINDS, (_dense_dot, _sparse_dot, _action_dot, _sparse_action_dot), strict=True)))
_compile_by_view(
    dot_column,
    dict(zip((*KINDS, DenseColumns), (_dense_column, *(_any_column,) * 3, _columns_column), strict=True)),
)
_compile_by_view(load_row, dict(zip(KINDS, (_dense_row, _sparse_row, _action_row, _sparse_action_row), strict=True)))


# Quadratic forms ``x' M_a x`` of symmetric matrices, one per action. A matrix is packed into a column of
# ``d (d + 1) / 2`` entries (off-diagonal entries doubled), so that the form is a dot product with the products
# ``x_j x_i``, ``i <= j``.


def packed_size(n_features: int) -> int:
    """Number of entries of a packed symmetric matrix.

    >>> packed_size(3)
    6
    """
    return n_features * (n_features + 1) // 2


@inlined
def write_products(row: FloatArray, out: FloatArray) -> None:
    """Write ``x_j x_i``, ``i <= j``, into ``out``.

    >>> import numpy as np
    >>> out = np.zeros(3)
    >>> write_products(np.array([2.0, 3.0]), out)
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
def pack_matrix(matrix: FloatArray, packed: FloatArray, column: int) -> None:
    """Write a symmetric matrix into a column of ``packed``.

    >>> import numpy as np
    >>> packed = np.zeros((3, 1))
    >>> pack_matrix(np.array([[1.0, 0.5], [0.5, 4.0]]), packed, 0)
    >>> packed[:, 0]
    array([1., 1., 4.])
    """
    first = 0
    for j in range(matrix.shape[0]):
        for i in range(j):
            packed[first + i, column] = matrix[j, i] + matrix[i, j]
        packed[first + j, column] = matrix[j, j]
        first += j + 1


@inlined
def form_of_entries(packed: FloatArray, data: FloatArray, indices: IntArray, start: int, stop: int) -> float:
    """``x' M x`` of the sorted entries ``start..stop-1`` of x, with the bits of ``dot(packed, products)``.

    >>> import numpy as np
    >>> form_of_entries(np.array([1.0, 1.0, 4.0]), np.array([2.0, 3.0]), np.array([0, 1]), 0, 2)
    46.0
    """
    total, first, second = 0.0, 0.0, 0.0
    whole = packed.size - packed.size % 4
    group = -1
    for j in range(start, stop):
        row = indices[j] * (indices[j] + 1) // 2
        for i in range(start, j + 1):
            position = row + indices[i]
            term = packed[position] * (data[j] * data[i])
            if position >= whole:
                total += first + second
                total += term
                first, second = 0.0, 0.0
                continue
            if position // 4 != group:
                total += first + second
                first, second, group = 0.0, 0.0, position // 4
            if position % 4 < 2:
                first += term
            else:
                second += term
    return total + (first + second)


def add_quadratic_forms(view: View, k: int, packed: FloatArray, products: FloatArray, out: FloatArray) -> None:
    """Add ``x' M_a x`` to ``out[a]`` for every action, in compiled code only; ``products`` is scratch.

    Column 0 of ``packed`` serves all actions if contexts are features of each action.
    """
    raise NotImplementedError("add_quadratic_forms runs inside compiled code")


def quadratic_form(view: View, k: int, action: int, packed: FloatArray, products: FloatArray) -> float:
    """``x' M_action x``, with the bits of ``add_quadratic_forms``. Compiled code only."""
    raise NotImplementedError("quadratic_form runs inside compiled code")


def _dense_forms(view: Any, k: int, packed: FloatArray, products: FloatArray, out: FloatArray) -> None:
    write_products(view.x[k], products)
    add_products(packed, products, out)


def _sparse_forms(view: Any, k: int, packed: FloatArray, products: FloatArray, out: FloatArray) -> None:
    # needs sorted features without duplicates, which view_of ensures
    for j in range(view.indptr[k], view.indptr[k + 1]):
        first = view.indices[j] * (view.indices[j] + 1) // 2
        for i in range(view.indptr[k], j + 1):
            product = view.data[j] * view.data[i]
            for a in range(out.size):
                out[a] += packed[first + view.indices[i], a] * product


def _action_forms(view: Any, k: int, packed: FloatArray, products: FloatArray, out: FloatArray) -> None:
    for a in range(out.size):
        write_products(view.x[k, a], products)
        out[a] += dot(packed[:, 0], products)


def _sparse_action_forms(view: Any, k: int, packed: FloatArray, products: FloatArray, out: FloatArray) -> None:
    for a in range(out.size):
        row = k * view.n_actions + a
        out[a] += form_of_entries(packed[:, 0], view.data, view.indices, view.indptr[row], view.indptr[row + 1])


def _dense_form(view: Any, k: int, action: int, packed: FloatArray, products: FloatArray) -> float:
    write_products(view.x[k], products)
    return dot(packed[:, action], products)


def _sparse_form(view: Any, k: int, action: int, packed: FloatArray, products: FloatArray) -> float:
    total = 0.0
    for j in range(view.indptr[k], view.indptr[k + 1]):
        first = view.indices[j] * (view.indices[j] + 1) // 2
        for i in range(view.indptr[k], j + 1):
            total += packed[first + view.indices[i], action] * (view.data[j] * view.data[i])
    return total


def _action_form(view: Any, k: int, action: int, packed: FloatArray, products: FloatArray) -> float:
    write_products(view.x[k, action], products)
    return dot(packed[:, 0], products)


def _sparse_action_form(view: Any, k: int, action: int, packed: FloatArray, products: FloatArray) -> float:
    row = k * view.n_actions + action
    return form_of_entries(packed[:, 0], view.data, view.indices, view.indptr[row], view.indptr[row + 1])


_compile_by_view(
    add_quadratic_forms,
    dict(zip(KINDS, (_dense_forms, _sparse_forms, _action_forms, _sparse_action_forms), strict=True)),
)
_compile_by_view(
    quadratic_form, dict(zip(KINDS, (_dense_form, _sparse_form, _action_form, _sparse_action_form), strict=True))
)
