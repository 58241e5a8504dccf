"""Coverage of the default's intervals for learning policies; writes bench/results/learning_coverage.md.

    python -m bench.accuracy.learning_coverage [--logs 400] [--wide-logs 100] [--long-logs 20] [--former-logs 40]

A learner that updates on every event and one that updates on batches of 15, with light weights (a uniform logger) and
heavy ones (the paper's logger, and a sharp one); then, with fewer logs, all settings of bench.accuracy.run, on its logs
and beside the default call of an earlier commit (bench/accuracy/former.py). BACKCAST_DATA adds real data sets.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from bench.accuracy.evaluators import RecordedEstimate, evaluate_default
from bench.accuracy.former import run_former
from bench.accuracy.live import Truth
from bench.accuracy.settings import (
    CHECKPOINTS,
    HORIZON,
    Setting,
    evaluate_default_on,
    list_settings,
    make_parser,
    mean_truth,
    simulate_truth,
)
from bench.accuracy.settings import SEED as SEED_OF_ALL
from bench.accuracy.wide_coverage import WideRow, columns_of, score_default, wide_blocks
from bench.common.machine import describe_provenance, provenance
from bench.common.markdown import markdown_table
from bench.common.output import write_json, write_page
from bench.common.trials import TrialRunner
from bench.reproduction.datasets import find_data_folder

SEED = 77
HEAD = ("policy, logger", "intervals", "coverage", "95 % of that", "width", "mean error claimed", "sd", "bias")
GOAL = (0.91, 0.98)
SETTINGS = [
    Setting("straight", logging, policy, events=2000, horizon=30)
    for policy in ("epsilon-greedy by 15", "LinUCB")
    for logging in ("uniform", "paper", "sharp")
]


def evaluate_log(setting: Setting, number: int) -> RecordedEstimate:
    """Return the default's estimate on one log."""
    return evaluate_default(setting.make_case(None, [SEED, number], number))


def coverage_row(setting: Setting, truth: Truth, estimates: list[RecordedEstimate]) -> list[str]:
    """Return coverage with its own interval, width, and the estimated standard error beside the real deviation."""
    given = [estimate for estimate in estimates if np.isfinite(estimate.low)]
    values, lows, highs, errors = columns_of(given, "value", "low", "high", "std_error")
    covered = int(((lows <= truth.value) & (truth.value <= highs)).sum())
    low, high = stats.binomtest(covered, values.size).proportion_ci(0.95, "wilson")
    return [
        f"{setting.policy}, {setting.logging}",
        f"{values.size} of {len(estimates)}",
        f"{covered / values.size:.3f}",
        f"{low:.3f} to {high:.3f}",
        f"{(highs - lows).mean():.4f}",
        f"{np.sqrt((errors**2).mean()):.4f}",
        f"{values.std(ddof=1):.4f}",
        f"{(values - truth.value).mean():+.4f}",
    ]


def measure_wide(
    runner: TrialRunner, setting: Setting, data: Path | None, logs: int, former_logs: int
) -> tuple[WideRow, dict[str, Any]]:
    """Return the row of a setting of bench.accuracy.run, and its record."""
    [truth] = setting.run_trials(runner, "truth", simulate_truth, (setting, data), 1)
    estimates = setting.run_trials(runner, "default", evaluate_default_on, (setting, data), logs)
    has_former = former_logs > 0 and setting.horizon == HORIZON
    former = run_former(runner, setting, data, min(logs, former_logs)) if has_former else None
    row = score_default(setting, truth, estimates, former)
    record = {"truth": truth._asdict(), **row._asdict(), "values": [estimate.value for estimate in estimates]}
    return row, record | ({} if former is None else {"former": former._asdict()})


def main() -> None:
    parser = make_parser(__doc__, logs=400)
    parser.add_argument("--wide-logs", type=int, default=100, help="logs in each setting of bench.accuracy.run")
    parser.add_argument("--long-logs", type=int, default=20, help="the same in settings of longer horizons")
    parser.add_argument("--former-logs", type=int, default=40, help="of them by the earlier commit; 0 for none")
    options = parser.parse_args()
    runner = TrialRunner(CHECKPOINTS, SEED, options.jobs)
    rows, records = [], {}
    for setting in SETTINGS:
        truth = mean_truth(setting, runner, "coverage")
        estimates = setting.run_trials(runner, "coverage", evaluate_log, (setting,), options.logs)
        rows.append(coverage_row(setting, truth, estimates))
        records[setting.stem] = {"truth": truth._asdict(), **dict(zip(HEAD, rows[-1], strict=True))}
        print(*rows[-1], sep="  ", flush=True)
    # the seed of bench.accuracy.run, so that both have the same truth
    data, runner = find_data_folder(None), TrialRunner(CHECKPOINTS, SEED_OF_ALL, options.jobs)
    wide, wide_records = [], {}
    for setting in list_settings(data):
        logs = options.wide_logs if setting.horizon == HORIZON else options.long_logs
        if logs == 0:
            continue
        row, wide_records[setting.stem] = measure_wide(runner, setting, data, logs, options.former_logs)
        wide.append(row)
        print(*row, sep="  ", flush=True)
    origin = provenance(" ".join(["python -m bench.accuracy.learning_coverage", *sys.argv[1:]]))
    intro = (
        "`evaluate(log, policy, horizon=T)` with no other option: how often its 95 % interval contains V_T, "
        f"n = 2,000, T = 30, K = 4, d = 10. Goal: {GOAL[0]:.0%} to {GOAL[1]:.0%}."
    )
    title = "# Coverage for learning policies"
    blocks = [title, describe_provenance(origin), intro, markdown_table(HEAD, rows)]
    write_page(options.output / "learning_coverage.md", [*blocks, *(wide_blocks(wide) if wide else ())])
    write_json(options.output / "learning_coverage.json", {**origin, "settings": records, "wide": wide_records})


if __name__ == "__main__":
    main()
