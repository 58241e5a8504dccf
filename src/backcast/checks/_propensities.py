"""Propensities as numbers: their range, and the marks that constants, rounding and clipping leave on them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from backcast._arrays import FloatArray, IntArray
from backcast.checks._evidence import (
    STAKES,
    SURE,
    balance_evidence,
    excess_by_group,
    excess_evidence,
    log_mean_exp,
    shortfall_by_group,
    shortfall_evidence,
)
from backcast.checks.findings import Finding, Verdict

if TYPE_CHECKING:
    from backcast.checks.log import LogFacts

HEAVY = 0.1  # share of all inverse propensities in one event


MANY = 20  # different values from which round numbers are no choice of the logger's


CONTINUOUS = 50  # different values from which a heap at one end is odd


HEAP = 0.01  # share of the events that make a heap


UNCLIP = "Record propensities as the logger used them; clip weights in the estimate instead (ClippedIPS)"


DOUBT = math.log(1e3)  # evidence that settles a heap, which is suspect already


def propensity_range(facts: LogFacts) -> Finding:
    """The smallest and largest propensity; somebody explored, and no event outweighs the others."""
    low, high = float(facts.log._propensities.min()), float(facts.log._propensities.max())
    message = f"propensities lie between {low:.4g} and {high:.4g}"
    if low == 1.0 and facts.seen.sum() > 1:
        message = f"every propensity is 1, yet {int(facts.seen.sum())} actions were taken: nothing was explored"
        remedy = (
            "A log without exploration cannot tell what other actions would have earned. If choices were random after "
            "all, record their probabilities, or estimate them with with_estimated_propensities"
        )
        return Finding("propensity_range", "fail", low, message, remedy)
    share = float(facts.inverse.max() / facts.inverse.sum())
    if share > HEAVY and facts.n > 1 / HEAVY:
        row = int(facts.log._rows[facts.inverse.argmax()])
        message += f"; row {row} alone has {100 * share:.0f} % of all inverse propensities"
        remedy = "Look at that row; if it is right, weights of this log rest on single events: use ClippedIPS or DR"
        return Finding("propensity_range", "warn", low, message, remedy)
    return Finding("propensity_range", "ok", low, message)


def estimated_propensities(facts: LogFacts) -> Finding | None:
    """Estimates are no records: said once more here."""
    if not facts.log.propensities_estimated:
        return None
    message = "propensities were estimated from the log; intervals do not know the error of that"
    remedy = "Record the probability of each choice where it is made"
    return Finding("estimated_propensities", "warn", math.nan, message, remedy)


def constant_propensity(facts: LogFacts) -> Finding:
    """A constant propensity c means an even choice among 1/c actions, neither more nor fewer."""
    p = facts.log._propensities
    constant = float(p[0])
    if facts.n < 2 or np.ptp(p) > 1e-9 or constant == 1.0:
        return Finding("constant_propensity", "ok", math.nan, "propensities are not constant")
    implied, seen = 1 / constant, float(facts.supported.max())
    # actions seen once hint at some that were not seen at all
    most = float(facts.eligible.min()) + (facts.n if facts.few_events else 0.0)
    message = f"every propensity is {constant:.4g}: an even choice among {implied:.4g} actions"
    if _near(implied, seen, 1e-3) or seen <= implied <= most * (1 + 1e-3):
        return Finding("constant_propensity", "ok", constant, message)
    verdict: Verdict = "warn" if _near(implied, seen, 0.05) else "fail"
    message += f", but {seen:.4g} were taken, and {float(facts.eligible.min()):.4g} or more were eligible"
    remedy = "Record the probability of the action taken; if the choice was even, it is one over the eligible actions"
    return Finding("constant_propensity", verdict, constant, message, remedy)


def _near(value: float, target: float, tolerance: float) -> bool:
    return abs(value - target) <= tolerance * target


def rounded_propensities(facts: LogFacts) -> Finding:
    """Many different propensities, all of them of two or three decimals, were rounded."""
    values = np.unique(facts.log._propensities)
    for decimals in (2, 3):
        scaled = values * 10**decimals
        if np.abs(scaled - np.rint(scaled)).max() < 1e-6:
            break
    else:
        return Finding("rounded_propensities", "ok", math.nan, "propensities are not rounded")
    largest = 0.5 * 10**-decimals / float(values[0])
    message = f"all {values.size} different propensities have at most {decimals} decimals"
    # a logger may well choose round numbers, but not many of them; and rounding large ones does no harm
    if values.size < MANY or largest < 0.02:
        return Finding("rounded_propensities", "ok", largest, message)
    message += f"; the smallest, {values[0]:g}, may be off by {100 * largest:.0f} %"
    return Finding(
        "rounded_propensities", "warn", largest, message, "Record propensities unrounded: weights divide by them"
    )


def clipped_propensities(facts: LogFacts) -> Finding:
    """A heap at the smallest or largest of many values is a limit: the logger's own, or one put on the record."""
    values, counts = np.unique(facts.log._propensities, return_counts=True)
    least = max(HEAP * facts.n, 20 * float(np.median(counts)))
    if values.size >= CONTINUOUS and max(counts[0], counts[-1]) >= least:
        found = [_low_heap(facts, values, counts)] if counts[0] >= least else []
        found += [_high_heap(facts, values, counts)] if counts[-1] >= least else []
        return max(found, key=lambda finding: ("ok", "warn", "fail").index(finding.verdict))
    return Finding("clipped_propensities", "ok", math.nan, "propensities do not heap up at either end")


