"""Checks of rewards (range, scale, leaks into the context) and of duplicate events."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from backcast._arrays import BoolArray, Contexts, FloatArray, IntArray, is_sparse
from backcast.checks._drift import centred_ranks, detect_drift, segment_numbers
from backcast.checks._evidence import SURE, hits_evidence
from backcast.checks.findings import Finding
from backcast.diagnostics import TOP_EVENTS, TOP_SHARE, share_of_largest

if TYPE_CHECKING:
    from backcast.checks.log import LogFacts

NARROW_SHARE = 0.01  # of the declared range: rewards that fill less of it do not fit it
SPREAD_RATIO = 3.0  # largest ratio of spreads along the log
LEAK_EVENTS, LEAK_FEATURES = 10_000, 1_000  # most events and features that are tested for a leak
LEAKS_SHOWN = 3
FEWEST_VARIED = 20  # rewards other than the most frequent one, from which a leak can be detected
LEAK, BINARY_LEAK = 0.99, 0.98  # association with the reward that is a leak
PREDICTED, DOUBTFUL = 0.99, 0.9  # share of other rewards that a predictor shows, and that must be excluded by chance
BASE = np.uint64(0x9E3779B97F4A7C15)  # of polynomial hashes of stretches: odd, of no regular bits
DUPLICATES, MANY_DUPLICATES = 0.001, 0.05  # share of the log from which copies matter, and from which they spoil it


def reward_range(facts: LogFacts) -> Finding:
    """Check that rewards differ and fill the declared range."""
    low, high = float(facts.log.columns.rewards.min()), float(facts.log.columns.rewards.max())
    message = f"rewards lie between {low:.4g} and {high:.4g}"
    if low == high and facts.n > 1:
        return Finding("reward_range", "warn", low, f"every reward is {low:.4g}", "Is this the column of the reward?")
    declared = facts.log.reward_range
    if declared is not None and high - low < NARROW_SHARE * (declared[1] - declared[0]):
        message += f", a hundredth of the declared range {declared} or less"
        remedy = "Declare the range of the rewards as they are recorded: bounds are as wide as it is"
        return Finding("reward_range", "warn", high - low, message, remedy)
    return Finding("reward_range", "ok", high - low, message)


def reward_scale(facts: LogFacts) -> Finding:
    """Check that the unit of rewards does not change along the log: their spread changes by a factor."""
    rewards = facts.log.columns.rewards
    deviations = np.abs(rewards - np.median(rewards))
    drift = detect_drift("deviations of rewards", deviations)
    if drift is None:
        return Finding("reward_scale", "ok", math.nan, "too few events or values to test the scale of rewards")
    segments = segment_numbers(facts.n)
    spread = np.bincount(segments, weights=deviations) / np.bincount(segments)
    ratio = float(spread.max() / spread.min()) if spread.min() > 0 else math.inf
    if ratio < SPREAD_RATIO or not drift.detected:
        return Finding("reward_scale", "ok", ratio, "the scale of rewards does not change along the log")
    message = f"the spread of rewards is {spread.min():.3g} in one tenth of the log and {spread.max():.3g} in another"
    remedy = "Did the unit or the definition of the reward change? Convert all rewards to one scale, or split the log"
    return Finding("reward_scale", "fail", ratio, message, remedy)


def reward_leak(facts: LogFacts) -> Finding:
    """Check that no feature of the context determines the reward."""
    n = min(facts.n, LEAK_EVENTS)
    rows = np.arange(n) * facts.n // n
    rewards = facts.log.columns.rewards[rows]
    values, counts = np.unique(rewards, return_counts=True)
    if facts.log.n_features == 0 or n - counts.max() < FEWEST_VARIED:
        return Finding("reward_leak", "ok", math.nan, "too few features or different rewards to detect a leak")
    associations = _associate_features(facts, rows, rewards)
    feature = int(associations.argmax())
    figure = float(associations[feature])
    remedy = "Was it known before the action was taken? If not, remove it from the context"
    if figure >= (BINARY_LEAK if values.size == 2 else LEAK):
        name = facts.log.feature_name(feature)
        message = f"{name!r} determines the reward almost surely (association {figure:.3f})"
        return Finding("reward_leak", "warn", figure, message, remedy)
    predictors = _find_leaks(facts, rows, rewards)
    if not predictors.size:
        return Finding("reward_leak", "ok", figure, "no feature determines the reward")
    names = ", ".join(repr(facts.log.feature_name(feature)) for feature in predictors[:LEAKS_SHOWN].tolist())
    usual = float(values[counts.argmax()])
    message = f"where {names} has an unusual value, the reward is other than {usual:.4g} almost surely"
    return Finding("reward_leak", "warn", figure, message, remedy)


def _find_leaks(facts: LogFacts, rows: IntArray, rewards: FloatArray) -> IntArray:
    contexts = facts.log.columns.contexts
    if is_sparse(contexts):
        selected: Any = contexts[rows]
        marked = selected != 0
        hits = marked.T @ _uncommon(rewards).astype(np.float64)
        return _select_predictors(marked.sum(axis=0), hits, rewards, contexts.shape[1])
    table = np.asarray(contexts)
    columns = table[rows, facts.log.columns.actions[rows]] if table.ndim == 3 else table[rows]
    return find_predictors(columns[:, :LEAK_FEATURES], rewards)


def find_predictors(columns: FloatArray, rewards: FloatArray) -> IntArray:
    """Return the features whose uncommon values come with an uncommon reward almost surely, as revenue with a click.

    A feature counts if most of its values are the same, at least 99 % of the events with another value have another
    reward than the most frequent one, at most half of the other events do, and a true share of 90 % or less is
    excluded by Chernoff's bound with odds of ``ODDS`` over all features.

    >>> revenue = np.repeat([0.0, 1.5], [900, 200])
    >>> find_predictors(revenue[:, None], (revenue > 0) | (np.arange(1100) % 9 == 0))
    array([0])
    """
    # If more than half of the values are the same, they are the median.
    marked = columns != np.median(columns, axis=0)
    hits = marked.T @ _uncommon(rewards).astype(np.float64)
    return _select_predictors(marked.sum(axis=0), hits, rewards, columns.shape[1])


def _uncommon(rewards: FloatArray) -> BoolArray:
    """Return which rewards differ from the most frequent one."""
    values, counts = np.unique(rewards, return_counts=True)
    return np.asarray(rewards != values[counts.argmax()])


def _select_predictors(marked: Any, hits: Any, rewards: FloatArray, n_tests: int) -> IntArray:
    n, total = rewards.size, float(_uncommon(rewards).sum())
    marked, hits = np.asarray(marked, dtype=np.float64).ravel(), np.asarray(hits, dtype=np.float64).ravel()
    share = np.divide(hits, marked, out=np.zeros_like(hits), where=marked > 0)
    others = np.divide(total - hits, n - marked, out=np.ones_like(hits), where=marked < n)
    # Chernoff's bound for a share of DOUBTFUL: marked times the Kullback-Leibler divergence
    miss = np.clip(1 - share, 1e-300, None)
    divergence = share * np.log(np.clip(share, 1e-300, None) / DOUBTFUL) + miss * np.log(miss / (1 - DOUBTFUL))
    is_sure = marked * divergence - math.log(max(1, n_tests)) >= SURE
    return np.flatnonzero((share >= PREDICTED) & is_sure & (others <= 0.5) & (marked <= n / 2))


def _associate_features(facts: LogFacts, rows: IntArray, rewards: FloatArray) -> FloatArray:
    """Return how strongly each feature is associated with the reward, from 0 to 1."""
    contexts = facts.log.columns.contexts
    if is_sparse(contexts):
        return _correlate_columns(contexts[rows], rewards)
    table = np.asarray(contexts)
    # features of each action: those of the action taken
    columns = table[rows, facts.log.columns.actions[rows]] if table.ndim == 3 else table[rows]
    return rank_association(columns[:, :LEAK_FEATURES], rewards)


def rank_association(columns: FloatArray, target: FloatArray) -> FloatArray:
    """Return how surely each column orders the target, from 0 to 1.

    For a target of two values this is ``|2 AUC - 1|``, otherwise similar to Spearman's correlation.

    >>> rank_association(np.array([[1.0, 5.0], [2.0, 0.0], [3.0, 5.0]]), np.array([0.0, 0.0, 1.0])).round(9)
    array([1. , 0.5])
    """
    ranks = centred_ranks(target)
    square = float(ranks @ ranks)
    return np.abs(ranks @ centred_ranks(columns)) / square if square > 0 else np.zeros(columns.shape[1])


def _correlate_columns(matrix: Any, rewards: FloatArray) -> FloatArray:
    """Return the correlation of every sparse column with the rewards or with their ranks, whichever is larger."""
    mean = np.asarray(matrix.mean(axis=0)).ravel()
    variance = np.asarray(matrix.multiply(matrix).mean(axis=0)).ravel() - mean**2
    deviation = np.sqrt(np.maximum(variance, 0.0))
    correlations = np.zeros(mean.size)
    for target in (rewards - rewards.mean(), centred_ranks(rewards)):
        covariance = np.abs(np.asarray(matrix.T @ target).ravel()) / target.size
        scale = deviation * float(target.std())
        correlations = np.maximum(
            correlations, np.divide(covariance, scale, out=np.zeros_like(scale), where=scale > 1e-12)
        )
    return correlations


def duplicates(facts: LogFacts) -> Finding:
    """Check whether more events are copies than chance explains, by three tests.

    Of two consecutive events with the same context and time, the second repeats the action of the first with
    probability p, and a copy does so with probability 1: once for pairs that are equal in every column, once for their
    actions alone, which is sharper where many events have the same context. Third, stretches that repeat earlier ones.
    """
    log = facts.log
    times = log.columns.times
    hashes = _mix_columns(context_hashes(log.columns.contexts), [] if times is None else [times])
    order = np.argsort(hashes, kind="stable")
    same = hashes[order[:-1]] == hashes[order[1:]]
    first, second = order[:-1][same], order[1:][same]
    compared = [log.columns.actions, log.columns.rewards, log.columns.propensities]
    is_copy = [column[first] == column[second] for column in compared]
    p = log.columns.propensities[first]
    rows = _mix_columns(hashes, compared)
    n_equal = facts.n - np.unique(rows).size
    repeated = repeated_stretches(rows, log.columns.propensities)
    share, message = (
        float(repeated.sum()) / facts.n,
        f"{int(repeated.sum()):,} events repeat earlier stretches of the log",
    )
    for copies in (float(np.logical_and.reduce(is_copy).sum()), float(is_copy[0].sum())):
        # pairs that differ stand for 1/(1-p) pairs that are not copies
        different = float((1 - p).mean()) if p.size else 0.0
        not_copied = (p.size - copies) / different if different > 0 else float(p.size)
        pair_share = max(0.0, p.size - not_copied) / facts.n
        if hits_evidence(copies, p) - math.log(2) >= SURE and pair_share > share:
            share = pair_share
            message = (
                f"{copies:,.0f} events repeat another of the same context, but chance explains at most "
                f"{math.ceil(float(p.sum())):,}"
            )
    if share < DUPLICATES:
        message = f"{n_equal:,} events equal an earlier one in every column"
        # copies that are scattered among events of equal contexts have no trace of their own
        message += ", which may be chance" if n_equal else ""
        return Finding("duplicates", "ok", share, message)
    message += f"; {n_equal:,} events equal an earlier one in every column"
    remedy = "Drop the copies: they make intervals too narrow, and a learning policy would see an event twice"
    return Finding("duplicates", "fail" if share >= MANY_DUPLICATES else "warn", share, message, remedy)


def _mix_columns(hashes: npt.NDArray[np.uint64], columns: list[npt.NDArray[Any]]) -> npt.NDArray[np.uint64]:
    """Return 64 bits per row of the contexts, given as hashes, and of these columns."""
    for column in columns:
        codes = np.unique(column, return_inverse=True)[1].astype(np.uint64)
        hashes = _mix_bits(hashes ^ _mix_bits(codes + np.uint64(1)))
    return hashes


def repeated_stretches(rows: npt.NDArray[np.uint64], propensities: FloatArray) -> BoolArray:
    """Return the rows in stretches that repeat an earlier one, longer than chance allows; rows are given as hashes.

    A logger repeats the actions of an earlier stretch with probability ``prod p``, whatever the contexts, so that one
    of the at most n^2 pairs of stretches does so by chance with odds of ``ODDS`` if ``-sum log p`` exceeds
    ``SURE + 2 log n``. Rows are compared in windows of the length that reaches this on average.

    >>> rows = np.arange(100, dtype=np.uint64)
    >>> int(repeated_stretches(np.concatenate([rows, rows[:60]]), np.full(160, 0.5)).sum())
    60
    """
    n, surprise = rows.size, -np.log(propensities)
    needed = SURE + 2 * math.log(n)
    length = math.ceil(needed / float(surprise.mean())) if surprise.any() else n
    is_repeated = np.zeros(n, dtype=np.bool_)
    if 2 * length > n:
        return is_repeated
    # A polynomial in an odd base, modulo 2^64: the base has an inverse, so that windows are differences of sums.
    powers = np.full(n, BASE, dtype=np.uint64)
    powers[0] = 1
    powers = np.cumprod(powers, dtype=np.uint64)
    inverses = np.full(n, pow(int(BASE), -1, 2**64), dtype=np.uint64)
    inverses[0] = 1
    inverses = np.cumprod(inverses, dtype=np.uint64)
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(rows * powers, dtype=np.uint64)])
    windows = (sums[length:] - sums[:-length]) * inverses[: n - length + 1]
    evidence = np.convolve(surprise, np.ones(length), mode="valid")
    order = np.argsort(windows, kind="stable")
    later = order[1:][windows[order[1:]] == windows[order[:-1]]]
    starts = np.zeros(n + 1)
    np.add.at(starts, later[evidence[later] >= needed], 1.0)
    np.subtract.at(starts, later[evidence[later] >= needed] + length, 1.0)
    return np.asarray(np.cumsum(starts[:-1]) > 0)


def reward_concentration(facts: LogFacts) -> Finding:
    """Check that no few events have most of the weighted rewards: estimates would rest on them."""
    weighted = np.abs(facts.log.columns.rewards) * facts.inverse
    share = share_of_largest(weighted)
    if share == 0.0:
        return Finding("reward_concentration", "ok", math.nan, "too few events or rewards to compare them")
    message = f"the {TOP_EVENTS} largest events carry {100 * share:.2g} % of the sum of |reward|/p"
    if share < TOP_SHARE:
        return Finding("reward_concentration", "ok", share, message)
    largest = int(weighted.argmax())
    row, reward = int(facts.log.columns.rows[largest]), float(facts.log.columns.rewards[largest])
    message += f"; the largest is row {row}, of reward {reward:.4g}"
    remedy = (
        "Are they right? If so, values rest on single events: clip the reward, or declare reward_range and use bounds"
    )
    return Finding("reward_concentration", "warn", share, message, remedy)


def context_hashes(contexts: Contexts) -> npt.NDArray[np.uint64]:
    """Return 64 bits per row: equal for equal rows, and almost surely different for different ones.

    >>> hashes = context_hashes(np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]]))
    >>> bool(hashes[0] == hashes[2]), bool(hashes[0] == hashes[1])
    (True, False)
    """
    if is_sparse(contexts):
        canonical = contexts.copy()
        canonical.sum_duplicates()
        canonical.eliminate_zeros()
        entries = _mix_bits(_bits(canonical.data) ^ _mix_bits(canonical.indices.astype(np.uint64) + np.uint64(1)))
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(entries, dtype=np.uint64)])
        return np.asarray(sums[canonical.indptr[1:]] - sums[canonical.indptr[:-1]])
    table = np.asarray(contexts).reshape(contexts.shape[0], -1)
    hashes = np.zeros(table.shape[0], dtype=np.uint64)
    for column in range(table.shape[1]):
        hashes += _mix_bits(_bits(table[:, column]) ^ _mix_bits(np.full(1, column + 1, dtype=np.uint64)))
    return hashes


def _bits(values: FloatArray) -> npt.NDArray[np.uint64]:
    # adding 0 turns -0.0 into 0.0
    return np.ascontiguousarray(values + 0.0).view(np.uint64)


def _mix_bits(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Make every bit depend on all others (the finaliser of splitmix64, Steele et al. 2014)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
