"""Any result as a ResultSummary, its verdict in sentences, and the rows that text, notebooks and pages share."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from backcast.errors import OptionError, printable
from backcast.estimate import PROGRESSIVE_VALUE, Estimate
from backcast.report._format import (
    NO_INTERVAL,
    describe_assumption,
    describe_estimand,
    format_interval,
    format_level,
    format_percent,
    format_value,
    join_names,
    round_by_width,
)
from backcast.report._grading import grade

UNDECIDED = "so this log does not show which policy is better"


@dataclass(frozen=True)
class ResultSummary:
    """Estimates by printable name, best first, with paired differences and probabilities of being best if known.

    A difference is the better policy minus the worse. ``ranking`` holds ``(name, probability)`` pairs; ``notes``
    concern all estimates.
    """

    estimates: dict[str, Estimate]
    differences: tuple[Any, ...] = ()
    ranking: tuple[tuple[str, float], ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def best(self) -> str:
        """Name of the estimate with the highest value."""
        return next(iter(self.estimates))


def summarize(result: Any) -> ResultSummary:
    """Summarize an estimate, a mapping of names to estimates, or a comparison; a summary is returned unchanged.

    >>> summarize({})
    Traceback (most recent call last):
    ...
    backcast.errors.OptionError: there is no estimate to report; give an Estimate, a dict of them or a comparison
    """
    if isinstance(result, ResultSummary):
        return result
    if isinstance(result, Estimate):
        return ResultSummary({printable(result.policy): result})
    estimates = getattr(result, "estimates", result)
    if not isinstance(estimates, Mapping) or not estimates:
        raise OptionError("there is no estimate to report; give an Estimate, a dict of them or a comparison")
    for name, estimate in estimates.items():
        if not isinstance(estimate, Estimate):
            raise OptionError(f"{name!r} is a {type(estimate).__name__}; a report needs an Estimate for every name")
    # a missing value (nan) comes last
    best_first = sorted(estimates, key=lambda name: (math.isnan(estimates[name].value), -estimates[name].value))
    names = [printable(str(name)) for name in best_first]
    return ResultSummary(
        {name: estimates[key] for name, key in zip(names, best_first, strict=True)},
        _sort_differences(getattr(result, "differences", ()), {name: rank for rank, name in enumerate(names)}),
        tuple((printable(name), probability) for name, probability in getattr(result, "ranking", ())),
        tuple(getattr(result, "notes", ())),
    )


def _sort_differences(differences: tuple[Any, ...], ranks: Mapping[str, int]) -> tuple[Any, ...]:
    """Return differences as better minus worse, those of the best policy first."""
    oriented = []
    for difference in differences:
        first, second = printable(difference.first), printable(difference.second)
        if ranks[first] < ranks[second]:
            oriented.append(replace(difference, first=first, second=second))
            continue
        interval = replace(difference.interval, low=-difference.interval.high, high=-difference.interval.low)
        oriented.append(replace(difference, first=second, second=first, value=-difference.value, interval=interval))
    return tuple(sorted(oriented, key=lambda d: (ranks[d.first], ranks[d.second])))


def verdict(summary: ResultSummary) -> str:
    """Return which policy has the highest estimate, whether the log distinguishes it, and the reliability."""
    best = summary.estimates[summary.best]
    several = len(summary.estimates) > 1
    interval = f" ({format_level(best.interval)} interval {format_interval(best.interval)})" if best.interval else ""
    lead = "has the highest estimate:" if several else "would have earned"
    sentences = [f"{summary.best} {lead} {format_value(best)} per round{interval}."]
    if several:
        sentences.append(_compare_differences(summary) if summary.differences else _compare_intervals(summary))
    reliability = grade(best)
    if reliability.reasons:
        advice = "Use it with caution" if reliability.grade == "fair" else "Do not rely on it"
        sentences.append(f"{advice} ({'; '.join(reliability.reasons)}).")
    else:
        sentences.append(f"The diagnostics {'show no problem' if reliability.grade else 'were not graded'}.")
    return " ".join(sentences)


def _compare_differences(summary: ResultSummary) -> str:
    """Return whether paired differences distinguish the best policy from the others."""
    undecided = []
    for difference in summary.differences:
        names, interval = [difference.first, difference.second], difference.interval
        if summary.best in names and (interval is None or interval.low <= 0 <= interval.high):
            names.remove(summary.best)
            undecided += names
    if not undecided:
        return "Its difference to every other policy excludes zero, so the log distinguishes them."
    plural = "s" if len(undecided) > 1 else ""
    return f"Its difference{plural} to {join_names(undecided)} may be zero, {UNDECIDED}."


def _compare_intervals(summary: ResultSummary) -> str:
    """Return whether separate intervals distinguish the best policy from the others."""
    intervals = {name: estimate.interval for name, estimate in summary.estimates.items()}
    best = intervals.pop(summary.best)
    if best is None or None in intervals.values():
        return f"Not every estimate has an interval, {UNDECIDED}."
    # the value of a fixed policy has two estimands that mean the same; only the mixture of one run differs
    if len({interval.estimand == PROGRESSIVE_VALUE for interval in (best, *intervals.values()) if interval}) > 1:
        return "The intervals refer to different quantities (see the table), so they cannot be compared."
    overlapping = [name for name, interval in intervals.items() if interval and interval.high >= best.low]
    if not overlapping:
        return "Its interval lies above every other, so the log distinguishes them."
    noun, verb = ("intervals", "overlap") if len(overlapping) > 1 else ("interval", "overlaps")
    return f"The {noun} of {join_names(overlapping)} {verb} its interval, {UNDECIDED}."


def policy_rows(summary: ResultSummary) -> list[dict[str, Any]]:
    """Return one row per policy: value, interval with its fine print, reliability, probability of being best."""
    probabilities = dict(summary.ranking)
    return [
        {
            "name": name,
            "value": format_value(estimate),
            "interval": format_interval(estimate.interval),
            "fine_print": describe_interval(estimate),
            "reliability": grade(estimate),
            "best": format_percent(probabilities[name]) if name in probabilities else "",
        }
        for name, estimate in summary.estimates.items()
    ]


def describe_interval(estimate: Estimate) -> str:
    """Return level, method, assumption and estimand of the interval."""
    interval = estimate.interval
    if interval is None:
        return NO_INTERVAL
    return (
        f"{format_level(interval)}, {interval.method}; {describe_assumption(interval)}; "
        f"for {describe_estimand(estimate)}"
    )


def difference_rows(summary: ResultSummary) -> list[dict[str, str]]:
    """Return one row per paired difference."""
    return [
        {
            "name": f"{difference.first} minus {difference.second}",
            "value": round_by_width(difference.value, difference.interval),
            "interval": format_interval(difference.interval),
        }
        for difference in summary.differences
    ]


def collect_notes(summary: ResultSummary) -> list[str]:
    """Return each note once, with the policies that it concerns unless it concerns all."""
    concerned: dict[str, list[str]] = {note: list(summary.estimates) for note in summary.notes}
    for name, estimate in summary.estimates.items():
        for note in estimate.notes:
            concerned.setdefault(note, []).append(name)
    everyone = len(summary.estimates)
    return [note if len(names) == everyone else f"{join_names(names)}: {note}" for note, names in concerned.items()]
