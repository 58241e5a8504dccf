"""Estimates as rows of tables, and the page of the accuracy benchmark."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from backcast._arrays import FloatArray
from bench.accuracy.evaluators import BUDGET, CONSTANT, DEFAULT, ETA, ONE_PASS, PRESET, RecordedEstimate
from bench.accuracy.live import Truth
from bench.accuracy.settings import LIVE_RUNS, Setting
from bench.common.markdown import format_number, markdown_table
from bench.reproduction.protocol import finite_mean, score_errors

RATIOS = ("÷ live", "÷ yardstick", "÷ live yardstick")
HEAD = ("evaluator", "rmse", "bias", "sd", "coverage", "width", *RATIOS, "reached T", "seconds")
YARDSTICK_GOAL = 1.3
PAPER_GOAL = 0.6
STEPS = {"+ reward model": ONE_PASS, "+ permutations": PRESET, "+ clock": DEFAULT, "clock, constant model": CONSTANT}
STEPS_INTRO = (
    "Median over settings of the rmse over that of the best DRns(q), which is chosen with hindsight, as one part is "
    "changed after the other; the last column has the clock without the reward model."
)


@dataclass(frozen=True)
class Row:
    """One evaluator in one setting.

    ``efficiency`` is rmse over the error of live runs with all the events, ``to_yardstick`` rmse over the yardstick
    of the log, ``to_live_yardstick`` over that of a log with n/T separate histories; ``complete`` is the share of logs
    whose horizon was reached, ``coverage`` the share of all logs whose interval contains the truth.
    """

    evaluator: str
    logs: int
    rmse: float
    half_width: float
    bias: float
    stdev: float
    coverage: float
    width: float
    efficiency: float
    to_yardstick: float
    to_live_yardstick: float
    complete: float
    seconds: float


Tables = dict[Setting, tuple[Truth, list[Row]]]


def score_setting(setting: Setting, truth: Truth, trials: list[dict[str, RecordedEstimate]]) -> list[Row]:
    """Return a row for each evaluator; the yardstick is that of the default's reward model."""
    default = _stack_estimates(trials, DEFAULT)
    spread = float(np.sqrt(finite_mean(default.spread**2)))
    limit = truth.live_limit(setting.events, setting.horizon)
    yardstick = truth.yardstick(spread, setting.events, 1 / finite_mean(1 / default.histories))
    live_yardstick = truth.yardstick(spread, setting.events, setting.events / setting.horizon)
    rows = []
    for name in trials[0]:
        estimates = _stack_estimates(trials, name)
        score = score_errors(name, estimates.value - truth.value)
        covered = (estimates.low <= truth.value) & (truth.value <= estimates.high)
        has_interval = np.isfinite(estimates.low)
        row = Row(
            name,
            score.trials,
            score.rmse,
            score.half_width,
            score.bias,
            score.stdev,
            # a log without an interval, because the call failed or has no error, is not covered
            float(covered.mean()) if has_interval.any() else math.nan,
            float((estimates.high - estimates.low)[has_interval].mean()) if has_interval.any() else math.nan,
            score.rmse / limit,
            score.rmse / yardstick,
            score.rmse / live_yardstick,
            float((estimates.complete >= 1).mean()),
            finite_mean(estimates.seconds),
        )
        rows.append(row)
    return rows


def _stack_estimates(trials: list[dict[str, RecordedEstimate]], name: str) -> Any:
    """Return the estimates of one evaluator as one :class:`RecordedEstimate` of arrays."""
    columns: FloatArray = np.array([trial[name] for trial in trials], dtype=np.float64).T
    return RecordedEstimate(*columns)


def find_row(rows: list[Row], name: str) -> Row:
    """Return the row of one evaluator."""
    return next(row for row in rows if row.evaluator == name)


def best_published_row(rows: list[Row]) -> Row:
    """Return the row of the DRns(q) of least rmse, chosen with hindsight."""
    return min((row for row in rows if row.evaluator.startswith("DRns(q")), key=lambda row: row.rmse)


def accuracy_blocks(tables: Tables, logs: int) -> list[str]:
    """Return the blocks of the page."""
    intro = (
        f"{logs} logs per setting, truth from {LIVE_RUNS} live runs per setting. RS, WC and DRns(q) run as in the "
        "paper: one pass, a logistic reward model trained on half of the log (RS needs none and gets all of it). "
        "*Budget* is one pass of `DRns(acceptance=Budget(0.05))`, *preset* is `DRns.recommended`, in one pass and over "
        "300 replicates, *default* is the default call `evaluate(log, policy, horizon=T)`, all with a cross-fitted "
        "low-variance reward model; *constant model* is clock replay with the mean reward in its place. Coverage is "
        "the share of all logs, those without an interval included. ÷ live: rmse over the standard error if all n "
        "events were spent on live runs of the policy. ÷ yardstick: over the yardstick of the log with the default's "
        "reward model, sd(R_k)^2/n + sd_V^2/N with N the separate histories in the log (docs/theory.md, section 5). "
        "÷ live yardstick: the same with n/T for N, as if the logger had been the policy. Reached T: share of logs "
        "with a history of T rounds; if there is none, RS, WC and DRns(q) are scored by their shorter one. Seconds "
        "are of one core."
    )
    details = [block for setting, (truth, rows) in tables.items() for block in setting_blocks(setting, truth, rows)]
    return [
        intro,
        "## Overview",
        overview_table(tables),
        describe_goals(tables),
        "## Step by step",
        STEPS_INTRO,
        steps_table(tables),
        "## Best and worst settings of the default",
        extremes_table(tables),
        "## All",
        *details,
    ]


