"""Epsilon-greedy over any scikit-learn classifier or regressor, one for each action, refitted as events come in."""

from __future__ import annotations

from typing import Any, NamedTuple, final

import numpy as np

from backcast._arrays import BoolArray, Contexts, FloatArray, IntArray, is_sparse
from backcast._validation import count, share
from backcast.errors import OptionError, PolicyError
from backcast.policies.fixed import greedy_probabilities


@final
class FromClassifier:
    """Epsilon-greedy on one estimator per action, refitted after every ``batch_size`` accepted events.

    An event joins only the training set of the action that was taken (one-vs-all on partial labels, as in
    Dudik et al. 2012, section 4.1). Events labelled in full may be given to begin with.

    Parameters
    ----------
    estimator
        Any scikit-learn classifier (rewards are its classes) or regressor.
    epsilon
        Share of uniform exploration.
    batch_size
        Refit after this many accepted events.
    initial
        ``(contexts, rewards)`` known in full: ``rewards`` is ``(m, K)``, the reward of every action.
    minimize
        Choose the smallest prediction: for rewards that are losses.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> known = (np.array([[0.0], [1.0]]), np.array([[1.0, 0.0], [0.0, 1.0]]))
    >>> policy = FromClassifier(LinearRegression(), epsilon=0.5, initial=known)
    >>> policy.start(2, 1, np.random.default_rng(0))
    >>> policy.probabilities(np.array([[1.0]]))
    array([[0.25, 0.75]])
    """

    def __init__(
        self,
        estimator: Any,
        *,
        epsilon: float = 0.1,
        batch_size: int = 15,
        initial: tuple[Any, Any] | None = None,
        minimize: bool = False,
    ) -> None:
        self.estimator = estimator
        self.epsilon = share("epsilon", epsilon)
        self.batch_size = count("batch_size", batch_size)
        self.minimize = minimize
        self._parts: list[list[tuple[Contexts, FloatArray]]] = []
        self._models: list[Any] = []
        self._scorer: _Lines | _Each | None = None
        self._initial = initial

    def __repr__(self) -> str:
        return f"FromClassifier({self.estimator!r}, epsilon={self.epsilon:g}, batch_size={self.batch_size})"

    def start(self, n_actions: int, n_features: int, rng: np.random.Generator) -> None:
        """Fit the events labelled in full, if any; a policy that has already learned is kept as it is."""
        if self._models:
            return
        self._parts = [[] for _ in range(n_actions)]
        self._models = [0.0] * n_actions
        if self._initial is None:
            return
        contexts, rewards = self._initial
        rewards = np.asarray(rewards, dtype=np.float64)
        if rewards.shape != (contexts.shape[0], n_actions):
            raise OptionError(f"initial rewards have shape {rewards.shape}; expected {(contexts.shape[0], n_actions)}")
        for action in range(n_actions):
            self._parts[action].append((contexts, rewards[:, action]))
            self._refit(action)

    def learn(self, contexts: Contexts, actions: IntArray, rewards: FloatArray, probabilities: FloatArray) -> None:
        """Add the events to the training sets of their actions and refit those."""
        for action in np.unique(actions):
            chosen = actions == action
            self._parts[action].append((contexts[chosen], rewards[chosen]))
            self._refit(int(action))

    def probabilities(self, contexts: Contexts, available: BoolArray | None = None) -> FloatArray:
        """The action of best prediction, softened."""
        if not self._models:
            raise PolicyError(f"{self!r} does not know the number of actions; call start(n_actions, ...) first")
        if self._scorer is None:
            self._scorer = _scorer_of(self._models, int(contexts.shape[-1]))
        predicted = self._scorer.predict(contexts)
        return greedy_probabilities(-predicted if self.minimize else predicted, self.epsilon, available)

    def _refit(self, action: int) -> None:
        from sklearn.base import clone, is_classifier

        self._scorer = None
        # joined parts are kept joined, so that a refit never copies the past twice
        contexts, rewards = _joined(self._parts[action])
        self._parts[action] = [(contexts, rewards)]
        if is_classifier(self.estimator) and np.unique(rewards).size < 2:
            self._models[action] = float(rewards.mean())
            return
        self._models[action] = clone(self.estimator).fit(contexts, rewards)


def _scorer_of(models: list[Any], n_features: int) -> _Lines | _Each:
    return _lines_of(models, n_features) if all(_is_linear(model) for model in models) else _Each(models)


class _Each(NamedTuple):
    """Models of any kind, asked one by one; a number predicts itself."""

    models: list[Any]

    def predict(self, contexts: Contexts) -> FloatArray:
        return np.column_stack([self._one(model, contexts) for model in self.models])

    @staticmethod
    def _one(model: Any, contexts: Contexts) -> FloatArray:
        if isinstance(model, float):
            return np.full(contexts.shape[0], model)
        if hasattr(model, "predict_proba"):
            return np.asarray(model.predict_proba(contexts) @ model.classes_)
        return np.asarray(model.predict(contexts), dtype=np.float64)


class _Lines(NamedTuple):
    """Linear models side by side, so that one matrix product scores all actions.

    The prediction is ``x'slope + intercept``, and ``low + (high - low) sigmoid`` of it where the model is logistic.
    """

    slopes: FloatArray
    intercepts: FloatArray
    logistic: BoolArray
    classes: FloatArray

    def predict(self, contexts: Contexts) -> FloatArray:
        from scipy.special import expit

        product: Any = contexts @ self.slopes
        raw: FloatArray = np.asarray(product) + self.intercepts
        low, high = self.classes.T
        raw[:, self.logistic] = low + (high - low) * expit(raw[:, self.logistic])
        return raw


def _lines_of(models: list[Any], n_features: int) -> _Lines:
    slopes, intercepts = np.zeros((n_features, len(models))), np.zeros(len(models))
    for action, model in enumerate(models):
        if isinstance(model, float):
            intercepts[action] = model
        else:
            slopes[:, action] = np.ravel(model.coef_)
            intercepts[action] = float(np.ravel(model.intercept_)[0])
    logistic = np.array([hasattr(model, "predict_proba") for model in models])
    classes = [model.classes_ for model in models if hasattr(model, "predict_proba")]
    return _Lines(slopes, intercepts, logistic, np.array(classes, dtype=np.float64).reshape(-1, 2))


def _is_linear(model: Any) -> bool:
    """Whether it is a number, a line, or a logistic curve between two rewards."""
    from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge

    if isinstance(model, LogisticRegression):
        return len(model.classes_) == 2
    return isinstance(model, float) or (isinstance(model, LinearRegression | Ridge) and np.ndim(model.coef_) == 1)


def _joined(parts: list[tuple[Contexts, FloatArray]]) -> tuple[Contexts, FloatArray]:
    if len(parts) == 1:
        return parts[0]
    rewards = np.concatenate([part[1] for part in parts])
    if any(is_sparse(part[0]) for part in parts):
        import scipy.sparse

        blocks: Any = [part[0] for part in parts]
        return scipy.sparse.csr_array(scipy.sparse.vstack(blocks)), rewards
    return np.concatenate([np.asarray(part[0]) for part in parts]), rewards
