"""What the past of a log says of the actions to come: a classifier that only ever looks back."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from backcast._arrays import Contexts, FloatArray, IntArray, is_sparse
from backcast.checks._drift import centred_ranks
from backcast.checks._evidence import SURE, excess_evidence, log_mean_exp, shortfall_evidence
from backcast.checks.findings import Finding
from backcast.log import Log
from backcast.propensities._choice_model import fit_choice_model

if TYPE_CHECKING:
    from backcast.checks.log import LogFacts

FEWEST = 200  # events from which a classifier is worth a try


FITTED = 6_000  # events a fit looks at


SCORED = 40_000  # events that are predicted


CELLS = 4_000_000  # events times actions that are predicted at once


ACTIONS = 30  # the most frequent actions, which alone are predicted


CLOSE = 1 / 3  # of the likeliest action's chance: from there on the second likeliest has a real one


FEATURES = 1_000  # the most frequent features, which alone are looked at


class Prediction(NamedTuple):
    """Predicted probabilities at some rows of a log, none of which the model had seen.

    ``own`` is that of the action taken, ``top`` the largest, ``hit`` whether the likeliest action was the one taken,
    ``usual`` the frequency of the action taken in the past that the model saw; ``close`` says where the second
    likeliest action has a real chance, and ``second`` whether it was taken there.
    """

    rows: IntArray
    own: FloatArray
    top: FloatArray
    hit: FloatArray
    usual: FloatArray
    close: FloatArray
    second: FloatArray


def predict_actions(log: Log, order: IntArray) -> Prediction | None:
    """Predict the second quarter of the log from the first, and the second half from the first half."""
    n = order.size
    if n < FEWEST:
        return None
    from threadpoolctl import threadpool_limits

    narrow = log.replace(_contexts=_narrow(log._contexts))
    scored = min(SCORED, max(1, CELLS // log.n_actions))
    stages = [(n // 4, n // 2), (n // 2, n)]
    # small fits in many threads wait for each other more than they work
    with threadpool_limits(1):
        parts = [_stage(narrow, order[:start], _some(order[start:end], scored)) for start, end in stages]
    return Prediction(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _stage(log: Log, past: IntArray, rows: IntArray) -> Prediction:
    training = log[_frequent(log, _some(past, FITTED))]
    chances = fit_choice_model(training).chances(
        log._contexts[rows], None if log._available is None else log._available[rows]
    )
    actions = log._actions[rows]
    taken = (np.arange(rows.size), actions)
    usual = np.bincount(training._actions, minlength=log.n_actions) / len(training)
    own, best, top = chances[taken], chances.argmax(axis=1), chances.max(axis=1)
    chances[np.arange(rows.size), best] = 0.0
    close = (chances.max(axis=1) >= CLOSE * top).astype(np.float64)
    second = close * (chances.argmax(axis=1) == actions)
    return Prediction(rows, own, top, (best == actions).astype(np.float64), usual[actions], close, second)


def _frequent(log: Log, rows: IntArray) -> IntArray:
    """The rows at which one of the most frequent actions was taken: a model of thousands would take minutes."""
    actions = log._actions[rows]
    counts = np.bincount(actions, minlength=log.n_actions)
    if log.n_actions <= ACTIONS:
        return rows
    common = np.argsort(-counts, kind="stable")[:ACTIONS]
    return rows[np.isin(actions, common)]


def _narrow(contexts: Contexts) -> Contexts:
    """At most so many features: those that are not 0 most often, where most are."""
    if contexts.shape[-1] <= FEATURES:
        return contexts
    if not is_sparse(contexts):
        return np.asarray(contexts)[..., :FEATURES]
    often = np.bincount(contexts.indices, minlength=contexts.shape[1])
    return contexts[:, np.sort(np.argsort(-often, kind="stable")[:FEATURES])]


def _some(rows: IntArray, most: int) -> IntArray:
    """At most so many rows, evenly spaced.

    >>> _some(np.arange(10), 4)
    array([0, 2, 5, 7])
    """
    if rows.size <= most:
        return rows
    return rows[np.arange(most) * rows.size // most]


NONE, WEAK = 0.1, 0.2  # correlations between recorded and predicted propensities


TELLTALE = 0.95  # probability from which a context gives the action away


GAIN = 0.01  # nats an event that contexts must tell of the actions before anything is made of correlations


# of what the propensities of the likeliest action, and of the second, should account for: below it something is wrong
# for sure; between these and 1 an action may be impossible at events that look like others
SHORT, HALF = 0.9, 0.5


JOIN = (
    "Join propensities to their events again, by key and action; if they are lost, estimate them with "
    "with_estimated_propensities"
)


DROP = "Leave out of the context whatever was not known before the choice"


LARGE = (
    "Is p the probability of the action taken, in the context on record? Was an action impossible at some events "
    "(then give the mask `available`), or were events dropped? If neither, propensities are too large"
)


def matching_actions(facts: LogFacts) -> Finding:
    """``E[q(a)/p]`` is at most 1 for predicted probabilities q, and 1 for the actions held likeliest."""
    found = facts.prediction
    if found is None:
        return Finding("matching_actions", "ok", math.nan, "too few events to tell how actions were chosen")
    p = facts.log._propensities[found.rows]
    predicted, likeliest = found.own / p, found.hit / p
    above = log_mean_exp(np.array([excess_evidence(predicted), excess_evidence(likeliest)]))
    largest = float(1 / p.min())
    below = shortfall_evidence(likeliest, float(likeliest.size), largest) - math.log(2)
    # propensities of the likeliest action, recorded for every action, are right for that one and betray the second
    second = shortfall_evidence(found.second / p, float(found.close.sum()), largest) - math.log(2)
    figure = float(predicted.mean())
    if above >= SURE:
        return _too_small(found, p, figure)
    if below >= SURE:
        return _too_large(found, p, float(likeliest.mean()))
    if second >= SURE:
        return _second_too_large(float((found.second / p).sum() / found.close.sum()))
    message = f"propensities agree with how contexts make actions likely (mean of q/p is {figure:.3g})"
    return Finding("matching_actions", "ok", figure, message)


def _too_small(found: Prediction, p: FloatArray, figure: float) -> Finding:
    message = f"actions that contexts make likely have too small propensities (mean of q/p is {figure:.3g}, not 1)"
    if float(np.median(found.own)) > TELLTALE > float(np.median(p)):
        return Finding("matching_actions", "fail", figure, f"{message}: a feature gives the action away", DROP)
    cause = _strangers(found, p) or "they are too small, or another logger's"
    return Finding("matching_actions", "fail", figure, f"{message}: {cause}", JOIN)


def _too_large(found: Prediction, p: FloatArray, figure: float) -> Finding:
    message = f"the likeliest action is taken less often than propensities say (mean of I/p is {figure:.3g}, not 1)"
    cause = _strangers(found, p)
    if cause:
        return Finding("matching_actions", "fail", figure, f"{message}: {cause}", JOIN)
    return Finding("matching_actions", "fail" if figure < SHORT else "warn", figure, message, LARGE)


def _second_too_large(figure: float) -> Finding:
    """The likeliest action's propensities are right, those of the second likeliest are not."""
    message = f"the second likeliest action is taken less often than propensities say (mean of I/p is {figure:.3g})"
    if figure < HALF:
        cause = "they look like those of the likeliest action, whichever was taken"
        return Finding("matching_actions", "fail", figure, f"{message}: {cause}", JOIN)
    return Finding("matching_actions", "warn", figure, message, LARGE)


def rank_correlation(first: FloatArray, second: FloatArray) -> float:
    """Spearman's correlation, 0 where a column is constant.

    >>> round(rank_correlation(np.array([1.0, 2.0, 5.0]), np.array([1.0, 4.0, 9.0])), 9)
    1.0
    """
    a, b = centred_ranks(first), centred_ranks(second)
    size = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / size if size > 0 else 0.0


def _strangers(found: Prediction, p: FloatArray) -> str:
    """What the propensities are, if not those of the actions taken, by how they go with the predicted ones."""
    if np.ptp(p) < 1e-9:
        return "they are all alike, the actions are not"
    gain = float(np.mean(np.log(np.maximum(found.own, 1e-12)) - np.log(np.maximum(found.usual, 1e-12))))
    own, top = rank_correlation(p, found.own), rank_correlation(p, found.top)
    if gain < GAIN or own >= WEAK:
        return ""
    if own < -NONE or top > own + WEAK:
        return "they look like those of another action"
    return "they have nothing to do with the actions, as if the column had been shuffled" if own < NONE else ""
