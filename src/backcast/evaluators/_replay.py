"""The first events of a log and the rest of it, whether it is in memory or comes in parts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import stats

from backcast._arrays import BoolArray, Contexts, FloatArray
from backcast._engine.replay import MultiplierSchedule, Run, Trajectory, restore_run, run_state
from backcast._engine.replay_loop import CurveSums
from backcast._request import EvaluationRequest, RandomStreams, stopped_note
from backcast.diagnostics import ReplayDiagnostics
from backcast.errors import HorizonNotReached, OptionError, StopEvaluation
from backcast.estimate import POLICY_VALUE, PROGRESSIVE_VALUE, Interval, LearningCurve
from backcast.evaluators._reward_predictions import Guide, guided, predictions_in_memory
from backcast.evaluators._stream_checkpoint import Diary
from backcast.evaluators.acceptance import smallest_in
from backcast.intervals.learning import Anytime, TheoremTwo, deviation_bound, student_interval
from backcast.io.stream import cut_head
from backcast.log import Log
from backcast.policies._calls import TrainingBatch, start_copy, update_on_events
from backcast.policies.base import batch_size_of, is_learning

FIRST_ROWS = 65_536  # events of a stream whose rewards stand for a range that was not declared


NOWHERE = (np.inf, -np.inf)


@dataclass
class Course:
    """A run under way.

    ``rewards`` and ``values`` are the ranges of the rewards and of the predictions so far, ``smallest`` is the smallest
    propensity and ``bound_known`` says whether the log shows that there is none smaller. ``events`` have been fed.
    """

    run: Run
    acceptance: np.random.Generator
    on_progress: Callable[[int], None]
    smallest: float = 1.0
    bound_known: bool = True
    rewards: tuple[float, float] = NOWHERE
    values: tuple[float, float] = NOWHERE
    events: int = 0

    @classmethod
    def begun(
        cls, request: EvaluationRequest, schedule: MultiplierSchedule, log: Any, streams: RandomStreams
    ) -> Course:
        """A course through this log, at its start; in memory it remembers which events were accepted."""
        in_memory = isinstance(log, Log)
        run = Run(
            request.policy,
            schedule,
            log.reward_bounds if in_memory else _stream_bounds(log),
            streams.policy,
            horizon=request.horizon,
            length=len(log) if in_memory else getattr(log, "n_rows", None),
            keep_order=in_memory,
        )
        return cls(run, streams.acceptance, request.on_progress)

    def feed(self, part: Log, predicted: FloatArray) -> bool:
        """Take in the next events; False where somebody had enough."""
        self.smallest = min(self.smallest, smallest_in(part))
        self.bound_known = self.bound_known and shows_smallest(part)
        self.rewards = hull(self.rewards, part.reward_bounds)
        self.values = hull(self.values, (float(predicted.min()), float(predicted.max())))
        try:
            self.run.feed(part, predicted, self.acceptance.random(len(part)), on_progress=self.on_progress)
        except StopEvaluation:
            return False
        self.events += len(part)
        return True

    def state(self) -> dict[str, Any]:
        """All of it between two parts, as plain values."""
        noted = [self.smallest, self.bound_known, *self.rewards, *self.values]
        return {"events": self.events, "noted": noted, "run": run_state(self.run)}

    def restore(self, state: dict[str, Any], log: Log, lessons: list[TrainingBatch]) -> None:
        """Bring a new course to a state; ``log`` are any events of its log."""
        self.events = state["events"]
        self.smallest, self.bound_known, *ranges = state["noted"]
        self.rewards, self.values = (ranges[0], ranges[1]), (ranges[2], ranges[3])
        restore_run(self.run, state["run"], log, lessons)
        # one draw an event
        bits: Any = self.acceptance.bit_generator
        bits.advance(self.events)


def _stream_bounds(log: Any) -> tuple[float, float]:
    declared = getattr(log, "reward_range", None)
    return cut_head(log, FIRST_ROWS)[0].reward_bounds if declared is None else declared


def shows_smallest(log: Log) -> bool:
    """Whether the log tells the smallest probability of its logger: all of them are recorded, or all are alike.

    >>> shows_smallest(Log(None, [0, 1], [0, 0], [0.5, 0.5])), shows_smallest(Log(None, [0, 1], [0, 0], [0.4, 0.6]))
    (True, False)
    """
    if log.logging_probabilities is not None:
        return True
    return bool(np.allclose(log.propensities, 1 / log.n_actions, rtol=1e-6, atol=0.0))


def hull(one: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    """The range that holds two ranges."""
    return min(one[0], other[0]), max(one[1], other[1])


SHOWN_POINTS = 50


@dataclass(frozen=True)
class Simulation:
    """What a run left: its trajectories, sums by round, and the log it ran on (None for a stream).

    ``value_range`` holds the rewards and the predictions alike, which is what bounds on one event need.
    """

    trajectories: list[Trajectory]
    curve: CurveSums
    log: Log | None
    reward_range: tuple[float, float]
    value_range: tuple[float, float]
    smallest_propensity: float
    bound_known: bool
    c_max: float
    propensities_estimated: bool
    notes: tuple[str, ...] = ()

    @property
    def complete(self) -> list[Trajectory]:
        """The histories that reached the horizon (all of them where there was none)."""
        return [trajectory for trajectory in self.trajectories if trajectory.complete]

    def values(self, read: Callable[[Trajectory], float]) -> FloatArray:
        """One figure a complete history."""
        return np.array([read(trajectory) for trajectory in self.complete])


def simulate(request: EvaluationRequest, schedule: MultiplierSchedule) -> Simulation:
    """Run the policy through the log, part by part."""
    streams = RandomStreams.of(request.seed)
    if not request.in_memory:
        request, guide = guided(request)
        course = Course.begun(request, schedule, request.log, streams)
        return _found(request, course, None, stopped=not _fed(request, course, guide))
    log, predicted = predictions_in_memory(request, streams)
    course = Course.begun(request, schedule, log, streams)
    return _found(request, course, log, stopped=not course.feed(log, predicted))


def _fed(request: EvaluationRequest, course: Course, guide: Guide) -> bool:
    """Feed the parts of a stream, from where a kept pass was left; False where somebody had enough."""
    diary = None if request.keep is None else Diary(request.keep, course, guide)
    part = None
    for part in (request.log if diary is None else diary.begin(request.log)) or ():
        if not all(course.feed(piece, predicted) for piece, predicted in guide.predicted(part)):
            return False
        if diary is not None:
            diary.note(part)
    if diary is not None and part is not None:
        diary.note(part, last=True)
    return True


def _found(request: EvaluationRequest, course: Course, whole: Log | None, *, stopped: bool) -> Simulation:
    ranges = course.rewards, hull(course.rewards, course.values)
    found = Simulation(
        course.run.close(),
        course.run.curve,
        whole,
        *ranges,
        course.smallest,
        course.bound_known,
        course.run.schedule.c_max,
        request.propensities_estimated,
    )
    if stopped:
        return _partial(request, found)
    if not found.complete:
        _report_failure(request, found)
    return found


def _partial(request: EvaluationRequest, found: Simulation) -> Simulation:
    """The run as far as it went; no history is kept, because its last events were not booked."""
    if not found.complete:
        raise StopEvaluation
    done = sum(int(trajectory.sums["events"]) for trajectory in found.trajectories)
    total = len(request.log) if request.in_memory else request.log.n_rows
    notes = () if done == total else (stopped_note(f"{done:,} of {total:,} events"),)
    return replace(found, log=None, notes=notes)


def _report_failure(request: EvaluationRequest, found: Simulation) -> None:
    last = found.trajectories[-1]
    events = int(last.sums["events"])
    raise HorizonNotReached(
        f"no trajectory of {request.horizon} rounds could be built: {events:,} events gave {last.accepted} "
        f"acceptances ({last.accepted / events:.2%}). Ask for a shorter horizon, accept more (a larger q, Budget), "
        "use ClockReplay, or give a longer log"
    )


def diagnose(request: EvaluationRequest, found: Simulation) -> ReplayDiagnostics:
    """The facts of a run, over all its trajectories."""
    total = {name: sum(float(t.sums[name]) for t in found.trajectories) for name in _SUMMED}
    events = int(total["events"])
    rounds = request.horizon or found.trajectories[0].accepted
    mass = total["excess"] / total["weight"]
    per_round = found.values(lambda trajectory: trajectory.value_per_round)
    return ReplayDiagnostics(
        events=events,
        accepted=int(total["accepted"]),
        acceptance_rate=total["accepted"] / events,
        trajectories_complete=len(found.complete),
        trajectories_failed=len(found.trajectories) - len(found.complete),
        effective_sample_size=total["ratio"] ** 2 / total["ratio_squared"] if total["ratio_squared"] else 0.0,
        mean_weight=total["ratio"] / events,
        largest_weight=max(float(t.sums["largest_ratio"]) for t in found.trajectories),
        bias_mass=mass,
        cut_share=total["cut"] / events,
        bias_certificate=float(found.values(lambda trajectory: float(trajectory.sums["excess"])).mean()),
        theorem_1=(rounds + 1) / 2 * mass / (1 - mass) if mass < 1 else float("inf"),
        value_per_round=float(per_round.mean()),
        propensities_estimated=found.propensities_estimated,
    )


_SUMMED = ("events", "accepted", "excess", "weight", "cut", "ratio", "ratio_squared")


def curve_of(curve: CurveSums, level: float) -> LearningCurve:
    """Sums by round as a curve of at most fifty points, with a pointwise normal band."""
    used = int(np.flatnonzero(curve.sums[:, 1])[-1]) + 1
    group = -(-used // SHOWN_POINTS)
    starts = np.arange(0, used, group)
    reward, weight, squares, cross, weights_squared = np.add.reduceat(curve.sums[:used], starts, axis=0).T
    value = reward / weight
    spread = np.sqrt(np.maximum(squares - 2 * value * cross + value**2 * weights_squared, 0.0)) / weight
    reach = stats.norm.ppf((1 + level) / 2) * spread
    rounds = np.minimum(starts + group, used) * int(curve.width[0])
    return LearningCurve(rounds, value, value - reach, value + reach)


SINGLE_RUN_NOTE = (
    "Only one trajectory: the interval is for the progressive-validation policy of this run, not for V_T; "
    "how much another run would differ cannot be seen from one."
)


BOUND_NOTE = (
    "The interval takes {:.3g}, one over the smallest propensity in the log, for the largest weight; where the logger "
    "may go lower, declare Anytime(largest_weight=...) or record its probabilities of all actions."
)


POOLED_NOTE = (
    "The interval is for the progressive-validation policy of all {} trajectories together, for which R/C is {:.4g}; "
    "the value is the mean over trajectories."
)


def run_notes(request: EvaluationRequest, found: Simulation, values: FloatArray) -> tuple[str, ...]:
    """What a reader must know of the interval of a run."""
    notes: tuple[str, ...] = (SINGLE_RUN_NOTE,) if values.size == 1 else ()
    if request.interval is not None and values.size > 1:
        notes += (POOLED_NOTE.format(values.size, _total(found, "reward") / _total(found, "weight")),)
    for_one_run = request.interval is not None or values.size == 1
    declared = getattr(request.interval, "largest_weight", None)
    if for_one_run and declared is None and not found.bound_known:
        notes += (BOUND_NOTE.format(1 / found.smallest_propensity),)
    return notes


def run_interval(request: EvaluationRequest, found: Simulation, values: FloatArray) -> tuple[float, Interval]:
    """Standard error and interval for the values of the complete trajectories."""
    method = request.interval
    if method is None and values.size >= 2:
        error, low, high = student_interval(values, request.level)
        return error, Interval(low, high, request.level, "Student over trajectories", "independent", POLICY_VALUE)
    method = Anytime() if method is None else method
    if isinstance(method, Anytime):
        return _error(found), _anytime(method, request, found)
    if isinstance(method, TheoremTwo):
        return _error(found), _theorem_2(method, request, found)
    raise OptionError(
        f"{type(method).__name__} is not an interval for simulated histories; use Anytime(), TheoremTwo() or Segments()"
    )


def _total(found: Simulation, name: str) -> float:
    return sum(float(trajectory.sums[name]) for trajectory in found.complete)


def _error(found: Simulation) -> float:
    """``sqrt(sum c^2 (R_k - mean)^2) / C``: of V(pi_PV), given the run."""
    return math.sqrt(_total(found, "variation")) / _total(found, "weight")


def _largest_weight(method: Anytime | TheoremTwo, found: Simulation) -> float:
    bound = 1 / found.smallest_propensity if method.largest_weight is None else method.largest_weight
    seen = max(float(trajectory.sums["largest_ratio"]) for trajectory in found.trajectories)
    if seen > bound * (1 + 1e-9):
        raise OptionError(f"largest_weight is {bound:g} but a weight of {seen:g} was met; give a bound that holds")
    return bound


def _spread(found: Simulation) -> float:
    """Width of the range that holds rewards and predictions: the unit in which the paper's lemmas bound ``R_k``."""
    low, high = found.value_range
    return high - low


