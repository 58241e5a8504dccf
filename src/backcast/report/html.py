"""The HTML report: save_report, the order of its sections, and the page that loads nothing from the network."""

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
from backcast.checks.findings import HealthReport
from backcast.checks.log import check
from backcast.estimate import Estimate
from backcast.log import Log
from backcast.replay_summary import ReplaySummary
from backcast.report._decision_sections import (
    ReportContent,
    conclude,
    curve_section,
    difference_section,
    lift_section,
    title_of,
    value_section,
)
from backcast.report._evaluated import evaluated_rows, settings_section
from backcast.report._outcome_sections import outcome_section, segment_section
from backcast.report._page import Section
from backcast.report._summary import ResultSummary, summarize
from backcast.report._trust_sections import (
    bias_section,
    diagnostics_section,
    health_section,
    run_section,
    trust_section,
)
from backcast.report.charts import render_svg

if TYPE_CHECKING:
    from jinja2 import Template

# in the order of the page; a section that does not apply is None
SECTIONS = (
    lift_section,
    curve_section,
    outcome_section,
    segment_section,
    value_section,
    difference_section,
    trust_section,
    bias_section,
    diagnostics_section,
    run_section,
    health_section,
    settings_section,
)


def save_report(
    result: Any,
    path: str | os.PathLike[str],
    *,
    about: Mapping[str, object] | None = None,
    health: HealthReport | None = None,
    log: Log | None = None,
    result_file: str | os.PathLike[str] | None = None,
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
    result_file
        The file that the result was saved to, for the command that runs it again.

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
    page = report_html(result, about=about, health=health, log=log, result_file=result_file)
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
    result_file: str | os.PathLike[str] | None = None,
) -> str:
    """Return the page of :func:`save_report` as text."""
    from markupsafe import Markup

    summary = summarize(result)
    replays = collect_replays(summary, log)
    content = ReportContent(
        summary,
        replays,
        health or check_common_log(summary, replays, log),
        dict(about or {}),
        None if result_file is None else os.fspath(result_file),
        any(_lacks_log(estimate) for estimate in summary.estimates.values()),
    )
    sections = [section for make in SECTIONS if (section := make(content)) is not None]
    specs = {chart.name: chart.spec for section in sections for chart in section.charts()}
    bundle, script = _vega_bundle(), _read_asset("page.js")
    return _template().render(
        title=title_of(summary),
        version=version("backcast"),
        policy=_security_policy(bundle, script),
        evaluated=evaluated_rows(content),
        conclusion=conclude(summary),
        names=list(summary.estimates),
        sections=sections,
        first_by_policy=next((section.name for section in sections if _shows_policies(section, specs)), ""),
        charts={name: Markup(render_svg(spec)) for name, spec in specs.items()},
        specs={name: {**spec, "width": "container"} for name, spec in specs.items()},
        style=Markup(_read_asset("page.css")),
        bundle=Markup(bundle),
        script=Markup(script),
    )


def _shows_policies(section: Section, specs: Mapping[str, dict[str, Any]]) -> bool:
    """Return whether the section has a chart in which policies can be hidden."""
    parameters = (each for chart in section.charts() for each in specs[chart.name].get("params", ()))
    return any(each["name"] == "hidden" for each in parameters)


def _lacks_log(estimate: Estimate) -> bool:
    computation = estimate._replay_summary
    return computation is not None and computation.lacks_log


def collect_replays(summary: ResultSummary, log: Log | None = None) -> dict[str, ReplaySummary]:
    """Return a summary of one run of each policy that has one."""
    replays = {name: estimate.replay_summary(log) for name, estimate in summary.estimates.items()}
    return {name: replay for name, replay in replays.items() if replay is not None}


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