def steps_table(tables: Tables) -> str:
    """Return the median over settings of rmse over that of the best DRns(q), by logger, one step after the other."""
    lines = []
    for logging in dict.fromkeys(setting.logging for setting in tables):
        of_logging = [rows for setting, (_, rows) in tables.items() if setting.logging == logging]
        ratios = [
            [find_row(rows, name).rmse / best_published_row(rows).rmse for rows in of_logging]
            for name in STEPS.values()
        ]
        lines.append([logging, "1", *(format_number(float(np.nanmedian(ratio)), 2) for ratio in ratios)])
    return markdown_table(["logger", "best DRns(q)", *STEPS], lines)


def extremes_table(tables: Tables) -> str:
    """Return the settings where the default is best and worst, for each measure."""
    default = {setting: find_row(rows, DEFAULT) for setting, (_, rows) in tables.items()}
    measures = {
        "rmse ÷ best DRns(q)": {s: default[s].rmse / best_published_row(rows).rmse for s, (_, rows) in tables.items()},
        "rmse ÷ yardstick": {s: row.to_yardstick for s, row in default.items()},
        "coverage": {s: -row.coverage for s, row in default.items()},
    }
    lines = []
    for measure, values in measures.items():
        ends = (min(values, key=lambda s: values[s]), max(values, key=lambda s: values[s]))
        lines.append([measure, *(f"{abs(values[s]):.2f} ({s.label})" for s in ends)])
    return markdown_table(["measure", "best", "worst"], lines, text_columns=3)


def setting_blocks(setting: Setting, truth: Truth, rows: list[Row]) -> list[str]:
    """Return the title, the facts and the table of one setting."""
    facts = (
        f"n = {setting.events:,}, T = {setting.horizon:,}; truth {truth.value:.4f} ± {truth.error:.4f}; "
        f"live runs with all events would have a standard error of "
        f"{truth.live_limit(setting.events, setting.horizon):.4f}."
    )
    title = f"### {setting.world}, {setting.logging} logging, {setting.policy}"
    return [title, facts, markdown_table(HEAD, map(_row_cells, rows))]


def _row_cells(row: Row) -> list[str]:
    ratios = (row.efficiency, row.to_yardstick, row.to_live_yardstick)
    return [
        row.evaluator,
        f"{row.rmse:.4f} ± {row.half_width:.4f}",
        f"{row.bias:+.4f}",
        format_number(row.stdev),
        format_number(row.coverage, 2),
        format_number(row.width, 3),
        *(format_number(ratio, 2) for ratio in ratios),
        f"{100 * row.complete:.0f} %",
        format_number(row.seconds, 2),
    ]


def overview_table(tables: Tables) -> str:
    """Return a table with a row for each setting: rmse of the paper's evaluators, of the preset and of the default."""
    lines = []
    for setting, (_, rows) in tables.items():
        best, default = best_published_row(rows), find_row(rows, DEFAULT)
        ratios = (default.rmse / best.rmse, default.efficiency, default.to_yardstick, default.to_live_yardstick)
        lines.append(
            [
                setting.label,
                *(format_number(find_row(rows, name).rmse) for name in ("RS", "WC")),
                f"{best.rmse:.4f} ({best.evaluator[5:-1]})",
                format_number(find_row(rows, PRESET).rmse),
                f"**{default.rmse:.4f}**",
                *(format_number(ratio, 2) for ratio in (*ratios, default.coverage)),
            ]
        )
    head = ["setting", "RS", "WC", "best DRns(q)", "preset", "default"]
    return markdown_table([*head, "÷ best DRns", *RATIOS, "coverage"], lines)


def describe_goals(tables: Tables) -> str:
    """Return a line for each goal of the default: in how many settings it is reached, and where not."""
    default = {setting: find_row(rows, DEFAULT) for setting, (_, rows) in tables.items()}
    budget = {setting: find_row(rows, BUDGET) for setting, (_, rows) in tables.items()}
    budget = {setting: row for setting, row in budget.items() if row.logs > 1}
    ratio = {s: default[s].rmse / best_published_row(rows).rmse for s, (_, rows) in tables.items()}
    published = f"rmse at most {PAPER_GOAL} times that of the best DRns(q), logged as in the paper"
    goals: dict[str, dict[Setting, bool]] = {
        f"rmse at most {YARDSTICK_GOAL} times the yardstick": {
            s: row.to_yardstick > YARDSTICK_GOAL for s, row in default.items()
        },
        f"rmse at most {YARDSTICK_GOAL} times the yardstick with n/T histories": {
            s: row.to_live_yardstick > YARDSTICK_GOAL for s, row in default.items()
        },
        published: {s: ratio[s] > PAPER_GOAL for s in tables if s.logging == "paper"},
        "rmse nowhere above that of the best DRns(q)": {s: ratio[s] > 1 for s in tables},
        f"bias of Budget({ETA:g}) at most {ETA:g}, where it reached T": {
            s: abs(row.bias) > ETA + 2 * row.stdev / row.logs**0.5 for s, row in budget.items()
        },
    }
    lines = []
    for goal, is_missed in goals.items():
        missed = ["/".join(setting[:3]) for setting, missed in is_missed.items() if missed]
        line = f"- {goal}: in {len(is_missed) - len(missed)} of {len(is_missed)} settings"
        lines.append(f"{line}; missed in {', '.join(missed)}." if missed else f"{line}.")
    return "\n".join(lines)
