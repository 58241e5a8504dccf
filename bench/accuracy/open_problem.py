"""The paper's open problem: policies that keep changing their mind; writes bench/results/open_problem.md.

    python -m bench.accuracy.open_problem [--logs 100] [--jobs 2]

A uniform log of n events with K = 10 actions holds about n/K matches for a policy that is sure of itself, and so that
is all that rejection sampling gets. Round robin and UCB1 spread over the actions in the long run, and could be given
nearly the whole log.
"""

from __future__ import annotations

import argparse
import math
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

import backcast as bc
from backcast.environments import LinearEnvironment
from backcast.errors import HorizonNotReached
from bench.accuracy.live import truth
from bench.reproduction.journal import Plan, work_through
from bench.reproduction.results import markdown_table, save_json, score
from bench.speed.machine import describe

SEED = 5
EVENTS, ACTIONS = 2000, 10
HORIZONS = (50, 100, 150, 400, 1000, 1800)
PERMUTATIONS = 40
LIVE_RUNS = 2000
JOURNALS = Path("build/bench-accuracy")
# the context carries no information: what an action pays is all there is to learn
WORLD = LinearEnvironment(ACTIONS, 1, logistic=True, signal=0.0, spread=1.0, seed=3)
CERTIFIED = 0.05


POLICIES: dict[str, Any] = {"round robin": bc.RoundRobin(), "UCB1": bc.UCB1()}
EVALUATORS = ("Replay", "DRns(q=0.01)", f"DRns(q=0.01) x {PERMUTATIONS} permutations", "ClockReplay")


def value_or_nothing(log: bc.Log, policy: Any, evaluator: Any, predicted: Any, horizon: int, seed: int) -> float:
    """The estimate, or nan where the horizon is out of reach."""
    options: dict[str, Any] = {"horizon": horizon, "seed": seed, "replicates": None, "reward_model": predicted}
    try:
        return bc.evaluate(log, policy, evaluator, **options).value
    except HorizonNotReached:
        return math.nan


def permuted(log: bc.Log, policy: Any, predicted: Any, horizon: int, seed: int) -> float:
    """The mean over permutations of the log, of those that reach the horizon."""
    rng = np.random.default_rng([SEED, seed])
    found = []
    for number in range(PERMUTATIONS):
        order = rng.permutation(len(log))
        found.append(value_or_nothing(log[order], policy, bc.DRns(q=0.01), predicted[order], horizon, number))
    kept = [value for value in found if not math.isnan(value)]
    return float(np.mean(kept)) if kept else math.nan


def reach(log: bc.Log, policy: Any, seed: int) -> dict[str, float]:
    """How many rounds one pass over the log is good for."""
    uniforms = np.random.default_rng([SEED, seed, 1]).random(len(log))
    plain = bc.trace(log, policy, bc.DRns(q=0.01), uniforms=uniforms)
    clock = bc.trace(log, policy, bc.ClockReplay(), uniforms=uniforms)
    matches = float(plain.accepted.sum())
    certified = float((np.cumsum(clock.exhausted) <= CERTIFIED).sum())
    return {
        "Replay": matches,
        "DRns": matches,
        "ClockReplay": certified,
        "until nothing fires": float(len(clock.order)),
    }


def one_log(name: str, number: int) -> dict[str, Any]:
    """Reach and values of every evaluator at every horizon."""
    policy, log = POLICIES[name], WORLD.log(EVENTS, np.random.default_rng([SEED, number]))
    _, predicted = bc.CrossFit(bc.PerAction()).predictions(log, np.random.default_rng([SEED, number, 2]))
    values = {}
    for horizon in HORIZONS:
        values[str(horizon)] = [
            value_or_nothing(log, policy, bc.Replay(), None, horizon, number),
            value_or_nothing(log, policy, bc.DRns(q=0.01), predicted, horizon, number),
            permuted(log, policy, predicted, horizon, number),
            value_or_nothing(log, policy, bc.ClockReplay(), predicted, horizon, number),
        ]
    return {"reach": reach(log, policy, number), "values": values}


def cell(values: list[float], true: float) -> str:
    """Rmse, with the share of logs that gave an answer where that is not all."""
    kept = np.array([value for value in values if not math.isnan(value)])
    if kept.size < 2:
        return "–"
    share = "" if kept.size == len(values) else f" ({100 * kept.size / len(values):.0f} %)"
    return f"{score('', kept - true).rmse:.4f}{share}"


def table(name: str, trials: list[dict[str, Any]]) -> tuple[str, dict[str, Any]]:
    """A policy's part of the page, and its truths."""
    reached = {who: np.mean([trial["reach"][who] for trial in trials]) for who in trials[0]["reach"]}
    lines: list[list[Any]] = []
    truths: dict[str, Any] = {}
    for horizon in HORIZONS:
        known = truth(WORLD, POLICIES[name], horizon, LIVE_RUNS // (1 + horizon // 100), SEED, places=1)
        truths[str(horizon)] = known._asdict()
        columns = zip(*(trial["values"][str(horizon)] for trial in trials), strict=True)
        lines.append([horizon, *(cell(list(column), known.value) for column in columns), f"{known.value:.4f}"])
    said = ", ".join(f"{who} {rounds:,.0f}" for who, rounds in reached.items())
    head = ["rounds T", *EVALUATORS, "truth"]
    return f"## {name}\n\nRounds from one pass: {said}.\n\n{markdown_table(head, lines)}", truths


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--output", type=Path, default=Path("bench/results"))
    asked = parser.parse_args()
    plan = Plan(None, JOURNALS, jobs=asked.jobs, seed=SEED)
    parts, data = [], {}
    for name in POLICIES:
        journal = plan.journal(f"open-problem-{name.replace(' ', '-')}", {"events": EVENTS})
        trials = work_through(plan, journal, asked.logs, one_log, name)
        text, truths = table(name, trials)
        parts.append(text)
        data[name] = {"truths": truths, "trials": trials}
    intro = (
        f"Made by `python -m bench.accuracy.open_problem --logs {asked.logs}` on {date.today().isoformat()}, "
        f"{describe()}. Uniform logs of n = {EVENTS:,} events, K = {ACTIONS}; root mean squared error of V_T over "
        f"{asked.logs} logs, in brackets the share of logs on which T was reached if not all, a dash where it never "
        f"was. ClockReplay's rounds are those with an exhaustion certificate of at most {CERTIFIED:g}."
    )
    asked.output.mkdir(parents=True, exist_ok=True)
    (asked.output / "open_problem.md").write_text("\n\n".join(["# The open problem", intro, *parts]) + "\n")
    save_json(asked.output / "open_problem.json", data)


if __name__ == "__main__":
    main()
