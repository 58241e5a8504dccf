"""Which action would the logger choose? Any classifier, or a softmax where classifiers do not reach."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from backcast.arrays import BoolArray, Contexts, FloatArray, IntArray
from backcast.errors import OptionError
from backcast.log import Log
from backcast.propensities.logit import fit_logit

__all__ = ["ChoiceModel", "fit_choice_model"]


class ChoiceModel(Protocol):
    """Something fitted that gives the probability of every action at each context."""

    def chances(self, contexts: Contexts, available: BoolArray | None) -> FloatArray:
        """Probabilities ``(n, K)``, rows summing to 1, 0 where an action is not available."""
        ...


def fit_choice_model(log: Log, model: Any = None) -> ChoiceModel:
    """Fit how the logged actions were chosen.

    Parameters
    ----------
    log
        Contexts, actions and masks of this log are used; its rewards and propensities are not.
    model
        A scikit-learn classifier with ``predict_proba``; a clone is fitted. None is a multinomial logistic
        regression: scikit-learn's, or our own softmax for masks, features of each action, or no features at all.

    Examples
    --------
    >>> log = Log([[0.0], [0.0]], actions=[0, 1], rewards=[0, 0], propensities=[0.5, 0.5])
    >>> fit_choice_model(log).chances(np.array([[1.0]]), None).round(6)
    array([[0.5, 0.5]])
    """
    if model is not None and log.has_action_features:
        raise OptionError(
            f"{type(model).__name__} classifies contexts, but this log has features of each action; "
            "leave model=None for a softmax over them"
        )
    one_class = log._actions.min() == log._actions.max()
    beyond = log._available is not None or log.has_action_features or log.n_features == 0
    if one_class or (model is None and beyond):
        return fit_logit(log)
    return _fit_classifier(log, model)


@dataclass(frozen=True, eq=False)
class _Classified:
    """A fitted classifier, its classes spread over all K actions."""

    classifier: Any
    n_actions: int

    def chances(self, contexts: Contexts, available: BoolArray | None) -> FloatArray:
        seen: IntArray = np.asarray(self.classifier.classes_, dtype=np.int64)
        table = np.zeros((contexts.shape[0], self.n_actions))
        table[:, seen] = self.classifier.predict_proba(contexts)
        return table if available is None else _among(table, available)


def _among(table: FloatArray, available: BoolArray) -> FloatArray:
    """The table with unavailable actions shut, rows summing to 1; even where nothing is left.

    >>> _among(np.array([[0.5, 0.25, 0.25], [1.0, 0.0, 0.0]]), np.array([[True, True, False], [False, True, True]]))
    array([[0.66666667, 0.33333333, 0.        ],
           [0.        , 0.5       , 0.5       ]])
    """
    left = table * available
    total = left.sum(axis=1, keepdims=True)
    even = available / available.sum(axis=1, keepdims=True)
    return np.where(total > 0, left / np.where(total > 0, total, 1.0), even)


def _fit_classifier(log: Log, model: Any) -> ChoiceModel:
    from sklearn.base import clone

    if model is None:
        return _Classified(_fit_default(log), log.n_actions)
    if not callable(getattr(model, "predict_proba", None)):
        raise OptionError(f"{model!r} has no predict_proba; give a classifier that tells probabilities")
    return _Classified(clone(model).fit(log.contexts, log.actions), log.n_actions)


def _fit_default(log: Log) -> Any:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    # sparse contexts would be filled up by centring; the intercept does the same
    pipeline = make_pipeline(StandardScaler(with_mean=False), LogisticRegression(max_iter=200))
    with warnings.catch_warnings():
        # nearly there is good enough, and so are few events of many actions: calibration and the diagnostics tell
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
        return pipeline.fit(log._contexts, log._actions)
