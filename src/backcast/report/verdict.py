"""The verdict: what the estimates say, and what they do not, in plain sentences."""

from __future__ import annotations

from backcast.estimate import PROGRESSIVE_VALUE, Estimate, Interval
from backcast.report.facts import belief_in
from backcast.report.findings import Findings
from backcast.report.words import interval_words, joined, level_words, value_words

__all__ = ["verdict"]

UNSETTLED = "this log alone does not settle which is better"


def verdict(findings: Findings) -> str:
    """Who earns most, whether the log can tell, and how far to believe it."""
    best = findings.estimates[findings.best]
    rivals = len(findings.estimates) > 1
    lead = "has the highest estimate" if rivals else "would have earned"
    sentences = [f"{findings.best} {lead}{':' if rivals else ''} {value_words(best)} a round{_sureness(best)}."]
    if rivals:
        sentences.append(_paired_standing(findings) if findings.differences else _standing(findings))
    sentences.append(_belief(best))
    return " ".join(sentences)


def _sureness(estimate: Estimate) -> str:
    if estimate.interval is None:
        return ""
    return f" ({level_words(estimate.interval)} interval {interval_words(estimate.interval)})"


def _standing(findings: Findings) -> str:
    """Whether intervals, each taken by itself, keep the best apart from the others."""
    best = findings.estimates[findings.best].interval
    others = {name: e.interval for name, e in findings.estimates.items() if name != findings.best}
    if best is None or None in others.values():
        return "Not every estimate has an interval, so this log alone does not settle which policy is better."
    # for a policy that does not learn both are its value; only the mixture of one run is a thing apart
    if len({interval.estimand == PROGRESSIVE_VALUE for interval in (best, *others.values()) if interval}) > 1:
        return "The intervals are about different quantities (see the table), so they cannot be set side by side."
    close = [name for name, interval in others.items() if interval and interval.high >= best.low]
    if not close:
        return "Its interval lies above every other, so the log tells them apart."
    return f"The {_plural('interval', close)} of {joined(close)} {_reach(close)} into its own, so {UNSETTLED}."


def _paired_standing(findings: Findings) -> str:
    """Whether differences keep the best apart from the others."""
    close = []
    for difference in findings.differences:
        names = (difference.first, difference.second)
        if findings.best in names and (difference.interval is None or _holds_zero(difference.interval)):
            close.append(names[1] if names[0] == findings.best else names[0])
    if not close:
        return "Its difference to every other policy keeps clear of zero, so the log tells them apart."
    return f"Its {_plural('difference', close)} to {joined(close)} may be zero, so {UNSETTLED}."


def _holds_zero(interval: Interval) -> bool:
    return interval.low <= 0 <= interval.high


def _plural(word: str, names: list[str]) -> str:
    return word if len(names) == 1 else f"{word}s"


def _reach(names: list[str]) -> str:
    return "reaches" if len(names) == 1 else "reach"


def _belief(estimate: Estimate) -> str:
    belief = belief_in(estimate)
    if belief.grade in ("", "good"):
        return "The diagnostics give no cause for doubt." if belief.grade else "The diagnostics were not judged."
    care = "Take it with care" if belief.grade == "fair" else "Do not rely on it"
    return f"{care} ({'; '.join(belief.reasons)})."
