"""Run a policy online against known rewards; the loggers of the environments."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from backcast._arrays import BoolArray, Contexts, FloatArray
from backcast.errors import OptionError
from backcast.log import Log
from backcast.policies._calls import BlockScorer, TrainingBatch, contexts_for, draw_actions, start_copy, update_policy
from backcast.policies.base import Policy, batch_size_of, is_learning

Draw: TypeAlias = Callable[[FloatArray, np.random.Generator], FloatArray]


def run_live(
    contexts: Contexts,
    reward_table: FloatArray,
    policy: Policy,
    *,
    horizon: int,
    runs: int,
    rng: np.random.Generator,
    draw: Draw | None = None,
) -> FloatArray:
    """Return the average reward of each of several independent online runs of a policy, shape ``(runs,)``.

    The context of every round is drawn at random, with replacement, from those given.

    Parameters
    ----------
    contexts
        The contexts to draw from, ``(n, d)``, CSR or ``(n, K, d)``.
    reward_table
        Reward of every action at each context, shape ``(n, K)``: realised rewards, or means together with ``draw``.
    policy
        The policy; each run starts from a copy of it.
    horizon
        Rounds per run.
    runs
        Number of runs.
    rng
        Generator of the contexts, actions and rewards.
    draw
        Function that draws rewards around their means, such as :func:`coin_flips`; None uses the table unchanged.

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
        raise OptionError(
            f"reward_table has shape {table.shape}; expected ({contexts.shape[0]}, K), one row per context"
        )
    if horizon < 1 or runs < 1:
        raise OptionError(f"horizon is {horizon}, runs is {runs}; both must be at least 1")
    log = log_without_choices(contexts, table.shape[1])
    averages = np.empty(runs)
    for run, run_rng in enumerate(rng.spawn(runs)):
        policy_copy = start_copy(policy, log, run_rng)
        rows = run_rng.integers(len(log), size=horizon)
        averages[run] = _run_once(log[rows], table[rows], policy_copy, run_rng, draw).mean()
    return averages


def _run_once(log: Log, table: FloatArray, policy: Policy, rng: np.random.Generator, draw: Draw | None) -> FloatArray:
    """Return the reward of every round; the policy scores a batch of rounds, acts on it and learns from it."""
    horizon, learning = len(log), is_learning(policy)
    batch_size = batch_size_of(policy) if learning else horizon
    score, contexts = BlockScorer(policy, log), contexts_for(policy, log)
    rewards = np.empty(horizon)
    for start in range(0, horizon, batch_size):
        batch = slice(start, min(start + batch_size, horizon))
        probabilities = score(batch.start, batch.stop)
        actions = draw_actions(probabilities, rng.random(len(probabilities)))
        taken = (np.arange(actions.size), actions)
        rewards[batch] = table[batch][taken] if draw is None else draw(table[batch][taken], rng)
        # the last batch is not learned: no round comes after it
        if learning and batch.stop < horizon:
            columns = contexts[batch], actions, rewards[batch], probabilities[taken], log.rows[batch]
            update_policy(policy, TrainingBatch(*columns))
    return rewards


def log_without_choices(contexts: Contexts, n_actions: int) -> Log:
    """Return contexts as a log, which is what policies are scored on; its actions and rewards have no meaning."""
    n = contexts.shape[0]
    return Log(contexts, np.zeros(n, dtype=np.int64), np.zeros(n), np.ones(n), n_actions=n_actions)


def coin_flips(means: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Draw rewards of 0 or 1 with the given means."""
    return (rng.random(means.shape) < means).astype(np.float64)


def draw_exploration_scores(n: int, n_actions: int, rng: np.random.Generator) -> FloatArray:
    """Draw the scores of the paper's logger, uniform on [0.1, 1]: propensities vary but carry no information."""
    return rng.uniform(0.1, 1.0, size=(n, n_actions))


def paper_logging(scores: FloatArray, good: BoolArray) -> FloatArray:
    """``mu(a|x) = 0.3 s_a / sum s + 0.7 I(a good) / #good`` (Dudik et al. 2012, section 4.1).

    >>> paper_logging(np.array([[0.5, 0.5]]), np.array([[True, False]]))
    array([[0.85, 0.15]])
    """
    spread = scores / scores.sum(axis=1, keepdims=True)
    informed = good / good.sum(axis=1, keepdims=True)
    probabilities: FloatArray = 0.3 * spread + 0.7 * informed
    return probabilities


def sharp_logging(scores: FloatArray, temperature: float, floor: float) -> FloatArray:
    """Softmax of the scores mixed with uniform choice, so that every action has at least the probability ``floor``.

    >>> sharp_logging(np.array([[0.0, np.log(3.0)]]), temperature=1.0, floor=0.25)
    array([[0.375, 0.625]])

    By hand: the softmax is (1/4, 3/4); half of the probability is the floor's, half the softmax's.
    """
    from scipy.special import softmax

    probabilities: FloatArray = floor + (1 - floor * scores.shape[1]) * softmax(scores / temperature, axis=1)
    return probabilities
