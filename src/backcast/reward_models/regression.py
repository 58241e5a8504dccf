"""Reward models: the protocol, Constant, PerAction and Joint, and fitting one scikit-learn estimator to rewards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal, Protocol, Self, TypeAlias, runtime_checkable

import numpy as np

from backcast._arrays import Contexts, FloatArray, IntArray, is_sparse
from backcast._parameters import Parametrized
from backcast.errors import OptionError
from backcast.log import Log, replace_columns
from backcast.reward_models._ridge_solution import solve_ridge

MAX_CLASSES = 100  # rewards with more distinct values are a quantity, not classes
RARE_CLASS = 10  # a class with fewer examples may make a classifier's internal cross-validation fail

Weighting: TypeAlias = Literal["inverse", "inverse_square"] | Callable[[Log], FloatArray] | None


@runtime_checkable
class RewardModel(Protocol):
    """A prediction of the reward of each action in each context, of any quality.

    A poor model costs precision, never correctness: doubly robust evaluators correct it from the log.
    """

    def fit(self, log: Log) -> Self:
        """Fit on the events of the log; earlier fits are forgotten."""
        ...

    def predict(self, contexts: Contexts) -> FloatArray:
        """Return the predicted reward of all K actions for each context, shape ``(n, K)``."""
        ...


def is_estimator(model: object) -> bool:
    """Return whether a model is an estimator of scikit-learn, not a reward model of this package.

    >>> is_estimator(Constant())
    False
    """
    return hasattr(model, "get_params") and not isinstance(model, Parametrized)


@dataclass
class Constant(Parametrized):
    """The same prediction for every action: a given value, or the mean reward of the log.

    Even this removes most of the bias of stopping at a fixed number of accepted events.

    Parameters
    ----------
    value
        The prediction; None uses the mean reward of the log it is fitted on.

    Examples
    --------
    >>> log = Log(contexts=[[0.0], [1.0]], actions=[0, 1], rewards=[1.0, 0.5], propensities=[0.5, 0.5])
    >>> Constant().fit(log).predict(log.contexts)
    array([[0.75, 0.75],
           [0.75, 0.75]])
    """

    value: float | None = None
    _prediction: float = field(init=False, repr=False, default=0.0)
    _n_actions: int = field(init=False, repr=False, default=0)

    def fit(self, log: Log) -> Self:
        """Store the mean reward (unless a value was given) and the number of actions."""
        self._prediction = float(log.rewards.mean()) if self.value is None else float(self.value)
        self._n_actions = log.n_actions
        return self

    def predict(self, contexts: Contexts) -> FloatArray:
        """Return the constant for all actions of each context, shape ``(n, K)``."""
        if self._n_actions == 0:
            raise not_fitted_error(self)
        return np.full((contexts.shape[0], self._n_actions), self._prediction)


@dataclass
class PerAction(Parametrized):
    """A scikit-learn estimator for each action, fitted on the events in which that action was taken.

    The prediction of a classifier is the expected reward ``sum_c c P(c | x)``. An action that was never taken gets the
    mean reward of the log, one whose rewards are all equal gets that reward. Predictions stay within the reward range.

    Parameters
    ----------
    estimator
        Any regressor, or a classifier with ``predict_proba``; cloned for each action. None is ``Ridge(alpha=1.0)``.
    weights
        Training weights: None (equal), "inverse" (1/p), "inverse_square" (1/p^2), or a function of the log.
        Events that the logger made unlikely weigh most in a doubly robust estimate; these options give them more
        weight in the fit, too.

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
    _predictors: list[Predictor] = field(init=False, repr=False, default_factory=list)
    _bounds: tuple[float, float] = field(init=False, repr=False, default=(0.0, 0.0))

    def __post_init__(self) -> None:
        check_weighting(self.weights)

    def fit(self, log: Log) -> Self:
        """Fit a clone of the estimator for each action."""
        return self._fit(log, log.contexts, np.arange(len(log)))

    def fit_rows(self, log: Log, rows: IntArray) -> Self:
        """Fit on the events at these positions, as ``fit(log[rows])`` does.

        Contexts are copied for one action at a time: a copy of four fifths of a log would be most of the memory of
        cross-fitting.
        """
        if callable(self.weights):
            return self.fit(log[rows])
        return self._fit(replace_columns(log, contexts=np.zeros((len(log), 0)))[rows], log.contexts, rows)

    def _fit(self, events: Log, contexts: Contexts, positions: IntArray) -> Self:
        """Fit on events whose contexts are at these positions of ``contexts``."""
        weights = event_weights(events, self.weights)
        self._bounds = events.reward_bounds
        predictors: list[Predictor] = [ConstantPrediction(float(events.rewards.mean()))] * events.n_actions
        for action, rows in rows_by_action(events):
            row_weights = None if weights is None else weights[rows]
            features = action_features(contexts, action)[positions[rows]]
            predictors[action] = fit_regression(self.estimator, features, events.rewards[rows], row_weights)
            del features  # or it would be in memory together with those of the next action
        self._predictors = predictors
        return self

    def predict(self, contexts: Contexts) -> FloatArray:
        """Return the predicted reward of all actions for each context, shape ``(n, K)``."""
        if not self._predictors:
            raise not_fitted_error(self)
        predicted = np.empty((contexts.shape[0], len(self._predictors)))
        for action, predictor in enumerate(self._predictors):
            predicted[:, action] = predictor.predict(action_features(contexts, action))
        return np.clip(predicted, *self._bounds, out=predicted)


