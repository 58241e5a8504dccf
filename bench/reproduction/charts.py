"""Charts of the tables: errors with their intervals, the paper's figures beside ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.reproduction.results import Score

__all__ = ["error_chart", "save_chart", "worlds_chart"]

OURS, THEIRS = "this run", "the paper"


def error_chart(scores: list[Score], paper: dict[str, float], title: str) -> Any:
    """Root mean squared error of each evaluator with its 95 % interval; crosses are the paper's figures."""
    import altair as alt

    rows: list[dict[str, Any]] = [
        {"evaluator": s.evaluator, "rmse": s.rmse, "low": s.rmse - s.reach, "high": s.rmse + s.reach, "source": OURS}
        for s in scores
    ]
    rows += [{"evaluator": name, "rmse": value, "source": THEIRS} for name, value in paper.items()]
    order = [s.evaluator for s in scores]
    color = alt.Color("source:N", scale=alt.Scale(domain=[OURS, THEIRS], range=["#4c57af", "#d95f02"]), title=None)
    base = alt.Chart(alt.Data(values=rows)).encode(y=alt.Y("evaluator:N", sort=order, title=None), color=color)
    axis = alt.X("rmse:Q", title="root mean squared error", scale=alt.Scale(zero=True))
    points = base.mark_point(filled=True, size=70).encode(x=axis, shape=alt.Shape("source:N", title=None))
    bars = base.mark_rule().encode(x=alt.X("low:Q"), x2="high:Q")
    return (bars + points).properties(title=title, width=460, height=26 * len(order))


def worlds_chart(tables: dict[str, dict[str, float]], title: str) -> Any:
    """Root mean squared error over that of RS, one point a data set."""
    import altair as alt

    rows = [
        {"set": name, "evaluator": evaluator, "ratio": ratio}
        for name, table in tables.items()
        for evaluator, ratio in table.items()
        if ratio == ratio and ratio > 0
    ]
    order = list(next(iter(tables.values())))
    axis = alt.X("ratio:Q", title="rmse over that of RS", scale=alt.Scale(type="log"))
    points = alt.Chart(alt.Data(values=rows)).mark_point(filled=True, size=55, opacity=0.8)
    chart = points.encode(x=axis, y=alt.Y("evaluator:N", sort=order, title=None), color=alt.Color("set:N", title=None))
    return chart.properties(title=title, width=460, height=26 * len(order))


def save_chart(chart: Any, path: Path) -> None:
    """Write a chart as SVG."""
    path.parent.mkdir(parents=True, exist_ok=True)
    chart.save(str(path), format="svg")
