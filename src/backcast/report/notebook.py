"""Results in a notebook: the verdict, tables and a drawing, without scripts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import singledispatch
from typing import Any

import numpy as np

from backcast._format import MISSING, format_change, format_interval, format_number, format_percent, round_by_width
from backcast.checks.findings import HealthReport
from backcast.comparison import Comparison
from backcast.errors import printable
from backcast.estimate import Difference, Estimate
from backcast.evaluators.reward_distribution import RewardDistribution
from backcast.planning import Plan
from backcast.report._evaluated import format_option
from backcast.report._summary import collect_notes, difference_rows, policy_rows, summarize, verdict
from backcast.report.charts import plan_chart, plot_result, render_svg
from backcast.rerun import RerunReport
from backcast.results import SavedResult
from backcast.searching import SearchResult
from backcast.verdict import Verdict

# with its own colours, because a drawing cannot follow those of the notebook
CARD = "background:#fff;color:#1b1f24;padding:12px 16px;max-width:720px;font-family:system-ui,sans-serif"
TABLE = "border-collapse:collapse;margin:8px 0;background:#fff;color:#1b1f24"
CELL = "text-align:left;vertical-align:top;padding:3px 14px 3px 0;border-bottom:1px solid #d5d9df;white-space:normal"
NOTE = "color:#4d5560;margin:4px 0"
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)  # of a reward distribution
MOST_CANDIDATES = 30  # rows of a search: an output cell with more is not read


def mime_bundle(text: str, html: str, include: Iterable[str] | None, exclude: Iterable[str] | None) -> dict[str, str]:
    """Return plain text and HTML, as far as the notebook requests them.

    >>> mime_bundle("a", "<p>a</p>", include=None, exclude=["text/html"])
    {'text/plain': 'a'}
    """
    both = {"text/plain": text, "text/html": html}
    requested = set(both if include is None else include) - set(exclude or ())
    return {kind: content for kind, content in both.items() if kind in requested}


@singledispatch
def display_html(value: Any) -> str:
    """Return any result as HTML; one without a display of its own as a table of its fields."""
    shown = [field.name for field in fields(value) if not field.name.startswith("_")]
    rows = [(name.replace("_", " "), _describe_field(getattr(value, name))) for name in shown]
    return _card(type(value).__name__, _table(("Field", "Value"), rows))


def _describe_field(value: Any) -> str:
    if isinstance(value, np.ndarray):
        size = " by ".join(map(format_number, value.shape))
        if value.size == 0 or value.dtype.kind not in "biuf":
            return f"{size} values"
        if value.dtype.kind == "b":
            return f"{size} values, {format_number(int(value.sum()))} of them true"
        return f"{size} numbers from {format_number(value.min().item())} to {format_number(value.max().item())}"
    if isinstance(value, dict) and "type" in value:
        return format_option(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_describe_field(item)}" for key, item in value.items()) or MISSING
    if isinstance(value, list | tuple):
        return ", ".join(map(_describe_field, value)) or MISSING
    if is_dataclass(value) and not isinstance(value, type) and "__str__" not in vars(type(value)):
        shown = (field.name for field in fields(value) if not field.name.startswith("_"))
        return ", ".join(f"{name.replace('_', ' ')}: {_describe_field(getattr(value, name))}" for name in shown)
    return format_number(value)


@display_html.register(Estimate)
@display_html.register(Comparison)
def result_html(result: Estimate | Comparison) -> str:
    """Return the verdict, tables of values and differences, and the chart of an estimate or a comparison."""
    summary = summarize(result)
    rows = policy_rows(summary)
    columns = {"Policy": "name", "Value": "value", "Interval": "interval"}
    columns |= {"Lift": "lift", "In %": "relative", "Its interval": "relative_interval"} if summary.lifts else {}
    columns |= {"Reliability": "reliability"} | ({"Best": "best"} if summary.ranking else {})
    cells = [[getattr(row[key], "label", row[key]) for key in columns.values()] for row in rows]
    tables = _table(tuple(columns), cells)
    if summary.differences:
        differences = [[row["name"], row["value"], row["interval"]] for row in difference_rows(summary)]
        tables += _table(("Difference", "Value", "Interval"), differences)
    drawing = render_svg(plot_result(summary).to_dict())
    return _card(verdict(summary), tables, collect_notes(summary), drawing)


@display_html.register
def health_html(report: HealthReport) -> str:
    """Return the verdict and every finding, the worst first."""
    rows = [
        [
            finding.verdict,
            finding.name.replace("_", " "),
            format_number(float(finding.figure)),
            " ".join(filter(None, (finding.message, finding.remedy))),
        ]
        for finding in (*report.faults, *report.passed)
    ]
    table = _table(("Verdict", "Check", "Figure", "Finding and remedy"), rows)
    lines = [] if report.policy is None else str(report.policy).splitlines()
    lines += [] if report.reading is None else [f"Log: {report.reading}."]
    return _card(f"{report.about}: {report.verdict}", table, lines)


@display_html.register
def plan_html(plan: Plan) -> str:
    """Return the number of events for each difference, and the chart of the power."""
    rows = [
        [
            need.pair,
            format_number(need.difference),
            format_number(need.events),
            f"{format_number(need.low)} to {format_number(need.high)}",
        ]
        for need in plan.needs
    ]
    table = _table(("Policies", "Difference", "Events", "Range"), rows)
    return _card(str(plan).splitlines()[0], table, plan.notes, render_svg(plan_chart(plan).to_dict()))


@display_html.register
def search_html(result: SearchResult) -> str:
    """Return the best setting with its value, and all candidates with their difference to it."""
    rows = []
    for candidate in result.candidates[:MOST_CANDIDATES]:
        gap = candidate.difference
        rows.append(
            [
                candidate.name,
                format_number(candidate.value),
                "best" if gap is None else round_by_width(gap.value, gap.interval),
                MISSING if gap is None else format_interval(gap.interval),
                MISSING if candidate.stage is None else format_number(candidate.stage),
                format_percent(candidate.share_won),
            ]
        )
    left_out = len(result.candidates) - len(rows)
    notes = [*result.notes, *([f"{left_out:,} more candidates are in to_frame()."] if left_out else [])]
    heads = ("Candidate", "Value", "Minus the best", "Interval", "Dropped after stage", "Folds won")
    return _card(str(result).splitlines()[0], _table(heads, rows), notes)


@display_html.register
def difference_html(difference: Difference) -> str:
    """Return the difference with its interval, absolute and relative."""
    name = f"{difference.first} minus {difference.second}"
    interval, share = difference.interval, difference.relative_interval
    rows = [["per round", round_by_width(difference.value, interval), format_interval(interval)]]
    if share is not None:
        ends = f"{format_change(share.low, share)} to {format_change(share.high, share)}"
        rows.append([f"as a share of {difference.second}", format_change(difference.relative, share), ends])
    fine_print = f"{100 * interval.level:g} % interval, {interval.method}"
    return _card(name, _table(("Difference", "Value", "Interval"), rows), [fine_print])


@display_html.register
def verdict_html(decided: Verdict) -> str:
    """Return the sentence, the decision on each policy, the reasons and the next step."""
    decisions = decided.policies or decided.against
    table = _table(("Policy" if decided.policies else "Against", "Decision"), decisions)
    return _card(str(decided), table, [*decided.reasons, *filter(None, [decided.next_step])])


@display_html.register
def distribution_html(distribution: RewardDistribution) -> str:
    """Return the mean and quantiles of the rewards with their intervals."""
    estimates = {"mean": distribution.mean()} | {f"{100 * q:g} % quantile": distribution.quantile(q) for q in QUANTILES}
    cells = [[name, format_number(each.value), format_interval(each.interval)] for name, each in estimates.items()]
    return _card(
        f"Rewards of {distribution.policy}",
        _table(("Quantity", "Value", f"{100 * distribution.level:g} % interval"), cells),
    )


@display_html.register
def saved_html(saved: SavedResult) -> str:
    """Return the result itself, and what is stored with it."""
    about = [f"{name}: {_describe_field(value)}" for name, value in saved.about.items()]
    state = ["The run was stopped before its end."] if saved.partial else []
    version = [f"Made by backcast {saved.made_by}."] if saved.made_by else []
    results = saved.result.values() if isinstance(saved.result, dict) else [saved.result]
    return "".join(map(display_html, results)) + _card("Saved result", "", [*about, *state, *version])


@display_html.register
def rerun_html(report: RerunReport) -> str:
    """Return whether the numbers are the same, and the values before and now."""
    rows = [[name or "value", repr(report.before[name]), repr(value)] for name, value in report.now.items()]
    return _card(report.conclusion, _table(("Policy", "Before", "Now"), rows))


def _card(title: str, tables: str, notes: Sequence[str] = (), drawing: str = "") -> str:
    from markupsafe import escape

    paragraphs = "".join(f'<p style="{NOTE}">{escape(printable(note))}</p>' for note in notes)
    heading = f"<p><strong>{escape(printable(title))}</strong></p>"
    return f'<div style="{CARD}">{heading}{tables}{paragraphs}{drawing}</div>'


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    from markupsafe import escape

    head = "".join(f'<th scope="col" style="{CELL}">{escape(text)}</th>' for text in heads)
    cells = ("".join(f'<td style="{CELL}">{escape(printable(text))}</td>' for text in row) for row in rows)
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    return f'<table style="{TABLE}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
