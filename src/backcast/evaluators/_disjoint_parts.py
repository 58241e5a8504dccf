"""Evaluate disjoint parts of a log separately and combine them by Student's t: parts of a stream, and Segments.

The events of an exchangeable log are a sample of one distribution in any fixed part of it, so each part gives an
estimate of V_T that is independent of the others (docs/theory.md). At most one part per worker is in memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from backcast._arrays import FloatArray, IntArray
from backcast._parallel.jobs import Execution, run_jobs
from backcast._parallel.workers import Job, SharedArguments
from backcast._readings import OutcomeReading, Reading
from backcast._request import EvaluationRequest, Evaluator, SeedKey, partial_note, seed_sequence
from backcast.break_even import GainCurve, find_break_even
from backcast.diagnostics import PartsDiagnostics, pool_diagnostics
from backcast.errors import EvaluationError, HorizonNotReached, OptionError, StopEvaluation
from backcast.estimate import (
    LOGGED,
    POLICY_VALUE,
    BiasEstimate,
    Estimate,
    Interval,
    LogComputation,
    Precision,
    average_curves,
    block_edges,
    mean_curve,
)
from backcast.evaluators._bias import METHOD, combine_parts, estimate_bias, filled_share, is_filled
from backcast.evaluators._curve_gains import Baseline, independent_after_learning, independent_gains
from backcast.evaluators._pass_inputs import OnePass, PassInputs, run_policies
from backcast.evaluators._passes import PassResult
from backcast.evaluators._replicates import outcome_model
from backcast.evaluators._reward_predictions import PredictedPart, out_of_sample_predictions
from backcast.evaluators._values_so_far import show_parts
from backcast.evaluators._weighted_events import WeightedLog, weight_doubly_robust
from backcast.intervals.learning import Segments, student_interval, widen_student
from backcast.io.stream import LogStream
from backcast.log import Log
from backcast.policies.base import Policy, is_learning
from backcast.policies.compiled import CompiledPolicy
from backcast.reward_models.cross_fitting import as_out_of_sample, predict_out_of_sample

FEWEST_PARTS = 10  # fewer do not show how much parts differ
MOST_PARTS = 10**7  # a list of more would fill the memory
LONG_HORIZON = 0.01  # of the events of a part: shorter horizons do not exhaust it unless propensities are very small
FEWEST_PASSES, TOTAL_PASSES = 2, 40  # passes per part, and passes over all parts together
HORIZONS_NOTE = (
    "No horizon was given, and segments chose their own, of {} to {} rounds; give horizon=... to use one for all of "
    "them."
)


class PartResult(NamedTuple):
    """One policy on one part of a stream: the value of each pass, mean curve and certificate, fewest rounds.

    ``reward`` is the mean of the logged rewards of the part, ``end_value`` the mean of V_t in the last round,
    ``filled_share`` the mean share of filled rounds, and ``bias`` the estimated bias because of them with its error.
    """

    values: FloatArray
    curve: FloatArray
    certificate: float
    rounds: int
    reward: float
    end_value: float = math.nan
    filled_share: float = 0.0
    bias: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True)
class PartResults:
    """Results by part and policy: those that were run in passes, then the fixed policies of the comparison.

    Means are over all parts that were planned, and over all passes of each: a part that falls short of the horizon ends
    the call (see ``run_parts``). If the run is stopped, the first parts in order are used, whatever their results.
    """

    parts: list[list[PartResult]]
    horizon: int
    n_events: int
    notes: tuple[str, ...] = ()
    method: str = "Student over parts"

    @property
    def has_standard_errors(self) -> bool:
        """Whether there are standard errors: always, because there are at least two parts."""
        return True

    def part_values(self) -> FloatArray:
        """Return the ``(parts, policies)`` mean values over passes."""
        return np.array([[result.values.mean() for result in row] for row in self.parts])

    def difference_precision(self, a: int, b: int) -> Precision:
        """Return the precision of the difference of two values."""
        precision = self._precision([row[a].values - row[b].values for row in self.parts])
        biases = [self.bias_estimate(policy) for policy in (a, b)]
        return precision._replace(bias=math.hypot(*(0.0 if bias is None else bias.size for bias in biases)))

    def bias_estimate(self, policy: int) -> BiasEstimate | None:
        """Return the estimated bias of one policy's value due to filled rounds; None if no round was filled."""
        if not any(row[policy].filled_share for row in self.parts):
            return None
        return combine_parts([BiasEstimate(*row[policy].bias, METHOD) for row in self.parts])

    def lift_precision(self, policy: int) -> Precision:
        """Return the precision of one policy's value minus the mean of the logged rewards, part by part."""
        bias = self.bias_estimate(policy)
        precision = self._precision([row[policy].values - row[policy].reward for row in self.parts])
        return precision if bias is None else precision._replace(bias=bias.size)

    def _precision(self, passes: Sequence[FloatArray]) -> Precision:
        return Precision(*split_variance(passes), len(passes) - 1, f"paired {self.method}")

    def gains(self, policy: int, baseline: Baseline, level: float) -> GainCurve:
        """Return what one policy earns more than a baseline, round by round."""
        curves = np.array([row[policy].curve for row in self.parts])
        baselines, added = np.full(len(curves), baseline.value), baseline.std_error**2
        if baseline.is_log:
            baselines, added = np.array([row[policy].reward for row in self.parts]), 0.0
        elif baseline.place is not None:
            baselines, added = self.part_values()[:, baseline.place], 0.0
        return independent_gains(curves, block_edges(self.horizon), baselines, added, level)

    def to_estimate(self, policy: int, request: EvaluationRequest, evaluator: str) -> Estimate:
        """Return the estimate of one policy."""
        results = [row[policy] for row in self.parts]
        values = self.part_values()[:, policy]
        error, low, high = student_interval(values, request.level)
        bias = self.bias_estimate(policy)
        interval = Interval(low, high, request.level, self.method, "independent", POLICY_VALUE)
        if bias is not None:
            interval = widen_student(interval, error, bias, len(results) - 1)
        sampling, noise = split_variance([result.values for result in results])
        diagnostics = PartsDiagnostics(
            events=self.n_events,
            rounds=self.horizon,
            parts=len(results),
            passes_each=results[0].values.size,
            bias_certificate=float(np.mean([result.certificate for result in results])),
            sampling_error=math.sqrt(sampling),
            monte_carlo_error=math.sqrt(noise),
            filled_share=float(np.mean([result.filled_share for result in results])),
        )
        curves, edges, level = np.array([result.curve for result in results]), block_edges(self.horizon), request.level
        break_even = after_learning = None
        if request.pairs_with_log and is_learning(request.policy):
            logged = Baseline(math.nan, math.nan, is_log=True)
            break_even = find_break_even(self.gains(policy, logged, level), level, LOGGED)
            ends = np.array([result.end_value for result in results])
            after_learning = independent_after_learning(curves, edges, ends, level, self.method)
        return Estimate(
            value=float(values.mean()),
            std_error=error,
            interval=interval,
            diagnostics=diagnostics,
            policy=request.policy_name,
            evaluator=evaluator,
            curve=mean_curve(edges[1:], curves, level),
            horizon=self.horizon,
            bias_estimate=bias,
            notes=self.notes,
            settings={"seed": request.seed, "level": request.level, "parts": len(results)},
            group_values=values,
            break_even=break_even,
            after_learning=after_learning,
            _lift_precision=self.lift_precision(policy) if request.pairs_with_log else None,
        )


