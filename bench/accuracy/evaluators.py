"""The evaluators that are compared: the paper's, run as in the paper, and those recommended here."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.linear_model import LogisticRegression

import backcast as bc
from bench.accuracy.contestants import BRED, PSRS, Queue
from bench.reproduction.protocol import QUANTILES, Case, run_replay

PAPER = ("RS", "WC", *(f"DRns(q={q:g})" for q in QUANTILES))
ETA = 0.05
BUDGET = f"DRns, Budget({ETA:g})"
ONE_PASS = "DRns, preset, one pass"
PRESET = "DRns, preset"
CONSTANT = "ClockReplay, constant model"
DEFAULT = "ClockReplay, default"
PERMUTATIONS = 300
# of other authors; each runs where it applies: the queue for policies and loggers that ignore contexts, PSRS for few
# distinct contexts, BRED for uniform logs
CONTESTANTS: dict[str, Any] = {"queue": Queue(), "PSRS": PSRS(), "BRED": BRED()}


class RecordedEstimate(NamedTuple):
    """An estimate with its interval, its cost, and facts about it; nan where there is none.

    ``complete`` counts histories that reached the horizon; ``spread`` is the standard deviation of event values,
    ``histories`` the number of separate histories that the log contains; ``poor`` is 1 if it is graded poor, else 0.
    """

    value: float
    low: float = math.nan
    high: float = math.nan
    seconds: float = math.nan
    complete: float = math.nan
    certificate: float = math.nan
    spread: float = math.nan
    histories: float = math.nan
    std_error: float = math.nan
    poor: float = math.nan


def evaluate_all(case: Case) -> dict[str, RecordedEstimate]:
    """Return the estimate of every evaluator on one log."""
    others = {
        name: _timed(_record_estimate, case, evaluator)
        for name, evaluator in CONTESTANTS.items()
        if applies(evaluator, case)
    }
    recommended = {name: _timed(function, case) for name, function in OURS.items()}
    return {**evaluate_as_published(case), **others, **recommended}


def applies(evaluator: Any, case: Case) -> bool:
    """Return whether a contestant evaluates this policy on this log; tried at a horizon of one round."""
    try:
        bc.evaluate(case.log, case.policy, evaluator, horizon=1, replicates=None)
    except bc.EvaluationError:
        return False
    return True


def evaluate_as_published(case: Case) -> dict[str, RecordedEstimate]:
    """Return one pass each; the reward model is a logistic regression trained on half of the log, RS needs none."""
    model = bc.Split(bc.PerAction(LogisticRegression(solver="liblinear")))
    half, predicted = model.predictions(case.log, np.random.default_rng([case.seed, 1]))
    half_case = case._replace(log=half)
    estimates = {"RS": _timed(_run_once, bc.RS(), case, np.zeros((1, case.log.n_actions)))}
    estimates["WC"] = _timed(_run_once, bc.WC(), half_case, predicted)
    for q in QUANTILES:
        estimates[f"DRns(q={q:g})"] = _timed(_run_once, bc.DRns(q=q, c_max=1.0), half_case, predicted)
    return estimates


def evaluate_budget(case: Case) -> RecordedEstimate:
    """Return one pass of DR-ns whose bias is bounded in advance."""
    evaluator = bc.DRns(acceptance=bc.Budget(eta=ETA, calibration=len(case.log) // 10))
    return _record_estimate(case, evaluator, reward_model=bc.CrossFit(bc.LowVariance()))


def evaluate_one_pass(case: Case) -> RecordedEstimate:
    """Return one pass of DR-ns as recommended: what the reward model changes, without permutations."""
    evaluator = bc.DRns.recommended(len(case.log))
    return _record_estimate(case, evaluator, "trajectories_complete", reward_model=bc.CrossFit(bc.LowVariance()))


def evaluate_preset(case: Case) -> RecordedEstimate:
    """Return DR-ns as recommended, over permutations."""
    evaluator = bc.DRns.recommended(len(case.log))
    options: dict[str, Any] = {"replicates": PERMUTATIONS, "reward_model": bc.CrossFit(bc.LowVariance())}
    return _record_estimate(case, evaluator, "trajectories", **options)


def evaluate_constant(case: Case) -> RecordedEstimate:
    """Return clock replay with the mean reward as its model: what the clock changes, without the reward model."""
    return _record_estimate(case, bc.ClockReplay(), replicates="auto", reward_model=bc.CrossFit(bc.Constant()))


def evaluate_default(case: Case) -> RecordedEstimate:
    """Return the default call, ``evaluate(log, policy, horizon=T)``."""
    return _record_estimate(case, "auto")


def _record_estimate(
    case: Case, evaluator: Any, count_histories: str | None = None, **options: Any
) -> RecordedEstimate:
    """Return the parts of the estimate that are recorded; nan if the horizon was not reached.

    ``count_histories`` names the diagnostic that counts complete histories; None if there is exactly one.
    """
    try:
        estimate = bc.evaluate(case.log, case.policy, evaluator, horizon=case.horizon, seed=case.seed, **options)
    except bc.HorizonNotReached:
        return RecordedEstimate(math.nan, complete=0)
    facts = estimate.diagnostics.to_dict()
    low, high = (estimate.interval.low, estimate.interval.high) if estimate.interval else (math.nan, math.nan)
    complete = 1.0 if count_histories is None else facts[count_histories]
    spread, histories = (facts.get(name, math.nan) for name in ("value_spread", "separate_histories"))
    certificate = facts.get("bias_certificate", math.nan)
    poor = float(estimate.reliability.grade == "poor")
    return RecordedEstimate(
        estimate.value,
        low,
        high,
        complete=complete,
        certificate=certificate,
        spread=spread,
        histories=histories,
        std_error=estimate.std_error,
        poor=poor,
    )


def _run_once(evaluator: Any, case: Case, predicted: Any) -> RecordedEstimate:
    """Return the value of one pass; that of the partial history if no history reached the horizon."""
    result = run_replay(evaluator, case, predicted)
    return RecordedEstimate(result.value, complete=result.complete)


def _timed(function: Callable[..., RecordedEstimate], *arguments: Any) -> RecordedEstimate:
    """Return the estimate with the processor seconds that it took."""
    start = time.process_time()
    return function(*arguments)._replace(seconds=time.process_time() - start)


OURS: dict[str, Callable[[Case], RecordedEstimate]] = {
    BUDGET: evaluate_budget,
    ONE_PASS: evaluate_one_pass,
    PRESET: evaluate_preset,
    CONSTANT: evaluate_constant,
    DEFAULT: evaluate_default,
}
