"""An evaluator on disjoint contiguous segments of a log, each by itself, and Student's t over them."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from backcast.crew import Shared
from backcast.errors import Enough, EvaluationError, HorizonNotReached
from backcast.estimate import POLICY_VALUE, Estimate, Interval
from backcast.evaluators.question import Evaluator, Question, stopped_note
from backcast.intervals.segments import Segments, student_interval
from backcast.log import Log
from backcast.policies.compiled import CompiledPolicy
from backcast.work import Job, no_progress, work_off

__all__ = ["segmented_estimate"]


def segmented_estimate(evaluator: Evaluator, question: Question, segments: Segments) -> Estimate:
    """Evaluate the segments, wherever their work is done, and combine them.

    Where a log is cut depends on the number of its events alone. Segments of a stream are read by whoever does them.
    """
    log, edges = _cut(question.log, segments.count)
    whole = evaluator.answer(replace(question.within("whole"), interval=None))
    asked = replace(question, log=log, interval=None, n_jobs=None, keep=None, on_progress=no_progress)
    jobs = [
        Job(("segment", number), (number, start, end), end - start)
        for number, (start, end) in enumerate(pairwise(edges))
    ]
    threads = isinstance(question.policy, CompiledPolicy)
    with closing(Shared(evaluator, asked, segments.count)) as shared:
        found = work_off(_one_segment, shared, jobs, question.terms, threads=threads)
    if len(found.results) < 2:
        raise Enough
    values = np.array(found.results)
    error, low, high = student_interval(values, question.level)
    described = Interval(low, high, question.level, f"{values.size} disjoint segments", "independent", POLICY_VALUE)
    notes = (stopped_note(f"{values.size} of {segments.count} segments"),) if found.stopped else ()
    return replace(whole, value=float(values.mean()), std_error=error, interval=described, notes=notes)


def _cut(log: Any, count: int) -> tuple[Any, list[int]]:
    """The log, its events counted, and where segments begin and end."""
    if not (isinstance(log, Log) or hasattr(log, "between")):
        raise EvaluationError(
            f"Segments cuts a log in memory or a stream from scan_log; this is a {type(log).__name__}. "
            "Choose another interval"
        )
    log = log if isinstance(log, Log) else log.counted()
    events = len(log) if isinstance(log, Log) else log.n_rows
    edges = np.linspace(0, events, count + 1).astype(np.int64)
    if (np.diff(edges) < 1).any():
        raise EvaluationError(f"{events} events cannot be cut into {count} segments; use fewer")
    return log, edges.tolist()


def _one_segment(evaluator: Evaluator, question: Question, count: int, number: int, start: int, end: int) -> float:
    log = question.log
    segment = log[start:end] if isinstance(log, Log) else log.between(start, end)
    try:
        return evaluator.answer(replace(question, log=segment, seed=question.seed + 1 + number)).value
    except HorizonNotReached as failure:
        raise HorizonNotReached(f"segment {number} of {count}: {failure}; or use fewer segments") from None
