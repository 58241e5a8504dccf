"""Algorithm 1 over a log or stream: the replay, its intervals, its curve, its diagnostics, its progressive policy."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from backcast._arrays import BoolArray, Contexts, FloatArray
from backcast._engine.replay import MultiplierSchedule, ReplayRun, Trajectory
from backcast._engine.replay_loop import CurveSums, TraceArrays
from backcast._request import EvaluationRequest, RandomStreams, partial_note
from backcast.diagnostics import ReplayDiagnostics, effective_sample_size
from backcast.errors import HorizonNotReached, NoOverlap, OptionError, StopEvaluation
from backcast.estimate import (
    CURVE_POINTS,
    POLICY_VALUE,
    PROGRESSIVE_VALUE,
    BiasEstimate,
    Estimate,
    Interval,
    LearningCurve,
    LogComputation,
    normal_quantile,
)
from backcast.evaluators._reward_predictions import (
    out_of_sample_predictions,
    stream_reward_model,
    with_stream_model,
)
from backcast.evaluators._stream_checkpoint import StreamCheckpoint
from backcast.intervals.learning import Anytime, TheoremTwo, deviation_bound, student_interval, widen_student
from backcast.io.stream import LogStream
from backcast.log import Log
from backcast.policies._calls import start_copy, update_on_events
from backcast.policies.base import batch_size_of, is_learning
from backcast.policies.compiled import CompiledPolicy
from backcast.reward_models.cross_fitting import CrossFit, Progressive, Split, as_out_of_sample, default_model

RANGE_EVENTS = 65_536  # events of a stream whose rewards stand for a range that was not declared
SINGLE_RUN_NOTE = (
    "Only one trajectory: the interval is for the progressive-validation policy of this run, not for V_T; "
    "how much another run would differ cannot be estimated from one."
)
BOUND_NOTE = (
    "The interval uses {:.3g}, the inverse of the smallest propensity in the log, as the largest weight; if the logger "
    "can have smaller propensities, declare Anytime(largest_weight=...) or record its probabilities of all actions."
)
POOLED_NOTE = (
    "The interval is for the progressive-validation policy of all {} trajectories together, for which R/C is {:.4g}; "
    "the value is the mean over trajectories."
)
CUT_OFF_NOTE = (
    "The end of the log cut off a trajectory after {:,} events and {} of {} rounds; no complete trajectory is as long. "
    "Histories that need more events than the log has are not in the mean: ask for a shorter horizon, or give a longer "
    "log."
)


@dataclass(frozen=True)
class ReplayResult:
    """Trajectories of a replay, sums by round, and the log it ran on (None for a stream, or if it was stopped).

    ``value_range`` contains rewards and predictions, which bounds on a single event need. ``looks_ahead`` is whether
    the reward model was fitted on later events too; ``predictions`` are its predictions, of a log in memory.
    ``reward_spread`` is the standard deviation of the rewards that were fed.
    """

    trajectories: list[Trajectory]
    curve: CurveSums
    log: Log | None
    reward_range: tuple[float, float]
    value_range: tuple[float, float]
    smallest_propensity: float
    smallest_is_known: bool
    c_max: float
    notes: tuple[str, ...] = ()
    looks_ahead: bool = False
    predictions: FloatArray | None = None
    reward_spread: float = math.nan
    stopped: bool = False

    @classmethod
    def from_run(cls, run: ReplayRun, trajectories: list[Trajectory], log: Log | None = None) -> ReplayResult:
        """Collect the result of a run."""
        low, high = zip(run.reward_bounds, run.prediction_bounds, strict=True)
        return cls(
            trajectories,
            run.curve,
            log,
            run.reward_bounds,
            (min(low), max(high)),
            run.smallest_propensity,
            run.smallest_is_known,
            run.schedule.c_max,
            reward_spread=run.reward_spread,
        )

    @property
    def complete(self) -> list[Trajectory]:
        """Trajectories that reached the horizon (all of them if there is no horizon).

        Means are over these. The number N of trajectories that fit into the log depends on their lengths, but given N
        they are exchangeable, so their mean has the expectation of the first one given that it fits, and nothing is
        selected unless a single trajectory may be longer than the log. The one that the end of the log cuts off is left
        out: long ones are cut off more often, so including it would select (docs/theory.md, section 2).
        """
        return [trajectory for trajectory in self.trajectories if trajectory.complete]

    def values(self, read: Callable[[Trajectory], float]) -> FloatArray:
        """Return one number per complete trajectory."""
        return np.array([read(trajectory) for trajectory in self.complete])

    def total(self, name: str) -> float:
        """Return a field of ``TRAJECTORY``, summed over the complete trajectories."""
        return sum(float(trajectory.sums[name]) for trajectory in self.complete)


def replay(
    log: Log,
    policy: Any,
    schedule: MultiplierSchedule,
    *,
    predictions: FloatArray,
    draws: FloatArray,
    horizon: int | None,
    rng: np.random.Generator,
    record_order: bool = False,
    trace: TraceArrays | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> ReplayResult:
    """Run Algorithm 1 over a log in memory; a run that the progress callback stops has the events up to there."""
    options: dict[str, Any] = {"horizon": horizon, "n_events": len(log), "record_order": record_order}
    run = ReplayRun(policy, schedule, log.reward_bounds, rng, **options)
    try:
        run.feed(log, predictions, draws, trace, on_progress)
    except StopEvaluation:
        # events of the last block are not in its order, so there is no history to mix
        return _stopped(ReplayResult.from_run(run, run.close()), len(log))
    return ReplayResult.from_run(run, run.close(), log if record_order else None)


def replay_request(request: EvaluationRequest, schedule: MultiplierSchedule) -> ReplayResult:
    """Run Algorithm 1 over the log or stream of a request; raise if no trajectory reaches the horizon."""
    notes: tuple[str, ...] = ()
    if isinstance(request.log, LogStream) and request.reward_model is not None:
        request, notes = with_stream_model(request)
    streams = RandomStreams.from_seed(request.seed)
    if isinstance(request.log, LogStream):
        result = _replay_stream(request, request.log, schedule, streams)
    else:
        if request.reward_model is None:
            # in log order, so that predictions depend on earlier events only
            request = replace(request, reward_model=Progressive(default_model(request.log)))
        log, predictions = out_of_sample_predictions(request)
        if request.segment is not None:
            log, predictions = request.segment.apply(log, predictions)
        result = replay(
            log,
            request.policy,
            schedule,
            predictions=predictions,
            draws=streams.acceptance.random(len(log)),
            horizon=request.horizon,
            rng=streams.policy,
            record_order=True,
            on_progress=request.execution.on_progress,
        )
        looks_ahead = isinstance(as_out_of_sample(request.reward_model), CrossFit | Split)
        result = replace(result, looks_ahead=looks_ahead, predictions=predictions)
    if not result.complete:
        last = result.trajectories[-1]
        n_events = int(last.sums["events"])
        raise HorizonNotReached(
            f"no trajectory of {request.horizon} rounds could be built: {n_events:,} events gave {last.accepted} "
            f"acceptances ({last.accepted / n_events:.2%}). Ask for a shorter horizon, accept more (a larger q, "
            "Budget), use ClockReplay, or give a longer log"
        )
    if not any(trajectory.accepted for trajectory in result.complete):
        n_events = sum(int(trajectory.sums["events"]) for trajectory in result.trajectories)
        raise NoOverlap(
            f"none of {n_events:,} events was accepted: the policy hardly ever chooses the logged actions, so the log "
            "has no information on it. Give a longer log, or one that explores the policy's actions; DM answers from "
            "a reward model alone"
        )
    return replace(result, notes=(*notes, *result.notes, *_cut_off_notes(result, request.horizon)))


def _cut_off_notes(result: ReplayResult, horizon: int | None) -> tuple[str, ...]:
    """Return a note if the trajectory that was cut off is the longest of all.

    The Kaplan-Meier estimate of the share of trajectories that are longer than the complete ones is then
    ``1 / (N + 1)``, and 0 otherwise.
    """
    last, longest = result.trajectories[-1], max(int(each.sums["events"]) for each in result.complete)
    n_events = int(last.sums["events"])
    return () if n_events <= longest else (CUT_OFF_NOTE.format(n_events, last.accepted, horizon),)


def _replay_stream(
    request: EvaluationRequest, log: LogStream, schedule: MultiplierSchedule, streams: RandomStreams
) -> ReplayResult:
    """Feed the parts of a stream, from where a stored pass was left."""
    model = stream_reward_model(request.reward_model)
    reward_range, segment = log.reward_range or log.first_reward_bounds(RANGE_EVENTS), request.segment
    reward_range = reward_range if segment is None else segment.map_range(reward_range)
    checkpoint, learns = request.checkpoint, is_learning(request.policy)
    run = ReplayRun(
        request.policy,
        schedule,
        reward_range,
        streams.policy,
        horizon=request.horizon,
        n_events=log.n_events,
        record_order=False,
        record_batches=checkpoint is not None and learns and not isinstance(request.policy, CompiledPolicy),
    )
    saved = None if checkpoint is None else StreamCheckpoint(checkpoint, run, model)
    remaining: LogStream | None = log
    if saved is not None:
        remaining = saved.restore(log)
        if run.events_fed:
            bits: Any = streams.acceptance.bit_generator
            bits.advance(run.events_fed)  # one draw per event
            request.execution.on_progress(run.events_fed)
    part = None
    try:
        for part in () if remaining is None else remaining.parts():
            for block, predictions in model.predict_part(part):
                draws = streams.acceptance.random(len(block))
                if segment is not None:
                    block, predictions = segment.apply(block, predictions)
                run.feed(block, predictions, draws, on_progress=request.execution.on_progress)
            if saved is not None:
                saved.save_if_due(part)
        if saved is not None and part is not None:
            saved.save_if_due(part, last=True)
    except StopEvaluation:
        return _stopped(ReplayResult.from_run(run, run.close()), log.n_events)
    return ReplayResult.from_run(run, run.close())


def _stopped(result: ReplayResult, n_events: int | None) -> ReplayResult:
    """Return the result of a run that was stopped, with a note; raise if no trajectory is complete.

    The trajectories up to there are averaged as if the log ended there.
    """
    if not result.complete:
        raise StopEvaluation
    processed = sum(int(trajectory.sums["events"]) for trajectory in result.trajectories)
    if processed == n_events:
        return result
    total = "" if n_events is None else f" of {n_events:,}"
    return replace(result, notes=(partial_note(f"{processed:,}{total} events"),), stopped=True)


def replay_interval(
    request: EvaluationRequest, result: ReplayResult, values: FloatArray
) -> tuple[float, Interval, tuple[str, ...]]:
    """Return standard error, interval and notes: over trajectories if there are several, else for the single run."""
    method, level = request.interval, request.level
    if method is None and values.size >= 2:
        error, low, high = student_interval(values, level)
        # given the past, the next trajectory has the same mean whatever the logger did, unless the model looks ahead
        assumption = "independent" if result.looks_ahead else "asymptotic martingale"
        return error, Interval(low, high, level, "Student over trajectories", assumption, POLICY_VALUE), ()
    method = Anytime() if method is None else method
    if not isinstance(method, Anytime | TheoremTwo):
        raise OptionError(
            f"{type(method).__name__} is not an interval for simulated histories; use Anytime(), TheoremTwo() or "
            "Segments()"
        )
    reward, weight, variation = (result.total(name) for name in ("reward", "weight", "variation"))
    notes: tuple[str, ...] = (SINGLE_RUN_NOTE,)
    if values.size > 1:
        notes = (POOLED_NOTE.format(values.size, reward / weight),)
    if method.largest_weight is None and not result.smallest_is_known:
        notes += (BOUND_NOTE.format(1 / result.smallest_propensity),)
    largest_weight = _largest_weight(method, result)
    # width of the range of rewards and predictions: the unit in which the paper's lemmas bound R_k
    spread = result.value_range[1] - result.value_range[0]
    if isinstance(method, TheoremTwo):
        bound = deviation_bound(int(result.total("events")), weight, result.c_max, largest_weight, 1 - level)
        half_width = spread * bound
        ends = reward / weight - half_width, reward / weight + half_width
        name = "Theorem 2"
    else:
        ends, name = result.reward_range, "anytime empirical Bernstein"
        scale = spread * result.c_max * (1 + largest_weight)
        if scale > 0:
            # the value is within the reward range
            ends = method.ends(reward, weight, variation, scale, level)
            ends = float(np.clip(ends[0], *result.reward_range)), float(np.clip(ends[1], *result.reward_range))
    # sqrt(sum c^2 (R_k - mean)^2) / C: of V(pi_PV), given the run
    error = math.sqrt(variation) / weight
    # with a model that was fitted on later events too, the deviations are no martingale differences
    assumption = "independent" if result.looks_ahead else "martingale"
    return error, Interval(*ends, level, name, assumption, PROGRESSIVE_VALUE), notes


def _largest_weight(method: Anytime | TheoremTwo, result: ReplayResult) -> float:
    bound = 1 / result.smallest_propensity if method.largest_weight is None else method.largest_weight
    observed = max(float(trajectory.sums["largest_ratio"]) for trajectory in result.trajectories)
    if observed > bound * (1 + 1e-9):
        raise OptionError(f"largest_weight is {bound:g} but a weight of {observed:g} occurred; give a bound that holds")
    return bound


def replay_diagnostics(request: EvaluationRequest, result: ReplayResult, estimated: bool) -> ReplayDiagnostics:
    """Return the diagnostics of a replay, over all its trajectories; ``estimated``: whether propensities are."""
    names = ("events", "accepted", "excess", "weight", "cut", "ratio", "ratio_squared")
    total = {name: sum(float(trajectory.sums[name]) for trajectory in result.trajectories) for name in names}
    n_events = int(total["events"])
    rounds = request.horizon or result.trajectories[0].accepted
    mass = total["excess"] / total["weight"]
    return ReplayDiagnostics(
        events=n_events,
        accepted=int(total["accepted"]),
        acceptance_rate=total["accepted"] / n_events,
        trajectories_complete=len(result.complete),
        trajectories_failed=len(result.trajectories) - len(result.complete),
        effective_sample_size=effective_sample_size(total["ratio"], total["ratio_squared"]),
        mean_weight=total["ratio"] / n_events,
        largest_weight=max(float(trajectory.sums["largest_ratio"]) for trajectory in result.trajectories),
        bias_mass=mass,
        cut_share=total["cut"] / n_events,
        bias_certificate=float(result.values(lambda trajectory: float(trajectory.sums["excess"])).mean()),
        theorem_1=(rounds + 1) / 2 * mass / (1 - mass) if mass < 1 else float("inf"),
        value_per_round=float(result.values(lambda trajectory: trajectory.value_per_round).mean()),
        propensities_estimated=estimated,
    )


def replay_curve(curve: CurveSums, level: float) -> LearningCurve:
    """Return sums by round as a curve of at most ``CURVE_POINTS`` points, with a pointwise normal band.

    The sums are over complete trajectories, each round over all of them.
    """
    used = int(np.flatnonzero(curve.sums[:, 1])[-1]) + 1
    bins_per_point = -(-used // CURVE_POINTS)
    starts = np.arange(0, used, bins_per_point)
    reward, weight, squares, cross, weights_squared = np.add.reduceat(curve.sums[:used], starts, axis=0).T
    value = reward / weight
    error = np.sqrt(np.maximum(squares - 2 * value * cross + value**2 * weights_squared, 0.0)) / weight
    half_width = normal_quantile(level) * error
    rounds = np.minimum(starts + bins_per_point, used) * int(curve.width[0])
    return LearningCurve(rounds, value, value - half_width, value + half_width)


def doubly_robust_estimate(
    request: EvaluationRequest, result: ReplayResult, name: str, *, estimated: bool, bias: BiasEstimate | None = None
) -> Estimate:
    """Return the mean of ``R / C`` over the complete trajectories (step 3) with its interval.

    ``ReplayResult.complete`` states why this mean does not select. An interval for V_T is widened by a bias estimate.
    """
    values = result.values(lambda trajectory: trajectory.value)
    error, interval, notes = replay_interval(request, result, values)
    if bias is not None and interval.estimand == POLICY_VALUE:
        interval = widen_student(interval, error, bias, values.size - 1)
    log = result.log
    return Estimate(
        value=float(values.mean()),
        std_error=error,
        interval=interval,
        diagnostics=replay_diagnostics(request, result, estimated),
        policy=request.policy_name,
        evaluator=name,
        curve=replay_curve(result.curve, request.level),
        horizon=request.horizon,
        bias_estimate=bias,
        notes=(*result.notes, *notes),
        settings={"seed": request.seed, "level": request.level},
        _progressive=None
        if log is None
        else LogComputation(partial(progressive_policy, request.policy, result.complete, request.seed), log),
    )


@dataclass(frozen=True)
class ProgressivePolicy:
    """``pi_PV(a|x) = sum_t (c_t |B(t)| / C) pi(a|x, h_{t-1})`` (Dudik et al. 2012, section 3.3).

    Only the accepted events are stored: each call replays them through a copy of the policy and averages its
    probabilities. The mixture is stationary, so it can be evaluated by any estimator, or deployed. ``histories`` holds
    the accepted events of each trajectory and the weights of its blocks, the last open one included.
    """

    policy: Any
    histories: tuple[tuple[Log, FloatArray], ...]
    seed: int = 0

    def __repr__(self) -> str:
        return f"ProgressivePolicy({self.policy!r}, {len(self.histories)} histories)"

    def probabilities(self, contexts: Contexts, available: BoolArray | None = None) -> FloatArray:
        """Return the probabilities of all actions under the mixture."""
        # the generators that the run gave to its copies of the policy, in the same order
        generators = RandomStreams.from_seed(self.seed).policy.spawn(len(self.histories))
        mixtures = []
        for (history, weights), rng in zip(self.histories, generators, strict=True):
            policy = start_copy(self.policy, history, rng)
            batch_size = batch_size_of(policy) if is_learning(policy) else weights.size
            total = np.zeros((contexts.shape[0], history.n_actions))
            for start in range(0, weights.size, batch_size):
                total += weights[start : start + batch_size].sum() * policy.probabilities(contexts, available)
                if is_learning(policy) and start + batch_size <= len(history):
                    batch = history[start : start + batch_size]
                    probabilities = policy.probabilities(batch.contexts, batch.available)
                    update_on_events(policy, batch, probabilities[np.arange(batch_size), batch.actions])
            mixtures.append(total / weights.sum())
        mixture = np.mean(mixtures, axis=0)
        return np.asarray(mixture / mixture.sum(axis=1, keepdims=True))


def progressive_policy(policy: Any, trajectories: list[Trajectory], seed: int, log: Log) -> ProgressivePolicy:
    """Return the mixture over the blocks of these trajectories, each trajectory with the same weight."""
    position = {int(row): k for k, row in enumerate(log.rows)}
    histories = tuple(
        (
            log[np.array([position[int(row)] for row in trajectory.order], dtype=np.int64)],
            np.append(trajectory.block_weights, trajectory.open_weight),
        )
        for trajectory in trajectories
    )
    return ProgressivePolicy(policy, histories, seed)
