"""DR-ns over many permutations of an exchangeable log, with the error from subsets of groups."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from backcast.arrays import FloatArray, IntArray
from backcast.diagnostics import PermutedDiagnostics
from backcast.engine.run import Run, Steering
from backcast.errors import EvaluationError, HorizonNotReached, OptionError
from backcast.estimate import Estimate
from backcast.evaluators.pool import Material
from backcast.evaluators.predictions import honest_predictions
from backcast.evaluators.question import Question
from backcast.evaluators.replicated import Replicated, replicated
from backcast.evaluators.replicates import Outcome, bin_edges

__all__ = ["Permuted", "permuted_diagnostics", "permuted_estimate"]

MARGIN = 1.3


class Steered(Protocol):
    """An evaluator that goes through the log in order, steering its multiplier."""

    @property
    def name(self) -> str:
        """How results call it."""
        ...

    def prepared(self, question: Question) -> tuple[Question, Steering]:
        """The events to run on, and how the multiplier moves."""
        ...


@dataclass(frozen=True)
class Permuted:
    """Replicates of DR-ns: each runs on the events in an order of its own, several trajectories a run."""

    inner: Steered
    horizon: int

    @property
    def name(self) -> str:
        """How results call it."""
        return f"{self.inner.name} x permutations"

    def material(self, question: Question) -> Material:
        """The events with their predictions; permutations make sense only for a horizon."""
        if not question.in_memory:
            raise EvaluationError("replicates permute the log, so it must be in memory; read it with read_log")
        log, predicted = honest_predictions(question)
        return Material(log, predicted, self.horizon)

    def replicate(
        self, policy: Any, material: Material, rows: IntArray | None, seed: np.random.SeedSequence
    ) -> Outcome:
        """One run on these events in random order; the mean over its complete trajectories."""
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(material.log)) if rows is None else rng.permutation(rows)
        shuffled = material.log[order]
        question, steering = self.inner.prepared(Question(shuffled, policy, horizon=material.horizon))
        log = question.log
        predicted = material.predicted
        if len(predicted) > 1:
            predicted = predicted[order[len(shuffled) - len(log) :]]
        run = Run(policy, steering, log.reward_bounds, rng, horizon=material.horizon, length=len(log), keep_order=False)
        run.feed(log, predicted, rng.random(len(log)))
        return _outcome(run, material.horizon)

    def acceptable(self, outcomes: Sequence[Outcome]) -> bool:
        """Whether the subsets had events to spare."""
        return float(np.mean([outcome.rounds for outcome in outcomes])) >= MARGIN * self.horizon

    def failure(self, material: Material, reached: int) -> HorizonNotReached:
        """The error for a horizon that no trajectory reaches."""
        return HorizonNotReached(
            f"no trajectory of {material.horizon} rounds could be built from {len(material.log):,} events. "
            "Ask for a shorter horizon, accept more (a larger q, Budget), use ClockReplay, or give a longer log"
        )


def _outcome(run: Run, horizon: int) -> Outcome:
    trajectories = run.close()
    complete = [trajectory for trajectory in trajectories if trajectory.complete]
    accepted = sum(trajectory.accepted for trajectory in trajectories)
    if not complete:
        return Outcome(math.nan, np.zeros(0), accepted, math.inf)
    value = float(np.mean([trajectory.value for trajectory in complete]))
    certificate = float(np.mean([float(trajectory.sums["excess"]) for trajectory in complete]))
    return Outcome(value, _curve(run, horizon), accepted, certificate)


def _curve(run: Run, horizon: int) -> FloatArray:
    width = int(run.curve.width[0])
    sums = run.curve.sums[: -(-horizon // width), :2]
    edges = np.unique(np.linspace(0, len(sums), bin_edges(horizon).size).astype(np.int64))
    reward, weight = np.add.reduceat(sums, edges[:-1], axis=0).T
    return np.asarray(reward / weight)


def permuted_estimate(evaluator: Steered, question: Question) -> Estimate:
    """Value from permutations of the whole log, error from subsets of groups."""
    if question.horizon is None:
        raise OptionError(f"replicates of {evaluator.name} estimate V_T; give horizon=T")
    outer = Permuted(evaluator, question.horizon)
    found = replicated(outer, question)
    return found.estimate(outer, question, permuted_diagnostics(found, question))


def permuted_diagnostics(found: Replicated, question: Question) -> PermutedDiagnostics:
    """The facts of an answer from permutations."""
    return PermutedDiagnostics(
        events=len(question.log),
        rounds=found.horizon,
        permutations=len(found.outcomes),
        trajectories=float(np.mean([outcome.rounds // found.horizon for outcome in found.outcomes])),
        replicates=found.replicates,
        bias_certificate=float(np.mean([outcome.certificate for outcome in found.outcomes])),
        sampling_error=found.sampling_error,
        monte_carlo_error=found.monte_carlo_error,
        propensities_estimated=question.propensities_estimated,
    )
