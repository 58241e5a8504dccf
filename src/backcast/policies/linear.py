"""Linear learners: ridge regression per action (or one for all, when actions have features), five ways to explore.

Each action keeps ``A^-1`` and ``theta`` of its ridge regression, updated one event at a time by recursive least
squares (Sherman-Morrison), so that nothing is ever solved anew.
"""

from __future__ import annotations

from typing import Any, NamedTuple, final

import numpy as np

from backcast.arrays import BoolArray, FloatArray
from backcast.errors import OptionError
from backcast.kernels.dispatch import register
from backcast.kernels.jit import compiled
from backcast.kernels.views import View, add_scores, dot_column, load_row
from backcast.options import at_least, count, share
from backcast.policies.choice import best_of, soften, softmax
from backcast.policies.compiled import CompiledPolicy
from backcast.policies.race import win_probabilities

__all__ = ["EpsilonGreedy", "LinUCB", "LinearThompson", "Softmax"]

LARGEST_STATE = 2**31


class Ridge(NamedTuple):
    """Ridge regressions, one a column of ``theta``, with two scratch rows."""

    theta: FloatArray
    inverse: FloatArray
    row: FloatArray
    gain: FloatArray


class GreedyState(NamedTuple):
    """Regressions and the share of uniform exploration."""

    ridge: Ridge
    epsilon: float


class SoftmaxState(NamedTuple):
    """Regressions and a temperature."""

    ridge: Ridge
    temperature: float


class UpperState(NamedTuple):
    """Regressions and the width of the optimism."""

    ridge: Ridge
    alpha: float


class ThompsonState(NamedTuple):
    """Regressions and the scale of the posterior."""

    ridge: Ridge
    scale: float


@compiled
def apply_inverse(inverse: FloatArray, row: FloatArray, out: FloatArray) -> float:
    """``out = A^-1 x`` and the returned ``x . A^-1 x``, the variance of the prediction at x."""
    # A^-1 is symmetric: adding scaled rows, four at a time, vectorises without reordering any sum
    out[:] = 0.0
    whole = row.size - row.size % 4
    for j in range(0, whole, 4):
        first, second, third, fourth = row[j], row[j + 1], row[j + 2], row[j + 3]
        for i in range(row.size):
            out[i] = (
                ((out[i] + inverse[j, i] * first) + inverse[j + 1, i] * second) + inverse[j + 2, i] * third
            ) + inverse[j + 3, i] * fourth
    for j in range(whole, row.size):
        for i in range(row.size):
            out[i] += inverse[j, i] * row[j]
    total = 0.0
    for j in range(row.size):
        total += row[j] * out[j]
    return total


@compiled
def update_ridge(theta: FloatArray, inverse: FloatArray, row: FloatArray, gain: FloatArray, reward: float) -> None:
    """Recursive least squares: ``theta += g (r - theta.x)``, ``A^-1 -= g x' A^-1``; ``g = A^-1 x/(1 + x' A^-1 x)``."""
    scale = 1.0 + apply_inverse(inverse, row, gain)
    surprise = reward
    for j in range(row.size):
        surprise -= theta[j] * row[j]
    for j in range(row.size):
        theta[j] += gain[j] * surprise / scale
    for j in range(row.size):
        share = gain[j] / scale
        if share != 0.0:
            for i in range(row.size):
                inverse[j, i] -= share * gain[i]


@compiled
def model_deviation(ridge: Ridge, action: int) -> float:
    """``sqrt(x' A^-1 x)`` of one action at the row that is loaded."""
    width = apply_inverse(ridge.inverse[action if ridge.inverse.shape[0] > 1 else 0], ridge.row, ridge.gain)
    return float(np.sqrt(max(width, 0.0)))


@compiled
def deviation(ridge: Ridge, view: View, k: int, action: int) -> float:
    """``sqrt(x' A^-1 x)`` of one action; called for actions 0, 1, ... in order, so a shared row is loaded once."""
    if action == 0 or ridge.inverse.shape[0] == 1:
        load_row(view, k, action, ridge.row)
    return model_deviation(ridge, action)


def learn_linear(state: Any, view: View, k: int, action: int, reward: float, probability: float) -> None:
    """Ridge regression of the reward on the features of the action taken."""
    ridge = state.ridge
    load_row(view, k, action, ridge.row)
    model = action if ridge.inverse.shape[0] > 1 else 0
    update_ridge(ridge.theta[:, model], ridge.inverse[model], ridge.row, ridge.gain, reward)


