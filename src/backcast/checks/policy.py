"""Laws that a policy must keep, to be run on policies of your own before their estimates are believed.

Evaluators hold a policy to its contract as they go, at the events that they meet. The laws here are those that a run
cannot see: that the answer is the same when the question is, that one event's probabilities owe nothing to its
neighbours in the block, that a copy which learns leaves the original alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from backcast._arrays import FloatArray
from backcast.errors import PolicyError
from backcast.log import Log
from backcast.policies._calls import TOLERANCE, class_name_of, probabilities_of, start_copy, update_on_events
from backcast.policies.base import LogPolicy, Policy, batch_size_of, is_learning

LESSONS = 3  # batches that a learning policy is taught


ALONE = 200  # events that are scored one by one


@dataclass(frozen=True)
class PolicyReport:
    """What was checked of a policy; it exists only if every law held.

    Attributes
    ----------
    policy
        Name of its class.
    events
        Events of the log it was asked about.
    batch_size
        Accepted events it learns from at a time; None for a policy that does not learn.
    laws
        The laws that held, in words.

    Examples
    --------
    >>> print(PolicyReport("Mine", events=100, batch_size=None, laws=("two questions alike get one answer",)))
    Mine, a fixed policy, kept 1 law on 100 events:
    - two questions alike get one answer
    """

    policy: str
    events: int
    batch_size: int | None
    laws: tuple[str, ...]

    def __str__(self) -> str:
        kind = "a fixed policy" if self.batch_size is None else f"learning {self.batch_size} at a time"
        count = f"{len(self.laws)} law{'' if len(self.laws) == 1 else 's'}"
        head = f"{self.policy}, {kind}, kept {count} on {self.events:,} events:"
        return "\n".join([head, *(f"- {law}" for law in self.laws)])


def check_policy(policy: Any, log: Log, *, seed: int = 0) -> PolicyReport:
    """Hold a policy to the laws that evaluators rely on; the first broken one is a :class:`PolicyError`.

    Parameters
    ----------
    policy
        The policy; only copies of it are asked and taught.
    log
        Events to ask it about: a few hundred with all that is special about your contexts will do.
    seed
        Seed of the generator that a policy gets at its start.

    Examples
    --------
    >>> from backcast.policies.context_free import UCB1
    >>> log = Log(None, actions=[0, 1, 0, 1], rewards=[1, 0, 1, 0], propensities=[0.5] * 4)
    >>> print(check_policy(UCB1(), log))
    UCB1, learning 1 at a time, kept 6 laws on 4 events:
    - probabilities are numbers >= 0 that sum to 1, none on unavailable actions
    - two questions alike get one answer
    - an event's probabilities owe nothing to the other events of its block
    - a copy that learns leaves the original alone
    - probabilities are still sound after learning
    - lessons alike make policies alike
    """
    if isinstance(policy, type) or not isinstance(policy, Policy | LogPolicy):
        raise PolicyError(f"{policy!r} is not a policy; it needs a method probabilities(contexts, available=None)")
    laws = _LAWS if is_learning(policy) else _LAWS[:FOR_ALL]
    for _, law in laws:
        law(policy, log, seed)
    batch = batch_size_of(policy) if is_learning(policy) else None
    return PolicyReport(class_name_of(policy), len(log), batch, tuple(words for words, _ in laws))


def _copy(policy: Any, log: Log, seed: int) -> Any:
    return start_copy(policy, log, np.random.default_rng(seed))


def _pupil(policy: Any, log: Log, seed: int) -> Any:
    """A copy that has learned the first batches of the log."""
    twin = _copy(policy, log, seed)
    batch = batch_size_of(twin)
    for start in range(0, min(len(log), LESSONS * batch), batch):
        lesson = log[start : start + batch]
        update_on_events(twin, lesson, probabilities_of(twin, lesson)[np.arange(len(lesson)), lesson.actions])
    return twin


def _soundness(policy: Any, log: Log, seed: int) -> None:
    probabilities_of(_copy(policy, log, seed), log)


def _repetition(policy: Any, log: Log, seed: int) -> None:
    twin = _copy(policy, log, seed)
    first, second = (probabilities_of(twin, log) for _ in range(2))
    _compare(policy, log, first, second, "change when asked again; they may change only in learn")


def _neighbours(policy: Any, log: Log, seed: int) -> None:
    twin = _copy(policy, log, seed)
    some = log[:: max(1, len(log) // ALONE)]
    apart = np.concatenate([probabilities_of(twin, some[k : k + 1]) for k in range(len(some))])
    together = probabilities_of(twin, some)
    _compare(policy, some, together, apart, "depend on the other events of the block; each event must stand alone")


def _original(policy: Any, log: Log, seed: int) -> None:
    before = probabilities_of(_copy(policy, log, seed), log)
    _pupil(policy, log, seed)
    after = probabilities_of(_copy(policy, log, seed), log)
    _compare(policy, log, before, after, "changed because a copy learned; copies must share nothing (see __deepcopy__)")


def _soundness_after(policy: Any, log: Log, seed: int) -> None:
    probabilities_of(_pupil(policy, log, seed), log)


def _determinism(policy: Any, log: Log, seed: int) -> None:
    first, second = (probabilities_of(_pupil(policy, log, seed), log) for _ in range(2))
    _compare(policy, log, first, second, "differ between two copies taught alike; draw only from the rng of start()")


def _compare(policy: Any, log: Log, one: FloatArray, other: FloatArray, fault: str) -> None:
    apart = np.abs(one - other)
    if apart.max() <= TOLERANCE:
        return
    row, action = np.unravel_index(int(apart.argmax()), apart.shape)
    raise PolicyError(
        f"row {int(log.rows[row])}: {class_name_of(policy)}.probabilities {fault}. "
        f"Action {log.action_labels[action]!r} had {one[row, action]:g}, then {other[row, action]:g}"
    )


FOR_ALL = 3


_LAWS: tuple[tuple[str, Callable[[Any, Log, int], None]], ...] = (
    ("probabilities are numbers >= 0 that sum to 1, none on unavailable actions", _soundness),
    ("two questions alike get one answer", _repetition),
    ("an event's probabilities owe nothing to the other events of its block", _neighbours),
    ("a copy that learns leaves the original alone", _original),
    ("probabilities are still sound after learning", _soundness_after),
    ("lessons alike make policies alike", _determinism),
)
