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
from backcast.evaluators.joining import joined_curve, joined_diagnostics
from backcast.evaluators.question import Evaluator, Question, stopped_note
from backcast.intervals.segments import Segments, student_interval
from backcast.log import Log
from backcast.policies.compiled import CompiledPolicy
from backcast.work import Job, no_progress, work_off

__all__ = ["segmented_estimate"]

HORIZONS_NOTE = (
    "No horizon was given, and segments chose their own, of {} to {} rounds; give horizon=... to ask all of them the "
    "same."
)


def segmented_estimate(evaluator: Evaluator, question: Question, segments: Segments) -> Estimate:
    """Evaluate the segments, wherever their work is done, and combine them: there is no other pass over the log.

    Where a log is cut depends on the number of its events alone. Segments of a stream are read by whoever does them.
    Value, error and interval come from the segments' values, each of which counts the same, the curve and the
    diagnostics from theirs: see :func:`joined_curve` and :func:`joined_diagnostics`.
    """
    log, edges = _cut(question.log, segments.count)
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
    notes = (stopped_note(f"{len(found.results)} of {segments.count} segments"),) if found.stopped else ()
    joined = _joined([Estimate.from_dict(result) for result in found.results], question, notes)
    if not question.in_memory:
        return joined
    return replace(joined, _progressive=lambda: evaluator.answer(asked).progressive_policy())


def _joined(found: list[Estimate], question: Question, notes: tuple[str, ...]) -> Estimate:
    values = np.array([estimate.value for estimate in found])
    error, low, high = student_interval(values, question.level)
    curves = [estimate.curve for estimate in found if estimate.curve is not None]
    horizons = {estimate.horizon for estimate in found if estimate.horizon is not None}
    if len(horizons) > 1:
        notes = (HORIZONS_NOTE.format(min(horizons), max(horizons)), *notes)
    # what each segment tuned for itself is no setting of all of them
    first = found[0].settings
    alike = {name: first[name] for name in first if all(one.settings.get(name) == first[name] for one in found)}
    return replace(
        found[0],
        value=float(values.mean()),
        std_error=error,
        interval=Interval(low, high, question.level, f"{values.size} disjoint segments", "independent", POLICY_VALUE),
        diagnostics=joined_diagnostics([estimate.diagnostics for estimate in found]),
        curve=joined_curve(curves, question.level) if curves else None,
        horizon=min(horizons, default=None),
        notes=notes,
        settings={**alike, "seed": question.seed, "segments": len(found)},
    )


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


def _one_segment(
    evaluator: Evaluator, question: Question, count: int, number: int, start: int, end: int
) -> dict[str, Any]:
    """The answer for one segment as plain values, which travel and can be kept."""
    log = question.log
    segment = log[start:end] if isinstance(log, Log) else log.between(start, end)
    try:
        return evaluator.answer(replace(question, log=segment, seed=question.seed + 1 + number)).to_dict()
    except HorizonNotReached as failure:
        raise HorizonNotReached(f"segment {number} of {count}: {failure}; or use fewer segments") from None
