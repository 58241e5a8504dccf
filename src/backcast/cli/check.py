"""What ``backcast check`` prints: a line for each finding, and how the log suits a policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backcast.report.text import one_line
from backcast.report.words import figure

if TYPE_CHECKING:
    from rich.table import Table

    from backcast.health import Finding, HealthReport

__all__ = ["findings_table", "print_health"]

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
            console.print(one_line(line), markup=False)
    console.print(one_line(_verdict(report)), markup=False)


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

    found = one_line(finding.message) + (f"\n→ {one_line(finding.remedy)}" if finding.remedy else "")
    verdict = Text(finding.verdict, style=STYLES[finding.verdict])
    # Text, not markup: labels of the log may hold brackets
    return verdict, finding.name.replace("_", " "), figure(float(finding.figure)), Text(found)


def _verdict(report: HealthReport) -> str:
    faults = {verdict: sum(f.verdict == verdict for f in report.findings) for verdict in ("fail", "warn")}
    if report.verdict == "ok":
        return f"{report.about}: nothing is wrong."
    counted = f"{faults['fail']} failed, {faults['warn']} warned, of {len(report.findings)} findings"
    trust = "do not trust estimates from it as it is" if faults["fail"] else "read the warnings before the estimates"
    return f"{report.about}: {counted}; {trust}."
