"""Policies on ridge regressions: EpsilonGreedy, Softmax, LinUCB and LinearThompson.

Each action has its regression; if contexts are features of each action, one regression serves all. The states and
their kernels come first, then the policies. A kernel that scores one action at all events (``raw_*``) and one that
turns a row of scores into probabilities (``choose_*``) let the engine rescore only the action that was updated.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, final

import numpy as np
from numba.extending import register_jitable

from backcast._arrays import BoolArray, Contexts, FloatArray
from backcast._kernels.contexts import View, add_scores, dot_column, quadratic_form
from backcast._kernels.dispatch import register
from backcast._validation import at_least, count, share
from backcast.policies._choice import argmax_probabilities, epsilon_greedy, softmax
from backcast.policies._largest_draw import Draws, win_probabilities
from backcast.policies._ridge import (
    Ridge,
    has_long_batches,
    largest_norm,
    learn_linear,
    new_ridge,
    prediction_sd,
    prediction_sds,
    ridge_with_variances,
    with_predictions,
)
from backcast.policies.compiled import CompiledPolicy


class GreedyState(NamedTuple):
    """Regressions and the share of uniform exploration."""

    ridge: Ridge
    epsilon: float


class SoftmaxState(NamedTuple):
    """Regressions and a temperature."""

    ridge: Ridge
    temperature: float


class UpperState(NamedTuple):
    """Regressions, the width of the confidence bound, and the largest width at features of norm 1.

    The latter is ``alpha / sqrt(ridge)``: no eigenvalue of ``A`` is below the ridge.
    """

    ridge: Ridge
    alpha: float
    largest_width: float


class ThompsonState(NamedTuple):
    """Regressions, the scale of the posterior, and scratch for the draws of one event."""

    ridge: Ridge
    scale: float
    draws: Draws


def raw_mean(state: Any, view: View, action: int, out: FloatArray) -> None:
    """Write the predicted reward ``theta.x`` of one action at every event."""
    dot_column(view, action, state.ridge.theta, out)


def raw_row_mean(state: Any, view: View, k: int, out: FloatArray) -> None:
    """Write the predicted reward of all actions at event ``k``."""
    out[:] = 0.0
    add_scores(view, k, state.ridge.theta, out)


def lipschitz_mean(state: Any) -> float:
    """Return the largest norm of ``theta``."""
    return largest_norm(state.ridge)


def choose_greedy(state: Any, available: BoolArray, k: int, out: FloatArray) -> None:
    """Turn predictions into epsilon-greedy probabilities."""
    epsilon_greedy(out, state.epsilon, available, k)


def score_greedy(state: Any, view: View, k: int, available: BoolArray, out: FloatArray) -> None:
    """Write the epsilon-greedy probabilities of all actions at event ``k``."""
    out[:] = 0.0
    add_scores(view, k, state.ridge.theta, out)
    epsilon_greedy(out, state.epsilon, available, k)


def choose_softmax(state: Any, available: BoolArray, k: int, out: FloatArray) -> None:
    """Turn predictions into ``exp(prediction / temperature)``, normalised."""
    softmax(out, state.temperature, available, k)


def score_softmax(state: Any, view: View, k: int, available: BoolArray, out: FloatArray) -> None:
    """Write the softmax probabilities of all actions at event ``k``."""
    out[:] = 0.0
    add_scores(view, k, state.ridge.theta, out)
    softmax(out, state.temperature, available, k)


def raw_upper(state: Any, view: View, action: int, out: FloatArray) -> None:
    """Write ``theta.x + alpha sqrt(x' A^-1 x)`` of one action at every event (Li et al. 2010, Algorithm 1, line 9)."""
    ridge = state.ridge
    if ridge.moves.size > 0:
        mean, variance = ridge.means[action], ridge.variances[action]
        for k in range(out.size):
            # in single precision twice as fast, if the scores are
            out[k] = mean[k] + state.alpha * np.sqrt(out.dtype.type(max(variance[k], 0.0)))
        return
    dot_column(view, action, ridge.theta, out)
    for k in range(out.size):
        out[k] += state.alpha * prediction_sd(ridge, view, k, action)


def raw_row_upper(state: Any, view: View, k: int, out: FloatArray) -> None:
    """Write ``theta.x + alpha sqrt(x' A^-1 x)`` of all actions at event ``k``."""
    out[:] = 0.0
    add_scores(view, k, state.ridge.theta, out)
    sds = prediction_sds(state.ridge, view, k)
    for a in range(out.size):
        out[a] += state.alpha * sds[a]


_raw_row_upper = register_jitable(raw_row_upper)  # as the others below: compiled with the loop that calls it


def lipschitz_upper(state: Any) -> float:
    """Return a Lipschitz constant of ``theta.x + alpha sqrt(x' A^-1 x)``, for both terms together."""
    return float(largest_norm(state.ridge) + state.largest_width)


def choose_upper(state: Any, available: BoolArray, k: int, out: FloatArray) -> None:
    """Turn upper bounds into the choice of the largest (Li et al. 2010, Algorithm 1, line 11)."""
    argmax_probabilities(out, available, k)


def score_upper(state: Any, view: View, k: int, available: BoolArray, out: FloatArray) -> None:
    """Choose the action of the largest upper bound at event ``k``."""
    _raw_row_upper(state, view, k, out)
    argmax_probabilities(out, available, k)


def raw_thompson(state: Any, view: View, action: int, out: FloatArray) -> None:
    """Write the predicted reward of one action at every event; its variances are stored with the regressions."""
    ridge = state.ridge
    if ridge.moves.size > 0:
        mean = ridge.means[action]
        for k in range(out.size):
            out[k] = mean[k]
        return
    dot_column(view, action, ridge.theta, out)
    for k in range(out.size):
        ridge.variances[action, k] = quadratic_form(view, k, action, ridge.packed, ridge.products)


def choose_thompson(state: Any, available: BoolArray, k: int, out: FloatArray) -> None:
    """Turn predictions, with their variances, into the probabilities that draws are the largest."""
    sds = state.ridge.sds
    for a in range(out.size):
        sds[a] = state.scale * np.sqrt(max(state.ridge.variances[a, k], 0.0))
    win_probabilities(out, sds, available, k, state.draws)


def score_thompson(state: Any, view: View, k: int, available: BoolArray, out: FloatArray) -> None:
    """Write the probability that the action's draw from ``N(theta.x, scale^2 x' A^-1 x)`` is the largest."""
    out[:] = 0.0
    add_scores(view, k, state.ridge.theta, out)
    sds = prediction_sds(state.ridge, view, k)
    for a in range(out.size):
        sds[a] *= state.scale
    win_probabilities(out, sds, available, k, state.draws)


register(
    GreedyState,
    score=score_greedy,
    learn=learn_linear,
    raw=raw_mean,
    raw_row=raw_row_mean,
    choose=choose_greedy,
    lipschitz=lipschitz_mean,
    greedy=True,
)
register(SoftmaxState, score=score_softmax, learn=learn_linear, raw=raw_mean, choose=choose_softmax)
register(
    UpperState,
    score=score_upper,
    learn=learn_linear,
    raw=raw_upper,
    raw_row=raw_row_upper,
    choose=choose_upper,
    lipschitz=lipschitz_upper,
    greedy=True,
)
register(ThompsonState, score=score_thompson, learn=learn_linear, raw=raw_thompson, choose=choose_thompson)


@final
class EpsilonGreedy(CompiledPolicy):
    """The action of best ridge prediction, with a share ``epsilon`` of uniform exploration.

    Examples
    --------
    >>> import numpy as np
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

    def initial_state(self, n_actions: int, n_features: int, has_action_features: bool) -> GreedyState:
        """Return regressions without observations."""
        return GreedyState(new_ridge(n_actions, n_features, has_action_features, self.ridge), self.epsilon)


@final
class Softmax(CompiledPolicy):
    """Actions in proportion to ``exp(prediction / temperature)``, predictions by ridge regression.

    Examples
    --------
    >>> import numpy as np
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

    def initial_state(self, n_actions: int, n_features: int, has_action_features: bool) -> SoftmaxState:
        """Return regressions without observations."""
        return SoftmaxState(new_ridge(n_actions, n_features, has_action_features, self.ridge), self.temperature)


@final
class LinUCB(CompiledPolicy):
    """The action of largest upper confidence bound ``theta.x + alpha sqrt(x' A^-1 x)`` (Li et al. 2010).

    One regression per action; if contexts are features of each action, one for all of them.

    Examples
    --------
    >>> import numpy as np
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

    def initial_state(self, n_actions: int, n_features: int, has_action_features: bool) -> UpperState:
        """Return regressions without observations."""
        ridge = ridge_with_variances(n_actions, n_features, has_action_features, self.ridge)
        return UpperState(ridge, self.alpha, self.alpha / math.sqrt(self.ridge))

    def state_for_pass(self, contexts: Contexts, view: View) -> UpperState:
        """Return the state with predictions and variances of all events stored, unless batches are too large."""
        state: UpperState = self.state_for(contexts)
        if has_long_batches(state.ridge, self.batch_size):
            return state
        return state._replace(ridge=with_predictions(state.ridge, view, contexts.shape[0]))


@final
class LinearThompson(CompiledPolicy):
    """Thompson sampling on ridge regressions (Agrawal and Goyal 2013), with probabilities computed instead of sampled.

    Each action's score is drawn from ``N(theta.x, scale^2 x' A^-1 x)``, independently; the probability of being the
    largest is computed to 1e-6 for ten actions, and to 1e-7 per action for more.
    If contexts are features of each action, all share one regression; draws are then treated as independent across
    actions, which is the usual per-action approximation.

    Examples
    --------
    >>> import numpy as np
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

    def initial_state(self, n_actions: int, n_features: int, has_action_features: bool) -> ThompsonState:
        """Return regressions without observations."""
        ridge = ridge_with_variances(n_actions, n_features, has_action_features, self.ridge)
        return ThompsonState(ridge, self.scale, Draws.of_size(n_actions))

    def state_for_pass(self, contexts: Contexts, view: View) -> ThompsonState:
        """Return the state with variances of all events stored, and predictions unless batches are too large."""
        state: ThompsonState = self.state_for(contexts)
        if has_long_batches(state.ridge, self.batch_size):
            variances = np.zeros((state.ridge.sds.size, contexts.shape[0]))
            return state._replace(ridge=state.ridge._replace(variances=variances))
        return state._replace(ridge=with_predictions(state.ridge, view, contexts.shape[0]))
