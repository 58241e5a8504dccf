"""Coverage of the default's intervals for learning policies; writes bench/results/learning_coverage.md.

    python -m bench.accuracy.learning_coverage [--logs 400] [--jobs 2]

A learner that updates on every event and one that does so every 15, on light weights (a uniform logger) and heavy ones
(the paper's logger, and a sharp one).
"""

from __future__ import annotations

import argparse
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from bench.accuracy.contestants import default
from bench.accuracy.live import Truth
from bench.accuracy.run import JOURNALS
from bench.accuracy.settings import POLICIES, Setting
from bench.accuracy.trials import truth_of, world_of
from bench.reproduction.journal import Plan, work_through
from bench.reproduction.protocol import Case
from bench.reproduction.results import markdown_table, save_json
from bench.speed.machine import describe

SEED = 77
HEAD = ("policy, logger", "intervals", "coverage", "95 % of that", "width", "mean error claimed", "sd", "bias")
LEVEL, SLACK = 0.95, (0.91, 0.98)
SETTINGS = [
    Setting("straight", logging, policy, events=2000, horizon=30)
    for policy in ("epsilon-greedy by 15", "LinUCB")
    for logging in ("uniform", "paper", "sharp")
]


def one_log(setting: Setting, number: int) -> Any:
    """The default's answer on one log."""
    world = world_of(setting.world, setting.logging, None)
    log = world.log(setting.events, np.random.default_rng([SEED, number]))
    return default(Case(log, POLICIES[setting.policy], setting.horizon, number))


def line(setting: Setting, truth: Truth, answers: Any) -> list[str]:
    """One row: coverage with its own interval, width, and the estimated error beside the real one."""
    table = np.array(answers, dtype=np.float64)
    table = table[np.isfinite(table[:, 1])]
    held = int(((table[:, 1] <= truth.value) & (truth.value <= table[:, 2])).sum())
    low, high = stats.binomtest(held, len(table)).proportion_ci(0.95, "wilson")
    reach = stats.t.ppf((1 + LEVEL) / 2, 29)
    errors = (table[:, 2] - table[:, 1]) / 2 / reach
    return [
        f"{setting.policy}, {setting.logging}",
        f"{len(table)} of {len(answers)}",
        f"{held / len(table):.3f}",
        f"{low:.3f} to {high:.3f}",
        f"{(table[:, 2] - table[:, 1]).mean():.4f}",
        f"{np.sqrt((errors**2).mean()):.4f}",
        f"{table[:, 0].std(ddof=1):.4f}",
        f"{(table[:, 0] - truth.value).mean():+.4f}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=int, default=400)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--output", type=Path, default=Path("bench/results"))
    asked = parser.parse_args()
    plan = Plan(None, JOURNALS, jobs=asked.jobs, seed=SEED)
    lines, data = [], {}
    for setting in SETTINGS:
        facts = {"setting": list(setting)}
        known = work_through(plan, plan.journal(f"coverage-{setting.stem}-truth", facts), 4, truth_of, setting, None)
        # four independent batches of live runs
        mean = Truth(*np.mean(known, axis=0).tolist())
        answers = work_through(plan, plan.journal(f"coverage-{setting.stem}", facts), asked.logs, one_log, setting)
        lines.append(line(setting, mean, answers))
        data[setting.stem] = {"truth": mean._asdict(), **dict(zip(HEAD, lines[-1], strict=True))}
        print(*lines[-1], sep="  ", flush=True)
    intro = (
        f"Made by `python -m bench.accuracy.learning_coverage --logs {asked.logs}` on {date.today().isoformat()}, "
        f"{describe()}. `evaluate(log, policy, horizon=T)` with nothing else chosen: how often its 95 % interval holds "
        f"V_T, n = 2,000, T = 30, K = 4, d = 10. Asked: {SLACK[0]:.0%} to {SLACK[1]:.0%}."
    )
    asked.output.mkdir(parents=True, exist_ok=True)
    text = "\n\n".join(["# Coverage for learning policies", intro, markdown_table(HEAD, lines)])
    (asked.output / "learning_coverage.md").write_text(text + "\n")
    save_json(asked.output / "learning_coverage.json", data)


if __name__ == "__main__":
    main()
