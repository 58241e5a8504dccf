"""Outcomes, segments and guardrails of a comparison: rows for text and pages, and the trade-off chart."""

from __future__ import annotations

from typing import Any

from backcast._format import format_change, format_interval, format_number, format_percent, round_by_width
from backcast.errors import OptionError, printable
from backcast.estimate import Difference
from backcast.report._summary import summarize
from backcast.report.charts import (
    GREY,
    SHAPES,
    WIDTH,
    apply_style,
    finite_or_none,
    legend,
    policy_colour,
    policy_scale,
    tooltip,
)

HEIGHT = 360


def outcome_rows(comparison: Any) -> list[dict[str, str]]:
    """Return one row per further outcome and policy: value, lift over the baseline, its interval, its share.

    The first row of each outcome is the baseline, unless that is one of the policies.
    """
    rows = []
    for outcome, read in comparison.outcomes.items():
        if read.baseline is not None and read.baseline_name not in read.estimates:
            value = round_by_width(read.baseline.value, read.baseline.interval)
            rows.append(_row(outcome=outcome, policy=read.baseline_name, value=value))
        for name, estimate in read.estimates.items():
            value = round_by_width(estimate.value, estimate.interval)
            rows.append(_row(outcome=outcome, policy=name, value=value) | _lift_cells(read.lifts.get(name)))
    return rows


def segment_rows(comparison: Any, column: str) -> list[dict[str, str]]:
    """Return one row per segment of a column and policy: events, share, baseline, value, lift, decision."""
    breakdown = comparison.by_segment(column)
    rows = []
    for segment in breakdown:
        for name, lift in segment.lifts.items():
            facts = _row(
                segment=segment.name,
                policy=name,
                events=format_number(segment.events),
                share=format_percent(segment.share),
                baseline=round_by_width(segment.baseline, lift.interval),
                value=round_by_width(segment.values[name], lift.interval),
            )
            rows.append(facts | _lift_cells(lift) | {"decision": segment.decisions[name]})
    return rows


def guardrail_rows(comparison: Any) -> list[dict[str, str]]:
    """Return one row per guardrail and policy: what the log says about it, and why."""
    return [
        _row(guardrail=each.guardrail, policy=each.policy, outcome=each.outcome, reason=each.reason)
        for each in comparison.guardrails
    ]


def _row(**cells: str) -> dict[str, str]:
    return {
        "lift": "",
        "interval": "",
        "relative": "",
        **{key: printable(cell) for key, cell in cells.items()},
    }


def _lift_cells(lift: Difference | None) -> dict[str, str]:
    if lift is None:
        return {}
    relative = lift.relative_interval
    return {
        "lift": round_by_width(lift.value, lift.interval),
        "interval": format_interval(lift.interval),
        "relative": "" if relative is None else format_change(lift.relative, relative),
    }


def plot_outcomes(comparison: Any, outcome: str | None = None) -> Any:
    """Draw the lift in the reward against the lift in one further outcome, with both intervals of each policy.

    The spec of the chart for a page is ``plot_outcomes(comparison).to_dict()``.
    """
    import altair as alt

    if not comparison.outcomes:
        raise OptionError("the comparison has no further outcomes; name columns by outcomes={...} when the log is read")
    outcome = next(iter(comparison.outcomes)) if outcome is None else outcome
    if outcome not in comparison.outcomes:
        raise OptionError(f"there is no outcome {outcome!r}; the outcomes are {', '.join(comparison.outcomes)}")
    rows = trade_off_rows(comparison, outcome)
    if not rows:
        raise OptionError("no policy has a lift over the baseline in both outcomes; compare with baseline='logged'")
    summary, shown = summarize(comparison), [row["policy"] for row in rows]
    other = printable(outcome)
    base = alt.Chart(alt.Data(values=rows)).encode(
        color=policy_colour(alt, summary, shown, symbol="point"),
        tooltip=tooltip(alt, ("policy", "reward", other)),
    )
    x_title, y_title = f"lift in {other}", "lift in reward per round"
    across = base.mark_rule(strokeWidth=2).encode(x=_axis(alt.X, alt, "x_low", x_title), x2="x_high:Q", y="y:Q")
    upright = base.mark_rule(strokeWidth=2).encode(y=_axis(alt.Y, alt, "y_low", y_title), y2="y_high:Q", x="x:Q")
    shapes = alt.Shape("policy:N", scale=policy_scale(alt, summary, SHAPES, shown), legend=legend(alt, "point"))
    points = base.mark_point(filled=True, size=110, opacity=1).encode(x="x:Q", y="y:Q", shape=shapes)
    zero = alt.Chart(alt.Data(values=[{"zero": 0}]))
    lines = [
        zero.mark_rule(strokeDash=[4, 3], color=GREY).encode(x="zero:Q"),
        zero.mark_rule(strokeDash=[4, 3], color=GREY).encode(y="zero:Q"),
    ]
    texts = "; ".join(f"{row['policy']}: reward {row['reward']}, {other} {row[other]}" for row in rows)
    chart = alt.layer(*lines, across, upright, points)
    description = f"Lift in the reward against lift in {other}, with intervals. {texts}."
    return apply_style(chart.properties(width=WIDTH, height=HEIGHT, description=description))


def trade_off_rows(comparison: Any, outcome: str) -> list[dict[str, Any]]:
    """Return one row per policy with a lift in the reward (y) and in the outcome (x), as numbers and as text."""
    others, rows = comparison.outcomes[outcome].lifts, []
    for name, lift in comparison.lifts.items():
        if name in others:
            other = others[name]
            rows.append(
                {
                    "policy": printable(name),
                    "reward": _describe(lift),
                    printable(outcome): _describe(other),
                    **_ends("x", other),
                    **_ends("y", lift),
                }
            )
    return rows


def _describe(lift: Difference) -> str:
    return f"{round_by_width(lift.value, lift.interval)} ({format_interval(lift.interval)})"


def _ends(axis: str, lift: Difference) -> dict[str, float | None]:
    return {
        axis: finite_or_none(lift.value),
        f"{axis}_low": finite_or_none(lift.interval.low),
        f"{axis}_high": finite_or_none(lift.interval.high),
    }


def _axis(channel: Any, alt: Any, field: str, title: str) -> Any:
    return channel(f"{field}:Q", title=title, scale=alt.Scale(zero=False), axis=alt.Axis(tickCount=6))
