"""Words beside the result, and results for machines."""

from __future__ import annotations

import io
import json
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backcast._files import atomic_write, check_writable
from backcast._request import is_partial
from backcast.cli.progress import print_status
from backcast.cli.settings import Settings
from backcast.errors import OptionError, printable
from backcast.estimate import Estimate
from backcast.report._format import format_number, joined
from backcast.report._summary import ResultSummary, summarize, verdict
from backcast.report.html import health_of, remarks, replay_summaries_of
from backcast.report.text import differences_table, estimates_table
from backcast.results import result_document, save_result

if TYPE_CHECKING:
    from rich.table import Table

    from backcast.checks.findings import Finding, HealthReport
    from backcast.cli.settings import CommandInput
    from backcast.comparison import Comparison


def print_json(payload: Mapping[str, Any]) -> None:
    """Strict JSON on standard output, and nothing else."""
    sys.stdout.write(json.dumps(payload, indent=2, allow_nan=False) + "\n")


STYLES = {"ok": "green", "warn": "yellow", "fail": "red"}


def print_health(report: HealthReport, *, quiet: bool) -> None:
    """The findings, the worst first, or the faults alone if quiet; then the policy, and the verdict in words."""
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=False)
    sound = () if quiet else tuple(finding for finding in report.findings if finding.verdict == "ok")
    shown = (*report.faults, *sound)
    if shown:
        console.print(findings_table(shown))
    if report.policy is not None:
        for line in str(report.policy).splitlines():
            console.print(printable(line), markup=False)
    console.print(printable(_verdict(report)), markup=False)


def findings_table(findings: tuple[Finding, ...]) -> Table:
    """A row a finding: verdict, name, figure, what was found, and what to do about it."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("verdict")
    table.add_column("looked at", no_wrap=True)
    table.add_column("figure", justify="right", no_wrap=True)
    table.add_column("found, and what to do", overflow="fold")
    for finding in findings:
        table.add_row(*_row(finding))
    return table


def _row(finding: Finding) -> tuple[Any, ...]:
    from rich.text import Text

    found = printable(finding.message) + (f"\n→ {printable(finding.remedy)}" if finding.remedy else "")
    verdict = Text(finding.verdict, style=STYLES[finding.verdict])
    # Text, not markup: labels of the log may hold brackets
    return verdict, finding.name.replace("_", " "), format_number(float(finding.figure)), Text(found)


def _verdict(report: HealthReport) -> str:
    faults = {verdict: sum(f.verdict == verdict for f in report.findings) for verdict in ("fail", "warn")}
    if report.verdict == "ok":
        return f"{report.about}: nothing is wrong."
    counted = f"{faults['fail']} failed, {faults['warn']} warned, of {len(report.findings)} findings"
    trust = "do not trust estimates from it as it is" if faults["fail"] else "read the warnings before the estimates"
    return f"{report.about}: {counted}; {trust}."


SHARPNESS = 2.0  # pixels a unit, for screens of today


def save_chart(chart: Any, path: str, kind: str) -> Path:
    """Write a chart as "html", "png" or "svg", and say where it is."""
    drawn: Any = io.BytesIO() if kind == "png" else io.StringIO()
    # inlined: the page asks nothing of other servers
    chart.save(drawn, format=kind, **({"inline": True} if kind == "html" else {"scale_factor": SHARPNESS}))
    content = drawn.getvalue()
    with atomic_write(path, "chart") as file:
        file.write(content if isinstance(content, bytes) else content.encode())
    return Path(path).resolve()


def check_output_paths(settings: Settings) -> None:
    """A file that has nowhere to go is better known before the work than after it."""
    for key, what in (("report", "report"), ("out", "result")):
        path = settings.get(key)
        if path is not None:
            check_writable(path, what)


def deliver(result: Any, about: dict[str, Any], words: CommandInput, left_out: Sequence[str] = ()) -> bool:
    """Print estimates by name or a comparison, write what is wanted, and say whether the result is only partial."""
    partial = bool(left_out) or is_partial(_all_notes(result))
    try:
        if words.json:
            print_json(result_document(result, about=about, partial=partial))
        else:
            title = _title(about)
            print_result(result, f"PARTIAL RESULT. {title}" if partial else title, quiet=words.quiet)
            sys.stdout.flush()
        if left_out:
            print_status(f"stopped before {joined(left_out)}")
    except OSError:
        # nobody reads what is printed, but the result may have taken long
        _write(result, about, words, partial=partial)
        raise
    _write(result, about, words, partial=partial)
    return partial


def _write(result: Any, about: dict[str, Any], words: CommandInput, *, partial: bool) -> None:
    out, report = words.settings.get("out"), words.settings.get("report")
    if out is None and report is None:
        return
    result = _looked_at_once(result)
    health = health_of(summarize(result), replay_summaries_of(summarize(result)))
    problems: list[str] = []
    if out is not None:
        beside = {"about": about, "partial": partial, "health": health}
        _tell("result", lambda: _saved_somewhere(result, out, beside), words, problems)
    if report is not None:
        from backcast.report.html import save_report

        _tell("report", lambda: save_report(result, report, about=about, health=health), words, problems)
    if problems:
        raise OptionError("; ".join(problems))


def _tell(what: str, write: Callable[[], Path], words: CommandInput, problems: list[str]) -> None:
    """Write one file and say where it is; one that cannot be written must not keep the next from being written."""
    try:
        where = write()
    except OptionError as problem:
        problems.append(str(problem))
        return
    if not words.silent:
        print_status(f"The {what} is in {where}")


def _saved_somewhere(result: Any, out: str, beside: dict[str, Any]) -> Path:
    """Where the result is; if it cannot be where it should, it is kept among the temporary files, and that is said."""
    try:
        return save_result(result, out, **beside)
    except OptionError as problem:
        try:
            kept = save_result(result, Path(tempfile.mkdtemp(prefix="backcast-"), "result.json"), **beside)
        except (OptionError, OSError):
            raise problem from None
        raise OptionError(f"{problem}; it is kept in {kept}") from None


def _looked_at_once(result: Any) -> Any:
    """The same, whose runs are made again no more than once."""
    if not isinstance(result, dict):
        return replace(result, estimates=_looked_at_once(result.estimates))
    looks = {name: estimate._replay_summary and cache(estimate._replay_summary) for name, estimate in result.items()}
    return {name: replace(estimate, _replay_summary=looks[name]) for name, estimate in result.items()}


def _all_notes(result: Any) -> list[str]:
    estimates = getattr(result, "estimates", result)
    return [*getattr(result, "notes", ()), *(note for estimate in estimates.values() for note in estimate.notes)]


def _title(about: dict[str, Any]) -> str:
    earned = format_number(about["average reward in the log"])
    return (
        f"{format_number(about['events'])} events, {about['actions']} actions; the log itself earned {earned} a round"
    )


def print_result(result: Mapping[str, Estimate] | Comparison, title: str, *, quiet: bool) -> None:
    """The table, that of paired differences if there are any, and unless quiet the verdict and the notes."""
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=False)
    findings = summarize(result)
    console.print(printable(title), markup=False)
    console.print(estimates_table(findings))
    if findings.differences:
        console.print(differences_table(findings))
    if not quiet:
        for paragraph in _paragraphs(findings):
            console.print(printable(paragraph), markup=False)


def _paragraphs(findings: ResultSummary) -> list[str]:
    return [verdict(findings), *(f"Note: {remark}" for remark in remarks(findings))]
