"""The tables of a report as plain rows of text, ready for a template."""

from __future__ import annotations

import base64
import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backcast._files import atomic_write
from backcast.checks.findings import HealthReport
from backcast.checks.log import check
from backcast.estimate import Estimate
from backcast.replay_summary import ReplaySummary
from backcast.report._format import (
    MISSING,
    assumption_words,
    estimand_words,
    format_number,
    interval_words,
    joined,
    level_words,
    percent,
    rounded_to,
    value_words,
)
from backcast.report._grading import GradedDiagnostic, bias_bound, grade, grade_diagnostics
from backcast.report._summary import ResultSummary, summarize, verdict
from backcast.report.charts import curves_chart, differences_chart, forest_chart
from backcast.report.replay_charts import LOGGED, WEIGHT_CLASSES, action_shares, run_charts

if TYPE_CHECKING:
    from jinja2 import Template

    from backcast.checks.findings import HealthReport


EVERY = "all"


CERTIFICATE = "bias certificate"


def policy_rows(findings: ResultSummary) -> list[dict[str, Any]]:
    """One row a policy: value, interval with its fine print, belief."""
    chances = dict(findings.ranking)
    return [
        {
            "name": name,
            "value": value_words(estimate),
            "interval": interval_words(estimate.interval),
            "fine_print": _fine_print(estimate),
            "belief": asdict(grade(estimate)),
            "chance": percent(chances[name]) if name in chances else "",
        }
        for name, estimate in findings.estimates.items()
    ]


def _fine_print(estimate: Estimate) -> str:
    interval = estimate.interval
    if interval is None:
        return "none can honestly be given"
    return f"{level_words(interval)}, {interval.method}; {assumption_words(interval)}; about {estimand_words(estimate)}"


def shared_fine_print(findings: ResultSummary) -> str:
    """The fine print of the intervals where all of them have the same, else nothing."""
    prints = {_fine_print(estimate) for estimate in findings.estimates.values()}
    return prints.pop() if len(prints) == 1 else ""


def difference_rows(findings: ResultSummary) -> list[dict[str, str]]:
    """One row a paired difference."""
    return [
        {
            "name": f"{difference.first} minus {difference.second}",
            "value": rounded_to(difference.value, difference.interval),
            "interval": interval_words(difference.interval),
        }
        for difference in findings.differences
    ]


def curve_points(findings: ResultSummary) -> list[dict[str, str]]:
    """One row a point of a learning curve."""
    return [
        {
            "name": name,
            "round": format_number(end),
            "value": format_number(value),
            "band": f"{format_number(low)} to {format_number(high)}",
        }
        for name, estimate in findings.estimates.items()
        for end, value, low, high in _points(estimate)
    ]


def _points(estimate: Estimate) -> Iterator[tuple[int, float, float, float]]:
    curve = estimate.curve
    if curve is not None:
        yield from zip(
            curve.rounds.tolist(), curve.value.tolist(), curve.low.tolist(), curve.high.tolist(), strict=True
        )


def fact_rows(findings: ResultSummary) -> list[dict[str, Any]]:
    """One row a diagnostic, one cell a policy; None where it does not apply to the evaluator."""
    columns = [{fact.name: fact for fact in grade_diagnostics(estimate)} for estimate in findings.estimates.values()]
    kinds: dict[str, GradedDiagnostic] = {}
    for column in columns:
        kinds |= {name: fact for name, fact in column.items() if name not in kinds}
    return [
        {"name": name, "meaning": fact.meaning, "cells": [column.get(name) for column in columns]}
        for name, fact in kinds.items()
    ]


def remarks(findings: ResultSummary) -> list[str]:
    """What readers of the numbers must know, each sentence once, with the policies it is about."""
    about: dict[str, list[str]] = {note: list(findings.estimates) for note in findings.notes}
    for name, estimate in findings.estimates.items():
        for note in estimate.notes:
            about.setdefault(note, []).append(name)
    everyone = len(findings.estimates)
    return [note if len(names) == everyone else f"{joined(names)}: {note}" for note, names in about.items()]


def setting_rows(findings: ResultSummary, about: Mapping[str, object]) -> list[dict[str, str]]:
    """One row a setting that all policies share, else one for each policy."""
    rows = [{"name": name, "policy": EVERY, "value": format_number(value)} for name, value in about.items()]
    settings = {name: _settings(estimate) for name, estimate in findings.estimates.items()}
    for key in dict.fromkeys(key for own in settings.values() for key in own):
        values = {name: own.get(key, MISSING) for name, own in settings.items()}
        shared = len(set(values.values())) == 1 and len(values) > 1
        shown = {EVERY: next(iter(values.values()))} if shared else values
        rows += [{"name": key, "policy": name, "value": value} for name, value in shown.items()]
    return rows


