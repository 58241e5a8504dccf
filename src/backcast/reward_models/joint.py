"""One regression for all actions together."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Self

import numpy as np

from backcast.arrays import Contexts, FloatArray, IntArray, is_sparse
from backcast.log import Log
from backcast.reward_models.protocol import not_fitted
from backcast.reward_models.regression import Predictor, fit_regression
from backcast.reward_models.weighting import Weighting, check_weighting, event_weights

__all__ = ["Joint"]


@dataclass
class Joint:
    """One scikit-learn estimator over the features of the action taken, shared by all actions.

    For logs with features of each action, shape ``(n, K, d)``, it sees those of the action. Otherwise it sees the
    context followed by an indicator of the action; a linear estimator then gives all actions the same slopes, so
    prefer one that finds interactions, such as ``HistGradientBoostingRegressor()``.

    Parameters
    ----------
    estimator
        Any regressor, or a classifier with ``predict_proba``. None is ``Ridge(alpha=1.0)``.
    weights
        How events count: None, "inverse", "inverse_square", or a function of the log (see :class:`PerAction`).

    Examples
    --------
    >>> features = [[[0.0], [1.0]], [[2.0], [3.0]]]
    >>> log = Log(contexts=features, actions=[1, 0], rewards=[0.25, 0.5], propensities=[0.5, 0.5], reward_range=(0, 1))
    >>> from sklearn.linear_model import LinearRegression
    >>> Joint(LinearRegression()).fit(log).predict(np.array([[[0.0], [3.0]]])).round(6)
    array([[0.  , 0.75]])

    By hand: the line through (1, 1/4) and (2, 1/2) is a quarter of the feature.
    """

    estimator: Any = None
    _: KW_ONLY
    weights: Weighting = None
    _part: Predictor | None = field(init=False, repr=False, default=None)
    _bounds: tuple[float, float] = field(init=False, repr=False, default=(0.0, 0.0))
    _n_actions: int = field(init=False, repr=False, default=0)

    def __post_init__(self) -> None:
        check_weighting(self.weights)

    def fit(self, log: Log) -> Self:
        """Fit a clone of the estimator on the features of the actions taken."""
        self._bounds, self._n_actions = log.reward_bounds, log.n_actions
        features = _joint_features(log.contexts, log.actions, log.n_actions)
        self._part = fit_regression(self.estimator, features, log.rewards, event_weights(log, self.weights))
        return self

    def predict(self, contexts: Contexts) -> FloatArray:
        """Predicted reward of all actions for each context, shape ``(n, K)``."""
        if self._part is None:
            raise not_fitted(self)
        n = contexts.shape[0]
        predicted = np.empty((n, self._n_actions))
        for action in range(self._n_actions):
            features = _joint_features(contexts, np.full(n, action), self._n_actions)
            predicted[:, action] = self._part.predict(features)
        return np.clip(predicted, *self._bounds, out=predicted)


def _joint_features(contexts: Contexts, actions: IntArray, n_actions: int) -> Contexts:
    """What the estimator sees of each event and action.

    >>> _joint_features(np.array([[7.0]]), np.array([1]), 2)
    array([[7., 0., 1.]])
    """
    if contexts.ndim == 3:
        own: FloatArray = np.asarray(contexts)[np.arange(actions.size), actions]
        return own
    indicator = np.zeros((actions.size, n_actions))
    indicator[np.arange(actions.size), actions] = 1.0
    if is_sparse(contexts):
        import scipy.sparse

        return scipy.sparse.csr_array(scipy.sparse.hstack([contexts, scipy.sparse.csr_array(indicator)]))
    return np.hstack([np.asarray(contexts), indicator])