def raw_mean(state: Any, view: View, action: int, out: FloatArray) -> None:
    """The predicted reward of one action at every event, ``theta.x``."""
    dot_column(view, action, state.ridge.theta, out)


def choose_greedy(state: Any, available: BoolArray, k: int, out: FloatArray) -> None:
    """The best prediction, with a share ``epsilon`` spread over all."""
    best_of(out, available, k)
    soften(out, state.epsilon, available, k)


def score_greedy(state: Any, view: View, k: int, available: BoolArray, out: FloatArray) -> None:
    """Predictions of all actions, then the choice."""
    out[:] = 0.0
    add_scores(view, k, state.ridge.theta, out)
    best_of(out, available, k)
    soften(out, state.epsilon, available, k)


def choose_softmax(state: Any, available: BoolArray, k: int, out: FloatArray) -> None:
    """``exp(prediction / temperature)``, normalised."""
    softmax(out, state.temperature, available, k)


def score_softmax(state: Any, view: View, k: int, available: BoolArray, out: FloatArray) -> None:
    """Predictions of all actions, then the choice."""
    out[:] = 0.0
    add_scores(view, k, state.ridge.theta, out)
    softmax(out, state.temperature, available, k)


def raw_upper(state: Any, view: View, action: int, out: FloatArray) -> None:
    """``theta.x + alpha sqrt(x' A^-1 x)`` of one action at every event (Li et al. 2010, Algorithm 1)."""
    ridge = state.ridge
    dot_column(view, action, ridge.theta, out)
    for k in range(out.size):
        load_row(view, k, action, ridge.row)
        out[k] += state.alpha * model_deviation(ridge, action)


def choose_upper(state: Any, available: BoolArray, k: int, out: FloatArray) -> None:
    """The largest bound."""
    best_of(out, available, k)


def score_upper(state: Any, view: View, k: int, available: BoolArray, out: FloatArray) -> None:
    """Upper bounds of all actions, the best one taken."""
    out[:] = 0.0
    add_scores(view, k, state.ridge.theta, out)
    for a in range(out.size):
        out[a] += state.alpha * deviation(state.ridge, view, k, a)
    best_of(out, available, k)


def score_thompson(state: Any, view: View, k: int, available: BoolArray, out: FloatArray) -> None:
    """Probability that the action's draw from ``N(theta.x, scale^2 x' A^-1 x)`` is the largest."""
    out[:] = 0.0
    add_scores(view, k, state.ridge.theta, out)
    spread = np.empty(out.size)
    for a in range(out.size):
        spread[a] = state.scale * deviation(state.ridge, view, k, a)
    win_probabilities(out, spread, available, k)


register(GreedyState, score=score_greedy, learn=learn_linear, raw=raw_mean, choose=choose_greedy, greedy=True)
register(SoftmaxState, score=score_softmax, learn=learn_linear, raw=raw_mean, choose=choose_softmax)
register(UpperState, score=score_upper, learn=learn_linear, raw=raw_upper, choose=choose_upper, greedy=True)
register(ThompsonState, score=score_thompson, learn=learn_linear)


def _fresh(n_actions: int, n_features: int, own_features: bool, ridge: float) -> Ridge:
    if n_features == 0:
        raise OptionError("a linear learner needs contexts and the log has none; use UCB1, or give contexts")
    models = 1 if own_features else n_actions
    if models * n_features**2 * 8 > LARGEST_STATE:
        raise OptionError(
            f"a linear learner keeps a d x d matrix per action; {models} of {n_features} x {n_features} would need "
            f"{models * n_features**2 * 8 / 2**30:.1f} GiB. Use fewer features (hash or project them) or FromClassifier"
        )
    inverse = np.repeat(np.eye(n_features)[None] / ridge, models, axis=0)
    return Ridge(np.zeros((n_features, models)), inverse, np.zeros(n_features), np.zeros(n_features))