def certificate_rows(findings: ResultSummary) -> list[dict[str, Any]]:
    """One row a policy: its bias certificate, the bias that this allows, and what to think of it."""
    rows = []
    for name, estimate in findings.estimates.items():
        judged = [fact for fact in grade_diagnostics(estimate) if fact.name == CERTIFICATE]
        rows.append({"name": name, "fact": judged[0] if judged else None, "bias": format_number(bias_bound(estimate))})
    return rows


def _settings(estimate: Estimate) -> dict[str, str]:
    first = {"policy": estimate.policy, "evaluator": estimate.evaluator, "horizon": estimate.horizon}
    last = {key: value for key, value in estimate.settings.items() if key not in first}
    return {str(key): _setting(value) for key, value in {**first, **last}.items()}


def _setting(value: Any) -> str:
    return " to ".join(map(format_number, value)) if isinstance(value, list | tuple) else format_number(value)


GRADES = {"ok": "good", "warn": "fair", "fail": "poor"}


WORDS = {
    "ok": "Nothing is wrong with the log that could be seen from it.",
    "warn": "The log can be used, but know what is below before you lean on the numbers.",
    "fail": "Do not trust the numbers above: the log has faults that make estimates wrong.",
}


def replay_summaries_of(findings: ResultSummary) -> dict[str, ReplaySummary]:
    """One run of each policy that has one to show."""
    looked = {name: estimate.replay_summary() for name, estimate in findings.estimates.items()}
    return {name: passage for name, passage in looked.items() if passage is not None}


def health_of(findings: ResultSummary, passages: Mapping[str, ReplaySummary]) -> HealthReport | None:
    """What is wrong with the log, if all estimates are about the same one and it is at hand."""
    logs = {id(estimate._log): estimate._log for estimate in findings.estimates.values()}
    [log] = logs.values() if len(logs) == 1 else [None]
    if log is None:
        return None
    # runs in log order make no use of exchangeability, so drift is no fault for them
    return check(log, exchangeable=not all(p.in_order for p in passages.values()) or not passages)


def health_rows(report: HealthReport | None) -> dict[str, Any] | None:
    """The verdict in words, the faults with their remedies, and what was found to be in order."""
    if report is None:
        return None
    faults = [
        {
            "name": _spoken(finding.name),
            "verdict": finding.verdict,
            "grade": GRADES[finding.verdict],
            "message": finding.message,
            "remedy": finding.remedy,
        }
        for finding in report.faults
    ]
    sound = [
        {"name": _spoken(finding.name), "message": finding.message}
        for finding in report.findings
        if finding.verdict == "ok"
    ]
    return {
        "about": report.about,
        "grade": GRADES[report.verdict],
        "words": WORDS[report.verdict],
        "faults": faults,
        "sound": sound,
    }


def _spoken(name: str) -> str:
    return name.replace("_", " ")


def stretch_table(passages: Mapping[str, ReplaySummary]) -> list[list[str]]:
    """Policy, events gone through, share accepted, multiplier."""
    return [
        [name, format_number(end), percent(float(passage.accepted[i])), _at(passage.multiplier, i)]
        for name, passage in passages.items()
        for i, end in enumerate(passage.ends.tolist())
    ]


def _at(column: Any, place: int) -> str:
    return format_number(float(column[place])) if column.size else MISSING


def weight_table(passages: Mapping[str, ReplaySummary]) -> list[dict[str, Any]]:
    """One row a policy: what its weighted events are worth, the largest weight, and shares by class."""
    return [
        {
            "name": name,
            "worth": f"{format_number(round(own.weights.effective_sample_size))} of {format_number(own.events)}",
            "largest": format_number(own.weights.largest),
            "idle": percent(float(own.weights.shares[0])),
            "shares": ", ".join(
                f"{kind}: {percent(share)}"
                for kind, share in zip(WEIGHT_CLASSES, own.weights.shares.tolist(), strict=True)
                if share > 0
            ),
        }
        for name, own in passages.items()
    ]


