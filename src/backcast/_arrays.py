"""Array types, and helpers for arrays that are dense or sparse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import scipy.sparse


FloatArray: TypeAlias = npt.NDArray[np.float64]
SingleArray: TypeAlias = npt.NDArray[np.float32]
IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
Contexts: TypeAlias = "FloatArray | scipy.sparse.csr_array[Any]"


def is_sparse(contexts: object) -> TypeGuard[scipy.sparse.csr_array[Any]]:
    """Return whether contexts are a scipy sparse matrix, without importing scipy.

    >>> is_sparse(np.zeros((1, 1)))
    False
    """
    return hasattr(contexts, "tocsr")


def concat_contexts(parts: list[Contexts]) -> Contexts:
    """Concatenate contexts, dense or sparse.

    >>> concat_contexts([np.zeros((1, 2)), np.ones((2, 2))]).shape
    (3, 2)
    """
    if len(parts) == 1:
        return parts[0]
    if is_sparse(parts[0]):
        import scipy.sparse

        blocks: Any = parts
        return scipy.sparse.csr_array(scipy.sparse.vstack(blocks))
    return np.concatenate([np.asarray(part) for part in parts])


def as_kernel_array(column: npt.NDArray[Any], dtype: npt.DTypeLike = np.float64) -> npt.NDArray[Any]:
    """Return the array in the memory layout that kernels are compiled for (copied only if it has another)."""
    return np.require(column, dtype=dtype, requirements=["C", "W"])
