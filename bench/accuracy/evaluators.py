"""The evaluators that are compared: those of the paper, run as it ran them, and those recommended here."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.linear_model import LogisticRegression

import backcast as bc
from backcast.errors import HorizonNotReached
from bench.reproduction.protocol import QUANTILES, Case, simulated

PAPER = ("RS", "WC", *(f"DRns(q={q:g})" for q in QUANTILES))
ETA = 0.05
BUDGET = f"DRns, Budget({ETA:g})"
PRESET = "DRns, preset"
DEFAULT = "ClockReplay, default"
PERMUTATIONS = 300


class Answer(NamedTuple):
    """An estimate with its interval (nan: none), what it took, and how far its run went.

    ``complete`` counts histories that reached the horizon; ``spread`` is the standard deviation of event values,
    ``histories`` how many separate ones the log is worth.
    """

    value: float
    low: float = math.nan
    high: float = math.nan
    seconds: float = math.nan
    complete: float = math.nan
    certificate: float = math.nan
    spread: float = math.nan
    histories: float = math.nan


NOTHING = Answer(math.nan, complete=0)


def contest(log: bc.Log, policy: Any, horizon: int, seed: int) -> dict[str, Answer]:
    """Every evaluator's answer on one log."""
    case = Case(log, policy, horizon, seed)
    ours = {BUDGET: budgeted, PRESET: preset, DEFAULT: default}
    return {**as_in_the_paper(case), **{name: timed(function, case) for name, function in ours.items()}}


def timed(function: Callable[..., Answer], *arguments: Any) -> Answer:
    """The answer with the seconds of one core that it took."""
    start = time.process_time()
    return function(*arguments)._replace(seconds=time.process_time() - start)


def as_in_the_paper(case: Case) -> dict[str, Answer]:
    """One pass each; the reward model is a logistic regression trained on half of the log, RS needs none."""
    model = bc.Split(bc.PerAction(LogisticRegression(solver="liblinear")))
    half, predicted = model.predictions(case.log, np.random.default_rng([case.seed, 1]))
    rest = case._replace(log=half)
    found = {"RS": timed(single, bc.RS(), case, np.zeros((1, case.log.n_actions)))}
    found["WC"] = timed(single, bc.WC(), rest, predicted)
    for q in QUANTILES:
        found[f"DRns(q={q:g})"] = timed(single, bc.DRns(q=q, c_max=1.0), rest, predicted)
    return found


def single(evaluator: Any, case: Case, predicted: Any) -> Answer:
    """One pass; where no history reached the horizon, what the partial one says."""
    found = simulated(evaluator, case, predicted)
    return Answer(found.value, complete=found.complete)


def budgeted(case: Case) -> Answer:
    """One pass of DR-ns whose bias was bounded beforehand."""
    evaluator = bc.DRns(acceptance=bc.Budget(eta=ETA, calibration=len(case.log) // 10))
    options: dict[str, Any] = {"reward_model": bc.CrossFit(bc.LowVariance()), "horizon": case.horizon}
    try:
        found = bc.evaluate(case.log, case.policy, evaluator, seed=case.seed, **options)
    except HorizonNotReached:
        return NOTHING
    return answer_of(found, 1.0)


def preset(case: Case) -> Answer:
    """DR-ns as recommended, over permutations."""
    evaluator = bc.DRns.recommended(len(case.log))
    options: dict[str, Any] = {"replicates": PERMUTATIONS, "reward_model": bc.CrossFit(bc.LowVariance())}
    try:
        found = bc.evaluate(case.log, case.policy, evaluator, horizon=case.horizon, seed=case.seed, **options)
    except HorizonNotReached:
        return NOTHING
    return answer_of(found, found.diagnostics.to_dict()["trajectories"])


def default(case: Case) -> Answer:
    """What a user gets who chooses nothing but the horizon."""
    try:
        found = bc.evaluate(case.log, case.policy, horizon=case.horizon, seed=case.seed, exchangeable=True)
    except HorizonNotReached:
        return NOTHING
    return answer_of(found, 1.0)


def answer_of(found: bc.Estimate, complete: float) -> Answer:
    """The parts of an estimate that the benchmark keeps."""
    facts = found.diagnostics.to_dict()
    low, high = (found.interval.low, found.interval.high) if found.interval else (math.nan, math.nan)
    spread, histories = (facts.get(name, math.nan) for name in ("value_spread", "separate_histories"))
    return Answer(found.value, low, high, math.nan, complete, facts["bias_certificate"], spread, histories)