@final
class EpsilonGreedy(CompiledPolicy):
    """Best action by ridge regression, a share ``epsilon`` explored uniformly.

    Examples
    --------
    >>> policy = EpsilonGreedy(epsilon=0.5)
    >>> policy.start(2, 1, np.random.default_rng(0))
    >>> policy.learn(np.ones((1, 1)), np.array([1]), np.array([1.0]), np.array([0.5]))
    >>> policy.probabilities(np.ones((1, 1)))
    array([[0.25, 0.75]])
    """

    def __init__(self, epsilon: float = 0.1, *, ridge: float = 1.0, batch_size: int = 1) -> None:
        super().__init__(count("batch_size", batch_size))
        self.epsilon = share("epsilon", epsilon)
        self.ridge = at_least("ridge", ridge, 0.0, strict=True)

    def __repr__(self) -> str:
        return f"EpsilonGreedy(epsilon={self.epsilon:g}, ridge={self.ridge:g}, batch_size={self.batch_size})"

    def initial_state(self, n_actions: int, n_features: int, own_features: bool) -> GreedyState:
        """Regressions with nothing learned."""
        return GreedyState(_fresh(n_actions, n_features, own_features, self.ridge), self.epsilon)


@final
class Softmax(CompiledPolicy):
    """Actions in proportion to ``exp(prediction / temperature)``, predictions by ridge regression.

    Examples
    --------
    >>> policy = Softmax(temperature=1.0)
    >>> policy.start(2, 1, np.random.default_rng(0))
    >>> policy.probabilities(np.ones((1, 1)))
    array([[0.5, 0.5]])
    """

    def __init__(self, temperature: float = 0.1, *, ridge: float = 1.0, batch_size: int = 1) -> None:
        super().__init__(count("batch_size", batch_size))
        self.temperature = at_least("temperature", temperature, 0.0, strict=True)
        self.ridge = at_least("ridge", ridge, 0.0, strict=True)

    def __repr__(self) -> str:
        return f"Softmax(temperature={self.temperature:g}, ridge={self.ridge:g}, batch_size={self.batch_size})"

    def initial_state(self, n_actions: int, n_features: int, own_features: bool) -> SoftmaxState:
        """Regressions with nothing learned."""
        return SoftmaxState(_fresh(n_actions, n_features, own_features, self.ridge), self.temperature)


@final
class LinUCB(CompiledPolicy):
    """The action of largest upper confidence bound ``theta.x + alpha sqrt(x' A^-1 x)`` (Li et al. 2010).

    One regression per action; when contexts are features of each action, one for all of them.

    Examples
    --------
    >>> policy = LinUCB(alpha=1.0)
    >>> policy.start(2, 1, np.random.default_rng(0))
    >>> policy.learn(np.ones((1, 1)), np.array([0]), np.array([0.0]), np.array([0.5]))
    >>> policy.probabilities(np.ones((1, 1)))
    array([[0., 1.]])
    """

    def __init__(self, alpha: float = 0.3, *, ridge: float = 1.0, batch_size: int = 1) -> None:
        super().__init__(count("batch_size", batch_size))
        self.alpha = at_least("alpha", alpha, 0.0)
        self.ridge = at_least("ridge", ridge, 0.0, strict=True)

    def __repr__(self) -> str:
        return f"LinUCB(alpha={self.alpha:g}, ridge={self.ridge:g}, batch_size={self.batch_size})"

    def initial_state(self, n_actions: int, n_features: int, own_features: bool) -> UpperState:
        """Regressions with nothing learned."""
        return UpperState(_fresh(n_actions, n_features, own_features, self.ridge), self.alpha)


@final
class LinearThompson(CompiledPolicy):
    """Thompson sampling on ridge regressions, with its choice probabilities computed rather than sampled.

    Each action's score is drawn from ``N(theta.x, scale^2 x' A^-1 x)``, independently; the probability of being the
    largest is a one-dimensional integral, done by quadrature (see :mod:`backcast.policies.race`).
    When actions have features of their own they share one regression; draws are then taken as independent across
    actions, which is the usual per-action approximation.

    Examples
    --------
    >>> policy = LinearThompson(scale=1.0)
    >>> policy.start(2, 1, np.random.default_rng(0))
    >>> policy.probabilities(np.ones((1, 1))).round(9)
    array([[0.5, 0.5]])
    """

    def __init__(self, scale: float = 0.3, *, ridge: float = 1.0, batch_size: int = 1) -> None:
        super().__init__(count("batch_size", batch_size))
        self.scale = at_least("scale", scale, 0.0)
        self.ridge = at_least("ridge", ridge, 0.0, strict=True)

    def __repr__(self) -> str:
        return f"LinearThompson(scale={self.scale:g}, ridge={self.ridge:g}, batch_size={self.batch_size})"

    def initial_state(self, n_actions: int, n_features: int, own_features: bool) -> ThompsonState:
        """Regressions with nothing learned."""
        return ThompsonState(_fresh(n_actions, n_features, own_features, self.ridge), self.scale)
