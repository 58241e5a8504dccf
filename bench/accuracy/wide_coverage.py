"""The default call in all settings of the accuracy benchmark: coverage, errors, grades, and former errors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from backcast._arrays import FloatArray
from bench.accuracy.evaluators import DEFAULT, RecordedEstimate
from bench.accuracy.former import FormerEstimates, compare_errors
from bench.accuracy.live import Truth
from bench.accuracy.settings import Setting
from bench.accuracy.tables import score_setting
from bench.common.former import FORMER
from bench.common.markdown import format_number, markdown_table

LOW_COVERAGE = 0.90
HEAD = (
    *("setting", "logs", "coverage", "rmse", "bias", "standard error ÷ sd", "poor", f"rmse ÷ rmse at {FORMER}"),
    "logs compared",
)
INTRO = (
    "The same call in every setting of bench/results/accuracy.md, on the same logs: share of all logs whose interval "
    "contains V_T, rmse with the half width of its 95 % interval, mean standard error over the standard deviation of "
    "the values, and share of results that are graded poor. The rmse is compared with that of the default call at "
    f"commit {FORMER} on the same logs, ± the jackknife error of the ratio, in the settings of T = 45."
)


class WideRow(NamedTuple):
    """The default call in one setting; ``ratio`` is its rmse over that of the former default on the same logs."""

    setting: str
    logs: int
    coverage: float
    rmse: float
    half_width: float
    bias: float
    error_to_deviation: float
    poor: float
    uncovered: int
    uncovered_poor: int
    ratio: float = math.nan
    ratio_error: float = math.nan
    compared: int = 0


def score_default(
    setting: Setting, truth: Truth, estimates: Sequence[RecordedEstimate], former: FormerEstimates | None
) -> WideRow:
    """Return the row of one setting."""
    [row] = score_setting(setting, truth, [{DEFAULT: estimate} for estimate in estimates])
    values, errors, lows, highs, poor = columns_of(estimates, "value", "std_error", "low", "high", "poor")
    uncovered = ~((lows <= truth.value) & (truth.value <= highs))
    compared: tuple[float, float, int] = (math.nan, math.nan, 0)
    if former is not None:
        n = min(len(values), len(former.values))
        compared = compare_errors(values[:n] - truth.value, former.values[:n] - truth.value)
    return WideRow(
        setting.label,
        len(estimates),
        float((~uncovered).mean()),
        row.rmse,
        row.half_width,
        row.bias,
        float(np.nanmean(errors)) / row.stdev,
        float((poor == 1).mean()),
        int(uncovered.sum()),
        int((uncovered & (poor == 1)).sum()),
        *compared,
    )


def columns_of(estimates: Sequence[RecordedEstimate], *names: str) -> list[FloatArray]:
    """Return fields of estimates as arrays."""
    return [np.array([getattr(estimate, name) for estimate in estimates], dtype=np.float64) for name in names]


def describe_coverage(rows: Sequence[WideRow]) -> str:
    """Return the mean coverage over all logs, and a line for each setting where it is low, with its grades."""
    logs = sum(row.logs for row in rows)
    mean = sum(row.logs * row.coverage for row in rows) / logs
    low = [row for row in rows if row.coverage < LOW_COVERAGE]
    first = (
        f"Average coverage {mean:.3f} ({logs:,} logs); {len(low)} of {len(rows)} settings are below "
        f"{LOW_COVERAGE:.2f}{':' if low else '.'}"
    )
    lines = [
        f"- {row.setting}: {row.coverage:.2f}; graded poor in {row.poor:.0%} of all logs, and in {row.uncovered_poor} "
        f"of the {row.uncovered} that are not covered."
        for row in low
    ]
    return "\n".join([first, *([""] if low else []), *lines])


def wide_blocks(rows: Sequence[WideRow]) -> list[str]:
    """Return the blocks of the page about all settings."""
    return ["## All settings", INTRO, describe_coverage(rows), markdown_table(HEAD, map(_row_cells, rows))]


def _row_cells(row: WideRow) -> list[str]:
    return [
        row.setting,
        f"{row.logs}",
        f"{row.coverage:.2f}",
        f"{row.rmse:.4f} ± {row.half_width:.4f}",
        f"{row.bias:+.4f}",
        format_number(row.error_to_deviation, 2),
        f"{row.poor:.2f}",
        f"{row.ratio:.2f} ± {row.ratio_error:.2f}" if math.isfinite(row.ratio) else "",
        f"{row.compared}" if row.compared else "",
    ]
