"""Requirements of --require: what a comparison must show, as a gate of a pipeline; parsed, never evaluated as code."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from backcast.comparison import Comparison
from backcast.errors import OptionError
from backcast.estimate import LOGGED

Outcome: TypeAlias = Literal["met", "contradicted", "unclear", "not trustworthy"]

# exit codes of a requirement that is not met; of several, the first of these decides
EXIT_CODES: dict[Outcome, int] = {"not trustworthy": 5, "contradicted": 3, "unclear": 4, "met": 0}
WORDS = ("better", "not-worse")
OPERATORS = (">=", "<=", ">", "<")
MARGIN = re.compile(r"\s*([+-])\s*(\d+(?:\.\d*)?|\.\d+)(?:[eE]([+-]?\d+))?\s*(%?)\s*")


@dataclass(frozen=True)
class Requirement:
    """A requirement: ``first`` relative to ``second`` plus a margin, or a word about the verdict.

    Examples
    --------
    >>> parse_requirement("linucb > logged + 0.01", ["linucb"])
    Requirement(text='linucb > logged + 0.01', first='linucb', operator='>', second='logged', margin=0.01, \
is_share=False)
    """

    text: str
    first: str = ""
    operator: str = ""
    second: str = ""
    margin: float = 0.0
    is_share: bool = False


@dataclass(frozen=True)
class GateResult:
    """What the log says about a requirement, in a word and in a sentence."""

    requirement: str
    outcome: Outcome
    reason: str


def parse_requirement(text: str, names: Iterable[str]) -> Requirement:
    """Parse "better", "not-worse", or ``A > B + margin`` with names of policies or "logged"; a margin may be in %."""
    words = text.strip()
    if words in WORDS:
        return Requirement(words)
    known = sorted({*names, LOGGED}, key=len, reverse=True)
    first, rest = _take_name(words, known, text)
    operator = next((each for each in OPERATORS if rest.lstrip().startswith(each)), None)
    if operator is None:
        raise _syntax_error(text, known, f"after {first!r} comes one of {', '.join(OPERATORS)}")
    second, rest = _take_name(rest.lstrip()[len(operator) :].lstrip(), known, text)
    if not rest.strip():
        return Requirement(words, first, operator, second)
    margin = MARGIN.fullmatch(rest)
    if margin is None:
        raise _syntax_error(text, known, f"after {second!r} comes nothing, or a margin such as + 0.01 or - 5 %")
    sign, digits, exponent, percent = margin.groups()
    size = float(f"{sign}{digits}e{exponent or 0}") / (100 if percent else 1)
    if not math.isfinite(size):
        raise _syntax_error(text, known, "the margin is not a finite number")
    return Requirement(words, first, operator, second, size, bool(percent))


def _take_name(text: str, known: list[str], whole: str) -> tuple[str, str]:
    """Return the longest known name that the text starts with, and the rest."""
    for name in known:
        if text.startswith(name):
            return name, text[len(name) :]
    raise _syntax_error(whole, known, f"{text[:40]!r} starts with none of the names")


def _syntax_error(text: str, known: list[str], problem: str) -> OptionError:
    return OptionError(
        f'require is {text!r}: {problem}; give better, not-worse, or a comparison such as "linucb > {LOGGED} + 0.01". '
        f"The names are {', '.join(sorted(known))}"
    )


def check_requirement(requirement: Requirement, comparison: Comparison) -> GateResult:
    """Return whether a comparison meets a requirement.

    ``better`` and ``not-worse`` are about the verdict: the policy with the highest value and the baseline. A comparison
    is met if the whole interval of the difference lies on the required side of the margin, and contradicted if the
    whole interval lies on the other side.
    """
    if not requirement.operator:
        verdict = comparison.verdict
        outcomes: dict[str, Outcome] = {"better": "met", "worse": "contradicted", "unclear": "unclear"}
        outcome = outcomes.get(verdict.decision, "not trustworthy")
        if requirement.text == "not-worse" and outcome == "unclear":
            outcome = "met"
        return GateResult(requirement.text, outcome, verdict.sentence)
    low, high = _difference_ends(requirement, comparison)
    first, second, margin = requirement.first, requirement.second, requirement.margin
    sides = {comparison.baseline_name: comparison.baseline, **comparison.estimates}
    poor = [name for name in (first, second) if (side := sides[name]) and not side.reliability.is_trustworthy]
    if poor:
        return GateResult(requirement.text, "not trustworthy", f"The estimate of {' and of '.join(poor)} is poor.")
    ends = [f"{100 * end:+.3g} %" if requirement.is_share else f"{end:+.4g}" for end in (low, high)]
    reason = f"{first} minus {second} lies between {ends[0]} and {ends[1]}."
    if requirement.operator.startswith("<"):
        low, high, margin = -high, -low, -margin
    includes_end = requirement.operator.endswith("=")
    if low > margin or (includes_end and low == margin):
        return GateResult(requirement.text, "met", reason)
    is_contradicted = high < margin or (not includes_end and high == margin)
    return GateResult(requirement.text, "contradicted" if is_contradicted else "unclear", reason)


def _difference_ends(requirement: Requirement, comparison: Comparison) -> tuple[float, float]:
    """Return the interval of the first minus the second: a lift if one of them is the baseline, else a pair."""
    first, second, baseline = requirement.first, requirement.second, comparison.baseline_name
    pairs = {(each.first, each.second): each for each in comparison.differences}
    pairs |= {(name, baseline): lift for name, lift in comparison.lifts.items()}
    if requirement.is_share:
        lift = comparison.lifts.get(first) if second == baseline else None
        if lift is None or lift.relative_interval is None:
            raise OptionError(
                f"require is {requirement.text!r}, but a margin in % is a share of the baseline: write a policy first "
                f"and {baseline!r}, which must be above 0, second"
            )
        return lift.relative_interval.low, lift.relative_interval.high
    if (first, second) in pairs:
        return pairs[first, second].interval.low, pairs[first, second].interval.high
    if (second, first) in pairs:
        return -pairs[second, first].interval.high, -pairs[second, first].interval.low
    raise OptionError(
        f"require is {requirement.text!r}, but the comparison has no difference of {first!r} and {second!r}; name two "
        f"of its policies, or one of them and its baseline {baseline!r}"
    )


def worst_exit_code(results: Iterable[GateResult]) -> int:
    """Return the exit code of several requirements."""
    outcomes = {result.outcome for result in results}
    return next((code for outcome, code in EXIT_CODES.items() if outcome in outcomes), 0)
