"""Charts of the benchmarks (Altair), and how they are saved."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import altair as alt

Rows = Sequence[dict[str, Any]]

OURS, PAPER = "this run", "the paper"


def line_chart(rows: Rows, x: str, y: str, series: str, titles: tuple[str, str], size: tuple[int, int]) -> Any:
    """Return lines with points on two logarithmic axes, a color and a dash pattern for each value of ``series``."""
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_line(point=True)
        .encode(
            x=alt.X(f"{x}:Q", title=titles[0], scale=alt.Scale(type="log"), axis=alt.Axis(format="~s")),
            y=alt.Y(f"{y}:Q", title=titles[1], scale=alt.Scale(type="log")),
            color=alt.Color(f"{series}:N", title=None),
            strokeDash=alt.StrokeDash(f"{series}:N", title=None),
        )
        .properties(width=size[0], height=size[1])
    )


def interval_chart(rows: Rows, published: dict[str, float], title: str) -> Any:
    """Return the ``rmse`` of each ``evaluator`` with its interval ``low`` to ``high``, beside published values."""
    order = [row["evaluator"] for row in rows]
    points = [{**row, "source": OURS} for row in rows]
    points += [{"evaluator": name, "rmse": value, "source": PAPER} for name, value in published.items()]
    color = alt.Color("source:N", scale=alt.Scale(domain=[OURS, PAPER], range=["#4c57af", "#d95f02"]), title=None)
    base = alt.Chart(alt.Data(values=points)).encode(y=alt.Y("evaluator:N", sort=order, title=None), color=color)
    axis = alt.X("rmse:Q", title="root mean squared error", scale=alt.Scale(zero=True))
    marks = base.mark_point(filled=True, size=70).encode(x=axis, shape=alt.Shape("source:N", title=None))
    bars = base.mark_rule().encode(x=alt.X("low:Q"), x2="high:Q")
    return (bars + marks).properties(title=title, width=460, height=26 * len(order))


def point_chart(rows: Rows, x: str, y: str, series: str, x_title: str, title: str) -> Any:
    """Return points on a logarithmic axis, a line of the chart for each value of ``y`` in order of appearance."""
    order = list(dict.fromkeys(row[y] for row in rows))
    points = alt.Chart(alt.Data(values=rows)).mark_point(filled=True, size=55, opacity=0.8)
    axis = alt.X(f"{x}:Q", title=x_title, scale=alt.Scale(type="log"))
    color = alt.Color(f"{series}:N", title=None)
    chart = points.encode(x=axis, y=alt.Y(f"{y}:N", sort=order, title=None), color=color)
    return chart.properties(title=title, width=460, height=26 * len(order))


def bar_chart(rows: Rows, x: str, y: str, panel: str) -> Any:
    """Return horizontal bars, a panel for each value of ``panel``."""
    header = alt.Header(labelAngle=0, labelAlign="left")
    bars = alt.Chart(alt.Data(values=rows)).mark_bar()
    color = alt.Color(f"{y}:N", legend=None)
    row = alt.Row(f"{panel}:N", title=None, header=header)
    return bars.encode(x=f"{x}:Q", y=alt.Y(f"{y}:N", title=None), color=color, row=row).properties(width=420)


def save_chart(chart: Any, stem: Path, suffixes: Iterable[str] = (".svg",)) -> list[Path]:
    """Save a chart under the stem with each of the suffixes, and return the paths."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = [stem.with_suffix(suffix) for suffix in suffixes]
    for path in paths:
        chart.save(str(path))
    return paths
