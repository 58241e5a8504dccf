"""The page of the benchmark of long horizons: how good the default call is, and how large the errors of rivals are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from backcast._arrays import FloatArray
from bench.common.markdown import format_number, markdown_table
from bench.horizon.cells import Setting
from bench.horizon.trial import RIVALS, SIMULATIONS, UNFILLED_PASSES, DefaultCall, Trial, Truth

LOW_COVERAGE = 0.90
BIAS_ERRORS = 2.0  # standard errors of the bias estimate
NAME_HEAD = ("world", "policy", "n", "T", "logs")
TRUTH_HEAD = ("truth", "bias", "rmse", "standard error", "coverage", "not poor", "filled share")
BIAS_HEAD = ("bias estimate", "within 2 errors", "within 2 of both errors")
INTRO = (
    "The default call `evaluate(log, policy, horizon=T, exchangeable=True)`: mean error over the logs with the error "
    "of this mean and of the truth, rmse, mean standard error, share of all logs whose 95 % interval contains "
    "the truth, share of results that are not graded poor (poor is shown as not trustworthy), share of filled rounds, "
    "and mean bias estimate with its mean standard error. *Within 2 errors* is the share of logs whose bias estimate "
    "is within 2 of its own standard errors of the true bias, which is taken as the mean error; *within 2 of both "
    "errors* allows for the error of that mean as well, which is larger in most rows. Without filled rounds there is "
    "no estimate and no bias. Processor seconds are those of the default call per log."
)
RIVALS_INTRO = (
    f"Root mean square errors. *Without filling* is `ClockReplay(fill=False)` with {UNFILLED_PASSES} passes and the "
    "default's reward model, DRns and RS one pass in log order; empty if there is a log on which they do not reach the "
    f"horizon. *Model alone* is a simulation from the reward model, {SIMULATIONS} histories."
)


class CellScore(NamedTuple):
    """The default call in one cell: errors, calibration, and how good its bias estimate is."""

    logs: int
    refused: float
    bias: float
    bias_error: float
    rmse: float
    std_error: float
    coverage: float
    poor: float
    uncovered: int
    uncovered_poor: int
    filled_share: float
    estimated_bias: float
    estimated_bias_error: float
    within: float
    within_both: float
    seconds: float


def score_default(truth: Truth, calls: Sequence[DefaultCall]) -> CellScore:
    """Return the score of the default call; a log without an interval is not covered, one without a value is left out
    of errors."""
    columns = {
        name: np.array([getattr(call, name) for call in calls], dtype=np.float64)
        for name in DefaultCall._fields
        if name != "grade"
    }
    errors = columns["value"] - truth.value
    has_value = np.isfinite(errors)
    bias, bias_error = _mean(errors), math.nan
    if has_value.sum() > 1:
        bias_error = math.hypot(float(errors[has_value].std(ddof=1)) / math.sqrt(has_value.sum()), truth.error)
    covered = (columns["low"] <= truth.value) & (truth.value <= columns["high"])
    poor = np.array([call.grade == "poor" for call in calls])
    # there is no estimate where no round was filled, and no bias
    unfilled = np.isnan(columns["bias"]) & (columns["filled_share"] == 0)
    estimated, own_error = (np.where(unfilled, 0.0, columns[name]) for name in ("bias", "bias_error"))
    distance = np.abs(estimated - bias)
    return CellScore(
        logs=len(calls),
        refused=float(1 - has_value.mean()),
        bias=bias,
        bias_error=bias_error,
        rmse=math.sqrt(_mean(errors**2)),
        std_error=_mean(columns["std_error"]),
        coverage=float(covered.mean()),
        poor=float(poor.mean()),
        uncovered=int((~covered).sum()),
        uncovered_poor=int((~covered & poor).sum()),
        filled_share=_mean(columns["filled_share"]),
        estimated_bias=_mean(estimated),
        estimated_bias_error=_mean(own_error),
        # a log with filled rounds and without a bias estimate is not within
        within=float((distance <= BIAS_ERRORS * own_error).mean()),
        within_both=float((distance <= BIAS_ERRORS * np.hypot(own_error, bias_error)).mean()),
        seconds=_mean(columns["seconds"]),
    )


def _mean(column: FloatArray) -> float:
    """Return the mean of the finite values; nan if there is none."""
    finite = column[np.isfinite(column)]
    return float(finite.mean()) if finite.size else math.nan


def name_cells(setting: Setting, logs: int) -> list[str]:
    """Return the cells that name a row."""
    return [setting.world, setting.policy, f"{setting.events:,}", f"{setting.rounds:,}", f"{logs}"]


def default_row(setting: Setting, truth: Truth, score: CellScore) -> list[str]:
    """Return the row of the default call in one cell."""
    refused = f" ({score.refused:.0%} refused)" if score.refused else ""
    return [
        *name_cells(setting, score.logs),
        f"{truth.value:.4f} ± {truth.error:.4f}",
        f"{score.bias:+.4f} ± {score.bias_error:.4f}{refused}",
        format_number(score.rmse),
        format_number(score.std_error),
        f"{score.coverage:.2f}",
        f"{1 - score.poor:.2f}",
        format_number(score.filled_share, 2),
        f"{score.estimated_bias:+.4f} ± {score.estimated_bias_error:.4f}",
        f"{score.within:.2f}",
        f"{score.within_both:.2f}",
        format_number(score.seconds, 1),
    ]


def rivals_row(setting: Setting, truth: Truth, trials: Sequence[Trial]) -> list[str]:
    """Return the row of rmse in one cell; empty for an evaluator without a value on one of the logs."""
    values = np.array([[trial.default.value, *trial.rivals] for trial in trials], dtype=np.float64)
    errors = np.sqrt(((values - truth.value) ** 2).mean(axis=0))
    return [*name_cells(setting, len(trials)), *map(format_number, errors)]


def describe_coverage(scores: dict[Setting, CellScore]) -> str:
    """Return the mean coverage over all logs, and a line for each row where it is low, with what the grade says."""
    logs = sum(score.logs for score in scores.values())
    mean = sum(score.logs * score.coverage for score in scores.values()) / logs
    low = {setting: score for setting, score in scores.items() if score.coverage < LOW_COVERAGE}
    lines = [
        f"Coverage over all rows, weighted by logs: {mean:.3f} ({logs:,} logs); {len(low)} of {len(scores)} rows are "
        f"below {LOW_COVERAGE:.2f}{':' if low else '.'}"
    ]
    for setting, score in low.items():
        lines.append(
            f"- {setting.label}: {score.coverage:.2f}; graded poor in {score.poor:.0%} of all logs, and in "
            f"{score.uncovered_poor} of the {score.uncovered} that are not covered."
        )
    return "\n".join([lines[0], *([""] if low else []), *lines[1:]])


def make_blocks(results: dict[Setting, tuple[Truth, list[Trial]]]) -> list[str]:
    """Return the blocks of the page below its title and provenance."""
    scores = {s: score_default(truth, [trial.default for trial in trials]) for s, (truth, trials) in results.items()}
    called = [default_row(setting, results[setting][0], score) for setting, score in scores.items()]
    compared = [rivals_row(setting, *result) for setting, result in results.items()]
    head = [*NAME_HEAD, *TRUTH_HEAD, *BIAS_HEAD, "processor seconds"]
    return [
        INTRO,
        describe_coverage(scores),
        markdown_table(head, called, text_columns=2),
        "## Rivals",
        RIVALS_INTRO,
        markdown_table([*NAME_HEAD, "default", *RIVALS], compared, text_columns=2),
    ]


def make_records(results: dict[Setting, tuple[Truth, list[Trial]]]) -> dict[str, Any]:
    """Return what is stored beside the page: truth, and columns of all logs, by setting."""
    return {
        setting.stem: {"truth": list(truth), "trials": [[*trial.default, *trial.rivals] for trial in trials]}
        for setting, (truth, trials) in results.items()
    }
