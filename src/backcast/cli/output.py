"""What a command prints: a table for people, JSON for machines."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from backcast.estimate import Estimate
from backcast.report.findings import Findings, findings_of
from backcast.report.sections import remarks
from backcast.report.text import differences_table, estimates_table, one_line
from backcast.report.verdict import verdict

if TYPE_CHECKING:
    from backcast.comparison import Comparison

__all__ = ["print_json", "print_result", "say"]


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


def print_json(payload: Mapping[str, Any]) -> None:
    """Strict JSON on standard output, and nothing else."""
    sys.stdout.write(json.dumps(payload, indent=2, allow_nan=False) + "\n")


def say(text: str) -> None:
    """One line to the person at the terminal, beside the result."""
    print(one_line(text), file=sys.stderr)
