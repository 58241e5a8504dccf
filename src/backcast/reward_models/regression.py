"""One scikit-learn estimator on one set of events, and what to say where there is too little to fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from backcast.arrays import Contexts, FloatArray, IntArray
from backcast.errors import OptionError
from backcast.reward_models.weighting import mean_one

__all__ = ["Expectation", "Level", "Predictor", "fit_regression"]

MOST_CLASSES = 100  # more distinct rewards than this are a quantity, not classes
FEW = 10  # a class seen less often than this may defeat a classifier's own cross-validation


class Predictor(Protocol):
    """Something fitted that predicts one reward for each row of features."""

    def predict(self, features: Contexts) -> Any:
        """Predicted reward of each row."""
        ...


@dataclass(frozen=True)
class Level:
    """The same number for every row."""

    value: float

    def predict(self, features: Contexts) -> FloatArray:
        """The number, once a row."""
        return np.full(features.shape[0], self.value)


@dataclass(frozen=True, eq=False)
class Expectation:
    """A fitted classifier of reward classes, read as the expected reward ``sum_c c P(c | x)``."""

    classifier: Any
    classes: FloatArray

    def predict(self, features: Contexts) -> FloatArray:
        """Expected reward of each row."""
        seen: IntArray = np.asarray(self.classifier.classes_, dtype=np.int64)
        chances: FloatArray = self.classifier.predict_proba(features)
        expected: FloatArray = chances @ self.classes[seen]
        return expected


def fit_regression(estimator: Any, features: Contexts, rewards: FloatArray, weights: FloatArray | None) -> Predictor:
    """Fit a clone of the estimator (None: a ridge); where all rewards agree or there are no features, take the mean.

    >>> fit_regression(None, np.array([[0.0], [1.0]]), np.array([0.5, 0.5]), None)
    Level(value=0.5)
    """
    weights = None if weights is None else mean_one(weights)
    if features.shape[1] == 0 or (rewards == rewards[0]).all():
        return Level(float(np.average(rewards, weights=weights)))
    from sklearn.base import clone, is_classifier
    from sklearn.linear_model import Ridge

    fresh = Ridge(alpha=1.0) if estimator is None else clone(estimator)
    options = _weight_options(fresh, weights)
    if is_classifier(fresh):
        return _fit_classifier(fresh, features, rewards, options)
    return _Flat(fresh.fit(features, rewards, **options))


@dataclass(frozen=True, eq=False)
class _Flat:
    """A fitted regressor whose answer is one-dimensional whatever its own habit."""

    regressor: Any

    def predict(self, features: Contexts) -> FloatArray:
        return np.asarray(self.regressor.predict(features), dtype=np.float64).reshape(-1)


def _fit_classifier(fresh: Any, features: Contexts, rewards: FloatArray, options: dict[str, FloatArray]) -> Predictor:
    classes, codes = np.unique(rewards, return_inverse=True)
    if classes.size > MOST_CLASSES:
        raise OptionError(
            f"{type(fresh).__name__} is a classifier but the rewards take {classes.size} different values; "
            "use a regressor"
        )
    try:
        fresh.fit(features, codes, **options)
    except ValueError:
        if np.bincount(codes).min() >= FEW:
            raise
        weights = next(iter(options.values()), None)
        return Level(float(np.average(rewards, weights=weights)))
    if not hasattr(fresh, "predict_proba"):
        raise OptionError(
            f"{type(fresh).__name__} is a classifier without predict_proba; use one that gives probabilities, "
            "or a regressor"
        )
    return Expectation(fresh, classes)


def _weight_options(estimator: Any, weights: FloatArray | None) -> dict[str, FloatArray]:
    """The keyword under which ``fit`` takes the weights; in a pipeline that of its last step."""
    if weights is None:
        return {}
    from sklearn.utils.validation import has_fit_parameter

    steps = getattr(estimator, "steps", None)
    prefix, last = (f"{steps[-1][0]}__", steps[-1][1]) if steps else ("", estimator)
    if not has_fit_parameter(last, "sample_weight"):
        raise OptionError(f"{type(last).__name__} takes no sample weights; choose another estimator, or weights=None")
    return {f"{prefix}sample_weight": weights}
