"""Charts of one replay of each policy: events accepted, the multiplier, weights, and actions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from backcast._arrays import FloatArray, IntArray
from backcast._format import format_number, format_percent
from backcast.errors import printable
from backcast.replay_summary import WEIGHT_EDGES, ReplaySummary
from backcast.report._summary import ResultSummary
from backcast.report.charts import (
    GREY,
    SHAPES,
    finish_chart,
    finite_or_none,
    legend,
    legend_selection,
    line_layers,
    policy_colour,
    policy_scale,
    tooltip,
    visible_opacity,
)

Replays = Mapping[str, ReplaySummary]

MOST_ACTIONS = 12
LOGGED, OTHERS = "the log", "all others"


def _format_edge(value: float) -> str:
    return f"{value:g}" if value >= 1 else f"1/{1 / value:g}"


WEIGHT_CLASSES = (
    "0",
    f"≤ {_format_edge(WEIGHT_EDGES[0])}",
    *(f"{_format_edge(low)}–{_format_edge(high)}" for low, high in pairwise(WEIGHT_EDGES)),
    f"> {_format_edge(WEIGHT_EDGES[-1])}",
)


def replay_charts(summary: ResultSummary, replays: Replays) -> dict[str, Any]:
    """Return the charts for which the replays have data, by name."""
    import altair as alt

    charts: dict[str, Any] = {}
    accepting = {name: replay for name, replay in replays.items() if replay.accepted.size}
    if accepting:
        lines = {name: (replay.ends, replay.accepted) for name, replay in accepting.items()}
        charts["accepted"] = _line_chart(alt, summary, lines, "events processed", "share accepted")
    lines = {name: (replay.ends, replay.multiplier) for name, replay in accepting.items() if replay.multiplier.size}
    if lines:
        charts["multiplier"] = _line_chart(alt, summary, lines, "events processed", "multiplier")
    lines = {name: (replay.rounds, replay.exhausted) for name, replay in accepting.items() if replay.rounds.size}
    if any(exhausted[-1] > 0 for _, exhausted in lines.values()):
        charts["exhausted"] = _line_chart(alt, summary, lines, "round", "certificate so far")
    if replays:
        charts["weights"] = _weights_chart(alt, summary, replays)
        charts["actions"] = _actions_chart(alt, summary, replays)
    return charts


def _line_chart(
    alt: Any, summary: ResultSummary, lines: Mapping[str, tuple[IntArray, FloatArray]], x_title: str, y_title: str
) -> Any:
    """Draw one line per policy; the vertical axis starts at zero, so that small values look small."""
    rows = [
        {"policy": name, "x": x, "y": finite_or_none(y), x_title: format_number(x), y_title: format_number(y)}
        for name, (positions, values) in lines.items()
        for x, y in zip(positions.tolist(), values.tolist(), strict=True)
    ]
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("x:Q", title=x_title, axis=alt.Axis(tickCount=6)),
        y=alt.Y("y:Q", title=y_title, scale=alt.Scale(zero=True), axis=alt.Axis(tickCount=5)),
        color=policy_colour(alt, summary, list(lines)),
    )
    layers = line_layers(alt, base, summary, list(lines), ("policy", x_title, y_title))
    texts = "; ".join(
        f"{name}: from {format_number(float(values[0]))} to {format_number(float(values[-1]))}"
        for name, (_, values) in lines.items()
    )
    return finish_chart(alt, layers, 200, f"{y_title.capitalize()} by {x_title}. {texts}.")


def _weights_chart(alt: Any, summary: ResultSummary, replays: Replays) -> Any:
    """Draw the share of events by class of weight; points and lines, because bars of many policies hide each other."""
    filled = [i for replay in replays.values() for i, share in enumerate(replay.weights.shares) if share > 0]
    classes = list(WEIGHT_CLASSES[min(filled) : max(filled) + 1])
    rows = [
        {"policy": name, "weight": weight, "y": share, "share of events": format_percent(share)}
        for name, replay in replays.items()
        for weight, share in zip(WEIGHT_CLASSES, replay.weights.shares.tolist(), strict=True)
        if weight in classes
    ]
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("weight:O", title="weight of an event", sort=classes, axis=alt.Axis(labelAngle=-40, grid=True)),
        y=alt.Y("y:Q", title="share of events", axis=alt.Axis(format="%", tickCount=5)),
        color=policy_colour(alt, summary, list(replays), symbol="point"),
        opacity=visible_opacity(alt, 1, 0.15),
    )
    points = base.mark_point(size=70, filled=True).encode(
        shape=_policy_shape(alt, summary, replays), tooltip=tooltip(alt, ("policy", "weight", "share of events"))
    )
    layers = [base.mark_line(strokeWidth=1.5), points.add_params(legend_selection(alt))]
    texts = "; ".join(
        f"{name}: {format_percent(float(replay.weights.shares[0]))} of the events have weight 0, the largest weight is "
        f"{format_number(replay.weights.largest)}"
        for name, replay in replays.items()
    )
    return finish_chart(alt, layers, 220, f"Weights of events. {texts}.")


def _actions_chart(alt: Any, summary: ResultSummary, replays: Replays) -> Any:
    """Draw the log's share of each action as a bar, each policy's as a point."""
    rows = list(action_shares(replays))
    actions = list(dict.fromkeys(row["action"] for row in rows))
    position = alt.Y("action:N", title=None, scale=alt.Scale(domain=actions, paddingInner=0.35), axis=None)
    share = alt.X("x:Q", title="share of choices", axis=alt.Axis(format="%", tickCount=5, grid=False))
    tooltips = tooltip(alt, ("policy", "action", "share"))
    logged = alt.Chart(alt.Data(values=[row for row in rows if row["logged"]]))
    bars = logged.mark_bar(color=GREY, opacity=0.35, height=16).encode(y=position, x=share, tooltip=tooltips)
    names = logged.mark_text(align="left", dy=-16, fontSize=12, limit=560).encode(
        y=position, x=alt.value(0), text="action:N"
    )
    points = alt.Chart(alt.Data(values=[row for row in rows if not row["logged"]])).mark_point(size=80, filled=True)
    points = points.encode(
        y=position,
        x=share,
        color=policy_colour(alt, summary, list(replays), symbol="point"),
        shape=_policy_shape(alt, summary, replays),
        opacity=visible_opacity(alt, 1, 0.1),
        tooltip=tooltips,
    ).add_params(legend_selection(alt))
    texts = "; ".join(f"{row['policy']}: {row['action']} {row['share']}" for row in rows)
    return finish_chart(
        alt, [bars, points, names], 24 + 42 * len(actions), f"Share of each action; a bar for the log. {texts}."
    )


def _policy_shape(alt: Any, summary: ResultSummary, replays: Replays) -> Any:
    scale = policy_scale(alt, summary, SHAPES, list(replays))
    return alt.Shape("policy:N", scale=scale, legend=legend(alt, "point"))


def action_shares(replays: Replays) -> Iterator[dict[str, Any]]:
    """Yield one row per action and policy, the log first; of many actions the most frequent, the others combined."""
    policies = {name: replay.taken for name, replay in replays.items() if replay.taken is not None}
    first = next(iter(replays.values()))
    labels, logged = first.actions, first.logged
    by_share = sorted(range(len(labels)), key=lambda a: -max([logged[a], *(taken[a] for taken in policies.values())]))
    n_shown = len(labels) if len(labels) <= MOST_ACTIONS else MOST_ACTIONS - 1
    for column, (name, shares) in enumerate([(LOGGED, logged), *policies.items()]):
        by_label = {printable(labels[a]): float(shares[a]) for a in sorted(by_share[:n_shown])}
        if n_shown < len(labels):
            by_label[OTHERS] = float(sum(shares[a] for a in by_share[n_shown:]))
        for action, share in by_label.items():
            # "logged" because a policy may have the name of the log
            row = {"policy": name, "logged": column == 0, "action": action}
            yield {**row, "x": share, "share": format_percent(share)}
