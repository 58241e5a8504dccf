"""Time and memory that an evaluation takes, estimated before it starts."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from backcast._logging import logger
from backcast._request import EvaluationRequest
from backcast.evaluators.clock_replay import ClockReplay
from backcast.io.limits import format_bytes, free_memory
from backcast.io.stream import LogStream
from backcast.log import Log
from backcast.policies._calls import describe, probability_of, start_copy
from backcast.policies.base import batch_size_of, is_learning
from backcast.policies.compiled import CompiledPolicy
from backcast.policies.linear import LinearThompson, LinUCB

USUAL_PASSES = 48  # 16 pilot passes and 32 for the value, where their number is chosen by the log
TIMED_EVENTS = 512  # events that a policy scores to measure its speed
PRODUCT_SECONDS = 5e-10  # per product of a compiled policy
INTEGRAL_SECONDS = 8e-8  # per event and action of LinearThompson, whose probabilities are integrals
ROUND_SECONDS = 2e-8  # per event and round of clock replay: reading and moving the clock
READING_SHARE = 0.1  # of a pass of clock replay, for each outcome and segment that is read in it: 0.05 to 0.15
READING_BYTES = 24  # per event, outcome or segment, and pass of clock replay: what standard errors need
# Measured with tests/evaluators/test_memory.py and rounded up: cross-fitting copies the contexts of one action, and the
# sums of events, intervals and the meters of clock replay take about thirty numbers per event.
CONTEXT_COPIES = 0.4  # of the log
EVENT_BYTES = 240  # per event
ACTION_BYTES = 16  # per event and action: predictions, and scores of one pass
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
    time once more. Reading files, reward models and intervals are not included.
    """
    log = request.log
    assert isinstance(log, Log)
    replicates, n_events = request.replicates, len(log)
    passes = replicates if isinstance(replicates, int) else 1 if replicates is None else USUAL_PASSES
    total, n_readings = 0.0, len(request.readings)
    for policy in policies:
        seconds = seconds_per_event(policy, log)
        if isinstance(evaluator, ClockReplay) and is_learning(policy):
            # all events are scored again after every update, by compiled policies only for the actions that changed
            passes = max(passes, USUAL_PASSES if replicates is None else 1)
            n_events, batch_size = min(len(log), evaluator.pool), batch_size_of(policy)
            changed = 1.0
            if isinstance(policy, CompiledPolicy) and not log.has_action_features:
                changed = min(1.0, batch_size / log.n_actions)
            updates = (request.horizon or n_events) / batch_size
            seconds = updates * n_events * (changed * seconds + ROUND_SECONDS)
            total += passes * seconds * (1 + READING_SHARE * n_readings)
        else:
            total += passes * n_events * seconds * (1 + n_readings)
    return total / max(1, request.execution.n_jobs or 1)


def seconds_per_event(policy: Any, log: Log) -> float:
    """Return about how long a new copy of the policy takes to score an event.

    Policies in Python are timed. To time a compiled one would compile code that the evaluation does not use, so its
    cost follows from the number of products.
    """
    if isinstance(policy, CompiledPolicy):
        has_variances = isinstance(policy, LinUCB | LinearThompson)
        products = log.n_actions * max(1, log.n_features) ** (2 if has_variances else 1)
        return PRODUCT_SECONDS * products + (
            INTEGRAL_SECONDS * log.n_actions if isinstance(policy, LinearThompson) else 0.0
        )
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
    log, n_jobs = request.log, request.execution.n_jobs or 1
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