def _low_heap(facts: LogFacts, values: FloatArray, counts: IntArray) -> Finding:
    figure = float(values[0])
    message = f"{100 * counts[0] / facts.n:.0f} % of the propensities are exactly {figure:.4g} and none is below"
    if _short(facts) >= DOUBT:
        return Finding("clipped_propensities", "fail", figure, f"{message}, and they do not add up", UNCLIP)
    return Finding("clipped_propensities", "ok", figure, f"{message}; they add up, so the logger did so")


def _high_heap(facts: LogFacts, values: FloatArray, counts: IntArray) -> Finding:
    figure = float(values[-1])
    message = f"{100 * counts[-1] / facts.n:.0f} % of the propensities are exactly {figure:.4g} and none is above"
    if _excess(facts) >= DOUBT:
        return Finding("clipped_propensities", "fail", figure, f"{message}, and they do not add up", UNCLIP)
    # what is left when all other actions are at the smallest, or certainty itself, is the logger's own limit
    left = 1 - (np.unique(facts.eligible) - 1) * values[0]
    if figure == 1.0 or (np.abs(left - figure) < 1e-6).any():
        return Finding("clipped_propensities", "ok", figure, f"{message}; nothing is left for more")
    # actions near certainty tell little by their frequency, so adding up is no acquittal here
    return Finding("clipped_propensities", "warn", figure, f"{message}: were they clipped?", UNCLIP)


def _short(facts: LogFacts) -> float:
    ratios: FloatArray = facts.inverse / facts.supported
    return shortfall_evidence(ratios, float(facts.n), float(ratios.max()))


def _excess(facts: LogFacts) -> float:
    """Evidence that likely actions were likelier than recorded."""
    if facts.prediction is None:
        return 0.0
    ratios: FloatArray = facts.prediction.hit * facts.inverse[facts.prediction.rows]
    return excess_evidence(ratios)


LOGGING_BINS = 10


