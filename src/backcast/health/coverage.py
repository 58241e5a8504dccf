"""Do the propensities add up? The harmonic mean, for all actions together, for each, and in every part of the log."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from backcast.arrays import FloatArray, IntArray
from backcast.health.case import Case
from backcast.health.evidence import (
    STAKES,
    SURE,
    excess_by_group,
    excess_evidence,
    log_mean_exp,
    shortfall_by_group,
    shortfall_evidence,
)
from backcast.health.findings import Finding

__all__ = ["action_coverage", "harmonic_mean", "missing_events"]

TOO_SMALL = (
    "Propensities are too small, or belong to something else than the actions: find where they are computed, "
    "or estimate them with with_estimated_propensities"
)
TOO_LITTLE = (
    "Were events dropped (of rare actions, or on a condition)? Is an action impossible in some contexts (then give "
    "the mask `available`)? If neither, propensities are too large"
)
SEGMENTS = 10
BINS = 4
FEATURES = 10


def harmonic_mean(case: Case) -> Finding:
    """``E[1/p]`` is the number of actions that the logger may choose."""
    per_event = float(case.inverse.mean())
    error = float(case.inverse.std() / math.sqrt(case.n))
    actions = float(case.supported.mean())
    message = f"the mean of 1/p is {per_event:.4g} ± {error:.2g} and {actions:.4g} actions could be chosen on average"
    figure = per_event / actions
    above = 0.0 if case.few_events else excess_evidence(_claimed(case))
    below = shortfall_evidence(case.inverse, float(case.supported.sum()), float(case.inverse.max()))
    if above >= SURE:
        return Finding("harmonic_mean", "fail", figure, message, TOO_SMALL)
    if below >= SURE:
        return Finding("harmonic_mean", "warn", figure, message, TOO_LITTLE)
    return Finding("harmonic_mean", "ok", figure, message)


def _claimed(case: Case) -> FloatArray:
    """``q/p`` for an even choice q among the eligible actions.

    An action seen once hints at others that were never seen, nor counted if nobody declared them: q leaves room.
    """
    claimed: FloatArray = case.inverse / (case.eligible + (case.counts == 1).sum())
    return claimed


def action_coverage(case: Case) -> Finding:
    """The mean of ``I(a)/p`` is 1 for every action, over the events at which it was eligible."""
    actions, k = case.log._actions, case.log.n_actions
    coverage = np.bincount(actions, weights=case.inverse, minlength=k) / np.maximum(case.chances, 1.0)
    judged = np.flatnonzero(case.seen)
    above = _action_excess(case)
    # what is rare somewhere may be rare here, and absent by chance: the largest of all, not that of the group
    below = shortfall_by_group(case.inverse, case.chances, actions, float(case.inverse.max())) - math.log(judged.size)
    short = judged[below[judged] >= SURE]
    worst = int(judged[np.abs(np.log(coverage[judged])).argmax()])
    if log_mean_exp(above) >= SURE:
        worst = int(above.argmax())
        message = f"the mean of I(a)/p is {coverage[worst]:.3g} for action {case.log.action_labels[worst]!r}, not 1"
        return Finding("action_coverage", "fail", float(coverage[worst]), message, TOO_SMALL)
    if short.size:
        worst = int(short[coverage[short].argmin()])
        message = (
            f"the mean of I(a)/p is {coverage[worst]:.3g} for action {case.log.action_labels[worst]!r}, not 1, "
            f"and below 1 for {short.size} of {judged.size} actions"
        )
        return Finding("action_coverage", "warn", float(coverage[worst]), message, TOO_LITTLE)
    message = f"the mean of I(a)/p is near 1 for each of {judged.size} actions"
    return Finding("action_coverage", "ok", float(coverage[worst]), message)


def _action_excess(case: Case) -> FloatArray:
    """Evidence against each action's propensities: ``1 + s (1/p - 1)`` where it was taken, ``1 - s`` elsewhere."""
    actions, k = case.log._actions, case.log.n_actions
    idle = case.chances - case.counts
    wealth = [
        np.bincount(actions, weights=np.log1p(stake * (case.inverse - 1.0)), minlength=k) + idle * math.log1p(-stake)
        for stake in STAKES
    ]
    return np.array([log_mean_exp(own) for own in np.transpose(wealth)])


def missing_events(case: Case) -> Finding:
    """The harmonic mean holds in every stretch of the log and every part of the contexts, unless events are missing."""
    parts = [part for name, groups in _cells(case) for part in _judged(case, name, groups)]
    above, below = max(parts, key=lambda part: part.above), max(parts, key=lambda part: part.below)
    tests = math.log(len(parts))
    if above.above - tests >= SURE:
        return Finding("missing_events", "fail", above.coverage, above.said(case), TOO_SMALL)
    if below.below - tests >= SURE:
        return Finding("missing_events", "warn", below.coverage, below.said(case), TOO_LITTLE)
    message = f"propensities account for all actions in {len(parts)} parts of the log and of its contexts"
    return Finding("missing_events", "ok", below.coverage, message)


class _Part(NamedTuple):
    """Part of the events: share of the actions that its propensities account for, evidence of too much, too little."""

    name: str
    coverage: float
    above: float
    below: float

    def said(self, case: Case) -> str:
        """In words."""
        lowest = float(case.log._propensities.min())
        return (
            f"{self.name}: propensities account for {100 * self.coverage:.0f} % of the actions; "
            f"the smallest is {lowest:.3g}"
        )


def _judged(case: Case, name: str, groups: IntArray) -> list[_Part]:
    n_groups = int(groups.max()) + 1
    ratios = case.inverse / case.supported
    sizes = np.bincount(groups, minlength=n_groups).astype(np.float64)
    coverage = np.bincount(groups, weights=ratios, minlength=n_groups) / sizes
    below = shortfall_by_group(ratios, sizes, groups, float(ratios.max()))
    above = np.zeros(n_groups)
    if not case.few_events:
        above = excess_by_group(_claimed(case), np.ones(case.n), groups, n_groups)
    return [
        _Part(f"{name}, part {g + 1} of {n_groups}", float(coverage[g]), float(above[g]), float(below[g]))
        for g in range(n_groups)
    ]


def _cells(case: Case) -> list[tuple[str, IntArray]]:
    """Ways to part the events that the choice of action had no say in."""
    segment = np.empty(case.n, dtype=np.int64)
    segment[case.order] = np.arange(case.n) * min(SEGMENTS, case.n) // case.n
    return [("order", segment), *((name, _bins(column)) for name, column in case.context_columns(FEATURES))]


def _bins(column: FloatArray) -> IntArray:
    """Quarters of a column, or as many parts as its ties allow.

    >>> _bins(np.array([1.0, 2.0, 3.0, 4.0]))
    array([0, 1, 2, 3])
    >>> _bins(np.array([0.0, 0.0, 0.0, 7.0]))
    array([0, 0, 0, 1])
    """
    edges = np.unique(np.quantile(column, np.arange(1, BINS) / BINS))
    parts = np.searchsorted(edges, column, side="left")
    return np.unique(parts, return_inverse=True)[1].astype(np.int64)
