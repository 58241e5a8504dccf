"""Numbers and intervals in words: what text, charts and pages say alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from backcast.errors import OptionError, printable
from backcast.estimate import PROGRESSIVE_VALUE, Estimate, Interval
from backcast.report._format import interval_words, joined, level_words, value_words
from backcast.report._grading import grade

# what no XML file may hold, and what turns the direction of the text around it


@dataclass(frozen=True)
class ResultSummary:
    """Estimates by name, best first, with paired differences and chances of being best where they are known.

    A difference has ``first, second, value, std_error, interval``; ``ranking`` holds ``(name, probability)`` pairs;
    ``notes`` are about all of them.
    """

    estimates: dict[str, Estimate]
    differences: tuple[Any, ...] = ()
    ranking: tuple[tuple[str, float], ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def best(self) -> str:
        """The name of the estimate of highest value."""
        return next(iter(self.estimates))


def summarize(result: Any) -> ResultSummary:
    """An estimate, a mapping of names to estimates, or a comparison, as findings.

    >>> summarize({})
    Traceback (most recent call last):
    ...
    backcast.errors.OptionError: there is no estimate to report; give an Estimate, a dict of them or a comparison
    """
    if isinstance(result, Estimate):
        return ResultSummary({printable(result.policy): result})
    estimates = getattr(result, "estimates", result)
    if not isinstance(estimates, Mapping) or not estimates:
        raise OptionError("there is no estimate to report; give an Estimate, a dict of them or a comparison")
    for name, estimate in estimates.items():
        if not isinstance(estimate, Estimate):
            raise OptionError(f"{name!r} is a {type(estimate).__name__}; a report needs an Estimate for every name")
    best_first = {
        printable(str(name)): estimates[name] for name in sorted(estimates, key=lambda n: _place(estimates[n]))
    }
    differences = [_renamed(difference) for difference in getattr(result, "differences", ())]
    return ResultSummary(
        best_first,
        tuple(_in_order(differences, list(best_first))),
        tuple((printable(name), chance) for name, chance in getattr(result, "ranking", ())),
        tuple(getattr(result, "notes", ())),
    )


def _renamed(difference: Any) -> Any:
    return replace(difference, first=printable(difference.first), second=printable(difference.second))


def _in_order(differences: list[Any], names: list[str]) -> list[Any]:
    """Differences as a reader expects them: the better minus the worse, the best policy's first."""
    turned = [d if names.index(d.first) < names.index(d.second) else _turned(d) for d in differences]
    return sorted(turned, key=lambda d: (names.index(d.first), names.index(d.second)))


def _turned(difference: Any) -> Any:
    interval = replace(difference.interval, low=-difference.interval.high, high=-difference.interval.low)
    first, second = difference.second, difference.first
    return replace(difference, first=first, second=second, value=-difference.value, interval=interval)


def _place(estimate: Estimate) -> float:
    """Where an estimate stands: the highest value first, no value last."""
    return -estimate.value if estimate.value == estimate.value else float("inf")


UNSETTLED = "this log alone does not settle which is better"


def verdict(findings: ResultSummary) -> str:
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


def _standing(findings: ResultSummary) -> str:
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


def _paired_standing(findings: ResultSummary) -> str:
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
    belief = grade(estimate)
    if belief.grade in ("", "good"):
        return "The diagnostics give no cause for doubt." if belief.grade else "The diagnostics were not judged."
    care = "Take it with care" if belief.grade == "fair" else "Do not rely on it"
    return f"{care} ({'; '.join(belief.reasons)})."
