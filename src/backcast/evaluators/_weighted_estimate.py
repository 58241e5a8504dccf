"""From weighed events to an estimate: what all estimators of fixed policies share."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import numpy as np

from backcast._parallel.jobs import Job, no_progress, run_jobs
from backcast._parallel.workers import SharedArguments
from backcast._request import EvaluationRequest, require_fixed_policy
from backcast.diagnostics import WeightDiagnostics
from backcast.errors import EvaluationError, OptionError, StopEvaluation
from backcast.estimate import Estimate, Interval
from backcast.evaluators._weighted_events import (
    Recipe,
    WeightedBlock,
    WeightedLog,
    WeightTransform,
    identity,
    weight_events,
    weighted_shard,
)
from backcast.intervals._sample import (
    BOUND,
    FIXED_VALUE,
    RATIO,
    WEIGHT,
    Aggregate,
    EventColumns,
    IntervalMethod,
    Mean,
    Moments,
    WeightedSample,
)
from backcast.intervals.asymptotic import DefaultInterval
from backcast.policies._calls import class_name_of

SHAPED_VALUE = "V(pi), less the bias that shaped weights bring"


FEW = 30  # effective events below which an interval is hardly to be believed


FAR = 5.0  # standard errors of the mean weight from 1; chance has odds of 6e-7


def plain(moments: Moments) -> Aggregate:
    """The form of an average."""
    return Mean()


@dataclass(frozen=True)
class EstimatorSpec:
    """What tells one estimator from another.

    Attributes
    ----------
    name
        As reported.
    model
        Whether a reward model gives base and residual.
    blended
        Whether the model answers only for what the weights leave over.
    shape
        From ratios to weights.
    form
        How the estimate follows from the means, given the moments.
    interval
        The default interval.
    largest
        Bound on the weight, given one on the ratio.
    settings
        Options, for the record.
    """

    name: str
    model: bool = False
    blended: bool = False
    shape: WeightTransform = identity
    form: Callable[[Moments], Aggregate] = plain
    interval: IntervalMethod = field(default_factory=DefaultInterval)
    largest: Callable[[float], float] = float
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def estimand(self) -> str:
        """What the estimate is about."""
        return FIXED_VALUE if self.shape is identity else SHAPED_VALUE

    def ranges(self, low: float, high: float) -> tuple[tuple[float, float], tuple[float, float]]:
        """Known bounds of base and residual, given those of the reward."""
        if self.blended:
            return (min(0.0, low), max(0.0, high)), (low, high)
        if self.model:
            return (low, high), (low - high, high - low)
        return (0.0, 0.0), (low, high)


def weighted_estimate(method: EstimatorSpec, request: EvaluationRequest) -> Estimate:
    """Weigh the question's events and estimate."""
    require_fixed_policy(request.policy, method.name)
    return estimate_from(method, request, weight_events(request, model=method.model))


def moments_of(events: WeightedLog, shapes: list[WeightTransform]) -> list[Moments]:
    """The moments under several shapes of the weights, in one pass, pieces of a stream side by side."""
    if not events.shards:
        return _moments(events, shapes)
    tell = events.telling()
    terms = replace(events.request.terms, on_progress=tell)
    request = replace(events.request, log=None, keep=None, on_progress=no_progress)
    jobs = [
        Job(("moments", events.passes, number), (shard,), shard.n_rows) for number, shard in enumerate(events.shards)
    ]
    # threads: reading, decoding and arithmetic let others run, and nothing has to be sent anywhere
    with closing(SharedArguments(request, events.recipe, shapes)) as shared:
        found = run_jobs(_shard_moments, shared, jobs, terms, threads=True, kinds=(Moments,))
    if found.stopped:
        raise StopEvaluation
    return _summed(found.results)


def _shard_moments(
    request: EvaluationRequest, recipe: Recipe, shapes: list[WeightTransform], shard: Any
) -> list[Moments]:
    return _moments(weighted_shard(request, recipe, shard), shapes)


