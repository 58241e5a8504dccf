"""Guardrails: bounds on further outcomes that a policy must be shown to keep; parsed, never evaluated as code."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from backcast._equality import ContentEquality
from backcast.errors import OptionError
from backcast.estimate import Difference, Estimate

GateOutcome: TypeAlias = Literal["met", "contradicted", "unclear", "not trustworthy"]

OPERATORS = (">=", "<=", ">", "<")
NUMBER = r"(\d+(?:\.\d*)?|\.\d+)(?:[eE]([+-]?\d+))?"
MARGIN = re.compile(rf"\s*([+-])\s*{NUMBER}\s*(%?)\s*")
BOUND = re.compile(rf"\s*([+-]?)\s*{NUMBER}\s*()\s*")


@dataclass(frozen=True)
class Guardrail:
    """A bound on one outcome: relative to the baseline with a margin, or a number if ``baseline`` is empty.

    Examples
    --------
    >>> parse_guardrail("latency < logged + 5", ["latency"], "logged")
    Guardrail(text='latency < logged + 5', outcome='latency', operator='<', baseline='logged', margin=5.0, \
is_share=False)
    """

    text: str
    outcome: str
    operator: str
    baseline: str
    margin: float
    is_share: bool = False


@dataclass(frozen=True, eq=False)
class GuardrailResult(ContentEquality):
    """What the log says about a guardrail for one policy.

    Attributes
    ----------
    guardrail, policy
        The guardrail as it was given, and the policy.
    outcome
        "met" if the whole interval is on the required side of the bound, "contradicted" if it is on the other side,
        "unclear" if the bound is inside, "not trustworthy" if the estimate is.
    reason
        The interval, in words.
    """

    guardrail: str
    policy: str
    outcome: str
    reason: str

    def __str__(self) -> str:
        return f"{self.policy}: {self.guardrail} is {self.outcome}. {self.reason}"


def parse_guardrail(text: str, outcomes: Sequence[str], baseline: str) -> Guardrail:
    """Parse ``OUTCOME < baseline + margin`` or ``OUTCOME < number``; a margin may be a share in %.

    >>> parse_guardrail("ms >= logged - 2 %", ["ms"], "logged").margin
    -0.02
    """
    if not isinstance(text, str):
        raise OptionError(f"a guardrail is {text!r}; give text such as 'latency < {baseline} + 5'")
    words = text.strip()
    name = take_name(words, outcomes)
    if name is None:
        listed = ", ".join(outcomes) or "none: name columns by outcomes={...} when the log is read"
        raise _syntax_error(text, baseline, f"it must start with one of the log's outcomes ({listed})")
    rest = words[len(name) :].lstrip()
    operator = next((each for each in OPERATORS if rest.startswith(each)), None)
    if operator is None:
        raise _syntax_error(text, baseline, f"after {name!r} comes one of {', '.join(OPERATORS)}")
    rest = rest[len(operator) :].strip()
    if rest.startswith(baseline):
        margin = rest[len(baseline) :]
        if not margin.strip():
            return Guardrail(words, name, operator, baseline, 0.0)
        parsed = parse_margin(margin)
        if parsed is None:
            raise _syntax_error(text, baseline, f"after {baseline!r} comes nothing, or a margin such as + 5 or - 2 %")
        if not math.isfinite(parsed[0]):
            raise _syntax_error(text, baseline, "the margin is not a finite number")
        return Guardrail(words, name, operator, baseline, *parsed)
    bound = BOUND.fullmatch(rest)
    if bound is None:
        raise _syntax_error(text, baseline, f"after {operator} comes {baseline!r}, the baseline, or a number")
    number = _to_number(*bound.groups()[:3])
    if not math.isfinite(number):
        raise _syntax_error(text, baseline, "the bound is not a finite number")
    return Guardrail(words, name, operator, "", number)


def take_name(text: str, known: Iterable[str]) -> str | None:
    """Return the longest known name that the text starts with; None if there is none."""
    return next((name for name in sorted(known, key=len, reverse=True) if text.startswith(name)), None)


def parse_margin(text: str) -> tuple[float, bool] | None:
    """Return a margin and whether it is a share in %; None if the text is none.

    >>> parse_margin(" + 5"), parse_margin("-2 %"), parse_margin("5")
    ((5.0, False), (-0.02, True), None)
    """
    margin = MARGIN.fullmatch(text)
    if margin is None:
        return None
    sign, digits, exponent, percent = margin.groups()
    return _to_number(sign, digits, exponent) / (100 if percent else 1), bool(percent)


def _to_number(sign: str, digits: str, exponent: str | None) -> float:
    return float(f"{sign}{digits}e{exponent or 0}")


def _syntax_error(text: str, baseline: str, problem: str) -> OptionError:
    return OptionError(f'guardrail is {text!r}: {problem}; write for example "latency < {baseline} + 5"')


def judge_side(low: float, high: float, operator: str, bound: float) -> GateOutcome:
    """Return whether an interval lies on the required side of a bound, on the other side, or on both.

    >>> judge_side(1.0, 2.0, "<", 3.0), judge_side(1.0, 2.0, ">=", 1.5), judge_side(1.0, 2.0, "<=", 0.5)
    ('met', 'unclear', 'contradicted')
    """
    if operator.startswith("<"):
        low, high, bound = -high, -low, -bound
    includes_end = operator.endswith("=")
    if low > bound or (includes_end and low == bound):
        return "met"
    return "contradicted" if high < bound or (not includes_end and high == bound) else "unclear"


def check_guardrail(
    guardrail: Guardrail, policy: str, estimate: Estimate, lift: Difference | None, ends: tuple[float, float] | None
) -> GuardrailResult:
    """Return what the log says about a guardrail for one policy.

    ``lift`` is that of the policy in the outcome, ``ends`` the interval of its value that holds together with all
    others; both are None without a standard error.
    """
    outcome: GateOutcome = "unclear"
    reason = f"The log gives no interval of {guardrail.outcome}."
    if guardrail.baseline and lift is not None:
        interval = lift.relative_interval if guardrail.is_share else lift.interval
        if interval is None:
            reason = f"The log does not show that {guardrail.outcome} of {guardrail.baseline} is above 0."
        else:
            low, high = interval.low, interval.high
            shown = [f"{100 * end:+.3g} %" if guardrail.is_share else f"{end:+.4g}" for end in (low, high)]
            reason = f"{guardrail.outcome} minus {guardrail.baseline} lies between {shown[0]} and {shown[1]}."
            outcome = judge_side(low, high, guardrail.operator, guardrail.margin)
    elif not guardrail.baseline and ends is not None:
        reason = f"{guardrail.outcome} lies between {ends[0]:.4g} and {ends[1]:.4g}."
        outcome = judge_side(*ends, guardrail.operator, guardrail.margin)
    if not estimate.reliability.is_trustworthy:
        outcome, reason = "not trustworthy", f"The estimate of {guardrail.outcome} is poor. {reason}"
    return GuardrailResult(guardrail.text, policy, outcome, reason)
