"""How the error falls with the log's length and with the number of passes; writes charts and tables to bench/results.

python -m bench.accuracy.curves [--logs 60] [--jobs 2]
"""

from __future__ import annotations

import argparse
from datetime import date
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np

import backcast as bc
from backcast._request import EvaluationRequest
from bench.accuracy.contestants import DEFAULT, as_in_the_paper, default
from bench.accuracy.live import Truth
from bench.accuracy.run import JOURNALS
from bench.accuracy.settings import POLICIES, Setting
from bench.accuracy.trials import truth_of, world_of
from bench.reproduction.journal import Plan, work_through
from bench.reproduction.protocol import Case
from bench.reproduction.results import markdown_table, save_json, score
from bench.speed.machine import describe

SEED = 4
LENGTHS = (1000, 2000, 4000, 8000)
PASSES = (1, 2, 4, 8, 16, 32, 64)
SETTING = Setting("straight", "paper", "epsilon-greedy by 15")
SHOWN = ("RS", "WC", "DRns(q=0.01)", DEFAULT)


def by_length(setting: Setting, number: int) -> dict[str, float]:
    """The value from each evaluator on one log."""
    world = world_of(setting.world, setting.logging, None)
    log = world.log(setting.events, np.random.default_rng([SEED, setting.events, number]))
    case = Case(log, POLICIES[setting.policy], setting.horizon, number)
    found = {**as_in_the_paper(case), DEFAULT: default(case)}
    return {name: found[name].value for name in SHOWN}


def by_pass(setting: Setting, number: int) -> list[float]:
    """The values of many passes of clock replay over one log."""
    world = world_of(setting.world, setting.logging, None)
    log = world.log(setting.events, np.random.default_rng([SEED, 1, number]))
    policy, clock = POLICIES[setting.policy], bc.ClockReplay()
    model = bc.CrossFit(bc.LowVariance())
    inputs = clock.inputs(EvaluationRequest(log, policy, reward_model=model, horizon=setting.horizon, seed=number))
    seeds = np.random.SeedSequence([SEED, number]).spawn(max(PASSES))
    return [clock.replicate(policy, inputs, None, seed).value for seed in seeds]


def points(rows: list[dict[str, Any]], x: str, title: str) -> Any:
    """Errors against something, both on logarithmic scales."""
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_line(point=True)
        .encode(
            x=alt.X(f"{x}:Q", title=title, scale=alt.Scale(type="log"), axis=alt.Axis(format="~s")),
            y=alt.Y("rmse:Q", title="root mean squared error", scale=alt.Scale(type="log")),
            color=alt.Color("evaluator:N", title=None),
            strokeDash=alt.StrokeDash("evaluator:N", title=None),
        )
        .properties(width=360, height=260)
    )


def length_rows(plan: Plan, logs: int, known: Truth) -> list[dict[str, Any]]:
    """Errors by length of the log."""
    rows = []
    for events in LENGTHS:
        setting = SETTING._replace(events=events)
        found = work_through(plan, plan.journal(f"length-{setting.stem}", {"logs": events}), logs, by_length, setting)
        for name in SHOWN:
            errors = np.array([trial[name] for trial in found], dtype=np.float64) - known.value
            rows.append({"evaluator": name, "events": events, "rmse": score(name, errors).rmse})
        limit = known.live_limit(events, setting.horizon)
        rows.append({"evaluator": "live, with as many events", "events": events, "rmse": limit})
    return rows


def pass_rows(plan: Plan, logs: int, known: Truth) -> list[dict[str, Any]]:
    """Errors by number of passes."""
    found = work_through(plan, plan.journal(f"passes-{SETTING.stem}", {"passes": max(PASSES)}), logs, by_pass, SETTING)
    values = np.array(found, dtype=np.float64)
    return [
        {
            "evaluator": "ClockReplay",
            "passes": count,
            "rmse": score("", values[:, :count].mean(axis=1) - known.value).rmse,
        }
        for count in PASSES
    ]


def pivot(rows: list[dict[str, Any]], x: str) -> str:
    """The points as a table, evaluators across."""
    names = list(dict.fromkeys(row["evaluator"] for row in rows))
    at = {(row[x], row["evaluator"]): f"{row['rmse']:.4f}" for row in rows}
    places = list(dict.fromkeys(row[x] for row in rows))
    return markdown_table([x, *names], [[f"{place:,}", *(at[place, name] for name in names)] for place in places])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=int, default=60)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--output", type=Path, default=Path("bench/results"))
    asked = parser.parse_args()
    plan = Plan(None, JOURNALS, jobs=asked.jobs, seed=SEED)
    facts = {"setting": list(SETTING)}
    batches = work_through(plan, plan.journal(f"curves-{SETTING.stem}-truth", facts), 4, truth_of, SETTING, None)
    known = Truth(*np.mean(batches, axis=0).tolist())
    lengths, passes = length_rows(plan, asked.logs, known), pass_rows(plan, asked.logs, known)
    asked.output.mkdir(parents=True, exist_ok=True)
    points(lengths, "events", "events in the log").save(asked.output / "accuracy-length.svg")
    points(passes, "passes", "passes over the log").save(asked.output / "accuracy-passes.svg")
    save_json(asked.output / "accuracy-curves.json", {"lengths": lengths, "passes": passes, "truth": known._asdict()})
    intro = (
        f"Made by `python -m bench.accuracy.curves --logs {asked.logs}` on {date.today().isoformat()}, {describe()}. "
        f"World *{SETTING.world}*, logged as in the paper, {SETTING.policy}, T = {SETTING.horizon}; root mean squared "
        f"error over {asked.logs} logs."
    )
    parts = [
        "# How the error falls",
        intro,
        "## With the length of the log",
        pivot(lengths, "events"),
        "![rmse by events](accuracy-length.svg)",
        f"## With the number of passes, n = {SETTING.events:,}",
        pivot(passes, "passes"),
        "![rmse by passes](accuracy-passes.svg)",
    ]
    (asked.output / "accuracy_curves.md").write_text("\n\n".join(parts) + "\n")


if __name__ == "__main__":
    main()
