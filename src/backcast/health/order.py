"""Does the order of the log matter? Drift of the logger, of rewards, of contexts; and events that follow each other."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from backcast.arrays import FloatArray, IntArray
from backcast.health.case import Case
from backcast.health.evidence import SURE
from backcast.health.findings import Finding, Verdict
from backcast.health.ranks import drift_share, step_correlation

__all__ = ["ENOUGH", "column_drift", "context_order", "logger_drift", "reward_drift", "segments_of"]

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


def logger_drift(case: Case) -> Finding:
    """Actions and propensities are alike in all stretches of the log."""
    found = [_action_drift(case), column_drift("propensities", case.log._propensities[case.order])]
    return _verdict(case, "logger_drift", found, "actions and propensities")


def reward_drift(case: Case) -> Finding:
    """Rewards are alike in all stretches of the log."""
    rewards = case.log._rewards[case.order]
    return _verdict(case, "reward_drift", [column_drift("rewards", rewards), _step("rewards", rewards)], "rewards")


def context_order(case: Case) -> Finding:
    """Contexts are alike in all stretches of the log, and do not depend on the one before."""
    columns = [(name, column[case.order]) for name, column in case.context_columns(FEATURES)]
    found = [test for name, column in columns for test in (column_drift(name, column), _step(name, column))]
    return _verdict(case, "context_order", found, "contexts")


def _verdict(case: Case, name: str, found: list[Drift], what: str) -> Finding:
    surest = max(found, default=Drift(0.0, 0.0, what))
    if case.n < ENOUGH:
        return Finding(name, "ok", math.nan, "too few events to tell whether the log drifts")
    if surest.evidence - math.log(max(len(found), 1)) < SURE:
        return Finding(name, "ok", surest.share, f"{what} are alike along the log")
    verdict: Verdict = "warn" if case.exchangeable else "ok"
    return Finding(name, verdict, surest.share, surest.what, ORDERED if case.exchangeable else "")


def _action_drift(case: Case) -> Drift:
    """Chi-square of actions by stretches; actions too rare for its law are put together."""
    rare = case.counts < ENOUGH
    codes = np.where(rare, case.log.n_actions, np.arange(case.log.n_actions))[case.log._actions[case.order]]
    kinds = np.unique(codes, return_inverse=True)[1]
    table = np.zeros((int(kinds.max()) + 1, SEGMENTS))
    np.add.at(table, (kinds, segments_of(case.n)), 1.0)
    table = table[table.sum(axis=1) >= ENOUGH]
    if len(table) < 2:
        return Drift(0.0, 0.0, "actions")
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0) / table.sum()
    statistic = float((np.square(table - expected) / expected).sum())
    share = statistic / (case.n * (len(table) - 1))
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
