"""The direct method: believe the reward model."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from backcast._arrays import FloatArray
from backcast._engine.forward import RewardLaw, run_forward
from backcast._request import EvaluationRequest, RandomStreams
from backcast.diagnostics import ModelDiagnostics
from backcast.errors import EvaluationError, HorizonNotReached
from backcast.estimate import Estimate, LearningCurve
from backcast.evaluators._reward_predictions import predictions_in_memory
from backcast.evaluators._weighted_events import weight_events
from backcast.log import Log
from backcast.policies.base import is_learning

NOTE = "The direct method's error is the bias of its reward model, which no interval from the same log can show."


@dataclass(frozen=True)
class DM:
    """The direct method: a fixed policy's expected predicted reward; a learning policy is simulated on the model.

    For a fixed policy the value is ``mean_k sum_a pi(a|x_k) rhat(x_k, a)``, an exact expectation. A learning policy
    runs forward over the log's contexts with rewards drawn from the model, T rounds a trajectory.

    Examples
    --------
    >>> DM().name
    'DM'
    """

    @property
    def name(self) -> str:
        """How results call it."""
        return "DM"

    def estimate(self, request: EvaluationRequest) -> Estimate:
        """Estimate by the model alone."""
        if is_learning(request.policy) and not request.in_memory:
            raise EvaluationError(
                "DM runs a learning policy over contexts in memory; read the log with read_log, or use DRns on a stream"
            )
        found, notes = _simulated_all(request) if is_learning(request.policy) else _expected(request)
        return Estimate(
            value=found.value,
            std_error=math.nan,
            interval=None,
            diagnostics=ModelDiagnostics(
                found.events, found.rounds, found.trajectories, request.propensities_estimated
            ),
            policy=request.policy_name,
            evaluator=self.name,
            curve=found.curve,
            horizon=request.horizon,
            notes=(NOTE, *notes),
            settings={"seed": request.seed},
        )


class _Found(NamedTuple):
    """What the model says, and of how many events, in how many histories of how many rounds."""

    value: float
    events: int
    rounds: int
    trajectories: int
    curve: LearningCurve | None


def _expected(request: EvaluationRequest) -> tuple[_Found, tuple[str, ...]]:
    """The model's expectation over all events, and what a reader must know; no table of all events is built."""
    events = weight_events(request, model=True)
    if events.keep:
        base = np.concatenate([block.base for block in events])
        return _Found(float(base.mean()), base.size, base.size, 1, None), events.notes
    total, n = 0.0, 0
    for block in events:
        total, n = total + float(block.base.sum()), n + block.base.size
    return _Found(total / n, n, n, 1, None), events.notes


def _simulated_all(request: EvaluationRequest) -> tuple[_Found, tuple[str, ...]]:
    streams = RandomStreams.of(request.seed)
    rounds = _simulated(request, *predictions_in_memory(request, streams), streams)
    trajectories, length = rounds.shape
    return _Found(float(rounds.mean()), rounds.size, length, trajectories, _curve(rounds)), ()


def _simulated(request: EvaluationRequest, log: Log, predicted: FloatArray, streams: RandomStreams) -> FloatArray:
    """Expected reward by trajectory and round, trajectories on disjoint stretches of the log."""
    horizon = request.horizon or len(log)
    if len(log) < horizon:
        raise HorizonNotReached(f"the horizon is {horizon} and the log has {len(log)} events; ask for a shorter one")
    means = np.array(np.broadcast_to(predicted, (len(log), log.n_actions)))
    law = _reward_law(log, means)
    starts = range(0, len(log) - horizon + 1, horizon)
    stretches = [slice(start, start + horizon) for start in starts]
    return np.array([run_forward(request.policy, log[s], means[s], law, streams.policy) for s in stretches])


def _reward_law(log: Log, means: FloatArray) -> RewardLaw:
    low, high = float(log.rewards.min()), float(log.rewards.max())
    if np.isin(log.rewards, (low, high)).all() and low < high:
        return RewardLaw(low, high, np.zeros(0))
    return RewardLaw(low, high, log.rewards - means[np.arange(len(log)), log.actions])


def _curve(rounds: FloatArray) -> LearningCurve:
    ends = np.unique(np.linspace(0, rounds.shape[1], min(rounds.shape[1], 50) + 1).astype(np.int64))
    value = np.array([rounds[:, a:b].mean() for a, b in pairwise(ends)])
    return LearningCurve(ends[1:], value, value, value)