@dataclass
class Joint(Parametrized):
    """One scikit-learn estimator over the features of the action taken, shared by all actions.

    For logs with features of each action, shape ``(n, K, d)``, its input is the features of the action. Otherwise it is
    the context followed by an indicator of the action; a linear estimator then gives all actions the same slopes, so
    prefer one that models interactions, such as ``HistGradientBoostingRegressor()``.

    Parameters
    ----------
    estimator
        Any regressor, or a classifier with ``predict_proba``. None is ``Ridge(alpha=1.0)``.
    weights
        Training weights: None, "inverse", "inverse_square", or a function of the log (see :class:`PerAction`).

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
    _predictor: Predictor | None = field(init=False, repr=False, default=None)
    _bounds: tuple[float, float] = field(init=False, repr=False, default=(0.0, 0.0))
    _n_actions: int = field(init=False, repr=False, default=0)

    def __post_init__(self) -> None:
        check_weighting(self.weights)

    def fit(self, log: Log) -> Self:
        """Fit a clone of the estimator on the features of the actions taken."""
        self._bounds, self._n_actions = log.reward_bounds, log.n_actions
        features = _joint_features(log.contexts, log.actions, log.n_actions)
        self._predictor = fit_regression(self.estimator, features, log.rewards, event_weights(log, self.weights))
        return self

    def predict(self, contexts: Contexts) -> FloatArray:
        """Return the predicted reward of all actions for each context, shape ``(n, K)``."""
        if self._predictor is None:
            raise not_fitted_error(self)
        n = contexts.shape[0]
        predicted = np.empty((n, self._n_actions))
        for action in range(self._n_actions):
            features = _joint_features(contexts, np.full(n, action), self._n_actions)
            predicted[:, action] = self._predictor.predict(features)
        return np.clip(predicted, *self._bounds, out=predicted)


def not_fitted_error(model: object) -> OptionError:
    """Return the error of a model whose predict is called before fit."""
    return OptionError(f"{type(model).__name__} has not been fitted; call fit(log) before predict or Fitted(model)")


def assign_folds(n: int, folds: int, rng: np.random.Generator) -> IntArray:
    """Return a random fold ``0..folds-1`` for each of n events, all folds of nearly equal size.

    >>> np.bincount(assign_folds(7, 3, np.random.default_rng(0))).tolist()
    [3, 2, 2]
    """
    return rng.permutation(n) % folds


def rows_by_action(log: Log) -> Iterator[tuple[int, IntArray]]:
    """Yield each action that was taken, with the positions of its events in order."""
    order = np.argsort(log.columns.actions, kind="stable")
    ends = np.cumsum(np.bincount(log.columns.actions, minlength=log.n_actions))
    for action, rows in enumerate(np.split(order, ends[:-1])):
        if rows.size:
            yield action, rows


def action_features(contexts: Contexts, action: int) -> Contexts:
    """Return the features of one action at each event, or the contexts if actions have no features."""
    if contexts.ndim == 3:
        features: FloatArray = np.asarray(contexts)[:, action, :]
        return features
    return contexts


def _joint_features(contexts: Contexts, actions: IntArray, n_actions: int) -> Contexts:
    """Return the input of a joint estimator for each event and its action.

    >>> _joint_features(np.array([[7.0]]), np.array([1]), 2)
    array([[7., 0., 1.]])
    """
    if contexts.ndim == 3:
        features: FloatArray = np.asarray(contexts)[np.arange(actions.size), actions]
        return features
    indicator = np.zeros((actions.size, n_actions))
    indicator[np.arange(actions.size), actions] = 1.0
    if is_sparse(contexts):
        import scipy.sparse

        return scipy.sparse.csr_array(scipy.sparse.hstack([contexts, scipy.sparse.csr_array(indicator)]))
    return np.hstack([np.asarray(contexts), indicator])


def check_weighting(weights: object) -> None:
    """Raise if ``weights`` is not one of the known weightings."""
    if weights not in (None, "inverse", "inverse_square") and not callable(weights):
        raise OptionError(
            f"weights is {weights!r}; give None, 'inverse', 'inverse_square', or a function of the log "
            "that returns one weight per event"
        )


def event_weights(log: Log, weights: Weighting) -> FloatArray | None:
    """Return one training weight per event, up to a common factor; None for equal weights.

    >>> log = Log(contexts=None, actions=[0, 1], rewards=[1.0, 0.0], propensities=[0.25, 0.5])
    >>> event_weights(log, "inverse")
    array([1. , 0.5])
    """
    if weights is None:
        return None
    if weights == "inverse":
        return inverse_power(log.columns.propensities, 1)
    if weights == "inverse_square":
        return inverse_power(log.columns.propensities, 2)
    n, values = len(log), np.asarray(weights(log), dtype=np.float64)
    if values.shape != (n,):
        raise OptionError(f"weights returned shape {values.shape} for a log of {n} events; expected ({n},)")
    bad = ~(np.isfinite(values) & (values >= 0))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise OptionError(f"row {row}: weights returned {values[row]}; weights must be finite and not negative")
    return values


def inverse_power(propensities: FloatArray, power: int) -> FloatArray:
    """``p^-power`` up to a common factor, relative to the smallest p so that no square overflows."""
    relative: FloatArray = propensities.min() / propensities
    return relative**power


def scale_to_mean_one(weights: FloatArray) -> FloatArray:
    """Scale weights to mean 1, so that a regularisation strength means the same for every weighting.

    >>> scale_to_mean_one(np.array([1.0, 3.0]))
    array([0.5, 1.5])
    """
    mean = weights.mean()
    # weights that are all 0 do not rank their events: count them equally
    return weights / mean if mean > 0 else np.ones_like(weights)


class Predictor(Protocol):
    """A fitted estimator that predicts one reward for each row of features."""

    def predict(self, features: Contexts) -> Any:
        """Return the predicted reward of each row."""
        ...


@dataclass(frozen=True)
class ConstantPrediction:
    """The same number for every row."""

    value: float

    def predict(self, features: Contexts) -> FloatArray:
        """Return the number once per row."""
        return np.full(features.shape[0], self.value)


@dataclass(frozen=True, eq=False)
class ExpectedReward:
    """The expected reward ``sum_c c P(c | x)`` by a fitted classifier of reward classes."""

    classifier: Any
    classes: FloatArray

    def predict(self, features: Contexts) -> FloatArray:
        """Return the expected reward of each row."""
        codes: IntArray = np.asarray(self.classifier.classes_, dtype=np.int64)
        probabilities: FloatArray = self.classifier.predict_proba(features)
        expected: FloatArray = probabilities @ self.classes[codes]
        return expected


@dataclass(frozen=True, eq=False)
class _FlatRegressor:
    """A fitted regressor whose predictions are made one-dimensional."""

    regressor: Any

    def predict(self, features: Contexts) -> FloatArray:
        return np.asarray(self.regressor.predict(features), dtype=np.float64).reshape(-1)


def fit_regression(estimator: Any, features: Contexts, rewards: FloatArray, weights: FloatArray | None) -> Predictor:
    """Fit a clone of the estimator (None: a ridge); if all rewards are equal or there are no features, use the mean.

    >>> fit_regression(None, np.array([[0.0], [1.0]]), np.array([0.5, 0.5]), None)
    ConstantPrediction(value=0.5)
    """
    weights = None if weights is None else scale_to_mean_one(weights)
    if features.shape[1] == 0 or (rewards == rewards[0]).all():
        return ConstantPrediction(float(np.average(rewards, weights=weights)))
    if estimator is None and not is_sparse(features):
        solution = solve_ridge(np.asarray(features), rewards, weights)
        if solution is not None:
            return solution
    from sklearn.base import clone, is_classifier
    from sklearn.linear_model import Ridge

    estimator = Ridge(alpha=1.0, copy_X=False) if estimator is None else clone(estimator)  # features are a copy
    fit_options = {} if weights is None else {_weight_keyword(estimator): weights}
    if not is_classifier(estimator):
        return _FlatRegressor(estimator.fit(features, rewards, **fit_options))
    classes, codes = np.unique(rewards, return_inverse=True)
    if classes.size > MAX_CLASSES:
        raise OptionError(
            f"{type(estimator).__name__} is a classifier but the rewards take {classes.size} different values; "
            "use a regressor"
        )
    try:
        estimator.fit(features, codes, **fit_options)
    except ValueError:
        if np.bincount(codes).min() >= RARE_CLASS:
            raise
        return ConstantPrediction(float(np.average(rewards, weights=weights)))
    if not hasattr(estimator, "predict_proba"):
        raise OptionError(
            f"{type(estimator).__name__} is a classifier without predict_proba; use one that gives probabilities, "
            "or a regressor"
        )
    return ExpectedReward(estimator, classes)


def _weight_keyword(estimator: Any) -> str:
    """Return the keyword of ``fit`` for the weights; in a pipeline that of its last step."""
    from sklearn.utils.validation import has_fit_parameter

    steps = getattr(estimator, "steps", None)
    prefix, last = (f"{steps[-1][0]}__", steps[-1][1]) if steps else ("", estimator)
    if not has_fit_parameter(last, "sample_weight"):
        raise OptionError(f"{type(last).__name__} takes no sample weights; choose another estimator, or weights=None")
    return f"{prefix}sample_weight"
