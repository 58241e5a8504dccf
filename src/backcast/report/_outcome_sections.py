"""Sections of the report about further outcomes, guardrails and segments of a comparison."""

from __future__ import annotations

from collections.abc import Mapping

from backcast.errors import printable
from backcast.report._decision_sections import DECISION_GRADES, ReportContent
from backcast.report._page import Block, Cell, Chart, Heading, Section, Table, number
from backcast.report.outcomes import guardrail_rows, outcome_rows, plot_outcomes, segment_rows, trade_off_rows

GUARDRAIL_GRADES = {"met": "good", "contradicted": "poor", "unclear": "fair", "not trustworthy": "poor"}
GUARDRAIL_WORDS = {
    "met": "kept",
    "contradicted": "broken",
    "unclear": "not shown",
    "not trustworthy": "not trustworthy",
}


def outcome_section(content: ReportContent) -> Section | None:
    """Return the guardrails, and what each policy earns in further outcomes of the same histories."""
    comparison = content.summary.comparison
    if comparison is None or not comparison.outcomes:
        return None
    blocks: list[Block] = []
    guardrails: list[list[str | Cell]] = [
        [
            row["guardrail"],
            row["policy"],
            Cell(
                GUARDRAIL_WORDS.get(row["outcome"], row["outcome"]), (row["reason"],), GUARDRAIL_GRADES[row["outcome"]]
            ),
        ]
        for row in guardrail_rows(comparison)
    ]
    if guardrails:
        caption = "Guardrails: bounds on outcomes that a policy must be shown to keep, or else it is not better"
        blocks.append(Table("guardrails", caption, ("Guardrail", "Policy", "Result"), guardrails))
    for i, outcome in enumerate(comparison.outcomes):
        if trade_off_rows(comparison, outcome):
            caption = (
                f"Each point is a policy: its lift in the reward against that in {printable(outcome)}, with the "
                "intervals of both. Dashed lines: no change."
            )
            blocks.append(Chart(f"trade-off-{i}", plot_outcomes(comparison, outcome), caption))
    rows: list[list[str | Cell]] = [
        [row["outcome"], row["policy"], number(row["value"]), _lift_cell(row)] for row in outcome_rows(comparison)
    ]
    caption = "Further outcomes per round, read off the same histories; intervals of lifts hold together"
    blocks.append(Table("outcome-table", caption, ("Outcome", "Policy", "Value", "Lift"), rows))
    return Section("outcomes", "Outcomes", "Other outcomes", blocks)


def segment_section(content: ReportContent) -> Section | None:
    """Return the lifts by segment, one table for each column."""
    comparison = content.summary.comparison
    if comparison is None or not comparison.segments:
        return None
    blocks: list[Block] = []
    for i, column in enumerate(comparison.segments):
        rows: list[list[str | Cell]] = [
            [
                row["segment"],
                row["policy"],
                number(row["events"], row["share"]),
                _lift_cell(row),
                Cell(row["decision"], grade=DECISION_GRADES[row["decision"]]),
            ]
            for row in segment_rows(comparison, column)
        ]
        caption = f"Lifts by {printable(column)}; intervals hold for all segments and policies together"
        heads = ("Segment", "Policy", "Events", "Lift", "Decision")
        blocks += [Heading(printable(column)), Table(f"segments-{i}", caption, heads, rows)]
    return Section("segments", "Segments", "For whom is it better?", blocks)


def _guardrail_cell(outcome: str, reason: str) -> Cell:
    return Cell(GUARDRAIL_WORDS.get(outcome, outcome), (reason,), GUARDRAIL_GRADES[outcome])


def _lift_cell(row: Mapping[str, str]) -> Cell:
    return number(row["lift"], row["interval"], row["relative"])
