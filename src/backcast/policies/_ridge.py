"""Recursive least squares: ridge regressions updated one event at a time, compiled.

One regression per action, or one for all if contexts are features of each action. Each holds ``A^-1`` and ``theta``,
updated by the Sherman-Morrison formula. Policies that need the variance ``x' A^-1 x`` of every action at every event
hold ``A^-1`` a second time, in the packed layout of ``_kernels/contexts.py``, where the variance is one dot product.

During a pass that scores all events after every update, predictions and variances of all events can be stored and
updated with the model: with the gain ``g = A^-1 x*`` of the event that was learned, ``s = 1 + x*.g`` and
``e = (r - theta.x*)/s``, those of an event with features x change by ``(x.g) e`` and ``-(x.g)^2/s`` (Sherman-Morrison),
which is one dot product instead of a quadratic form.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from backcast._arrays import FloatArray
from backcast._kernels.contexts import (
    Dense,
    DenseColumns,
    View,
    add_products,
    add_quadratic_forms,
    as_copied,
    dot,
    dot_column,
    load_row,
    pack_matrix,
    packed_size,
    quadratic_form,
)
from backcast._kernels.jit import compiled, inlined
from backcast.errors import OptionError

MAX_STATE_BYTES = 2**31


class Ridge(NamedTuple):
    """Ridge regressions, one per column of ``theta``; ``packed`` holds ``inverse`` again if variances are needed.

    ``means`` and ``variances`` are those of the predictions of all actions at all events of a pass, if they are stored.
    The other arrays are scratch: features, their gain, their products, the standard deviations of all actions, and
    the products ``x.g`` of all events with a gain.
    """

    theta: FloatArray
    inverse: FloatArray
    packed: FloatArray
    row: FloatArray
    gain: FloatArray
    products: FloatArray
    sds: FloatArray
    means: FloatArray
    variances: FloatArray
    moves: FloatArray


def new_ridge(n_actions: int, n_features: int, has_action_features: bool, ridge: float) -> Ridge:
    """Return regressions without observations, without arrays for variances.

    >>> new_ridge(2, 3, False, 1.0).inverse.shape
    (2, 3, 3)
    """
    if n_features == 0:
        raise OptionError("a linear learner needs contexts and the log has none; use UCB1, or give contexts")
    models = 1 if has_action_features else n_actions
    if models * n_features**2 * 8 > MAX_STATE_BYTES:
        raise OptionError(
            f"a linear learner stores a d x d matrix per action; {models} of {n_features} x {n_features} would need "
            f"{models * n_features**2 * 8 / 2**30:.1f} GiB. Use fewer features (hash or project them) or FromClassifier"
        )
    inverse = np.repeat(np.eye(n_features)[None] / ridge, models, axis=0)
    return Ridge(
        theta=np.zeros((n_features, models)),
        inverse=inverse,
        packed=np.zeros((0, models)),
        row=np.zeros(n_features),
        gain=np.zeros(n_features),
        products=np.zeros(0),
        sds=np.zeros(0),
        means=np.zeros((0, 0)),
        variances=np.zeros((0, 0)),
        moves=np.zeros(0),
    )


def ridge_with_variances(n_actions: int, n_features: int, has_action_features: bool, ridge: float) -> Ridge:
    """Return regressions without observations, with arrays for the variances of all actions."""
    new = new_ridge(n_actions, n_features, has_action_features, ridge)
    packed = np.zeros((packed_size(n_features), new.inverse.shape[0]))
    for model in range(packed.shape[1]):
        pack_matrix(new.inverse[model], packed, model)
    return new._replace(packed=packed, products=np.zeros(packed.shape[0]), sds=np.zeros(n_actions))


def has_long_batches(ridge: Ridge, batch_size: int) -> bool:
    """Whether scoring all events anew after a batch is cheaper than updating their predictions for each of its events.

    An update costs a dot product per event, scoring anew a quadratic form per event and model.
    """
    n_features, n_models = ridge.theta.shape
    return bool(batch_size > n_models * n_features / 2)


def with_predictions(ridge: Ridge, view: View, n_events: int) -> Ridge:
    """Return the regressions with predictions and variances of all actions at all events of these contexts."""
    shape = ridge.sds.size, n_events
    ridge = ridge._replace(means=np.zeros(shape), variances=np.zeros(shape), moves=np.zeros(n_events))
    if isinstance(view, Dense | DenseColumns) and not may_have_learned(ridge):
        # x' A^-1 x is a multiple of the squared norm: 2 milliseconds less per pass over 10,000 events with 20 features
        features = view.columns if isinstance(view, DenseColumns) else view.x.T
        norms = np.einsum("jk,jk->k", features, features, dtype=np.float64)
        return ridge._replace(variances=np.tile(ridge.inverse[0, 0, 0] * norms, (shape[0], 1)))
    # those that updates change are of the features in the copy
    write_predictions(ridge, as_copied(view))
    return ridge


def may_have_learned(ridge: Ridge) -> bool:
    """Return whether the regressions differ from those without observations, ``theta = 0`` and ``A`` diagonal.

    >>> may_have_learned(new_ridge(2, 3, False, 0.5))
    False
    """
    unlearned = ridge.inverse[0, 0, 0] * np.eye(len(ridge.theta))
    return bool(ridge.theta.any() or (ridge.inverse != unlearned).any())


@inlined
def largest_norm(ridge: Ridge) -> float:
    """Return the largest Euclidean norm of the columns of ``theta``."""
    largest = 0.0
    for model in range(ridge.theta.shape[1]):
        total = 0.0
        for j in range(ridge.theta.shape[0]):
            total += ridge.theta[j, model] * ridge.theta[j, model]
        largest = max(largest, total)
    return float(np.sqrt(largest))


@compiled
def write_predictions(ridge: Ridge, view: View) -> None:
    """Write predictions and variances of all actions at all events."""
    for a in range(ridge.means.shape[0]):
        dot_column(view, a, ridge.theta, ridge.means[a])
        # the regressions of a policy that has not learned are all alike, unless each action has its own features
        if a > 0 and ridge.packed.shape[1] > 1 and np.all(ridge.packed[:, a] == ridge.packed[:, 0]):
            for k in range(ridge.moves.size):
                ridge.variances[a, k] = ridge.variances[0, k]
        else:
            for k in range(ridge.moves.size):
                ridge.variances[a, k] = quadratic_form(view, k, a, ridge.packed, ridge.products)


@inlined
def update_ridge(
    theta: FloatArray, inverse: FloatArray, row: FloatArray, gain: FloatArray, reward: float
) -> tuple[float, float]:
    """Recursive least squares: ``theta += g e``, ``A^-1 -= g g'/s``; ``g = A^-1 x``, ``s = 1 + x.g``, see above.

    It is Sherman-Morrison for ``A += x x'`` and the same ``theta`` as ``A^-1 b`` after ``b += r x`` (Li et al. 2010,
    Algorithm 1, lines 8, 12 and 13), without solving a system. Returns ``e`` and ``1/s``; ``gain`` is g.
    """
    # gain = A^-1 x; A^-1 is symmetric, so its columns may be read for its rows
    gain[:] = 0.0
    add_products(inverse, row, gain)
    scale = 1.0 / (1.0 + dot(gain, row))
    step = scale * (reward - dot(theta, row))
    for j in range(row.size):
        theta[j] += gain[j] * step
    # a feature that is 0 has gain 0 until correlated with others: skip its row
    for j in range(row.size):
        scaled = scale * gain[j]
        if scaled != 0.0:
            for i in range(row.size):
                inverse[j, i] -= scaled * gain[i]
    return step, scale


def learn_linear(state: Any, view: View, k: int, action: int, reward: float, probability: float) -> None:
    """Update the regression of the action with the reward at event ``k``."""
    ridge = state.ridge
    model = action if ridge.inverse.shape[0] > 1 else 0
    load_row(view, k, action, ridge.row)
    step, scale = update_ridge(ridge.theta[:, model], ridge.inverse[model], ridge.row, ridge.gain, reward)
    if ridge.packed.shape[0] > 0:
        pack_matrix(ridge.inverse[model], ridge.packed, model)
    # one regression serves all actions if contexts are features of each action
    first, last = (action, action + 1) if ridge.inverse.shape[0] > 1 else (0, ridge.means.shape[0])
    if ridge.moves.size > 0:
        gain, moves = ridge.gain.reshape(ridge.gain.size, 1), ridge.moves
        for a in range(first, last):
            dot_column(view, a if ridge.inverse.shape[0] == 1 else 0, gain, moves)
            mean, variance = ridge.means[a], ridge.variances[a]
            for i in range(moves.size):
                mean[i] += step * moves[i]
                variance[i] -= scale * moves[i] * moves[i]


@inlined
def prediction_sd(ridge: Ridge, view: View, k: int, action: int) -> float:
    """``sqrt(x' A^-1 x)`` of one action, with the bits of :func:`prediction_sds`."""
    variance = quadratic_form(view, k, action, ridge.packed, ridge.products)
    return float(np.sqrt(max(variance, 0.0)))


@inlined
def prediction_sds(ridge: Ridge, view: View, k: int) -> FloatArray:
    """``sqrt(x' A^-1 x)`` of all actions; scratch that the next call overwrites."""
    sds = ridge.sds
    sds[:] = 0.0
    add_quadratic_forms(view, k, ridge.packed, ridge.products, sds)
    for a in range(sds.size):
        sds[a] = np.sqrt(max(sds[a], 0.0))
    return sds
