"""Bias of DR-ns in log order in units of reward, by larger multipliers and extrapolation to no bias mass.

Acceptance probabilities ``min(1, c w)`` that are cut at 1 bias the simulated histories. With larger multipliers, on the
same events and draws, more is cut, and the value moves by what cutting does to it; the same per bias mass is its bias
(simulation and extrapolation, Cook and Stefanski 1994; docs/theory.md, section 3).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from backcast._arrays import FloatArray
from backcast._engine.replay import MultiplierSchedule, Trajectory
from backcast._request import EvaluationRequest, RandomStreams
from backcast.errors import HorizonNotReached, StopEvaluation
from backcast.estimate import BiasEstimate
from backcast.evaluators._replay import ReplayResult, replay, replay_request
from backcast.io.stream import LogStream
from backcast.policies.base import is_learning

# times the multipliers of the run; with 8 the estimate was +0.010 ± 0.003 where with 2 and 4 it was +0.006 ± 0.003 and
# the error of the value -0.003 ± 0.006: far from the run the value is not linear in the mass
LEVELS = (2.0, 4.0)
# of the bias mass, from which the extrapolation is made; at 0.4, with LinUCB and a sharp logger, estimates varied over
# logs by eight standard errors of the value, because most of the mass was cut in the run already
SMALLEST_INCREASE = 0.5
FEWEST_DEGREES = 4  # of freedom of the spread over trajectories, of which the error is then known to a third
METHOD = "larger multipliers, extrapolated to no cut"


class AcceptanceLevel(NamedTuple):
    """Values of the complete trajectories at one level of the multiplier, and their bias mass per round."""

    values: FloatArray
    mass: float

    @classmethod
    def from_trajectories(cls, trajectories: Sequence[Trajectory]) -> AcceptanceLevel:
        """Return the level of a run; trajectories that the end of the log cuts off are left out."""
        complete = [trajectory for trajectory in trajectories if trajectory.complete]
        excess, weight = (sum(float(each.sums[name]) for each in complete) for name in ("excess", "weight"))
        return cls(np.array([trajectory.value for trajectory in complete]), excess / weight if complete else math.nan)


def estimate_acceptance_bias(
    request: EvaluationRequest, schedule: MultiplierSchedule, result: ReplayResult
) -> BiasEstimate | None:
    """Return the bias of a replay as an estimate of V_T, by one further pass for each of ``LEVELS``.

    Nothing cut is no bias, without further passes. None for a policy that does not learn and without a horizon, where
    the values of events are unbiased; and if it is not known: of a run that was stopped, or if the passes do not
    determine it (:func:`extrapolate_bias`). A stream is read again for each of them.
    """
    if request.horizon is None or not is_learning(request.policy):
        return None
    reported = AcceptanceLevel.from_trajectories(result.trajectories)
    if reported.mass == 0.0:
        return BiasEstimate(0.0, 0.0, METHOD)
    if result.stopped:
        return None
    try:
        further = [_replay_level(request, replace(schedule, scale=scale), result) for scale in LEVELS]
    except (StopEvaluation, HorizonNotReached):
        return None
    levels = [AcceptanceLevel.from_trajectories(level.trajectories) for level in further]
    if any(level.stopped for level in further):
        return None
    # that of the further passes: one that was resumed was fed a part of the rewards
    return extrapolate_bias(reported, levels, further[0].reward_spread)


def _replay_level(request: EvaluationRequest, schedule: MultiplierSchedule, result: ReplayResult) -> ReplayResult:
    """Replay the same events with the same draws and policy generators at other multipliers."""
    # no events are reported, so that progress ends with the log; a run can still be stopped
    execution = replace(
        request.execution, checkpoint=None, on_progress=partial(_report_nothing, request.execution.on_progress)
    )
    request = replace(request, execution=execution)
    if isinstance(request.log, LogStream):
        return replay_request(request, schedule)
    assert result.log is not None
    assert result.predictions is not None
    streams = RandomStreams.from_seed(request.seed)
    return replay(
        result.log,
        request.policy,
        schedule,
        predictions=result.predictions,
        draws=streams.acceptance.random(len(result.log)),
        horizon=request.horizon,
        rng=streams.policy,
        on_progress=execution.on_progress,
    )


def _report_nothing(on_progress: Callable[[int], None], _: int) -> None:
    on_progress(0)


def extrapolate_bias(
    reported: AcceptanceLevel, further: Sequence[AcceptanceLevel], reward_spread: float
) -> BiasEstimate | None:
    """Return the bias of the mean of reported values; None if the bias mass hardly grows or there are few trajectories.

    With ``m`` the bias mass and ``theta(m) = theta(0) + b m``, the bias is ``b m`` of the reported level, ``b`` by
    least squares through its point: a sum of factors times differences of means. All trajectories are taken as
    independent with one variance, that within levels; that they share events makes the error smaller than this.

    The error contains the mass times the spread of rewards, too. A round of which ``eps`` is cut counts ``1/(1-eps)``
    times, and which rounds these are depends on the level: this part of the bias need not be linear, but is at most the
    mass times the range of the values of rounds (docs/theory.md, section 3).

    >>> reported = AcceptanceLevel(np.array([0.25, 0.75]), 0.125)
    >>> further = [AcceptanceLevel(np.array([0.0, 0.0, 0.5, 0.5]), 0.25)]
    >>> bias = extrapolate_bias(reported, further, reward_spread=1.0)
    >>> bias.value, round(128 * bias.std_error**2, 6)
    (-0.25, 11.0)

    By hand: the value falls by 1/4 as the mass doubles, so it has fallen by 1/4 from no mass. The sums of squares 1/8
    and 1/4 have 1 and 3 degrees of freedom: the variance is 3/32, and 3/4 of it, from 2 and 4 trajectories, 9/128. The
    mass adds 1/64.
    """
    levels = (reported, *further)
    degrees = sum(level.values.size - 1 for level in levels)
    if degrees < FEWEST_DEGREES or not all(level.values.size for level in levels):
        return None
    increase = np.array([level.mass - reported.mass for level in further])
    if increase.max() < SMALLEST_INCREASE * reported.mass:
        return None
    factors = reported.mass * increase / (increase @ increase)
    means = np.array([level.values.mean() for level in levels])
    squares = sum(float(((level.values - level.values.mean()) ** 2).sum()) for level in levels)
    counts = np.array([level.values.size for level in levels])
    share = (np.append(factors.sum(), factors) ** 2 / counts).sum()
    error = math.hypot(math.sqrt(squares / degrees * share), reported.mass * reward_spread)
    return BiasEstimate(float(factors @ (means[1:] - means[0])), error, METHOD)
