"""Numbers, intervals and names as text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from backcast.estimate import POLICY_VALUE, PROGRESSIVE_VALUE, BiasEstimate, Estimate, Interval

MISSING = "–"
NO_INTERVAL = "no valid interval is available"
ASSUMPTIONS = {
    "independent": "assumes that events are independent draws",
    "martingale": "holds for any logger that does not look ahead",
    "asymptotic": "needs many events",
    "reward model": "assumes the reward model",
    "asymptotic martingale": "holds for any logger that does not look ahead, with many events",
}


def format_number(value: Any) -> str:
    """Return a number with four digits and separated thousands, a dash if it is missing.

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


def format_percent(share: float) -> str:
    """Return a share as a percentage with three digits.

    >>> format_percent(0.25), format_percent(0.0312499)
    ('25 %', '3.12 %')
    """
    return MISSING if math.isnan(share) else f"{100 * share:.3g} %"


def format_change(share: float, interval: Interval | None = None) -> str:
    """Return a relative change with its sign, as a percentage with as many digits as the interval justifies.

    >>> format_change(0.0912), format_change(-0.0912, Interval(-0.1412, -0.0412, 0.95, "", "", ""))
    ('+9.12 %', '-9 %')
    """
    if math.isnan(share):
        return MISSING
    half_width = 0.0 if interval is None else 100 * interval.half_width
    if not (math.isfinite(half_width) and half_width > 1e-9):
        return f"{100 * share:+.3g} %"
    return f"{100 * share:+.{max(0, -math.floor(math.log10(half_width)))}f} %"


def format_bias(bias: BiasEstimate) -> str:
    """Return a bias estimate with its standard error.

    >>> format_bias(BiasEstimate(-0.00123, 0.004, "subsets of the log"))
    '-0.0012 ± 0.004'
    """
    return f"{bias.value:+.2g} ± {bias.std_error:.2g}"


def format_level(interval: Interval) -> str:
    return f"{100 * interval.level:g} %"


def format_interval(interval: Interval | None) -> str:
    """Return the two ends, with as many digits as the width justifies, or a dash.

    >>> format_interval(Interval(0.0981234, 0.1261234, 0.95, "normal", "asymptotic", POLICY_VALUE))
    '0.098 to 0.126'
    """
    if interval is None:
        return MISSING
    return f"{round_by_width(interval.low, interval)} to {round_by_width(interval.high, interval)}"


def format_value(estimate: Estimate) -> str:
    """Return the value, with as many digits as its interval justifies."""
    return round_by_width(estimate.value, estimate.interval)


def round_by_width(value: float, interval: Interval | None) -> str:
    """Return a value rounded to the second digit of the half-width of its interval.

    >>> round_by_width(0.123456, Interval(0.11, 0.135, 0.95, "normal", "asymptotic", POLICY_VALUE))
    '0.123'
    """
    half_width = 0.0 if interval is None else interval.half_width
    if not (math.isfinite(value) and math.isfinite(half_width) and half_width > 1e-9):
        return format_number(float(value))
    return f"{value:,.{max(0, 1 - math.floor(math.log10(half_width)))}f}"


def round_up(number: float) -> int:
    """Return a number rounded up to two digits.

    >>> round_up(15_001), round_up(100)
    (16000, 100)
    """
    unit = int(10 ** max(0, math.floor(math.log10(number)) - 1))
    return math.ceil(number / unit - 1e-9) * unit  # 15,000 and a rounding error is 15,000


def describe_assumption(interval: Interval) -> str:
    """Return what an interval assumes about the log."""
    return ASSUMPTIONS.get(interval.assumption, f"assumption: {interval.assumption}")


def describe_estimand(estimate: Estimate) -> str:
    """Return the quantity that the interval covers, with the horizon filled in."""
    if estimate.interval is None:
        return MISSING
    estimand = estimate.interval.estimand
    if estimand == PROGRESSIVE_VALUE:
        return "the value of the mixture of all policies that the learner was in this run"
    if estimand != POLICY_VALUE:
        # without the symbol before the colon
        return estimand.partition(": ")[2] or estimand
    rounds = "" if estimate.horizon is None else f", over its first {format_number(estimate.horizon)} rounds"
    return f"the average reward per round that the policy earns{rounds}"


def join_names(names: Sequence[str]) -> str:
    """Return names as part of a sentence.

    >>> join_names(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))
