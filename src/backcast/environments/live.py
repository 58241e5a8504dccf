"""Drawing actions, and the loggers that worlds explore with."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Protocol, TypeAlias, TypeVar

import numpy as np

from backcast._arrays import BoolArray, Contexts, FloatArray, IntArray
from backcast.errors import OptionError, PolicyError


def draw_actions(probabilities: FloatArray, rng: np.random.Generator) -> IntArray:
    """One action for each row of probabilities; an action of probability 0 is never drawn.

    >>> draw_actions(np.array([[0.0, 1.0], [1.0, 0.0]]), np.random.default_rng(0))
    array([1, 0])
    """
    steps = np.cumsum(probabilities, axis=1)
    levels = rng.random((steps.shape[0], 1)) * steps[:, -1:]
    actions: IntArray = (steps <= levels).sum(axis=1).astype(np.int64)
    return actions


def exploring_scores(n: int, n_actions: int, rng: np.random.Generator) -> FloatArray:
    """The random scores of the paper's logger, uniform on [0.1, 1]: they spread propensities without information."""
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
    """A softmax of the scores that never gives an action less than the floor.

    >>> sharp_logging(np.array([[0.0, np.log(3.0)]]), temperature=1.0, floor=0.25)
    array([[0.375, 0.625]])

    By hand: the softmax is (1/4, 3/4); half the mass is the floor's, half the softmax's.
    """
    exponent = (scores - scores.max(axis=1, keepdims=True)) / temperature
    odds = np.exp(exponent)
    softmax = odds / odds.sum(axis=1, keepdims=True)
    probabilities: FloatArray = floor + (1 - floor * scores.shape[1]) * softmax
    return probabilities


class AnyPolicy(Protocol):
    """Probabilities of all actions for a block of contexts; ``learn``, ``batch_size``, ``start`` where it has them."""

    def probabilities(self, contexts: Contexts, available: BoolArray | None = None) -> FloatArray:
        """Probabilities ``(n, K)`` under the present state."""
        ...


P = TypeVar("P", bound=AnyPolicy)


def start_copy(policy: P, n_actions: int, n_features: int, rng: np.random.Generator) -> P:
    """A copy of the policy, told the sizes if it wants to know them; the caller's own is never taught."""
    own = copy.deepcopy(policy)
    start = getattr(own, "start", None)
    if callable(start):
        start(n_actions, n_features, rng)
    return own


def learning_batch(policy: AnyPolicy) -> int | None:
    """How many events the policy takes at a time, or None for one that does not learn."""
    if not callable(getattr(policy, "learn", None)):
        return None
    return int(getattr(policy, "batch_size", 1))


def teach(
    policy: AnyPolicy, contexts: Contexts, actions: IntArray, rewards: FloatArray, probabilities: FloatArray
) -> None:
    """Hand a batch to a policy that learns."""
    policy.learn(contexts, actions, rewards, probabilities)  # type: ignore[attr-defined]


def scored(policy: AnyPolicy, contexts: Contexts, n_actions: int) -> FloatArray:
    """The policy's probabilities, refused unless they have the right shape and rows that sum to 1."""
    probabilities = np.asarray(policy.probabilities(contexts), dtype=np.float64)
    expected = (contexts.shape[0], n_actions)
    if probabilities.shape != expected:
        raise PolicyError(f"probabilities have shape {probabilities.shape}; expected {expected}")
    wrong = ~((probabilities >= 0).all(axis=1) & (np.abs(probabilities.sum(axis=1) - 1) <= 1e-9))
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise PolicyError(f"row {row}: probabilities are {probabilities[row].tolist()}; they must be >= 0 and sum to 1")
    return probabilities


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
        learner = start_copy(policy, table.shape[1], n_features, own)
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
