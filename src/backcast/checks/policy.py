"""check_policy(): contract tests for a user's policy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from backcast._arrays import FloatArray
from backcast._equality import ContentEquality
from backcast._request import SeedKey, check_is_policy, seed_sequence
from backcast.errors import PolicyError
from backcast.io.stream import LogStream
from backcast.log import Log
from backcast.policies._calls import (
    TOLERANCE,
    class_name_of,
    probabilities_of,
    probability_of,
    start_copy,
    update_on_events,
)
from backcast.policies.base import batch_size_of, is_learning
from backcast.policies.compiled import CompiledPolicy

TRAINING_BATCHES = 3  # batches that a learning policy is trained on
SINGLE_EVENTS = 200  # events that are scored one at a time
PROBE_EVENTS = 256  # events on which every evaluation checks its policy
PROBE_TOLERANCE = 1e-6  # models in single precision round differently in blocks of different sizes
CHANGES = "change between two calls; they may change only in learn"
DEPENDS_ON_BLOCK = "depend on the other events of the block; score each event separately"


@dataclass(frozen=True, eq=False)
class PolicyReport(ContentEquality):
    """What was checked of a policy; it exists only if every check passed.

    Attributes
    ----------
    policy
        Name of its class.
    events
        Number of events it was scored on.
    batch_size
        Accepted events it learns from at a time; None for a fixed policy.
    laws
        The properties that were checked, one sentence each.

    Examples
    --------
    >>> laws = ("the same contexts give the same probabilities",)
    >>> print(PolicyReport("Mine", events=100, batch_size=None, laws=laws))
    Mine, a fixed policy, passed 1 check on 100 events:
    - the same contexts give the same probabilities
    """

    policy: str
    events: int
    batch_size: int | None
    laws: tuple[str, ...]

    def __str__(self) -> str:
        kind = "a fixed policy" if self.batch_size is None else f"learning in batches of {self.batch_size}"
        checks = f"{len(self.laws)} check{'' if len(self.laws) == 1 else 's'}"
        title = f"{self.policy}, {kind}, passed {checks} on {self.events:,} events:"
        return "\n".join([title, *(f"- {law}" for law in self.laws)])


def check_policy(policy: Any, log: Log, *, seed: int = 0) -> PolicyReport:
    """Check the properties of a policy that evaluators rely on; raise :class:`PolicyError` at the first violation.

    Evaluators check every probability they use. This function checks what a single run cannot show, such as that a
    copy of the policy can be trained without changing the original.

    Parameters
    ----------
    policy
        The policy; only copies of it are scored and trained.
    log
        Events to score it on: a few hundred that include all peculiarities of your contexts are enough.
    seed
        Seed of the generator that is passed to ``start``, if the policy has it.

    Examples
    --------
    >>> from backcast.policies.context_free import UCB1
    >>> log = Log(None, actions=[0, 1, 0, 1], rewards=[1, 0, 1, 0], propensities=[0.5] * 4)
    >>> print(check_policy(UCB1(), log))
    UCB1, learning in batches of 1, passed 7 checks on 4 events:
    - random numbers come from the generator that is passed to start
    - probabilities are >= 0, sum to 1 and are 0 for unavailable actions
    - the same contexts give the same probabilities
    - the probabilities of an event do not depend on the other events of its block
    - training a copy does not change the original
    - probabilities are valid after learning
    - the same training data gives the same probabilities
    """
    check_is_policy(policy)
    laws = tuple(_check_laws(policy, log, seed))
    batch_size = batch_size_of(policy) if is_learning(policy) else None
    return PolicyReport(class_name_of(policy), len(log), batch_size, laws)


def _check_laws(policy: Any, log: Log, seed: int) -> Iterator[str]:
    """Check one property after another, and yield each that holds."""
    policy_copy = _new_copy(policy, log, seed)
    yield "random numbers come from the generator that is passed to start"
    probabilities = probabilities_of(policy_copy, log)
    yield "probabilities are >= 0, sum to 1 and are 0 for unavailable actions"
    repeated = probabilities_of(policy_copy, log)
    _compare(policy, log, probabilities, repeated, CHANGES)
    yield "the same contexts give the same probabilities"
    policy_copy, events = _new_copy(policy, log, seed), log[:: max(1, len(log) // SINGLE_EVENTS)]
    together = probabilities_of(policy_copy, events)
    singly = np.concatenate([probabilities_of(policy_copy, events[k : k + 1]) for k in range(len(events))])
    _compare(policy, events, together, singly, DEPENDS_ON_BLOCK)
    yield "the probabilities of an event do not depend on the other events of its block"
    if not is_learning(policy):
        return
    before = probabilities_of(_new_copy(policy, log, seed), log)
    trained = _trained_copy(policy, log, seed)
    after = probabilities_of(_new_copy(policy, log, seed), log)
    _compare(policy, log, before, after, "changed because a copy learned; copies must share nothing (see __deepcopy__)")
    yield "training a copy does not change the original"
    learned = probabilities_of(trained, log)
    yield "probabilities are valid after learning"
    again = probabilities_of(_trained_copy(policy, log, seed), log)
    violation = "differ between two copies trained on the same data; draw only from the rng of start()"
    _compare(policy, log, learned, again, violation)
    yield "the same training data gives the same probabilities"


def probe_policy(policy: Any, log: Log | LogStream, seed: int) -> None:
    """Raise if a policy gives one block two answers, or other answers to half of its events in another order.

    Every evaluation does this on the first events of the log. Built-in kernels score events one by one from a state
    that only learning changes, so they are not asked, and neither is the logger, which repeats the log.
    """
    if isinstance(policy, CompiledPolicy) or getattr(policy, "repeats_log", False):
        return
    head, _ = log.split_head(PROBE_EVENTS)
    rng = np.random.default_rng(seed_sequence(seed, SeedKey.PROBE))
    policy_copy = start_copy(policy, head, rng)
    score = probability_of if callable(getattr(policy, "probability_of", None)) else probabilities_of
    first = score(policy_copy, head).reshape(len(head), -1)
    _compare(policy, head, first, score(policy_copy, head).reshape(first.shape), CHANGES, PROBE_TOLERANCE)
    order = rng.permutation(len(head))[: (len(head) + 1) // 2]
    permuted = score(policy_copy, head[order]).reshape(order.size, -1)
    _compare(policy, head[order], first[order], permuted, DEPENDS_ON_BLOCK, PROBE_TOLERANCE)


def _new_copy(policy: Any, log: Log, seed: int) -> Any:
    return start_copy(policy, log, np.random.default_rng(seed))


def _trained_copy(policy: Any, log: Log, seed: int) -> Any:
    """Return a copy trained on the first batches of the log."""
    policy_copy = _new_copy(policy, log, seed)
    batch_size = batch_size_of(policy_copy)
    for start in range(0, min(len(log), TRAINING_BATCHES * batch_size), batch_size):
        batch = log[start : start + batch_size]
        update_on_events(policy_copy, batch, probabilities_of(policy_copy, batch)[np.arange(len(batch)), batch.actions])
    return policy_copy


def _compare(
    policy: Any, log: Log, first: FloatArray, second: FloatArray, violation: str, tolerance: float = TOLERANCE
) -> None:
    difference = np.abs(first - second)
    if difference.max() <= tolerance:
        return
    row, action = (int(i) for i in np.unravel_index(int(difference.argmax()), difference.shape))
    value, other = first[row, action], second[row, action]
    if difference.shape[1] != log.n_actions:  # the policy answers for the logged actions alone
        action = int(log.actions[row])
    raise PolicyError(
        f"row {int(log.rows[row])}: {class_name_of(policy)}.probabilities {violation}. Action "
        f"{log.action_labels[action]!r} had {value:g}, then {other:g}"
    )
