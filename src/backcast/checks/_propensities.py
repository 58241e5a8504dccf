"""Checks of propensities: their values, whether they add up, actions without support, missing events."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from backcast._arrays import FloatArray, IntArray
from backcast.checks._drift import SEGMENTS
from backcast.checks._evidence import (
    STAKES,
    SURE,
    balance_evidence,
    excess_by_group,
    excess_evidence,
    mean_wealth,
    shortfall_by_group,
    shortfall_evidence,
)
from backcast.checks.findings import VERDICTS, Finding, Verdict

if TYPE_CHECKING:
    from backcast.checks.log import LogFacts

DOMINANT_SHARE = 0.1  # share of all inverse propensities in one event
ROUND_VALUES = 20  # different values from which a logger does not choose round numbers itself
CONTINUOUS_VALUES = 50  # different values from which a heap at one end is suspicious
HEAP_SHARE = 0.01  # share of the events that makes a heap
HEAP_EVIDENCE = math.log(1e3)  # that decides about a heap, which is suspicious already
LOGGING_BINS = 10  # of recorded probabilities
CONTEXT_BINS = 4  # of the values of a feature
FEATURES = 10  # features of the context that are binned
ACTIONS_SHOWN = 5
UNCLIP = "Record propensities as the logger used them; clip weights in the estimate instead (ClippedIPS)"
TOO_SMALL = (
    "Propensities are too small, or are not those of the actions taken: find where they are computed, "
    "or estimate them with with_estimated_propensities"
)
TOO_LARGE = (
    "Were events dropped (of rare actions, or on a condition)? Is an action impossible in some contexts (then give "
    "the mask `available`)? If neither, propensities are too large"
)


# Values


def propensity_range(facts: LogFacts) -> Finding:
    """Check that some choices were explored, and that no event dominates the inverse propensities."""
    low, high = float(facts.log.columns.propensities.min()), float(facts.log.columns.propensities.max())
    message = f"propensities lie between {low:.4g} and {high:.4g}"
    if low == 1.0 and facts.seen.sum() > 1:
        message = f"every propensity is 1, but {int(facts.seen.sum())} actions were taken: nothing was explored"
        remedy = (
            "A log without exploration does not show what other actions would have earned. If choices were random, "
            "record their probabilities, or estimate them with with_estimated_propensities"
        )
        return Finding("propensity_range", "fail", low, message, remedy)
    share = float(facts.inverse.max() / facts.inverse.sum())
    if share > DOMINANT_SHARE and facts.n > 1 / DOMINANT_SHARE:
        row = int(facts.log.columns.rows[facts.inverse.argmax()])
        message += f"; row {row} alone has {100 * share:.0f} % of all inverse propensities"
        remedy = "Inspect that row; if it is right, weights of this log rest on single events: use ClippedIPS or DR"
        return Finding("propensity_range", "warn", low, message, remedy)
    return Finding("propensity_range", "ok", low, message)


def estimated_propensities(facts: LogFacts) -> Finding | None:
    """Warn if propensities were estimated rather than logged."""
    if not facts.log.propensities_estimated:
        return None
    message = "propensities were estimated from the log; intervals do not include the error of that"
    remedy = "Record the probability of each choice when it is made"
    return Finding("estimated_propensities", "warn", math.nan, message, remedy)


def constant_propensity(facts: LogFacts) -> Finding:
    """Check that a constant propensity c is that of a uniform choice among 1/c actions."""
    p = facts.log.columns.propensities
    constant = float(p[0])
    if facts.n < 2 or np.ptp(p) > 1e-9 or constant == 1.0:
        return Finding("constant_propensity", "ok", math.nan, "propensities are not constant")
    implied, seen, eligible = 1 / constant, float(facts.supported.max()), float(facts.eligible.min())
    # actions taken once suggest others that were never taken
    most = eligible + (facts.n if facts.few_events else 0.0)
    is_whole = abs(implied - round(implied)) <= 0.05 * implied  # propensities may be rounded
    message = f"every propensity is {constant:.4g}: "
    message += f"a uniform choice among {implied:.4g} actions" if is_whole else "not one over a whole number"
    # At most floor(1/c) actions have the probability c, so that all of n events have it with odds (floor(1/c) c)^n.
    if not is_whole and -facts.n * math.log(math.floor(implied) * constant) < SURE:
        return Finding("constant_propensity", "ok", constant, f"{message}, which may be chance in so few events")
    if abs(implied - seen) <= 1e-3 * seen or seen <= implied <= most * (1 + 1e-3):
        return Finding("constant_propensity", "ok", constant, message)
    verdict: Verdict = "warn" if abs(implied - seen) <= 0.05 * seen else "fail"
    message += f", but {seen:.4g} were taken, and {eligible:.4g} or more were eligible"
    remedy = (
        "Record the probability of the action taken; if the choice was uniform, it is one over the number of "
        "eligible actions"
    )
    return Finding("constant_propensity", verdict, constant, message, remedy)


def rounded_propensities(facts: LogFacts) -> Finding:
    """Check that propensities were not rounded: many different values, all of two or three decimals."""
    values = np.unique(facts.log.columns.propensities)
    for decimals in (2, 3):
        scaled = values * 10**decimals
        if np.abs(scaled - np.rint(scaled)).max() < 1e-6:
            break
    else:
        return Finding("rounded_propensities", "ok", math.nan, "propensities are not rounded")
    error = 0.5 * 10**-decimals / float(values[0])
    message = f"all {values.size} different propensities have at most {decimals} decimals"
    # a logger may choose round numbers, but not many of them; and rounding large ones is harmless
    if values.size < ROUND_VALUES or error < 0.02:
        return Finding("rounded_propensities", "ok", error, message)
    message += f"; the smallest, {values[0]:g}, may be off by {100 * error:.0f} %"
    remedy = "Record propensities unrounded: weights divide by them"
    return Finding("rounded_propensities", "warn", error, message, remedy)


def clipped_propensities(facts: LogFacts) -> Finding:
    """Check whether a heap at the smallest or largest of many values is the logger's limit or one of the record."""
    values, counts = np.unique(facts.log.columns.propensities, return_counts=True)
    heap = max(HEAP_SHARE * facts.n, 20 * float(np.median(counts)))
    if values.size < CONTINUOUS_VALUES or max(counts[0], counts[-1]) < heap:
        return Finding("clipped_propensities", "ok", math.nan, "propensities have no heap at either end")
    findings = [_check_low_heap(facts, values, counts)] if counts[0] >= heap else []
    findings += [_check_high_heap(facts, values, counts)] if counts[-1] >= heap else []
    return max(findings, key=lambda finding: VERDICTS.index(finding.verdict))


