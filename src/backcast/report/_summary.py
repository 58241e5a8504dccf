"""Any result as a ResultSummary, its verdict in sentences, and the rows that text, notebooks and pages share."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from backcast._format import (
    NO_INTERVAL,
    describe_assumption,
    describe_estimand,
    format_change,
    format_interval,
    format_level,
    format_number,
    format_percent,
    format_value,
    join_names,
    round_by_width,
)
from backcast.errors import OptionError, printable
from backcast.estimate import LOGGED, Difference, Estimate
from backcast.guardrails import GuardrailResult
from backcast.verdict import Decision, Verdict, decide_lift, describe_lift, judge, judge_lifts

LEARNING_CELLS = (
    *("break_even", "break_even_interval", "payback", "payback_interval"),
    *("first_round", "after", "after_interval", "end", "end_interval"),
)


@dataclass(frozen=True)
class ResultSummary:
    """Estimates by printable name, best first, with paired differences and probabilities of being best if known.

    A difference is the first policy minus the second, as in the comparison. ``ranking`` holds ``(name, probability)``
    pairs; ``notes`` concern all estimates. ``lifts`` are relative to the ``baseline``, by name of the policy.
    ``comparison`` is what was summarized, for its outcomes and segments; None if it was another result.
    """

    estimates: dict[str, Estimate]
    differences: tuple[Any, ...] = ()
    ranking: tuple[tuple[str, float], ...] = ()
    notes: tuple[str, ...] = ()
    baseline: Estimate | None = None
    baseline_name: str = LOGGED
    lifts: dict[str, Difference] = field(default_factory=dict)
    guardrails: tuple[GuardrailResult, ...] = ()
    comparison: Any = None

    @property
    def baseline_value(self) -> float | None:
        """Value of the baseline, for a line in charts; None without one."""
        if self.baseline is not None:
            return self.baseline.value
        lift = self.lifts.get(self.best)
        return None if lift is None else self.estimates[self.best].value - lift.value

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
        lifts = {} if result.lift is None else {printable(result.policy): result.lift}
        return ResultSummary({printable(result.policy): result}, lifts=lifts)
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
        getattr(result, "baseline", None),
        printable(getattr(result, "baseline_name", LOGGED)),
        {
            printable(name): replace(lift, first=printable(lift.first), second=printable(lift.second))
            for name, lift in getattr(result, "lifts", {}).items()
        },
        tuple(replace(each, policy=printable(each.policy)) for each in getattr(result, "guardrails", ())),
        result if hasattr(result, "outcomes") else None,
    )


def _sort_differences(differences: tuple[Any, ...], ranks: Mapping[str, int]) -> tuple[Any, ...]:
    """Return differences with printable names, those of the best policy first; signs stay as in the comparison."""
    named = [replace(d, first=printable(d.first), second=printable(d.second)) for d in differences]
    return tuple(sorted(named, key=lambda d: sorted((ranks[d.first], ranks[d.second]))))


def verdict(summary: ResultSummary) -> str:
    """Return what is decided, first about the baseline, the highest estimate, how reliable it is, and the next step."""
    if summary.comparison is not None and summary.comparison.outcome:
        return f"Values are {printable(summary.comparison.outcome)} per round, of which more may be better or worse."
    highest, reliability = describe_highest(summary), summary.estimates[summary.best].reliability
    decided = decide(summary)
    if decided is None:
        lift = summary.lifts.get(summary.best)
        sentences = [highest]
        if lift is not None and reliability.is_trustworthy:
            sentences.append(describe_lift(lift, summary.estimates[summary.best].break_even))
    else:
        # the verdict on a baseline comes first; one on the other policies follows the highest of them
        first = [decided.sentence, highest] if summary.baseline is not None else [highest, decided.sentence]
        sentences = [*first, *(f"{reason}." for reason in decided.reasons), decided.next_step]
        if decided.decision == "not trustworthy":
            return " ".join(filter(None, sentences))
    return " ".join(filter(None, [*sentences, caution(summary), reliability.next_step]))


def describe_highest(summary: ResultSummary) -> str:
    """Return the policy with the highest estimate, or the only one, with its interval."""
    best, several = summary.estimates[summary.best], len(summary.estimates) > 1
    interval = f" ({format_level(best.interval)} interval {format_interval(best.interval)})" if best.interval else ""
    lead = "has the highest estimate:" if several else "would have earned"
    return f"{summary.best} {lead} {format_value(best)} per round{interval}."


def caution(summary: ResultSummary) -> str:
    """Return how reliable the highest estimate is."""
    reliability = summary.estimates[summary.best].reliability
    if reliability.reasons:
        advice = "Use it with caution" if reliability.is_trustworthy else "Do not rely on it"
        return f"{advice} ({'; '.join(reliability.reasons)})."
    return f"The diagnostics {'show no problem' if reliability.grade else 'were not graded'}."


def decide(summary: ResultSummary) -> Verdict | None:
    """Return the verdict on the policies and their baseline; None for one estimate without a baseline.

    There is none on another outcome than the reward.
    """
    if summary.comparison is not None and summary.comparison.outcome:
        return None
    if summary.baseline is not None:
        return judge_lifts(
            summary.estimates, summary.baseline, summary.baseline_name, summary.lifts, summary.guardrails
        )
    return judge(summary.estimates, summary.differences) if len(summary.estimates) > 1 else None


def lift_decisions(summary: ResultSummary) -> dict[str, Decision]:
    """Return the decision on each policy and the baseline; of one estimate, on the policy and the log."""
    if summary.baseline is None:
        return {name: decide_lift(summary.estimates[name], lift) for name, lift in summary.lifts.items()}
    decided = decide(summary)
    return {} if decided is None else dict(decided.policies)


def policy_rows(summary: ResultSummary) -> list[dict[str, Any]]:
    """Return one row per policy: value, lift, interval with its fine print, reliability, probability of being best.

    The first row is the baseline, unless it is one of the policies.
    """
    probabilities = dict(summary.ranking)
    estimates = dict(summary.estimates)
    if summary.baseline is not None and summary.baseline_name not in estimates:
        estimates = {summary.baseline_name: summary.baseline, **estimates}
    return [
        {
            "name": name,
            "value": format_value(estimate),
            "interval": format_interval(estimate.interval),
            "fine_print": describe_interval(estimate),
            "reliability": estimate.reliability,
            "best": format_percent(probabilities[name]) if name in probabilities else "",
            "is_baseline": name == summary.baseline_name and name not in summary.lifts,
            **_lift_cells(summary.lifts.get(name)),
        }
        for name, estimate in estimates.items()
    ]


def _lift_cells(lift: Difference | None) -> dict[str, str]:
    """Return the lift of one policy as text, absolute and relative; empty without one."""
    if lift is None:
        return {"lift": "", "lift_interval": "", "relative": "", "relative_interval": ""}
    relative = lift.relative_interval
    ends = () if relative is None else (relative.low, relative.high)
    return {
        "lift": round_by_width(lift.value, lift.interval),
        "lift_interval": format_interval(lift.interval),
        "relative": "" if relative is None else format_change(lift.relative, relative),
        "relative_interval": " to ".join(format_change(end, relative) for end in ends),
    }


def learning_rows(summary: ResultSummary) -> list[dict[str, str]]:
    """Return one row per policy with a break-even round or a value after learning, as text; empty cells without one."""
    rows = []
    for name, estimate in summary.estimates.items():
        even, after = estimate.break_even, estimate.after_learning
        if even is None and after is None:
            continue
        row = {"name": name, **dict.fromkeys(LEARNING_CELLS, "")}
        if even is not None:
            row |= {
                "break_even": _format_round(even.round, even.horizon),
                "break_even_interval": even.interval.to_text(even.horizon),
                "payback": _format_round(even.payback, even.horizon),
                "payback_interval": even.payback_interval.to_text(even.horizon),
            }
        if after is not None:
            row |= {
                "after": round_by_width(after.value, after.interval),
                "after_interval": format_interval(after.interval),
                "first_round": format_number(after.first_round),
            }
            if after.end_interval is not None:
                row["end"] = round_by_width(after.end_value, after.end_interval)
                row["end_interval"] = format_interval(after.end_interval)
        rows.append(row)
    return rows


def _format_round(number: int | None, horizon: int) -> str:
    return f"not within {horizon:,}" if number is None else f"{number:,}"


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
    policies_of: dict[str, dict[str, None]] = {note: dict.fromkeys(summary.estimates) for note in summary.notes}
    for name, estimate in summary.estimates.items():
        for note in estimate.notes:
            policies_of.setdefault(note, {})[name] = None
    return [
        note if len(names) == len(summary.estimates) else f"{join_names(list(names))}: {note}"
        for note, names in policies_of.items()
    ]
