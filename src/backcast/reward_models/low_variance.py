"""A reward model chosen for what it is used for: little variance in the doubly robust estimate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import NamedTuple, Self

import numpy as np

from backcast._arrays import BoolArray, Contexts, FloatArray, IntArray
from backcast.errors import OptionError
from backcast.log import Log
from backcast.reward_models._ridge_path import Examples, RidgePath, ridge_path, ridge_paths_without_folds
from backcast.reward_models.cross_fitting import fold_numbers
from backcast.reward_models.regression import features_of, inverse_power, not_fitted, rows_by_action

SCHEMES = ("none", "inverse", "inverse_square", "mrdr")


EARLY = 50  # events an action that the early learner has seen


class Choice(NamedTuple):
    """A way to fit the model, and the spread of the event values it gave on events it had not seen."""

    weights: str
    alpha: float
    std_dev: float


@dataclass
class LowVariance:
    """Ridge regressions, one an action, weighted and penalised so that doubly robust event values vary least.

    An event's value is ``R_k = sum_a pi(a|x_k) q(x_k, a) + pi(a_k|x_k)/p_k (r_k - q(x_k, a_k))``. Its mean does not
    depend on the model q, its spread does, and that spread is what sets the error of the estimate. So the weighting
    of the training events and the ridge penalty are chosen by cross-validation for the smallest standard deviation
    of ``R_k``, not for the smallest prediction error.

    Parameters
    ----------
    folds
        Parts of the training log in the cross-validation, at least 2.
    alphas
        Ridge penalties to try, all above 0 (weights are scaled to mean 1 within each action).
    weights
        Weightings to try, of "none", "inverse" (1/p), "inverse_square" (1/p^2) and "mrdr" (pi (1-p)/p^2, after
        Farajtabar, Chow and Ghavamzadeh 2018).
    target
        Function from contexts to the ``(n, K)`` probabilities of the policy to be evaluated. None takes two stand-ins
        together, a learner early in its life and a settled one: each puts 0.9 on the action that looks best to a
        plain ridge, fitted on 50 events an action or on all, and spreads 0.1 over the others. Best means highest,
        or lowest where the logger clearly sought low rewards, as with losses.
    seed
        Of the folds of the cross-validation and the early learner's events.

    Attributes
    ----------
    choice
        What was chosen, once fitted.
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
    weights: tuple[str, ...] = SCHEMES
    target: Callable[[Contexts], FloatArray] | None = None
    seed: int = 0
    choice: Choice | None = field(init=False, repr=False, default=None)
    tried: tuple[Choice, ...] = field(init=False, repr=False, default=())
    _lines: _Lines | None = field(init=False, repr=False, default=None)

    def __post_init__(self) -> None:
        if self.folds < 2:
            raise OptionError(f"folds is {self.folds}; cross-validation needs at least 2")
        if not self.alphas or not all(0 < alpha < float("inf") for alpha in self.alphas):
            raise OptionError(f"alphas are {self.alphas}; give at least one penalty, all above 0 and finite")
        unknown = [scheme for scheme in self.weights if scheme not in SCHEMES]
        if unknown or not self.weights:
            raise OptionError(f"weights are {self.weights}; choose from {SCHEMES}")

    def fit(self, log: Log) -> Self:
        """Choose the weighting and the penalty, then fit them on all events of the log."""
        alphas = np.asarray(self.alphas, dtype=np.float64)
        rng = np.random.default_rng(self.seed)
        fold = fold_numbers(len(log), self.folds, rng)
        references = _stand_ins(log, fold, rng) if self.target is None else self._given_target(log)[None]
        tried = []
        for scheme in self.weights:
            spreads = _spreads(log, references, _weights(log, references[0], scheme), fold, alphas)
            tried += [Choice(scheme, float(a), float(sd)) for a, sd in zip(alphas, spreads, strict=True)]
        self.tried = tuple(tried)
        self.choice = min(tried, key=lambda candidate: candidate.std_dev)
        chosen = _weights(log, references[0], self.choice.weights)
        self._lines = _fit_lines(log, chosen, np.array([self.choice.alpha]))
        return self

    def predict(self, contexts: Contexts) -> FloatArray:
        """Predicted reward of all actions for each context, shape ``(n, K)``."""
        if self._lines is None:
            raise not_fitted(self)
        return self._lines.predict(contexts, 0)

    def _given_target(self, log: Log) -> FloatArray:
        assert self.target is not None
        probabilities = np.asarray(self.target(log.contexts), dtype=np.float64)
        if probabilities.shape != (len(log), log.n_actions):
            raise OptionError(
                f"target returned shape {probabilities.shape}; expected {(len(log), log.n_actions)}, "
                "the probabilities of all actions for each context"
            )
        return probabilities


class _Lines(NamedTuple):
    """Linear predictions for A penalties and K actions: slopes ``(A, K, d)``, intercepts ``(A, K)``, and a range."""

    slopes: FloatArray
    intercepts: FloatArray
    bounds: tuple[float, float]

    def predict(self, contexts: Contexts, which: int) -> FloatArray:
        slopes = self.slopes[which]
        if contexts.ndim == 3:
            raw: FloatArray = np.einsum("nkd,kd->nk", np.asarray(contexts), slopes)
        else:
            raw = np.asarray(contexts @ slopes.T)
        clipped: FloatArray = np.clip(raw + self.intercepts[which], *self.bounds)
        return clipped


def _level_lines(log: Log, count: int) -> _Lines:
    """Lines that say the mean reward everywhere, to be overwritten for the actions that were seen."""
    slopes = np.zeros((count, log.n_actions, log.n_features))
    return _Lines(slopes, np.full((count, log.n_actions), log.rewards.mean()), log.reward_bounds)


