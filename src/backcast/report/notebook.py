"""Results in a notebook: the verdict, a table and a drawing, without scripts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from backcast._format import format_number
from backcast.report._summary import collect_notes, difference_rows, policy_rows, summarize, verdict
from backcast.report.charts import plot_result, render_svg

if TYPE_CHECKING:
    from backcast.checks.findings import HealthReport

# with its own colours, because a drawing cannot follow those of the notebook
CARD = "background:#fff;color:#1b1f24;padding:12px 16px;max-width:720px;font-family:system-ui,sans-serif"
TABLE = "border-collapse:collapse;margin:8px 0;background:#fff;color:#1b1f24"
CELL = "text-align:left;vertical-align:top;padding:3px 14px 3px 0;border-bottom:1px solid #d5d9df;white-space:normal"
NOTE = "color:#4d5560;margin:4px 0"


def mime_bundle(text: str, html: str, include: Iterable[str] | None, exclude: Iterable[str] | None) -> dict[str, str]:
    """Return plain text and HTML, as far as the notebook requests them.

    >>> mime_bundle("a", "<p>a</p>", include=None, exclude=["text/html"])
    {'text/plain': 'a'}
    """
    both = {"text/plain": text, "text/html": html}
    requested = set(both if include is None else include) - set(exclude or ())
    return {kind: content for kind, content in both.items() if kind in requested}


def result_html(result: Any) -> str:
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


def _card(title: str, tables: str, notes: Sequence[str], drawing: str = "") -> str:
    from markupsafe import escape

    paragraphs = "".join(f'<p style="{NOTE}">{escape(note)}</p>' for note in notes)
    return f'<div style="{CARD}"><p><strong>{escape(title)}</strong></p>{tables}{paragraphs}{drawing}</div>'


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    from markupsafe import escape

    head = "".join(f'<th scope="col" style="{CELL}">{escape(text)}</th>' for text in heads)
    cells = ("".join(f'<td style="{CELL}">{escape(text)}</td>' for text in row) for row in rows)
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    return f'<table style="{TABLE}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
