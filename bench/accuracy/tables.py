"""The accuracy benchmark as a page."""

from __future__ import annotations

from datetime import date
from typing import Any

import numpy as np

from bench.accuracy.contestants import BUDGET, DEFAULT, ETA, PRESET
from bench.accuracy.live import Truth
from bench.accuracy.settings import Setting
from bench.accuracy.summary import Row
from bench.reproduction.results import markdown_table
from bench.speed.machine import describe

Tables = dict[Setting, tuple[Truth, list[Row]]]
OVER = ("÷ live", "÷ floor", "÷ live floor")
HEAD = ("evaluator", "rmse", "bias", "sd", "coverage", "width", *OVER, "reached T", "seconds")
FLOOR_GOAL = 1.3
PAPER_GOAL = 0.6


def number(value: float, digits: int) -> str:
    """A figure, or nothing where there is none."""
    return f"{value:.{digits}f}" if np.isfinite(value) else ""


def cells(row: Row) -> list[str]:
    """One line of a setting's table."""
    return [
        row.evaluator,
        f"{row.rmse:.4f} ± {row.reach:.4f}",
        f"{row.bias:+.4f}",
        number(row.stdev, 4),
        number(row.coverage, 2),
        number(row.width, 3),
        number(row.efficiency, 2),
        number(row.to_floor, 2),
        number(row.to_live_floor, 2),
        f"{100 * row.complete:.0f} %",
        number(row.seconds, 2),
    ]


def lines_of(setting: Setting, truth: Truth, rows: list[Row]) -> str:
    """The table of one setting."""
    title = f"### {setting.world}, {setting.logging} logging, {setting.policy}"
    facts = (
        f"n = {setting.events:,}, T = {setting.horizon}; truth {truth.value:.4f} ± {truth.error:.4f}; "
        f"live runs with all events would have a standard error of "
        f"{truth.live_limit(setting.events, setting.horizon):.4f}."
    )
    return "\n\n".join([title, facts, markdown_table(HEAD, [cells(row) for row in rows])])


def best_of_paper(rows: list[Row]) -> Row:
    """The DRns(q) of least rmse, chosen with hindsight."""
    return min((row for row in rows if row.evaluator.startswith("DRns(q")), key=lambda row: row.rmse)


def find(rows: list[Row], name: str) -> Row:
    """The row of one evaluator."""
    return next(row for row in rows if row.evaluator == name)


def overview(tables: Tables) -> str:
    """A line for each setting: rmse of the paper's, of the preset and of the default."""
    lines = []
    for setting, (_, rows) in tables.items():
        best, ours = best_of_paper(rows), find(rows, DEFAULT)
        lines.append(
            [
                f"{setting.world}, {setting.logging}, {setting.policy}",
                *(number(find(rows, name).rmse, 4) for name in ("RS", "WC")),
                f"{best.rmse:.4f} ({best.evaluator[5:-1]})",
                number(find(rows, PRESET).rmse, 4),
                f"**{ours.rmse:.4f}**",
                number(ours.rmse / best.rmse, 2),
                number(ours.efficiency, 2),
                number(ours.to_floor, 2),
                number(ours.to_live_floor, 2),
                number(ours.coverage, 2),
            ]
        )
    head = ["setting", "RS", "WC", "best DRns(q)", "preset", "default"]
    return markdown_table([*head, "÷ best DRns", *OVER, "coverage"], lines)


def verdicts(tables: Tables) -> str:
    """What was asked of the default, and whether it holds."""
    default = {setting: find(rows, DEFAULT) for setting, (_, rows) in tables.items()}
    ratio = {setting: default[setting].rmse / best_of_paper(rows).rmse for setting, (_, rows) in tables.items()}
    above = [s for s, row in default.items() if row.to_floor > FLOOR_GOAL]
    above_live = [s for s, row in default.items() if row.to_live_floor > FLOOR_GOAL]
    paper = [s for s in tables if s.logging == "paper" and ratio[s] > PAPER_GOAL]
    worse = [s for s in tables if ratio[s] > 1]
    budget = {s: find(rows, BUDGET) for s, (_, rows) in tables.items() if find(rows, BUDGET).logs > 1}
    biased = [s for s, row in budget.items() if abs(row.bias) > ETA + 2 * row.stdev / row.logs**0.5]
    return "\n".join(
        [
            _verdict(f"rmse at most {FLOOR_GOAL} times the information floor", above, len(tables)),
            _verdict(f"rmse at most {FLOOR_GOAL} times the floor with n/T histories", above_live, len(tables)),
            _verdict(
                f"rmse at most {PAPER_GOAL} times that of the best DRns(q), logged as in the paper",
                paper,
                sum(s.logging == "paper" for s in tables),
            ),
            _verdict("rmse nowhere above that of the best DRns(q)", worse, len(tables)),
            _verdict(f"bias of Budget({ETA:g}) at most {ETA:g}, where it reached T", biased, len(budget)),
        ]
    )


def _verdict(goal: str, missed: list[Setting], count: int) -> str:
    held = f"- {goal}: in {count - len(missed)} of {count} settings"
    return f"{held}." if not missed else f"{held}; missed in {', '.join('/'.join(s[:3]) for s in missed)}."


def page(tables: Tables, command: str, logs: int, runs: int) -> str:
    """The whole page."""
    intro = (
        f"Made by `{command}` ({logs} logs a setting) on {date.today().isoformat()}, {describe()}. Truth "
        f"from {runs} live runs a setting. RS, WC and DRns(q) run as in the paper: one pass, a logistic reward model "
        "trained on half of the log (RS needs none and gets all of it). *Budget* is one pass of "
        "`DRns(acceptance=Budget(0.05))`, *preset* is `DRns.recommended` over 300 replicates, *default* is "
        "`evaluate(log, policy, horizon=T)`, all with a cross-fitted low-variance reward model. ÷ live: rmse over the "
        "standard error of having spent all n events on live runs of the policy. ÷ floor: over the information floor "
        "of the log with the default's reward model, sd(R_k)^2/n + sd_V^2/N with N the separate histories in the log "
        "(docs/theory.md, section 5). ÷ live floor: the same with n/T for N, as if the logger had been the policy. "
        "Reached T: share of logs with a history of T rounds; where there is none, RS, WC and DRns(q) are scored by "
        "their shorter one all the same. Seconds are of one core."
    )
    parts = ["# Accuracy for learning policies", intro, "## Overview", overview(tables), verdicts(tables), "## All"]
    return "\n\n".join([*parts, *(lines_of(setting, *found) for setting, found in tables.items())]) + "\n"


def record(tables: Tables) -> dict[str, Any]:
    """The same as plain data."""
    return {s.stem: {"truth": t._asdict(), "rows": [row._asdict() for row in rows]} for s, (t, rows) in tables.items()}
