"""An environment so small that every history can be enumerated."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from backcast._arrays import FloatArray
from backcast.environments.live import log_without_choices
from backcast.errors import OptionError
from backcast.log import Log
from backcast.policies._calls import TrainingBatch, draw_actions, probabilities_of, start_copy, update_policy
from backcast.policies.base import Policy, batch_size_of, is_learning

__all__ = ["Event", "TabularWorld"]


class Event(NamedTuple):
    """One round: context, action, and a reward of 0 or 1."""

    context: int
    action: int
    reward: int


History: TypeAlias = tuple[Event, ...]


class TabularWorld:
    """X contexts, K actions, rewards of 0 or 1: small enough to compute every distribution exactly.

    Contexts are indicator features, shape ``(n, X)``.

    Parameters
    ----------
    context_probabilities
        Probability of each context, shape ``(X,)``.
    mean_rewards
        Probability of reward 1 for each context and action, shape ``(X, K)``.
    logging
        Probabilities of the logger, shape ``(X, K)``; None explores uniformly.

    Examples
    --------
    >>> world = TabularWorld([0.5, 0.5], mean_rewards=[[1.0, 0.0], [0.0, 0.5]])
    >>> world.value([[1.0, 0.0], [0.0, 1.0]])
    0.75
    >>> world.log(3, np.random.default_rng(0))
    Log(3 events, 2 actions, 2 features)
    """

    def __init__(
        self, context_probabilities: npt.ArrayLike, mean_rewards: npt.ArrayLike, logging: npt.ArrayLike | None = None
    ) -> None:
        means = np.array(mean_rewards, dtype=np.float64)
        if means.ndim != 2 or not ((means >= 0) & (means <= 1)).all():
            raise OptionError(f"mean_rewards is {means.tolist()}; it must be an (X, K) table of chances in [0, 1]")
        uniform = np.full(means.shape, 1 / means.shape[1])
        self.mean_rewards: FloatArray = means
        self.context_probabilities = _law("context_probabilities", context_probabilities, means.shape[:1])
        self.logging = uniform if logging is None else _law("logging", logging, means.shape)
        self._contexts = log_without_choices(np.eye(self.n_contexts), self.n_actions)

    def __repr__(self) -> str:
        return f"TabularWorld({self.n_contexts} contexts, {self.n_actions} actions)"

    @property
    def n_contexts(self) -> int:
        """Number of contexts X."""
        return len(self.mean_rewards)

    @property
    def n_actions(self) -> int:
        """Number of actions K."""
        return int(self.mean_rewards.shape[1])

    def log(self, n: int, rng: np.random.Generator) -> Log:
        """Return a log of n independent events collected by the logger."""
        contexts = rng.choice(self.n_contexts, size=n, p=self.context_probabilities)
        logging = self.logging[contexts]
        actions = draw_actions(logging, rng.random(n))
        rewards = (rng.random(n) < self.mean_rewards[contexts, actions]).astype(np.float64)
        return Log(
            contexts=np.eye(self.n_contexts)[contexts],
            actions=actions,
            rewards=rewards,
            propensities=logging[np.arange(n), actions],
            n_actions=self.n_actions,
            reward_range=(0.0, 1.0),
            logging_probabilities=logging,
        )

    def value(self, probabilities: npt.ArrayLike) -> float:
        """Return the expected reward of a fixed policy, given as a table of probabilities ``(X, K)``."""
        table = _law("probabilities", probabilities, self.mean_rewards.shape)
        return float(self.context_probabilities @ (table * self.mean_rewards).sum(axis=1))

    def history_law(self, policy: Policy, horizon: int, rng: np.random.Generator | None = None) -> dict[History, float]:
        """Return the probability of every possible history of ``horizon`` rounds of the policy, which may learn.

        The tree has up to ``(2 X K)^horizon`` leaves. The policy is copied at every node; ``rng`` is passed
        to ``start``.

        Examples
        --------
        >>> class Fair:
        ...     def probabilities(self, contexts, available=None):
        ...         return np.full((len(contexts), 2), 0.5)
        >>> law = TabularWorld([1.0], mean_rewards=[[1.0, 0.5]]).history_law(Fair(), horizon=1)
        >>> {tuple(event): chance for (event,), chance in law.items()}
        {(0, 0, 1): 0.5, (0, 1, 0): 0.25, (0, 1, 1): 0.25}
        """
        law: dict[History, float] = {}
        for node, chance in self._walk(policy, _positive(horizon) - 1, rng):
            if len(node.history) == horizon - 1:
                # what the policy learns from the last round has no effect
                law |= {(*node.history, event): chance * p for event, p in self._rounds(node)}
        return law

    def learning_value(self, policy: Policy, horizon: int, rng: np.random.Generator | None = None) -> float:
        """Return ``V_T = E[(1/T) sum_t r_t]``, exactly, of a policy that may learn, over ``horizon`` rounds.

        Examples
        --------
        >>> class Fair:
        ...     def probabilities(self, contexts, available=None):
        ...         return np.full((len(contexts), 2), 0.5)
        >>> TabularWorld([1.0], mean_rewards=[[1.0, 0.5]]).learning_value(Fair(), horizon=2)
        0.75
        """
        # the expected reward of round t needs only the histories of t - 1 rounds
        nodes = self._walk(policy, _positive(horizon) - 1, rng)
        return sum(chance * self.value(node.probabilities) for node, chance in nodes) / horizon

    def _walk(self, policy: Policy, depth: int, rng: np.random.Generator | None) -> Iterator[tuple[_Node, float]]:
        """Yield every possible history of at most ``depth`` rounds with its probability, parents before children."""
        seeded = np.random.default_rng(0) if rng is None else rng
        stack = [(self._node(start_copy(policy, self._contexts, seeded), (), 0), 1.0)]
        while stack:
            node, chance = stack.pop()
            yield node, chance
            if len(node.history) < depth:
                children = [(self._child(node, event), chance * p) for event, p in self._rounds(node)]
                stack += reversed(children)

    def _rounds(self, node: _Node) -> Iterator[tuple[Event, float]]:
        """Yield all events that can happen in the next round, with their probabilities."""
        chosen = self.context_probabilities[:, None] * node.probabilities
        law = np.stack([chosen * (1 - self.mean_rewards), chosen * self.mean_rewards], axis=2)
        for x, a, r in np.argwhere(law > 0).tolist():
            yield Event(x, a, r), float(law[x, a, r])

    def _node(self, policy: Policy, history: History, learnt: int) -> _Node:
        return _Node(policy, history, learnt, probabilities_of(policy, self._contexts))

    def _child(self, node: _Node, event: Event) -> _Node:
        """Return the node after one more round; the policy learns when its batch is full."""
        history = (*node.history, event)
        if not is_learning(node.policy) or len(history) - node.learnt < batch_size_of(node.policy):
            return node._replace(history=history)
        rows, actions, rewards = (np.array(column) for column in zip(*history[node.learnt :], strict=True))
        policy = copy.deepcopy(node.policy)
        chances = node.probabilities[rows, actions]
        update_policy(
            policy, TrainingBatch(np.eye(self.n_contexts)[rows], actions, rewards.astype(np.float64), chances, rows)
        )
        return self._node(policy, history, len(history))


class _Node(NamedTuple):
    """A policy in its present state, the history, and the number of rounds it has learned from."""

    policy: Policy
    history: History
    learnt: int
    probabilities: FloatArray


def _positive(horizon: int) -> int:
    if horizon < 1:
        raise OptionError(f"horizon is {horizon}; it must be at least 1 round")
    return horizon


def _law(name: str, given: npt.ArrayLike, shape: tuple[int, ...]) -> FloatArray:
    """Return validated probabilities of the given shape, each row summing to 1."""
    table = np.array(given, dtype=np.float64)
    if table.shape != shape:
        raise OptionError(f"{name} has shape {table.shape}; expected {shape}")
    if not ((table >= 0).all() and np.allclose(table.sum(axis=-1), 1, rtol=0, atol=1e-9)):
        raise OptionError(f"{name} is {table.tolist()}; probabilities must be >= 0 and each row must sum to 1")
    return table
