"""The sweeps as charts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import altair as alt

from bench.speed.scaling import Point, acceptance_rate

AXES = {
    "events": ("events in the log", "log"),
    "actions": ("actions", "log"),
    "features": ("features", "log"),
    "multiplier": ("share of events accepted", "log"),
}


def rows(points: list[Point], sweep: str) -> list[dict[str, Any]]:
    """The sweep's points as chart data; a sweep over multipliers is drawn against the acceptance rate they gave."""
    return [
        {
            "x": acceptance_rate(point) if sweep == "multiplier" else point.at,
            "microseconds": 1e6 * point.timing.seconds / point.timing.events,
            "seconds": point.timing.seconds,
            "policy": point.policy,
        }
        for point in points
        if point.sweep == sweep
    ]


def chart(points: list[Point], sweep: str) -> alt.Chart:
    title, scale = AXES[sweep]
    y, y_title = ("seconds", "seconds") if sweep == "events" else ("microseconds", "microseconds an event")
    return (
        alt.Chart(alt.Data(values=rows(points, sweep)))
        .mark_line(point=True)
        .encode(
            x=alt.X("x:Q", title=title, scale=alt.Scale(type=scale)),
            y=alt.Y(f"{y}:Q", title=y_title, scale=alt.Scale(type="log")),
            color=alt.Color("policy:N", title=None),
        )
        .properties(width=300, height=220)
    )


def save(points: list[Point], folder: Path) -> list[Path]:
    """All sweeps side by side, as SVG and PNG."""
    grid = alt.concat(*(chart(points, sweep) for sweep in AXES), columns=2)
    files = [folder / "speed-scaling.svg", folder / "speed-scaling.png"]
    for file in files:
        grid.save(str(file))
    return files
