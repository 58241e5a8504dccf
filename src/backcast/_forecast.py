"""Time and memory that an evaluation takes, estimated before it starts."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from backcast._logging import logger
from backcast._request import EvaluationRequest
from backcast._time_budget import CORES, READING_SHARE, event_seconds, scorings_per_event, update_cost
from backcast.evaluators._replicates import FIRST_PASSES, PILOT_PASSES
from backcast.evaluators.clock_replay import ClockReplay
from backcast.io.limits import format_bytes, free_memory
from backcast.io.stream import LogStream
from backcast.log import Log
from backcast.policies._calls import describe, probability_of, start_copy
from backcast.policies.base import is_learning
from backcast.policies.compiled import CompiledPolicy
from backcast.reward_models.low_variance import CHOICE_EVENTS, LowVariance

USUAL_PASSES = PILOT_PASSES + FIRST_PASSES  # where their number is chosen by the log
TIMED_EVENTS = 512  # events that a policy scores to measure its speed
ROUND_SECONDS = 2e-8  # per event and update of a policy in Python: reading and moving the clock
# What is not divided among jobs, measured with ten actions and twenty features. Per event: settings of LowVariance that
# are tried, fits of the model. Per event and pass: influences on the value and the curve.
CHOICE_SECONDS, FIT_SECONDS, INFLUENCE_SECONDS = 2.5e-5, 2e-6, 2.5e-7
READING_BYTES = 24  # per event, outcome or segment, and pass of clock replay: what standard errors need
# Measured with tests/evaluators/test_memory.py and rounded up: cross-fitting copies the contexts of one action, and the
# sums of events, intervals and the meters of clock replay take about thirty numbers per event.
CONTEXT_COPIES = 0.4  # of the log
EVENT_BYTES = 240  # per event
ACTION_BYTES = 16  # per event and action: predictions, and scores of one pass
WORTHWHILE_SECONDS = 10.0  # of work by policies in Python from which starting processes pays
STREAM_CORES = 2  # that one job on a stream keeps busy
LARGE_LOG = 10**8  # bytes from which a lack of memory is looked for


def evaluation_memory(log: Log | LogStream, n_jobs: int = 1) -> int:
    """Return about how many bytes an evaluation in memory takes beside the log; each parallel job has its own pass.

    >>> log = Log(None, actions=[0, 1], rewards=[1, 0], propensities=[0.5, 0.5])
    >>> evaluation_memory(log) - int(CONTEXT_COPIES * log.bytes_in_memory)
    544

    By hand: two events of 240 bytes, and 16 bytes for each of their two actions.
    """
    per_pass = (log.n_events or 0) * (EVENT_BYTES + ACTION_BYTES * log.n_actions)
    # processes map one shared copy of the log
    copies = CONTEXT_COPIES + (1.0 if n_jobs > 1 else 0.0)
    return int(copies * log.bytes_in_memory) + max(1, n_jobs) * per_pass


def reading_memory(request: EvaluationRequest, evaluator: Any, policies: Sequence[Any]) -> int:
    """Return about how many bytes passes of clock replay keep of the outcomes and segments of a log in memory."""
    if not isinstance(evaluator, ClockReplay):
        return 0
    passes = request.replicates if isinstance(request.replicates, int) else USUAL_PASSES
    n_events = min(request.log.n_events or 0, evaluator.pool)
    return READING_BYTES * n_events * len(request.readings) * passes * sum(map(is_learning, policies))


def evaluation_seconds(request: EvaluationRequest, evaluator: Any, policies: Sequence[Any]) -> float:
    """Return about how long an evaluation of a log in memory takes, from the number of events that policies score.

    Clock replay of learning policies reads outcomes and segments in the same passes; otherwise each of them takes the
    time once more. Reading files, and reward models but ``LowVariance``, are not included. Compiled policies cost what
    the model of time budgets says. Policies in Python are timed: their cost is not known otherwise, and this number
    decides nothing.
    """
    log, plan = request.log, request.plan
    assert isinstance(log, Log)
    usual = USUAL_PASSES
    if plan is not None:
        usual = plan.passes if plan.passes <= FIRST_PASSES else PILOT_PASSES + plan.passes
    replicates, n_events = request.replicates, len(log)
    passes = replicates if isinstance(replicates, int) else 1 if replicates is None else usual
    total, undivided, n_readings = 0.0, 0.0, len(request.readings)
    for policy in policies:
        if isinstance(evaluator, ClockReplay) and is_learning(policy):
            n_events, horizon = min(len(log), evaluator.pool), request.horizon or len(log)
            interval = evaluator.reading_interval
            if isinstance(policy, CompiledPolicy):
                per_event = event_seconds(policy, log, horizon, interval, n_events=n_events, n_readings=n_readings)
            else:
                scorings = scorings_per_event(policy, log.columns.propensities, n_events, horizon, interval)
                per_event = scorings * (seconds_per_event(policy, log) + ROUND_SECONDS)
                per_event *= 1 + READING_SHARE * n_readings
            total += (usual if replicates is None else passes) * n_events * per_event
            undivided += passes * len(log) * INFLUENCE_SECONDS * (1 + n_readings)
        else:
            total += passes * len(log) * seconds_per_event(policy, log) * (1 + n_readings)
    if isinstance(getattr(request.reward_model, "model", None), LowVariance):
        undivided += min(len(log), CHOICE_EVENTS) * CHOICE_SECONDS + len(log) * FIT_SECONDS
    return undivided + total / effective_jobs(request.execution.n_jobs)


def effective_jobs(n_jobs: int | None) -> int:
    """Return how many jobs run at a time on this machine: negative numbers count from all cores, -1 is all.

    >>> effective_jobs(None), effective_jobs(3), effective_jobs(-1) == (os.cpu_count() or 1)
    (1, 3, True)
    """
    n_jobs = n_jobs or 1
    return n_jobs if n_jobs > 0 else max(1, (os.cpu_count() or 1) + 1 + n_jobs)


def worthwhile_jobs(log: Log | LogStream, policies: Sequence[Any], horizon: int | str | None) -> int:
    """Return the number of jobs that the command line runs at a time: -1 for all cores, or 1 where more take longer.

    Compiled policies share a process. Others need several, which take seconds to start. A fixed policy on a stream
    keeps two cores busy with one job: one reads ahead of the other (docs/performance.md).
    """
    if not any(map(is_learning, policies)):
        return 1 if isinstance(log, LogStream) and (os.cpu_count() or 1) <= STREAM_CORES else -1
    if all(isinstance(policy, CompiledPolicy) for policy in policies):
        return -1
    n_events = min(log.n_events or ClockReplay().pool, ClockReplay().pool)
    rounds = horizon if isinstance(horizon, int) else n_events
    propensities = None if isinstance(log, Log) else np.full(1, 1.0 / log.n_actions)  # a uniform logger's
    options: dict[str, Any] = {"propensities": propensities, "n_events": n_events}
    work = USUAL_PASSES * n_events * sum(event_seconds(policy, log, rounds, **options) for policy in policies)
    return -1 if work > WORTHWHILE_SECONDS else 1


def seconds_per_event(policy: Any, log: Log) -> float:
    """Return about how long a new copy of the policy takes to score an event.

    Policies in Python are timed. To time a compiled one would compile code that the evaluation does not use, so its
    cost follows from the model of time budgets.
    """
    # a classifier that has learned nothing is faster than it will be
    if isinstance(policy, CompiledPolicy) or type(policy).__name__ == "FromClassifier":
        return 1e-9 * update_cost(policy, log.n_actions, log.n_features, is_shared=True)
    if getattr(policy, "repeats_log", False):
        return 0.0
    block = log[:TIMED_EVENTS]
    timed = start_copy(policy, block, np.random.default_rng(0))
    probability_of(timed, block)
    start = time.perf_counter()
    probability_of(timed, block)
    return (time.perf_counter() - start) / len(block)


def announce(request: EvaluationRequest, evaluator: Any, policies: Sequence[Any], notes: Sequence[str]) -> None:
    """Log what is about to run, how long it may take, and whether memory may not suffice."""
    log, n_jobs = request.log, effective_jobs(request.execution.n_jobs)
    if isinstance(log, Log) and log.bytes_in_memory > LARGE_LOG:
        free = free_memory()
        needed = evaluation_memory(log, n_jobs) + reading_memory(request, evaluator, policies)
        if free is not None and needed > free:
            logger.warning(
                "the evaluation needs about %s of memory beside the log, and %s are free; open the log with scan_log, "
                "or use fewer parallel jobs",
                format_bytes(needed),
                format_bytes(free),
            )
    if not logger.isEnabledFor(logging.INFO):
        return
    names = ", ".join(map(describe, policies))
    logger.info("evaluating %s on %r with %s", names, log, describe(evaluator))
    for note in notes:
        logger.info("%s", note)
    if isinstance(log, Log):
        seconds = evaluation_seconds(request, evaluator, policies)
    elif request.plan is not None:
        seconds = request.plan.seconds * CORES / n_jobs
    else:
        return
    logger.info("about %s of work", format_duration(seconds), extra={"forecast_seconds": seconds})


def format_duration(seconds: float) -> str:
    """Return a duration in words, rounded.

    >>> [format_duration(seconds) for seconds in (0.2, 45, 150, 9000)]
    ['a second', '45 seconds', '2 minutes', '2.5 hours']
    """
    if seconds < 1.5:
        return "a second"
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"