def split_variance(passes: Sequence[FloatArray]) -> tuple[float, float]:
    """Split the variance of the mean over parts into what parts differ by and what passes alone differ by.

    >>> split_variance([np.array([0.0, 2.0]), np.array([4.0, 6.0])])
    (3.5, 0.5)

    By hand: the parts' means are 1 and 5, so their mean has the variance 8/2; each part's mean of two passes has the
    variance 2/2, so the mean of both has 1/2 from passes.
    """
    total = float(np.var([values.mean() for values in passes], ddof=1)) / len(passes)
    noise = float(np.mean([values.var(ddof=1) / values.size for values in passes])) / len(passes)
    return max(total - noise, 0.0), min(noise, total)


def number_of_parts(n_events: int, pool: int) -> int:
    """Return the number of parts of a stream: none longer than the pool, and enough of them for an error.

    >>> number_of_parts(250_000, pool=100_000), number_of_parts(2_500_000, pool=100_000)
    (10, 25)
    """
    return max(FEWEST_PARTS, math.ceil(n_events / pool))


def choose_parts(number: int, n_used: int | None) -> list[int]:
    """Return the parts that are used: all, or ``n_used`` of them, evenly spread.

    >>> choose_parts(10, 4), choose_parts(3, None)
    ([1, 3, 6, 8], [0, 1, 2])
    """
    if n_used is None or n_used >= number:
        return list(range(number))
    return [int((2 * i + 1) * number // (2 * n_used)) for i in range(n_used)]


class _PartJobs(NamedTuple):
    """What the jobs of all parts share."""

    stream: LogStream
    passes: Sequence[OnePass]
    halve: Callable[[OnePass], OnePass] | None
    policies: Sequence[Any]
    fixed_policies: Sequence[Any]
    reward_model: Any
    horizon: int
    n_passes: int
    seed: int
    prepare: Callable[[PassInputs, Any, int], PassInputs] | None
    readings: tuple[Reading, ...]


def run_parts(
    request: EvaluationRequest,
    policies: Sequence[Any],
    *,
    one_pass: OnePass,
    choose_horizon: Callable[[EvaluationRequest, Log, FloatArray], int],
    pool: int,
    n_parts: int | None,
    choose_pass: Callable[[Any, PassInputs, int], OnePass] | None = None,
    prepare: Callable[[PassInputs, Any, int], PassInputs] | None = None,
    halve: Callable[[OnePass], OnePass] | None = None,
) -> PartResults:
    """Cut the stream and run passes over each part, for all policies with common randomness.

    ``choose_pass`` chooses the kind of pass of each policy by the first part; all parts have the same length.
    ``prepare`` completes the inputs of passes over a part, given the reward model and a seed; ``halve`` returns a pass
    over a half of a part, for the bias of filled rounds.
    """
    assert isinstance(request.log, LogStream)
    _check_options(request)
    stream = request.log.with_event_count()
    n_events = stream.n_events or 0
    number = number_of_parts(n_events, pool)
    ranges = _part_ranges(n_events, number, n_parts)
    horizon = request.horizon
    passes = [one_pass] * len(policies)
    is_long = horizon is not None and horizon > LONG_HORIZON * (n_events // number)
    if horizon is None or (is_long and choose_pass is not None):
        first = stream.slice(*ranges[0][1:]).read()
        first_request = replace(request, policy=policies[0], log=first, execution=Execution())
        predictions = out_of_sample_predictions(first_request)
        horizon = horizon or choose_horizon(first_request, *predictions)
        if choose_pass is not None:
            first_inputs = PassInputs(*predictions, horizon)
            if prepare is not None:
                first_inputs = prepare(first_inputs, request.reward_model, request.seed)
            passes = [choose_pass(policy, first_inputs, request.seed) for policy in policies]
    n_passes = max(FEWEST_PASSES, math.ceil(TOTAL_PASSES / len(ranges)))
    shared_by_parts = _PartJobs(
        stream=stream,
        passes=passes,
        halve=halve,
        policies=policies,
        fixed_policies=request.fixed_policies,
        reward_model=request.reward_model,
        horizon=horizon,
        n_passes=n_passes,
        seed=request.seed,
        prepare=prepare,
        readings=request.readings,
    )
    jobs = [Job(("part", part[0]), part, part[2] - part[1]) for part in ranges]
    # compiled policies release the interpreter lock, others need processes
    threads = all(isinstance(policy, CompiledPolicy) for policy in policies)
    with closing(SharedArguments(shared_by_parts)) as shared:
        finished = run_jobs(
            _run_part,
            shared,
            jobs,
            request.execution,
            threads=threads,
            result_types=(PartResult,),
            on_results=show_parts(request.execution, len(policies)),
        )
    results = finished.results
    if len(results) < 2:
        raise StopEvaluation
    # to leave out parts that do not reach the horizon would be to select among them
    reached = min(result.rounds for row in results for result in row)
    if reached < horizon:
        larger = "larger parts (ClockReplay(pool=...))" if number > FEWEST_PARTS else "read the whole log with read_log"
        raise HorizonNotReached(
            f"the horizon of {horizon} rounds exhausts a part of the stream: its {n_events:,} events are cut into "
            f"{number} parts of about {n_events // number:,}, and after {reached} rounds none of one part's events "
            f"could be accepted. Ask for a shorter horizon, {larger}, or give a longer log"
        )
    notes = (partial_note(f"{len(results)} of {len(jobs)} parts of the stream"),) if finished.stopped else ()
    return PartResults(results, horizon, sum(job.events for job in jobs[: len(results)]), notes)


def _check_options(request: EvaluationRequest) -> None:
    if isinstance(request.replicates, int):
        raise OptionError(
            f"replicates is {request.replicates}; the error of a stream comes from its parts: leave it out, and use "
            "ClockReplay(parts=...) for only some of them"
        )
    if request.interval is not None:
        raise OptionError(
            f"{type(request.interval).__name__} is not an interval for the parts of a stream; leave it out, or use "
            "Segments()"
        )


def _part_ranges(n_events: int, number: int, n_used: int | None) -> list[tuple[int, int, int]]:
    """Return number, start and stop of the parts to use, which depend on the number of events alone."""
    if n_events < 2 * number:
        raise EvaluationError(
            f"the stream has {n_events} events, too few for {number} parts; read it with read_log instead"
        )
    if min(number, n_used or number) > MOST_PARTS:
        raise EvaluationError(
            f"the stream of {n_events:,} events would be cut into {number:,} parts, more than can be listed; use some "
            "of them (ClockReplay(parts=...)), or larger ones (pool=...)"
        )

    def edge(part: int) -> int:
        # as linspace has it, without a list of all edges
        return n_events if part == number else int(part * (n_events / number))

    return [(i, edge(i), edge(i + 1)) for i in choose_parts(number, n_used)]


def _run_part(jobs: _PartJobs, number: int, start: int, stop: int) -> list[PartResult]:
    log = jobs.stream.slice(start, stop).read()
    rng = np.random.default_rng(seed_sequence(jobs.seed, SeedKey.PARTS, number))
    model = as_out_of_sample(jobs.reward_model, log=log)
    inputs = PassInputs(*predict_out_of_sample(model, log, rng), jobs.horizon)
    if jobs.prepare is not None:
        inputs = jobs.prepare(inputs, jobs.reward_model, jobs.seed)

    def predict(reading: OutcomeReading) -> FloatArray:
        read, rng = reading.apply(log), np.random.default_rng(seed_sequence(jobs.seed, SeedKey.PARTS, number))
        return predict_out_of_sample(as_out_of_sample(outcome_model(jobs.reward_model), log=read), read, rng)[1]

    inputs = inputs.with_readings(jobs.readings, predict)
    # the same seeds for every policy: common randomness makes their differences more precise
    seeds = [seed_sequence(jobs.seed, SeedKey.PARTS, number, k) for k in range(jobs.n_passes)]
    n_policies = len(jobs.policies)
    passes = [run_policies(jobs.passes, jobs.policies, inputs, None, [seed] * n_policies) for seed in seeds]
    halves: list[list[PassResult]] = []
    if jobs.halve is not None and any(is_filled(column) for column in zip(*passes, strict=True)):
        half_passes = [jobs.halve(one_pass) for one_pass in jobs.passes]
        keys = [(SeedKey.PARTS, number, SeedKey.HALVES, k) for k in range(jobs.n_passes + jobs.n_passes % 2)]
        seeds = [seed_sequence(jobs.seed, *key) for key in keys]
        halves = [run_policies(half_passes, jobs.policies, inputs, None, [seed] * n_policies) for seed in seeds]
    results = []
    for i in range(1 + len(jobs.readings)):
        read = inputs.read_as(i - 1) if i else inputs
        rewards = read.log.columns.rewards
        reward = float(rewards.mean())
        for column in range(i * n_policies, (i + 1) * n_policies):
            own, own_halves = ([row[column] for row in rows] for rows in (passes, halves))
            results.append(_summarize(own, own_halves, reward, float(rewards.std())))
        for policy in jobs.fixed_policies:
            values = np.full(jobs.n_passes, _mean_event_value(policy, read, jobs.seed))  # the same in every pass
            results.append(PartResult(values, np.zeros(0), 0.0, jobs.horizon, reward))
    return results


def _mean_event_value(policy: Any, inputs: PassInputs, seed: int) -> float:
    """Return the doubly robust value of a fixed policy on one part, with the predictions that passes use."""
    log, predicted = inputs.log, inputs.predicted

    def predict(block: Log, positions: IntArray) -> FloatArray:
        return np.repeat(predicted, len(block), axis=0) if len(predicted) == 1 else predicted[positions]

    part = PredictedPart(log, predict=predict)
    request = EvaluationRequest(log, policy, seed=seed)
    events = WeightedLog(request, weight_doubly_robust, uses_model=True, parts=lambda: iter([[part]]))
    return sum(float((block.base + block.ratio * block.residual).sum()) for block in events.blocks()) / len(log)


def _summarize(passes: list[PassResult], halves: list[PassResult], reward: float, reward_spread: float) -> PartResult:
    rounds = min(result.rounds for result in passes)
    values = np.array([result.value for result in passes])
    if np.isnan(values).any():
        return PartResult(values, np.zeros(0), math.inf, rounds, reward)
    curve = np.mean([result.curve for result in passes], axis=0)
    certificate = float(np.mean([result.certificate for result in passes]))
    end = float(np.mean([result.end_value for result in passes]))
    bias = estimate_bias(passes, halves, reward_spread)
    facts = (0.0, 0.0) if bias is None else (bias.value, bias.std_error)
    return PartResult(values, curve, certificate, rounds, reward, end, filled_share(passes), facts)


def estimate_segments(evaluator: Evaluator, request: EvaluationRequest, segments: Segments) -> Estimate:
    """Evaluate disjoint contiguous segments of a log, in parallel, and combine them.

    Where a log is cut depends on its number of events alone. Segments of a stream are read where they are evaluated.
    Value, error and interval come from the values of the segments, each with the same weight; curve and diagnostics
    from theirs (:func:`average_curves`, :func:`pool_diagnostics`). None is left out: a segment that falls short of the
    horizon ends the call.
    """
    log = request.log if isinstance(request.log, Log) else request.log.with_event_count()
    n_events = log.n_events or 0
    edges = np.linspace(0, n_events, segments.count + 1).astype(np.int64)
    if (np.diff(edges) < 1).any():
        raise EvaluationError(f"{n_events} events cannot be cut into {segments.count} segments; use fewer")
    segment_request = replace(request, log=log, interval=None, pairs_with_log=False, execution=Execution())
    jobs = [
        Job(("segment", number), (number, start, stop), stop - start)
        for number, (start, stop) in enumerate(pairwise(edges.tolist()))
    ]
    threads = isinstance(request.policy, CompiledPolicy)
    with closing(SharedArguments(evaluator, segment_request, segments.count)) as shared:
        finished = run_jobs(_estimate_segment, shared, jobs, request.execution, threads=threads)
    results = finished.results
    if len(results) < 2:
        raise StopEvaluation
    notes = (partial_note(f"{len(results)} of {segments.count} segments"),) if finished.stopped else ()
    combined = _combine([Estimate.from_dict(result) for result in results], request, notes)
    if request.pairs_with_log and isinstance(log, Log):
        means = [log.columns.rewards[start:stop].mean() for start, stop in pairwise(edges[: len(results) + 1].tolist())]
        values = np.array([float(result["value"]) for result in results]) - means
        lift = Precision(float(values.var(ddof=1)) / values.size, 0.0, values.size - 1, "paired by segment")
        learning = _learning_over_segments(results, np.array(means), request)
        combined = replace(combined, _lift_precision=lift, **learning)
    if isinstance(log, LogStream):
        return combined
    without_log = segment_request.without_log()

    def progressive_policy(log: Log) -> Policy:
        return evaluator.estimate(replace(without_log, log=log)).progressive_policy(log)

    return replace(combined, _progressive=LogComputation(progressive_policy, log))


def _learning_over_segments(
    results: Sequence[dict[str, Any]], baselines: FloatArray, request: EvaluationRequest
) -> dict[str, Any]:
    """Return break-even rounds and values after learning, where all segments have curves over the same rounds."""
    curves = [result["curve"] for result in results]
    if request.horizon is None or not is_learning(request.policy) or not all(curves):
        return {}
    if any(curve["rounds"] != curves[0]["rounds"] for curve in curves):
        return {}
    values, edges = np.array([curve["value"] for curve in curves]), np.array([0, *curves[0]["rounds"]])
    gains = independent_gains(values, edges, baselines, 0.0, request.level)
    return {
        "break_even": find_break_even(gains, request.level, LOGGED),
        "after_learning": independent_after_learning(
            values, edges, None, request.level, f"{len(results)} disjoint segments"
        ),
    }


def _estimate_segment(
    evaluator: Evaluator, request: EvaluationRequest, n_segments: int, number: int, start: int, stop: int
) -> dict[str, Any]:
    """Return the estimate of one segment as a dict, which can be sent and stored."""
    segment = replace(request, log=request.log.slice(start, stop), seed=request.seed + 1 + number)
    try:
        return evaluator.estimate(segment).to_dict()
    except HorizonNotReached as error:
        raise HorizonNotReached(f"segment {number} of {n_segments}: {error}; or use fewer segments") from None


def _combine(estimates: list[Estimate], request: EvaluationRequest, notes: tuple[str, ...]) -> Estimate:
    values = np.array([estimate.value for estimate in estimates])
    error, low, high = student_interval(values, request.level)
    interval = Interval(low, high, request.level, f"{values.size} disjoint segments", "independent", POLICY_VALUE)
    bias = _mean_bias([_known_bias(estimate) for estimate in estimates])
    if bias is not None:
        interval = widen_student(interval, error, bias, values.size - 1)
    curves = [estimate.curve for estimate in estimates if estimate.curve is not None]
    horizons = {estimate.horizon for estimate in estimates if estimate.horizon is not None}
    if len(horizons) > 1:
        notes = (HORIZONS_NOTE.format(min(horizons), max(horizons)), *notes)
    # what segments tuned separately is not a setting of all of them
    first = estimates[0].settings
    common = {
        name: value for name, value in first.items() if all(each.settings.get(name) == value for each in estimates)
    }
    return replace(
        estimates[0],
        value=float(values.mean()),
        std_error=error,
        interval=interval,
        bias_estimate=bias,
        diagnostics=pool_diagnostics([estimate.diagnostics for estimate in estimates]),
        curve=average_curves(curves, request.level) if curves else None,
        horizon=min(horizons, default=None),
        notes=notes,
        settings={**common, "seed": request.seed, "segments": len(estimates)},
        group_values=values,
    )


def _known_bias(estimate: Estimate) -> BiasEstimate | None:
    """Return the bias estimate of a segment, 0 if clock replay filled none of its rounds."""
    if estimate.bias_estimate is None and estimate.diagnostics.to_dict().get("filled_share") == 0.0:
        return BiasEstimate(0.0, 0.0, METHOD)
    return estimate.bias_estimate


def _mean_bias(biases: Sequence[BiasEstimate | None]) -> BiasEstimate | None:
    """Return the bias of the mean of independent values; None unless all of them have an estimate of it.

    >>> mean = _mean_bias([BiasEstimate(0.5, 0.75, "subsets"), BiasEstimate(0.0, 1.0, "subsets")])
    >>> mean.value, mean.std_error
    (0.25, 0.625)
    """
    known = [bias for bias in biases if bias is not None]
    if len(known) < len(biases):
        return None
    error = math.hypot(*(bias.std_error for bias in known)) / len(known)
    return BiasEstimate(float(np.mean([bias.value for bias in known])), error, known[0].method)
