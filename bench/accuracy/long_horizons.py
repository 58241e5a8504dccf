"""Horizons that exhaust the log, and horizons longer than the log; writes bench/results/long_horizons.md.

    python -m bench.accuracy.long_horizons [--logs 24] [--jobs 2] [--longest-log 2000]

Ten actions, twenty features, logistic rewards; the logger is a softmax with a fifth of uniform exploration, the policy
epsilon-greedy, updated in every round. Each log is evaluated by the default call, by passes of both readings, without
filling, and by simulation from the reward model alone.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

import backcast as bc
from backcast._engine.forward import run_forward
from backcast._engine.reward_law import RewardLaw
from backcast._request import EvaluationRequest, seed_sequence
from backcast.environments import LinearEnvironment
from backcast.environments.live import coin_flips, run_live
from backcast.evaluators import PassInputs
from backcast.evaluators._reward_predictions import out_of_sample_predictions
from bench.accuracy.settings import CHECKPOINTS, make_parser
from bench.common.machine import describe_provenance, provenance
from bench.common.markdown import markdown_table
from bench.common.output import write_json, write_page
from bench.common.trials import TrialRunner

SEED = 41
N_ACTIONS, N_FEATURES, EXPLORATION, EPSILON = 10, 20, 0.2, 0.1
COLUMNS = ("value", "error", "low", "high", "bias", "bias error", "filled", "fair", "unused", "half", "plain", "model")


class Setting(NamedTuple):
    """Length of the log, rounds, share of the logs that are run, passes of the default call and of each variant."""

    events: int
    rounds: int
    share: float
    replicates: int | str
    passes: int


SETTINGS = (
    Setting(2_000, 200, 1.0, "auto", 8),
    Setting(2_000, 600, 1.0, "auto", 8),
    Setting(2_000, 1_200, 1.0, "auto", 8),
    Setting(2_000, 4_000, 0.5, 32, 8),
    Setting(10_000, 3_000, 0.2, 16, 0),
    Setting(10_000, 6_000, 0.2, 16, 0),
    Setting(10_000, 20_000, 0.15, 8, 0),
)


def log_softly(contexts: Any) -> Any:
    """Return the probabilities of the logger: a softmax of the scores, mixed with uniform exploration."""
    _, directions, _ = LinearEnvironment(N_ACTIONS, N_FEATURES, seed=1)._parameters
    scores = np.exp(contexts @ directions.T)
    return (1 - EXPLORATION) * scores / scores.sum(axis=1, keepdims=True) + EXPLORATION / N_ACTIONS


WORLD = LinearEnvironment(N_ACTIONS, N_FEATURES, logistic=True, logging=log_softly, noise=0.0, seed=1)
POLICY = bc.EpsilonGreedy(EPSILON)


@cache
def live_value(rounds: int) -> tuple[float, float]:
    """Return the value of the policy from live runs, and its standard error."""
    rng = np.random.default_rng(SEED)
    contexts, means = WORLD.table(200_000, rng)
    runs = max(30, min(800, 400_000 // rounds))
    values = run_live(contexts, means, POLICY, horizon=rounds, runs=runs, rng=rng, draw=coin_flips)
    return float(values.mean()), float(values.std(ddof=1)) / runs**0.5


def evaluate_log(setting: Setting, number: int) -> list[float]:
    """Return the columns of one log."""
    log = WORLD.log(setting.events, np.random.default_rng([SEED, number]))
    model = bc.CrossFit(bc.LowVariance())  # of the default call
    options: dict[str, Any] = {"reward_model": model, "horizon": setting.rounds, "seed": number}
    estimate = bc.evaluate(log, POLICY, bc.ClockReplay(fill=True), replicates=setting.replicates, **options)
    bias = estimate.bias_estimate
    facts = [
        estimate.value,
        estimate.std_error,
        estimate.interval.low,
        estimate.interval.high,
        np.nan if bias is None else bias.value,
        np.nan if bias is None else bias.std_error,
        estimate.diagnostics.filled_share,
        float(estimate.reliability.grade != "poor"),
    ]
    request = EvaluationRequest(log, POLICY, **options)
    inputs = PassInputs(*out_of_sample_predictions(request), setting.rounds)
    inputs = bc.ClockReplay(fill=True).with_fresh_means(inputs, model, number)
    seeds = [seed_sequence(number, 1, i) for i in range(setting.passes)]
    for fill, held_out in ((True, False), (True, True), (False, False)):
        clock = bc.ClockReplay(fill=fill)
        passes = [clock.run_pass(POLICY, inputs, None, seed, reads_held_out=held_out).value for seed in seeds]
        facts.append(float(np.mean(passes)) if passes else np.nan)
    return [float(fact) for fact in (*facts, simulate(log, request, number))]


def simulate(log: bc.Log, request: EvaluationRequest, number: int) -> float:
    """Return the value by the reward model alone, over contexts that are drawn from the log with replacement."""
    rng, rounds = np.random.default_rng([SEED, number, 1]), int(request.horizon or 0)
    model = EvaluationRequest(log, POLICY, horizon=rounds, seed=number)  # the default model, as DM uses it
    _, predicted = out_of_sample_predictions(model)
    law = RewardLaw.from_rewards(log.rewards, predicted[np.arange(len(log)), log.actions])
    values = []
    for _ in range(8):
        rows = rng.integers(len(log), size=rounds)
        values.append(run_forward(POLICY, log[rows], predicted[rows], law, rng).mean())
    return float(np.mean(values))


def summarize(setting: Setting, trials: Any) -> dict[str, str]:
    """Return one row of the table."""
    truth, truth_error = live_value(setting.rounds)
    columns = dict(zip(COLUMNS, np.array(trials, dtype=np.float64).T, strict=True))

    def root_mean_square(name: str) -> str:
        errors = columns[name] - truth
        return "" if np.isnan(errors).any() else f"{np.sqrt((errors**2).mean()):.4f}"

    errors = columns["value"] - truth
    return {
        "n": f"{setting.events:,}",
        "T": f"{setting.rounds:,}",
        "logs": str(len(trials)),
        "truth": f"{truth:.4f} ± {truth_error:.4f}",
        "filled": f"{columns['filled'].mean():.2f}",
        "bias": f"{errors.mean():+.4f} ± {errors.std(ddof=1) / len(errors) ** 0.5:.4f}",
        "bias estimate": f"{columns['bias'].mean():+.4f} ± {columns['bias error'].mean():.4f}",
        "rmse": root_mean_square("value"),
        "mean standard error": f"{columns['error'].mean():.4f}",
        "covered": f"{((columns['low'] <= truth) & (truth <= columns['high'])).mean():.2f}",
        "not poor": f"{columns['fair'].mean():.2f}",
        "rmse, unused events": root_mean_square("unused"),
        "other half": root_mean_square("half"),
        "without filling": root_mean_square("plain"),
        "model alone": root_mean_square("model"),
    }


def main() -> None:
    parser = make_parser(__doc__, logs=24)
    parser.add_argument("--longest-log", type=int, default=10_000, help="leave out settings with longer logs")
    options = parser.parse_args()
    runner = TrialRunner(CHECKPOINTS, SEED, options.jobs)
    rows, records = [], {}
    for setting in (setting for setting in SETTINGS if setting.events <= options.longest_log):
        count = max(2, round(setting.share * options.logs))
        stem = f"long-horizons-{setting.events}-{setting.rounds}"
        trials = runner.run(stem, evaluate_log, (setting,), count, {"setting": list(setting)})
        rows.append(summarize(setting, trials))
        records[stem] = trials
    origin = provenance(
        f"python -m bench.accuracy.long_horizons --logs {options.logs} --longest-log {options.longest_log}"
    )
    intro = (
        f"{N_ACTIONS} actions, {N_FEATURES} features, logistic rewards, a softmax logger with "
        f"{100 * EXPLORATION:g} % uniform exploration, `EpsilonGreedy({EPSILON:g})` updated in every round. *filled*: "
        "share of filled rounds in the passes of the call; *bias estimate* with its mean standard error; *covered*: "
        "share of 95 % intervals that contain the truth; *not poor*: share of results graded good or fair. The last "
        "columns are errors of a few passes read on unused events, read on the half that is held out, and without "
        "filling (empty if not run, or if a pass fell short), and of a simulation from the reward model alone."
    )
    table = markdown_table(list(rows[0]), [list(row.values()) for row in rows])
    write_page(options.output / "long_horizons.md", ["# Long horizons", describe_provenance(origin), intro, table])
    write_json(options.output / "long_horizons.json", {**origin, "trials": records})


if __name__ == "__main__":
    main()
