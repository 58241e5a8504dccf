"""Propensities as numbers: their range, and the marks that constants, rounding and clipping leave on them."""

from __future__ import annotations

import math

import numpy as np

from backcast.arrays import FloatArray, IntArray
from backcast.health.case import Case
from backcast.health.evidence import excess_evidence, shortfall_evidence
from backcast.health.findings import Finding, Verdict

__all__ = [
    "clipped_propensities",
    "constant_propensity",
    "estimated_propensities",
    "propensity_range",
    "rounded_propensities",
]

HEAVY = 0.1  # share of all inverse propensities in one event
MANY = 20  # different values from which round numbers are no choice of the logger's
CONTINUOUS = 50  # different values from which a heap at one end is odd
HEAP = 0.01  # share of the events that make a heap
UNCLIP = "Record propensities as the logger used them; clip weights in the estimate instead (ClippedIPS)"
DOUBT = math.log(1e3)  # evidence that settles a heap, which is suspect already


def propensity_range(case: Case) -> Finding:
    """The smallest and largest propensity; somebody explored, and no event outweighs the others."""
    low, high = float(case.log._propensities.min()), float(case.log._propensities.max())
    message = f"propensities lie between {low:.4g} and {high:.4g}"
    if low == 1.0 and case.seen.sum() > 1:
        message = f"every propensity is 1, yet {int(case.seen.sum())} actions were taken: nothing was explored"
        remedy = (
            "A log without exploration cannot tell what other actions would have earned. If choices were random after "
            "all, record their probabilities, or estimate them with with_estimated_propensities"
        )
        return Finding("propensity_range", "fail", low, message, remedy)
    share = float(case.inverse.max() / case.inverse.sum())
    if share > HEAVY and case.n > 1 / HEAVY:
        row = int(case.log._rows[case.inverse.argmax()])
        message += f"; row {row} alone has {100 * share:.0f} % of all inverse propensities"
        remedy = "Look at that row; if it is right, weights of this log rest on single events: use ClippedIPS or DR"
        return Finding("propensity_range", "warn", low, message, remedy)
    return Finding("propensity_range", "ok", low, message)


def estimated_propensities(case: Case) -> Finding | None:
    """Estimates are no records: said once more here."""
    if not case.log.propensities_estimated:
        return None
    message = "propensities were estimated from the log; intervals do not know the error of that"
    remedy = "Record the probability of each choice where it is made"
    return Finding("estimated_propensities", "warn", math.nan, message, remedy)


def constant_propensity(case: Case) -> Finding:
    """A constant propensity c means an even choice among 1/c actions, neither more nor fewer."""
    p = case.log._propensities
    constant = float(p[0])
    if case.n < 2 or np.ptp(p) > 1e-9 or constant == 1.0:
        return Finding("constant_propensity", "ok", math.nan, "propensities are not constant")
    implied, seen = 1 / constant, float(case.supported.max())
    # actions seen once hint at some that were not seen at all
    most = float(case.eligible.min()) + (case.n if case.few_events else 0.0)
    message = f"every propensity is {constant:.4g}: an even choice among {implied:.4g} actions"
    if _near(implied, seen, 1e-3) or seen <= implied <= most * (1 + 1e-3):
        return Finding("constant_propensity", "ok", constant, message)
    verdict: Verdict = "warn" if _near(implied, seen, 0.05) else "fail"
    message += f", but {seen:.4g} were taken, and {float(case.eligible.min()):.4g} or more were eligible"
    remedy = "Record the probability of the action taken; if the choice was even, it is one over the eligible actions"
    return Finding("constant_propensity", verdict, constant, message, remedy)


def _near(value: float, target: float, tolerance: float) -> bool:
    return abs(value - target) <= tolerance * target


def rounded_propensities(case: Case) -> Finding:
    """Many different propensities, all of them of two or three decimals, were rounded."""
    values = np.unique(case.log._propensities)
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


def clipped_propensities(case: Case) -> Finding:
    """A heap at the smallest or largest of many values is a limit: the logger's own, or one put on the record."""
    values, counts = np.unique(case.log._propensities, return_counts=True)
    least = max(HEAP * case.n, 20 * float(np.median(counts)))
    if values.size >= CONTINUOUS and max(counts[0], counts[-1]) >= least:
        found = [_low_heap(case, values, counts)] if counts[0] >= least else []
        found += [_high_heap(case, values, counts)] if counts[-1] >= least else []
        return max(found, key=lambda finding: ("ok", "warn", "fail").index(finding.verdict))
    return Finding("clipped_propensities", "ok", math.nan, "propensities do not heap up at either end")


def _low_heap(case: Case, values: FloatArray, counts: IntArray) -> Finding:
    figure = float(values[0])
    message = f"{100 * counts[0] / case.n:.0f} % of the propensities are exactly {figure:.4g} and none is below"
    if _short(case) >= DOUBT:
        return Finding("clipped_propensities", "fail", figure, f"{message}, and they do not add up", UNCLIP)
    return Finding("clipped_propensities", "ok", figure, f"{message}; they add up, so the logger did so")


def _high_heap(case: Case, values: FloatArray, counts: IntArray) -> Finding:
    figure = float(values[-1])
    message = f"{100 * counts[-1] / case.n:.0f} % of the propensities are exactly {figure:.4g} and none is above"
    if _excess(case) >= DOUBT:
        return Finding("clipped_propensities", "fail", figure, f"{message}, and they do not add up", UNCLIP)
    # what is left when all other actions are at the smallest, or certainty itself, is the logger's own limit
    left = 1 - (np.unique(case.eligible) - 1) * values[0]
    if figure == 1.0 or (np.abs(left - figure) < 1e-6).any():
        return Finding("clipped_propensities", "ok", figure, f"{message}; nothing is left for more")
    # actions near certainty tell little by their frequency, so adding up is no acquittal here
    return Finding("clipped_propensities", "warn", figure, f"{message}: were they clipped?", UNCLIP)


def _short(case: Case) -> float:
    ratios: FloatArray = case.inverse / case.supported
    return shortfall_evidence(ratios, float(case.n), float(ratios.max()))


def _excess(case: Case) -> float:
    """Evidence that likely actions were likelier than recorded."""
    if case.prediction is None:
        return 0.0
    ratios: FloatArray = case.prediction.hit * case.inverse[case.prediction.rows]
    return excess_evidence(ratios)