def action_table(passages: Mapping[str, ReplaySummary]) -> dict[str, Any]:
    """Names across, actions down, shares in the cells."""
    if not passages:
        return {"names": [], "rows": []}
    shares: dict[str, list[str]] = {}
    for row in action_shares(passages):
        shares.setdefault(row["action"], []).append(row["share"])
    names = [LOGGED, *(name for name, passage in passages.items() if passage.taken is not None)]
    return {"names": names, "rows": [[action, *own] for action, own in shares.items()]}


TITLE = "What would these policies have earned?"


def save_report(
    result: Any,
    path: str | os.PathLike[str],
    *,
    about: Mapping[str, object] | None = None,
    health: HealthReport | None = None,
) -> Path:
    """Write a report of an estimate, a dict of them by name, or a comparison, and say where it is.

    One run of each policy is made again to be drawn, and the log is examined, where the log is in memory.

    Parameters
    ----------
    result
        An :class:`backcast.Estimate`, a dict of them by name, or a comparison.
    path
        The HTML file; one that is there is overwritten, when all of the new one is on disk.
    about
        More lines for the table of settings, such as the file of the log.
    health
        What :func:`backcast.check` said about the log, if it was asked; else it is asked here.

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
    page = report_html(result, about=about, health=health)
    with atomic_write(path, "report") as file:
        # names of files may hold bytes that are no text; they are written out
        file.write(page.encode("utf-8", errors="backslashreplace"))
    return Path(path).resolve()


def report_html(result: Any, *, about: Mapping[str, object] | None = None, health: HealthReport | None = None) -> str:
    """The page of :func:`save_report` as text."""
    from markupsafe import Markup

    findings = summarize(result)
    passages = replay_summaries_of(findings)
    charts = _charts(findings, passages)
    bundle, script = _bundle(), _own("page.js")
    return _template().render(
        title=TITLE if len(findings.estimates) > 1 else "What would this policy have earned?",
        version=version("backcast"),
        policy=_security_policy(bundle, script),
        **_words(findings, about or {}),
        **_runs(passages),
        health=health_rows(health or health_of(findings, passages)),
        charts={name: {"drawing": Markup(_drawing(chart))} for name, chart in charts.items()},
        specs={name: {**chart, "width": "container"} for name, chart in charts.items()},
        style=Markup(_own("page.css")),
        bundle=Markup(bundle),
        script=Markup(script),
    )


def _words(findings: ResultSummary, about: Mapping[str, object]) -> dict[str, Any]:
    """What the page says of the estimates."""
    return {
        "verdict": verdict(findings),
        "names": list(findings.estimates),
        "rows": policy_rows(findings),
        "fine_print": shared_fine_print(findings),
        "differences": difference_rows(findings),
        "paired": all(difference.interval.method.startswith("paired") for difference in findings.differences),
        "points": curve_points(findings),
        "facts": fact_rows(findings),
        "certificates": certificate_rows(findings),
        "settings": setting_rows(findings, about),
        "notes": remarks(findings),
    }


def _runs(passages: Mapping[str, ReplaySummary]) -> dict[str, Any]:
    """What the page says of one run of each policy."""
    return {
        "stretches": stretch_table(passages),
        "weights": weight_table(passages),
        "actions": action_table(passages),
    }


def _charts(findings: ResultSummary, passages: Mapping[str, ReplaySummary]) -> dict[str, Any]:
    """Specifications of the charts, with the page's own paper behind them."""
    charts = {"forest": forest_chart(findings)}
    if findings.differences:
        charts["gaps"] = differences_chart(findings)
    if any(estimate.curve is not None for estimate in findings.estimates.values()):
        charts["curves"] = curves_chart(findings)
    charts |= run_charts(findings, passages)
    return {name: {**chart.to_dict(), "background": None} for name, chart in charts.items()}


def _drawing(spec: dict[str, Any]) -> str:
    import vl_convert

    return str(vl_convert.vegalite_to_svg(spec))


@cache
def _bundle() -> str:
    """Vega, Vega-Lite and Vega-Embed in one script, made safe to stand between script tags."""
    import vl_convert

    bundle = str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;"))
    return re.sub(r"<(?=/script|!--)", r"\\x3c", bundle, flags=re.IGNORECASE)


@cache
def _own(name: str) -> str:
    return (files("backcast.report") / name).read_text(encoding="utf-8")


@cache
def _template() -> Template:
    from jinja2 import Environment, StrictUndefined

    return Environment(autoescape=True, undefined=StrictUndefined).from_string(_own("page.html"))


def _security_policy(*scripts: str) -> str:
    """Nothing from the network, no script but these, styles only from the page."""
    digests = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:"
