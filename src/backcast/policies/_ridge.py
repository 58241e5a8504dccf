"""Ridge regressions that learn one event at a time, one an action (or one for all, when actions have features).

Each keeps ``A^-1`` and ``theta``, updated by recursive least squares (Sherman-Morrison), so that nothing is ever solved
anew. Policies that ask for the variance ``x' A^-1 x`` of every action at every event keep the matrices a second time,
in the order that this question wants.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from backcast._arrays import FloatArray
from backcast._kernels.contexts import View, add_products, add_squares, dot, load_row, size_of, square_of, store_matrix
from backcast._kernels.jit import inlined
from backcast.errors import OptionError

LARGEST_STATE = 2**31


class Ridge(NamedTuple):
    """Ridge regressions, one a column of ``theta``; ``squares`` holds ``inverse`` again where variances are wanted.

    The rest is scratch: features, their gain, their products, the deviations of all actions.
    """

    theta: FloatArray
    inverse: FloatArray
    squares: FloatArray
    row: FloatArray
    gain: FloatArray
    products: FloatArray
    widths: FloatArray


def new_ridge(n_actions: int, n_features: int, own_features: bool, ridge: float) -> Ridge:
    """Regressions that have learned nothing, without room for variances.

    >>> new_ridge(2, 3, False, 1.0).inverse.shape
    (2, 3, 3)
    """
    if n_features == 0:
        raise OptionError("a linear learner needs contexts and the log has none; use UCB1, or give contexts")
    models = 1 if own_features else n_actions
    if models * n_features**2 * 8 > LARGEST_STATE:
        raise OptionError(
            f"a linear learner keeps a d x d matrix per action; {models} of {n_features} x {n_features} would need "
            f"{models * n_features**2 * 8 / 2**30:.1f} GiB. Use fewer features (hash or project them) or FromClassifier"
        )
    inverse = np.repeat(np.eye(n_features)[None] / ridge, models, axis=0)
    row, gain = np.zeros(n_features), np.zeros(n_features)
    return Ridge(np.zeros((n_features, models)), inverse, np.zeros((0, models)), row, gain, np.zeros(0), np.zeros(0))


def ridge_with_variances(n_actions: int, n_features: int, own_features: bool, ridge: float) -> Ridge:
    """The same with room for the variances of all actions."""
    fresh = new_ridge(n_actions, n_features, own_features, ridge)
    squares = np.zeros((size_of(n_features), fresh.inverse.shape[0]))
    for model in range(squares.shape[1]):
        store_matrix(fresh.inverse[model], squares, model)
    return fresh._replace(squares=squares, products=np.zeros(squares.shape[0]), widths=np.zeros(n_actions))


@inlined
def update_ridge(theta: FloatArray, inverse: FloatArray, row: FloatArray, gain: FloatArray, reward: float) -> None:
    """Recursive least squares: ``theta += g (r - theta.x)``, ``A^-1 -= g x' A^-1``; ``g = A^-1 x/(1 + x' A^-1 x)``."""
    # A^-1 is symmetric, so its columns may be read for its rows
    gain[:] = 0.0
    add_products(inverse, row, gain)
    share = 1.0 / (1.0 + dot(gain, row))
    surprise = share * (reward - dot(theta, row))
    for j in range(row.size):
        theta[j] += gain[j] * surprise
    for j in range(row.size):
        scaled = share * gain[j]
        if scaled != 0.0:
            for i in range(row.size):
                inverse[j, i] -= scaled * gain[i]


def learn_linear(state: Any, view: View, k: int, action: int, reward: float, probability: float) -> None:
    """Ridge regression of the reward on the features of the action taken."""
    ridge = state.ridge
    model = action if ridge.inverse.shape[0] > 1 else 0
    load_row(view, k, action, ridge.row)
    update_ridge(ridge.theta[:, model], ridge.inverse[model], ridge.row, ridge.gain, reward)
    if ridge.squares.shape[0] > 0:
        store_matrix(ridge.inverse[model], ridge.squares, model)


@inlined
def deviation(ridge: Ridge, view: View, k: int, action: int) -> float:
    """``sqrt(x' A^-1 x)`` of one action, with the bits of :func:`deviations`."""
    variance = square_of(view, k, action, ridge.squares, ridge.products)
    return float(np.sqrt(max(variance, 0.0)))


@inlined
def deviations(ridge: Ridge, view: View, k: int) -> FloatArray:
    """``sqrt(x' A^-1 x)`` of all actions, the spread of their predictions; scratch that the next call overwrites."""
    widths = ridge.widths
    widths[:] = 0.0
    add_squares(view, k, ridge.squares, ridge.products, widths)
    for a in range(widths.size):
        widths[a] = np.sqrt(max(widths[a], 0.0))
    return widths
