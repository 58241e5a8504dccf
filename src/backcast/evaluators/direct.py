"""DM, the direct method: the value that the reward model predicts."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from backcast._arrays import FloatArray
from backcast._engine.forward import run_forward
from backcast._engine.reward_law import RewardLaw
from backcast._parallel.jobs import Execution
from backcast._parameters import Parametrized
from backcast._request import EvaluationRequest, RandomStreams, SeedKey, seed_sequence
from backcast.diagnostics import ModelDiagnostics
from backcast.errors import EvaluationError, HorizonNotReached, OptionError
from backcast.estimate import (
    POLICY_VALUE,
    Estimate,
    Interval,
    LearningCurve,
    block_edges,
    block_means,
    student_quantile,
)
from backcast.evaluators._reward_predictions import out_of_sample_predictions
from backcast.evaluators._weighted_events import weight_events
from backcast.io.stream import LogStream
from backcast.log import Log
from backcast.policies.base import is_learning
from backcast.reward_models.cross_fitting import Fitted, Given, as_out_of_sample

NOTE = "The error of the direct method is the bias of its reward model, which cannot be estimated from the same log."
MODEL_NOTE = (
    "The interval covers the uncertainty of the fitted reward model and of the simulation, from {} refits on resampled "
    "events; it assumes that the model has the right form."
)
REFITS = 20  # refits for the standard error, whose relative error is then about 1 / sqrt(38)
ASSUMPTION = "reward model"


@dataclass(frozen=True)
class DM(Parametrized):
    """The direct method: a fixed policy's expected predicted reward; a learning policy is simulated on the model.

    For a fixed policy the value is ``mean_k sum_a pi(a|x_k) rhat(x_k, a)``, an exact expectation. A learning policy
    runs forward over the log's contexts with rewards drawn from the model, T rounds per trajectory. Its interval
    carries the uncertainty of the fit into the simulation (Praharaj, Chang, Khamaru and Zhang 2026): the model is
    fitted and the policy simulated again on ``replicates`` logs of resampled events, 20 by default. It assumes that the
    model has the right form. A model that is given, not fitted, has no interval.

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
            std_error=result.std_error,
            interval=result.interval,
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
    std_error: float = math.nan
    interval: Interval | None = None
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
    if request.log.columns.learned is not None:
        raise EvaluationError(
            "DM draws rewards from a model of the reward alone, so a learning policy cannot be read by outcome or "
            "segment with it; use ClockReplay or DRns, or a log without outcomes and segments"
        )
    log, predicted = out_of_sample_predictions(request)
    horizon = request.horizon or len(log)
    rewards = _simulated_rewards(request, log, predicted, horizon, RandomStreams.from_seed(request.seed).policy)
    edges, value = block_edges(horizon), float(rewards.mean())
    points = np.array([rewards[:, start:stop].mean() for start, stop in pairwise(edges)])
    facts = value, rewards.size, horizon, len(rewards)
    if isinstance(as_out_of_sample(request.reward_model), Fitted | Given):
        return _Prediction(*facts, curve=LearningCurve(edges[1:], points, points, points))
    refits = _refitted_curves(request, request.log, horizon)
    quantile = student_quantile(request.level, len(refits) - 1)
    error = float(refits.mean(axis=1).std(ddof=1))
    band = quantile * np.std([block_means(each, edges) for each in refits], axis=0, ddof=1)
    ends = value - quantile * error, value + quantile * error
    return _Prediction(
        *facts,
        std_error=error,
        interval=Interval(*ends, request.level, "refitted model", ASSUMPTION, POLICY_VALUE),
        curve=LearningCurve(edges[1:], points, points - band, points + band),
        notes=(MODEL_NOTE.format(len(refits)),),
    )


def _simulated_rewards(
    request: EvaluationRequest, log: Log, predicted: FloatArray, horizon: int, rng: np.random.Generator
) -> FloatArray:
    """Return the expected reward of each round, one row per trajectory.

    Trajectories are disjoint segments whose number the log's length decides, so that none is selected by its value.
    """
    if len(log) < horizon:
        raise HorizonNotReached(f"the horizon is {horizon} and the log has {len(log)} events; ask for a shorter one")
    means = np.array(np.broadcast_to(predicted, (len(log), log.n_actions)))
    law = RewardLaw.from_rewards(log.columns.rewards, means[np.arange(len(log)), log.columns.actions])
    segments = [slice(start, start + horizon) for start in range(0, len(log) - horizon + 1, horizon)]
    return np.array([run_forward(request.policy, log[s], means[s], law, rng) for s in segments])


def _refitted_curves(request: EvaluationRequest, log: Log, horizon: int) -> FloatArray:
    """Return the mean expected reward by round of each refit: model, contexts and simulation of a resampled log.

    Events are resampled with replacement and stay in log order. A refit has the noise of one simulation, as the value
    has, so the variance between refits is that of the value.
    """
    n_refits = request.replicates if isinstance(request.replicates, int) else REFITS
    if n_refits < 2:
        raise OptionError(f"replicates is {n_refits}; a standard error needs at least 2 refits, and 20 to be stable")
    curves = []
    for number in range(n_refits):
        rng = np.random.default_rng(seed_sequence(request.seed, SeedKey.REFIT, number))
        resampled = log[np.sort(rng.integers(len(log), size=len(log)))]
        refit = replace(request, log=resampled, execution=Execution())
        events, predicted = out_of_sample_predictions(refit)
        curves.append(_simulated_rewards(refit, events, predicted, horizon, rng).mean(axis=0))
    return np.array(curves)