def _check_low_heap(facts: LogFacts, values: FloatArray, counts: IntArray) -> Finding:
    figure = float(values[0])
    message = f"{100 * counts[0] / facts.n:.0f} % of the propensities are exactly {figure:.4g} and none is below"
    ratios: FloatArray = facts.inverse / facts.supported
    if shortfall_evidence(ratios, float(facts.n), float(ratios.max())) >= HEAP_EVIDENCE:
        return Finding("clipped_propensities", "fail", figure, f"{message}, and they do not add up", UNCLIP)
    return Finding("clipped_propensities", "ok", figure, f"{message}; they add up, so it is the logger's limit")


def _check_high_heap(facts: LogFacts, values: FloatArray, counts: IntArray) -> Finding:
    figure = float(values[-1])
    message = f"{100 * counts[-1] / facts.n:.0f} % of the propensities are exactly {figure:.4g} and none is above"
    prediction = facts.prediction
    # were likely actions likelier than recorded?
    if prediction is not None and excess_evidence(prediction.hit * facts.inverse[prediction.rows]) >= HEAP_EVIDENCE:
        return Finding("clipped_propensities", "fail", figure, f"{message}, and they do not add up", UNCLIP)
    # the logger's own limit is 1, or what remains when all other actions have the smallest probability
    remaining = 1 - (np.unique(facts.eligible) - 1) * values[0]
    if figure == 1.0 or (np.abs(remaining - figure) < 1e-6).any():
        return Finding("clipped_propensities", "ok", figure, f"{message}; it is the largest possible value")
    # the frequency of nearly certain actions carries little information, so adding up does not prove them right
    return Finding("clipped_propensities", "warn", figure, f"{message}: were they clipped?", UNCLIP)


