"""One run of each evaluation as charts: what was accepted, the multiplier, weights, and the actions taken."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from backcast._arrays import FloatArray, IntArray
from backcast.errors import printable
from backcast.replay_summary import WEIGHT_EDGES, ReplaySummary
from backcast.report._format import format_number, percent
from backcast.report._summary import ResultSummary
from backcast.report.charts import (
    DASHES,
    MARKS,
    colour_of,
    dressed,
    legend,
    plain,
    scale_of,
    shown_by_legend,
    tooltip,
    when_shown,
)

MOST_ACTIONS = 12


LOGGED = "the log"


REST = "all others"


def _edge(value: float) -> str:
    return f"{value:g}" if value >= 1 else f"1/{1 / value:g}"


WEIGHT_CLASSES = (
    "0",
    f"≤ {_edge(WEIGHT_EDGES[0])}",
    *(f"{_edge(low)}–{_edge(high)}" for low, high in pairwise(WEIGHT_EDGES)),
    f"> {_edge(WEIGHT_EDGES[-1])}",
)


def run_charts(findings: ResultSummary, passages: Mapping[str, ReplaySummary]) -> dict[str, Any]:
    """The charts that there is something to draw for, by name."""
    import altair as alt

    accepting = {name: p for name, p in passages.items() if p.accepted.size}
    steered = {name: p for name, p in accepting.items() if p.multiplier.size}
    clocked = {name: p for name, p in accepting.items() if p.rounds.size}
    exhausting = any(p.exhausted[-1] > 0 for p in clocked.values())
    charts = {}
    if accepting:
        lines = {name: (p.ends, p.accepted) for name, p in accepting.items()}
        charts["accepted"] = _lines(alt, findings, lines, ("events gone through", "share accepted"))
    if steered:
        lines = {name: (p.ends, p.multiplier) for name, p in steered.items()}
        charts["multiplier"] = _lines(alt, findings, lines, ("events gone through", "multiplier"))
    if exhausting:
        lines = {name: (p.rounds, p.exhausted) for name, p in clocked.items()}
        charts["exhausted"] = _lines(alt, findings, lines, ("round", "certificate so far"))
    if passages:
        charts["weights"] = _weights(alt, findings, passages)
        charts["actions"] = _actions(alt, findings, passages)
    return charts


def _lines(
    alt: Any, findings: ResultSummary, lines: Mapping[str, tuple[IntArray, FloatArray]], titles: tuple[str, str]
) -> Any:
    """One line a policy, from zero on: small is to look small."""
    across, up = titles
    rows = [
        {"policy": name, "place": end, "height": plain(height), across: format_number(end), up: format_number(height)}
        for name, (ends, heights) in lines.items()
        for end, height in zip(ends.tolist(), heights.tolist(), strict=True)
    ]
    shown, hidden = shown_by_legend(alt)
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("place:Q", title=across, axis=alt.Axis(tickCount=6)),
        y=alt.Y("height:Q", title=up, scale=alt.Scale(zero=True), axis=alt.Axis(tickCount=5)),
        color=colour_of(alt, findings, list(lines)),
    )
    dashes = alt.StrokeDash("policy:N", scale=scale_of(alt, findings, DASHES, list(lines)), legend=legend(alt))
    drawn = base.mark_line(strokeWidth=2).encode(strokeDash=dashes, opacity=when_shown(alt, 1, 0.15))
    targets = base.mark_point(size=150, opacity=0).encode(tooltip=tooltip(alt, ("policy", across, up)))
    words = "; ".join(_line_in_words(name, heights) for name, (_, heights) in lines.items())
    layers = alt.layer(drawn.add_params(shown), targets).add_params(hidden)
    return dressed(layers, 200, f"{up.capitalize()} by {across}. {words}.")


def _line_in_words(name: str, heights: FloatArray) -> str:
    return f"{name}: from {format_number(float(heights[0]))} to {format_number(float(heights[-1]))}"


def _weights(alt: Any, findings: ResultSummary, passages: Mapping[str, ReplaySummary]) -> Any:
    """Share of events by class of weight; points and dashes, because bars of many policies hide each other."""
    rows = [
        {"policy": name, "weight": kind, "height": share, "share of events": percent(share)}
        for name, passage in passages.items()
        for kind, share in zip(WEIGHT_CLASSES, passage.weights.shares.tolist(), strict=True)
    ]
    shown, hidden = shown_by_legend(alt)
    kinds = [WEIGHT_CLASSES[place] for place in _used_classes(passages)]
    rows = [row for row in rows if row["weight"] in kinds]
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("weight:O", title="weight of an event", sort=kinds, axis=alt.Axis(labelAngle=-40, grid=True)),
        y=alt.Y("height:Q", title="share of events", axis=alt.Axis(format="%", tickCount=5)),
        color=colour_of(alt, findings, list(passages), symbol="point"),
        opacity=when_shown(alt, 1, 0.15),
    )
    lines = base.mark_line(strokeWidth=1.5)
    points = base.mark_point(size=70, filled=True).encode(
        shape=_shape(alt, findings, passages), tooltip=tooltip(alt, ("policy", "weight", "share of events"))
    )
    words = "; ".join(f"{name}: {_weights_in_words(passage)}" for name, passage in passages.items())
    return dressed(alt.layer(lines, points.add_params(shown)).add_params(hidden), 220, f"Weights of events. {words}.")


def _used_classes(passages: Mapping[str, ReplaySummary]) -> range:
    """From the first to the last class that any policy fills."""
    filled = [place for p in passages.values() for place, share in enumerate(p.weights.shares) if share > 0]
    return range(min(filled), max(filled) + 1)


def _weights_in_words(passage: ReplaySummary) -> str:
    weights = passage.weights
    return f"{percent(float(weights.shares[0]))} of the events weigh nothing, the largest weight is " + format_number(
        weights.largest
    )


def _shape(alt: Any, findings: ResultSummary, passages: Mapping[str, ReplaySummary]) -> Any:
    scale = scale_of(alt, findings, MARKS, list(passages))
    return alt.Shape("policy:N", scale=scale, legend=legend(alt, "point"))


def _actions(alt: Any, findings: ResultSummary, passages: Mapping[str, ReplaySummary]) -> Any:
    """The log's share of each action as a bar, each policy's as a point."""
    rows = list(action_shares(passages))
    order = list(dict.fromkeys(row["action"] for row in rows))
    shown, hidden = shown_by_legend(alt)
    place = alt.Y("action:N", title=None, scale=alt.Scale(domain=order, paddingInner=0.35), axis=None)
    share = alt.X("height:Q", title="share of choices", axis=alt.Axis(format="%", tickCount=5))
    fields = tooltip(alt, ("policy", "action", "share"))
    of_log = alt.Chart(alt.Data(values=[row for row in rows if row["logged"]]))
    bars = of_log.mark_bar(color="#808080", opacity=0.35, height=16).encode(y=place, x=share, tooltip=fields)
    names = of_log.mark_text(align="left", dy=-16, fontSize=12, limit=560).encode(
        y=place, x=alt.value(0), text="action:N"
    )
    points = alt.Chart(alt.Data(values=[row for row in rows if not row["logged"]])).mark_point(size=80, filled=True)
    points = points.encode(
        y=place,
        x=share,
        color=colour_of(alt, findings, list(passages), symbol="point"),
        shape=_shape(alt, findings, passages),
        opacity=when_shown(alt, 1, 0.1),
        tooltip=fields,
    ).add_params(shown)
    words = "; ".join(f"{row['policy']} takes {row['action']} {row['share']} of the time" for row in rows)
    layers = alt.layer(bars, points, names).add_params(hidden)
    return dressed(layers, 24 + 42 * len(order), f"Which actions are taken; a bar for the log. {words}.")


def action_shares(passages: Mapping[str, ReplaySummary]) -> Iterator[dict[str, Any]]:
    """One row an action and who takes it, the log first; of many actions the most taken, the rest in one."""
    columns = {name: passage.taken for name, passage in passages.items() if passage.taken is not None}
    one = next(iter(passages.values()))
    order = sorted(range(len(one.actions)), key=lambda a: -max([one.logged[a], *(own[a] for own in columns.values())]))
    few = sorted(order if len(order) <= MOST_ACTIONS else order[: MOST_ACTIONS - 1])
    for place, (name, shares) in enumerate([(LOGGED, one.logged), *columns.items()]):
        groups = {printable(one.actions[a]): float(shares[a]) for a in few}
        if len(few) < len(order):
            groups[REST] = float(sum(shares[a] for a in order[MOST_ACTIONS - 1 :]))
        for action, share in groups.items():
            own = {"policy": name, "logged": place == 0}
            yield {**own, "action": action, "height": share, "share": percent(share)}
