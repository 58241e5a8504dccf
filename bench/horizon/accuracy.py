"""Errors on horizons that exhaust the log, and on horizons longer than the log; writes bench/results/horizon.md.

    python -m bench.horizon.accuracy [--logs 20] [--jobs 2] [--worlds soft,bent] [--events 10000] [--rounds 300,1000]

Each log is evaluated by the default call, with filled rounds, by passes with filled rounds of both readings, and by
rivals: DRns, RS, and a simulation from the reward model alone. The worlds of real data need BACKCAST_DATA.
"""

from __future__ import annotations

from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import backcast as bc
from backcast._engine.forward import run_forward
from backcast._engine.reward_law import RewardLaw
from backcast._request import EvaluationRequest, seed_sequence
from backcast.environments.live import coin_flips, run_live
from backcast.evaluators import PassInputs
from backcast.evaluators._reward_predictions import out_of_sample_predictions
from bench.accuracy.settings import CHECKPOINTS, make_parser
from bench.common.machine import describe_provenance, provenance
from bench.common.markdown import markdown_table
from bench.common.output import write_json, write_page
from bench.common.trials import TrialRunner
from bench.horizon.worlds import NAMES, NEED_DATA, POLICIES, make_long_world
from bench.reproduction.datasets import find_data_folder
from bench.reproduction.protocol import Case, run_replay

SEED = 41
PASSES = 8  # of each reading
SIMULATIONS = 8
QUANTILES = (0.01, 0.05, 0.1)
CALLS = ("default", "filled")
FACTS = ("value", "error", "low", "high", "fair", "bias", "bias error", "filled share")
RIVALS = ("unused events", "held-out half", *(f"DRns(q={q:g})" for q in QUANTILES), "RS", "model alone")
COLUMNS = (*(f"{call} {fact}" for call in CALLS for fact in FACTS), *RIVALS)
LIVE_ROUNDS = 1_000_000  # of all live runs of a truth together


class Setting(NamedTuple):
    """A world, the name of the policy, the length of the log, and the rounds."""

    world: str
    policy: str
    events: int
    rounds: int

    @property
    def stem(self) -> str:
        """A name for files."""
        return "-".join(map(str, ("horizon", *self))).replace(" ", "_")


@cache
def _cached_world(name: str, data: Path | None) -> Any:
    return make_long_world(name, data)


