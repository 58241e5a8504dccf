"""What a command prints and writes: a table for people, JSON for machines, a report to send around."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from backcast.cli.settings import Settings
from backcast.cli.speech import print_json, say
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
        folder = os.path.dirname(path or "") or "."
        if not os.path.isdir(folder):
            raise OptionError(f"the {what} cannot be written to {path!r}: there is no folder {folder!r}")


def deliver(result: Any, about: dict[str, Any], words: Words, left_out: Sequence[str] = ()) -> bool:
    """Print estimates by name or a comparison, write what is wanted, and say whether the result is only partial."""
    partial = bool(left_out) or is_partial(_all_notes(result))
    if words.json:
        print_json(result_document(result, about=about, partial=partial))
    else:
        title = _title(about)
        print_result(result, f"PARTIAL RESULT. {title}" if partial else title, quiet=words.quiet)
    if left_out:
        say(f"stopped before {joined(left_out)}")
    _write(result, about, words, partial=partial)
    return partial


def _write(result: Any, about: dict[str, Any], words: Words, *, partial: bool) -> None:
    out, report = words.settings.get("out"), words.settings.get("report")
    if out is None and report is None:
        return
    result = _looked_at_once(result)
    health = health_of(findings_of(result), passages_of(findings_of(result)))
    if out is not None:
        where = save_result(result, out, about=about, partial=partial, health=health)
        if not words.silent:
            say(f"The result is in {where}")
    if report is not None:
        from backcast.report.html import save_report

        where = save_report(result, report, about=about, health=health)
        if not words.silent:
            say(f"The report is in {where}")


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
