"""Estimates as text: a block of lines for one, a table for several."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from backcast._format import (
    NO_INTERVAL,
    describe_assumption,
    describe_estimand,
    format_bias,
    format_change,
    format_interval,
    format_level,
    format_number,
    format_percent,
    format_value,
    round_by_width,
)
from backcast.errors import printable
from backcast.estimate import Estimate
from backcast.report._summary import ResultSummary, difference_rows, policy_rows

if TYPE_CHECKING:
    from rich.table import Table

WIDTH, LABEL_WIDTH = 100, 12
ESTIMATED = "Propensities were estimated from the log, not recorded; intervals do not include the error of that."
FOLD, NO_WRAP, RIGHT = {"overflow": "fold"}, {"no_wrap": True}, {"justify": "right"}  # options of table columns
NUMBER = {**RIGHT, **NO_WRAP}
STYLES = {"": "", "good": "green", "fair": "yellow", "poor": "red"}


def estimate_text(estimate: Estimate) -> str:
    """Return value, interval and reliability in a few lines.

    Examples
    --------
    >>> from backcast.diagnostics import WeightDiagnostics
    >>> from backcast.estimate import POLICY_VALUE, Interval
    >>> interval = Interval(0.25, 0.75, 0.95, "normal", "asymptotic", POLICY_VALUE)
    >>> diagnostics = WeightDiagnostics(4096, effective_sample_size=2048.0, mean_weight=1.0, largest_weight=4.0)
    >>> print(estimate_text(Estimate(0.5, 0.125, interval, diagnostics, policy="uniform", evaluator="IPS()")))
    uniform: 0.50 per round
      interval    0.25 to 0.75 (95 %, normal; needs many events)
      estimand    the average reward per round that the policy earns
      method      IPS()
      weights     effective sample size 2,048 of 4,096 events; mean weight 1, largest 4
      reliability good
    """
    diagnostics = estimate.diagnostics.to_dict()
    reliability = estimate.reliability
    reasons = f" ({'; '.join(reliability.reasons)})" if reliability.reasons else ""
    lines = [
        ("interval", _describe_interval(estimate)),
        ("lift", _describe_lift(estimate)),
        ("estimand", describe_estimand(estimate)),
        ("method", _describe_method(estimate)),
        ("accepted", _describe_acceptance(diagnostics)),
        ("runs", _describe_runs(diagnostics)),
        ("error", _describe_errors(estimate.std_error, diagnostics)),
        ("weights", _describe_weights(diagnostics)),
        ("bias", _describe_bias(estimate)),
        ("reliability", f"{reliability.label}{reasons}"),
        ("next step", reliability.next_step),
        ("note", ESTIMATED if diagnostics.get("propensities_estimated") else ""),
        *(("note", note) for note in estimate.notes),
    ]
    title = f"{printable(estimate.policy)}: {format_value(estimate)} per round"
    indent = " " * (2 + LABEL_WIDTH)
    wrapped = [
        textwrap.fill(printable(text), WIDTH, initial_indent=f"  {label:<{LABEL_WIDTH}}", subsequent_indent=indent)
        for label, text in lines
        if text
    ]
    return "\n".join([title, *wrapped])


def _describe_interval(estimate: Estimate) -> str:
    interval = estimate.interval
    if interval is None:
        return NO_INTERVAL
    fine_print = f"{format_level(interval)}, {interval.method}; {describe_assumption(interval)}"
    return f"{format_interval(interval)} ({fine_print})"


def _describe_lift(estimate: Estimate) -> str:
    """Return the difference to what the log earned; empty if it is not known."""
    lift = estimate.lift
    if lift is None:
        return ""
    share = "" if lift.relative_interval is None else f", {format_change(lift.relative, lift.relative_interval)}"
    value = round_by_width(lift.value, lift.interval)
    return f"{value} over the log's own mean{share} ({format_level(lift.interval)} {format_interval(lift.interval)})"


def _describe_method(estimate: Estimate) -> str:
    parts = [estimate.evaluator]
    if estimate.horizon is not None:
        parts.append(f"horizon {format_number(estimate.horizon)}")
    if "seed" in estimate.settings:
        parts.append(f"seed {estimate.settings['seed']}")
    return ", ".join(parts)


def _describe_acceptance(diagnostics: dict[str, Any]) -> str:
    """Return how much of the log was accepted; empty for evaluators that accept no events."""
    if "accepted" not in diagnostics:
        return ""
    accepted, events = format_number(diagnostics["accepted"]), format_number(diagnostics["events"])
    text = f"{accepted} of {events} events ({format_percent(diagnostics['acceptance_rate'])})"
    if "trajectories_complete" not in diagnostics:
        return text
    complete, failed = (format_number(diagnostics[f"trajectories_{state}"]) for state in ("complete", "failed"))
    return f"{text}; {complete} trajectories complete, {failed} failed"


def _describe_runs(diagnostics: dict[str, Any]) -> str:
    """Return the number of simulated histories; empty for evaluators that make one pass."""
    events, rounds = (f"{format_number(diagnostics.get(key))} {key}" for key in ("events", "rounds"))
    if "parts" in diagnostics:
        parts = f"{format_number(diagnostics['parts'])} parts of a stream, {events} together"
        return f"{format_number(diagnostics['passes_each'])} histories of {rounds} from each of {parts}"
    if "replicates" not in diagnostics:
        return ""
    if "passes" in diagnostics:
        runs = f"{format_number(diagnostics['passes'])} histories"
    else:
        runs = f"{format_number(diagnostics['permutations'])} orders"
    subsets = f"; {format_number(diagnostics['replicates'])} on subsets" if diagnostics["replicates"] else ""
    return f"{runs} of {rounds} from {events}{subsets}"


def _describe_errors(std_error: float, diagnostics: dict[str, Any]) -> str:
    """Return the components of the standard error; empty if they are not known."""
    if "monte_carlo_error" not in diagnostics:
        return ""
    monte_carlo = f"Monte-Carlo {format_number(diagnostics['monte_carlo_error'])}"
    if math.isnan(diagnostics["sampling_error"]):
        return f"{monte_carlo}; sampling error unknown"
    return f"{format_number(std_error)}: sampling {format_number(diagnostics['sampling_error'])}, {monte_carlo}"


def _describe_weights(diagnostics: dict[str, Any]) -> str:
    """Return the effective sample size and the range of weights; empty for evaluators without weights."""
    if "effective_sample_size" not in diagnostics:
        return ""
    keys = ("effective_sample_size", "events", "mean_weight", "largest_weight")
    effective, events, mean, largest = (format_number(diagnostics[key]) for key in keys)
    return f"effective sample size {effective} of {events} events; mean weight {mean}, largest {largest}"


def _describe_bias(estimate: Estimate) -> str:
    """Return bias estimate, certificate and filled share; empty for evaluators without them."""
    diagnostics, bias = estimate.diagnostics.to_dict(), estimate.bias_estimate
    parts = [] if bias is None else [f"estimate {format_bias(bias)}"]
    certificate = diagnostics.get("bias_certificate")
    if certificate is not None and certificate >= 1:
        parts.append(f"no guarantee (certificate {format_number(certificate)}; only below 1 does it bound the bias)")
    elif certificate is not None:
        limit = "upper bound on the total variation from a live history"
        parts.append(f"certificate {format_number(certificate)} ({limit})")
    if diagnostics.get("filled_share", 0.0) > 0:
        parts.append(f"{format_percent(diagnostics['filled_share'])} of the rounds filled from the reward model")
    return "; ".join(parts)


def make_table(columns: Mapping[str, Mapping[str, Any]]) -> Table:
    """Return a rich table without rows; ``columns`` are the options of each by title."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for title, options in columns.items():
        table.add_column(title, **options)
    return table


