"""The array types that signatures speak of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import scipy.sparse

__all__ = ["BoolArray", "Contexts", "FloatArray", "IntArray", "is_sparse"]

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
Contexts: TypeAlias = "FloatArray | scipy.sparse.csr_array[Any]"


def is_sparse(contexts: object) -> TypeGuard[scipy.sparse.csr_array[Any]]:
    """Whether contexts are a scipy sparse matrix, told without importing scipy.

    >>> is_sparse(np.zeros((1, 1)))
    False
    """
    return hasattr(contexts, "tocsr")
