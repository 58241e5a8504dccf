"""Output of commands: tables and JSON on standard output, and reports, results and charts in files."""

from __future__ import annotations

import io
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backcast._files import atomic_write, check_writable
from backcast._format import format_number, join_names
from backcast._request import is_partial
from backcast._serialization import to_json
from backcast.cli.paths import CHECKPOINT, check_outputs
from backcast.cli.progress import print_status
from backcast.cli.requirements import GateResult
from backcast.cli.settings import Settings
from backcast.cli.streams import FilesNotWritten
from backcast.errors import BackcastError, OptionError, ResourceError, printable
from backcast.report._summary import ResultSummary, collect_notes, learning_rows, summarize, verdict
from backcast.report.html import check_common_log, collect_replays, save_report
from backcast.report.text import (
    FOLD,
    NO_WRAP,
    NUMBER,
    differences_table,
    estimates_table,
    learning_table,
    lifts_table,
    make_table,
    outcome_tables,
)
from backcast.results import Result, result_document, save_result

if TYPE_CHECKING:
    from rich.console import Console

    from backcast.checks.findings import HealthReport

VERDICT_STYLES = {"ok": "green", "warn": "yellow", "fail": "red"}
PIXELS_PER_UNIT = 2.0  # of a PNG, for screens of high resolution


def print_json(document: dict[str, Any]) -> None:
    """Print strict JSON on standard output."""
    sys.stdout.write(json.dumps(document, indent=2, allow_nan=False) + "\n")