def logging_probabilities(facts: LogFacts) -> Finding | None:
    """Check that actions were taken as often as the recorded probabilities predict, by action and by probability."""
    table = facts.log.columns.logging_probabilities
    if table is None or facts.log.propensities_estimated:
        return None
    taken = np.zeros(table.shape)
    taken[np.arange(facts.n), facts.log.columns.actions] = 1.0
    surplus, variance = taken - table, table * (1 - table)
    bins = np.minimum((table * LOGGING_BINS).astype(np.int64), LOGGING_BINS - 1).ravel()
    by_action = balance_evidence(surplus.sum(axis=0), variance.sum(axis=0))
    by_bin = balance_evidence(
        np.bincount(bins, weights=surplus.ravel(), minlength=LOGGING_BINS),
        np.bincount(bins, weights=variance.ravel(), minlength=LOGGING_BINS),
    )
    figure = float(np.abs(surplus.sum(axis=0)).max() / facts.n)
    if max(by_action.max(), by_bin.max()) - math.log(facts.log.n_actions + LOGGING_BINS) < SURE:
        message = f"each action was taken as often as its probabilities predict, within {figure:.2g} of the events"
        return Finding("logging_probabilities", "ok", figure, message)
    if by_action.max() >= by_bin.max():
        action = int(by_action.argmax())
        message = (
            f"action {facts.log.action_labels[action]!r} was taken {int(facts.counts[action]):,} times, but its "
            f"recorded probabilities sum to {float(table[:, action].sum()):,.1f}"
        )
    else:
        message = f"actions of probability near {int(by_bin.argmax()) / LOGGING_BINS:.1f} were not taken that often"
    remedy = "The recorded probabilities are not those that actions were drawn from: record what the logger used"
    return Finding("logging_probabilities", "fail", figure, message, remedy)


# Sums


def harmonic_mean(facts: LogFacts) -> Finding:
    """Check that the mean of ``1/p`` is the number of actions that the logger may choose."""
    mean = float(facts.inverse.mean())
    error = float(facts.inverse.std() / math.sqrt(facts.n))
    actions = float(facts.supported.mean())
    message = f"the mean of 1/p is {mean:.4g} ± {error:.2g} and {actions:.4g} actions could be chosen on average"
    figure = mean / actions
    if not facts.few_events and excess_evidence(_uniform_ratios(facts)) >= SURE:
        return Finding("harmonic_mean", "fail", figure, message, TOO_SMALL)
    if shortfall_evidence(facts.inverse, float(facts.supported.sum()), float(facts.inverse.max())) >= SURE:
        return Finding("harmonic_mean", "warn", figure, message, TOO_LARGE)
    return Finding("harmonic_mean", "ok", figure, message)


def _uniform_ratios(facts: LogFacts) -> FloatArray:
    """Return ``q/p`` for a uniform choice q among the eligible actions.

    Every action taken only once suggests another that was neither taken nor declared, so q is made smaller for it.
    """
    ratios: FloatArray = facts.inverse / (facts.eligible + (facts.counts == 1).sum())
    return ratios


def action_coverage(facts: LogFacts) -> Finding:
    """Check that the mean of ``I(a)/p`` is 1 for every action, over the events at which it was eligible."""
    actions, k = facts.log.columns.actions, facts.log.n_actions
    coverage = np.bincount(actions, weights=facts.inverse, minlength=k) / np.maximum(facts.eligible_counts, 1.0)
    seen = np.flatnonzero(facts.seen)
    above = _action_excess_evidence(facts)
    # the largest ratio of the log, not of the action: rare choices of this action may be absent by chance
    below = shortfall_by_group(facts.inverse, facts.eligible_counts, actions, float(facts.inverse.max()))
    short = seen[below[seen] - math.log(seen.size) >= SURE]
    if mean_wealth(above) >= SURE:
        worst = int(above.argmax())
        message = f"the mean of I(a)/p is {coverage[worst]:.3g} for action {facts.log.action_labels[worst]!r}, not 1"
        return Finding("action_coverage", "fail", float(coverage[worst]), message, TOO_SMALL)
    if short.size:
        worst = int(short[coverage[short].argmin()])
        message = (
            f"the mean of I(a)/p is {coverage[worst]:.3g} for action {facts.log.action_labels[worst]!r}, not 1, "
            f"and below 1 for {short.size} of {seen.size} actions"
        )
        return Finding("action_coverage", "warn", float(coverage[worst]), message, TOO_LARGE)
    worst = int(seen[np.abs(np.log(coverage[seen])).argmax()])
    message = f"the mean of I(a)/p is near 1 for each of {seen.size} actions"
    return Finding("action_coverage", "ok", float(coverage[worst]), message)


def _action_excess_evidence(facts: LogFacts) -> FloatArray:
    """Evidence against each action's propensities: ``1 + s (1/p - 1)`` if it was taken, ``1 - s`` if not."""
    actions, k = facts.log.columns.actions, facts.log.n_actions
    not_taken = facts.eligible_counts - facts.counts
    return mean_wealth(
        [
            np.bincount(actions, weights=np.log1p(stake * (facts.inverse - 1.0)), minlength=k)
            + not_taken * math.log1p(-stake)
            for stake in STAKES
        ]
    )


