"""Models of how a logger chose its actions: a classifier, or a conditional logit where classifiers do not apply."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from backcast._arrays import BoolArray, Contexts, FloatArray, IntArray, is_sparse
from backcast.errors import OptionError
from backcast.log import Log

PENALTY = 1.0  # on half the squared length of the scaled slopes, as in scikit-learn's LogisticRegression
MOST_STEPS = 200  # of the optimiser

ChoiceModel: TypeAlias = "ClassifierModel | LogitModel"


def fit_choice_model(log: Log, model: Any = None) -> ChoiceModel:
    """Fit a model of the logged actions.

    Parameters
    ----------
    log
        Contexts, actions and masks of this log are used; its rewards and propensities are not.
    model
        A scikit-learn classifier with ``predict_proba``; a clone is fitted. None is a multinomial logistic
        regression: scikit-learn's, or a conditional logit if there are masks, features of each action, or no features.

    Examples
    --------
    >>> log = Log([[0.0], [0.0]], actions=[0, 1], rewards=[0, 0], propensities=[0.5, 0.5])
    >>> fit_choice_model(log).probabilities(np.array([[1.0]]), None).round(6)
    array([[0.5, 0.5]])
    """
    if model is not None and log.has_action_features:
        raise OptionError(
            f"{type(model).__name__} classifies contexts, but this log has features of each action; "
            "leave model=None for a conditional logit"
        )
    single_action = log.columns.actions.min() == log.columns.actions.max()
    needs_logit = log.columns.available is not None or log.has_action_features or log.n_features == 0
    if single_action or (model is None and needs_logit):
        return fit_logit(log)
    if model is None:
        return ClassifierModel(_fit_logistic_regression(log), log.n_actions)
    if not callable(getattr(model, "predict_proba", None)):
        raise OptionError(f"{model!r} has no predict_proba; give a classifier that predicts probabilities")
    from sklearn.base import clone

    return ClassifierModel(clone(model).fit(log.contexts, log.actions), log.n_actions)


@dataclass(frozen=True, eq=False)
class ClassifierModel:
    """A fitted classifier whose classes are some of the K actions."""

    classifier: Any
    n_actions: int

    def probabilities(self, contexts: Contexts, available: BoolArray | None) -> FloatArray:
        """Return the probability of every action at each context, shape ``(n, K)``; 0 if it is not available."""
        seen: IntArray = np.asarray(self.classifier.classes_, dtype=np.int64)
        table = np.zeros((contexts.shape[0], self.n_actions))
        table[:, seen] = self.classifier.predict_proba(contexts)
        return table if available is None else restrict_to_available(table, available)


def restrict_to_available(table: FloatArray, available: BoolArray) -> FloatArray:
    """Set unavailable actions to 0 and normalise each row; uniform if no probability is left.

    >>> table = np.array([[0.5, 0.25, 0.25], [1.0, 0.0, 0.0]])
    >>> restrict_to_available(table, np.array([[True, True, False], [False, True, True]]))
    array([[0.66666667, 0.33333333, 0.        ],
           [0.        , 0.5       , 0.5       ]])
    """
    masked = table * available
    total = masked.sum(axis=1, keepdims=True)
    uniform = available / available.sum(axis=1, keepdims=True)
    return np.where(total > 0, masked / np.where(total > 0, total, 1.0), uniform)


def _fit_logistic_regression(log: Log) -> Any:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    # centring would make sparse contexts dense; the intercept has the same effect
    pipeline = make_pipeline(StandardScaler(with_mean=False), LogisticRegression(max_iter=MOST_STEPS))
    with warnings.catch_warnings():
        # an approximate fit, or few events of many actions, is good enough: calibration and diagnostics show it
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", "The number of unique classes", UserWarning)
        return pipeline.fit(log.columns.contexts, log.columns.actions)


@dataclass(frozen=True, eq=False)
class LogitModel:
    """``P(a|x) = exp(s_a) / sum_b exp(s_b)`` over the eligible actions (McFadden 1974).

    The score is ``s_a = slope_a . x + offset_a``, or ``slope . x_a + offset_a`` for features of each action. Unlike a
    classifier that is masked afterwards, it takes account of unavailable actions in the fit.
    """

    slopes: FloatArray
    offsets: FloatArray
    known: BoolArray

    def probabilities(self, contexts: Contexts, available: BoolArray | None) -> FloatArray:
        """Return the probability of every action at each context, shape ``(n, K)``; 0 if it is not available."""
        scores: FloatArray = np.asarray(contexts @ self.slopes) + self.offsets
        return softmax_among(scores, _eligible_actions(self.known, available, scores.shape[0]))


def fit_logit(log: Log) -> LogitModel:
    """Fit by penalised likelihood; actions never taken get probability 0 unless they have features.

    >>> coins = Log(None, actions=[0, 1, 0, 1], rewards=[0, 0, 0, 0], propensities=[0.5] * 4)
    >>> fit_logit(coins).probabilities(np.zeros((1, 0)), None)
    array([[0.5, 0.5]])
    """
    from scipy.optimize import minimize

    known = np.bincount(log.columns.actions, minlength=log.n_actions) > 0
    if log.has_action_features:
        known[:] = True
    shape = (log.n_features,) if log.has_action_features else (log.n_features, log.n_actions)
    contexts, scale = _scale_contexts(log.columns.contexts)
    loss = _LogitLoss(log, contexts, known, shape)
    start = np.zeros(int(np.prod(shape)) + log.n_actions)
    optimum: Any = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": MOST_STEPS})
    slopes, offsets = optimum.x[: -log.n_actions].reshape(shape), optimum.x[-log.n_actions :]
    return LogitModel(slopes / (scale if slopes.ndim == 1 else scale[:, None]), offsets, known)


class _LogitLoss:
    """Penalised negative log-likelihood of the actions, and its gradient, at the concatenated slopes and offsets."""

    def __init__(self, log: Log, contexts: Contexts, known: BoolArray, shape: tuple[int, ...]) -> None:
        n = len(log)
        self.contexts, self.shape, self.n_actions = contexts, shape, log.n_actions
        self.eligible = _eligible_actions(known, log.columns.available, n)
        self.taken: tuple[IntArray, IntArray] = (np.arange(n), log.columns.actions)

    def __call__(self, point: FloatArray) -> tuple[float, FloatArray]:
        slopes, offsets = point[: -self.n_actions].reshape(self.shape), point[-self.n_actions :]
        probabilities = softmax_among(np.asarray(self.contexts @ slopes) + offsets, self.eligible)
        with np.errstate(divide="ignore"):  # the line search may try a point at which a logged action is impossible
            loss = -float(np.log(probabilities[self.taken]).sum())
        residuals = probabilities
        residuals[self.taken] -= 1.0
        gradient = np.concatenate([self._slope_gradient(residuals).ravel(), residuals.sum(axis=0)])
        return loss + PENALTY / 2 * float(point @ point), gradient + PENALTY * point

    def _slope_gradient(self, residuals: FloatArray) -> FloatArray:
        if len(self.shape) == 1:
            return np.tensordot(np.asarray(self.contexts), residuals, axes=([0, 1], [0, 1]))
        product: Any = self.contexts.T @ residuals
        return np.asarray(product)


def softmax_among(scores: FloatArray, eligible: BoolArray) -> FloatArray:
    """Softmax of each row over its eligible entries.

    >>> softmax_among(np.array([[0.0, np.log(3.0), 9.0]]), np.array([[True, True, False]]))
    array([[0.25, 0.75, 0.  ]])
    """
    from scipy.special import softmax

    return np.asarray(softmax(np.where(eligible, scores, -np.inf), axis=1))


def _eligible_actions(known: BoolArray, available: BoolArray | None, n: int) -> BoolArray:
    """Return which actions each row may choose: known and available ones, or all available if none of them is known."""
    if available is None:
        return np.broadcast_to(known, (n, known.size))
    both = known & available
    return np.where(both.any(axis=1, keepdims=True), both, available)


def _scale_contexts(contexts: Contexts) -> tuple[Contexts, FloatArray]:
    """Return the contexts divided by the root mean square of each feature (1 if it is always 0), and that scale."""
    if is_sparse(contexts):
        import scipy.sparse

        squares = np.asarray(contexts.multiply(contexts).mean(axis=0)).ravel()
        scale = np.where(squares > 0, np.sqrt(squares), 1.0)
        return scipy.sparse.csr_array(contexts @ scipy.sparse.diags_array(1.0 / scale)), scale
    dense = np.asarray(contexts)
    squares = np.square(dense).mean(axis=tuple(range(dense.ndim - 1)))
    scale = np.where(squares > 0, np.sqrt(squares), 1.0)
    return dense / scale, scale
