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
from backcast.estimate import LOGGED, Estimate
from backcast.report._summary import ResultSummary, difference_rows, learning_rows, policy_rows

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
        ("break-even", _describe_break_even(estimate)),
        ("learned", _describe_after_learning(estimate)),
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


def _describe_break_even(estimate: Estimate) -> str:
    """Return from which round on the policy earns more than the baseline, and when it has paid; empty if not known."""
    found = estimate.break_even
    if found is None:
        return ""
    level, within = f"{100 * found.level:g} %", f"not within {found.horizon:,} rounds"
    baseline = "the log did" if found.baseline == LOGGED else found.baseline
    first, paid = (each.to_text(found.horizon) for each in (found.interval, found.payback_interval))
    more = within if found.round is None else f"from round {found.round:,} on"
    back = within if found.payback is None else f"by round {found.payback:,}"
    return f"earns more than {baseline} {more} ({level} {first}); has paid for its learning {back} ({level} {paid})"


def _describe_after_learning(estimate: Estimate) -> str:
    """Return what the policy earns in its last rounds and frozen after them; empty if not known."""
    after = estimate.after_learning
    if after is None:
        return ""
    level, rounds = format_level(after.interval), f"rounds {after.first_round:,} to {estimate.horizon:,}"
    text = f"{round_by_width(after.value, after.interval)} in {rounds} ({level} {format_interval(after.interval)})"
    if after.end_interval is None:
        return text
    end = round_by_width(after.end_value, after.end_interval)
    return f"{text}; {end} frozen at the end ({level} {format_interval(after.end_interval)})"


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
    """Return a rich table of estimates, the baseline and then best first: value, interval, reliability."""
    from rich.text import Text

    estimates = summary.estimates
    levels = {format_level(estimate.interval) for estimate in estimates.values() if estimate.interval is not None}
    rates = {
        name: estimate.diagnostics.to_dict().get("acceptance_rate", math.nan) for name, estimate in estimates.items()
    }
    with_rates = not all(map(math.isnan, rates.values()))
    interval = f"{levels.pop()} interval" if len(levels) == 1 else "interval"
    optional: dict[str, tuple[bool, Mapping[str, Any]]] = {
        "accepted": (with_rates, NUMBER),
        "best": (bool(summary.ranking), NUMBER),
    }
    shown = {name: options for name, (is_shown, options) in optional.items() if is_shown}
    table = make_table({"policy": FOLD, "value": NUMBER, interval: NO_WRAP, **shown, "reliability": NO_WRAP})
    for row in policy_rows(summary):
        cells = {"accepted": format_percent(rates.get(row["name"], math.nan)), "best": row["best"]}
        # Text, not markup: a name such as "[red]" is shown unchanged
        table.add_row(
            Text(row["name"]),
            row["value"],
            row["interval"],
            *(cells[name] for name in shown),
            Text(row["reliability"].label, style=STYLES[row["reliability"].grade]),
        )
    return table


def lifts_table(summary: ResultSummary) -> Table:
    """Return a rich table of the lifts over the baseline, per round and as a share of it."""
    from rich.text import Text

    rows = [row for row in policy_rows(summary) if row["lift"]]
    title = f"lift over {printable(summary.baseline_name)}"
    columns: dict[str, Mapping[str, Any]] = {title: FOLD, "per round": NUMBER, "interval": NO_WRAP}
    if any(row["relative"] for row in rows):
        columns |= {"in %": NUMBER, "interval in %": NO_WRAP}
    table = make_table(columns)
    for row in rows:
        cells = [row["lift"], row["lift_interval"], row["relative"], row["relative_interval"]]
        table.add_row(Text(row["name"]), *cells[: len(columns) - 1])
    return table


def differences_table(summary: ResultSummary) -> Table:
    """Return a rich table of the paired differences of a comparison."""
    from rich.text import Text

    table = make_table({"difference": FOLD, "value": NUMBER, "interval, valid for all jointly": NO_WRAP})
    for row in difference_rows(summary):
        table.add_row(Text(row["name"]), row["value"], row["interval"])
    return table


def learning_table(summary: ResultSummary) -> Table:
    """Return a rich table of break-even rounds and values after learning, with a line for intervals."""
    from rich.text import Text

    titles = ("earns more from round", "has paid by round", "in the last rounds", "frozen at the end")
    table = make_table({"policy": FOLD, **dict.fromkeys(titles, RIGHT)})
    for row in learning_rows(summary):
        names = ("break_even", "payback", "after", "end")
        cells = (f"{row[name]}\n({row[f'{name}_interval']})" if row[name] else "" for name in names)
        table.add_row(Text(row["name"]), *cells)
    return table


def outcome_tables(summary: ResultSummary) -> list[Table]:
    """Return rich tables of further outcomes, guardrails and segments of a comparison; none if it has none."""
    from rich.text import Text

    from backcast.report.outcomes import guardrail_rows, outcome_rows, segment_rows

    comparison = summary.comparison
    if comparison is None:
        return []
    lifts: dict[str, Mapping[str, Any]] = {"lift": NUMBER, "interval": NO_WRAP, "relative": NUMBER}
    contents: list[tuple[dict[str, Mapping[str, Any]], list[dict[str, str]]]] = [
        ({"outcome": NO_WRAP, "policy": NO_WRAP, "value": NUMBER, **lifts}, outcome_rows(comparison)),
        ({"guardrail": FOLD, "policy": NO_WRAP, "outcome": NO_WRAP, "reason": FOLD}, guardrail_rows(comparison)),
    ]
    for column in comparison.segments:
        rows = [{**row, column: row["segment"]} for row in segment_rows(comparison, column)]
        contents.append(({column: NO_WRAP, "policy": NO_WRAP, "events": NUMBER, **lifts, "decision": NO_WRAP}, rows))
    tables = []
    for columns, rows in contents:
        if rows:
            table = make_table({"in %" if name == "relative" else name: each for name, each in columns.items()})
            for row in rows:
                table.add_row(*(Text(row[name]) for name in columns))
            tables.append(table)
    return tables
