"""Measurements of speed as Markdown tables and a chart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import altair as alt

from bench.common.charts import line_chart, save_chart
from bench.common.markdown import markdown_table
from bench.speed.cases import Case, Comparison
from bench.speed.scaling import Point
from bench.speed.timing import Timing

Results = Mapping[Case, Timing | str]

# sweep -> titles of both axes
AXES = {
    "events": ("events in the log", "seconds"),
    "actions": ("actions", "microseconds per event"),
    "features": ("features", "microseconds per event"),
    "multiplier": ("share of events accepted", "microseconds per event"),
}
MOST_GROWTH = 120  # time on a log a hundred times as long, at most


def systems_table(results: Results) -> str:
    """Return a row for each case; one that failed has its error message."""
    rows = [
        [t.system, t.work, f"{t.events:,}", f"{t.seconds:.3f}", f"{t.rate:,.0f}", f"{t.value:.4f}"]
        if isinstance(t, Timing)
        else [case.module, case.runner, f"{case.limit:,}", "", f"left out: {t}", ""]
        for case, t in results.items()
    ]
    return markdown_table(["system", "policy", "events", "seconds", "events/s", "its estimate"], rows, text_columns=2)


def comparisons_table(comparisons: Iterable[Comparison], results: Results) -> str:
    """Return a row for each comparison: the ratio on the same events for both sides, and the goal."""
    head = ["work", "compared with", "events", "ratio", "goal", "reached"]
    return markdown_table(head, [_comparison_row(c, results) for c in comparisons], text_columns=2)


def _comparison_row(comparison: Comparison, results: Results) -> list[str]:
    peer, ours = results[comparison.peer], results[comparison.ours.with_limit(comparison.peer.limit)]
    if not (isinstance(peer, Timing) and isinstance(ours, Timing)):
        return [comparison.work, comparison.peer.module, "not measured", "", "", ""]
    ratio, goal = ours.rate / peer.rate, comparison.goal
    verdict = ["", ""] if goal is None else [f"{goal:g}×", "yes" if ratio >= goal else "no"]
    return [comparison.work, peer.system, f"{peer.events:,}", format_ratio(ratio), *verdict]


def format_ratio(ratio: float) -> str:
    """Return a ratio with about three digits.

    >>> format_ratio(812.4), format_ratio(0.6123)
    ('812×', '0.61×')
    """
    return f"{ratio:,.0f}×" if ratio >= 10 else f"{ratio:.2f}×"


def sweeps_table(points: Iterable[Point]) -> str:
    """Return a row for each point of each sweep."""
    rows = [
        [
            p.sweep,
            p.policy,
            f"{p.at:g}",
            f"{p.timing.events:,}",
            f"{p.acceptance_rate:.3f}" if p.timing.accepted is not None else "",
            f"{p.timing.seconds:.4f}",
            f"{p.nanoseconds:,.0f}",
        ]
        for p in points
    ]
    return markdown_table(["sweep", "policy", "at", "events", "accepted", "seconds", "ns per event"], rows, 2)


def describe_growth(points: Iterable[Point]) -> str:
    """Return a line for each policy: time on the longest log over time on one a hundredth as long."""
    seconds = {(p.policy, p.timing.events): p.timing.seconds for p in points if p.sweep == "events"}
    longest = max(events for _, events in seconds)
    short = longest // 100
    return "\n".join(
        f"- {policy}: {longest:,} events take {seconds[policy, longest] / seconds[policy, short]:.0f} times as long as "
        f"{short:,} (goal: at most {MOST_GROWTH})."
        for policy in sorted({policy for policy, _ in seconds})
    )


def save_sweeps_chart(points: Iterable[Point], folder: Path) -> None:
    """Save all sweeps in one SVG and one PNG; multipliers are drawn against the acceptance rate that they gave."""
    rows = [
        {
            "sweep": p.sweep,
            "policy": p.policy,
            "x": p.acceptance_rate if p.sweep == "multiplier" else p.at,
            "y": p.timing.seconds if p.sweep == "events" else p.nanoseconds / 1e3,
        }
        for p in points
    ]
    panels = [
        line_chart([row for row in rows if row["sweep"] == sweep], "x", "y", "policy", titles, size=(300, 220))
        for sweep, titles in AXES.items()
    ]
    save_chart(alt.concat(*panels, columns=2), folder / "speed-scaling", (".svg", ".png"))
