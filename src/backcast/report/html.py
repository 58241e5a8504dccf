"""A report as one HTML page that loads nothing: the charts' library is inside it, and drawings stand in without it.

Text from data reaches the page only through the template's escaping or as JSON in a block that is never run. The page's
own security policy names its scripts by their digests and forbids everything else, so that a label cannot run even if
the escaping were to fail.
"""

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

from backcast.disk import whole_file
from backcast.passage import Passage
from backcast.report.charts import curves_chart, differences_chart, forest_chart
from backcast.report.findings import Findings, findings_of
from backcast.report.run_charts import run_charts
from backcast.report.run_sections import (
    action_table,
    health_of,
    health_rows,
    passages_of,
    stretch_table,
    weight_table,
)
from backcast.report.sections import (
    certificate_rows,
    curve_points,
    difference_rows,
    fact_rows,
    policy_rows,
    remarks,
    setting_rows,
    shared_fine_print,
)
from backcast.report.verdict import verdict

if TYPE_CHECKING:
    from jinja2 import Template

    from backcast.health import HealthReport

__all__ = ["report_html", "save_report"]

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
    >>> from backcast.evaluators.stationary import IPS
    >>> from backcast.log import Log
    >>> from backcast.policies.stationary import Fixed
    >>> log = Log(None, actions=[0, 1] * 20, rewards=[1, 0] * 20, propensities=[0.5] * 40)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_report(evaluate(log, Fixed([0.5, 0.5]), IPS()), f"{folder}/report.html").name
    'report.html'
    """
    page = report_html(result, about=about, health=health)
    with whole_file(path, "report") as file:
        # names of files may hold bytes that are no text; they are written out
        file.write(page.encode("utf-8", errors="backslashreplace"))
    return Path(path).resolve()


def report_html(result: Any, *, about: Mapping[str, object] | None = None, health: HealthReport | None = None) -> str:
    """The page of :func:`save_report` as text."""
    from markupsafe import Markup

    findings = findings_of(result)
    passages = passages_of(findings)
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


def _words(findings: Findings, about: Mapping[str, object]) -> dict[str, Any]:
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


def _runs(passages: Mapping[str, Passage]) -> dict[str, Any]:
    """What the page says of one run of each policy."""
    return {
        "stretches": stretch_table(passages),
        "weights": weight_table(passages),
        "actions": action_table(passages),
    }


def _charts(findings: Findings, passages: Mapping[str, Passage]) -> dict[str, Any]:
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
