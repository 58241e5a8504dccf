"""The paper's open problem, policies that keep changing their actions; writes bench/results/open_problem.md.

    python -m bench.accuracy.open_problem [--logs 100] [--jobs 2]

In a uniform log of n events with K = 10 actions, a deterministic policy matches about n/K events, and rejection
sampling gets no more rounds than that. Round robin and UCB1 spread over the actions in the long run, so that nearly
the whole log could be used.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import backcast as bc
from backcast.environments import LinearEnvironment
from bench.accuracy.live import estimate_truth
from bench.accuracy.settings import CHECKPOINTS, make_parser
from bench.common.machine import describe_provenance, provenance
from bench.common.markdown import markdown_table
from bench.common.output import write_json, write_page
from bench.common.trials import TrialRunner
from bench.reproduction.protocol import score_errors

SEED = 5
EVENTS, ACTIONS = 2000, 10
HORIZONS = (50, 100, 150, 400, 1000, 1800)
PERMUTATIONS = 40
LIVE_RUNS = 2000
# contexts carry no information: the mean reward of each action is all there is to learn
WORLD = LinearEnvironment(ACTIONS, 1, logistic=True, signal=0.0, spread=1.0, seed=3)
CERTIFIED = 0.05
POLICIES: dict[str, Any] = {"round robin": bc.RoundRobin(), "UCB1": bc.UCB1()}
EVALUATORS = ("Replay", "DRns(q=0.01)", f"DRns(q=0.01) x {PERMUTATIONS} permutations", "ClockReplay")


def evaluate_log(name: str, number: int) -> dict[str, Any]:
    """Return the rounds of one pass, and the value of every evaluator at every horizon."""
    policy, log = POLICIES[name], WORLD.log(EVENTS, np.random.default_rng([SEED, number]))
    _, predicted = bc.CrossFit(bc.PerAction()).predictions(log, np.random.default_rng([SEED, number, 2]))
    values = {}
    for horizon in HORIZONS:
        values[str(horizon)] = [
            value_or_nan(log, policy, bc.Replay(), None, horizon, number),
            value_or_nan(log, policy, bc.DRns(q=0.01), predicted, horizon, number),
            permutation_mean(log, policy, predicted, horizon, number),
            value_or_nan(log, policy, bc.ClockReplay(), predicted, horizon, number),
        ]
    return {"reach": count_rounds(log, policy, number), "values": values}


def value_or_nan(log: bc.Log, policy: Any, evaluator: Any, predicted: Any, horizon: int, seed: int) -> float:
    """Return the estimate, or nan if the horizon is not reached."""
    options: dict[str, Any] = {"horizon": horizon, "seed": seed, "replicates": None, "reward_model": predicted}
    try:
        return bc.evaluate(log, policy, evaluator, **options).value
    except bc.HorizonNotReached:
        return math.nan


def permutation_mean(log: bc.Log, policy: Any, predicted: Any, horizon: int, seed: int) -> float:
    """Return the mean over permutations of the log; nan if one of them does not reach the horizon.

    The mean over those that do would be selected by their histories.
    """
    rng = np.random.default_rng([SEED, seed])
    values = []
    for number in range(PERMUTATIONS):
        order = rng.permutation(len(log))
        values.append(value_or_nan(log[order], policy, bc.DRns(q=0.01), predicted[order], horizon, number))
    return float(np.mean(values))


def count_rounds(log: bc.Log, policy: Any, seed: int) -> dict[str, float]:
    """Return the number of rounds for which one pass over the log suffices."""
    uniforms = np.random.default_rng([SEED, seed, 1]).random(len(log))
    matches = float(bc.trace(log, policy, bc.DRns(q=0.01), uniforms=uniforms).accepted.sum())
    clock = bc.trace(log, policy, bc.ClockReplay(), uniforms=uniforms)
    return {
        "Replay": matches,
        "DRns": matches,
        "ClockReplay": float((np.cumsum(clock.exhausted) <= CERTIFIED).sum()),
        "until nothing fires": float(len(clock.order)),
    }


def policy_blocks(name: str, trials: list[dict[str, Any]]) -> tuple[list[str], dict[str, Any]]:
    """Return the blocks of the page about one policy, and its truths by horizon."""
    rounds = {evaluator: np.mean([trial["reach"][evaluator] for trial in trials]) for evaluator in trials[0]["reach"]}
    rows: list[list[Any]] = []
    truths: dict[str, Any] = {}
    for horizon in HORIZONS:
        runs = LIVE_RUNS // (1 + horizon // 100)
        truth = estimate_truth(WORLD, POLICIES[name], horizon, runs, SEED, contexts=1)
        truths[str(horizon)] = truth._asdict()
        columns = zip(*(trial["values"][str(horizon)] for trial in trials), strict=True)
        cells = (_rmse_cell(np.array(column), truth.value) for column in columns)
        rows.append([horizon, *cells, f"{truth.value:.4f}"])
    sentence = f"Rounds from one pass: {', '.join(f'{name} {mean:,.0f}' for name, mean in rounds.items())}."
    return [f"## {name}", sentence, markdown_table(["rounds T", *EVALUATORS, "truth"], rows)], truths


def _rmse_cell(values: Any, truth: float) -> str:
    """Return the rmse, and the share of logs with an estimate if that is not all."""
    finite = values[np.isfinite(values)]
    if finite.size < 2:
        return "–"
    share = "" if finite.size == values.size else f" ({100 * finite.size / values.size:.0f} %)"
    return f"{score_errors('', finite - truth).rmse:.4f}{share}"


def main() -> None:
    options = make_parser(__doc__, logs=100).parse_args()
    runner = TrialRunner(CHECKPOINTS, SEED, options.jobs)
    blocks, records = [], {}
    for name in POLICIES:
        stem = f"open-problem-{name.replace(' ', '-')}"
        trials = runner.run(stem, evaluate_log, (name,), options.logs, {"events": EVENTS})
        part, truths = policy_blocks(name, trials)
        blocks += part
        records[name] = {"truths": truths, "trials": trials}
    origin = provenance(f"python -m bench.accuracy.open_problem --logs {options.logs}")
    intro = (
        f"Uniform logs of n = {EVENTS:,} events, K = {ACTIONS}; root mean squared error of V_T over {options.logs} "
        "logs, in brackets the share of logs on which T was reached if not all, a dash where it never was. "
        f"ClockReplay's rounds are those with an exhaustion certificate of at most {CERTIFIED:g}."
    )
    write_page(options.output / "open_problem.md", ["# The open problem", describe_provenance(origin), intro, *blocks])
    write_json(options.output / "open_problem.json", {**origin, "policies": records})


if __name__ == "__main__":
    main()
