"""What the past of a log says of the actions to come: a classifier that only ever looks back."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from backcast.arrays import Contexts, FloatArray, IntArray, is_sparse
from backcast.log import Log
from backcast.propensities.choice import fit_choice_model

__all__ = ["Prediction", "predict_actions"]

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
