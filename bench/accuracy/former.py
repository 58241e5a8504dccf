"""The default call of an earlier commit on the logs of the accuracy benchmark, which its values are compared on.

    python -m bench.accuracy.former [--logs 100] [--jobs 2]

Runs and stores the estimates that bench.accuracy.learning_coverage compares with; it runs them itself otherwise. The
logs are those of bench.accuracy.run: they are drawn here and passed on as files. The former default takes its number of
passes, and sometimes a part of its value, from passes over subsets, so that it is run as it is.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from backcast._arrays import FloatArray
from bench.accuracy.settings import CHECKPOINTS, HORIZON, SEED, Setting, draw_case, list_settings, make_parser
from bench.common.former import FORMER, check_out_former, run_with_source
from bench.common.trials import TrialRunner
from bench.reproduction.datasets import find_data_folder

LOGS_PER_PROCESS = 20  # so that starting a process is a small part of its time
COLUMNS = ("contexts", "actions", "rewards", "propensities", "logging_probabilities", "n_actions")


class FormerEstimates(NamedTuple):
    """Values of the former default on the first logs of a setting, nan where it has none, and its processor seconds."""

    values: FloatArray
    seconds: FloatArray


def run_former(runner: TrialRunner, setting: Setting, data: Path | None, logs: int) -> FormerEstimates:
    """Return the former default's estimates on the first logs of a setting."""
    source = check_out_former()
    facts = {"setting": list(setting), "commit": FORMER, "logs per process": LOGS_PER_PROCESS}
    count = -(-logs // LOGS_PER_PROCESS)
    blocks = runner.run(f"former-{setting.stem}", evaluate_block, (setting, data, source), count, facts)
    values, seconds = np.array([row for block in blocks for row in block], dtype=np.float64).T
    return FormerEstimates(values[:logs], seconds[:logs])


def evaluate_block(setting: Setting, data: Path | None, source: Path, number: int) -> list[list[float]]:
    """Return value and processor seconds for each log of a block, from one process of the former commit."""
    first = number * LOGS_PER_PROCESS
    with tempfile.TemporaryDirectory() as folder:
        for log_number in range(first, first + LOGS_PER_PROCESS):
            write_log(draw_case(setting, data, log_number).log, Path(folder) / f"{log_number}.npz")
        module = "bench.accuracy.former_answers"
        answers: list[list[float]] = run_with_source(source, module, folder, setting.policy, setting.horizon)
    return answers


def write_log(log: Any, path: Path) -> None:
    """Write the columns of a log."""
    np.savez(path, **{name: getattr(log, name) for name in COLUMNS})


def compare_errors(present: FloatArray, former: FloatArray) -> tuple[float, float, int]:
    """Return the ratio of the rmse of errors on the same logs, its jackknife error, and the number of logs.

    Logs without one of the errors are left out. One log is left out at a time, in both.

    >>> compare_errors(np.array([0.25, -0.25]), np.array([0.5, 0.5]))
    (0.5, 0.0, 2)
    """
    both = np.isfinite(present) & np.isfinite(former)
    a, b = present[both] ** 2, former[both] ** 2
    if a.size < 2 or not (b.sum() - b > 0).all():
        return float("nan"), float("nan"), int(a.size)
    left_out = np.sqrt((a.sum() - a) / (b.sum() - b))
    error = np.sqrt((a.size - 1) / a.size * ((left_out - left_out.mean()) ** 2).sum())
    return float(np.sqrt(a.sum() / b.sum())), float(error), int(a.size)


def main() -> None:
    options = make_parser(__doc__, logs=100).parse_args()
    data, runner = find_data_folder(None), TrialRunner(CHECKPOINTS, SEED, options.jobs)
    for setting in list_settings(data):
        if setting.horizon == HORIZON:
            seconds = run_former(runner, setting, data, options.logs).seconds
            print(f"{setting.label}: {seconds.mean():.2f} processor seconds per log", flush=True)


if __name__ == "__main__":
    main()
