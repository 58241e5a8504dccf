"""Estimates of the policies of a comparison by outcome and by segment, evaluated as their rewards were."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from backcast._arrays import BoolArray, FloatArray
from backcast._differences import (
    Comparand,
    comparand,
    lift_precision,
    make_lift,
    simultaneous_level,
)
from backcast._pairing import Pairing
from backcast._readings import OTHER, OutcomeReading, Reading, ReadStream, SegmentReading
from backcast._request import EvaluationRequest, RandomStreams
from backcast.errors import EvaluationError
from backcast.estimate import LOGGED, Difference, Estimate, Precision
from backcast.evaluation import used_reward_model, within_reward_range
from backcast.evaluators._disjoint_parts import PartResults
from backcast.evaluators._logged_rewards import LoggedMean, logged_baseline
from backcast.evaluators._replicates import outcome_model
from backcast.evaluators._reward_predictions import with_stream_model
from backcast.io.stream import LogStream
from backcast.log import Log
from backcast.policies._calls import describe
from backcast.policies.base import is_learning
from backcast.reward_models.cross_fitting import as_out_of_sample, number_predictions, predict_out_of_sample
from backcast.segments import Breakdown, SegmentResult
from backcast.verdict import Decision, decide_lift

LARGEST_TABLE = 1 << 27  # predictions of all events and actions that segments share: a gigabyte
MOST_NAMED = 5  # pooled segments that a note names
OWN_MODELS = ("MRDR",)  # evaluators that fit a model for the policy themselves


class Side(NamedTuple):
    """Policies that were evaluated in the same way, by one evaluator; ``by_kind``: the logger by its mean reward."""

    evaluator: Any
    request: EvaluationRequest
    policies: Mapping[str, Any]
    by_kind: bool


class ReadEstimates(NamedTuple):
    """What one reading gives: an estimate by policy, that of the log, and the first column of its passes."""

    reading: Reading
    estimates: dict[str, Estimate]
    logged: Estimate
    log: Log | LogStream
    first_column: int


@dataclass(frozen=True)
class PolicyRuns:
    """How the policies of a comparison were evaluated: some jointly in ``passes``, others one by one."""

    names: Sequence[str]
    joint: Side
    passes: Any
    alone: Side | None = None
    _memo: dict[str, Any] = field(default_factory=dict)

    @property
    def columns(self) -> list[str]:
        """Names of the policies whose values passes have, in order; parts of a stream have those of fixed ones too."""
        fixed = self.alone.policies if self.alone is not None and isinstance(self.passes, PartResults) else ()
        return [*self.joint.policies, *fixed]

    @property
    def log(self) -> Log | LogStream:
        """The log of the comparison."""
        return self.joint.request.log

    def read(self, number: int, reading: Reading) -> ReadEstimates:
        """Return the estimates of reading ``number``."""
        estimates: dict[str, Estimate] = {}
        first_column = (number + 1) * len(self.columns)
        if self.alone is not None:
            estimates |= self._read_alone(self.alone, reading)
        if self.passes is None:
            estimates |= self._read_alone(self.joint, reading)
        else:
            request = self._reading_request(self.joint.request, reading)
            for i, (name, policy) in enumerate(self.joint.policies.items()):
                own = replace(request, policy=policy, policy_name=describe(policy))
                estimates[name] = self.joint.evaluator.estimate_of(first_column + i, self.passes, own)
        logged_log = self._events_of(reading)
        logged = logged_baseline(replace(self.joint.request, log=logged_log, readings=()))
        ordered = {name: self._complete(estimates[name], name, reading) for name in self.names}
        return ReadEstimates(reading, ordered, logged, logged_log, first_column)

    def _complete(self, estimate: Estimate, name: str, reading: Reading) -> Estimate:
        """Return an estimate within the range of what is read, with influences of all events of the log."""
        policies = {**self.joint.policies, **({} if self.alone is None else self.alone.policies)}
        settings = {**estimate.settings, "learns": is_learning(policies[name])}
        estimate = replace(estimate, settings=settings, _progressive=None, _replay_summary=None)
        if isinstance(reading, OutcomeReading):
            return within_reward_range(estimate, None)
        estimate = within_reward_range(estimate, self.log.reward_range)
        influences = estimate.influences
        if influences is not None and isinstance(self.log, Log) and influences.size == reading.events < len(self.log):
            estimate = replace(estimate, influences=reading.embed(influences, reading.contains(self.log)))
        return estimate

    def _read_alone(self, side: Side, reading: Reading) -> dict[str, Estimate]:
        """Evaluate policies one by one: on the outcome, or fixed ones on the segment's own events."""
        estimates = {}
        for i, (name, policy) in enumerate(side.policies.items()):
            evaluator = LoggedMean() if side.by_kind and getattr(policy, "repeats_log", False) else side.evaluator
            request = side.request.scoped(f"policy-{i}").scoped(reading.key)
            request = replace(
                request, policy=policy, policy_name=describe(policy), replicates=None, readings=(), pairs_with_log=True
            )
            if isinstance(reading, OutcomeReading):
                request = self._reading_request(request, reading)
            elif is_learning(policy):
                if not hasattr(evaluator, "plan_replay"):
                    raise EvaluationError(
                        f"{type(evaluator).__name__} cannot read the value of a learning policy by segment; use "
                        "ClockReplay or DRns, or a log without segments"
                    )
                request = replace(request, segment=reading)
            else:
                request = self._segment_request(evaluator, request, reading)
            estimates[name] = evaluator.estimate(request)
        return estimates

    def _reading_request(self, request: EvaluationRequest, reading: Reading) -> EvaluationRequest:
        """Return the request whose log has what is read as its reward."""
        log = request.log
        if isinstance(reading, OutcomeReading):
            read: Log | LogStream = reading.apply(log) if isinstance(log, Log) else ReadStream(log, reading)
            return replace(request, log=read, reward_model=outcome_model(request.reward_model), readings=())
        if isinstance(log, Log):
            log, _ = reading.apply(log, np.zeros((1, log.n_actions)))
        return replace(request, log=log, readings=())

    def _segment_request(
        self, evaluator: Any, request: EvaluationRequest, reading: SegmentReading
    ) -> EvaluationRequest:
        """Return the request for the events of one segment, predicted by the model of the whole log."""
        log, model = self._predictions(evaluator, request)
        events = log[reading.contains(log)] if isinstance(log, Log) else ReadStream(log, reading)
        return replace(request, log=events, reward_model=model)

    def _predictions(self, evaluator: Any, request: EvaluationRequest) -> tuple[Log | LogStream, Any]:
        """Return the events that are evaluated and their predictions; the model itself if it cannot be shared."""
        log, name = request.log, type(evaluator).__name__
        model = used_reward_model(evaluator, replace(request, log=log))
        if model is None or name in OWN_MODELS or isinstance(model, int | float):
            return log, request.reward_model
        if name not in self._memo:
            if isinstance(log, LogStream):
                fitted, _ = with_stream_model(replace(request, reward_model=model))
                self._memo[name] = fitted.log, fitted.reward_model
            elif len(log) * log.n_actions > LARGEST_TABLE:
                self._memo[name] = log, request.reward_model
            else:
                out_of_sample = as_out_of_sample(model, log=log)
                rng = RandomStreams.from_seed(request.seed).folds
                evaluated, predicted = predict_out_of_sample(out_of_sample, log, rng)
                self._memo[name] = evaluated, number_predictions(predicted, evaluated)
        found: tuple[Log | LogStream, Any] = self._memo[name]
        return found

    def _events_of(self, reading: Reading) -> Log | LogStream:
        """Return the events with the logged outcome, or those of the segment with their rewards."""
        log = self.log
        if isinstance(log, LogStream):
            return ReadStream(log, reading)
        return reading.apply(log) if isinstance(reading, OutcomeReading) else log[reading.contains(log)]

    @cached_property
    def has_readings(self) -> bool:
        """Whether passes read anything besides the reward; a run that was stopped did not."""
        if self.passes is None:
            return True
        rows = getattr(self.passes, "full", None) or getattr(self.passes, "parts", None) or [[]]
        return len(rows[0]) > len(self.columns)