def _anytime(method: Anytime, request: EvaluationRequest, found: Simulation) -> Interval:
    low, high = found.reward_range
    scale = _spread(found) * found.c_max * (1 + _largest_weight(method, found))
    ends = (low, high)
    if scale > 0:
        reward, weight, variation = (_total(found, name) for name in ("reward", "weight", "variation"))
        ends = method.ends(reward, weight, variation, scale, request.level)
    # the value itself lies within the reward range
    ends = (float(np.clip(ends[0], low, high)), float(np.clip(ends[1], low, high)))
    return Interval(*ends, request.level, "anytime empirical Bernstein", "martingale", PROGRESSIVE_VALUE)


def _theorem_2(method: TheoremTwo, request: EvaluationRequest, found: Simulation) -> Interval:
    weight = _total(found, "weight")
    value = _total(found, "reward") / weight
    largest, delta = _largest_weight(method, found), 1 - request.level
    reach = _spread(found) * deviation_bound(int(_total(found, "events")), weight, found.c_max, largest, delta)
    return Interval(value - reach, value + reach, request.level, "Theorem 2", "martingale", PROGRESSIVE_VALUE)


@dataclass(frozen=True)
class ProgressivePolicy:
    """``pi_PV(a|x) = sum_t (c_t |B(t)| / C) pi(a|x, h_{t-1})`` (Dudik et al. 2012, section 3.3).

    Nothing is stored but the accepted events: each call replays them through a copy of the policy and averages its
    probabilities on the way. It is stationary, so it can be evaluated by any estimator, or deployed. ``histories``
    holds the accepted events of each trajectory and the weights of its blocks, the unfinished last one included.
    """

    policy: Any
    histories: tuple[tuple[Log, FloatArray], ...]
    seed: int = 0

    def __repr__(self) -> str:
        return f"ProgressivePolicy({self.policy!r}, {len(self.histories)} histories)"

    def probabilities(self, contexts: Contexts, available: BoolArray | None = None) -> FloatArray:
        """Probabilities of all actions under the mixture."""
        # the very streams that the run gave to its copies of the policy, in the same order
        streams = RandomStreams.of(self.seed).policy.spawn(len(self.histories))
        twins = [start_copy(self.policy, log, rng) for (log, _), rng in zip(self.histories, streams, strict=True)]
        parts = [_mixture(twin, *own, contexts, available) for twin, own in zip(twins, self.histories, strict=True)]
        mixed = np.mean(parts, axis=0)
        return np.asarray(mixed / mixed.sum(axis=1, keepdims=True))