@cache
def live_value(setting: Setting, data: Path | None) -> tuple[float, float]:
    """Return the value of the policy from live runs, and its standard error."""
    rng = np.random.default_rng(SEED)
    contexts, means = _cached_world(setting.world, data).table(100_000, rng)
    policy, runs = POLICIES[setting.policy], max(40, min(1_000, LIVE_ROUNDS // setting.rounds))
    values = run_live(contexts, means, policy, horizon=setting.rounds, runs=runs, rng=rng, draw=coin_flips)
    return float(values.mean()), float(values.std(ddof=1)) / runs**0.5


def evaluate_log(setting: Setting, data: Path | None, number: int) -> list[float]:
    """Return the columns of one log; nan where an evaluator gives no value."""
    log = _cached_world(setting.world, data).log(setting.events, np.random.default_rng([SEED, number]))
    policy, model = POLICIES[setting.policy], bc.CrossFit(bc.LowVariance())  # of the default call
    options: dict[str, Any] = {"reward_model": model, "horizon": setting.rounds, "seed": number}
    facts = [*_call(log, policy, bc.ClockReplay(fill=False), options)]
    facts += _call(log, policy, bc.ClockReplay(fill=True), options)
    inputs = PassInputs(*out_of_sample_predictions(EvaluationRequest(log, policy, **options)), setting.rounds)
    clock = bc.ClockReplay(fill=True)
    inputs = clock.with_fresh_rewards(inputs, model, number)
    for held_out in (False, True):
        seeds = [seed_sequence(number, 1, i) for i in range(PASSES)]
        passes = [clock.run_pass(policy, inputs, None, seed, reads_held_out=held_out) for seed in seeds]
        facts.append(float(np.mean([result.value for result in passes])))
    return [*map(float, facts), *_rivals(Case(log, policy, setting.rounds, number))]


def _call(log: bc.Log, policy: Any, evaluator: Any, options: dict[str, Any]) -> list[float]:
    """Return the facts of one call."""
    try:
        estimate = bc.evaluate(log, policy, evaluator, exchangeable=True, **options)
    except bc.HorizonNotReached:
        return [np.nan] * len(FACTS)
    bias, interval = estimate.bias_estimate, estimate.interval
    return [
        *(estimate.value, estimate.std_error, interval.low, interval.high),
        float(estimate.reliability.grade != "poor"),
        *((np.nan, np.nan) if bias is None else (bias.value, bias.std_error)),
        estimate.diagnostics.to_dict().get("filled_share", 0.0),
    ]


def _rivals(case: Case) -> list[float]:
    """Return one pass each of DRns and RS, nan if no history reached the horizon, and the model alone."""
    # the default model, out of sample, as DM uses it
    _, predicted = out_of_sample_predictions(
        EvaluationRequest(case.log, case.policy, horizon=case.horizon, seed=case.seed)
    )
    values = []
    for evaluator in (*(bc.DRns(q=q, c_max=1.0) for q in QUANTILES), bc.RS()):
        result = run_replay(evaluator, case, predicted)
        values.append(result.value if result.complete else np.nan)
    rng, rounds = np.random.default_rng([SEED, case.seed, 1]), int(case.horizon or 0)
    law = RewardLaw.from_rewards(case.log.rewards, predicted[np.arange(len(case.log)), case.log.actions])
    simulated = []
    for _ in range(SIMULATIONS):
        rows = rng.integers(len(case.log), size=rounds)
        simulated.append(run_forward(case.policy, case.log[rows], predicted[rows], law, rng).mean())
    return [*values, float(np.mean(simulated))]


def summarize(setting: Setting, trials: Any, data: Path | None) -> tuple[list[str], list[str]]:
    """Return the rows of the calls and of all rmse."""
    truth, truth_error = live_value(setting, data)
    columns = dict(zip(COLUMNS, np.array(trials, dtype=np.float64).T, strict=True))
    name = [setting.world, setting.policy, f"{setting.events:,}", f"{setting.rounds:,}", f"{truth:.4f}"]

    def root_mean_square(column: str) -> str:
        errors = columns[column] - truth
        return "" if np.isnan(errors).any() else f"{np.sqrt((errors**2).mean()):.4f}"

    calls = []
    for call in CALLS:
        facts = {fact: columns[f"{call} {fact}"] for fact in FACTS}
        errors = facts["value"] - truth
        if np.isnan(errors).any():
            calls += [f"{np.isnan(errors).mean():.0%} refused", *[""] * 4]
            continue
        covered = (facts["low"] <= truth) & (truth <= facts["high"])
        calls += [
            f"{errors.mean():+.4f} ± {np.hypot(errors.std(ddof=1) / len(errors) ** 0.5, truth_error):.4f}",
            root_mean_square(f"{call} value"),
            f"{facts['error'].mean():.4f}",
            f"{covered.mean():.2f}",
            f"{facts['fair'].mean():.2f}",
        ]
    filled = ["", ""]
    if np.isfinite(columns["filled bias"]).all():
        bias, bias_error = columns["filled bias"].mean(), columns["filled bias error"].mean()
        filled = [f"{columns['filled filled share'].mean():.2f}", f"{bias:+.4f} ± {bias_error:.4f}"]
    errors = [root_mean_square(column) for column in (*(f"{call} value" for call in CALLS), *RIVALS)]
    return [*name, *calls, *filled], [*name, *errors]


CALL_HEAD = ("bias", "rmse", "standard error", "covered", "not poor")
FILLED_HEAD = (*(f"filled: {fact}" for fact in CALL_HEAD), "filled share", "bias estimate")


def main() -> None:
    parser = make_parser(__doc__, logs=20)
    data = find_data_folder(None)
    worlds = [name for name in NAMES if data or name not in NEED_DATA]
    parser.add_argument("--worlds", default=",".join(worlds))
    parser.add_argument("--policies", default=";".join(POLICIES), help="names, separated by semicolons")
    parser.add_argument("--events", default="10000")
    parser.add_argument("--rounds", default="300,1000,3000,10000")
    options = parser.parse_args()
    runner = TrialRunner(CHECKPOINTS, SEED, options.jobs)
    given = options.worlds.split(","), options.policies.split(";"), options.events.split(","), options.rounds.split(",")
    settings = [Setting(world, policy, int(events), int(rounds)) for world, policy, events, rounds in product(*given)]
    called: list[list[str]] = []
    compared: list[list[str]] = []
    records = {}
    for setting in settings:
        facts = {"setting": list(setting), "columns": COLUMNS}
        trials = runner.run(setting.stem, evaluate_log, (setting, data), options.logs, facts)
        for rows, row in zip((called, compared), summarize(setting, trials, data), strict=True):
            rows.append(row)
        records[setting.stem] = {"truth": live_value(setting, data), "trials": trials}
    command = f"--logs {options.logs} --worlds {options.worlds} --events {options.events} --rounds {options.rounds}"
    origin = provenance(f"python -m bench.horizon.accuracy {command} --policies '{options.policies}'")
    intro = (
        f"{options.logs} logs per row. The default call and the call with filled rounds: mean error, rmse, mean "
        "standard error, share of 95 % intervals that contain the truth, and share of results graded good or fair; for "
        "filled rounds their share and the mean bias estimate with its mean standard error."
    )
    rivals = (
        f"Root mean square errors. *unused events* and *held-out half* are {PASSES} passes with filled rounds each, by "
        "their reading; DRns and RS one pass in log order, empty if a log gave no complete history; *model alone* is a "
        "simulation from the reward model."
    )
    head = ["world", "policy", "n", "T", "truth"]
    blocks = [
        *("# Long horizons", describe_provenance(origin), intro),
        markdown_table([*head, *CALL_HEAD, *FILLED_HEAD], called, text_columns=2),
        *("## Rivals", rivals, markdown_table([*head, *CALLS, *RIVALS], compared, text_columns=2)),
    ]
    write_page(options.output / "horizon.md", blocks)
    write_json(options.output / "horizon.json", {**origin, "columns": COLUMNS, "settings": records})


if __name__ == "__main__":
    main()
