"""The HTML report: save_report, the rows of each section, and the page that loads nothing from the network."""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backcast._files import atomic_write
from backcast._format import MISSING, format_number, format_percent
from backcast.checks.findings import HealthReport
from backcast.checks.log import check
from backcast.estimate import LOGGED as LOGGED_BASELINE
from backcast.estimate import Estimate
from backcast.grading import GRADES, GradedDiagnostic, bias_bound, grade_diagnostics
from backcast.log import Log
from backcast.replay_summary import ReplaySummary
from backcast.report._summary import (
    ResultSummary,
    collect_notes,
    describe_interval,
    difference_rows,
    policy_rows,
    summarize,
    verdict,
)
from backcast.report.charts import curve_rows, curves_chart, differences_chart, render_svg, values_chart
from backcast.report.replay_charts import LOGGED, WEIGHT_CLASSES, action_shares, replay_charts

if TYPE_CHECKING:
    from jinja2 import Template

ALL_POLICIES = "all"
HEALTH_GRADES = {"ok": "good", "warn": "fair", "fail": "poor"}
HEALTH_VERDICTS = {
    "ok": "The checks found no problem in the log.",
    "warn": "The log can be used; read the warnings below before you rely on the numbers.",
    "fail": "Do not rely on the numbers above: the log has faults that make estimates wrong.",
}

MISSING_LOG_NOTE = (
    "Sections about the log and the replay are left out, because the log was no longer in memory when this page was "
    "made; save_report(result, path, log=log) adds them."
)


def save_report(
    result: Any,
    path: str | os.PathLike[str],
    *,
    about: Mapping[str, object] | None = None,
    health: HealthReport | None = None,
    log: Log | None = None,
) -> Path:
    """Write an HTML report of an estimate, a dict of them by name, or a comparison, and return its path.

    If the log is in memory, one run of each policy is repeated for the charts, and the log is checked.

    Parameters
    ----------
    result
        An :class:`backcast.Estimate`, a dict of them by name, or a comparison.
    path
        The HTML file; an existing file is replaced once the new one is complete.
    about
        More lines for the table of settings, such as the file of the log.
    health
        Result of :func:`backcast.check` on the log; computed here if None.
    log
        The log that was evaluated, for the sections about it, if it is not in memory elsewhere: results do not hold it.

    Examples
    --------
    >>> import tempfile
    >>> from backcast.evaluation import evaluate
    >>> from backcast.evaluators import IPS
    >>> from backcast.log import Log
    >>> from backcast.policies.fixed import Fixed
    >>> log = Log(None, actions=[0, 1] * 20, rewards=[1, 0] * 20, propensities=[0.5] * 40)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_report(evaluate(log, Fixed([0.5, 0.5]), IPS()), f"{folder}/report.html").name
    'report.html'
    """
    page = report_html(result, about=about, health=health, log=log)
    with atomic_write(path, "report") as file:
        # file names may contain bytes that are not text; they are escaped
        file.write(page.encode("utf-8", errors="backslashreplace"))
    return Path(path).resolve()


