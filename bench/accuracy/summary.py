"""From answers to a row of the table: errors, coverage, and how near they come to what is possible."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from bench.accuracy.live import Truth
from bench.accuracy.settings import Setting
from bench.reproduction.results import score


class Row(NamedTuple):
    """One evaluator in one setting.

    ``efficiency`` is rmse over the error of live runs with all the events, ``to_floor`` rmse over the information
    floor, ``to_live_floor`` over that of a log with n/T separate histories; ``complete`` is the share of logs whose
    horizon was reached.
    """

    evaluator: str
    logs: int
    rmse: float
    reach: float
    bias: float
    stdev: float
    coverage: float
    width: float
    efficiency: float
    to_floor: float
    to_live_floor: float
    complete: float
    seconds: float


class Marks(NamedTuple):
    """What rows are held against: the truth, the error of live runs, and the two floors."""

    value: float
    limit: float
    floor: float
    live_floor: float


def rows_of(setting: Setting, truth: Truth, trials: list[dict[str, Any]], default: str) -> list[Row]:
    """A row for each evaluator; the floor is that of the default's reward model."""
    ours = np.array([trial[default] for trial in trials], dtype=np.float64)
    spread = float(np.sqrt(_mean(ours[:, 6] ** 2)))
    marks = Marks(
        truth.value,
        truth.live_limit(setting.events, setting.horizon),
        truth.floor(spread, setting.events, 1 / _mean(1 / ours[:, 7])),
        truth.floor(spread, setting.events, setting.events / setting.horizon),
    )
    return [_row(name, [trial[name] for trial in trials], marks) for name in trials[0]]


def _row(name: str, answers: list[Any], marks: Marks) -> Row:
    table = np.array(answers, dtype=np.float64)
    found = score(name, table[:, 0] - marks.value)
    held = (table[:, 1] <= marks.value) & (marks.value <= table[:, 2])
    given = np.isfinite(table[:, 1])
    return Row(
        name,
        found.trials,
        found.rmse,
        found.reach,
        found.bias,
        found.stdev,
        float(held[given].mean()) if given.any() else math.nan,
        float((table[:, 2] - table[:, 1])[given].mean()) if given.any() else math.nan,
        found.rmse / marks.limit,
        found.rmse / marks.floor,
        found.rmse / marks.live_floor,
        float((table[:, 4] >= 1).mean()),
        _mean(table[:, 3]),
    )


def _mean(column: Any) -> float:
    kept = column[np.isfinite(column)]
    return float(kept.mean()) if kept.size else math.nan