def lift_influences(read: ReadEstimates, policy: str, baseline_name: str, log: Log | LogStream) -> FloatArray | None:
    """Return the influences of all events of the log on a lift; None if they are not known."""
    own = read.estimates[policy].influences
    if own is None or not isinstance(log, Log) or own.size != len(log):
        return None
    if baseline_name in read.estimates:
        other = read.estimates[baseline_name].influences
        return None if other is None or other.size != own.size else own - other
    if isinstance(read.reading, OutcomeReading):
        outcome = read.reading.apply(log).columns.rewards
        return np.asarray(own - (outcome - outcome.mean()))
    inside: BoolArray = read.reading.contains(log)
    return own - read.reading.embed(log.columns.rewards[inside] - read.reading.origin, inside)


def joint_level(influences: Sequence[FloatArray | None], level: float) -> tuple[float, str]:
    """Return the level of each of several lifts such that all hold together, and the method.

    >>> up = np.array([1.0, -1.0])
    >>> [round(joint_level(family, 0.95)[0], 3) for family in ([up, up], [up, None])]
    [0.95, 0.975]
    """
    known = [each for each in influences if each is not None]
    if len(known) < len(influences) or len({each.size for each in known}) > 1:
        return 1 - (1 - level) / max(len(influences), 1), "Bonferroni"
    if not known:
        return level, "max-t"
    table = np.array(known)
    table -= table.mean(axis=1, keepdims=True)
    return simultaneous_level(table @ table.T / table.shape[1], level), "max-t"