def report_html(
    result: Any,
    *,
    about: Mapping[str, object] | None = None,
    health: HealthReport | None = None,
    log: Log | None = None,
) -> str:
    """Return the page of :func:`save_report` as text."""
    from markupsafe import Markup

    summary = summarize(result)
    replays = collect_replays(summary, log)
    charts = _chart_specs(summary, replays)
    fine_prints = {describe_interval(estimate) for estimate in summary.estimates.values()}
    bundle, script = _vega_bundle(), _read_asset("page.js")
    return _template().render(
        title=f"What would {'this policy' if len(summary.estimates) == 1 else 'these policies'} have earned?",
        version=version("backcast"),
        policy=_security_policy(bundle, script),
        verdict=verdict(summary),
        verdict_grade=max((estimate.reliability.grade for estimate in summary.estimates.values()), key=GRADES.index),
        names=list(summary.estimates),
        rows=policy_rows(summary),
        lifts=bool(summary.lifts),
        baseline_caption=_baseline_caption(summary),
        fine_print=fine_prints.pop() if len(fine_prints) == 1 else "",
        differences=difference_rows(summary),
        paired=all(difference.interval.method.startswith("paired") for difference in summary.differences),
        points=[{**row, "round": format_number(row["round"])} for row in curve_rows(summary)],
        diagnostics=diagnostic_rows(summary),
        certificates=certificate_rows(summary),
        settings=setting_rows(summary, about or {}),
        notes=[*collect_notes(summary), *_missing_log_notes(summary)],
        segments=segment_rows(replays),
        weights=weight_rows(replays),
        actions=action_table(replays),
        health=health or check_common_log(summary, replays, log),
        health_grades=HEALTH_GRADES,
        health_verdicts=HEALTH_VERDICTS,
        charts={name: Markup(render_svg(spec)) for name, spec in charts.items()},
        specs={name: {**spec, "width": "container"} for name, spec in charts.items()},
        style=Markup(_read_asset("page.css")),
        bundle=Markup(bundle),
        script=Markup(script),
    )


def _baseline_caption(summary: ResultSummary) -> str:
    if summary.baseline_value is None:
        return ""
    name = "what the log earned" if summary.baseline_name == LOGGED_BASELINE else summary.baseline_name
    return f" The dashed line is {name}."


def collect_replays(summary: ResultSummary, log: Log | None = None) -> dict[str, ReplaySummary]:
    """Return a summary of one run of each policy that has one."""
    replays = {name: estimate.replay_summary(log) for name, estimate in summary.estimates.items()}
    return {name: replay for name, replay in replays.items() if replay is not None}


def _missing_log_notes(summary: ResultSummary) -> list[str]:
    computations = [estimate._replay_summary for estimate in summary.estimates.values()]
    if not any(computation is not None and computation.lacks_log for computation in computations):
        return []
    return [MISSING_LOG_NOTE]


def check_common_log(
    summary: ResultSummary, replays: Mapping[str, ReplaySummary], log: Log | None = None
) -> HealthReport | None:
    """Check this log, or the log of the estimates if it is the same for all and in memory."""
    if log is None:
        computations = [estimate._replay_summary for estimate in summary.estimates.values()]
        evaluated = [None if computation is None else computation.log for computation in computations]
        logs = {id(each): each for each in evaluated}
        [log] = logs.values() if len(logs) == 1 else [None]
    if log is None:
        return None
    # runs in log order do not assume exchangeability, so drift is no fault for them
    return check(log, exchangeable=not replays or not all(replay.in_order for replay in replays.values()))


def diagnostic_rows(summary: ResultSummary) -> list[dict[str, Any]]:
    """Return one row per diagnostic with one cell per policy; None if it does not apply to the evaluator."""
    columns = [{d.name: d for d in grade_diagnostics(estimate)} for estimate in summary.estimates.values()]
    diagnostics: dict[str, GradedDiagnostic] = {}
    for column in columns:
        diagnostics |= {name: diagnostic for name, diagnostic in column.items() if name not in diagnostics}
    return [
        {"name": name, "meaning": diagnostic.meaning, "cells": [column.get(name) for column in columns]}
        for name, diagnostic in diagnostics.items()
    ]


def certificate_rows(summary: ResultSummary) -> list[dict[str, Any]]:
    """Return one row per policy: its graded bias certificate, or None, and the bias that it allows."""
    graded = {name: {d.name: d for d in grade_diagnostics(estimate)} for name, estimate in summary.estimates.items()}
    return [
        {"name": name, "certificate": graded[name].get("bias certificate"), "bias": format_number(bias_bound(estimate))}
        for name, estimate in summary.estimates.items()
    ]


