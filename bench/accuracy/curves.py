"""How errors fall with the length of the log and with the number of passes; writes bench/results/accuracy_curves.md.

python -m bench.accuracy.curves [--logs 60] [--jobs 2]
"""

from __future__ import annotations

from typing import Any

import numpy as np

import backcast as bc
from backcast._request import EvaluationRequest
from backcast.evaluators._pass_inputs import PassInputs
from backcast.evaluators._reward_predictions import out_of_sample_predictions
from bench.accuracy.evaluators import DEFAULT, evaluate_as_published, evaluate_default
from bench.accuracy.live import Truth
from bench.accuracy.settings import CHECKPOINTS, Setting, make_parser, mean_truth
from bench.common.charts import line_chart, save_chart
from bench.common.machine import describe_provenance, provenance
from bench.common.markdown import markdown_table
from bench.common.output import write_json, write_page
from bench.common.trials import TrialRunner
from bench.reproduction.protocol import score_errors

SEED = 4
LENGTHS = (1000, 2000, 4000, 8000)
PASSES = (1, 2, 4, 8, 16, 32, 64)
SETTING = Setting("straight", "paper", "epsilon-greedy by 15")
SHOWN = ("RS", "WC", "DRns(q=0.01)", DEFAULT)

Rows = list[dict[str, Any]]


def evaluate_log(setting: Setting, number: int) -> dict[str, float]:
    """Return the value of each evaluator on one log."""
    case = setting.make_case(None, [SEED, setting.events, number], number)
    estimates = {**evaluate_as_published(case), DEFAULT: evaluate_default(case)}
    return {name: estimates[name].value for name in SHOWN}


def run_passes(setting: Setting, number: int) -> list[float]:
    """Return the values of many passes of clock replay over one log."""
    case = setting.make_case(None, [SEED, 1, number], number)
    clock, model = bc.ClockReplay(), bc.CrossFit(bc.LowVariance())
    request = EvaluationRequest(case.log, case.policy, reward_model=model, horizon=case.horizon, seed=number)
    inputs = PassInputs(*out_of_sample_predictions(request), setting.horizon)
    seeds = np.random.SeedSequence([SEED, number]).spawn(max(PASSES))
    return [clock.run_pass(case.policy, inputs, None, seed).value for seed in seeds]


def measure_lengths(runner: TrialRunner, logs: int, truth: Truth) -> Rows:
    """Return errors by length of the log."""
    rows = []
    for events in LENGTHS:
        setting = SETTING._replace(events=events)
        trials = setting.run_trials(runner, "length", evaluate_log, (setting,), logs)
        for name in SHOWN:
            errors = np.array([trial[name] for trial in trials]) - truth.value
            rows.append({"evaluator": name, "events": events, "rmse": score_errors(name, errors).rmse})
        limit = truth.live_limit(events, setting.horizon)
        rows.append({"evaluator": "live, with as many events", "events": events, "rmse": limit})
    return rows


def measure_passes(runner: TrialRunner, logs: int, truth: Truth) -> Rows:
    """Return errors by number of passes."""
    values = np.array(SETTING.run_trials(runner, "passes", run_passes, (SETTING,), logs))
    means = {count: values[:, :count].mean(axis=1) for count in PASSES}
    return [
        {"evaluator": "ClockReplay", "passes": count, "rmse": score_errors("", mean - truth.value).rmse}
        for count, mean in means.items()
    ]


def pivot_table(rows: Rows, x: str) -> str:
    """Return the errors as a table with a column for each evaluator."""
    names = list(dict.fromkeys(row["evaluator"] for row in rows))
    cells = {(row[x], row["evaluator"]): f"{row['rmse']:.4f}" for row in rows}
    positions = dict.fromkeys(row[x] for row in rows)
    return markdown_table([x, *names], [[f"{at:,}", *(cells[at, name] for name in names)] for at in positions])


def main() -> None:
    options = make_parser(__doc__, logs=60).parse_args()
    runner = TrialRunner(CHECKPOINTS, SEED, options.jobs)
    truth = mean_truth(SETTING, runner, "curves")
    lengths, passes = measure_lengths(runner, options.logs, truth), measure_passes(runner, options.logs, truth)
    for rows, x, name in ((lengths, "events", "length"), (passes, "passes", "passes")):
        titles = {"events": "events in the log", "passes": "passes over the log"}[x], "root mean squared error"
        chart = line_chart(rows, x, "rmse", "evaluator", titles, size=(360, 260))
        save_chart(chart, options.output / f"accuracy-{name}")
    origin = provenance(f"python -m bench.accuracy.curves --logs {options.logs}")
    data = {"lengths": lengths, "passes": passes, "truth": truth._asdict()}
    write_json(options.output / "accuracy-curves.json", {**origin, **data})
    blocks = [
        "# How errors fall",
        describe_provenance(origin),
        f"World *{SETTING.world}*, logged as in the paper, {SETTING.policy}, T = {SETTING.horizon}; root mean squared "
        f"error over {options.logs} logs.",
        "## With the length of the log",
        pivot_table(lengths, "events"),
        "![rmse by events](accuracy-length.svg)",
        f"## With the number of passes, n = {SETTING.events:,}",
        pivot_table(passes, "passes"),
        "![rmse by passes](accuracy-passes.svg)",
    ]
    write_page(options.output / "accuracy_curves.md", blocks)


if __name__ == "__main__":
    main()
