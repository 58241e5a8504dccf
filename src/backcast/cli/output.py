"""What a command prints and writes: a table for people, JSON for machines, a report to send around."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from backcast.cli.settings import Settings
from backcast.cli.speech import print_json, say
from backcast.disk import check_place
from backcast.errors import OptionError
from backcast.estimate import Estimate
from backcast.evaluators.question import is_partial
from backcast.report.findings import Findings, findings_of
from backcast.report.run_sections import health_of, passages_of
from backcast.report.sections import remarks
from backcast.report.text import differences_table, estimates_table, one_line
from backcast.report.verdict import verdict
from backcast.report.words import figure, joined
from backcast.saved import result_document, save_result

if TYPE_CHECKING:
    from backcast.cli.command import Words
    from backcast.comparison import Comparison

__all__ = ["check_places", "deliver", "print_result"]


def check_places(settings: Settings) -> None:
    """A file that has nowhere to go is better known before the work than after it."""
    for key, what in (("report", "report"), ("out", "result")):
        path = settings.get(key)
        if path is not None:
            check_place(path, what)


def deliver(result: Any, about: dict[str, Any], words: Words, left_out: Sequence[str] = ()) -> bool:
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
            say(f"stopped before {joined(left_out)}")
    except OSError:
        # nobody reads what is printed, but the result may have taken long
        _write(result, about, words, partial=partial)
        raise
    _write(result, about, words, partial=partial)
    return partial


def _write(result: Any, about: dict[str, Any], words: Words, *, partial: bool) -> None:
    out, report = words.settings.get("out"), words.settings.get("report")
    if out is None and report is None:
        return
    result = _looked_at_once(result)
    health = health_of(findings_of(result), passages_of(findings_of(result)))
    problems: list[str] = []
    if out is not None:
        beside = {"about": about, "partial": partial, "health": health}
        _tell("result", lambda: _saved_somewhere(result, out, beside), words, problems)
    if report is not None:
        from backcast.report.html import save_report

        _tell("report", lambda: save_report(result, report, about=about, health=health), words, problems)
    if problems:
        raise OptionError("; ".join(problems))


def _tell(what: str, write: Callable[[], Path], words: Words, problems: list[str]) -> None:
    """Write one file and say where it is; one that cannot be written must not keep the next from being written."""
    try:
        where = write()
    except OptionError as problem:
        problems.append(str(problem))
        return
    if not words.silent:
        say(f"The {what} is in {where}")


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
    looks = {name: estimate._passage and cache(estimate._passage) for name, estimate in result.items()}
    return {name: replace(estimate, _passage=looks[name]) for name, estimate in result.items()}


def _all_notes(result: Any) -> list[str]:
    estimates = getattr(result, "estimates", result)
    return [*getattr(result, "notes", ()), *(note for estimate in estimates.values() for note in estimate.notes)]


def _title(about: dict[str, Any]) -> str:
    earned = figure(about["average reward in the log"])
    return f"{figure(about['events'])} events, {about['actions']} actions; the log itself earned {earned} a round"


def print_result(result: Mapping[str, Estimate] | Comparison, title: str, *, quiet: bool) -> None:
    """The table, that of paired differences if there are any, and unless quiet the verdict and the notes."""
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=False)
    findings = findings_of(result)
    console.print(one_line(title), markup=False)
    console.print(estimates_table(findings))
    if findings.differences:
        console.print(differences_table(findings))
    if not quiet:
        for paragraph in _paragraphs(findings):
            console.print(one_line(paragraph), markup=False)


def _paragraphs(findings: Findings) -> list[str]:
    return [verdict(findings), *(f"Note: {remark}" for remark in remarks(findings))]
