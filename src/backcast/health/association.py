"""Do propensities belong to the actions beside them? A classifier that looks back only is asked."""

from __future__ import annotations

import math

import numpy as np

from backcast.arrays import FloatArray
from backcast.health.case import Case
from backcast.health.evidence import SURE, excess_evidence, log_mean_exp, shortfall_evidence
from backcast.health.findings import Finding
from backcast.health.prediction import Prediction
from backcast.health.ranks import rank_correlation

__all__ = ["matching_actions"]

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


def matching_actions(case: Case) -> Finding:
    """``E[q(a)/p]`` is at most 1 for predicted probabilities q, and 1 for the actions held likeliest."""
    found = case.prediction
    if found is None:
        return Finding("matching_actions", "ok", math.nan, "too few events to tell how actions were chosen")
    p = case.log._propensities[found.rows]
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
