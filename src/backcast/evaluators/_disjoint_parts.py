"""Clock replay of a stream: parts of it that fit into memory, each evaluated by itself, and Student's t over them.

The events of an exchangeable log are a sample of one law in any fixed stretch of it, so each part gives an estimate of
V_T of its own, independent of the others; see docs/theory.md. No more than one part for each worker is in memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy import stats

from backcast._arrays import FloatArray
from backcast._parallel.jobs import Job, no_progress, run_jobs
from backcast._parallel.workers import SharedArguments
from backcast._request import EvaluationRequest, Evaluator, stopped_note
from backcast.diagnostics import PartsDiagnostics, joined_diagnostics
from backcast.errors import EvaluationError, HorizonNotReached, OptionError, StopEvaluation
from backcast.estimate import POLICY_VALUE, Estimate, Interval, LearningCurve, joined_curve
from backcast.evaluators._replicate_statistics import PassResult, bin_edges
from backcast.evaluators._replicates import ReplicateInputs
from backcast.intervals.learning import Segments, student_interval
from backcast.log import Log
from backcast.policies.compiled import CompiledPolicy
from backcast.reward_models.cross_fitting import Given, as_out_of_sample

LEAST_PARTS = 10  # fewer tell too little of how much they differ


MOST_PARTS = 10**7  # a list of more would itself fill the memory


LEAST_PASSES, ALL_PASSES = 2, 40


PARTS = 5  # place of the parts among the streams of randomness of a seed


class Passing(Protocol):
    """An evaluator that makes passes over a pool of events."""

    @property
    def pool(self) -> int:
        """Most events of a part."""
        ...

    @property
    def parts(self) -> int | None:
        """How many parts to use, if not all."""
        ...

    def inputs(self, request: EvaluationRequest) -> ReplicateInputs:
        """What passes share."""
        ...

    def replicate(self, policy: Any, inputs: ReplicateInputs, rows: None, seed: np.random.SeedSequence) -> PassResult:
        """One pass."""
        ...


class PartResult(NamedTuple):
    """One policy on one part of a stream: the value by pass, the mean curve and certificate, the fewest rounds."""

    values: FloatArray
    curve: FloatArray
    certificate: float
    rounds: int


def number_of_parts(events: int, pool: int) -> int:
    """How many parts a stream is cut into: none longer than the pool, and enough of them to tell an error.

    >>> number_of_parts(250_000, pool=100_000), number_of_parts(2_500_000, pool=100_000)
    (10, 25)
    """
    return max(LEAST_PARTS, math.ceil(events / pool))


def chosen_parts(number: int, wanted: int | None) -> list[int]:
    """Which parts are used: all, or so many of them, evenly spread, whatever is in them.

    >>> chosen_parts(10, 4), chosen_parts(3, None)
    ([1, 3, 6, 8], [0, 1, 2])
    """
    if wanted is None or wanted >= number:
        return list(range(number))
    return [int((2 * i + 1) * number // (2 * wanted)) for i in range(wanted)]


@dataclass(frozen=True)
class PartResults:
    """Results by part and policy."""

    passes: list[list[PartResult]]
    horizon: int
    events: int
    notes: tuple[str, ...] = ()

    def values(self) -> FloatArray:
        """``(parts, policies)``: the mean over the passes of each."""
        return np.array([[one.values.mean() for one in row] for row in self.passes])

    def covariance(self) -> FloatArray:
        """Of the policies' values, ``(policies, policies)``."""
        return np.atleast_2d(np.cov(self.values().T)) / len(self.passes)

    def gap_variance(self, a: int, b: int) -> tuple[float, float]:
        """Variance of the difference of two values: over logs, and of its Monte-Carlo error."""
        return split_variance([row[a].values - row[b].values for row in self.passes])

    def estimate(self, policy: int, name: str, request: EvaluationRequest) -> Estimate:
        """The answer for one policy."""
        own = [row[policy] for row in self.passes]
        values = self.values()[:, policy]
        error, low, high = student_interval(values, request.level)
        sampling, noise = split_variance([one.values for one in own])
        facts = PartsDiagnostics(
            events=self.events,
            rounds=self.horizon,
            parts=len(own),
            passes_each=own[0].values.size,
            bias_certificate=float(np.mean([one.certificate for one in own])),
            sampling_error=math.sqrt(sampling),
            monte_carlo_error=math.sqrt(noise),
        )
        return Estimate(
            value=float(values.mean()),
            std_error=error,
            interval=Interval(low, high, request.level, "Student over parts", "independent", POLICY_VALUE),
            diagnostics=facts,
            policy=request.policy_name,
            evaluator=name,
            curve=_curve(np.array([one.curve for one in own]), self.horizon, request.level),
            horizon=self.horizon,
            notes=self.notes,
            settings={"seed": request.seed, "level": request.level, "parts": len(own)},
        )


