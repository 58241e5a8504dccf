"""EvaluationRequest, the arguments of an evaluation; random streams, seed keys, and the Evaluator protocol."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, field, replace
from enum import IntEnum
from os import PathLike
from typing import Any, NamedTuple, Protocol, TypeAlias, cast, runtime_checkable

import numpy as np
import numpy.typing as npt

from backcast._horizon import check_horizon
from backcast._parallel.checkpoint import Checkpoint, open_checkpoint
from backcast._parallel.fingerprint import object_fingerprint, source_digest
from backcast._parallel.jobs import Execution, run_jobs
from backcast._parallel.workers import Job, SharedArguments
from backcast._readings import Reading, SegmentReading
from backcast._time_order import describe_time
from backcast._validation import at_least, confidence_level, count
from backcast.errors import NeedsStationaryPolicy, OptionError, StopEvaluation
from backcast.estimate import Estimate
from backcast.io.stream import LogStream
from backcast.log import Log
from backcast.policies.base import LogPolicy, Policy, is_learning
from backcast.provenance import LogShape, package_versions
from backcast.reward_models.cross_fitting import OutOfSampleModel
from backcast.reward_models.regression import RewardModel

PARTIAL = "Partial:"


class ScoringPolicy(Protocol):
    """A ``Policy`` for type checkers, whose contexts may be annotated as dense arrays only."""

    def probabilities(self, contexts: Any, available: Any = None) -> Any:
        """Return the probabilities of all K actions for each event."""
        ...


class SingleActionPolicy(Protocol):
    """A policy that gives the probabilities of single actions, for logs with thousands of actions."""

    def probability_of(self, contexts: Any, actions: Any) -> Any:
        """Return the probability of one action at each event."""
        ...


class ParametricEstimator(Protocol):
    """An estimator of scikit-learn, which is fitted to the rewards of each action."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters."""
        ...


AnyLog: TypeAlias = Log | LogStream | Sequence[Log]
AnyPolicy: TypeAlias = ScoringPolicy | LogPolicy | SingleActionPolicy
AnyRewardModel: TypeAlias = RewardModel | OutOfSampleModel | ParametricEstimator | npt.ArrayLike


class PassPlan(NamedTuple):
    """What a time budget in seconds allows: events and number of passes, rounds per reading, and estimated seconds.

    ``passes`` are the most for a value; pilot passes that choose their number are run only if it is more than the
    usual one. Of a stream, they are passes over each part, and ``parts`` are used (None: all). ``seconds`` are those of
    the usual passes on two cores, by the cost model.
    """

    budget: float
    pool: int
    passes: int
    reading_interval: int
    seconds: float
    parts: int | None = None


