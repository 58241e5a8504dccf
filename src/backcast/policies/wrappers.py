"""Policies around another policy: WarmStart, trained before its first round, and Delayed, whose rewards arrive late."""

from __future__ import annotations

import copy
from typing import Any, final

import numpy as np

from backcast._arrays import BoolArray, Contexts, FloatArray, IntArray, concat_contexts
from backcast._parameters import Parametrized
from backcast._validation import count
from backcast._validation import share as check_share
from backcast.errors import OptionError, PolicyError
from backcast.log import Log, replace_columns
from backcast.policies._calls import start_copy, update_on_events
from backcast.policies.base import NamesActions, Policy, StartsFresh, batch_size_of, is_learning
from backcast.policies.compiled import CompiledPolicy
from backcast.policies.fixed import list_labels


@final
class WarmStart(Parametrized):
    """A policy that is trained on logged events before its first round, as policies are when they are deployed.

    With ``share``, :func:`backcast.evaluate`, :func:`backcast.compare` and :func:`backcast.search` train it on the
    first events of the log and evaluate all policies on the other events. It learns all of these events, in order,
    with the probabilities that the logger gave to their actions. The value is that of the policy trained on these very
    events.

    Parameters
    ----------
    policy
        The policy to train; it must learn.
    share
        Share of the log to train on, at least 0 and below 1; with 0 it is the policy itself.
    log
        Another log to train on, instead of a share; its actions are found by their labels.

    Examples
    --------
    >>> from backcast.policies.context_free import UCB1
    >>> past = Log(None, actions=[0, 1], rewards=[0, 1], propensities=[0.5, 0.5])
    >>> policy = WarmStart(UCB1(exploration=0.5), log=past)
    >>> policy.start(2, 0, np.random.default_rng(0))
    >>> policy.probabilities(np.zeros((1, 0)))
    array([[0., 1.]])

    By hand: both actions were played once, so their bonus is the same, and the second has the better mean.
    """

    def __init__(self, policy: Any, *, share: float | None = None, log: Log | None = None) -> None:
        _check_learns(policy, "WarmStart")
        if (share is None) == (log is None):
            raise OptionError("WarmStart trains on a part of the log or on another log; give share=0.2 or log=...")
        if share is not None and check_share("share", share) == 1:
            raise OptionError("share is 1; it must be below 1, because the other events are evaluated")
        if log is not None and not isinstance(log, Log):
            raise OptionError(f"log is a {type(log).__name__}; WarmStart needs a Log in memory, such as of read_log")
        self.policy, self.share, self.log = policy, share, log
        self._labels: tuple[Any, ...] | None = None
        self._trained: Any = None

    def __deepcopy__(self, memo: Any) -> WarmStart:
        duplicate = WarmStart(copy.deepcopy(self.policy, memo), share=self.share, log=self.log)  # a log is immutable
        duplicate._labels, duplicate._trained = self._labels, copy.deepcopy(self._trained, memo)
        return duplicate

    def __repr__(self) -> str:
        trained_on = f"share={self.share:g}" if self.log is None else f"log={self.log!r}"
        return f"WarmStart({self.policy!r}, {trained_on})"

    @property
    def batch_size(self) -> int:
        """Accepted events that the policy learns from at a time."""
        return batch_size_of(self.policy)

    def use_labels(self, labels: tuple[Any, ...]) -> None:
        """Store the labels of the actions, by which those of the training log are found."""
        self._labels = labels

    def start(self, n_actions: int, n_features: int, rng: np.random.Generator) -> None:
        """Train a copy of the policy."""
        if self.log is None:
            raise PolicyError(
                f"{self!r} takes its training events from the log that evaluate, compare or search evaluates; "
                "elsewhere give it a log of its own: WarmStart(policy, log=log)"
            )
        labels = self.log.action_labels if self._labels is None else self._labels
        self._trained = train_policy(self.policy, self.training_events(labels, n_features), rng)

    def probabilities(self, contexts: Contexts, available: BoolArray | None = None) -> FloatArray:
        """Return the probabilities of the trained policy."""
        if self._trained is None:
            raise PolicyError(f"{self!r} has not been started; call start(n_actions, n_features, rng) first")
        return np.asarray(self._trained.probabilities(contexts, available))

    def learn(self, contexts: Contexts, actions: IntArray, rewards: FloatArray, probabilities: FloatArray) -> None:
        """Continue to learn, from accepted events."""
        self._trained.learn(contexts, actions, rewards, probabilities)

    def training_events(self, labels: tuple[Any, ...], n_features: int) -> Log:
        """Return the training log with the action codes of a log that has these labels and so many features."""
        assert self.log is not None
        log = self.log
        if log.n_features != n_features:
            raise PolicyError(
                f"the training log of {type(self.policy).__name__} has {log.n_features} features, and the log that is "
                f"evaluated has {n_features}; give both the same context columns"
            )
        if log.action_labels == labels:
            return log
        code = {label: i for i, label in enumerate(labels)}
        taken = [log.action_labels[a] for a in np.unique(log.columns.actions)]
        unknown = [label for label in taken if label not in code]
        if unknown or log.has_action_features:
            reason = f"{list_labels(unknown)} are not among them" if unknown else "features belong to positions"
            raise PolicyError(
                f"the actions of the training log are {list_labels(log.action_labels)}, those of the log that is "
                f"evaluated {list_labels(labels)} ({reason}); leave out the events of other actions"
            )
        codes = np.array([code.get(label, 0) for label in log.action_labels])[log.columns.actions]
        return replace_columns(
            log,
            actions=codes,
            available=None,
            logging_probabilities=None,
            n_actions=len(labels),
            action_labels=labels,
        )


