"""Check that propensities belong to the actions recorded with them, by a model that predicts actions from the past."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from backcast._arrays import Contexts, FloatArray, IntArray, is_sparse
from backcast.checks._drift import centred_ranks
from backcast.checks._evidence import SURE, excess_evidence, mean_wealth, shortfall_evidence
from backcast.checks.findings import Finding, Verdict
from backcast.log import Log, replace_columns
from backcast.propensities._choice_model import fit_choice_model

if TYPE_CHECKING:
    from backcast.checks.log import LogFacts

FEWEST_EVENTS = 200  # from which a model is fitted
FITTED_EVENTS = 6_000  # most events of a fit
PREDICTED_EVENTS = 40_000  # most events that are predicted
PREDICTED_CELLS = 4_000_000  # most events times actions that are predicted at once
MODELLED_ACTIONS = 30  # the most frequent actions, to which the model is restricted
MODELLED_FEATURES = 1_000  # the most frequent features, to which the model is restricted
CLOSE = 1 / 3  # of the probability of the likeliest action: from there on the second likeliest is a real alternative
NO_CORRELATION, WEAK_CORRELATION = 0.1, 0.2  # between recorded and predicted propensities
LEAK = 0.95  # predicted probability from which a feature must contain the action
SMALLEST_GAIN = 0.01  # nats per event that contexts must add to a prediction before correlations are interpreted
# Share of the events at which the likeliest action, and the second likeliest, should have been taken, below which
# propensities are wrong for certain; between these and 1 an action may be impossible at events that look like others.
WRONG_LIKELIEST, WRONG_SECOND = 0.9, 0.5
JOIN = (
    "Join propensities to their events again, by key and action; if they are lost, estimate them with "
    "with_estimated_propensities"
)
DROP = "Remove from the context what was not known before the choice"
CHECK_LARGE = (
    "Is p the probability of the action taken, in the recorded context? Was an action impossible at some events "
    "(then give the mask `available`), or were events dropped? If neither, propensities are too large"
)


def matching_actions(facts: LogFacts) -> Finding:
    """Check that ``E[q(a)/p]`` is at most 1 for predicted probabilities q, and 1 for the likeliest action."""
    prediction = facts.prediction
    if prediction is None:
        return Finding("matching_actions", "ok", math.nan, "too few events to predict actions")
    p = facts.log.columns.propensities[prediction.rows]
    predicted, likeliest, second = prediction.taken / p, prediction.hit / p, prediction.second / p
    largest = float(1 / p.min())
    figure = float(predicted.mean())
    if mean_wealth([excess_evidence(predicted), excess_evidence(likeliest)]) >= SURE:
        return _report_too_small(prediction, p, figure)
    if shortfall_evidence(likeliest, float(likeliest.size), largest) - math.log(2) >= SURE:
        figure = float(likeliest.mean())
        message = f"the likeliest action is taken less often than recorded (mean of I/p is {figure:.3g}, not 1)"
        verdict: Verdict = "fail" if figure < WRONG_LIKELIEST else "warn"
        return _report_too_large(figure, message, _explain_mismatch(prediction, p), verdict)
    # if the propensity of the likeliest action is recorded for every action, only the second likeliest shows it
    if shortfall_evidence(second, float(prediction.close.sum()), largest) - math.log(2) >= SURE:
        figure = float(second.sum() / prediction.close.sum())
        message = f"the second likeliest action is taken less often than recorded (mean of I/p is {figure:.3g}, not 1)"
        cause = "they look like those of the likeliest action, whichever was taken" if figure < WRONG_SECOND else ""
        return _report_too_large(figure, message, cause, "warn")
    message = f"propensities agree with predicted actions (mean of q/p is {figure:.3g})"
    return Finding("matching_actions", "ok", figure, message)


def _report_too_small(prediction: Prediction, p: FloatArray, figure: float) -> Finding:
    message = f"actions that contexts make likely have too small propensities (mean of q/p is {figure:.3g}, not 1)"
    if float(np.median(prediction.taken)) > LEAK > float(np.median(p)):
        return Finding("matching_actions", "fail", figure, f"{message}: a feature contains the action", DROP)
    cause = _explain_mismatch(prediction, p) or "they are too small, or another logger's"
    return Finding("matching_actions", "fail", figure, f"{message}: {cause}", JOIN)


def _report_too_large(figure: float, message: str, cause: str, verdict: Verdict) -> Finding:
    """Return a fault of this verdict; propensities are wrong for certain if the cause is known."""
    if cause:
        return Finding("matching_actions", "fail", figure, f"{message}: {cause}", JOIN)
    return Finding("matching_actions", verdict, figure, message, CHECK_LARGE)


def _explain_mismatch(prediction: Prediction, p: FloatArray) -> str:
    """Return what the propensities seem to be, by their correlation with predicted ones; empty if unknown."""
    if np.ptp(p) < 1e-9:
        return "they are all equal, but the actions are not equally likely"
    gain = float(np.mean(np.log(np.maximum(prediction.taken, 1e-12)) - np.log(np.maximum(prediction.usual, 1e-12))))
    with_taken, with_top = rank_correlation(p, prediction.taken), rank_correlation(p, prediction.top)
    if gain < SMALLEST_GAIN or with_taken >= WEAK_CORRELATION:
        return ""
    if with_taken < -NO_CORRELATION or with_top > with_taken + WEAK_CORRELATION:
        return "they look like those of another action"
    return (
        "they are unrelated to the actions, as if the column had been shuffled" if with_taken < NO_CORRELATION else ""
    )


def rank_correlation(first: FloatArray, second: FloatArray) -> float:
    """Spearman's correlation, 0 if a column is constant.

    >>> round(rank_correlation(np.array([1.0, 2.0, 5.0]), np.array([1.0, 4.0, 9.0])), 9)
    1.0
    """
    a, b = centred_ranks(first), centred_ranks(second)
    scale = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / scale if scale > 0 else 0.0


class Prediction(NamedTuple):
    """Predicted probabilities at some rows of a log that the model was not fitted on.

    ``taken`` is that of the action taken, ``top`` the largest, ``hit`` whether the likeliest action was taken,
    ``usual`` the frequency of the action taken in the events of the fit; ``close`` is whether the second likeliest
    action is a real alternative, and ``second`` whether it was taken there.
    """

    rows: IntArray
    taken: FloatArray
    top: FloatArray
    hit: FloatArray
    usual: FloatArray
    close: FloatArray
    second: FloatArray


def predict_actions(log: Log) -> Prediction | None:
    """Predict the second quarter of the log from the first, and the second half from the first half."""
    n = len(log)
    if n < FEWEST_EVENTS:
        return None
    from threadpoolctl import threadpool_limits

    contexts = log.columns.contexts
    if contexts.shape[-1] > MODELLED_FEATURES:
        contexts = contexts[..., frequent_features(contexts, MODELLED_FEATURES)]
    narrow = replace_columns(log, contexts=contexts)
    most = min(PREDICTED_EVENTS, max(1, PREDICTED_CELLS // log.n_actions))
    # small fits in several threads spend most of their time waiting for each other
    with threadpool_limits(1):
        parts = [
            _predict_rows(narrow, np.arange(start), _thin_rows(np.arange(start, stop), most))
            for start, stop in ((n // 4, n // 2), (n // 2, n))
        ]
    return Prediction(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _predict_rows(log: Log, past: IntArray, rows: IntArray) -> Prediction:
    past = _thin_rows(past, FITTED_EVENTS)
    if log.n_actions > MODELLED_ACTIONS:  # a model of thousands of actions would take minutes
        counts = np.bincount(log.columns.actions[past], minlength=log.n_actions)
        past = past[np.isin(log.columns.actions[past], np.argsort(-counts, kind="stable")[:MODELLED_ACTIONS])]
    training = log[past]
    model = fit_choice_model(training)
    available = None if log.columns.available is None else log.columns.available[rows]
    probabilities = model.probabilities(log.columns.contexts[rows], available)
    actions, events = log.columns.actions[rows], np.arange(rows.size)
    usual = np.bincount(training.columns.actions, minlength=log.n_actions) / len(training)
    taken, best, top = probabilities[events, actions], probabilities.argmax(axis=1), probabilities.max(axis=1)
    probabilities[events, best] = 0.0
    close = (probabilities.max(axis=1) >= CLOSE * top).astype(np.float64)
    second = close * (probabilities.argmax(axis=1) == actions)
    return Prediction(rows, taken, top, (best == actions).astype(np.float64), usual[actions], close, second)


def frequent_features(contexts: Contexts, most: int) -> IntArray:
    """Return up to ``most`` columns, in order: of sparse contexts those that are most often not 0, else the first."""
    if not is_sparse(contexts):
        return np.arange(min(most, contexts.shape[-1]))
    counts = np.bincount(contexts.indices, minlength=contexts.shape[1])
    return np.sort(np.argsort(-counts, kind="stable")[:most])


def _thin_rows(rows: IntArray, most: int) -> IntArray:
    """Return at most so many of the rows, evenly spaced.

    >>> _thin_rows(np.arange(10), 4)
    array([0, 2, 5, 7])
    """
    return rows if rows.size <= most else rows[np.arange(most) * rows.size // most]