def logging_probabilities(facts: LogFacts) -> Finding | None:
    """Every action was taken as often as the logger's probabilities say, and so were the likely and the unlikely."""
    table = facts.log._logging
    if table is None or facts.log.propensities_estimated:
        return None
    taken = np.zeros(table.shape)
    taken[np.arange(facts.n), facts.log._actions] = 1.0
    surplus, variance = taken - table, table * (1 - table)
    bins = np.minimum((table * LOGGING_BINS).astype(np.int64), LOGGING_BINS - 1).ravel()
    gaps = [
        balance_evidence(surplus.sum(axis=0), variance.sum(axis=0)),
        balance_evidence(
            np.bincount(bins, weights=surplus.ravel(), minlength=LOGGING_BINS),
            np.bincount(bins, weights=variance.ravel(), minlength=LOGGING_BINS),
        ),
    ]
    tests = facts.log.n_actions + LOGGING_BINS
    evidence = max(float(gap.max()) for gap in gaps)
    off = float(np.abs(surplus.sum(axis=0)).max() / facts.n)
    if evidence - math.log(tests) < SURE:
        message = f"each action was taken as often as its probabilities say, within {off:.2g} of the events"
        return Finding("logging_probabilities", "ok", off, message)
    worst = int(gaps[0].argmax())
    message = (
        f"action {facts.log.action_labels[worst]!r} was taken {int(facts.counts[worst]):,} times where its recorded "
        f"probabilities sum to {float(table[:, worst].sum()):,.1f}"
        if float(gaps[0].max()) >= float(gaps[1].max())
        else f"actions of probability near {int(gaps[1].argmax()) / LOGGING_BINS:.1f} were not taken that often"
    )
    remedy = "The recorded probabilities are not those that actions were drawn from: record what the logger used"
    return Finding("logging_probabilities", "fail", off, message, remedy)


SHOWN = 5


def unsupported_actions(facts: LogFacts) -> Finding:
    """Every eligible action was taken at least once, unless it was too rare to be expected."""
    unseen = np.flatnonzero(~facts.seen & (facts.eligible_counts > 0))
    if not unseen.size:
        return Finding("unsupported_actions", "ok", 0.0, f"all {facts.log.n_actions} actions were taken")
    # were it as likely as the rarest choice on record, would it have been seen?
    overdue = facts.eligible_counts[unseen] * float(facts.log._propensities.min()) - math.log(facts.log.n_actions)
    never = unseen[overdue >= SURE]
    if not never.size:
        message = (
            f"{unseen.size} of {facts.log.n_actions} actions were not taken, but too few events tell whether they could"
        )
        return Finding("unsupported_actions", "ok", float(unseen.size), message)
    names = ", ".join(repr(facts.log.action_labels[action]) for action in never[:SHOWN].tolist())
    more = f" and {never.size - SHOWN} more" if never.size > SHOWN else ""
    message = f"{never.size} of {facts.log.n_actions} actions were never taken: {names}{more}"
    remedy = (
        "Nothing can be said of policies that take them, but what a reward model says. Leave them out of n_actions, or "
        "mark them as not `available`"
    )
    return Finding("unsupported_actions", "warn", float(never.size), message, remedy)


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


def harmonic_mean(facts: LogFacts) -> Finding:
    """``E[1/p]`` is the number of actions that the logger may choose."""
    per_event = float(facts.inverse.mean())
    error = float(facts.inverse.std() / math.sqrt(facts.n))
    actions = float(facts.supported.mean())
    message = f"the mean of 1/p is {per_event:.4g} ± {error:.2g} and {actions:.4g} actions could be chosen on average"
    figure = per_event / actions
    above = 0.0 if facts.few_events else excess_evidence(_claimed(facts))
    below = shortfall_evidence(facts.inverse, float(facts.supported.sum()), float(facts.inverse.max()))
    if above >= SURE:
        return Finding("harmonic_mean", "fail", figure, message, TOO_SMALL)
    if below >= SURE:
        return Finding("harmonic_mean", "warn", figure, message, TOO_LITTLE)
    return Finding("harmonic_mean", "ok", figure, message)


def _claimed(facts: LogFacts) -> FloatArray:
    """``q/p`` for an even choice q among the eligible actions.

    An action seen once hints at others that were never seen, nor counted if nobody declared them: q leaves room.
    """
    claimed: FloatArray = facts.inverse / (facts.eligible + (facts.counts == 1).sum())
    return claimed


