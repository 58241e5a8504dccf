"""Rejection sampling and replay: the mean reward of the accepted events alone."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from backcast._engine.replay import MultiplierSchedule
from backcast._request import EvaluationRequest
from backcast.errors import EvaluationError, NeedsUniformLog, OptionError
from backcast.estimate import POLICY_VALUE, PROGRESSIVE_VALUE, Estimate, Interval
from backcast.evaluators._replay import SINGLE_RUN_NOTE, Simulation, diagnose, simulate
from backcast.evaluators.acceptance import smallest_probability
from backcast.intervals.learning import student_interval


@dataclass(frozen=True)
class RS:
    """Rejection sampling with the worst-case multiplier: unbiased, and wasteful of a log that was not uniform.

    The multiplier is the smallest probability the logger gave to any action, or the smallest propensity where only
    those are recorded (Dudik et al. 2012, section 4.1; Li et al. 2011).

    Examples
    --------
    >>> RS().name
    'RS'
    """

    @property
    def name(self) -> str:
        """How results call it."""
        return "RS"

    def plan_replay(self, request: EvaluationRequest) -> tuple[EvaluationRequest, MultiplierSchedule]:
        """No reward model, a fixed multiplier."""
        return replace(request, reward_model=0.0), MultiplierSchedule(c_max=smallest_probability(request))

    def estimate(self, request: EvaluationRequest) -> Estimate:
        """Estimate by the mean reward of accepted events."""
        request, schedule = self.plan_replay(request)
        return accepted_estimate(request, simulate(request, schedule), self.name)


@dataclass(frozen=True)
class Replay:
    """Accept on a match: for logs whose actions were chosen uniformly (Li, Chu, Langford, Wang 2011).

    Examples
    --------
    >>> Replay().name
    'Replay'
    """

    @property
    def name(self) -> str:
        """How results call it."""
        return "Replay"

    def plan_replay(self, request: EvaluationRequest) -> tuple[EvaluationRequest, MultiplierSchedule]:
        """No reward model; the log must be uniform."""
        for part in request.parts():
            choices = part.n_actions if part.available is None else part.available.sum(axis=1)
            off = np.abs(part.propensities * choices - 1) > 1e-6
            if off.any():
                row = int(np.flatnonzero(off)[0])
                raise NeedsUniformLog(
                    f"row {int(part.rows[row])}: propensity is {part.propensities[row]:g}; Replay needs a log chosen "
                    f"uniformly among the actions. Use RS, DRns or ClockReplay, which weigh by propensity"
                )
        return replace(request, reward_model=0.0), MultiplierSchedule(c_max=smallest_probability(request))

    def estimate(self, request: EvaluationRequest) -> Estimate:
        """Estimate by the mean reward of matching events."""
        request, schedule = self.plan_replay(request)
        return accepted_estimate(request, simulate(request, schedule), self.name)


def accepted_estimate(request: EvaluationRequest, found: Simulation, name: str) -> Estimate:
    """The estimate from a run: mean reward of the accepted events, averaged over complete trajectories."""
    if not any(trajectory.accepted for trajectory in found.complete):
        raise EvaluationError(
            f"{name} accepted no event: the policy never agrees with the log often enough. Use DRns or ClockReplay"
        )
    values = found.values(lambda trajectory: trajectory.mean_accepted_reward)
    error, interval = _interval(request, found, values)
    return Estimate(
        value=float(values.mean()),
        std_error=error,
        interval=interval,
        diagnostics=diagnose(request, found),
        policy=request.policy_name,
        evaluator=name,
        horizon=request.horizon,
        notes=(*found.notes, *((SINGLE_RUN_NOTE,) if values.size == 1 else ())),
        settings={"seed": request.seed, "level": request.level},
    )


def _interval(request: EvaluationRequest, found: Simulation, values: np.ndarray) -> tuple[float, Interval | None]:
    if request.interval is not None:
        raise OptionError(f"{type(request.interval).__name__} is not an interval for accepted rewards; leave it out")
    if values.size >= 2:
        error, low, high = student_interval(values, request.level)
        return error, Interval(low, high, request.level, "Student over trajectories", "independent", POLICY_VALUE)
    only = found.complete[0].sums
    accepted = int(only["accepted"])
    if accepted < 2:
        return math.nan, None
    mean = float(values[0])
    error = math.sqrt(float(only["accepted_variation"]) / (accepted - 1) / accepted)
    reach = float(stats.norm.ppf((1 + request.level) / 2)) * error
    return error, Interval(mean - reach, mean + reach, request.level, "normal", "asymptotic", PROGRESSIVE_VALUE)