def open_console() -> Console:
    """Return a console for standard output that adds no colours of its own."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=False)


def print_line(console: Console, text: str) -> None:
    """Print text of any origin, without markup and control characters."""
    console.print(printable(text), markup=False)


def check_output_paths(settings: Settings) -> None:
    """Refuse paths that cannot be written or that are inputs, before the work instead of after it."""
    outputs = {"report": settings.get("report"), "result": settings.get("save_json")}
    check_outputs({**outputs, CHECKPOINT: settings.get("checkpoint")}, [settings.get("log"), settings.run_file])
    save_json = settings.get("save_json")
    if save_json is not None and save_json.lower().endswith((".html", ".htm")):
        raise OptionError(
            f"save_json is {save_json!r}, but the result is saved as JSON; give a name that ends in .json, or use "
            "--report for an HTML report"
        )
    for what, path in outputs.items():
        if path is not None:
            check_writable(path, what)


def deliver(
    result: Any,
    about: dict[str, Any],
    settings: Settings,
    missing: Sequence[str] = (),
    gates: Sequence[GateResult] = (),
) -> bool:
    """Print a dict of estimates or a comparison, write the files, and return whether the result is partial.

    ``missing`` names policies that were not evaluated because the run was stopped; ``gates`` are the results of
    requirements.
    """
    summary = summarize(result)
    notes = [*summary.notes, *(note for estimate in summary.estimates.values() for note in estimate.notes)]
    partial = bool(missing) or is_partial(notes)
    try:
        if settings.json:
            document = result_document(result, about=about, partial=partial)
            print_json({**document, "requirements": to_json(list(gates))} if gates else document)
        else:
            _print_summary(summary, about, partial=partial, quiet=settings.quiet)
            sys.stdout.flush()
        if missing:
            print_status(f"stopped before {join_names(missing)}")
        for gate in () if settings.silent else gates:
            print_status(f"Requirement {gate.requirement!r}: {gate.outcome}. {gate.reason}")
    except OSError:
        # standard output cannot be written, but the result may have taken long to compute
        _write_files(result, summary, about, settings, partial=partial)
        raise
    _write_files(result, summary, about, settings, partial=partial)
    return partial


def _print_summary(summary: ResultSummary, about: dict[str, Any], *, partial: bool, quiet: bool) -> None:
    """Print the table of estimates, that of differences if there are any, and unless quiet the verdict and notes."""
    console = open_console()
    events, reward = format_number(about["events"]), format_number(about["average reward in the log"])
    title = f"{events} events, {about['actions']} actions; average reward in the log: {reward} per round"
    print_line(console, f"PARTIAL RESULT. {title}" if partial else title)
    console.print(estimates_table(summary))
    if summary.lifts:
        console.print(lifts_table(summary))
    if summary.differences:
        console.print(differences_table(summary))
    if learning_rows(summary):
        console.print(learning_table(summary))
    for table in outcome_tables(summary):
        console.print(table)
    if not quiet:
        for paragraph in (verdict(summary), *(f"Note: {note}" for note in collect_notes(summary))):
            print_line(console, paragraph)


def _write_files(
    result: Result, summary: ResultSummary, about: dict[str, Any], settings: Settings, *, partial: bool
) -> None:
    """Write the JSON file and the report, if they are set; a failure of the one does not prevent the other."""
    save_json, report = settings.get("save_json"), settings.get("report")
    if save_json is None and report is None:
        return
    health = check_common_log(summary, collect_replays(summary))
    writers: dict[str, Callable[[], Path]] = {}
    if save_json is not None:
        writers["result"] = lambda: _save_result(result, save_json, about=about, partial=partial, health=health)
    if report is not None:
        writers["report"] = lambda: save_report(summary, report, about=about, health=health, result_file=save_json)
    problems: list[BackcastError] = []
    for what, write in writers.items():
        try:
            path = write()
        except (OptionError, ResourceError) as problem:
            problems.append(problem)
            continue
        if not settings.silent:
            print_status(f"The {what} is in {path}")
    if problems:
        raise FilesNotWritten("; ".join(map(str, problems)), max(problem.exit_code for problem in problems))


def _save_result(result: Result, path: str, **facts: Any) -> Path:
    """Save the result; if the path cannot be written, save it in a temporary folder, and name that in the error."""
    try:
        return save_result(result, path, **facts)
    except (OptionError, ResourceError) as problem:
        try:
            fallback = save_result(result, Path(tempfile.mkdtemp(prefix="backcast-"), "result.json"), **facts)
        except (OptionError, ResourceError, OSError):
            raise problem from None
        raise type(problem)(f"{problem}; it was saved in {fallback}") from None


def save_chart(chart: Any, path: str, kind: str) -> Path:
    """Write a chart as "html", "png" or "svg", and return its path."""
    buffer: Any = io.BytesIO() if kind == "png" else io.StringIO()
    # inline: the page loads nothing from other servers
    chart.save(buffer, format=kind, **({"inline": True} if kind == "html" else {"scale_factor": PIXELS_PER_UNIT}))
    content = buffer.getvalue()
    with atomic_write(path, "chart") as file:
        file.write(content if isinstance(content, bytes) else content.encode())
    return Path(path).resolve()


def print_health(report: HealthReport, *, quiet: bool) -> None:
    """Print the findings, the worst first (if quiet, only the faults), the fit of the policy, and the verdict."""
    from rich.text import Text

    console = open_console()
    table = make_table({"verdict": {}, "check": NO_WRAP, "figure": NUMBER, "finding and remedy": FOLD})
    for finding in (*report.faults, *(() if quiet else report.passed)):
        remedy = f"\n→ {printable(finding.remedy)}" if finding.remedy else ""
        # Text, not markup: labels of the log may contain brackets
        table.add_row(
            Text(finding.verdict, style=VERDICT_STYLES[finding.verdict]),
            finding.name.replace("_", " "),
            format_number(float(finding.figure)),
            Text(f"{printable(finding.message)}{remedy}"),
        )
    if table.row_count:
        console.print(table)
    for line in [] if report.policy is None else str(report.policy).splitlines():
        print_line(console, line)
    if report.reading is not None and not quiet:
        print_line(console, f"Log: {report.reading}.")
    if report.verdict == "ok":
        print_line(console, f"{report.about}: no problem found.")
        return
    counts = {verdict: sum(finding.verdict == verdict for finding in report.findings) for verdict in ("fail", "warn")}
    advice = "do not rely on estimates from this log" if counts["fail"] else "read the warnings before the estimates"
    total = len(report.findings)
    print_line(
        console, f"{report.about}: {counts['fail']} failed, {counts['warn']} warned, of {total} checks; {advice}."
    )
