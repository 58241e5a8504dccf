"""From weighted events to an Estimate: what all evaluators of fixed policies share."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, ClassVar, Literal

import numpy as np

from backcast._arrays import FloatArray
from backcast._parallel.jobs import Execution, run_jobs
from backcast._parallel.workers import Job, SharedArguments
from backcast._parameters import Parametrized
from backcast._request import EvaluationRequest, RandomStreams, require_fixed_policy
from backcast.diagnostics import TOP_EVENTS, TOP_SHARE, WeightDiagnostics, share_of_largest
from backcast.errors import NoOverlap, OptionError, StopEvaluation
from backcast.estimate import PAIRED_BY_EVENT, Estimate, Interval, Precision
from backcast.evaluators._weight_transforms import (
    IDENTITY,
    Threshold,
    TransformFamily,
    WeightTransform,
    check_threshold,
)
from backcast.evaluators._weighted_events import (
    WeightedBlock,
    WeightedLog,
    WeightFunction,
    weight_events,
    weight_shard,
)
from backcast.grading import FAR_FROM_ONE, FEW_EVENTS
from backcast.intervals._sample import (
    BASE,
    BOUND,
    FIXED_VALUE,
    RATIO,
    TERM,
    TRANSFORMED_VALUE,
    WEIGHT,
    Aggregate,
    EventColumns,
    IntervalMethod,
    Mean,
    Moments,
    WeightedSample,
    lift_variance,
    std_error,
)
from backcast.intervals.asymptotic import DefaultInterval
from backcast.io.stream import LogStream
from backcast.log import Log
from backcast.policies._calls import class_name_of, probabilities_of, start_copy

MOST_SCORED = 10_000  # events on which the probabilities of all actions are looked at


def _mean(moments: Moments) -> Aggregate:
    return Mean()


@dataclass(frozen=True)
class EstimatorSpec:
    """What distinguishes one estimator from another.

    ``model`` is "none", "full" (the reward model predicts the expected reward of the policy, and residuals are
    weighted) or "remainder" (the model predicts what the weights leave, and rewards are weighted). ``aggregate``
    returns how the estimate follows from the means, given the moments.
    """

    name: str
    model: Literal["none", "full", "remainder"] = "none"
    transform: WeightTransform = IDENTITY
    aggregate: Callable[[Moments], Aggregate] = _mean
    interval: IntervalMethod = field(default_factory=DefaultInterval)

    def ranges(self, low: float, high: float) -> tuple[tuple[float, float], tuple[float, float]]:
        """Return known bounds of model value and residual, given those of the reward."""
        if self.model == "remainder":
            return (min(0.0, low), max(0.0, high)), (low, high)
        if self.model == "full":
            return (low, high), (low - high, high - low)
        return (0.0, 0.0), (low, high)


class WeightedEstimator(Parametrized):
    """An evaluator of fixed policies that is described by its ``spec``."""

    spec: ClassVar[EstimatorSpec]

    def estimate(self, request: EvaluationRequest) -> Estimate:
        """Weight the events of the request and estimate."""
        require_fixed_policy(request.policy, self.spec.name)
        events = weight_events(request, uses_model=self.spec.model != "none")
        return estimate_from_events(self.spec, request, events)


@dataclass(frozen=True)
class TransformedEstimator(Parametrized):
    """An evaluator of fixed policies with transformed weights, at a given threshold or one chosen by the log."""

    threshold: Threshold = "auto"
    spec: ClassVar[EstimatorSpec]
    family: ClassVar[TransformFamily]
    largest_threshold: ClassVar[float] = float("inf")

    def __post_init__(self) -> None:
        check_threshold(self.threshold, self.largest_threshold)

    def estimate(self, request: EvaluationRequest) -> Estimate:
        """Weight the events of the request and estimate."""
        require_fixed_policy(request.policy, self.spec.name)
        events = weight_events(request, uses_model=self.spec.model != "none")
        if self.threshold != "auto":
            spec = replace(self.spec, transform=self.family.at(float(self.threshold)))
            return with_threshold(estimate_from_events(spec, request, events), self.threshold, tuned=False)
        grid = self.family.grid[::-1]
        moments = moments_of(events, [self.family.at(threshold) for threshold in grid])
        # the neutral candidate comes first: it has no bias
        neutral = estimate_from_events(self.spec, request, events, moments[0])
        return select_threshold(neutral, grid, moments)


def select_threshold(neutral: Estimate, grid: tuple[float, ...], moments: list[Moments]) -> Estimate:
    """Return the estimate at the threshold of the smallest estimated mean squared error.

    The bias is estimated by the difference to the neutral estimate, the first, which has none. Both use the same
    events, so the difference is known far better than either value. With a biased reward model SLOPE++, which compares
    separate intervals, was up to three times worse than the neutral estimate, this rule at most an eighth worse.
    Standard error and interval (extended to contain the value) are those of the neutral estimate, because the bias of
    a chosen transform is not known well enough to be subtracted.
    """
    values = np.array([sums.mean[BASE] + sums.mean[TERM] for sums in moments])
    errors = np.array([std_error(Mean(), sums) for sums in moments])
    best = int(np.argmin(np.nan_to_num(errors) ** 2 + (values - values[0]) ** 2))
    threshold, value = grid[best], float(values[best])
    interval = neutral.interval
    if interval is not None:
        interval = replace(interval, low=min(interval.low, value), high=max(interval.high, value))
    note = (
        f"the threshold {threshold:g} has the smallest estimated mean squared error; standard error and interval are "
        "those of the estimate with untransformed weights"
    )
    estimate = replace(neutral, value=value, interval=interval, notes=(*neutral.notes, note))
    return with_threshold(estimate, threshold, tuned=True)


def with_threshold(estimate: Estimate, threshold: float, *, tuned: bool) -> Estimate:
    """Return the estimate with its threshold among the settings."""
    return replace(estimate, settings={**estimate.settings, "threshold": float(threshold), "tuned": tuned})


def moments_of(events: WeightedLog, transforms: list[WeightTransform]) -> list[Moments]:
    """Return the moments under several transforms of the weights, in one pass; shards of a stream in parallel."""
    if not events.shards:
        return _sum_moments(events.blocks(), transforms)
    request = replace(events.request, execution=Execution())
    on_progress = events.start_pass()
    jobs = [
        Job(("moments", events.n_passes, number), (shard,), shard.n_events or 0)
        for number, shard in enumerate(events.shards)
    ]
    # threads: reading, decoding and arithmetic release the interpreter lock, and nothing has to be sent
    with closing(SharedArguments(request, events.weight, events.uses_model, transforms)) as shared:
        execution = replace(events.request.execution, on_progress=on_progress)
        finished = run_jobs(_moments_of_shard, shared, jobs, execution, threads=True, result_types=(Moments,))
    if finished.stopped:
        raise StopEvaluation
    return [reduce(operator.add, sums) for sums in zip(*finished.results, strict=True)]


def _moments_of_shard(
    request: EvaluationRequest,
    weight: WeightFunction,
    uses_model: bool,
    transforms: list[WeightTransform],
    shard: LogStream,
) -> list[Moments]:
    return _sum_moments(weight_shard(request, weight, shard, uses_model=uses_model), transforms)


def _sum_moments(blocks: Iterable[WeightedBlock], transforms: list[WeightTransform]) -> list[Moments]:
    sums = [Moments.empty() for _ in transforms]
    for block in blocks:
        sums = [total + Moments.of(block.columns(each)) for total, each in zip(sums, transforms, strict=True)]
    return sums


def estimate_from_events(
    spec: EstimatorSpec, request: EvaluationRequest, events: WeightedLog, moments: Moments | None = None
) -> Estimate:
    """Return the estimate of weighted events, whose moments may be known already."""
    if moments is None:
        (moments,) = moments_of(events, [spec.transform])
    require_overlap(spec.name, moments)
    sample = _weighted_sample(spec, request, events, moments)
    influences = _influences(spec, events, sample) if events.in_memory else None
    description = describe_weights(spec.name, request, events, moments)
    if influences is not None:
        share = share_of_largest(influences + sample.value)
        if share >= TOP_SHARE:
            note = f"the {TOP_EVENTS} largest events carry {100 * share:.0f} % of the value: inspect their rewards"
            description["notes"] += (note,)
    lift = None
    if request.pairs_with_log and moments.n > 1:
        lift = Precision(lift_variance(sample.aggregate, moments), 0.0, math.inf, PAIRED_BY_EVENT)
    return Estimate(
        value=sample.value,
        std_error=sample.std_error,
        interval=_interval(request.interval or spec.interval, sample, request.level, events.propensities_estimated),
        **description,
        influences=influences,
        _lift_precision=lift,
    )


def require_overlap(evaluator: str, moments: Moments) -> None:
    """Raise if the policy never takes a logged action."""
    if moments.high[RATIO] == 0.0:
        raise NoOverlap(
            f"{evaluator}: the policy gives probability 0 to the logged action in all {moments.n:,} events, so the log "
            "has no information on it; use a log that explores the policy's actions, or DM"
        )


def describe_weights(
    evaluator: str, request: EvaluationRequest, events: WeightedLog, moments: Moments
) -> dict[str, Any]:
    """Return the fields of an Estimate that describe how it was made: diagnostics, names, notes and settings."""
    return {
        "diagnostics": WeightDiagnostics(
            events=moments.n,
            effective_sample_size=moments.effective_sample_size,
            mean_weight=float(moments.mean[RATIO]),
            largest_weight=float(moments.high[RATIO]),
            propensities_estimated=events.propensities_estimated,
            **_least_covered_action(request, moments),
        ),
        "policy": request.policy_name or class_name_of(request.policy),
        "evaluator": evaluator,
        "notes": (*events.notes, *_notes(moments)),
        "settings": {"evaluator": evaluator, "level": request.level, "seed": request.seed},
    }


def _weighted_sample(
    spec: EstimatorSpec, request: EvaluationRequest, events: WeightedLog, moments: Moments
) -> WeightedSample:
    def columns() -> Iterator[EventColumns]:
        return (block.columns(spec.transform) for block in events.blocks())

    base_range, residual_range = (None, None) if events.reward_range is None else spec.ranges(*events.reward_range)
    transformed = spec.transform != IDENTITY
    return WeightedSample(
        moments,
        spec.aggregate(moments),
        columns,
        evaluator=spec.name,
        reward_range=events.reward_range,
        base_range=base_range,
        residual_range=residual_range,
        weights_average_one=not transformed and spec.model != "remainder",
        bound_known=events.bound_is_known(float(moments.low[BOUND]), float(moments.high[BOUND])),
        estimand=TRANSFORMED_VALUE if transformed else FIXED_VALUE,
        largest=spec.transform.largest,
        seed=request.seed,
    )


def _influences(spec: EstimatorSpec, events: WeightedLog, sample: WeightedSample) -> FloatArray:
    return sample.influences([block.columns(spec.transform) for block in events.blocks()])


def _interval(method: Any, sample: WeightedSample, level: float, propensities_estimated: bool) -> Interval | None:
    if isinstance(method, type) or not isinstance(method, IntervalMethod):
        raise OptionError(
            f"interval is {method!r}; give an interval for fixed policies, such as Normal() or CressieRead()"
        )
    if not 0 < level < 1:
        raise OptionError(f"level is {level}; it must be strictly between 0 and 1")
    if sample.moments.n < 2:
        return None
    interval = method.interval(sample, level)
    # no interval includes the error of estimated propensities, so none is valid for every n
    return replace(interval, assumption="asymptotic") if propensities_estimated else interval


def _least_covered_action(request: EvaluationRequest, moments: Moments) -> dict[str, Any]:
    """Return the action with the largest part in the mean square of the weights, if few events carry the estimate.

    With shares ``m_a`` of the policy and ``f_a`` of the logger, an action contributes about ``m_a^2 / f_a``.
    """
    log = request.log
    if moments.effective_sample_size >= FEW_EVENTS or not isinstance(log, Log):
        return {}
    if not callable(getattr(request.policy, "probabilities", None)):
        return {}
    head = log[: min(len(log), MOST_SCORED)]
    policy = start_copy(request.policy, head, RandomStreams.from_seed(request.seed).policy)
    wanted = probabilities_of(policy, head).mean(axis=0)
    recorded = head.columns.logging_probabilities
    taken = np.bincount(log.actions, minlength=log.n_actions) / len(log)
    taken = taken if recorded is None else np.asarray(recorded).mean(axis=0)
    parts = np.divide(wanted**2, taken, out=np.where(wanted > 0, np.inf, 0.0), where=taken > 0)
    action = int(parts.argmax())
    return {"least_covered_action": str(log.action_labels[action]), "least_covered_share": float(taken[action])}


def _notes(moments: Moments) -> Iterator[str]:
    effective = moments.effective_sample_size
    if effective < min(FEW_EVENTS, moments.n / 2):
        yield f"only {effective:.3g} effective events of {moments.n:,}: the policy and the log hardly overlap"
    error = float(np.sqrt(moments.covariance[RATIO, RATIO] / moments.n))
    mean = float(moments.mean[RATIO])
    if effective >= FEW_EVENTS and abs(mean - 1.0) > FAR_FROM_ONE * error + 1e-6:
        yield (
            f"weights average {mean:.4g} (standard error {error:.2g}) where they should average 1: "
            "are the propensities those of the logged actions, and does the log contain all actions of the policy?"
        )
    if abs(moments.mean[WEIGHT] - mean) > 1e-9 * mean:
        yield (
            f"the transform changed the mean weight from {mean:.4g} to {moments.mean[WEIGHT]:.4g}: "
            "the interval does not include the bias of this, nor the noise of a reward model that replaces weights"
        )