def split_variance(passes: Sequence[FloatArray]) -> tuple[float, float]:
    """Variance of the mean over parts, from their values by pass: what parts differ by, and what passes alone do.

    >>> split_variance([np.array([0.0, 2.0]), np.array([4.0, 6.0])])
    (3.5, 0.5)

    By hand: the parts' means are 1 and 5, so the mean of both has the variance 8/2; each part's mean of two passes has
    the variance 2/2, so the mean of both has 1/2 of it from passes.
    """
    total = float(np.var([values.mean() for values in passes], ddof=1)) / len(passes)
    noise = float(np.mean([values.var(ddof=1) / values.size for values in passes])) / len(passes)
    return max(total - noise, 0.0), min(noise, total)


def _curve(curves: FloatArray, horizon: int, level: float) -> LearningCurve:
    """The mean curve of the parts, with a pointwise band of Student's t."""
    count = len(curves)
    value = curves.mean(axis=0)
    reach = stats.t.ppf((1 + level) / 2, count - 1) * curves.std(axis=0, ddof=1) / math.sqrt(count)
    return LearningCurve(bin_edges(horizon)[1:], value, value - reach, value + reach)


class PartJob(NamedTuple):
    """What is done with every part, and the stream of which each is a stretch."""

    stream: Any
    evaluator: Passing
    policies: Sequence[Any]
    reward_model: Any
    horizon: int
    passes: int
    seed: int


def estimate_on_parts(evaluator: Passing, request: EvaluationRequest, policies: Sequence[Any]) -> PartResults:
    """Cut the stream, make passes over each part, for all policies with common randomness."""
    _check(request)
    stream = request.log.counted()
    parts = _cut(stream.n_rows, evaluator)
    horizon = request.horizon
    if horizon is None:
        first = stream.between(*parts[0][1:]).read()
        horizon = evaluator.inputs(replace(request, policy=policies[0], log=first, keep=None)).horizon
    passes = max(LEAST_PASSES, math.ceil(ALL_PASSES / len(parts)))
    plan = PartJob(stream, evaluator, policies, request.reward_model, horizon, passes, request.seed)
    jobs = [Job(("part", part[0]), part, part[2] - part[1]) for part in parts]
    # compiled policies release the lock, others need processes of their own
    threads = all(isinstance(policy, CompiledPolicy) for policy in policies)
    with closing(SharedArguments(plan)) as shared:
        found = run_jobs(_one_part, shared, jobs, request.terms, threads=threads, kinds=(PartResult,))
    done = len(found.results)
    if done < 2:
        raise StopEvaluation
    _check_reached(horizon, found.results, number_of_parts(stream.n_rows, evaluator.pool), stream.n_rows)
    notes = (stopped_note(f"{done} of {len(jobs)} parts of the stream"),) if found.stopped else ()
    return PartResults(found.results, horizon, sum(job.events for job in jobs[:done]), notes)


def _cut(events: int, evaluator: Passing) -> list[tuple[int, int, int]]:
    """The parts to use: number, start and end of each, which depend on the number of events alone."""
    number = number_of_parts(events, evaluator.pool)
    if events < 2 * number:
        raise EvaluationError(
            f"the stream has {events} events, too few for {number} parts; read it with read_log instead"
        )
    if min(number, evaluator.parts or number) > MOST_PARTS:
        raise EvaluationError(
            f"the stream of {events:,} events would be cut into {number:,} parts, more than can be listed; use some of "
            "them (ClockReplay(parts=...)), or larger ones (pool=...)"
        )
    return [(i, _edge(i, number, events), _edge(i + 1, number, events)) for i in chosen_parts(number, evaluator.parts)]


def _edge(part: int, number: int, events: int) -> int:
    """Where a part begins, and the one before it ends; as ``linspace`` has it, without a list of all.

    >>> [_edge(part, 4, events=10) for part in range(5)]
    [0, 2, 5, 7, 10]
    """
    return events if part == number else int(part * (events / number))


def _check(request: EvaluationRequest) -> None:
    if not hasattr(request.log, "between"):
        raise EvaluationError(
            f"clock replay needs a log in memory or a stream from scan_log; this is a {type(request.log).__name__}"
        )
    if isinstance(request.replicates, int):
        raise OptionError(
            f"replicates is {request.replicates}; the error of a stream comes from its parts: leave it out, and "
            "say ClockReplay(parts=...) to use only some of them"
        )
    if request.interval is not None:
        raise OptionError(
            f"{type(request.interval).__name__} is not an interval for the parts of a stream; leave it out, or use "
            "Segments()"
        )