@dataclass(frozen=True)
class EvaluationRequest:
    """What an evaluator receives: a log, a policy, and how the caller of the evaluation wants it to be evaluated.

    :meth:`run_jobs` runs work in parallel, :meth:`generator` gives random numbers;
    ``backcast.evaluators.out_of_sample_predictions(request)`` returns the events with their predicted rewards.

    Attributes
    ----------
    log
        A log in memory, or a stream of parts.
    policy, policy_name
        The policy, and its name in results.
    reward_model
        A reward model, predictions, a number, or None for the evaluator's default.
    horizon
        Rounds T; None for one pass over the log.
    interval
        An interval method; None for the evaluator's default.
    level, seed
        Level of the interval, and the seed of all randomness.
    replicates
        None for none, a number, or "auto".
    passes
        Numbers of the passes to run, and no others; None for those that ``replicates`` asks for.
    time_budget
        Seconds of work on two cores that "auto" may plan; "default" for the default of the log, None for no limit.
    plan
        What the time budget allows; None if it does not apply.
    execution
        How the jobs of the evaluation are run.
    arguments
        Arguments of ``evaluate`` or ``compare`` as they were given, for the provenance of the result.
    pairs_with_log
        Whether the evaluator computes how precise the value minus the mean of the logged rewards is, if it can.
    readings
        Outcomes and segments that passes read besides the reward: each adds a column per policy to their results.
    segment
        The segment whose value a replay in log order reads; None for all events.
    fixed_policies
        Fixed policies of the same comparison. They are evaluated elsewhere; an evaluator that cuts a stream into parts
        computes their values by part, so that differences to them are paired.
    """

    log: Log | LogStream
    policy: Any
    reward_model: Any = None
    horizon: int | None = None
    interval: Any = None
    level: float = 0.95
    seed: int = 0
    replicates: int | str | None = None
    policy_name: str = ""
    passes: range | None = None
    time_budget: float | str | None = "default"
    plan: PassPlan | None = None
    execution: Execution = field(default_factory=Execution)
    arguments: Mapping[str, Any] = field(default_factory=dict)
    pairs_with_log: bool = False
    readings: tuple[Reading, ...] = ()
    segment: SegmentReading | None = None
    fixed_policies: tuple[Any, ...] = ()

    def without_log(self) -> EvaluationRequest:
        """Return the request for a computation that gets its log later, and must not keep this one alive."""
        return replace(self, log=cast(Any, None), execution=Execution(), pairs_with_log=False, readings=())

    @property
    def checkpoint(self) -> Checkpoint | None:
        """Folder of finished jobs, if there is one."""
        return self.execution.checkpoint

    def generator(self, *key: int) -> np.random.Generator:
        """Return random numbers of this request's seed, for an evaluator of another package; one stream per key."""
        return np.random.default_rng(seed_sequence(self.seed, SeedKey.EXTENSION, *key))

    def run_jobs(
        self, function: Callable[..., Any], shared: Sequence[Any], arguments: Iterable[Sequence[Any]], events: int = 0
    ) -> list[Any]:
        """Return ``function(*shared, *arguments[i])`` for every i, run as the caller of the evaluation requested.

        Jobs run in parallel by ``n_jobs``, on a cluster if one is selected, and with a checkpoint those that are
        finished are not run again. ``function`` is a module's function, its results are numbers, strings, arrays, and
        lists, tuples and dicts of them; ``events`` are those that one job processes, for the progress bar. A run that
        is stopped returns the first results.

        >>> log = Log(None, actions=[0, 1], rewards=[1, 0], propensities=[0.5, 0.5])
        >>> EvaluationRequest(log, policy=None).run_jobs(pow, [2], [[3], [4]])
        [8, 16]
        """
        jobs = [Job((function.__name__, i), tuple(each), events) for i, each in enumerate(arguments)]
        with closing(SharedArguments(*shared)) as values:
            finished = run_jobs(function, values, jobs, self.execution)
        if finished.stopped and not finished.results:
            raise StopEvaluation
        return finished.results

    def report_damage(self) -> AbstractContextManager[None]:
        """Return a block in which unusable values of a checkpoint raise one error of ours."""
        return nullcontext() if self.checkpoint is None else self.checkpoint.report_damage()

    def scoped(self, name: str) -> EvaluationRequest:
        """Return the request for one part of the evaluation, whose jobs are stored apart from those of other parts."""
        if self.checkpoint is None:
            return self
        return replace(self, execution=replace(self.execution, checkpoint=self.checkpoint.scoped(name)))


@runtime_checkable
class Evaluator(Protocol):
    """A way of evaluating a policy: a frozen value of options with one method."""

    def estimate(self, request: EvaluationRequest) -> Estimate:
        """Return the estimate with its interval and diagnostics."""
        ...


class SeedKey(IntEnum):
    """First integers of the spawn keys under a seed; each use of randomness has its own."""

    FULL_PASS = 0
    SUBSET = 1
    GROUPS = 2
    PARTS = 5
    PILOT = 7
    HORIZON = 9
    PROBE = 15
    EXTENSION = 11
    FOLDS = 17
    TRIAL = 19
    HALVES = 21
    FILL = 1912
    THINNING = 1934
    BOOTSTRAP = 1979
    REWARD_BOOTSTRAP = 2021
    REFIT = 2026
    # folds of reward models, acceptance and policy are children 0..2 of the seed itself; see RandomStreams


def seed_sequence(seed: int, *key: int) -> np.random.SeedSequence:
    """Return the seed sequence of one use of randomness under a seed."""
    return np.random.SeedSequence(seed, spawn_key=key)


@dataclass(frozen=True)
class RandomStreams:
    """Separate generators for folds, acceptance and policy, all from one seed."""

    folds: np.random.Generator
    acceptance: np.random.Generator
    policy: np.random.Generator

    @classmethod
    def from_seed(cls, seed: int) -> RandomStreams:
        """Return the generators of a seed."""
        return cls(*map(np.random.default_rng, np.random.SeedSequence(seed).spawn(3)))


def check_is_policy(policy: Any) -> None:
    """Raise unless the object has the methods of a policy."""
    if isinstance(policy, type):
        raise OptionError(f"{policy.__name__} is a class; give an instance, such as {policy.__name__}()")
    if not (isinstance(policy, Policy | LogPolicy) or hasattr(policy, "probability_of")):
        raise OptionError(f"{policy!r} is not a policy; it needs a method probabilities(contexts, available=None)")


