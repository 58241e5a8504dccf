"""The question put to an evaluator, and the protocol of evaluators."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from os import PathLike
from typing import Any, Protocol, runtime_checkable

import numpy as np

from backcast._parallel.checkpoint import Checkpoint, object_fingerprint, open_checkpoint
from backcast._parallel.jobs import Execution, no_progress
from backcast._validation import at_least, count
from backcast.errors import NeedsStationaryPolicy, OptionError
from backcast.estimate import Estimate
from backcast.log import Log, log_fingerprint
from backcast.policies.base import LogPolicy, Policy, is_learning

PARTIAL = "Partial:"


@dataclass(frozen=True)
class EvaluationRequest:
    """What would this policy have earned on this log?

    ``log`` is a :class:`~backcast.log.Log` in memory or a stream of parts. ``interval`` is None for the evaluator's
    own default; ``replicates`` is None for none, a number, or "auto". ``keep`` holds pieces of work that are done, if
    they are kept at all; ``time_limit`` is how long one may take. ``on_progress`` is told how many more events are
    done, and may raise :class:`StopEvaluation`.
    """

    log: Any
    policy: Any
    reward_model: Any = None
    horizon: int | None = None
    interval: Any = None
    level: float = 0.95
    seed: int = 0
    replicates: int | str | None = None
    n_jobs: int | None = None
    policy_name: str = ""
    on_progress: Callable[[int], None] = field(default=no_progress)
    keep: Checkpoint | None = None
    time_limit: float | None = None

    @property
    def terms(self) -> Execution:
        """On what terms its work is done."""
        return Execution(self.n_jobs, self.time_limit, self.keep, self.on_progress)

    def within(self, name: str) -> EvaluationRequest:
        """The same for one part of a question, whose pieces of work are kept apart from those of its other parts."""
        return self if self.keep is None else replace(self, keep=self.keep.within(name))

    @property
    def in_memory(self) -> bool:
        """Whether the log is at hand whole."""
        return isinstance(self.log, Log)

    @property
    def propensities_estimated(self) -> bool:
        """Whether propensities were estimated from the log; those of a stream from files never are."""
        parts = self.log if isinstance(self.log, list | tuple) else (self.log,)
        return any(getattr(part, "propensities_estimated", False) for part in parts)

    def parts(self) -> Iterator[Log]:
        """The log in parts, in order."""
        if self.in_memory:
            yield self.log
        else:
            yield from self.log


@runtime_checkable
class Evaluator(Protocol):
    """A way of answering the question: a frozen value of options with one method."""

    def estimate(self, request: EvaluationRequest) -> Estimate:
        """The estimate, its interval and its diagnostics."""
        ...


@dataclass(frozen=True)
class RandomStreams:
    """Separate streams of randomness for folds, acceptance and policy, all from one seed."""

    folds: np.random.Generator
    acceptance: np.random.Generator
    policy: np.random.Generator
    replicates: np.random.SeedSequence

    @classmethod
    def of(cls, seed: int) -> RandomStreams:
        """The streams of a seed."""
        folds, acceptance, policy, replicates = np.random.SeedSequence(seed).spawn(4)
        return cls(
            np.random.default_rng(folds),
            np.random.default_rng(acceptance),
            np.random.default_rng(policy),
            replicates,
        )


def stopped_note(done: str) -> str:
    """What readers of a partial answer must know.

    >>> stopped_note("3 of 16 passes")
    'Partial: the run was stopped when 3 of 16 passes were done.'
    """
    return f"{PARTIAL} the run was stopped when {done} were done."


def is_partial(notes: Iterable[str]) -> bool:
    """Whether notes tell of a run that was stopped."""
    return any(note.startswith(PARTIAL) for note in notes)


def require_fixed_policy(policy: object, evaluator: str) -> None:
    """Refuse a learning policy where only fixed ones make sense."""
    if is_learning(policy):
        raise NeedsStationaryPolicy(
            f"{evaluator} evaluates fixed policies and {type(policy).__name__} learns as it goes; "
            "use DRns, ClockReplay or evaluator='auto' for it"
        )


def with_checkpoint(
    folder: str | PathLike[str] | None, request: EvaluationRequest, evaluator: Any, policies: Mapping[str, Any]
) -> EvaluationRequest:
    """The question with its checkpoint in this folder, made or found; as it is where there is none."""
    if folder is None:
        return request
    return replace(request, keep=open_checkpoint(folder, request_facts(request, evaluator, policies)))


def request_facts(request: EvaluationRequest, evaluator: Any, policies: Mapping[str, Any]) -> dict[str, str]:
    """Everything that a piece of work depends on.

    How many replicates, at which level, and who does them is left out: a piece is the same whatever comes of it, so
    that more replicates may be asked for, and the work done so far serves them.
    """
    from importlib.metadata import version

    return {
        "version of backcast": version("backcast"),
        "version of numpy": np.__version__,
        "log": _log(request.log),
        **{name: object_fingerprint(policy) for name, policy in policies.items()},
        "evaluator": object_fingerprint(evaluator),
        "reward model": object_fingerprint(request.reward_model),
        "interval": object_fingerprint(request.interval),
        "horizon": repr(request.horizon),
        "seed": repr(request.seed),
    }


def _log(log: Any) -> str:
    if isinstance(log, Log):
        return log_fingerprint(log)
    fingerprint = getattr(log, "fingerprint", None)
    if not callable(fingerprint):
        raise OptionError("a checkpoint needs to know the log again; give a Log, or a stream from scan_log")
    return str(fingerprint())


def check_request(
    policy: Any, level: float, horizon: int | None, seed: int = 0, time_limit: float | None = None
) -> None:
    """Refuse what makes no sense before any work is done."""
    check_is_policy(policy)
    if not 0 < level < 1:
        raise OptionError(f"level is {level}; it must lie between 0 and 1")
    if horizon is not None:
        count("horizon", horizon)
    count("seed", seed, 0)
    if time_limit is not None:
        at_least("time_limit", time_limit, 0.0, strict=True)


def check_is_policy(policy: Any) -> None:
    """Raise unless the object is a policy: an instance that gives probabilities of actions."""
    if isinstance(policy, type):
        raise OptionError(f"{policy.__name__} is a class; give a policy made from it, such as {policy.__name__}()")
    if not (isinstance(policy, Policy | LogPolicy) or hasattr(policy, "probability_of")):
        raise OptionError(f"{policy!r} is not a policy; it needs a method probabilities(contexts, available=None)")
