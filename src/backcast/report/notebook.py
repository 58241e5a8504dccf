"""Results as a notebook shows them: the verdict, a table and a drawing, with nothing in it that could run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from backcast.report._format import format_number
from backcast.report._summary import ResultSummary, summarize, verdict
from backcast.report.charts import comparison_chart, estimate_chart
from backcast.report.html import difference_rows, policy_rows, remarks

if TYPE_CHECKING:
    from backcast.checks.findings import HealthReport
    from backcast.comparison import Comparison
    from backcast.estimate import Estimate


# paper and ink of its own, because a drawing cannot follow the notebook's
CARD = "background:#fff;color:#1b1f24;padding:12px 16px;max-width:720px;font-family:system-ui,sans-serif"


TABLE = "border-collapse:collapse;margin:8px 0;background:#fff;color:#1b1f24"


CELL = "text-align:left;vertical-align:top;padding:3px 14px 3px 0;border-bottom:1px solid #d5d9df;white-space:normal"


def mime_bundle(text: str, html: str, include: Iterable[str] | None, exclude: Iterable[str] | None) -> dict[str, str]:
    """Plain text and HTML, as far as they are wanted.

    >>> mime_bundle("a", "<p>a</p>", include=None, exclude=["text/html"])
    {'text/plain': 'a'}
    """
    both = {"text/plain": text, "text/html": html}
    wanted = set(both) if include is None else set(include)
    return {kind: words for kind, words in both.items() if kind in wanted - set(exclude or ())}


def estimate_html(estimate: Estimate) -> str:
    """The verdict, the value with its interval, and the learning curve or the interval drawn."""
    findings = summarize(estimate)
    return _card(verdict(findings), _policies(findings), remarks(findings), estimate_chart(estimate))


def comparison_html(comparison: Comparison) -> str:
    """The verdict, values and differences as tables, and both drawn."""
    findings = summarize(comparison)
    gaps = [[row["name"], row["value"], row["interval"]] for row in difference_rows(findings)]
    tables = f"{_policies(findings)}{_table(('Difference', 'Value', 'Interval'), gaps)}"
    return _card(verdict(findings), tables, remarks(findings), comparison_chart(findings))


def health_html(report: HealthReport) -> str:
    """The verdict and every finding, the worst first."""
    sound = [finding for finding in report.findings if finding.verdict == "ok"]
    rows = [
        [
            f.verdict,
            f.name.replace("_", " "),
            format_number(float(f.figure)),
            " ".join(filter(None, (f.message, f.remedy))),
        ]
        for f in (*report.faults, *sound)
    ]
    fit = [] if report.policy is None else str(report.policy).splitlines()
    table = _table(("Verdict", "Looked at", "Figure", "Found, and what to do"), rows)
    return _card(f"{report.about}: {report.verdict}", table, fit)


def _policies(findings: ResultSummary) -> str:
    rows = [
        [row["name"], row["value"], row["interval"], row["belief"]["words"], row["chance"]]
        for row in policy_rows(findings)
    ]
    if findings.ranking:
        return _table(("Policy", "Value", "Interval", "Belief", "Best"), rows)
    return _table(("Policy", "Value", "Interval", "Belief"), [row[:-1] for row in rows])


def _card(words: str, tables: str, notes: Sequence[str], chart: Any = None) -> str:
    from markupsafe import escape

    drawing = "" if chart is None else _drawing(chart)
    said = "".join(f'<p style="color:#4d5560;margin:4px 0">{escape(note)}</p>' for note in notes)
    return f'<div style="{CARD}"><p><strong>{escape(words)}</strong></p>{tables}{said}{drawing}</div>'


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    from markupsafe import escape

    head = "".join(f'<th scope="col" style="{CELL}">{escape(text)}</th>' for text in heads)
    cells = ("".join(f'<td style="{CELL}">{escape(text)}</td>' for text in row) for row in rows)
    body = "".join(f"<tr>{own}</tr>" for own in cells)
    return f'<table style="{TABLE}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def _drawing(chart: Any) -> str:
    import vl_convert

    return str(vl_convert.vegalite_to_svg(chart.to_dict()))
