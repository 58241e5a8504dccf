"""Running a policy online in a world: the truth that offline estimates are held against."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from backcast.arrays import Contexts, FloatArray
from backcast.errors import OptionError
from backcast.worlds.chance import draw_actions
from backcast.worlds.learner import AnyPolicy, fresh_copy, learning_batch, scored, teach

__all__ = ["Draw", "coin_flips", "run_live"]

Draw: TypeAlias = Callable[[FloatArray, np.random.Generator], FloatArray]


def coin_flips(means: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Rewards of 0 or 1 with the given means."""
    return (rng.random(means.shape) < means).astype(np.float64)


def run_live(
    contexts: Contexts,
    reward_table: FloatArray,
    policy: AnyPolicy,
    *,
    horizon: int,
    runs: int,
    rng: np.random.Generator,
    draw: Draw | None = None,
) -> FloatArray:
    """Average reward of each of several independent live runs of a policy, shape ``(runs,)``.

    Every round meets a context drawn at random, with replacement, from those given.

    Parameters
    ----------
    contexts
        The contexts that may be met, ``(n, d)``, CSR or ``(n, K, d)``.
    reward_table
        Reward of every action at each context, shape ``(n, K)``: realised rewards, or means together with ``draw``.
    policy
        The policy; each run starts from a copy of it.
    horizon
        Rounds in a run.
    runs
        Number of runs.
    rng
        Of the contexts, actions and rewards.
    draw
        How rewards come from the table's means, such as :func:`coin_flips`; None takes the table as it is.

    Examples
    --------
    >>> class First:
    ...     def probabilities(self, contexts, available=None):
    ...         return np.tile([1.0, 0.0], (len(contexts), 1))
    >>> run_live(np.zeros((1, 1)), np.array([[0.5, 0.0]]), First(), horizon=4, runs=2, rng=np.random.default_rng(0))
    array([0.5, 0.5])
    """
    table = np.asarray(reward_table, dtype=np.float64)
    if table.ndim != 2 or table.shape[0] != contexts.shape[0]:
        raise OptionError(f"reward_table has shape {table.shape}; expected ({contexts.shape[0]}, K), a row a context")
    if horizon < 1 or runs < 1:
        raise OptionError(f"horizon is {horizon}, runs {runs}; both must be at least 1")
    n_features = int(contexts.shape[-1])
    averages = np.empty(runs)
    for run, own in enumerate(rng.spawn(runs)):
        learner = fresh_copy(policy, table.shape[1], n_features, own)
        rows = own.integers(table.shape[0], size=horizon)
        averages[run] = _one_run(contexts[rows], table[rows], learner, own, draw).mean()
    return averages


def _one_run(
    contexts: Contexts, table: FloatArray, policy: AnyPolicy, rng: np.random.Generator, draw: Draw | None
) -> FloatArray:
    """The rewards of one run; the policy scores a batch, acts on it, and learns it."""
    horizon, n_actions = table.shape
    batch = learning_batch(policy)
    step = horizon if batch is None else batch
    rewards = np.empty(horizon)
    for start in range(0, horizon, step):
        part = slice(start, min(start + step, horizon))
        probabilities = scored(policy, contexts[part], n_actions)
        actions = draw_actions(probabilities, rng)
        taken = (np.arange(actions.size), actions)
        found = table[part][taken]
        rewards[part] = found if draw is None else draw(found, rng)
        # What the last batch would teach no longer matters.
        if batch is not None and part.stop < horizon:
            teach(policy, contexts[part], actions, rewards[part], probabilities[taken])
    return rewards
