"""Intervals for simulated histories: over trajectories where there are several, for one run where there is one."""

from __future__ import annotations

import math

import numpy as np

from backcast.arrays import FloatArray
from backcast.errors import OptionError
from backcast.estimate import POLICY_VALUE, PROGRESSIVE_VALUE, Interval
from backcast.evaluators.question import Question
from backcast.evaluators.simulation import Simulation
from backcast.intervals.anytime import Anytime
from backcast.intervals.segments import student_interval
from backcast.intervals.theorem_2 import TheoremTwo, deviation_bound

__all__ = ["SINGLE_RUN_NOTE", "run_interval", "run_notes"]

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


def run_notes(question: Question, found: Simulation, values: FloatArray) -> tuple[str, ...]:
    """What a reader must know of the interval of a run."""
    notes: tuple[str, ...] = (SINGLE_RUN_NOTE,) if values.size == 1 else ()
    if question.interval is not None and values.size > 1:
        notes += (POOLED_NOTE.format(values.size, _total(found, "reward") / _total(found, "weight")),)
    for_one_run = question.interval is not None or values.size == 1
    declared = getattr(question.interval, "largest_weight", None)
    if for_one_run and declared is None and not found.bound_known:
        notes += (BOUND_NOTE.format(1 / found.smallest_propensity),)
    return notes


def run_interval(question: Question, found: Simulation, values: FloatArray) -> tuple[float, Interval]:
    """Standard error and interval for the values of the complete trajectories."""
    method = question.interval
    if method is None and values.size >= 2:
        error, low, high = student_interval(values, question.level)
        return error, Interval(low, high, question.level, "Student over trajectories", "independent", POLICY_VALUE)
    method = Anytime() if method is None else method
    if isinstance(method, Anytime):
        return _error(found), _anytime(method, question, found)
    if isinstance(method, TheoremTwo):
        return _error(found), _theorem_2(method, question, found)
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


def _anytime(method: Anytime, question: Question, found: Simulation) -> Interval:
    low, high = found.reward_range
    scale = _spread(found) * found.c_max * (1 + _largest_weight(method, found))
    ends = (low, high)
    if scale > 0:
        reward, weight, variation = (_total(found, name) for name in ("reward", "weight", "variation"))
        ends = method.ends(reward, weight, variation, scale, question.level)
    # the value itself lies within the reward range
    ends = (float(np.clip(ends[0], low, high)), float(np.clip(ends[1], low, high)))
    return Interval(*ends, question.level, "anytime empirical Bernstein", "martingale", PROGRESSIVE_VALUE)


def _theorem_2(method: TheoremTwo, question: Question, found: Simulation) -> Interval:
    weight = _total(found, "weight")
    value = _total(found, "reward") / weight
    largest, delta = _largest_weight(method, found), 1 - question.level
    reach = _spread(found) * deviation_bound(int(_total(found, "events")), weight, found.c_max, largest, delta)
    return Interval(value - reach, value + reach, question.level, "Theorem 2", "martingale", PROGRESSIVE_VALUE)
