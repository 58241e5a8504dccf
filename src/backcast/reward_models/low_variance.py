"""LowVariance: a reward model tuned for a small variance of the doubly robust estimate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import NamedTuple, Self

import numpy as np

from backcast._arrays import Contexts, FloatArray, IntArray
from backcast._parameters import Parametrized
from backcast.errors import OptionError
from backcast.log import Log
from backcast.reward_models._ridge_path import Examples, ridge_path, ridge_paths_without_folds
from backcast.reward_models.regression import (
    action_features,
    assign_folds,
    inverse_power,
    not_fitted_error,
    rows_by_action,
)

WEIGHTINGS = ("none", "inverse", "inverse_square", "mrdr")
EARLY_EVENTS = 50  # events per action that the early stand-in policy is fitted on
CHOICE_EVENTS = 50_000  # on which the choice is made: of a million events, it took two fifths of a default call


class Choice(NamedTuple):
    """A weighting and a penalty, and the standard deviation of the event values they give out of sample."""

    weights: str
    alpha: float
    std_dev: float


@dataclass
class LowVariance(Parametrized):
    """Ridge regressions, one per action, weighted and penalised so that doubly robust event values vary least.

    An event's value is ``R_k = sum_a pi(a|x_k) q(x_k, a) + pi(a_k|x_k)/p_k (r_k - q(x_k, a_k))``. Its mean does not
    depend on the model q, but its standard deviation does, and that determines the error of the estimate. So the
    weighting of the training events and the ridge penalty are chosen by cross-validation for the smallest standard
    deviation of ``R_k``, not for the smallest prediction error.

    Parameters
    ----------
    folds
        Folds of the cross-validation, at least 2.
    alphas
        Ridge penalties to try, all above 0 (weights are scaled to mean 1 within each action).
    weights
        Weightings to try, of "none", "inverse" (1/p), "inverse_square" (1/p^2) and "mrdr" (pi (1-p)/p^2, after
        Farajtabar, Chow and Ghavamzadeh 2018).
    target
        Function from contexts to the ``(n, K)`` probabilities of the policy to be evaluated. None uses two stand-ins
        together, an early and a late state of a learner: each gives 0.9 to the action with the best prediction of an
        unweighted ridge, fitted on 50 events per action or on all, and spreads 0.1 over all actions. Best means
        highest, or lowest if the logger clearly sought low rewards, as with losses.
    seed
        Seed of the folds and of the events of the early stand-in.

    Attributes
    ----------
    choice
        The chosen weighting and penalty, once fitted.
    tried
        Every candidate with its standard deviation.

    Examples
    --------
    >>> x = np.linspace(-1, 1, 40)[:, None]
    >>> log = Log(contexts=x, actions=[0, 1] * 20, rewards=0.5 + 0.25 * x[:, 0], propensities=[0.5] * 40)
    >>> model = LowVariance(alphas=(1e-6, 1e6)).fit(log)
    >>> model.choice.alpha
    1e-06
    >>> model.predict(np.array([[0.0], [0.5]])).round(3)
    array([[0.5  , 0.5  ],
           [0.625, 0.625]])
    """

    folds: int = 3
    _: KW_ONLY
    alphas: tuple[float, ...] = (0.1, 1.0, 10.0, 100.0, 1000.0)
    weights: tuple[str, ...] = WEIGHTINGS
    target: Callable[[Contexts], FloatArray] | None = None
    seed: int = 0
    choice: Choice | None = field(init=False, repr=False, default=None)
    tried: tuple[Choice, ...] = field(init=False, repr=False, default=())
    _model: _LinearModel | None = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        if self.folds < 2:
            raise OptionError(f"folds is {self.folds}; cross-validation needs at least 2")
        if not self.alphas or not all(0 < alpha < float("inf") for alpha in self.alphas):
            raise OptionError(f"alphas are {self.alphas}; give at least one penalty, all above 0 and finite")
        if not self.weights or not set(self.weights) <= set(WEIGHTINGS):
            raise OptionError(f"weights are {self.weights}; choose from {WEIGHTINGS}")

    def fit(self, log: Log) -> Self:
        """Choose the weighting and the penalty on at most 50,000 events, then fit them on all events of the log."""
        alphas = np.asarray(self.alphas, dtype=np.float64)
        rng = np.random.default_rng(self.seed)
        is_sampled = len(log) > CHOICE_EVENTS
        sample = log[np.sort(rng.choice(len(log), CHOICE_EVENTS, replace=False))] if is_sampled else log
        fold = assign_folds(len(sample), self.folds, rng)
        references = self._reference_policies(sample, fold, rng)
        tried = []
        for weighting in self.weights:
            weights = _training_weights(sample, references[0], weighting)
            deviations = _value_deviations(sample, references, weights, fold, alphas)
            tried += [Choice(weighting, float(a), float(sd)) for a, sd in zip(alphas, deviations, strict=True)]
        self.tried = tuple(tried)
        self.choice = min(tried, key=lambda candidate: candidate.std_dev)
        if is_sampled and self.choice.weights == "mrdr":  # the only weighting that depends on the policy
            references = self._reference_policies(log, assign_folds(len(log), self.folds, rng), rng)
        weights = _training_weights(log, references[0], self.choice.weights)
        self._model = _fit_models(log, weights, np.array([self.choice.alpha]))
        return self

    def predict(self, contexts: Contexts) -> FloatArray:
        """Return the predicted reward of all actions for each context, shape ``(n, K)``."""
        if self._model is None:
            raise not_fitted_error(self)
        return self._model.predict(contexts, 0)

    def _reference_policies(self, log: Log, fold: IntArray, rng: np.random.Generator) -> FloatArray:
        """Return the probabilities ``(P, n, K)`` of the target policy, or of its stand-ins."""
        if self.target is None:
            return _stand_in_policies(log, fold, rng)
        probabilities = np.asarray(self.target(log.contexts), dtype=np.float64)
        if probabilities.shape != (len(log), log.n_actions):
            raise OptionError(
                f"target returned shape {probabilities.shape}; expected {(len(log), log.n_actions)}, "
                "the probabilities of all actions for each context"
            )
        return probabilities[None]


class _LinearModel(NamedTuple):
    """Linear predictions for A penalties and K actions: slopes ``(A, K, d)``, intercepts ``(A, K)``, and a range."""

    slopes: FloatArray
    intercepts: FloatArray
    bounds: tuple[float, float]

    @classmethod
    def constant(cls, log: Log, penalties: int) -> _LinearModel:
        """Return the model that predicts the mean reward, to be overwritten for the actions that occur."""
        slopes = np.zeros((penalties, log.n_actions, log.n_features))
        return cls(slopes, np.full((penalties, log.n_actions), log.columns.rewards.mean()), log.reward_bounds)

    def predict(self, contexts: Contexts, penalty: int) -> FloatArray:
        slopes = self.slopes[penalty]
        if contexts.ndim == 3:
            raw: FloatArray = np.einsum("nkd,kd->nk", np.asarray(contexts), slopes)
        else:
            raw = np.asarray(contexts @ slopes.T)
        clipped: FloatArray = np.clip(raw + self.intercepts[penalty], *self.bounds)
        return clipped


def _examples(log: Log, weights: FloatArray, action: int, rows: IntArray) -> Examples:
    return Examples(action_features(log.columns.contexts, action)[rows], log.columns.rewards[rows], weights[rows])


def _fit_models(log: Log, weights: FloatArray, alphas: FloatArray) -> _LinearModel:
    """Fit a ridge per action for every penalty."""
    model = _LinearModel.constant(log, alphas.size)
    for action, rows in rows_by_action(log):
        path = ridge_path(_examples(log, weights, action, rows), alphas)
        model.slopes[:, action], model.intercepts[:, action] = path
    return model


def _fit_models_without_folds(log: Log, weights: FloatArray, fold: IntArray, alphas: FloatArray) -> list[_LinearModel]:
    """Return, for each fold ``0..max``, the model fitted on the events outside it."""
    folds = int(fold.max()) + 1
    models = [_LinearModel.constant(log[fold != f] if folds > 1 else log, alphas.size) for f in range(folds)]
    for action, rows in rows_by_action(log):
        examples, action_fold = _examples(log, weights, action, rows), fold[rows]
        if action_fold.min() == action_fold.max():
            # seen in one fold only: nothing to fit without that fold, and all of it without another
            path = ridge_path(examples, alphas)
            paths = {f: path for f in range(folds) if f != action_fold[0]}
        else:
            paths = dict(enumerate(ridge_paths_without_folds(examples, action_fold, folds, alphas)))
        for f, path in paths.items():
            models[f].slopes[:, action], models[f].intercepts[:, action] = path
    return models


def _value_deviations(
    log: Log, references: FloatArray, weights: FloatArray, fold: IntArray, alphas: FloatArray
) -> FloatArray:
    """Return the standard deviation of the event values for each penalty, root mean square over reference policies.

    Each event's value comes from a model fitted without its fold.
    """
    values = np.empty((alphas.size, len(references), len(log)))
    for f, model in enumerate(_fit_models_without_folds(log, weights, fold, alphas)):
        held_out = np.flatnonzero(fold == f)
        part, target = log[held_out], references[:, held_out]
        for a in range(alphas.size):
            values[a][:, held_out] = _event_values(part, target, model.predict(part.contexts, a))
    deviations: FloatArray = np.sqrt(values.var(axis=2).mean(axis=1))
    return deviations


def _event_values(log: Log, target: FloatArray, predicted: FloatArray) -> FloatArray:
    """``sum_a pi(a) q(a) + pi(a_k)/p_k (r_k - q(a_k))`` for each event (Dudik et al. 2012), of one or more policies.

    >>> log = Log(contexts=None, actions=[1], rewards=[1.0], propensities=[0.25], n_actions=2)
    >>> _event_values(log, target=np.array([[0.5, 0.5]]), predicted=np.array([[0.25, 0.5]]))
    array([1.375])
    """
    rows = np.arange(len(log))
    residual = log.columns.rewards - predicted[rows, log.columns.actions]
    weights = target[..., rows, log.columns.actions] / log.columns.propensities
    values: FloatArray = np.einsum("...nk,nk->...n", target, predicted) + weights * residual
    return values


def _training_weights(log: Log, reference: FloatArray, weighting: str) -> FloatArray:
    """Return the training weight of each event, always above 0 so that every action that occurs can be fitted."""
    if weighting == "none":
        return np.ones(len(log))
    weights = inverse_power(log.columns.propensities, 1 if weighting == "inverse" else 2)
    if weighting == "mrdr":
        weights = reference[np.arange(len(log)), log.columns.actions] * (1 - log.columns.propensities) * weights
    return np.maximum(weights, max(1e-9 * weights.max(), 1e-300))


def _stand_in_policies(log: Log, fold: IntArray, rng: np.random.Generator) -> FloatArray:
    """Return the probabilities ``(2, n, K)`` of an early and a late learner, each fitted without the event's fold."""
    sign = -1.0 if _seeks_low_rewards(log) else 1.0
    best = np.zeros((2, len(log)), dtype=np.int64)
    for f in range(int(fold.max()) + 1):
        held_out = log[fold == f]
        training = rng.permutation(np.flatnonzero(fold != f))
        for stage, rows in enumerate((training[: EARLY_EVENTS * log.n_actions], training)):
            train = log[np.sort(rows)] if rows.size else log
            predicted = sign * _fit_models(train, np.ones(len(train)), np.ones(1)).predict(held_out.contexts, 0)
            if held_out.available is not None:
                predicted = np.where(held_out.available, predicted, -np.inf)
            best[stage, fold == f] = predicted.argmax(axis=1)
    # 0.9 on the best action, 0.1 spread over all eligible ones
    available = log.columns.available
    eligible = np.ones((len(log), log.n_actions)) if available is None else available.astype(np.float64)
    probabilities: FloatArray = np.stack([0.1 * eligible / eligible.sum(axis=1, keepdims=True)] * 2)
    for stage in range(2):
        probabilities[stage, np.arange(len(log)), best[stage]] += 0.9
    return probabilities


def _seeks_low_rewards(log: Log) -> bool:
    """Whether the logger earned clearly less than uniform choice would have: then rewards must be losses.

    Uniform choice is estimated by self-normalised inverse propensity scoring; "clearly" is two standard errors.
    """
    rewards, weight = log.columns.rewards, 1 / log.columns.propensities
    weight /= weight.mean()
    uniform_value = (weight * rewards).mean()
    gains = (rewards - rewards.mean()) - weight * (rewards - uniform_value)
    return bool(rewards.mean() - uniform_value < -2 * gains.std() / len(log) ** 0.5)
