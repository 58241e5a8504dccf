"""The protocol of section 4.1: options, classifiers, the policy, the evaluators, and their scores.

Dudik, Erhan, Langford, Li, "Sample-efficient Nonstationary Policy Evaluation for Contextual Bandits", UAI 2012.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge

import backcast as bc
from backcast._arrays import FloatArray, is_sparse
from backcast._request import EvaluationRequest, RandomStreams
from backcast.environments import ClassificationEnvironment
from backcast.evaluators._replay import replay
from backcast.policies.base import is_learning
from bench.common.trials import TrialRunner

QUANTILES = (0.0, 0.01, 0.05, 0.1)
PAPER = ("DM", "RS", "WC", *(f"DRns(q={q:g})" for q in QUANTILES))
DEFAULT = "default call"
OURS = ("DR, low variance", "ClockReplay, paper's rhat", "ClockReplay, low variance", DEFAULT)
EPSILON = 0.1
BATCH_SIZE = 15
DIRECT_HISTORIES = 6  # simulated by the direct method: its error is bias, which more histories do not reduce


@dataclass(frozen=True)
class Options:
    """Options of an experiment, as described by ``python -m bench.reproduction --help``."""

    data: Path | None
    out: Path
    charts: Path | None = None
    trials: int | None = None
    jobs: int = 1
    world: str = "rcv1"
    simulations: int = 2000
    seed: int = 0
    show_progress: bool = False

    @property
    def runner(self) -> TrialRunner:
        return TrialRunner(self.out / "checkpoints", self.seed, self.jobs, self.show_progress)


class Case(NamedTuple):
    """A log and a policy: what is the policy's average loss in its first ``horizon`` rounds?"""

    log: bc.Log
    policy: Any
    horizon: int | None
    seed: int


class Result(NamedTuple):
    """An estimate, events added to histories, histories of full length, and seconds."""

    value: float
    accepted: float = math.nan
    complete: float = math.nan
    seconds: float = math.nan


@dataclass(frozen=True)
class Score:
    """Errors of an evaluator over trials, as the paper reports them.

    ``half_width`` is that of the 95 % interval of the rmse; ``bias`` is the mean of estimate minus truth; ``trials``
    counts those with an estimate; ``complete`` is the mean number of histories of full length, ``any_complete`` the
    share of trials with at least one.
    """

    evaluator: str
    trials: int
    rmse: float
    half_width: float
    bias: float
    stdev: float
    accepted: float = math.nan
    complete: float = math.nan
    any_complete: float = math.nan
    seconds: float = math.nan


def score_errors(evaluator: str, errors: FloatArray) -> Score:
    """Return the root mean squared error with a 95 % interval (delta method on the squares), bias and deviation.

    >>> score = score_errors("two misses", np.array([0.25, -0.25]))
    >>> score.trials, score.rmse, score.half_width, score.bias, score.stdev
    (2, 0.25, 0.0, 0.0, 0.3535533905932738)

    By hand: both squares are 1/16, so their root mean is 1/4 and has no spread.
    """
    errors = errors[np.isfinite(errors)]
    if errors.size < 2:
        return Score(evaluator, errors.size, *[math.nan] * 4)
    squares = errors**2
    rmse = math.sqrt(squares.mean())
    half_width = 1.96 * float(squares.std(ddof=1)) / math.sqrt(errors.size) / (2 * rmse) if rmse > 0 else 0.0
    return Score(evaluator, errors.size, rmse, half_width, float(errors.mean()), float(errors.std(ddof=1)))


def score_trials(trials: Sequence[dict[str, Result]], truths: Sequence[float]) -> list[Score]:
    """Return a score for each evaluator; a trial has a result for each of them."""
    scores = []
    for name in trials[0]:
        values, accepted, complete, seconds = np.array([trial[name] for trial in trials], dtype=np.float64).T
        score = replace(
            score_errors(name, values - np.asarray(truths)),
            accepted=finite_mean(accepted),
            complete=finite_mean(complete),
            any_complete=finite_mean((complete > 0).astype(np.float64)),
            seconds=finite_mean(seconds),
        )
        scores.append(score)
    return scores


def finite_mean(column: FloatArray) -> float:
    """Return the mean of the finite values, or nan if there is none."""
    finite = column[np.isfinite(column)]
    return float(finite.mean()) if finite.size else math.nan


class RidgeChoice(NamedTuple):
    """A weighting and a penalty for ridge regressions, as chosen by :class:`backcast.LowVariance`."""

    weights: str
    alpha: float

    def cross_fit(self, *, sparse: bool) -> bc.CrossFit:
        """Return the reward model that predicts each event by regressions fitted without it."""
        ridge = Ridge(self.alpha, solver="sparse_cg", tol=1e-3) if sparse else Ridge(self.alpha)
        weights: Any = None if self.weights == "none" else self.weights
        return bc.CrossFit(bc.PerAction(ridge, weights=weights))


def choose_ridge(log: bc.Log) -> RidgeChoice:
    """Return the ridge whose doubly robust event values vary least on this log, which no trial uses."""
    choice = bc.LowVariance(weights=("none", "inverse", "inverse_square")).fit(log).choice
    assert choice is not None
    return RidgeChoice(choice.weights, choice.alpha)