def train_policy(policy: Any, log: Log, rng: np.random.Generator) -> Any:
    """Return a copy of the policy that has learned all events of a log, in order.

    >>> from backcast.policies.context_free import RoundRobin
    >>> log = Log(None, actions=[0, 1, 0], rewards=[0, 1, 0], propensities=[0.5] * 3)
    >>> train_policy(RoundRobin(), log, np.random.default_rng(0)).probabilities(np.zeros((1, 0)))
    array([[0., 1.]])

    By hand: three rounds are played, so of two actions the second is next.
    """
    trained = start_copy(policy, log, rng)
    # a compiled policy learns event by event in any case
    size = len(log) if isinstance(trained, CompiledPolicy) else batch_size_of(trained)
    for start in range(0, len(log), size):
        batch = log[start : start + size]
        update_on_events(trained, batch, batch.columns.propensities.copy())
    return trained


@final
class Delayed(Parametrized):
    """A policy whose rewards arrive ``delay`` rounds late, and which is updated once in ``every`` rounds.

    Between two updates its probabilities do not change. An update uses the rounds whose rewards have arrived by then,
    in batches of the policy's own ``batch_size``.

    Parameters
    ----------
    policy
        The policy; it must learn.
    delay
        Rounds after which the reward of a round is known; 0 for at once.
    every
        Rounds between two updates, such as the visitors of a day for a policy that is updated at night.

    Examples
    --------
    >>> from backcast.policies.context_free import RoundRobin
    >>> policy = Delayed(RoundRobin(), delay=1)
    >>> policy.start(2, 0, np.random.default_rng(0))
    >>> once = np.zeros((1, 0)), np.array([0]), np.array([1.0]), np.array([1.0])
    >>> policy.learn(*once)
    >>> policy.probabilities(np.zeros((1, 0)))
    array([[1., 0.]])
    >>> policy.learn(*once)
    >>> policy.probabilities(np.zeros((1, 0)))
    array([[0., 1.]])

    By hand: the reward of the first round arrives with the second.
    """

    def __init__(self, policy: Any, *, delay: int = 0, every: int = 1) -> None:
        _check_learns(policy, "Delayed")
        self.policy = policy
        self.delay, self.every = count("delay", delay, 0), count("every", every)
        self._pending: list[tuple[Any, ...]] = []  # rounds whose rewards have not arrived, in blocks

    def __repr__(self) -> str:
        return f"Delayed({self.policy!r}, delay={self.delay}, every={self.every})"

    @property
    def batch_size(self) -> int:
        """Rounds between two updates."""
        return self.every

    def use_labels(self, labels: tuple[Any, ...]) -> None:
        """Pass the labels of the actions on to the policy."""
        if isinstance(self.policy, NamesActions):
            self.policy.use_labels(labels)

    def start(self, n_actions: int, n_features: int, rng: np.random.Generator) -> None:
        """Start the policy; it has no rounds to learn from yet."""
        self._pending = []
        if isinstance(self.policy, StartsFresh):
            self.policy.start(n_actions, n_features, rng)

    def probabilities(self, contexts: Contexts, available: BoolArray | None = None) -> FloatArray:
        """Return the probabilities of the policy after its last update."""
        return np.asarray(self.policy.probabilities(contexts, available))

    def learn(self, contexts: Contexts, actions: IntArray, rewards: FloatArray, probabilities: FloatArray) -> None:
        """Store these rounds, and update the policy on those whose rewards have arrived."""
        self._pending.append((contexts, actions, rewards, probabilities))
        size = batch_size_of(self.policy)
        arrived = (sum(len(block[1]) for block in self._pending) - self.delay) // size * size
        if arrived <= 0:
            return
        stored, *others = zip(*self._pending, strict=True)
        columns = [concat_contexts(list(stored)), *map(np.concatenate, others)]
        # a compiled policy learns event by event in any case
        size = arrived if isinstance(self.policy, CompiledPolicy) else size
        for start in range(0, arrived, size):
            self.policy.learn(*(column[start : start + size] for column in columns))
        self._pending = [tuple(column[arrived:] for column in columns)]


def _check_learns(policy: Any, wrapper: str) -> None:
    if isinstance(policy, type):
        raise OptionError(f"{policy.__name__} is a class; give an instance, such as {wrapper}({policy.__name__}())")
    if not (is_learning(policy) and isinstance(policy, Policy)):
        raise OptionError(f"{wrapper} needs a policy that learns, with probabilities and learn; {policy!r} does not")
