"""Rewards: their range, their scale along the log, and whether a context tells them in advance."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from backcast._arrays import BoolArray, Contexts, FloatArray, IntArray, is_sparse
from backcast.checks._drift import centred_ranks, detect_drift, segment_numbers
from backcast.checks._evidence import SURE, hits_evidence
from backcast.checks.findings import Finding

if TYPE_CHECKING:
    from backcast.checks.log import LogFacts

UNUSED = 0.01  # share of the declared range that rewards fill


TIMES = 3.0  # by which spreads may differ along the log


ROWS, FEATURES = 10_000, 1_000


FEWEST = 20  # events of the rarer reward from which a leak can be told


KNOWN, KNOWN_BETWEEN_TWO = 0.99, 0.98


def reward_range(facts: LogFacts) -> Finding:
    """Rewards differ, and fill the range that was declared for them."""
    low, high = float(facts.log._rewards.min()), float(facts.log._rewards.max())
    message = f"rewards lie between {low:.4g} and {high:.4g}"
    if low == high and facts.n > 1:
        return Finding("reward_range", "warn", low, f"every reward is {low:.4g}", "Is this the column of the reward?")
    if facts.log.reward_range is not None:
        width = facts.log.reward_range[1] - facts.log.reward_range[0]
        if high - low < UNUSED * width:
            message += f", a hundredth of the declared range {facts.log.reward_range} or less"
            remedy = "Declare the range of the rewards as they are recorded: bounds are as wide as it is"
            return Finding("reward_range", "warn", high - low, message, remedy)
    return Finding("reward_range", "ok", high - low, message)


def reward_scale(facts: LogFacts) -> Finding:
    """Rewards keep their unit along the log: their spread does not change by a factor."""
    rewards = facts.log._rewards[facts.order]
    size = np.abs(rewards - np.median(rewards))
    drift = detect_drift("distances of rewards from their median", size)
    if drift is None:
        return Finding("reward_scale", "ok", math.nan, "too few events or values to test the scale of rewards")
    segments = segment_numbers(facts.n)
    spread = np.bincount(segments, weights=size) / np.bincount(segments)
    ratio = float(spread.max() / spread.min()) if spread.min() > 0 else math.inf
    if ratio < TIMES or not drift.detected:
        return Finding("reward_scale", "ok", ratio, "rewards keep their scale along the log")
    message = f"the spread of rewards is {spread.min():.3g} in one tenth of the log and {spread.max():.3g} in another"
    remedy = "Was the unit of the reward changed, or its definition? Bring all rewards to one scale, or cut the log"
    return Finding("reward_scale", "fail", ratio, message, remedy)


def reward_leak(facts: LogFacts) -> Finding:
    """No feature of the context tells the reward that came afterwards."""
    rows = np.arange(min(facts.n, ROWS)) * facts.n // min(facts.n, ROWS)
    rewards = facts.log._rewards[rows]
    values, often = np.unique(rewards, return_counts=True)
    if facts.log.n_features == 0 or rows.size - often.max() < FEWEST:
        return Finding("reward_leak", "ok", math.nan, "too few features or different rewards to tell")
    told = _told(facts, rows, rewards)
    worst = int(told.argmax())
    if told[worst] < (KNOWN_BETWEEN_TWO if values.size == 2 else KNOWN):
        return Finding("reward_leak", "ok", float(told[worst]), "no feature tells the reward")
    message = f"feature {worst} tells the reward almost surely (association {told[worst]:.3f})"
    remedy = "Was it known before the action was taken? If not, leave it out of the context"
    return Finding("reward_leak", "warn", float(told[worst]), message, remedy)


def _told(facts: LogFacts, rows: IntArray, rewards: FloatArray) -> FloatArray:
    """How surely each feature tells the reward, from 0 to 1."""
    contexts = facts.log._contexts
    if is_sparse(contexts):
        return _correlations(contexts[rows], rewards)
    table = np.asarray(contexts)
    # features of each action: those of the one taken
    own = table[rows, facts.log._actions[rows]] if table.ndim == 3 else table[rows]
    return association_with(own[:, :FEATURES], rewards)


def association_with(columns: FloatArray, target: FloatArray) -> FloatArray:
    """How surely each column orders the target, from 0 to 1: for two values ``|2 AUC - 1|``, else like Spearman's.

    >>> association_with(np.array([[1.0, 5.0], [2.0, 0.0], [3.0, 5.0]]), np.array([0.0, 0.0, 1.0])).round(9)
    array([1. , 0.5])
    """
    goal = centred_ranks(target)
    spread = float(goal @ goal)
    if spread == 0:
        return np.zeros(columns.shape[1])
    return np.asarray(np.abs(goal @ centred_ranks(columns)) / spread)


def _correlations(matrix: Any, rewards: FloatArray) -> FloatArray:
    """Correlation of every sparse column with the rewards or their ranks, whichever is larger."""
    mean = np.asarray(matrix.mean(axis=0)).ravel()
    variance = np.asarray(matrix.multiply(matrix).mean(axis=0)).ravel() - mean**2
    scale = np.sqrt(np.maximum(variance, 0.0))
    found = np.zeros(mean.size)
    for target in (rewards - rewards.mean(), centred_ranks(rewards)):
        covariance = np.asarray(matrix.T @ target).ravel() / target.size
        size = scale * float(target.std())
        found = np.maximum(found, np.abs(np.divide(covariance, size, out=np.zeros_like(size), where=size > 1e-12)))
    return found


FEW, MANY = 0.001, 0.05  # share of the log from which copies matter, and from which they spoil it


def duplicates(facts: LogFacts) -> Finding:
    """Of two events in a row with one context the second repeats the first's action with chance p, a copy for sure."""
    hashes = context_hashes(facts.log._contexts)
    order = np.argsort(hashes, kind="stable")
    first, second = order[:-1], order[1:]
    same = hashes[first] == hashes[second]
    first, second = first[same], second[same]
    copies = float(_equal(facts, first, second).sum())
    eligible_counts = facts.log._propensities[first]
    share = _share(first.size, copies, eligible_counts) / facts.n
    if hits_evidence(copies, eligible_counts) < SURE or share < FEW:
        message = "no more events repeat another than chance explains"
        return Finding("duplicates", "ok", share, message)
    message = (
        f"{copies:,.0f} events repeat another of the same context in every column, where chance explains at most "
        f"{math.ceil(float(eligible_counts.sum())):,}"
    )
    remedy = "Drop the copies: they make intervals too narrow, and a learning policy would see an event twice"
    return Finding("duplicates", "fail" if share >= MANY else "warn", share, message, remedy)


def _share(pairs: int, copies: float, eligible_counts: FloatArray) -> float:
    """How many pairs are copies: those that differ stand for ``1/(1-p)`` honest ones each."""
    differ = float((1 - eligible_counts).mean()) if pairs else 0.0
    honest = (pairs - copies) / differ if differ > 0 else float(pairs)
    return max(0.0, pairs - honest)


def _equal(facts: LogFacts, first: npt.NDArray[np.int64], second: npt.NDArray[np.int64]) -> BoolArray:
    log = facts.log
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
