"""Drift and serial dependence along a log; also decides what evaluator="auto" does."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from backcast._arrays import FloatArray, IntArray
from backcast.checks._evidence import SURE, balance_evidence
from backcast.checks.findings import Finding, Verdict
from backcast.log import Log

if TYPE_CHECKING:
    from backcast.checks.log import LogFacts

SEGMENTS = 10  # tenths of the log, which are compared with each other
SMALLEST_SHARE = 0.002  # of the variance between segments: drift below it is harmless, however certain
SMALLEST_CORRELATION = 0.05  # between neighbouring events: dependence below it is harmless
FEATURES = 20  # features of the context that are tested
# Values that differ from the most frequent one, and events of an action, from which the chi-square law is used: with
# 100 ones among 50,000 zeros its tail at 2.5e-6 is 2.3 times too small (exact), with 60 it is 3.1 times too small.
FEWEST_VALUES = 100
TAIL_FACTOR = 2  # by which p-values of the chi-square law are increased for that reason
STRATUM_EVENTS = 20  # events of an action from which its rewards are ranked among themselves
MOST_ACTIONS = 100  # the most frequent actions, whose rewards are tested separately
REMEDY = (
    "The log is not exchangeable: evaluate learning policies in log order (DRns), and fixed ones with intervals from "
    "Segments. If the order is known to matter, check(log, exchangeable=False) does not warn of it"
)


class Drift(NamedTuple):
    """Result of one test, or the strongest of several.

    ``evidence`` is in nats, after correction for the number of tests; ``share`` is the share of the variance that
    lies between segments (0 for serial dependence).
    """

    evidence: float
    share: float
    message: str

    @property
    def detected(self) -> bool:
        """Whether the evidence is enough for an alarm."""
        return self.evidence >= SURE


class LogDrift(NamedTuple):
    """Drift of the logger (actions and propensities) and of the rewards."""

    logger: Drift
    rewards: Drift

    @property
    def detected(self) -> list[str]:
        """Names of what drifts."""
        names = {"choices of the logger": self.logger, "rewards": self.rewards}
        return [name for name, drift in names.items() if drift.detected]


def find_drift(log: Log) -> LogDrift:
    """Test whether the logger or the rewards change along the log, which is in the order of time if it has times.

    Tenths of the log are compared by a chi-square test of the actions and by Kruskal-Wallis tests of the propensities
    and of the rewards. Rewards are ranked within their action, so that differences between actions do not hide a
    drift, and are tested for all actions together and for each separately, so that opposite drifts do not cancel.
    Each of the two results is a false alarm for about one exchangeable log in 100,000.

    >>> steady = Log(None, [0, 1] * 100, [0.0, 1.0, 1.0, 0.0] * 50, [0.5] * 200)
    >>> find_drift(steady).detected
    []
    >>> find_drift(Log(None, [0, 1] * 100, np.arange(200.0), [0.5] * 200)).detected
    ['rewards']
    """
    logger = [_detect_action_drift(log.columns.actions), detect_drift("propensities", log.columns.propensities)]
    rewards = _detect_reward_drift(log, log.columns.actions, log.columns.rewards)
    return LogDrift(_strongest(logger, "actions and propensities"), _strongest(rewards, "rewards"))


def segment_numbers(n: int) -> IntArray:
    """Return the number of the segment of each of n events.

    >>> np.bincount(segment_numbers(100)).tolist()
    [10, 10, 10, 10, 10, 10, 10, 10, 10, 10]
    """
    return np.arange(n) * SEGMENTS // n


def centred_ranks(columns: FloatArray) -> FloatArray:
    """Return the ranks of each column from -1/2 to 1/2; tied values share the mean of their ranks.

    >>> centred_ranks(np.array([3.0, 1.0, 1.0, 9.0]))
    array([ 0.125, -0.25 , -0.25 ,  0.375])
    """
    n = columns.shape[0]
    if columns.ndim > 1:
        ranks = np.empty(columns.shape)
        for j in range(columns.shape[1]):
            ranks[:, j] = _mean_ranks(columns[:, j])
    else:
        ranks = _mean_ranks(columns)
    return np.asarray((ranks - (n + 1) / 2) / n)


def _mean_ranks(column: FloatArray) -> FloatArray:
    """Return the ranks from 1 on, as ``scipy.stats.rankdata`` does; to import it takes a second."""
    order = np.argsort(column, kind="stable")
    in_order = column[order]
    is_first = np.append(True, in_order[1:] != in_order[:-1])[: column.size]
    group, ends = np.cumsum(is_first) - 1, np.append(np.flatnonzero(is_first), column.size)
    ranks = np.empty(column.size)
    ranks[order] = 0.5 * (ends[group] + ends[group + 1] + 1)
    return ranks


def detect_drift(name: str, column: FloatArray) -> Drift | None:
    """Test whether the ranks of a column, in time order, differ between segments (Kruskal, Wallis 1952).

    >>> detect_drift("rewards", np.arange(1000.0)).message
    'rewards drift: 99 % of the variance of their ranks lies between tenths of the log'
    """
    return _detect_segment_drift(name, centred_ranks(column), segment_numbers(column.size), _count_varied(column))


def _count_varied(column: FloatArray) -> int:
    """Return the number of values that differ from the most frequent one."""
    return int(column.size - np.unique(column, return_counts=True)[1].max(initial=0))


def _detect_segment_drift(name: str, scores: FloatArray, segments: IntArray, varied: int) -> Drift | None:
    """Kruskal-Wallis test with given centred scores, of which ``varied`` differ from the most frequent value."""
    if varied < FEWEST_VALUES:
        return None
    sums, sizes = np.bincount(segments, weights=scores), np.bincount(segments)
    share = float((np.square(sums) / np.maximum(sizes, 1)).sum() / (scores @ scores))  # H over n - 1
    evidence = _chi_square_evidence(share * (scores.size - 1), int((sizes > 0).sum()) - 1)
    message = f"{name} drift: {100 * share:.2g} % of the variance of their ranks lies between tenths of the log"
    return Drift(evidence if share >= SMALLEST_SHARE else 0.0, share, message)


def _detect_reward_drift(log: Log, actions: IntArray, rewards: FloatArray) -> list[Drift | None]:
    """Test rewards, ranked within their action, for drift: all, those of each action, and for serial dependence."""
    counts = np.bincount(actions)
    frequent = np.argsort(-counts, kind="stable")[:MOST_ACTIONS]
    frequent = frequent[counts[frequent] >= STRATUM_EVENTS]
    strata = [(f"rewards of action {log.action_labels[action]!r}", actions == action) for action in frequent.tolist()]
    strata.append(("rewards of rare actions", ~np.isin(actions, frequent)))
    segments, scores = segment_numbers(rewards.size), np.empty(rewards.size)
    tests, varied = [], 0
    for name, rows in strata:
        scores[rows], stratum_varied = centred_ranks(rewards[rows]), _count_varied(rewards[rows])
        tests.append(_detect_segment_drift(name, scores[rows], segments[rows], stratum_varied))
        varied += stratum_varied
    return [*tests, _detect_segment_drift("rewards", scores, segments, varied), _detect_dependence("rewards", scores)]


def _detect_action_drift(actions: IntArray) -> Drift | None:
    """Chi-square test of actions by segments; actions that are too rare for its law are counted as one."""
    counts = np.bincount(actions)
    codes = np.where(counts < FEWEST_VALUES, counts.size, np.arange(counts.size))[actions]
    kinds = np.unique(codes, return_inverse=True)[1]
    table = np.zeros((int(kinds.max()) + 1, SEGMENTS))
    np.add.at(table, (kinds, segment_numbers(actions.size)), 1.0)
    table = table[table.sum(axis=1) >= FEWEST_VALUES]
    if len(table) < 2:
        return None
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0) / table.sum()
    statistic = float((np.square(table - expected) / expected).sum())
    share = statistic / (actions.size * (len(table) - 1))
    evidence = _chi_square_evidence(statistic, (len(table) - 1) * (SEGMENTS - 1))
    message = "the shares of the actions differ between tenths of the log"
    return Drift(evidence if share >= SMALLEST_SHARE else 0.0, share, message)


def _detect_dependence(name: str, scores: FloatArray) -> Drift | None:
    """Test whether scores depend on those of the event before, by Bennett's inequality for their products.

    A normal approximation would be wrong for rare values: with 200 ones among 10,000 zeros it gives 15 times more
    false alarms than it should.
    """
    if scores.size < FEWEST_VALUES or not scores.any():
        return None
    product, square = float(scores[1:] @ scores[:-1]), float(scores @ scores)
    if abs(product) < SMALLEST_CORRELATION * square:
        return Drift(0.0, 0.0, name)
    largest = float(np.square(scores).max())
    variance = (square / scores.size) ** 2 * (scores.size - 1)
    evidence = float(balance_evidence(product / largest, variance / largest**2))
    return Drift(evidence, 0.0, f"{name} depend on the event before (correlation {product / square:.2f})")


def _chi_square_evidence(statistic: float, degrees: int) -> float:
    from scipy.special import chdtrc

    with np.errstate(divide="ignore"):
        return -float(np.log(chdtrc(degrees, statistic))) - math.log(TAIL_FACTOR)


def _strongest(tests: list[Drift | None], what: str) -> Drift:
    """Return the test with the strongest evidence, corrected for the number of tests (Bonferroni)."""
    results = [test for test in tests if test is not None]
    if not results:
        return Drift(0.0, math.nan, f"too few events or values to test {what} for drift")
    strongest = max(results)
    evidence = strongest.evidence - math.log(len(results))
    return strongest._replace(
        evidence=evidence, message=strongest.message if evidence >= SURE else f"{what} do not drift along the log"
    )


def logger_drift(facts: LogFacts) -> Finding:
    """Check that actions and propensities do not drift."""
    return _drift_finding(facts, "logger_drift", facts.drift.logger)


def reward_drift(facts: LogFacts) -> Finding:
    """Check that rewards do not drift."""
    return _drift_finding(facts, "reward_drift", facts.drift.rewards)


def context_order(facts: LogFacts) -> Finding:
    """Check that contexts neither drift nor depend on the context before."""
    tests = []
    for name, column in facts.context_columns(FEATURES):
        tests += [detect_drift(name, column), _detect_dependence(name, centred_ranks(column))]
    return _drift_finding(facts, "context_order", _strongest(tests, "contexts"))


def _drift_finding(facts: LogFacts, name: str, drift: Drift) -> Finding:
    verdict: Verdict = "warn" if drift.detected and facts.exchangeable else "ok"
    return Finding(name, verdict, drift.share, drift.message, REMEDY if verdict == "warn" else "")
