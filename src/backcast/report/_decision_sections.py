"""Sections of the report about the decision: lifts over the baseline, learning curves, values, differences."""

from __future__ import annotations

from dataclasses import dataclass

from backcast._format import format_number
from backcast.checks.findings import HealthReport
from backcast.errors import printable
from backcast.estimate import LOGGED
from backcast.report._page import Block, Cell, Chart, Paragraph, Section, Table, number
from backcast.report._summary import (
    ResultSummary,
    caution,
    collect_notes,
    decide,
    describe_highest,
    describe_interval,
    difference_rows,
    learning_rows,
    lift_decisions,
    policy_rows,
)
from backcast.report.charts import curve_rows, curves_chart, differences_chart, lifts_chart, values_chart
from backcast.report.replay_charts import Replays
from backcast.verdict import describe_lift

DECISION_GRADES = {"better": "good", "worse": "poor", "unclear": "fair", "not trustworthy": "poor"}


@dataclass(frozen=True)
class ReportContent:
    """What sections are made of: the result, one run of each policy, checks of the log, and more facts."""

    summary: ResultSummary
    replays: Replays
    health: HealthReport | None
    about: dict[str, object]
    result_file: str | None
    lacks_log: bool


@dataclass(frozen=True)
class Conclusion:
    """The top of the page: the decision with its grade, sentences with the most important first, and the next step."""

    label: str
    grade: str
    sentences: tuple[str, ...]
    next_step: str


def title_of(summary: ResultSummary) -> str:
    """Return the question that the page answers."""
    several = len([name for name in summary.estimates if name != summary.baseline_name]) > 1
    if not summary.lifts:
        return f"What would {'these policies' if len(summary.estimates) > 1 else 'this policy'} have earned?"
    than = "the log did" if summary.baseline_name == LOGGED else summary.baseline_name
    return f"{'Do these policies earn' if several else 'Does this policy earn'} more than {than}?"


def conclude(summary: ResultSummary) -> Conclusion:
    """Return the decision about the baseline, or else about the policies, and what to do next."""
    best, decided = summary.estimates[summary.best], decide(summary)
    reliability, lift = best.reliability, summary.lifts.get(summary.best)
    if decided is None:
        # one policy: the log is the baseline
        decision = lift_decisions(summary).get(summary.best, "" if reliability.is_trustworthy else "not trustworthy")
        first = describe_lift(lift, best.break_even) if lift is not None and reliability.is_trustworthy else ""
        next_step = reliability.next_step
        remarks = [caution(summary)]
    else:
        decision, first, next_step = decided.decision, decided.sentence, decided.next_step
        remarks = [f"{printable(reason)}." for reason in decided.reasons] or [caution(summary)]
    sentences = (first, describe_highest(summary), *remarks)
    next_step = next_step or reliability.next_step or _step_after(decision, summary)
    grade = DECISION_GRADES.get(decision, reliability.grade)
    return Conclusion(decision.capitalize(), grade, tuple(filter(None, sentences)), next_step)


def _step_after(decision: str, summary: ResultSummary) -> str:
    """Return what to do after a decision."""
    if decision == "better":
        return f"Confirm it live: give {summary.best} a part of the traffic."
    if decision == "worse":
        kept = "what is deployed" if summary.baseline_name == LOGGED else summary.baseline_name
        return f"Keep {kept}, or look for better settings (backcast search)."
    return ""


def lift_section(content: ReportContent) -> Section | None:
    """Return how much more each policy earns than the baseline."""
    summary = content.summary
    if not summary.lifts:
        return None
    decisions = lift_decisions(summary)
    rows = [
        [
            row["name"],
            number(row["lift"], row["lift_interval"]),
            number(row["relative"], row["relative_interval"]),
            Cell(decisions[row["name"]], grade=DECISION_GRADES[decisions[row["name"]]]),
        ]
        for row in policy_rows(summary)
        if row["name"] in summary.lifts
    ]
    over = "what the log earned" if summary.baseline_name == LOGGED else summary.baseline_name
    level = next(iter(summary.lifts.values())).interval.level
    jointly = ", which hold for all policies together" if len(rows) > 1 else ""
    explained = (
        "Each point is how much more a policy earns per round, each line its interval; the mark on each line is zero. "
        "Filled: the interval excludes zero. Hollow: it does not."
    )
    blocks: tuple[Block, ...] = (
        Chart("lifts-chart", lifts_chart(summary), explained),
        Table(
            "lift-table",
            f"Average reward per round minus {over}, with {100 * level:g} % intervals{jointly}",
            ("Policy", "Per round", "In %", "Decision"),
            rows,
        ),
    )
    return Section("lifts", "Lifts", f"Compared with {over}", blocks)


