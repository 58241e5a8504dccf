"""Docstring."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from backcast.estimate import POLICY_VALUE, PROGRESSIVE_VALUE, Estimate, Interval

MISSING = "–"


ASSUMPTIONS = {
    "independent": "assumes that events are independent draws",
    "martingale": "holds for any logger that does not look ahead",
    "asymptotic": "relies on there being many events",
}


def format_number(value: Any) -> str:
    """A number as a reader wants it: four digits, thousands apart, a dash where there is none.

    >>> format_number(0.081249), format_number(12345), format_number(float("nan")), format_number(True)
    ('0.08125', '12,345', '–', 'yes')
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if not isinstance(value, float):
        return MISSING if value is None else str(value)
    if math.isnan(value):
        return MISSING
    return f"{value:,.0f}" if 1e3 <= abs(value) < 1e12 else f"{value:.4g}"


def percent(share: float) -> str:
    """A share out of a hundred, three digits.

    >>> percent(0.25), percent(0.0312499)
    ('25 %', '3.12 %')
    """
    return MISSING if math.isnan(share) else f"{100 * share:.3g} %"


def level_words(interval: Interval) -> str:
    """The level an interval claims.

    >>> level_words(Interval(0.25, 0.75, 0.95, "normal", "asymptotic", POLICY_VALUE))
    '95 %'
    """
    return f"{100 * interval.level:g} %"


def interval_words(interval: Interval | None) -> str:
    """The two ends, with the digits that their distance warrants, or a dash.

    >>> interval_words(Interval(0.0981234, 0.1261234, 0.95, "normal", "asymptotic", POLICY_VALUE))
    '0.098 to 0.126'
    """
    return (
        MISSING
        if interval is None
        else f"{rounded_to(interval.low, interval)} to {rounded_to(interval.high, interval)}"
    )


def value_words(estimate: Estimate) -> str:
    """The value, with the digits that its interval warrants."""
    return rounded_to(estimate.value, estimate.interval)


def rounded_to(value: float, interval: Interval | None) -> str:
    """A value with the digits that an interval warrants: two digits of its half-width decide where to stop.

    >>> rounded_to(0.123456, Interval(0.11, 0.135, 0.95, "normal", "asymptotic", POLICY_VALUE))
    '0.123'
    """
    reach = 0.0 if interval is None else interval.half_width
    if not (math.isfinite(value) and math.isfinite(reach) and reach > 1e-9):
        return format_number(float(value))
    return f"{value:,.{max(0, 1 - math.floor(math.log10(reach)))}f}"


def assumption_words(interval: Interval) -> str:
    """What an interval asks of the log.

    >>> assumption_words(Interval(0.25, 0.75, 0.95, "normal", "asymptotic", POLICY_VALUE))
    'relies on there being many events'
    """
    return ASSUMPTIONS.get(interval.assumption, f"assumption: {interval.assumption}")


def estimand_words(estimate: Estimate) -> str:
    """What the interval is about, with the rounds of the question filled in."""
    if estimate.interval is None:
        return MISSING
    estimand = estimate.interval.estimand
    if estimand == PROGRESSIVE_VALUE:
        return "the value of the mixture of all policies that the learner was in this run"
    if estimand != POLICY_VALUE:
        # without its symbol: "V(pi): what the policy earns a round"
        return estimand.partition(": ")[2] or estimand
    rounds = "" if estimate.horizon is None else f", over its first {format_number(estimate.horizon)} rounds"
    return f"the average reward a round that the policy earns{rounds}"


def joined(names: Sequence[str]) -> str:
    """Names in a sentence.

    >>> joined(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))