def setting_rows(summary: ResultSummary, about: Mapping[str, object]) -> list[dict[str, str]]:
    """Return one row per setting that all policies share, else one for each policy."""
    rows = [{"name": name, "policy": ALL_POLICIES, "value": format_number(value)} for name, value in about.items()]
    settings = {name: _format_settings(estimate) for name, estimate in summary.estimates.items()}
    for key in dict.fromkeys(key for by_key in settings.values() for key in by_key):
        values = {name: by_key.get(key, MISSING) for name, by_key in settings.items()}
        if len(values) > 1 and len(set(values.values())) == 1:
            values = {ALL_POLICIES: next(iter(values.values()))}
        rows += [{"name": key, "policy": name, "value": value} for name, value in values.items()]
    return rows


def _format_settings(estimate: Estimate) -> dict[str, str]:
    first = {"policy": estimate.policy, "evaluator": estimate.evaluator, "horizon": estimate.horizon}
    settings = first | {key: value for key, value in estimate.settings.items() if key not in first}
    return {
        str(key): " to ".join(map(format_number, value)) if isinstance(value, list | tuple) else format_number(value)
        for key, value in settings.items()
    }


def segment_rows(replays: Mapping[str, ReplaySummary]) -> list[list[str]]:
    """Return policy, events processed, share accepted and multiplier at the end of each segment of a run."""
    return [
        [
            name,
            format_number(end),
            format_percent(float(replay.accepted[i])),
            format_number(float(replay.multiplier[i])) if replay.multiplier.size else MISSING,
        ]
        for name, replay in replays.items()
        for i, end in enumerate(replay.ends.tolist())
    ]


def weight_rows(replays: Mapping[str, ReplaySummary]) -> list[dict[str, Any]]:
    """Return one row per policy: effective sample size, largest weight, and shares of events by class of weight."""
    rows = []
    for name, replay in replays.items():
        weights = replay.weights
        shares = dict(zip(WEIGHT_CLASSES, weights.shares.tolist(), strict=True))
        rows.append(
            {
                "name": name,
                "size": f"{format_number(round(weights.effective_sample_size))} of {format_number(replay.events)}",
                "largest": format_number(weights.largest),
                "zero": format_percent(float(weights.shares[0])),
                "shares": ", ".join(f"{kind}: {format_percent(share)}" for kind, share in shares.items() if share > 0),
            }
        )
    return rows


def action_table(replays: Mapping[str, ReplaySummary]) -> dict[str, Any]:
    """Return names for the columns, and rows of an action with its shares."""
    if not replays:
        return {"names": [], "rows": []}
    shares: dict[str, list[str]] = {}
    for row in action_shares(replays):
        shares.setdefault(row["action"], []).append(row["share"])
    names = [LOGGED, *(name for name, replay in replays.items() if replay.taken is not None)]
    return {"names": names, "rows": [[action, *cells] for action, cells in shares.items()]}


def _chart_specs(summary: ResultSummary, replays: Mapping[str, ReplaySummary]) -> dict[str, dict[str, Any]]:
    """Return the Vega-Lite specifications of the charts, transparent so that the page's background shows."""
    charts = {"forest": values_chart(summary)}
    if summary.differences:
        charts["gaps"] = differences_chart(summary)
    if any(estimate.curve is not None for estimate in summary.estimates.values()):
        charts["curves"] = curves_chart(summary)
    charts |= replay_charts(summary, replays)
    return {name: {**chart.to_dict(), "background": None} for name, chart in charts.items()}


@cache
def _vega_bundle() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script that is safe between script tags."""
    import vl_convert

    bundle = str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;"))
    return re.sub(r"<(?=/script|!--)", r"\\x3c", bundle, flags=re.IGNORECASE)


@cache
def _read_asset(name: str) -> str:
    return (files("backcast.report") / name).read_text(encoding="utf-8")


@cache
def _template() -> Template:
    from jinja2 import Environment, StrictUndefined

    return Environment(autoescape=True, undefined=StrictUndefined).from_string(_read_asset("page.html"))


def _security_policy(*scripts: str) -> str:
    """Return a content security policy that allows only these scripts, the page's styles, and no network."""
    digests = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:"
