"""Estimates as text: a block of lines for one, a table for several."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING, Any

from backcast.errors import printable
from backcast.estimate import Estimate
from backcast.report._format import (
    assumption_words,
    estimand_words,
    format_number,
    interval_words,
    level_words,
    percent,
    value_words,
)
from backcast.report._grading import grade
from backcast.report._summary import summarize
from backcast.report.html import difference_rows

if TYPE_CHECKING:
    from rich.table import Table


WIDTH = 100


LABEL = 12


ESTIMATED = "Propensities were estimated from the log, not recorded; no interval knows the error of that."


STYLES = {"": "", "good": "green", "fair": "yellow", "poor": "red"}


def estimate_text(estimate: Estimate) -> str:
    """The number, how sure, and how far to believe it, in a few lines.

    Examples
    --------
    >>> from backcast.diagnostics import WeightDiagnostics
    >>> from backcast.estimate import POLICY_VALUE, Interval
    >>> interval = Interval(0.25, 0.75, 0.95, "normal", "asymptotic", POLICY_VALUE)
    >>> diagnostics = WeightDiagnostics(4096, effective_sample_size=2048.0, mean_weight=1.0, largest_weight=4.0)
    >>> print(estimate_text(Estimate(0.5, 0.125, interval, diagnostics, policy="uniform", evaluator="IPS()")))
    uniform: 0.50 a round
      interval    0.25 to 0.75 (95 %, normal; relies on there being many events)
      about       the average reward a round that the policy earns
      method      IPS()
      weights     effective sample size 2,048 of 4,096 events; mean weight 1, largest 4
      belief      well supported
    """
    facts = estimate.diagnostics.to_dict()
    lines = [
        ("interval", _interval(estimate)),
        ("about", estimand_words(estimate)),
        ("method", _method(estimate)),
        ("accepted", _accepted(facts)),
        ("runs", _runs(facts)),
        ("error", _errors(estimate.std_error, facts)),
        ("weights", _weights(facts)),
        ("bias", _bias(facts)),
        ("belief", _belief(estimate)),
        ("note", ESTIMATED if facts.get("propensities_estimated") else ""),
        *(("note", note) for note in estimate.notes),
    ]
    head = f"{printable(estimate.policy)}: {value_words(estimate)} a round"
    return "\n".join([head, *(_wrapped(label, printable(text)) for label, text in lines if text)])


def _wrapped(label: str, text: str) -> str:
    indent = " " * (2 + LABEL)
    return textwrap.fill(text, WIDTH, initial_indent=f"  {label:<{LABEL}}", subsequent_indent=indent)


def _interval(estimate: Estimate) -> str:
    interval = estimate.interval
    if interval is None:
        return "none can honestly be given"
    fine_print = f"{level_words(interval)}, {interval.method}; {assumption_words(interval)}"
    return f"{interval_words(interval)} ({fine_print})"


def _method(estimate: Estimate) -> str:
    parts = [estimate.evaluator]
    if estimate.horizon is not None:
        parts.append(f"horizon {format_number(estimate.horizon)}")
    if "seed" in estimate.settings:
        parts.append(f"seed {estimate.settings['seed']}")
    return ", ".join(parts)


def _accepted(facts: dict[str, Any]) -> str:
    """How much of the log joined simulated histories; empty for evaluators without any."""
    if "accepted" not in facts:
        return ""
    share = percent(facts["acceptance_rate"])
    events = f"{format_number(facts['accepted'])} of {format_number(facts['events'])} events ({share})"
    if "trajectories_complete" not in facts:
        return events
    complete, failed = format_number(facts["trajectories_complete"]), format_number(facts["trajectories_failed"])
    return f"{events}; {complete} trajectories complete, {failed} failed"


def _runs(facts: dict[str, Any]) -> str:
    """How many simulated histories the answer rests on; empty for evaluators that make one pass."""
    events, rounds = f"{format_number(facts.get('events'))} events", f"{format_number(facts.get('rounds'))} rounds"
    if "parts" in facts:
        parts = f"{format_number(facts['parts'])} parts of a stream, {events} together"
        return f"{format_number(facts['passes_each'])} histories of {rounds} from each of {parts}"
    if "replicates" not in facts:
        return ""
    whole = (
        f"{format_number(facts['passes'])} histories"
        if "passes" in facts
        else f"{format_number(facts['permutations'])} orders"
    )
    subsets = f"; {format_number(facts['replicates'])} on subsets" if facts["replicates"] else ""
    return f"{whole} of {rounds} from {events}{subsets}"


def _errors(total: float, facts: dict[str, Any]) -> str:
    """Where the standard error comes from; empty where it is not told apart."""
    if "monte_carlo_error" not in facts:
        return ""
    chance = f"Monte-Carlo {format_number(facts['monte_carlo_error'])}"
    if math.isnan(facts["sampling_error"]):
        return f"{chance}; none from sampling, because no replicates were run"
    return f"{format_number(total)}: sampling {format_number(facts['sampling_error'])}, {chance}"


def _weights(facts: dict[str, Any]) -> str:
    """What the weights are worth; empty for evaluators without any."""
    if "effective_sample_size" not in facts:
        return ""
    effective, events = (format_number(facts[name]) for name in ("effective_sample_size", "events"))
    size = f"effective sample size {effective} of {events} events"
    return (
        f"{size}; mean weight {format_number(facts['mean_weight'])}, largest {format_number(facts['largest_weight'])}"
    )


def _bias(facts: dict[str, Any]) -> str:
    """The bias certificate; empty for evaluators without one."""
    if "bias_certificate" not in facts:
        return ""
    return f"certificate {format_number(facts['bias_certificate'])} (total variation from a live history, at most)"


def _belief(estimate: Estimate) -> str:
    belief = grade(estimate)
    return belief.words + (f" ({'; '.join(belief.reasons)})" if belief.reasons else "")


def estimates_table(result: Any) -> Table:
    """A rich table of estimates, best first: value, interval, and how far to believe each.

    ``result`` is an estimate, a dict of them by name, or a comparison, which adds the chances of being best.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    findings = summarize(result)
    chances = dict(findings.ranking)
    accepting = any("acceptance_rate" in estimate.diagnostics.to_dict() for estimate in findings.estimates.values())
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("policy", overflow="fold")
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column(_interval_title(list(findings.estimates.values())), no_wrap=True)
    if accepting:
        table.add_column("accepted", justify="right")
    if chances:
        table.add_column("best", justify="right")
    table.add_column("belief", overflow="fold")
    for name, estimate in findings.estimates.items():
        belief = grade(estimate)
        # Text, not markup: a name such as "[red]" is shown as it is
        table.add_row(
            Text(printable(name)),
            value_words(estimate),
            interval_words(estimate.interval),
            *([percent(estimate.diagnostics.to_dict().get("acceptance_rate", math.nan))] if accepting else []),
            *([percent(chances[name])] if chances else []),
            Text(belief.words, style=STYLES[belief.grade]),
        )
    return table


def differences_table(result: Any) -> Table:
    """A rich table of the paired differences of a comparison."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    findings = summarize(result)
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("difference", overflow="fold")
    table.add_column("value", justify="right", no_wrap=True)
    table.add_column("interval, for all of them together", no_wrap=True)
    for row in difference_rows(findings):
        table.add_row(Text(printable(row["name"])), row["value"], row["interval"])
    return table


def _interval_title(estimates: list[Estimate]) -> str:
    levels = {level_words(estimate.interval) for estimate in estimates if estimate.interval is not None}
    return f"{levels.pop()} interval" if len(levels) == 1 else "interval"