def curve_section(content: ReportContent) -> Section | None:
    """Return the value by round of policies that learn."""
    summary = content.summary
    if all(estimate.curve is None for estimate in summary.estimates.values()):
        return None
    caption = (
        f"Average reward per round over blocks of rounds, with a pointwise band.{_baseline_caption(summary, 'line')}"
    )
    rows = [
        [row["policy"], number(format_number(row["round"])), number(row["value"]), number(row["band"])]
        for row in curve_rows(summary)
    ]
    table = Table(
        "points",
        "Average reward per round by policy, over the block of rounds that ends here",
        ("Policy", "Round", "Value", "Band"),
        rows,
        folded="Learning curves as a table",
    )
    chart = Chart("curves", curves_chart(summary), caption)
    return Section("learning", "Learning", "Learning curves", (chart, *_learning_tables(summary), table))


def _learning_tables(summary: ResultSummary) -> list[Block]:
    """Return tables of break-even rounds and of values after learning, of policies that have them."""
    rows = learning_rows(summary)
    tables: list[Block] = []
    over = "the log did" if summary.baseline_name == LOGGED else summary.baseline_name
    even: list[list[str | Cell]] = [
        [
            row["name"],
            number(row["break_even"], row["break_even_interval"]),
            number(row["payback"], row["payback_interval"]),
        ]
        for row in rows
        if row["break_even"]
    ]
    if even:
        caption = (
            f"Rounds from which a policy earns more per round than {over}, and by which it has made up for what it "
            "earned less before, with intervals"
        )
        tables.append(Table("break-even", caption, ("Policy", "Earns more from round", "Has paid by round"), even))
    after: list[list[str | Cell]] = [
        [
            row["name"],
            number(row["first_round"]),
            number(row["after"], row["after_interval"]),
            number(row["end"], row["end_interval"]),
        ]
        for row in rows
        if row["after"]
    ]
    if after:
        caption = "Average reward per round after learning, and of the policy of the last round if it learned no more"
        heads = ("Policy", "From round", "Value from there on", "Frozen at the end")
        tables.append(Table("after-learning", caption, heads, after))
    return tables


def _baseline_caption(summary: ResultSummary, shape: str) -> str:
    """Return which line or mark of a chart is the baseline; empty without one."""
    if summary.baseline_value is None:
        return ""
    name = "what the log earned" if summary.baseline_name == LOGGED else summary.baseline_name
    return f" The grey {shape} is {name}."


def value_section(content: ReportContent) -> Section:
    """Return the value of each policy with its interval and reliability, and the notes."""
    summary = content.summary
    fine_prints = {describe_interval(estimate) for estimate in summary.estimates.values()}
    fine_print = fine_prints.pop() if len(fine_prints) == 1 else ""
    rows = []
    for row in policy_rows(summary):
        best = f"best with probability {row['best']}" if row["best"] else ""
        reliability = row["reliability"]
        rows.append(
            [
                Cell(row["name"], tuple(filter(None, [best]))),
                number(row["value"]),
                number(row["interval"], "" if fine_print or row["is_baseline"] else row["fine_print"]),
                Cell(reliability.label, reliability.reasons, reliability.grade),
            ]
        )
    has_baseline_row = summary.baseline is not None and summary.baseline_name not in summary.estimates
    order = "the baseline and then best first" if has_baseline_row else "best first"
    caption = f"Estimates, {order}{f'. Intervals: {fine_print}' if fine_print else ''}"
    explained = (
        f"Each point is the average reward per round, each line its interval.{_baseline_caption(summary, 'mark')}"
    )
    return Section(
        "policies",
        "Values",
        f"What {'each' if len(summary.estimates) > 1 else 'the'} policy would have earned",
        (
            Chart("forest", values_chart(summary), explained),
            Table("policies", caption, ("Policy", "Value", "Interval", "Reliability"), rows),
            *(Paragraph(note, is_note=True) for note in collect_notes(summary)),
        ),
    )


def difference_section(content: ReportContent) -> Section | None:
    """Return the differences between pairs of policies."""
    summary = content.summary
    if not summary.differences:
        return None
    if all(difference.interval.method.startswith("paired") for difference in summary.differences):
        caption = "Paired: both policies were run on the same events, so that common errors cancel"
    else:
        caption = "Policies were evaluated separately; their errors are combined as if they were independent"
    rows = [(row["name"], number(row["value"]), number(row["interval"])) for row in difference_rows(summary)]
    explained = (
        "Each point is a difference in value, each line its interval. Filled: the interval excludes zero, so the log "
        "distinguishes the two policies. Hollow: it does not."
    )
    blocks = (
        Chart("gaps", differences_chart(summary), explained),
        Table("differences", caption, ("Difference", "Value", "Interval"), rows),
    )
    return Section("differences", "Differences", "Differences between policies", blocks)
