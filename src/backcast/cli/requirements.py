"""Requirements of --require: what a comparison must show, as a gate of a pipeline; parsed, never evaluated as code."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from backcast.comparison import Comparison
from backcast.errors import OptionError
from backcast.estimate import LOGGED
from backcast.guardrails import OPERATORS, GateOutcome, judge_side, parse_margin, take_name

# exit codes of a requirement that is not met; of several, the first of these decides
EXIT_CODES: dict[str, int] = {"not trustworthy": 5, "contradicted": 3, "unclear": 4, "met": 0}
WORDS = ("better", "not-worse")


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
    outcome: str
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
    margin = parse_margin(rest)
    if margin is None:
        raise _syntax_error(text, known, f"after {second!r} comes nothing, or a margin such as + 0.01 or - 5 %")
    if not math.isfinite(margin[0]):
        raise _syntax_error(text, known, "the margin is not a finite number")
    return Requirement(words, first, operator, second, *margin)


def _take_name(text: str, known: list[str], whole: str) -> tuple[str, str]:
    """Return the longest known name that the text starts with, and the rest."""
    name = take_name(text, known)
    if name is None:
        raise _syntax_error(whole, known, f"{text[:40]!r} starts with none of the names")
    return name, text[len(name) :]


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
        outcomes: dict[str, GateOutcome] = {"better": "met", "worse": "contradicted", "unclear": "unclear"}
        outcome = outcomes.get(verdict.decision, "not trustworthy")
        if requirement.text == "not-worse" and outcome == "unclear":
            outcome = "met"
        return GateResult(requirement.text, outcome, verdict.sentence)
    low, high = _difference_ends(requirement, comparison)
    first, second = requirement.first, requirement.second
    sides = {comparison.baseline_name: comparison.baseline, **comparison.estimates}
    poor = [name for name in (first, second) if (side := sides[name]) and not side.reliability.is_trustworthy]
    if poor:
        return GateResult(requirement.text, "not trustworthy", f"The estimate of {' and of '.join(poor)} is poor.")
    ends = [f"{100 * end:+.3g} %" if requirement.is_share else f"{end:+.4g}" for end in (low, high)]
    reason = f"{first} minus {second} lies between {ends[0]} and {ends[1]}."
    return GateResult(requirement.text, judge_side(low, high, requirement.operator, requirement.margin), reason)


def guardrail_gates(comparison: Comparison) -> list[GateResult]:
    """Return what the log says about each guardrail for the policy of the verdict."""
    if not comparison.guardrails:
        return []
    policy = comparison.verdict.policy
    return [
        GateResult(f"{each.policy}: {each.guardrail}", each.outcome, each.reason)
        for each in comparison.guardrails
        if each.policy == policy
    ]


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
