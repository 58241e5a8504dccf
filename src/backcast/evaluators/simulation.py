"""Evaluators that accept events into simulated histories share this: the run, its facts, its curve."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from backcast.arrays import FloatArray
from backcast.diagnostics import ReplayDiagnostics
from backcast.engine.events import Curve
from backcast.engine.run import Steering
from backcast.engine.trajectory import Trajectory
from backcast.errors import Enough, HorizonNotReached
from backcast.estimate import LearningCurve
from backcast.evaluators.course import Course, hull
from backcast.evaluators.predictions import Guide, guided, predictions_in_memory
from backcast.evaluators.question import Question, Streams, stopped_note
from backcast.evaluators.resuming import Diary
from backcast.log import Log

__all__ = ["Simulation", "curve_of", "diagnose", "simulate"]

SHOWN_POINTS = 50


@dataclass(frozen=True)
class Simulation:
    """What a run left: its trajectories, sums by round, and the log it ran on (None for a stream).

    ``value_range`` holds the rewards and the predictions alike, which is what bounds on one event need.
    """

    trajectories: list[Trajectory]
    curve: Curve
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


def simulate(question: Question, steering: Steering) -> Simulation:
    """Run the policy through the log, part by part."""
    streams = Streams.of(question.seed)
    if not question.in_memory:
        question, guide = guided(question)
        course = Course.begun(question, steering, question.log, streams)
        return _found(question, course, None, stopped=not _fed(question, course, guide))
    log, predicted = predictions_in_memory(question, streams)
    course = Course.begun(question, steering, log, streams)
    return _found(question, course, log, stopped=not course.feed(log, predicted))


def _fed(question: Question, course: Course, guide: Guide) -> bool:
    """Feed the parts of a stream, from where a kept pass was left; False where somebody had enough."""
    diary = None if question.keep is None else Diary(question.keep, course, guide)
    part = None
    for part in (question.log if diary is None else diary.begin(question.log)) or ():
        if not all(course.feed(piece, predicted) for piece, predicted in guide.predicted(part)):
            return False
        if diary is not None:
            diary.note(part)
    if diary is not None and part is not None:
        diary.note(part, last=True)
    return True


def _found(question: Question, course: Course, whole: Log | None, *, stopped: bool) -> Simulation:
    ranges = course.rewards, hull(course.rewards, course.values)
    found = Simulation(
        course.run.close(),
        course.run.curve,
        whole,
        *ranges,
        course.smallest,
        course.bound_known,
        course.run.steering.c_max,
        question.propensities_estimated,
    )
    if stopped:
        return _partial(question, found)
    if not found.complete:
        _report_failure(question, found)
    return found


def _partial(question: Question, found: Simulation) -> Simulation:
    """The run as far as it went; no history is kept, because its last events were not booked."""
    if not found.complete:
        raise Enough
    done = sum(int(trajectory.sums["events"]) for trajectory in found.trajectories)
    total = len(question.log) if question.in_memory else question.log.n_rows
    notes = () if done == total else (stopped_note(f"{done:,} of {total:,} events"),)
    return replace(found, log=None, notes=notes)


def _report_failure(question: Question, found: Simulation) -> None:
    last = found.trajectories[-1]
    events = int(last.sums["events"])
    raise HorizonNotReached(
        f"no trajectory of {question.horizon} rounds could be built: {events:,} events gave {last.accepted} "
        f"acceptances ({last.accepted / events:.2%}). Ask for a shorter horizon, accept more (a larger q, Budget), "
        "use ClockReplay, or give a longer log"
    )


def diagnose(question: Question, found: Simulation) -> ReplayDiagnostics:
    """The facts of a run, over all its trajectories."""
    total = {name: sum(float(t.sums[name]) for t in found.trajectories) for name in _SUMMED}
    events = int(total["events"])
    rounds = question.horizon or found.trajectories[0].accepted
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


def curve_of(curve: Curve, level: float) -> LearningCurve:
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
