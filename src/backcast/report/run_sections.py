"""Runs and the health of the log as plain rows of text, ready for a template."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from backcast.health import HealthReport, check
from backcast.passage import Passage
from backcast.report.findings import Findings
from backcast.report.run_charts import LOGGED, WEIGHT_CLASSES, action_shares
from backcast.report.words import MISSING, figure, percent

__all__ = ["action_table", "health_of", "health_rows", "passages_of", "stretch_table", "weight_table"]

GRADES = {"ok": "good", "warn": "fair", "fail": "poor"}
WORDS = {
    "ok": "Nothing is wrong with the log that could be seen from it.",
    "warn": "The log can be used, but know what is below before you lean on the numbers.",
    "fail": "Do not trust the numbers above: the log has faults that make estimates wrong.",
}


def passages_of(findings: Findings) -> dict[str, Passage]:
    """One run of each policy that has one to show."""
    looked = {name: estimate.passage() for name, estimate in findings.estimates.items()}
    return {name: passage for name, passage in looked.items() if passage is not None}


def health_of(findings: Findings, passages: Mapping[str, Passage]) -> HealthReport | None:
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


def stretch_table(passages: Mapping[str, Passage]) -> list[list[str]]:
    """Policy, events gone through, share accepted, multiplier."""
    return [
        [name, figure(end), percent(float(passage.accepted[i])), _at(passage.multiplier, i)]
        for name, passage in passages.items()
        for i, end in enumerate(passage.ends.tolist())
    ]


def _at(column: Any, place: int) -> str:
    return figure(float(column[place])) if column.size else MISSING


def weight_table(passages: Mapping[str, Passage]) -> list[dict[str, Any]]:
    """One row a policy: what its weighted events are worth, the largest weight, and shares by class."""
    return [
        {
            "name": name,
            "worth": f"{figure(round(own.weights.effective_sample_size))} of {figure(own.events)}",
            "largest": figure(own.weights.largest),
            "idle": percent(float(own.weights.shares[0])),
            "shares": ", ".join(
                f"{kind}: {percent(share)}"
                for kind, share in zip(WEIGHT_CLASSES, own.weights.shares.tolist(), strict=True)
                if share > 0
            ),
        }
        for name, own in passages.items()
    ]


def action_table(passages: Mapping[str, Passage]) -> dict[str, Any]:
    """Names across, actions down, shares in the cells."""
    if not passages:
        return {"names": [], "rows": []}
    shares: dict[str, list[str]] = {}
    for row in action_shares(passages):
        shares.setdefault(row["action"], []).append(row["share"])
    names = [LOGGED, *(name for name, passage in passages.items() if passage.taken is not None)]
    return {"names": names, "rows": [[action, *own] for action, own in shares.items()]}
