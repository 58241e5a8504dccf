"""Choice by softmax: one model for contexts, for features of each action, and for masks."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from backcast._arrays import BoolArray, Contexts, FloatArray, IntArray, is_sparse
from backcast.errors import OptionError
from backcast.log import Log

PENALTY = 1.0  # of half the squared length of the scaled slopes: that of scikit-learn's LogisticRegression


MOST_STEPS = 200


@dataclass(frozen=True, eq=False)
class Logit:
    """``P(a|x) = exp(s_a) / sum_b exp(s_b)`` over the eligible actions (McFadden 1974).

    The score is ``s_a = slope_a . x + offset_a``, or ``slope . x_a + offset_a`` where actions have features of their
    own. Unlike a classifier whose answer is masked afterwards, it knows at the fit what could not be chosen.
    """

    slopes: FloatArray
    offsets: FloatArray
    known: BoolArray

    def probabilities(self, contexts: Contexts, available: BoolArray | None) -> FloatArray:
        """Probability of every action at each context, shape ``(n, K)``."""
        scores: FloatArray = np.asarray(contexts @ self.slopes) + self.offsets
        return softmax_among(scores, _open(self.known, available, scores.shape[0]))


def softmax_among(scores: FloatArray, eligible: BoolArray) -> FloatArray:
    """Softmax of each row over its eligible entries.

    >>> softmax_among(np.array([[0.0, np.log(3.0), 9.0]]), np.array([[True, True, False]]))
    array([[0.25, 0.75, 0.  ]])
    """
    shut = np.where(eligible, scores, -np.inf)
    odds = np.exp(shut - shut.max(axis=1, keepdims=True))
    chances: FloatArray = odds / odds.sum(axis=1, keepdims=True)
    return chances


def fit_logit(log: Log) -> Logit:
    """Fit by penalised likelihood; actions never taken get no chance, unless features tell what they are like.

    >>> coins = Log(None, actions=[0, 1, 0, 1], rewards=[0, 0, 0, 0], propensities=[0.5] * 4)
    >>> fit_logit(coins).probabilities(np.zeros((1, 0)), None)
    array([[0.5, 0.5]])
    """
    known = np.bincount(log._actions, minlength=log.n_actions) > 0
    if log.has_action_features:
        known[:] = True
    scale = _spread(log._contexts)
    shape = (log.n_features,) if log.has_action_features else (log.n_features, log.n_actions)
    solution = _minimise(_Loss(log, _scaled(log._contexts, scale), known, shape))
    slopes, offsets = solution[: -log.n_actions].reshape(shape), solution[-log.n_actions :]
    return Logit(slopes / (scale if slopes.ndim == 1 else scale[:, None]), offsets, known)


class _Loss:
    """Penalised negative log-likelihood of the choices, and its gradient, at slopes and offsets end to end."""

    def __init__(self, log: Log, contexts: Contexts, known: BoolArray, shape: tuple[int, ...]) -> None:
        n = len(log)
        self.contexts, self.shape, self.n_actions = contexts, shape, log.n_actions
        self.eligible = _open(known, log._available, n)
        self.taken: tuple[IntArray, IntArray] = (np.arange(n), log._actions)

    @property
    def size(self) -> int:
        return int(np.prod(self.shape)) + self.n_actions

    def __call__(self, point: FloatArray) -> tuple[float, FloatArray]:
        slopes, offsets = point[: -self.n_actions].reshape(self.shape), point[-self.n_actions :]
        chances = softmax_among(np.asarray(self.contexts @ slopes) + offsets, self.eligible)
        with np.errstate(divide="ignore"):  # a line search may try a point that rules out what happened
            loss = -float(np.log(chances[self.taken]).sum())
        chances[self.taken] -= 1.0
        gradient = np.concatenate([self._slope_gradient(chances).ravel(), chances.sum(axis=0)])
        return loss + PENALTY / 2 * float(point @ point), gradient + PENALTY * point

    def _slope_gradient(self, surprise: FloatArray) -> FloatArray:
        if len(self.shape) == 1:
            return np.tensordot(np.asarray(self.contexts), surprise, axes=([0, 1], [0, 1]))
        product: Any = self.contexts.T @ surprise
        return np.asarray(product)


def _minimise(loss: _Loss) -> FloatArray:
    from scipy.optimize import minimize

    found: Any = minimize(loss, np.zeros(loss.size), jac=True, method="L-BFGS-B", options={"maxiter": MOST_STEPS})
    solution: FloatArray = found.x
    return solution


def _open(known: BoolArray, available: BoolArray | None, n: int) -> BoolArray:
    """The actions a row may choose: known and available; all available ones where none of them is known."""
    if available is None:
        return np.broadcast_to(known, (n, known.size))
    both = known & available
    return np.where(both.any(axis=1, keepdims=True), both, available)


def _spread(contexts: Contexts) -> FloatArray:
    """Root mean square of each feature, 1 where it is always 0: slopes of all features are then alike in size."""
    if is_sparse(contexts):
        squares = np.asarray(contexts.multiply(contexts).mean(axis=0)).ravel()
    else:
        dense = np.asarray(contexts)
        squares = np.square(dense).mean(axis=tuple(range(dense.ndim - 1)))
    return np.where(squares > 0, np.sqrt(squares), 1.0)


def _scaled(contexts: Contexts, scale: FloatArray) -> Contexts:
    if is_sparse(contexts):
        import scipy.sparse

        return scipy.sparse.csr_array(contexts @ scipy.sparse.diags_array(1.0 / scale))
    return np.asarray(contexts) / scale


class ChoiceModel(Protocol):
    """Something fitted that gives the probability of every action at each context."""

    def probabilities(self, contexts: Contexts, available: BoolArray | None) -> FloatArray:
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
    >>> fit_choice_model(log).probabilities(np.array([[1.0]]), None).round(6)
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

    def probabilities(self, contexts: Contexts, available: BoolArray | None) -> FloatArray:
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