def check_request(
    policies: Iterable[Any],
    *,
    level: float,
    horizon: int | str | None,
    seed: int,
    replicates: int | str | None,
    exchangeable: bool | None,
    n_jobs: int | None,
    time_limit: float | None,
    progress: bool | Callable[[int], None] | None = None,
    time_budget: float | str | None = "default",
) -> None:
    """Raise if an argument of ``evaluate`` or ``compare`` makes no sense, before any work is done."""
    for policy in policies:
        check_is_policy(policy)
    confidence_level(level)
    check_horizon(horizon)
    count("seed", seed, 0, high=None)
    if isinstance(replicates, str):
        if replicates not in ("auto", "default"):
            raise OptionError(f"replicates is {replicates!r}; give a number, 'auto' or None")
    elif replicates is not None:
        count("replicates", replicates)
    if exchangeable is not None and not isinstance(exchangeable, bool | np.bool_):
        raise OptionError(f"exchangeable is {exchangeable!r}; give True, False, or None to test for drift")
    if n_jobs is not None and (isinstance(n_jobs, bool) or not isinstance(n_jobs, int | np.integer) or n_jobs == 0):
        raise OptionError(f"n_jobs is {n_jobs!r}; give a whole number, -1 for one job per core, or None")
    if time_limit is not None:
        at_least("time_limit", time_limit, 0.0, strict=True)
    if time_budget is not None and time_budget != "default":
        is_number = isinstance(time_budget, int | float | np.number) and not isinstance(time_budget, bool)
        if not is_number or not 0.0 < float(time_budget) < math.inf:
            raise OptionError(
                f"time_budget is {time_budget!r}; give a number of seconds above 0, or None for no limit on the work"
            )
    if progress is not None and not isinstance(progress, bool) and not callable(progress):
        raise OptionError(f"progress is {progress!r}; give True, False, or a function of the number of events")


def as_log(log: Any) -> Log | LogStream:
    """Return a log or stream; a list of logs becomes the parts of a stream."""
    if isinstance(log, Log | LogStream):
        return log
    if isinstance(log, list | tuple):
        return LogStream.from_logs(log)
    remedy = (
        "give a Log, a stream from scan_log, or a list of Logs (events that arrive one after another can be fed to a "
        "Monitor)"
    )
    if isinstance(log, Mapping) or hasattr(log, "__arrow_c_stream__") or hasattr(log, "columns"):
        remedy = "make a log of it first: Log.from_frame(frame, context=..., action=..., reward=..., propensity=...)"
    elif isinstance(log, str | PathLike):
        remedy = "read it first: read_log(path, context=..., action=..., reward=..., propensity=...)"
    raise OptionError(f"log is a {type(log).__name__}; {remedy}")


def log_shape(log: Log | LogStream) -> LogShape:
    """Return digest and shape of a log, for the provenance of a result."""
    times = log.columns.times if isinstance(log, Log) else None
    ends = None if times is None else (describe_time(times[0]), describe_time(times[-1]))
    return LogShape(log.fingerprint(), log.n_events, log.n_actions, log.n_features, isinstance(log, Log), ends)


def require_fixed_policy(policy: object, evaluator: str) -> None:
    """Raise if a learning policy is given to an evaluator of fixed policies."""
    if is_learning(policy):
        raise NeedsStationaryPolicy(
            f"{evaluator} evaluates fixed policies and {type(policy).__name__} learns; "
            "use DRns, ClockReplay or evaluator='auto' for it"
        )


def with_checkpoint(
    request: EvaluationRequest, folder: str | PathLike[str] | None, evaluator: Any, policies: Mapping[str, Any]
) -> EvaluationRequest:
    """Return the request with its checkpoint in this folder, created or opened; unchanged if the folder is None."""
    if folder is None:
        return request
    if not isinstance(folder, str | PathLike):
        raise OptionError(f"checkpoint is {folder!r}; give the path of a folder")
    checkpoint = open_checkpoint(folder, request_facts(request, evaluator, policies))
    return replace(request, execution=replace(request.execution, checkpoint=checkpoint))


def request_facts(request: EvaluationRequest, evaluator: Any, policies: Mapping[str, Any]) -> dict[str, str]:
    """Return everything that the result of a job depends on.

    The number of replicates, the level and the number of workers are left out: a job has the same result whatever they
    are, so more replicates can be computed with the jobs that are stored.
    """
    versions = {**package_versions(), "backcast": source_digest()}
    return {
        **{f"version of {name}": version for name, version in versions.items()},
        "log": request.log.fingerprint(),
        **{name: object_fingerprint(policy) for name, policy in policies.items()},
        "evaluator": object_fingerprint(evaluator),
        "reward model": object_fingerprint(request.reward_model),
        "interval": object_fingerprint(request.interval),
        "horizon": repr(request.horizon),
        "seed": repr(request.seed),
    }


def partial_note(finished: str) -> str:
    """Return the note on an estimate from a run that was stopped.

    >>> partial_note("3 of 16 passes")
    'Partial: the run was stopped when 3 of 16 passes were finished.'
    """
    return f"{PARTIAL} the run was stopped when {finished} were finished."


def is_partial(notes: Iterable[str]) -> bool:
    """Return whether notes contain the note on a run that was stopped."""
    return any(note.startswith(PARTIAL) for note in notes)