def _mixture(
    twin: Any, history: Log, weights: FloatArray, contexts: Contexts, available: BoolArray | None
) -> FloatArray:
    """The policies of one history, each weighed by the blocks that it stood for."""
    batch = batch_size_of(twin) if is_learning(twin) else weights.size
    total = np.zeros((contexts.shape[0], history.n_actions))
    for start in range(0, weights.size, batch):
        total += weights[start : start + batch].sum() * twin.probabilities(contexts, available)
        if is_learning(twin) and start + batch <= len(history):
            lesson = history[start : start + batch]
            own = twin.probabilities(lesson.contexts, lesson.available)[np.arange(batch), lesson.actions]
            update_on_events(twin, lesson, own)
    return np.asarray(total / weights.sum())


def progressive_policy(policy: Any, log: Log, trajectories: list[Trajectory], seed: int) -> ProgressivePolicy:
    """The mixture over the blocks of these histories, each history with the same weight."""
    place = {int(row): k for k, row in enumerate(log.rows)}
    histories = tuple(
        (
            log[np.array([place[int(row)] for row in trajectory.order], dtype=np.int64)],
            np.append(trajectory.block_weights, trajectory.open_weight),
        )
        for trajectory in trajectories
    )
    return ProgressivePolicy(policy, histories, seed)
