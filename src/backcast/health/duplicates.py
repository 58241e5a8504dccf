"""Events that were written twice."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from backcast.arrays import BoolArray, Contexts, FloatArray, is_sparse
from backcast.health.case import Case
from backcast.health.evidence import SURE, hits_evidence
from backcast.health.findings import Finding

__all__ = ["context_hashes", "duplicates"]

FEW, MANY = 0.001, 0.05  # share of the log from which copies matter, and from which they spoil it


def duplicates(case: Case) -> Finding:
    """Of two events in a row with one context the second repeats the first's action with chance p, a copy for sure."""
    hashes = context_hashes(case.log._contexts)
    order = np.argsort(hashes, kind="stable")
    first, second = order[:-1], order[1:]
    same = hashes[first] == hashes[second]
    first, second = first[same], second[same]
    copies = float(_equal(case, first, second).sum())
    chances = case.log._propensities[first]
    share = _share(first.size, copies, chances) / case.n
    if hits_evidence(copies, chances) < SURE or share < FEW:
        message = "no more events repeat another than chance explains"
        return Finding("duplicates", "ok", share, message)
    message = (
        f"{copies:,.0f} events repeat another of the same context in every column, where chance explains at most "
        f"{math.ceil(float(chances.sum())):,}"
    )
    remedy = "Drop the copies: they make intervals too narrow, and a learning policy would see an event twice"
    return Finding("duplicates", "fail" if share >= MANY else "warn", share, message, remedy)


def _share(pairs: int, copies: float, chances: FloatArray) -> float:
    """How many pairs are copies: those that differ stand for ``1/(1-p)`` honest ones each."""
    differ = float((1 - chances).mean()) if pairs else 0.0
    honest = (pairs - copies) / differ if differ > 0 else float(pairs)
    return max(0.0, pairs - honest)


def _equal(case: Case, first: npt.NDArray[np.int64], second: npt.NDArray[np.int64]) -> BoolArray:
    log = case.log
    equal = (
        (log._actions[first] == log._actions[second])
        & (log._rewards[first] == log._rewards[second])
        & (log._propensities[first] == log._propensities[second])
    )
    if log._times is not None:
        equal &= log._times[first] == log._times[second]
    return np.asarray(equal)


def context_hashes(contexts: Contexts) -> npt.NDArray[np.uint64]:
    """64 bits of each row: equal for equal rows, and different for different ones with near certainty.

    >>> hashes = context_hashes(np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]))
    >>> bool(hashes[0] == hashes[2]), bool(hashes[0] == hashes[1])
    (True, False)
    """
    if is_sparse(contexts):
        canonical = contexts.copy()
        canonical.sum_duplicates()
        canonical.eliminate_zeros()
        entries = _mixed(_bits(canonical.data) ^ _mixed(canonical.indices.astype(np.uint64) + np.uint64(1)))
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(entries, dtype=np.uint64)])
        return np.asarray(sums[canonical.indptr[1:]] - sums[canonical.indptr[:-1]])
    table = np.asarray(contexts).reshape(contexts.shape[0], -1)
    total = np.zeros(table.shape[0], dtype=np.uint64)
    for column in range(table.shape[1]):
        total += _mixed(_bits(table[:, column]) ^ _mixed(np.full(1, column + 1, dtype=np.uint64)))
    return total


def _bits(values: FloatArray) -> npt.NDArray[np.uint64]:
    # adding 0 makes one zero of the two
    return np.ascontiguousarray(values + 0.0).view(np.uint64)


def _mixed(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Scatter every bit over all others (the finaliser of splitmix64, Steele et al. 2014)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