def unsupported_actions(facts: LogFacts) -> Finding:
    """Check that every eligible action was taken at least once, unless it was too rare to be expected."""
    n_actions = facts.log.n_actions
    unseen = np.flatnonzero(~facts.seen & (facts.eligible_counts > 0))
    if not unseen.size:
        return Finding("unsupported_actions", "ok", 0.0, f"all {n_actions} actions were taken")
    # would an action as likely as the rarest recorded choice have been taken?
    evidence = facts.eligible_counts[unseen] * float(facts.log.columns.propensities.min()) - math.log(n_actions)
    never = unseen[evidence >= SURE]
    if not never.size:
        message = f"{unseen.size} of {n_actions} actions were not taken, but there are too few events to expect them"
        return Finding("unsupported_actions", "ok", float(unseen.size), message)
    names = ", ".join(repr(facts.log.action_labels[action]) for action in never[:ACTIONS_SHOWN].tolist())
    more = f" and {never.size - ACTIONS_SHOWN} more" if never.size > ACTIONS_SHOWN else ""
    message = f"{never.size} of {n_actions} actions were never taken: {names}{more}"
    remedy = (
        "Estimates for policies that take them rest on the reward model alone. Leave them out of n_actions, or mark "
        "them as not `available`"
    )
    return Finding("unsupported_actions", "warn", float(never.size), message, remedy)


def missing_events(facts: LogFacts) -> Finding:
    """Check the harmonic mean in every tenth of the log and every bin of a feature: events may be missing there."""
    groups = [group for name, numbers in _group_events(facts) for group in _judge_groups(facts, name, numbers)]
    above, below = max(groups, key=lambda group: group.above), max(groups, key=lambda group: group.below)
    tests = math.log(len(groups))
    if above.above - tests >= SURE:
        return Finding("missing_events", "fail", above.coverage, _describe_group(above, facts), TOO_SMALL)
    if below.below - tests >= SURE:
        return Finding("missing_events", "warn", below.coverage, _describe_group(below, facts), TOO_LARGE)
    message = f"propensities account for all actions in {len(groups)} parts of the log and of its contexts"
    return Finding("missing_events", "ok", below.coverage, message)


class _Group(NamedTuple):
    """Share of the actions that the propensities of a group account for; evidence of too much and of too little."""

    name: str
    coverage: float
    above: float
    below: float


def _describe_group(group: _Group, facts: LogFacts) -> str:
    return (
        f"{group.name}: propensities account for {100 * group.coverage:.0f} % of the actions; "
        f"the smallest is {float(facts.log.columns.propensities.min()):.3g}"
    )


def _judge_groups(facts: LogFacts, name: str, numbers: IntArray) -> list[_Group]:
    n_groups = int(numbers.max()) + 1
    ratios = facts.inverse / facts.supported
    sizes = np.bincount(numbers, minlength=n_groups).astype(np.float64)
    coverage = np.bincount(numbers, weights=ratios, minlength=n_groups) / sizes
    below = shortfall_by_group(ratios, sizes, numbers, float(ratios.max()))
    above = np.zeros(n_groups)
    if not facts.few_events:
        above = excess_by_group(_uniform_ratios(facts), np.ones(facts.n), numbers, n_groups)
    return [
        _Group(f"{name}, part {g + 1} of {n_groups}", float(coverage[g]), float(above[g]), float(below[g]))
        for g in range(n_groups)
    ]


def _group_events(facts: LogFacts) -> list[tuple[str, IntArray]]:
    """Return groupings of the events, by name, that do not depend on the action taken."""
    segments = np.arange(facts.n) * min(SEGMENTS, facts.n) // facts.n
    return [("order", segments), *((name, _bin_column(column)) for name, column in facts.context_columns(FEATURES))]


def _bin_column(column: FloatArray) -> IntArray:
    """Return the quarter of each value, or fewer bins if values are tied.

    >>> _bin_column(np.array([1.0, 2.0, 3.0, 4.0]))
    array([0, 1, 2, 3])
    >>> _bin_column(np.array([0.0, 0.0, 0.0, 7.0]))
    array([0, 0, 0, 1])
    """
    edges = np.unique(np.quantile(column, np.arange(1, CONTEXT_BINS) / CONTEXT_BINS))
    bins = np.searchsorted(edges, column, side="left")
    return np.unique(bins, return_inverse=True)[1].astype(np.int64)
