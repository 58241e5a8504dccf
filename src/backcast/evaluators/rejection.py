"""RS and Replay: the mean reward of the accepted events alone."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from backcast._arrays import FloatArray
from backcast._engine.replay import MultiplierSchedule
from backcast._parameters import Parametrized
from backcast._request import EvaluationRequest
from backcast.errors import NeedsUniformLog, NoOverlap, OptionError
from backcast.estimate import POLICY_VALUE, PROGRESSIVE_VALUE, Estimate, Interval
from backcast.evaluators._replay import SINGLE_RUN_NOTE, ReplayResult, replay_diagnostics, replay_request
from backcast.evaluators.acceptance import smallest_propensity
from backcast.intervals.asymptotic import adjusted_student_ends
from backcast.intervals.learning import student_interval


@dataclass(frozen=True)
class RS(Parametrized):
    """Rejection sampling with the worst-case multiplier: unbiased, but uses few events of a log that is not uniform.

    The multiplier is the smallest probability that the logger gave to any action, or the smallest propensity if only
    those are recorded (Dudik et al. 2012, section 4.1; Li et al. 2011).

    Examples
    --------
    >>> RS().name
    'RS'
    """

    @property
    def name(self) -> str:
        """Name in results."""
        return "RS"

    def plan_replay(self, request: EvaluationRequest) -> tuple[EvaluationRequest, MultiplierSchedule]:
        """Return the request without a reward model, and a fixed multiplier."""
        return replace(request, reward_model=0.0), MultiplierSchedule(c_max=smallest_propensity(request))

    def estimate(self, request: EvaluationRequest) -> Estimate:
        """Estimate by the mean reward of accepted events."""
        request, schedule = self.plan_replay(request)
        return _accepted_estimate(request, replay_request(request, schedule), self.name)


@dataclass(frozen=True)
class Replay(Parametrized):
    """Accept an event if the policy chooses its action: for logs with uniformly chosen actions (Li et al. 2011).

    Examples
    --------
    >>> Replay().name
    'Replay'
    """

    @property
    def name(self) -> str:
        """Name in results."""
        return "Replay"

    def plan_replay(self, request: EvaluationRequest) -> tuple[EvaluationRequest, MultiplierSchedule]:
        """Return the request without a reward model, and a fixed multiplier; raise if the log is not uniform."""
        for part in request.log.parts():
            choices = part.n_actions if part.available is None else part.available.sum(axis=1)
            not_uniform = np.abs(part.propensities * choices - 1) > 1e-6
            if not_uniform.any():
                k = int(np.flatnonzero(not_uniform)[0])
                raise NeedsUniformLog(
                    f"row {int(part.rows[k])}: propensity is {part.propensities[k]:g}; Replay needs actions chosen "
                    f"uniformly. Use RS, DRns or ClockReplay, which weight by propensity"
                )
        return replace(request, reward_model=0.0), MultiplierSchedule(c_max=smallest_propensity(request))

    def estimate(self, request: EvaluationRequest) -> Estimate:
        """Estimate by the mean reward of matching events."""
        request, schedule = self.plan_replay(request)
        return _accepted_estimate(request, replay_request(request, schedule), self.name)


def _accepted_estimate(request: EvaluationRequest, result: ReplayResult, name: str) -> Estimate:
    """Return the mean reward of the accepted events, averaged over complete trajectories.

    ``ReplayResult.complete`` states why this mean does not select.
    """
    if not any(trajectory.accepted for trajectory in result.complete):
        raise NoOverlap(
            f"{name} accepted no event: the policy hardly ever chooses the logged actions. Use DRns or ClockReplay"
        )
    values = result.values(lambda trajectory: trajectory.mean_accepted_reward)
    error, interval = _accepted_interval(request, result, values)
    return Estimate(
        value=float(values.mean()),
        std_error=error,
        interval=interval,
        diagnostics=replay_diagnostics(request, result, request.log.propensities_estimated),
        policy=request.policy_name,
        evaluator=name,
        horizon=request.horizon,
        notes=(*result.notes, *((SINGLE_RUN_NOTE,) if values.size == 1 else ())),
        settings={"seed": request.seed, "level": request.level},
    )


def _accepted_interval(
    request: EvaluationRequest, result: ReplayResult, values: FloatArray
) -> tuple[float, Interval | None]:
    if request.interval is not None:
        raise OptionError(f"{type(request.interval).__name__} is not an interval for accepted rewards; leave it out")
    if values.size >= 2:
        error, low, high = student_interval(values, request.level)
        return error, Interval(low, high, request.level, "Student over trajectories", "independent", POLICY_VALUE)
    sums = result.complete[0].sums
    accepted, variation = int(sums["accepted"]), float(sums["accepted_variation"])
    if accepted < 2:
        return math.nan, None
    mean, (low, high) = float(values[0]), result.reward_range
    ends = adjusted_student_ends(
        mean,
        variation,
        accepted,
        imagined=(low - mean, high - mean),
        degrees_of_freedom=accepted - 1,
        level=request.level,
    )
    error = math.sqrt(variation / (accepted - 1) / accepted)
    return error, Interval(*ends, request.level, "adjusted Student", "asymptotic", PROGRESSIVE_VALUE)
