"""One regression an action."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Self

import numpy as np

from backcast.arrays import Contexts, FloatArray, IntArray
from backcast.log import Log
from backcast.reward_models.protocol import not_fitted
from backcast.reward_models.regression import Level, Predictor, fit_regression
from backcast.reward_models.weighting import Weighting, check_weighting, event_weights

__all__ = ["PerAction", "features_of", "rows_by_action"]


@dataclass
class PerAction:
    """A scikit-learn estimator for each action, fitted on the events in which that action was taken.

    A classifier is read as the expected reward ``sum_c c P(c | x)``. An action never taken gets the mean reward
    of the log, one whose rewards were all the same gets that reward. Predictions stay within the reward range.

    Parameters
    ----------
    estimator
        Any regressor, or a classifier with ``predict_proba``; cloned for each action. None is ``Ridge(alpha=1.0)``.
    weights
        How events count: None (alike), "inverse" (1/p), "inverse_square" (1/p^2), or a function of the log.
        Events the logger found unlikely weigh most in a doubly robust estimate, and so they may here.

    Examples
    --------
    >>> log = Log(contexts=[[-1.0], [1.0], [5.0]], actions=[0, 0, 1], rewards=[0.0, 1.0, 0.5], propensities=[0.5] * 3)
    >>> from sklearn.linear_model import LinearRegression
    >>> PerAction(LinearRegression()).fit(log).predict(np.array([[0.5]]))
    array([[0.75, 0.5 ]])

    By hand: action 0's line runs through (-1, 0) and (1, 1); action 1 was seen once, with reward 0.5.
    """

    estimator: Any = None
    _: KW_ONLY
    weights: Weighting = None
    _parts: list[Predictor] = field(init=False, repr=False, default_factory=list)
    _bounds: tuple[float, float] = field(init=False, repr=False, default=(0.0, 0.0))

    def __post_init__(self) -> None:
        check_weighting(self.weights)

    def fit(self, log: Log) -> Self:
        """Fit a clone of the estimator for each action."""
        weights = event_weights(log, self.weights)
        self._bounds = log.reward_bounds
        parts: list[Predictor] = [Level(float(log.rewards.mean()))] * log.n_actions
        for action, rows in rows_by_action(log):
            features = features_of(log.contexts, action)[rows]
            own = None if weights is None else weights[rows]
            parts[action] = fit_regression(self.estimator, features, log.rewards[rows], own)
        self._parts = parts
        return self

    def predict(self, contexts: Contexts) -> FloatArray:
        """Predicted reward of all actions for each context, shape ``(n, K)``."""
        if not self._parts:
            raise not_fitted(self)
        predicted = np.empty((contexts.shape[0], len(self._parts)))
        for action, part in enumerate(self._parts):
            predicted[:, action] = part.predict(features_of(contexts, action))
        return np.clip(predicted, *self._bounds, out=predicted)


def features_of(contexts: Contexts, action: int) -> Contexts:
    """Features that describe one action: its own where actions have some, else the context's."""
    if contexts.ndim == 3:
        own: FloatArray = np.asarray(contexts)[:, action, :]
        return own
    return contexts


def rows_by_action(log: Log) -> Iterator[tuple[int, IntArray]]:
    """Each action that was taken, with the positions of its events in order."""
    order = np.argsort(log.actions, kind="stable")
    ends = np.cumsum(np.bincount(log.actions, minlength=log.n_actions))
    for action, rows in enumerate(np.split(order, ends[:-1])):
        if rows.size:
            yield action, rows