def action_coverage(facts: LogFacts) -> Finding:
    """The mean of ``I(a)/p`` is 1 for every action, over the events at which it was eligible."""
    actions, k = facts.log._actions, facts.log.n_actions
    coverage = np.bincount(actions, weights=facts.inverse, minlength=k) / np.maximum(facts.eligible_counts, 1.0)
    judged = np.flatnonzero(facts.seen)
    above = _action_excess(facts)
    # what is rare somewhere may be rare here, and absent by chance: the largest of all, not that of the group
    below = shortfall_by_group(facts.inverse, facts.eligible_counts, actions, float(facts.inverse.max())) - math.log(
        judged.size
    )
    short = judged[below[judged] >= SURE]
    worst = int(judged[np.abs(np.log(coverage[judged])).argmax()])
    if log_mean_exp(above) >= SURE:
        worst = int(above.argmax())
        message = f"the mean of I(a)/p is {coverage[worst]:.3g} for action {facts.log.action_labels[worst]!r}, not 1"
        return Finding("action_coverage", "fail", float(coverage[worst]), message, TOO_SMALL)
    if short.size:
        worst = int(short[coverage[short].argmin()])
        message = (
            f"the mean of I(a)/p is {coverage[worst]:.3g} for action {facts.log.action_labels[worst]!r}, not 1, "
            f"and below 1 for {short.size} of {judged.size} actions"
        )
        return Finding("action_coverage", "warn", float(coverage[worst]), message, TOO_LITTLE)
    message = f"the mean of I(a)/p is near 1 for each of {judged.size} actions"
    return Finding("action_coverage", "ok", float(coverage[worst]), message)


def _action_excess(facts: LogFacts) -> FloatArray:
    """Evidence against each action's propensities: ``1 + s (1/p - 1)`` where it was taken, ``1 - s`` elsewhere."""
    actions, k = facts.log._actions, facts.log.n_actions
    idle = facts.eligible_counts - facts.counts
    wealth = [
        np.bincount(actions, weights=np.log1p(stake * (facts.inverse - 1.0)), minlength=k) + idle * math.log1p(-stake)
        for stake in STAKES
    ]
    return np.array([log_mean_exp(own) for own in np.transpose(wealth)])


def missing_events(facts: LogFacts) -> Finding:
    """The harmonic mean holds in every stretch of the log and every part of the contexts, unless events are missing."""
    parts = [part for name, groups in _cells(facts) for part in _judged(facts, name, groups)]
    above, below = max(parts, key=lambda part: part.above), max(parts, key=lambda part: part.below)
    tests = math.log(len(parts))
    if above.above - tests >= SURE:
        return Finding("missing_events", "fail", above.coverage, above.said(facts), TOO_SMALL)
    if below.below - tests >= SURE:
        return Finding("missing_events", "warn", below.coverage, below.said(facts), TOO_LITTLE)
    message = f"propensities account for all actions in {len(parts)} parts of the log and of its contexts"
    return Finding("missing_events", "ok", below.coverage, message)


class _Part(NamedTuple):
    """Part of the events: share of the actions that its propensities account for, evidence of too much, too little."""

    name: str
    coverage: float
    above: float
    below: float

    def said(self, facts: LogFacts) -> str:
        """In words."""
        lowest = float(facts.log._propensities.min())
        return (
            f"{self.name}: propensities account for {100 * self.coverage:.0f} % of the actions; "
            f"the smallest is {lowest:.3g}"
        )


def _judged(facts: LogFacts, name: str, groups: IntArray) -> list[_Part]:
    n_groups = int(groups.max()) + 1
    ratios = facts.inverse / facts.supported
    sizes = np.bincount(groups, minlength=n_groups).astype(np.float64)
    coverage = np.bincount(groups, weights=ratios, minlength=n_groups) / sizes
    below = shortfall_by_group(ratios, sizes, groups, float(ratios.max()))
    above = np.zeros(n_groups)
    if not facts.few_events:
        above = excess_by_group(_claimed(facts), np.ones(facts.n), groups, n_groups)
    return [
        _Part(f"{name}, part {g + 1} of {n_groups}", float(coverage[g]), float(above[g]), float(below[g]))
        for g in range(n_groups)
    ]


def _cells(facts: LogFacts) -> list[tuple[str, IntArray]]:
    """Ways to part the events that the choice of action had no say in."""
    segment = np.empty(facts.n, dtype=np.int64)
    segment[facts.order] = np.arange(facts.n) * min(SEGMENTS, facts.n) // facts.n
    return [("order", segment), *((name, _bins(column)) for name, column in facts.context_columns(FEATURES))]


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
