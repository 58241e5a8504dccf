"""FromClassifier: epsilon-greedy over a scikit-learn estimator per action, refitted as events are accepted."""

from __future__ import annotations

from typing import Any, NamedTuple, final

import numpy as np

from backcast._arrays import BoolArray, Contexts, FloatArray, IntArray, concat_contexts, is_sparse
from backcast._parameters import Parametrized
from backcast._validation import count, share
from backcast.errors import OptionError, PolicyError
from backcast.policies.fixed import greedy_probabilities


@final
class FromClassifier(Parametrized):
    """Epsilon-greedy on one estimator per action, refitted after every ``batch_size`` accepted events.

    An event is added only to the training set of the action that was taken (one-vs-all on partial labels, as in
    Dudik et al. 2012, section 4.1). Fully labelled events may be given as a start.

    Parameters
    ----------
    estimator
        Any scikit-learn classifier (rewards are its classes) or regressor.
    epsilon
        Share of uniform exploration.
    batch_size
        Refit after this many accepted events.
    initial
        ``(contexts, rewards)`` of fully labelled events: ``rewards`` is ``(m, K)``, the reward of every action.
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
        self._examples: list[list[tuple[Contexts, FloatArray]]] = []
        self._models: list[Any] = []
        self._stacked: _LinearModels | None = None
        self._initial = initial

    def __repr__(self) -> str:
        return f"FromClassifier({self.estimator!r}, epsilon={self.epsilon:g}, batch_size={self.batch_size})"

    def start(self, n_actions: int, n_features: int, rng: np.random.Generator) -> None:
        """Fit the fully labelled events, if any; a policy that has already learned keeps its models."""
        if self._models:
            return
        self._examples = [[] for _ in range(n_actions)]
        self._models = [0.0] * n_actions
        if self._initial is None:
            return
        contexts, rewards = self._initial
        rewards = np.asarray(rewards, dtype=np.float64)
        if rewards.shape != (contexts.shape[0], n_actions):
            raise OptionError(f"initial rewards have shape {rewards.shape}; expected {(contexts.shape[0], n_actions)}")
        for action in range(n_actions):
            self._examples[action].append((contexts, rewards[:, action]))
            self._refit(action)

    def learn(self, contexts: Contexts, actions: IntArray, rewards: FloatArray, probabilities: FloatArray) -> None:
        """Add the events to the training sets of their actions and refit those."""
        for action in np.unique(actions):
            chosen = actions == action
            self._examples[action].append((contexts[chosen], rewards[chosen]))
            self._refit(int(action))

    def probabilities(self, contexts: Contexts, available: BoolArray | None = None) -> FloatArray:
        """Return epsilon-greedy probabilities of the predictions."""
        if not self._models:
            raise PolicyError(f"{self!r} has not been started; call start(n_actions, n_features, rng) first")
        if self._stacked is None and all(map(_is_linear, self._models)):
            self._stacked = _LinearModels.stack(self._models, int(contexts.shape[-1]))
        predicted = _predict(self._models, contexts) if self._stacked is None else self._stacked.predict(contexts)
        return greedy_probabilities(-predicted if self.minimize else predicted, self.epsilon, available)

    def _refit(self, action: int) -> None:
        from sklearn import config_context
        from sklearn.base import clone, is_classifier

        self._stacked = None
        # store the concatenation, so that a refit never copies the past twice
        contexts, rewards = _concat_examples(self._examples[action])
        self._examples[action] = [(contexts, rewards)]
        if is_classifier(self.estimator) and np.unique(rewards).size < 2:
            self._models[action] = float(rewards.mean())
            return
        # the first fit checks parameters and values; later ones have the same parameters, and values of a valid log
        model = self._models[action]
        was_fitted = not isinstance(model, float)
        if not (was_fitted and _has_one_optimum(model) and np.array_equal(model.classes_, np.unique(rewards))):
            model = clone(self.estimator)
        with config_context(assume_finite=was_fitted, skip_parameter_validation=was_fitted):
            self._models[action] = model.fit(contexts, rewards)
            if _has_one_optimum(model):
                model.warm_start = True  # the next fit starts from this solution


def _predict(models: list[Any], contexts: Contexts) -> FloatArray:
    """Return the prediction of each model, of any kind; a number predicts itself."""
    from sklearn import config_context

    columns = []
    # contexts of a valid log are finite
    with config_context(assume_finite=True, skip_parameter_validation=True):
        for model in models:
            if isinstance(model, float):
                columns.append(np.full(contexts.shape[0], model))
            elif hasattr(model, "predict_proba"):
                columns.append(np.asarray(model.predict_proba(contexts) @ model.classes_))
            else:
                columns.append(np.asarray(model.predict(contexts), dtype=np.float64))
    return np.column_stack(columns)


class _LinearModels(NamedTuple):
    """Linear models side by side, so that one matrix product predicts all actions.

    The prediction is ``x'slope + intercept``, and ``low + (high - low) sigmoid`` of it if the model is logistic.
    """

    slopes: FloatArray
    intercepts: FloatArray
    logistic: BoolArray
    classes: FloatArray

    @classmethod
    def stack(cls, models: list[Any], n_features: int) -> _LinearModels:
        slopes, intercepts = np.zeros((n_features, len(models))), np.zeros(len(models))
        for action, model in enumerate(models):
            if isinstance(model, float):
                intercepts[action] = model
            else:
                slopes[:, action] = np.ravel(model.coef_)
                intercepts[action] = float(np.ravel(model.intercept_)[0])
        logistic = np.array([hasattr(model, "predict_proba") for model in models])
        classes = [model.classes_ for model in models if hasattr(model, "predict_proba")]
        return cls(slopes, intercepts, logistic, np.array(classes, dtype=np.float64).reshape(-1, 2))

    def predict(self, contexts: Contexts) -> FloatArray:
        from scipy.special import expit

        product: Any = contexts @ self.slopes
        raw: FloatArray = np.asarray(product) + self.intercepts
        low, high = self.classes.T
        raw[:, self.logistic] = low + (high - low) * expit(raw[:, self.logistic])
        return raw


def _is_linear(model: Any) -> bool:
    """Whether the model is a number, linear, or logistic between two rewards."""
    from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, SGDClassifier, SGDRegressor

    if isinstance(model, LogisticRegression) or (isinstance(model, SGDClassifier) and model.loss == "log_loss"):
        return len(model.classes_) == 2
    is_regression = isinstance(model, LinearRegression | Ridge | SGDRegressor)
    return isinstance(model, float) or (is_regression and np.ndim(model.coef_) == 1)


def _has_one_optimum(model: Any) -> bool:
    """Whether a fit from the previous solution ends where any other does, up to the tolerance of the solver.

    A warm start of a forest adds trees, and one of stochastic gradient descent goes on with its epochs: other models.
    """
    from sklearn.linear_model import LogisticRegression

    return isinstance(model, LogisticRegression) and model.solver in ("lbfgs", "newton-cg", "newton-cholesky")


def _concat_examples(examples: list[tuple[Contexts, FloatArray]]) -> tuple[Contexts, FloatArray]:
    contexts = [part[0] for part in examples]
    if any(is_sparse(part) for part in contexts):
        import scipy.sparse

        # the fully labelled events may be dense although the log is sparse
        contexts = [scipy.sparse.csr_array(part) for part in contexts]
    return concat_contexts(contexts), np.concatenate([part[1] for part in examples])