def estimates_table(summary: ResultSummary) -> Table:
    """Return a rich table of estimates, the baseline and then best first: value, interval, lift, reliability."""
    from rich.text import Text

    estimates = summary.estimates
    levels = {format_level(estimate.interval) for estimate in estimates.values() if estimate.interval is not None}
    rates = {
        name: estimate.diagnostics.to_dict().get("acceptance_rate", math.nan) for name, estimate in estimates.items()
    }
    with_rates = not all(map(math.isnan, rates.values()))
    interval = f"{levels.pop()} interval" if len(levels) == 1 else "interval"
    rows = policy_rows(summary)
    optional: dict[str, tuple[bool, Mapping[str, Any]]] = {
        "accepted": (with_rates, RIGHT),
        "lift": (bool(summary.lifts), NUMBER),
        "in %": (any(row["relative"] for row in rows), NUMBER),
        "its interval": (any(row["relative"] for row in rows), NO_WRAP),
        "best": (bool(summary.ranking), RIGHT),
    }
    shown = {name: options for name, (is_shown, options) in optional.items() if is_shown}
    table = make_table({"policy": FOLD, "value": NUMBER, interval: NO_WRAP, **shown, "reliability": FOLD})
    for row in rows:
        cells = {
            "accepted": format_percent(rates.get(row["name"], math.nan)),
            "lift": row["lift"],
            "in %": row["relative"],
            "its interval": row["relative_interval"],
            "best": row["best"],
        }
        # Text, not markup: a name such as "[red]" is shown unchanged
        table.add_row(
            Text(row["name"]),
            row["value"],
            row["interval"],
            *(cells[name] for name in shown),
            Text(row["reliability"].label, style=STYLES[row["reliability"].grade]),
        )
    return table


def differences_table(summary: ResultSummary) -> Table:
    """Return a rich table of the paired differences of a comparison."""
    from rich.text import Text

    table = make_table({"difference": FOLD, "value": NUMBER, "interval, valid for all jointly": NO_WRAP})
    for row in difference_rows(summary):
        table.add_row(Text(row["name"]), row["value"], row["interval"])
    return table