def break_down(
    runs: PolicyRuns, read: Sequence[ReadEstimates], baseline_name: str | None, level: float
) -> dict[str, Breakdown]:
    """Return the lifts by segment column; intervals hold together for all segments of a column and all policies."""
    by_column: dict[str, list[ReadEstimates]] = {}
    for each in read:
        if isinstance(each.reading, SegmentReading):
            by_column.setdefault(each.reading.column, []).append(each)
    name = baseline_name or LOGGED
    return {column: _breakdown(column, runs, segments, name, level) for column, segments in by_column.items()}


def _breakdown(
    column: str, runs: PolicyRuns, segments: Sequence[ReadEstimates], baseline_name: str, level: float
) -> Breakdown:
    policies = [
        name
        for name in runs.names
        if name != baseline_name and all(math.isfinite(each.estimates[name].std_error) for each in segments)
    ]
    influences = [
        lift_influences(each, name, baseline_name, runs.log)
        for each in segments
        for name in policies
        if not (isinstance(each.reading, SegmentReading) and each.reading.name == OTHER)
    ]
    own_level, method = joint_level(influences, level)
    results = tuple(_segment_result(runs, each, policies, baseline_name, level, own_level) for each in segments)
    notes = [
        f"Lifts by {column} hold simultaneously at {100 * level:g} % for {len(influences)} combinations of segment and "
        f"policy ({method})."
    ]
    pooled = [label for result in results if result.name == OTHER for label in result.labels]
    if pooled:
        more = "" if len(pooled) <= MOST_NAMED else f" and {len(pooled) - MOST_NAMED} others"
        notes.append(f"Small segments of {column} are pooled as {OTHER!r}: {', '.join(pooled[:MOST_NAMED])}{more}.")
    return Breakdown(column, results, baseline_name, tuple(notes))


def _segment_result(
    runs: PolicyRuns, read: ReadEstimates, policies: Sequence[str], baseline_name: str, level: float, own_level: float
) -> SegmentResult:
    reading, log = read.reading, runs.log
    assert isinstance(reading, SegmentReading)
    pairing = Pairing(read.estimates, runs.columns, runs.passes, read.first_column)
    baseline = read.estimates.get(baseline_name, read.logged)
    lifts: dict[str, Difference] = {}
    decisions: dict[str, Decision] = {}
    for name in policies:
        estimate = read.estimates[name]
        if baseline_name in read.estimates:
            precision = pairing.precision(runs.names.index(name), runs.names.index(baseline_name))
        else:
            precision = _precision_over_log(estimate, read)
        own = comparand(name, estimate, log)
        lifts[name] = make_lift(own, Comparand(baseline_name, baseline), precision, level, own_level, log)
        decisions[name] = _decide(lifts[name], estimate, baseline, is_pooled=reading.name == OTHER)
    values = {name: read.estimates[name].value for name in runs.names}
    return SegmentResult(
        *(reading.name, reading.labels, reading.events, reading.share, baseline.value, values, lifts, decisions)
    )


def _precision_over_log(estimate: Estimate, read: ReadEstimates) -> Precision:
    """Return how precise the lift over the logged mean of the segment is; passes pair all events of the log with it."""
    if estimate._lift_precision is not None:
        return estimate._lift_precision
    return lift_precision(estimate, read.logged, read.log)


def _decide(lift: Difference, estimate: Estimate, baseline: Estimate, *, is_pooled: bool) -> Decision:
    if is_pooled:
        return "unclear"
    if not baseline.reliability.is_trustworthy:
        return "not trustworthy"
    return decide_lift(estimate, lift)