def _check_reached(horizon: int, passes: list[list[PartResult]], number: int, events: int) -> None:
    """Refuse a horizon that some part does not reach; to leave such parts out would be to choose among them."""
    reached = min(one.rounds for row in passes for one in row)
    if reached >= horizon:
        return
    larger = "larger parts (ClockReplay(pool=...))" if number > LEAST_PARTS else "read the whole log with read_log"
    raise HorizonNotReached(
        f"the horizon of {horizon} rounds exhausts a part of the stream: its {events:,} events are cut into {number} "
        f"parts of about {events // number:,}, and after {reached} rounds none of one part's events could be accepted. "
        f"Ask for a shorter horizon, {larger}, or give a longer log"
    )


def _one_part(plan: PartJob, number: int, start: int, end: int) -> list[PartResult]:
    log = plan.stream.between(start, end).read()
    rng = np.random.default_rng(np.random.SeedSequence(plan.seed, spawn_key=(PARTS, number)))
    honest = as_out_of_sample(plan.reward_model)
    if isinstance(honest, Given) and np.ndim(honest.predicted) == 2:
        # a table for the whole stream
        honest = Given(np.asarray(honest.predicted)[log.rows])
    inputs = ReplicateInputs(*honest.predictions(log, rng), plan.horizon)
    # the same seeds for every policy: common randomness makes their differences sharper
    seeds = [np.random.SeedSequence(plan.seed, spawn_key=(PARTS, number, k)) for k in range(plan.passes)]
    replicate = plan.evaluator.replicate
    return [_summed([replicate(policy, inputs, None, own) for own in seeds]) for policy in plan.policies]


def _summed(outcomes: list[PassResult]) -> PartResult:
    rounds = min(outcome.rounds for outcome in outcomes)
    values = np.array([outcome.value for outcome in outcomes])
    if np.isnan(values).any():
        return PartResult(values, np.zeros(0), math.inf, rounds)
    curve = np.mean([outcome.curve for outcome in outcomes], axis=0)
    return PartResult(values, curve, float(np.mean([outcome.certificate for outcome in outcomes])), rounds)


HORIZONS_NOTE = (
    "No horizon was given, and segments chose their own, of {} to {} rounds; give horizon=... to ask all of them the "
    "same."
)


def segmented_estimate(evaluator: Evaluator, request: EvaluationRequest, segments: Segments) -> Estimate:
    """Evaluate the segments, wherever their work is done, and combine them: there is no other pass over the log.

    Where a log is cut depends on the number of its events alone. Segments of a stream are read by whoever does them.
    Value, error and interval come from the segments' values, each of which counts the same, the curve and the
    diagnostics from theirs: see :func:`joined_curve` and :func:`joined_diagnostics`.
    """
    log, edges = _cut_segments(request.log, segments.count)
    asked = replace(request, log=log, interval=None, n_jobs=None, keep=None, on_progress=no_progress)
    jobs = [
        Job(("segment", number), (number, start, end), end - start)
        for number, (start, end) in enumerate(pairwise(edges))
    ]
    threads = isinstance(request.policy, CompiledPolicy)
    with closing(SharedArguments(evaluator, asked, segments.count)) as shared:
        found = run_jobs(_one_segment, shared, jobs, request.terms, threads=threads)
    if len(found.results) < 2:
        raise StopEvaluation
    notes = (stopped_note(f"{len(found.results)} of {segments.count} segments"),) if found.stopped else ()
    joined = _joined([Estimate.from_dict(result) for result in found.results], request, notes)
    if not request.in_memory:
        return joined
    return replace(joined, _progressive=lambda: evaluator.estimate(asked).progressive_policy())


def _joined(found: list[Estimate], request: EvaluationRequest, notes: tuple[str, ...]) -> Estimate:
    values = np.array([estimate.value for estimate in found])
    error, low, high = student_interval(values, request.level)
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
        interval=Interval(low, high, request.level, f"{values.size} disjoint segments", "independent", POLICY_VALUE),
        diagnostics=joined_diagnostics([estimate.diagnostics for estimate in found]),
        curve=joined_curve(curves, request.level) if curves else None,
        horizon=min(horizons, default=None),
        notes=notes,
        settings={**alike, "seed": request.seed, "segments": len(found)},
    )


def _cut_segments(log: Any, count: int) -> tuple[Any, list[int]]:
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
    evaluator: Evaluator, request: EvaluationRequest, count: int, number: int, start: int, end: int
) -> dict[str, Any]:
    """The answer for one segment as plain values, which travel and can be kept."""
    log = request.log
    segment = log[start:end] if isinstance(log, Log) else log.between(start, end)
    try:
        return evaluator.estimate(replace(request, log=segment, seed=request.seed + 1 + number)).to_dict()
    except HorizonNotReached as failure:
        raise HorizonNotReached(f"segment {number} of {count}: {failure}; or use fewer segments") from None