class CompactLogisticRegression(LogisticRegression):  # type: ignore[misc]
    """Logistic regression fitted on the columns that occur: the coefficients of the others are 0 anyway."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> CompactLogisticRegression:  # noqa: N803
        """Fit on the columns that occur in the sparse ``X``, or on all columns of a dense one."""
        if not is_sparse(X):
            super().fit(X, y, sample_weight)
            return self
        occurs = np.zeros(X.shape[1], dtype=np.bool_)
        occurs[X.indices] = True
        columns, positions = np.flatnonzero(occurs), np.cumsum(occurs, dtype=np.int32) - 1
        compact = type(X)((X.data, positions[X.indices], X.indptr), shape=(X.shape[0], columns.size))
        slopes: FloatArray = super().fit(compact, y, sample_weight).coef_
        self.coef_ = np.zeros((len(slopes), X.shape[1]))
        self.coef_[:, columns] = slopes
        self.n_features_in_ = X.shape[1]
        return self


def make_classifier() -> CompactLogisticRegression:
    """Return LIBLINEAR's logistic regression with the paper's options: ``-c 1`` and no ``-B``, hence no intercept."""
    return CompactLogisticRegression(solver="liblinear", C=1.0, fit_intercept=False)


def make_learner(labelled: ClassificationEnvironment) -> bc.FromClassifier:
    """Return the paper's policy, fitted to examples labelled in full: epsilon-greedy, one-vs-all, batches of 15."""
    initial = (labelled.features, labelled.rewards)
    policy = bc.FromClassifier(
        make_classifier(), epsilon=EPSILON, batch_size=BATCH_SIZE, initial=initial, minimize=True
    )
    policy.start(labelled.n_actions, int(labelled.features.shape[1]), np.random.default_rng(0))
    return policy


def evaluate_as_published(case: Case) -> dict[str, Result]:
    """Return the results of the paper's evaluators; all but RS run on the half that did not train rhat."""
    rng = np.random.default_rng([case.seed, 1])
    half, predicted = bc.Split(bc.PerAction(make_classifier())).predictions(case.log, rng)
    half_case = case._replace(log=half)
    results = {
        "DM": _timed(_run_direct_method, half_case, predicted),
        "RS": _timed(run_replay, bc.RS(), case, np.zeros((1, case.log.n_actions))),
        "WC": _timed(run_replay, bc.WC(), half_case, predicted),
    }
    for q in QUANTILES:
        results[f"DRns(q={q:g})"] = _timed(run_replay, bc.DRns(q=q, c_max=1.0), half_case, predicted)
    if is_learning(case.policy):
        results["ClockReplay, paper's rhat"] = _timed(_run_clock_replay, half_case, predicted)
    return results


def evaluate_as_recommended(case: Case, ridge: RidgeChoice) -> dict[str, Result]:
    """Return the results of our evaluators on all events: with a ridge chosen on spare data, and the default call."""
    model, default = ridge.cross_fit(sparse=is_sparse(case.log.contexts)), _timed(_run_default, case)
    if is_learning(case.policy):
        return {
            "ClockReplay, low variance": _timed(_run_cross_fitted_clock_replay, case, model),
            DEFAULT: default,
        }
    return {"DR, low variance": _timed(_run_doubly_robust, case, model), DEFAULT: default}


def run_replay(evaluator: Any, case: Case, predicted: FloatArray) -> Result:
    """Return the result of one pass of an evaluator that accepts events.

    The value is the mean over the histories that reached the horizon. If none did, it is that of the one partial
    history: an estimate of the policy's first rounds only.
    """
    request = EvaluationRequest(case.log, case.policy, horizon=case.horizon, seed=case.seed)
    _, schedule = evaluator.plan_replay(request)
    streams = RandomStreams.from_seed(case.seed)
    draws = streams.acceptance.random(len(case.log))
    options: dict[str, Any] = {"predictions": predicted, "draws": draws, "horizon": case.horizon}
    result = replay(case.log, case.policy, schedule, rng=streams.policy, **options)
    uses_rewards = isinstance(evaluator, bc.RS)
    values = [h.mean_accepted_reward if uses_rewards else h.value for h in result.complete or result.trajectories]
    return Result(float(np.mean(values)), sum(h.accepted for h in result.trajectories), len(result.complete))


def _timed(function: Callable[..., Result], *arguments: Any) -> Result:
    start = time.perf_counter()
    return function(*arguments)._replace(seconds=round(time.perf_counter() - start, 3))


def _run_direct_method(case: Case, predicted: FloatArray) -> Result:
    n = len(case.log) if case.horizon is None else min(len(case.log), DIRECT_HISTORIES * case.horizon)
    options: dict[str, Any] = {"reward_model": predicted[:n], "horizon": case.horizon, "seed": case.seed}
    return Result(bc.evaluate(case.log[:n], case.policy, bc.DM(), **options).value)


def _run_clock_replay(case: Case, predicted: FloatArray) -> Result:
    options: dict[str, Any] = {"horizon": case.horizon, "seed": case.seed, "replicates": None}
    try:
        estimate = bc.evaluate(case.log, case.policy, bc.ClockReplay(), reward_model=predicted, **options)
    except bc.HorizonNotReached:
        return Result(math.nan, complete=0)
    return _result(estimate)


def _run_default(case: Case) -> Result:
    return _result(bc.evaluate(case.log, case.policy, horizon=case.horizon, seed=case.seed))


def _result(estimate: bc.Estimate) -> Result:
    facts = estimate.diagnostics.to_dict()
    return Result(estimate.value, facts.get("rounds", math.nan), facts.get("passes", math.nan))


def _run_cross_fitted_clock_replay(case: Case, model: bc.CrossFit) -> Result:
    log, predicted = model.predictions(case.log, np.random.default_rng([case.seed, 2]))
    return _run_clock_replay(case._replace(log=log), predicted)


def _run_doubly_robust(case: Case, model: bc.CrossFit) -> Result:
    return Result(bc.evaluate(case.log, case.policy, bc.DR(), reward_model=model, seed=case.seed).value)
