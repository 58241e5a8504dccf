"""What both tasks of section 4.1 share: classifiers, the policy, the paper's evaluators, and ours.

Dudik, Erhan, Langford, Li, "Sample-efficient Nonstationary Policy Evaluation for Contextual Bandits", UAI 2012.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge

from backcast._arrays import FloatArray, is_sparse
from backcast._engine.replay import Run
from backcast._request import EvaluationRequest, RandomStreams
from backcast.environments import ClassificationEnvironment
from backcast.errors import HorizonNotReached
from backcast.evaluation import evaluate
from backcast.evaluators import DR
from backcast.evaluators.clock_replay import ClockReplay
from backcast.evaluators.direct import DM
from backcast.evaluators.drns import WC, DRns
from backcast.evaluators.rejection import RS
from backcast.log import Log
from backcast.policies.base import is_learning
from backcast.policies.classifier import FromClassifier
from backcast.reward_models import CrossFit, LowVariance, PerAction, Split

__all__ = [
    "OURS",
    "PAPER",
    "QUANTILES",
    "Case",
    "Found",
    "Model",
    "chosen_model",
    "learner",
    "our_findings",
    "paper_findings",
    "simulated",
]

QUANTILES = (0.0, 0.01, 0.05, 0.1)
PAPER = ("DM", "RS", "WC", *(f"DRns(q={q:g})" for q in QUANTILES))
OURS = ("DR, low variance", "ClockReplay, paper's rhat", "ClockReplay, low variance")
EPSILON = 0.1
BATCH = 15
STRETCHES = 6  # the direct method simulates a learner this often: its error is bias, more runs only cost time


class Found(NamedTuple):
    """An evaluator's answer: the value, events added to histories, histories of full length, and the time it took."""

    value: float
    accepted: float = math.nan
    complete: float = math.nan
    seconds: float = math.nan


class Case(NamedTuple):
    """One question of an experiment: what would the policy lose on average in its first ``horizon`` rounds?"""

    log: Log
    policy: Any
    horizon: int | None
    seed: int


class Model(NamedTuple):
    """A weighting and a penalty for ridge regressions, as chosen by :class:`backcast.LowVariance`."""

    weights: str
    alpha: float

    def cross_fitted(self, *, sparse: bool) -> CrossFit:
        """The reward model, each event predicted by regressions that have not seen it."""
        ridge = Ridge(self.alpha, solver="sparse_cg", tol=1e-3) if sparse else Ridge(self.alpha)
        weights: Any = None if self.weights == "none" else self.weights
        return CrossFit(PerAction(ridge, weights=weights))


class SeenColumns(LogisticRegression):  # type: ignore[misc]
    """Logistic regression whose solver meets only the columns that occur: the others' coefficients are 0 anyway."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> SeenColumns:  # noqa: N803
        """Fit on the columns that occur in the sparse ``X``, or on all of a dense one."""
        if not is_sparse(X):
            super().fit(X, y, sample_weight)
            return self
        seen = np.zeros(X.shape[1], dtype=np.bool_)
        seen[X.indices] = True
        columns, places = np.flatnonzero(seen), np.cumsum(seen, dtype=np.int32) - 1
        narrow = type(X)((X.data, places[X.indices], X.indptr), shape=(X.shape[0], columns.size))
        slopes: FloatArray = super().fit(narrow, y, sample_weight).coef_
        self.coef_ = np.zeros((len(slopes), X.shape[1]))
        self.coef_[:, columns] = slopes
        self.n_features_in_ = X.shape[1]
        return self


def logistic() -> SeenColumns:
    """LIBLINEAR's logistic regression as the paper called it, ``-c 1``: no ``-B``, so there is no intercept."""
    return SeenColumns(solver="liblinear", C=1.0, fit_intercept=False)


def learner(labelled: ClassificationEnvironment) -> FromClassifier:
    """The paper's policy, already fitted to the examples labelled in full: epsilon-greedy, one-vs-all, by 15."""
    known = (labelled.features, labelled.rewards)
    policy = FromClassifier(logistic(), epsilon=EPSILON, batch_size=BATCH, initial=known, minimize=True)
    policy.start(labelled.n_actions, int(labelled.features.shape[1]), np.random.default_rng(0))
    return policy


