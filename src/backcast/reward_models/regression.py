"""What a reward model must do: learn from a log, then predict the reward of every action."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal, Protocol, Self, TypeAlias, runtime_checkable

import numpy as np

from backcast._arrays import Contexts, FloatArray, IntArray, is_sparse
from backcast.errors import OptionError
from backcast.log import Log


@runtime_checkable
class RewardModel(Protocol):
    """A guess at the reward of each action in each context, of any quality.

    A poor model costs precision, never correctness: doubly robust evaluators repair it from the log.
    """

    def fit(self, log: Log) -> Self:
        """Learn from the events of the log; what was learnt before is forgotten."""
        ...

    def predict(self, contexts: Contexts) -> FloatArray:
        """Predicted reward of all K actions for each context, shape ``(n, K)``."""
        ...


def not_fitted(model: object) -> OptionError:
    """The error of a model that is asked before it was taught."""
    return OptionError(f"{type(model).__name__} has not been fitted; call fit(log) before predict or Fitted(model)")


Weighting: TypeAlias = Literal["inverse", "inverse_square"] | Callable[[Log], FloatArray] | None


def check_weighting(weights: object) -> None:
    """Refuse a weighting that is none of those known."""
    if weights not in (None, "inverse", "inverse_square") and not callable(weights):
        raise OptionError(
            f"weights is {weights!r}; give None, 'inverse', 'inverse_square', or a function of the log "
            "that returns one weight an event"
        )


def event_weights(log: Log, weights: Weighting) -> FloatArray | None:
    """One training weight an event, up to a common factor; None counts all alike.

    >>> log = Log(contexts=None, actions=[0, 1], rewards=[1.0, 0.0], propensities=[0.25, 0.5])
    >>> event_weights(log, "inverse")
    array([1. , 0.5])
    """
    if weights is None:
        return None
    if weights == "inverse":
        return inverse_power(log.propensities, 1)
    if weights == "inverse_square":
        return inverse_power(log.propensities, 2)
    return _checked(np.asarray(weights(log), dtype=np.float64), len(log))


def inverse_power(propensities: FloatArray, power: int) -> FloatArray:
    """``p^-power`` up to a common factor, relative to the smallest p so that no square overflows."""
    relative: FloatArray = propensities.min() / propensities
    return relative**power


def mean_one(weights: FloatArray) -> FloatArray:
    """Weights scaled to mean 1, so that a regularisation strength means the same for every weighting.

    >>> mean_one(np.array([1.0, 3.0]))
    array([0.5, 1.5])
    """
    mean = weights.mean()
    # A group whose weights all vanish says nothing about its events: count them alike.
    return weights / mean if mean > 0 else np.ones_like(weights)


def _checked(weights: FloatArray, n: int) -> FloatArray:
    if weights.shape != (n,):
        raise OptionError(f"weights returned shape {weights.shape} for a log of {n} events; expected ({n},)")
    bad = ~(np.isfinite(weights) & (weights >= 0))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise OptionError(f"row {row}: weights returned {weights[row]}; weights must be finite and not negative")
    return weights


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


@dataclass
class Constant:
    """The same prediction for every action: a given value, or the mean reward of the log.

    Even this removes most of the bias that stopping at a fixed number of accepted events brings.

    Parameters
    ----------
    value
        The prediction; None takes the mean reward of the log it is fitted on.

    Examples
    --------
    >>> log = Log(contexts=[[0.0], [1.0]], actions=[0, 1], rewards=[1.0, 0.5], propensities=[0.5, 0.5])
    >>> Constant().fit(log).predict(log.contexts)
    array([[0.75, 0.75],
           [0.75, 0.75]])
    """

    value: float | None = None
    _level: float = field(init=False, repr=False, default=0.0)
    _n_actions: int = field(init=False, repr=False, default=0)

    def fit(self, log: Log) -> Self:
        """Take the mean reward (unless a value was given) and the number of actions."""
        self._level = float(log.rewards.mean()) if self.value is None else float(self.value)
        self._n_actions = log.n_actions
        return self

    def predict(self, contexts: Contexts) -> FloatArray:
        """The one number for all actions of each context, shape ``(n, K)``."""
        if self._n_actions == 0:
            raise not_fitted(self)
        return np.full((contexts.shape[0], self._n_actions), self._level)


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