def _put(lines: _Lines, action: int, path: RidgePath) -> None:
    lines.slopes[:, action] = path.slopes
    lines.intercepts[:, action] = path.intercepts


def _examples(log: Log, weights: FloatArray, action: int, rows: IntArray) -> Examples:
    return Examples(features_of(log.contexts, action)[rows], log.rewards[rows], weights[rows])


def _fit_lines(log: Log, weights: FloatArray, alphas: FloatArray) -> _Lines:
    lines = _level_lines(log, alphas.size)
    for action, rows in rows_by_action(log):
        _put(lines, action, ridge_path(_examples(log, weights, action, rows), alphas))
    return lines


def _lines_without_folds(log: Log, weights: FloatArray, fold: IntArray, alphas: FloatArray) -> list[_Lines]:
    """For each fold ``0..max``, the lines fitted on the events outside it."""
    folds = int(fold.max()) + 1
    lines = [_level_lines(log[fold != f] if folds > 1 else log, alphas.size) for f in range(folds)]
    for action, rows in rows_by_action(log):
        own = fold[rows]
        if own.min() == own.max():
            # Seen in one fold only: nothing to fit without that fold, and all of it without another.
            whole = ridge_path(_examples(log, weights, action, rows), alphas)
            paths = {f: whole for f in range(folds) if f != own[0]}
        else:
            found = ridge_paths_without_folds(_examples(log, weights, action, rows), own, folds, alphas)
            paths = dict(enumerate(found))
        for f, path in paths.items():
            _put(lines[f], action, path)
    return lines


def _spreads(log: Log, references: FloatArray, weights: FloatArray, fold: IntArray, alphas: FloatArray) -> FloatArray:
    """Standard deviation of the event values for each penalty, root mean square over the reference policies.

    Each event's value comes from lines fitted without its fold.
    """
    values = np.empty((alphas.size, len(references), len(log)))
    for f, lines in enumerate(_lines_without_folds(log, weights, fold, alphas)):
        held = np.flatnonzero(fold == f)
        part = log[held]
        for which in range(alphas.size):
            values[which][:, held] = _doubly_robust(part, references[:, held], lines.predict(part.contexts, which))
    spreads: FloatArray = np.sqrt(values.var(axis=2).mean(axis=1))
    return spreads


def _doubly_robust(log: Log, target: FloatArray, predicted: FloatArray) -> FloatArray:
    """``sum_a pi(a) q(a) + pi(a_k)/p_k (r_k - q(a_k))`` for each event (Dudik et al. 2012).

    >>> log = Log(contexts=None, actions=[1], rewards=[1.0], propensities=[0.25], n_actions=2)
    >>> _doubly_robust(log, target=np.array([[0.5, 0.5]]), predicted=np.array([[0.25, 0.5]]))
    array([1.375])
    """
    rows = np.arange(len(log))
    surprise = log.rewards - predicted[rows, log.actions]
    weights = target[..., rows, log.actions] / log.propensities
    values: FloatArray = (target * predicted).sum(axis=-1) + weights * surprise
    return values


def _weights(log: Log, reference: FloatArray, scheme: str) -> FloatArray:
    """Training weight of each event, never quite 0 so that every action seen can be fitted."""
    if scheme == "none":
        return np.ones(len(log))
    if scheme == "inverse":
        weights = inverse_power(log.propensities, 1)
    elif scheme == "inverse_square":
        weights = inverse_power(log.propensities, 2)
    else:
        taken = reference[np.arange(len(log)), log.actions]
        weights = taken * (1 - log.propensities) * inverse_power(log.propensities, 2)
    return np.maximum(weights, max(1e-9 * weights.max(), 1e-300))


def _stand_ins(log: Log, fold: IntArray, rng: np.random.Generator) -> FloatArray:
    """Probabilities ``(2, n, K)`` of an early learner and a settled one, who never saw the fold they act on."""
    sign = -1.0 if _seeks_low_rewards(log) else 1.0
    best = np.zeros((2, len(log)), dtype=np.int64)
    for f in range(int(fold.max()) + 1):
        held = log[fold == f]
        seen = rng.permutation(np.flatnonzero(fold != f))
        for stage, rows in enumerate((seen[: EARLY * log.n_actions], seen)):
            train = log[np.sort(rows)] if rows.size else log
            predicted = sign * _fit_lines(train, np.ones(len(train)), np.ones(1)).predict(held.contexts, 0)
            best[stage, fold == f] = _masked(predicted, held.available).argmax(axis=1)
    return np.stack([_mostly(choices, log) for choices in best])


def _seeks_low_rewards(log: Log) -> bool:
    """Whether the logger earned clearly less than choosing at random would have: then rewards must be losses.

    Random choice is judged by self-normalised inverse propensity scoring, "clearly" by two standard errors.
    """
    share = 1 / log.propensities
    share /= share.mean()
    at_random = (share * log.rewards).mean()
    gains = (log.rewards - log.rewards.mean()) - share * (log.rewards - at_random)
    return bool(log.rewards.mean() - at_random < -2 * gains.std() / len(log) ** 0.5)


def _masked(predicted: FloatArray, available: BoolArray | None) -> FloatArray:
    return predicted if available is None else np.where(available, predicted, -np.inf)


def _mostly(best: IntArray, log: Log) -> FloatArray:
    """0.9 on the best action, 0.1 spread over all that are available."""
    open_ = np.ones((len(log), log.n_actions)) if log.available is None else log.available.astype(np.float64)
    probabilities: FloatArray = 0.1 * open_ / open_.sum(axis=1, keepdims=True)
    probabilities[np.arange(len(log)), best] += 0.9
    return probabilities
