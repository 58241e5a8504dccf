"""Ranks and what they tell: association, drift and dependence, whatever the scale of a column."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from backcast._arrays import FloatArray, IntArray
from backcast.checks._evidence import SURE
from backcast.checks.findings import Finding, Verdict

if TYPE_CHECKING:
    from backcast.checks.log import LogFacts


def ranks(columns: FloatArray) -> FloatArray:
    """Ranks of each column from -1/2 to 1/2, ties sharing theirs.

    >>> ranks(np.array([3.0, 1.0, 1.0, 9.0]))
    array([ 0.125, -0.25 , -0.25 ,  0.375])
    """
    from scipy.stats import rankdata

    n = columns.shape[0]
    return np.asarray((rankdata(columns, axis=0) - (n + 1) / 2) / n)


def rank_correlation(first: FloatArray, second: FloatArray) -> float:
    """Spearman's correlation, 0 where a column is constant.

    >>> round(rank_correlation(np.array([1.0, 2.0, 5.0]), np.array([1.0, 4.0, 9.0])), 9)
    1.0
    """
    a, b = ranks(first), ranks(second)
    size = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / size if size > 0 else 0.0


def association_with(columns: FloatArray, target: FloatArray) -> FloatArray:
    """How surely each column orders the target, from 0 to 1: for two values ``|2 AUC - 1|``, else like Spearman's.

    >>> association_with(np.array([[1.0, 5.0], [2.0, 0.0], [3.0, 5.0]]), np.array([0.0, 0.0, 1.0])).round(9)
    array([1. , 0.5])
    """
    goal = ranks(target)
    spread = float(goal @ goal)
    if spread == 0:
        return np.zeros(columns.shape[1])
    return np.asarray(np.abs(goal @ ranks(columns)) / spread)


def drift_share(column: FloatArray, segments: IntArray, n_segments: int) -> float:
    """Share of the variance of ranks that lies between segments: Kruskal and Wallis's H over n - 1.

    >>> drift_share(np.array([0.0, 0.0, 1.0, 1.0]), np.array([0, 0, 1, 1]), 2)
    1.0
    """
    own = ranks(column)
    total = float(own @ own)
    if total == 0:
        return 0.0
    sums = np.bincount(segments, weights=own, minlength=n_segments)
    sizes = np.bincount(segments, minlength=n_segments)
    return float((np.square(sums) / np.maximum(sizes, 1)).sum()) / total


def step_correlation(column: FloatArray) -> float:
    """Correlation of ranks between an event and the next.

    >>> step_correlation(np.array([0.0, 1.0] * 50)) < -0.9
    True
    """
    own = ranks(column)
    total = float(own @ own)
    return float(own[1:] @ own[:-1]) / total if total > 0 else 0.0


SEGMENTS = 10


SHARE = 0.002  # of the variance between segments: less than this does no harm, however sure it is


STEP = 0.05  # correlation between neighbours that does no harm


FEATURES = 20


ENOUGH = 20 * SEGMENTS  # events, and takings of an action, for the large-sample laws to hold


ORDERED = (
    "The log is not exchangeable: evaluate learning policies in log order (DRns), and fixed ones with intervals from "
    "Segments. If the order is known to matter, check(log, exchangeable=False) says no more of it"
)


class Drift(NamedTuple):
    """The column that drifts most surely: evidence, share of its variance between segments (or 0), what it is."""

    evidence: float
    share: float
    what: str


def segments_of(n: int) -> IntArray:
    """Number of the stretch of each of n events in order.

    >>> np.bincount(segments_of(100)).tolist()
    [10, 10, 10, 10, 10, 10, 10, 10, 10, 10]
    """
    return np.arange(n) * SEGMENTS // n


def logger_drift(facts: LogFacts) -> Finding:
    """Actions and propensities are alike in all stretches of the log."""
    found = [_action_drift(facts), column_drift("propensities", facts.log._propensities[facts.order])]
    return _verdict(facts, "logger_drift", found, "actions and propensities")


def reward_drift(facts: LogFacts) -> Finding:
    """Rewards are alike in all stretches of the log."""
    rewards = facts.log._rewards[facts.order]
    return _verdict(facts, "reward_drift", [column_drift("rewards", rewards), _step("rewards", rewards)], "rewards")


def context_order(facts: LogFacts) -> Finding:
    """Contexts are alike in all stretches of the log, and do not depend on the one before."""
    columns = [(name, column[facts.order]) for name, column in facts.context_columns(FEATURES)]
    found = [test for name, column in columns for test in (column_drift(name, column), _step(name, column))]
    return _verdict(facts, "context_order", found, "contexts")


def _verdict(facts: LogFacts, name: str, found: list[Drift], what: str) -> Finding:
    surest = max(found, default=Drift(0.0, 0.0, what))
    if facts.n < ENOUGH:
        return Finding(name, "ok", math.nan, "too few events to tell whether the log drifts")
    if surest.evidence - math.log(max(len(found), 1)) < SURE:
        return Finding(name, "ok", surest.share, f"{what} are alike along the log")
    verdict: Verdict = "warn" if facts.exchangeable else "ok"
    return Finding(name, verdict, surest.share, surest.what, ORDERED if facts.exchangeable else "")


def _action_drift(facts: LogFacts) -> Drift:
    """Chi-square of actions by stretches; actions too rare for its law are put together."""
    rare = facts.counts < ENOUGH
    codes = np.where(rare, facts.log.n_actions, np.arange(facts.log.n_actions))[facts.log._actions[facts.order]]
    kinds = np.unique(codes, return_inverse=True)[1]
    table = np.zeros((int(kinds.max()) + 1, SEGMENTS))
    np.add.at(table, (kinds, segments_of(facts.n)), 1.0)
    table = table[table.sum(axis=1) >= ENOUGH]
    if len(table) < 2:
        return Drift(0.0, 0.0, "actions")
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0) / table.sum()
    statistic = float((np.square(table - expected) / expected).sum())
    share = statistic / (facts.n * (len(table) - 1))
    evidence = _chi_square(statistic, (len(table) - 1) * (SEGMENTS - 1))
    return Drift(evidence if share >= SHARE else 0.0, share, "actions are taken in other shares as the log goes on")


def column_drift(name: str, column: FloatArray) -> Drift:
    """Do ranks of a column, in the order of the log, differ between its stretches (Kruskal, Wallis 1952)?

    >>> column_drift("rewards", np.arange(1000.0)).what
    'rewards drift: 99 % of the variance lies between tenths of the log'
    """
    _, often = np.unique(column, return_counts=True)
    share = drift_share(column, segments_of(column.size), SEGMENTS)
    # where nearly all values are tied, too few others are left for the law to hold
    if share < SHARE or column.size - often.max() < ENOUGH:
        return Drift(0.0, share, name)
    evidence = _chi_square(share * (column.size - 1), SEGMENTS - 1)
    return Drift(evidence, share, f"{name} drift: {100 * share:.2g} % of the variance lies between tenths of the log")


def _step(name: str, column: FloatArray) -> Drift:
    _, often = np.unique(column, return_counts=True)
    correlation = step_correlation(column)
    if abs(correlation) < STEP or column.size - often.max() < ENOUGH:
        return Drift(0.0, 0.0, name)
    evidence = _chi_square(column.size * correlation**2, 1)
    return Drift(evidence, 0.0, f"{name} depend on the event before (correlation {correlation:.2f})")


def _chi_square(statistic: float, freedom: int) -> float:
    from scipy.stats import chi2

    return -float(chi2.logsf(statistic, freedom))
