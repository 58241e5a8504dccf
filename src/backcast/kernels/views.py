"""Contexts as compiled code sees them: dense, sparse, or features of each action, behind the same verbs."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numba.extending import overload

from backcast.arrays import BoolArray, Contexts, FloatArray, IntArray, is_sparse
from backcast.kernels.jit import ALWAYS_INLINE
from backcast.kernels.sums import add_products, dot

__all__ = [
    "ActionFeatures",
    "Dense",
    "Sparse",
    "View",
    "add_scores",
    "dot_column",
    "dot_row",
    "load_row",
    "mask_of",
    "view_of",
]


class Dense(NamedTuple):
    """One row of features an event, shared by all actions: ``(n, d)``."""

    x: FloatArray


class Sparse(NamedTuple):
    """One CSR row of features an event, shared by all actions; features in order, none twice."""

    data: FloatArray
    indices: IntArray
    indptr: IntArray


class ActionFeatures(NamedTuple):
    """One row of features for every action of every event: ``(n, K, d)``."""

    x: FloatArray


View: TypeAlias = Dense | Sparse | ActionFeatures

NO_MASK = np.ones((0, 0), dtype=np.bool_)


def view_of(contexts: Contexts) -> View:
    """Wrap contexts for compiled code.

    >>> view_of(np.zeros((2, 3))).x.shape
    (2, 3)
    """
    if is_sparse(contexts):
        return _sparse_view(contexts)
    array = np.require(contexts, dtype=np.float64, requirements=["C", "W"])
    return Dense(array) if array.ndim == 2 else ActionFeatures(array)


def _sparse_view(contexts: Any) -> Sparse:
    if not contexts.has_canonical_format:
        contexts = contexts.copy()
        contexts.sum_duplicates()
    columns = (contexts.data, np.float64), (contexts.indices, np.int64), (contexts.indptr, np.int64)
    return Sparse(*(np.require(column, dtype=dtype, requirements=["C", "W"]) for column, dtype in columns))


def mask_of(available: BoolArray | None) -> BoolArray:
    """The availability mask for compiled code; an empty one stands for "all actions, always"."""
    return NO_MASK if available is None else np.require(available, dtype=np.bool_, requirements=["C", "W"])


def add_scores(view: View, k: int, weights: FloatArray, out: FloatArray) -> None:
    """Add ``weights[:, a] . x`` to ``out[a]`` for every action, in compiled code only.

    Column 0 of ``weights`` serves all actions when each has features of its own.
    """
    raise NotImplementedError("add_scores runs inside compiled code")


def dot_row(view: View, k: int, action: int, weights: FloatArray) -> float:
    """``weights[:, action] . x``, with the bits of ``add_scores``. Compiled code only."""
    raise NotImplementedError("dot_row runs inside compiled code")


def dot_column(view: View, action: int, weights: FloatArray, out: FloatArray) -> None:
    """``dot_row`` of one action at every event, in one sweep. Compiled code only."""
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


def _dense_dot(view: Any, k: int, action: int, weights: FloatArray) -> float:
    return dot(weights[:, action], view.x[k])


def _sparse_dot(view: Any, k: int, action: int, weights: FloatArray) -> float:
    total = 0.0
    for i in range(view.indptr[k], view.indptr[k + 1]):
        total += weights[view.indices[i], action] * view.data[i]
    return total


def _action_dot(view: Any, k: int, action: int, weights: FloatArray) -> float:
    return dot(weights[:, 0], view.x[k, action])


def _dense_column(view: Any, action: int, weights: FloatArray, out: FloatArray) -> None:
    x, column = view.x, weights[:, action].copy()
    for k in range(out.size):
        out[k] = dot(column, x[k])


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


_SCORES = {Dense: _dense_scores, Sparse: _sparse_scores, ActionFeatures: _action_scores}
_DOTS = {Dense: _dense_dot, Sparse: _sparse_dot, ActionFeatures: _action_dot}
_COLUMNS = {Dense: _dense_column, Sparse: _any_column, ActionFeatures: _any_column}
_ROWS = {Dense: _dense_row, Sparse: _sparse_row, ActionFeatures: _action_row}


@overload(add_scores, strict=False, jit_options=ALWAYS_INLINE)  # type: ignore[untyped-decorator]  # numba has no types
def _add_scores(view: Any, k: Any, weights: Any, out: Any) -> Any:
    return _SCORES[view.instance_class]


@overload(dot_row, strict=False, jit_options=ALWAYS_INLINE)  # type: ignore[untyped-decorator]  # numba has no types
def _dot_row(view: Any, k: Any, action: Any, weights: Any) -> Any:
    return _DOTS[view.instance_class]


@overload(dot_column, strict=False, jit_options=ALWAYS_INLINE)  # type: ignore[untyped-decorator]  # numba has no types
def _dot_column(view: Any, action: Any, weights: Any, out: Any) -> Any:
    return _COLUMNS[view.instance_class]


@overload(load_row, strict=False, jit_options=ALWAYS_INLINE)  # type: ignore[untyped-decorator]  # numba has no types
def _load_row(view: Any, k: Any, action: Any, row: Any) -> Any:
    return _ROWS[view.instance_class]