def chosen_model(log: Log) -> Model:
    """The ridge whose doubly robust event values vary least on this log, which no trial uses."""
    choice = LowVariance(weights=("none", "inverse", "inverse_square")).fit(log).choice
    assert choice is not None
    return Model(choice.weights, choice.alpha)


def simulated(evaluator: Any, case: Case, predicted: FloatArray) -> Found:
    """One pass of an evaluator that accepts events.

    The value is the mean over the histories that reached the horizon. Where none did, it is that of the one partial
    history: an estimate of the policy's first rounds alone.
    """
    request = EvaluationRequest(case.log, case.policy, horizon=case.horizon, seed=case.seed)
    _, schedule = evaluator.plan_replay(request)
    streams = RandomStreams.of(case.seed)
    bounds, n = case.log.reward_bounds, len(case.log)
    run = Run(case.policy, schedule, bounds, streams.policy, horizon=case.horizon, length=n, keep_order=False)
    run.feed(case.log, predicted, streams.acceptance.random(n))
    histories = run.close()
    complete = [history for history in histories if history.complete]
    plain = isinstance(evaluator, RS)
    values = [h.mean_accepted_reward if plain else h.value for h in complete or histories]
    return Found(float(np.mean(values)), sum(h.accepted for h in histories), len(complete))


def paper_findings(case: Case) -> dict[str, Found]:
    """All evaluators of the paper on one log; all but RS run on the half that did not train rhat."""
    rng = np.random.default_rng([case.seed, 1])
    half, predicted = Split(PerAction(logistic())).predictions(case.log, rng)
    rest = case._replace(log=half)
    found = {
        "DM": _timed(_direct, rest, predicted),
        "RS": _timed(simulated, RS(), case, np.zeros((1, case.log.n_actions))),
        "WC": _timed(simulated, WC(), rest, predicted),
    }
    for q in QUANTILES:
        found[f"DRns(q={q:g})"] = _timed(simulated, DRns(q=q, c_max=1.0), rest, predicted)
    if is_learning(case.policy):
        found["ClockReplay, paper's rhat"] = _timed(_clock, rest, predicted)
    return found


def our_findings(case: Case, model: Model) -> dict[str, Found]:
    """What the library recommends: every event used, a cross-fitted reward model of low variance."""
    if is_learning(case.policy):
        return {"ClockReplay, low variance": _timed(_our_clock, case, model)}
    return {"DR, low variance": _timed(_doubly_robust, case, model)}


def _timed(function: Callable[..., Found], *arguments: Any) -> Found:
    start = time.perf_counter()
    return function(*arguments)._replace(seconds=round(time.perf_counter() - start, 3))


def _direct(case: Case, predicted: FloatArray) -> Found:
    events = len(case.log) if case.horizon is None else min(len(case.log), STRETCHES * case.horizon)
    log, means = case.log[:events], predicted[:events]
    return Found(evaluate(log, case.policy, DM(), reward_model=means, horizon=case.horizon, seed=case.seed).value)


def _clock(case: Case, predicted: FloatArray) -> Found:
    options: dict[str, Any] = {"horizon": case.horizon, "seed": case.seed, "replicates": None}
    try:
        estimate = evaluate(case.log, case.policy, ClockReplay(), reward_model=predicted, **options)
    except HorizonNotReached:
        return Found(math.nan, complete=0)
    facts = estimate.diagnostics.to_dict()
    return Found(estimate.value, facts["rounds"], facts["passes"])


def _our_clock(case: Case, model: Model) -> Found:
    honest = model.cross_fitted(sparse=is_sparse(case.log.contexts))
    log, predicted = honest.predictions(case.log, np.random.default_rng([case.seed, 2]))
    return _clock(case._replace(log=log), predicted)


def _doubly_robust(case: Case, model: Model) -> Found:
    honest = model.cross_fitted(sparse=is_sparse(case.log.contexts))
    return Found(evaluate(case.log, case.policy, DR(), reward_model=honest, seed=case.seed).value)
