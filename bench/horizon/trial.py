"""One log of the benchmark of long horizons: the default call and its rivals; and the truth from live runs."""

from __future__ import annotations

import math
import time
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import backcast as bc
from backcast._engine.forward import run_forward
from backcast._engine.reward_law import RewardLaw
from backcast._parallel.fingerprint import source_digest
from backcast._request import EvaluationRequest, SeedKey, seed_sequence
from backcast.environments.live import coin_flips, run_live
from backcast.evaluators import PassInputs
from backcast.evaluators._reward_predictions import out_of_sample_predictions
from bench.common.trials import TrialRunner
from bench.horizon.cells import Setting
from bench.horizon.worlds import POLICIES, make_long_world
from bench.reproduction.protocol import Case, run_replay

SEED = 41
UNFILLED_PASSES = 16
SIMULATIONS = 8
QUANTILES = (0.01, 0.05, 0.1)
RIVALS = ("without filling", *(f"DRns(q={q:g})" for q in QUANTILES), "RS", "model alone")
LIVE_ROUNDS = 500_000  # of all live runs of a truth together
FEWEST_RUNS, MOST_RUNS = 40, 1_000
TRUTH_BATCHES = 4  # that are run at the same time, and stored


class DefaultCall(NamedTuple):
    """What the default call gives; nan, and no grade, if it refuses the horizon."""

    value: float = math.nan
    std_error: float = math.nan
    low: float = math.nan
    high: float = math.nan
    grade: str = ""
    bias: float = math.nan
    bias_error: float = math.nan
    filled_share: float = math.nan
    seconds: float = math.nan  # processor time


class Trial(NamedTuple):
    """The default call on one log, and the values of the rivals in the order of ``RIVALS``, nan without a value."""

    default: DefaultCall
    rivals: list[float]


class Truth(NamedTuple):
    """The value of a policy from live runs, and its standard error."""

    value: float
    error: float


@cache
def _cached_world(name: str, data: Path | None) -> Any:
    return make_long_world(name, data)


def run_trials(runner: TrialRunner, setting: Setting, data: Path | None, logs: int) -> list[Trial]:
    """Return the trials of a setting; those that are stored are not run again."""
    # estimates by another version of backcast are not mixed with these
    facts = {"setting": list(setting), "columns": [*DefaultCall._fields, *RIVALS], "source": source_digest()}
    return runner.run(setting.stem, evaluate_log, (setting, data), logs, facts, (DefaultCall, Trial))


def find_truth(runner: TrialRunner, setting: Setting, data: Path | None) -> Truth:
    """Return the truth of a setting, which does not depend on the length of the log."""
    world, policy, _, rounds = setting
    name = f"horizon-truth-{world}-{policy}-{rounds}".replace(" ", "_")
    facts = {"setting": [world, policy, rounds], "rounds": LIVE_ROUNDS}
    batches = runner.run(name, simulate_batch, (world, policy, rounds, data), TRUTH_BATCHES, facts)
    values = np.concatenate(batches)
    return Truth(float(values.mean()), float(values.std(ddof=1)) / math.sqrt(values.size))


def simulate_batch(world: str, policy: str, rounds: int, data: Path | None, number: int) -> list[float]:
    """Return the average reward of each live run of one batch."""
    rng = np.random.default_rng([SEED, number])
    contexts, means = _cached_world(world, data).table(100_000, rng)
    runs = max(FEWEST_RUNS, min(MOST_RUNS, LIVE_ROUNDS // rounds)) // TRUTH_BATCHES
    values = run_live(contexts, means, POLICIES[policy], horizon=rounds, runs=runs, rng=rng, draw=coin_flips)
    return [float(value) for value in values]


def evaluate_log(setting: Setting, data: Path | None, number: int) -> Trial:
    """Return the default call and its rivals on one log."""
    log = _cached_world(setting.world, data).log(setting.events, np.random.default_rng([SEED, number]))
    case = Case(log, POLICIES[setting.policy], setting.rounds, number)
    return Trial(call_default(case), [replay_without_filling(case), *replay_in_log_order(case), simulate_model(case)])


def call_default(case: Case) -> DefaultCall:
    """Return what a user gets, with one job: trials run at the same time already."""
    start = time.process_time()
    options: dict[str, Any] = {"horizon": case.horizon, "seed": case.seed, "exchangeable": True, "n_jobs": 1}
    try:
        estimate = bc.evaluate(case.log, case.policy, **options)
    except bc.HorizonNotReached:
        return DefaultCall(seconds=time.process_time() - start)
    seconds = time.process_time() - start
    bias, interval = estimate.bias_estimate, estimate.interval
    low, high = (math.nan, math.nan) if interval is None else (interval.low, interval.high)
    return DefaultCall(
        estimate.value,
        estimate.std_error,
        low,
        high,
        estimate.reliability.grade,
        math.nan if bias is None else bias.value,
        math.nan if bias is None else bias.std_error,
        estimate.diagnostics.to_dict().get("filled_share", math.nan),
        seconds,
    )


def replay_without_filling(case: Case) -> float:
    """Return the value of passes without filling, with the default's reward model; nan if it refuses the horizon.

    The passes are those of the evaluator. They are run here because one that falls short is enough to refuse.
    """
    model = bc.CrossFit(bc.LowVariance())
    request = EvaluationRequest(case.log, case.policy, reward_model=model, horizon=case.horizon, seed=case.seed)
    inputs, values = PassInputs(*out_of_sample_predictions(request), int(case.horizon or 0)), []
    for i in range(UNFILLED_PASSES):
        seed = seed_sequence(case.seed, SeedKey.FULL_PASS, i)
        result = bc.ClockReplay(fill=False).run_pass(case.policy, inputs, None, seed)
        if not result.reached_horizon:
            return math.nan
        values.append(result.value)
    return float(np.mean(values))


def replay_in_log_order(case: Case) -> list[float]:
    """Return one pass each of DRns and RS; nan if no history reached the horizon."""
    predicted = _predict_rewards(case)
    results = [run_replay(evaluator, case, predicted) for evaluator in (*map(_make_drns, QUANTILES), bc.RS())]
    return [result.value if result.complete else math.nan for result in results]


def simulate_model(case: Case) -> float:
    """Return the mean reward of simulated histories whose rewards are all from the reward model."""
    predicted = _predict_rewards(case)
    rng, rounds = np.random.default_rng([SEED, case.seed, 1]), int(case.horizon or 0)
    law = RewardLaw.from_rewards(case.log.rewards, predicted[np.arange(len(case.log)), case.log.actions])
    simulated = []
    for _ in range(SIMULATIONS):
        rows = rng.integers(len(case.log), size=rounds)
        simulated.append(run_forward(case.policy, case.log[rows], predicted[rows], law, rng).mean())
    return float(np.mean(simulated))


def _make_drns(q: float) -> bc.DRns:
    return bc.DRns(q=q, c_max=1.0)


def _predict_rewards(case: Case) -> Any:
    """Return the predictions of the default model out of sample, as DM uses them."""
    request = EvaluationRequest(case.log, case.policy, horizon=case.horizon, seed=case.seed)
    return out_of_sample_predictions(request)[1]
