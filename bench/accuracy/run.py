"""Accuracy of evaluators for learning policies; writes bench/results/accuracy.md.

    python -m bench.accuracy.run [--logs 100] [--jobs 2] [--worlds straight,digits]

Every world under every logger: logs are drawn, every evaluator is asked for V_T, and the answers are held against
live runs. With BACKCAST_DATA set, real data sets join. Finished logs are kept under build/, so that a stopped run goes
on where it was.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from bench.accuracy import page
from bench.accuracy.contestants import DEFAULT
from bench.accuracy.live import Truth
from bench.accuracy.settings import Setting, settings
from bench.accuracy.summary import rows_of
from bench.accuracy.trials import LIVE_RUNS, SEED, one_log, truth_of
from bench.reproduction.datasets import data_folder
from bench.reproduction.journal import Plan, work_through
from bench.reproduction.results import save_json

JOURNALS = Path("build/bench-accuracy")
RESULTS = Path("bench/results")


def measured(plan: Plan, setting: Setting, logs: int) -> tuple[Truth, list[dict[str, Any]]]:
    """The truth of a setting and the answers on its logs."""
    facts = {"setting": list(setting)}
    found = work_through(plan, plan.journal(f"{setting.stem}-truth", facts), 1, truth_of, setting, plan.data)
    trials = work_through(plan, plan.journal(setting.stem, facts), logs, one_log, setting, plan.data)
    return Truth(*found[0]), trials


def told(slices: Any, name: str, total: int) -> Any:
    """Say how far a setting is."""
    if total:
        print(f"{name}: {total} to do", flush=True)
    yield from slices


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=int, default=100, help="logs in each setting")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--worlds", default="", help="only these, separated by commas")
    parser.add_argument("--output", type=Path, default=RESULTS)
    asked = parser.parse_args()
    plan = Plan(data_folder(None), JOURNALS, jobs=asked.jobs, seed=SEED, watch=told)
    wanted = [s for s in settings(plan.data) if not asked.worlds or s.world in asked.worlds.split(",")]
    tables = {}
    for setting in wanted:
        found, trials = measured(plan, setting, asked.logs)
        tables[setting] = (found, rows_of(setting, found, trials, DEFAULT))
        print(page.lines_of(setting, *tables[setting]), flush=True)
    command = " ".join(["python -m bench.accuracy.run", *sys.argv[1:]])
    asked.output.mkdir(parents=True, exist_ok=True)
    (asked.output / "accuracy.md").write_text(page.page(tables, command, asked.logs, LIVE_RUNS))
    save_json(asked.output / "accuracy.json", page.record(tables))


if __name__ == "__main__":
    main()