def _moments(blocks: Iterable[WeightedBlock], shapes: list[WeightTransform]) -> list[Moments]:
    sums = [Moments.empty() for _ in shapes]
    for block in blocks:
        sums = [total + Moments.of(block.columns(shape)) for total, shape in zip(sums, shapes, strict=True)]
    return sums


def _summed(pieces: Iterable[list[Moments]]) -> list[Moments]:
    return [reduce(operator.add, sums) for sums in zip(*pieces, strict=True)]


def estimate_from(
    method: EstimatorSpec, request: EvaluationRequest, events: WeightedLog, moments: Moments | None = None
) -> Estimate:
    """The estimate of weighed events, whose moments may be known already."""

    def columns() -> Iterator[EventColumns]:
        return (block.columns(method.shape) for block in events)

    if moments is None:
        (moments,) = moments_of(events, [method.shape])
    _require_overlap(method.name, moments)
    ranges = (None, None) if events.reward_range is None else method.ranges(*events.reward_range)
    sample = WeightedSample(
        moments,
        method.form(moments),
        columns,
        evaluator=method.name,
        reward_range=events.reward_range,
        base_range=ranges[0],
        residual_range=ranges[1],
        weights_average_one=method.shape is identity and not method.blended,
        bound_known=events.knows_bound(float(moments.low[BOUND]), float(moments.high[BOUND])),
        estimand=method.estimand,
        largest=method.largest,
        seed=request.seed,
    )
    return Estimate(
        value=sample.value,
        std_error=sample.std_error,
        interval=_interval(request.interval or method.interval, sample, request.level, events.propensities_estimated),
        diagnostics=_diagnostics(moments, events.propensities_estimated),
        policy=request.policy_name or class_name_of(request.policy),
        evaluator=method.name,
        notes=(*events.notes, *_notes(moments)),
        settings={"evaluator": method.name, **method.settings, "level": request.level, "seed": request.seed},
        _influence=sample.influence if events.keep else None,
    )


def _interval(chosen: Any, sample: WeightedSample, level: float, propensities_estimated: bool) -> Interval | None:
    if isinstance(chosen, type) or not isinstance(chosen, IntervalMethod):
        raise OptionError(
            f"interval is {chosen!r}; give an interval for fixed policies, such as Normal() or CressieRead()"
        )
    if not 0 < level < 1:
        raise OptionError(f"level is {level}; it must lie strictly between 0 and 1")
    if sample.moments.n < 2:
        return None
    found = chosen.interval(sample, level)
    # no interval knows the error of estimated propensities, so none holds for every n
    return replace(found, assumption="asymptotic") if propensities_estimated else found


def _require_overlap(name: str, moments: Moments) -> None:
    if moments.high[RATIO] == 0.0:
        raise EvaluationError(
            f"{name}: the policy gives probability 0 to the logged action in all {moments.n:,} events, so the log "
            "says nothing of it; use a log that explores the policy's actions, or DM"
        )


def _diagnostics(moments: Moments, propensities_estimated: bool) -> WeightDiagnostics:
    return WeightDiagnostics(
        events=moments.n,
        effective_sample_size=moments.effective_sample_size,
        mean_weight=float(moments.mean[RATIO]),
        largest_weight=float(moments.high[RATIO]),
        propensities_estimated=propensities_estimated,
    )


def _notes(moments: Moments) -> Iterator[str]:
    effective = moments.effective_sample_size
    if effective < FEW:
        yield f"only {effective:.3g} effective events of {moments.n:,}: the policy and the log hardly overlap"
    error = float(np.sqrt(moments.covariance[RATIO, RATIO] / moments.n))
    mean = float(moments.mean[RATIO])
    if effective >= FEW and abs(mean - 1.0) > FAR * error + 1e-6:
        yield (
            f"weights average {mean:.4g} (standard error {error:.2g}) where they should average 1: "
            "are the propensities those of the logged actions, and does the log support all the policy does?"
        )
    if abs(moments.mean[WEIGHT] - mean) > 1e-9 * mean:
        yield (
            f"shaping took the mean weight from {mean:.4g} to {moments.mean[WEIGHT]:.4g}: "
            "the interval leaves out the bias that this brings, and the noise of a reward model that stands in"
        )
