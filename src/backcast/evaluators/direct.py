"""DM, the direct method: the value that the reward model predicts."""

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
from backcast.estimate import Estimate, LearningCurve, block_edges
from backcast.evaluators._reward_predictions import out_of_sample_predictions
from backcast.evaluators._weighted_events import weight_events
from backcast.io.stream import LogStream
from backcast.log import Log
from backcast.policies.base import is_learning

NOTE = "The error of the direct method is the bias of its reward model, which cannot be estimated from the same log."


@dataclass(frozen=True)
class DM:
    """The direct method: a fixed policy's expected predicted reward; a learning policy is simulated on the model.

    For a fixed policy the value is ``mean_k sum_a pi(a|x_k) rhat(x_k, a)``, an exact expectation. A learning policy
    runs forward over the log's contexts with rewards drawn from the model, T rounds per trajectory.

    Examples
    --------
    >>> DM().name
    'DM'
    """

    @property
    def name(self) -> str:
        """Name in results."""
        return "DM"

    def estimate(self, request: EvaluationRequest) -> Estimate:
        """Estimate by the reward model alone."""
        result = _simulate(request) if is_learning(request.policy) else _expect(request)
        return Estimate(
            value=result.value,
            std_error=math.nan,
            interval=None,
            diagnostics=ModelDiagnostics(
                result.n_events, result.n_rounds, result.n_trajectories, request.log.propensities_estimated
            ),
            policy=request.policy_name,
            evaluator=self.name,
            curve=result.curve,
            horizon=request.horizon,
            notes=(NOTE, *result.notes),
            settings={"seed": request.seed},
        )


class _Prediction(NamedTuple):
    """What the model predicts, from how many events, in how many trajectories of how many rounds."""

    value: float
    n_events: int
    n_rounds: int
    n_trajectories: int
    curve: LearningCurve | None = None
    notes: tuple[str, ...] = ()


def _expect(request: EvaluationRequest) -> _Prediction:
    """Return the expectation over all events, without a table of events times actions."""
    events = weight_events(request, uses_model=True)
    if events.in_memory:
        base = np.concatenate([block.base for block in events.blocks()])
        return _Prediction(float(base.mean()), base.size, base.size, 1, notes=events.notes)
    total, n = 0.0, 0
    for block in events.blocks():
        total, n = total + float(block.base.sum()), n + block.base.size
    return _Prediction(total / n, n, n, 1, notes=events.notes)


def _simulate(request: EvaluationRequest) -> _Prediction:
    """Simulate a learning policy on disjoint segments of the log, with expected rewards by round.

    Every trajectory has T events, so how many there are depends on the length of the log alone, and the mean over all
    of them does not select. What remains of the log is not used.
    """
    if isinstance(request.log, LogStream):
        raise EvaluationError(
            "DM runs a learning policy over contexts in memory; read the log with read_log, or use DRns on a stream"
        )
    log, predicted = out_of_sample_predictions(request)
    horizon = request.horizon or len(log)
    if len(log) < horizon:
        raise HorizonNotReached(f"the horizon is {horizon} and the log has {len(log)} events; ask for a shorter one")
    means = np.array(np.broadcast_to(predicted, (len(log), log.n_actions)))
    law, rng = _reward_law(log, means), RandomStreams.from_seed(request.seed).policy
    segments = [slice(start, start + horizon) for start in range(0, len(log) - horizon + 1, horizon)]
    rewards = np.array([run_forward(request.policy, log[s], means[s], law, rng) for s in segments])
    edges = block_edges(horizon)
    curve = np.array([rewards[:, start:stop].mean() for start, stop in pairwise(edges)])
    return _Prediction(
        float(rewards.mean()), rewards.size, horizon, len(segments), LearningCurve(edges[1:], curve, curve, curve)
    )


def _reward_law(log: Log, means: FloatArray) -> RewardLaw:
    low, high = float(log.rewards.min()), float(log.rewards.max())
    if np.isin(log.rewards, (low, high)).all() and low < high:
        return RewardLaw(low, high, np.zeros(0))
    return RewardLaw(low, high, log.rewards - means[np.arange(len(log)), log.actions])
