"""The answer from replicates: value, standard error, interval and curve."""

from __future__ import annotations

import math
from contextlib import closing
from typing import NamedTuple

import numpy as np
from scipy import stats

from backcast.diagnostics import Diagnostics
from backcast.estimate import POLICY_VALUE, Estimate, Interval, LearningCurve
from backcast.evaluators.pool import Material, Pool, Replicable
from backcast.evaluators.question import Question, stopped_note
from backcast.evaluators.replicates import Outcome, Replicates, bin_edges
from backcast.evaluators.replicating import SubsetsTooShort, first_passes, replicate_all
from backcast.intervals.jackknife import group_influence

__all__ = ["Replicated", "replicated", "replicated_from"]


class Replicated(NamedTuple):
    """An answer from replicates, before the evaluator adds its diagnostics."""

    value: float
    std_error: float
    interval: Interval | None
    curve: LearningCurve
    outcomes: list[Outcome]
    replicates: int
    sampling_error: float
    monte_carlo_error: float
    horizon: int
    notes: tuple[str, ...] = ()

    def estimate(self, evaluator: Replicable, question: Question, diagnostics: Diagnostics) -> Estimate:
        """The estimate, with the evaluator's diagnostics."""
        return Estimate(
            value=self.value,
            std_error=self.std_error,
            interval=self.interval,
            diagnostics=diagnostics,
            policy=question.policy_name,
            evaluator=evaluator.name,
            curve=self.curve,
            horizon=self.horizon,
            notes=self.notes,
            settings={"seed": question.seed, "level": question.level, "replicates": self.replicates},
        )


def replicated(evaluator: Replicable, question: Question) -> Replicated:
    """Value, standard error, interval and curve from replicates; the value alone where none are asked for."""
    material = evaluator.material(question)
    if question.replicates is None:
        return _value_alone(evaluator, question, material)
    try:
        found = replicate_all(evaluator, question, [question.policy], material)
    except SubsetsTooShort as reason:
        note = f"{str(reason)[0].upper()}{str(reason)[1:]}."
        alone = _value_alone(evaluator, question, material)
        return alone._replace(notes=(note, *alone.notes))
    return replicated_from(found, 0, question)


def replicated_from(found: Replicates, policy: int, question: Question) -> Replicated:
    """The answer for one of the policies that were replicated together."""
    outcomes = [row[policy] for row in found.full]
    if not found.tells_errors:
        return _without_error(outcomes, found.horizon, found.notes)
    sampling, monte_carlo = (float(matrix[policy, policy]) for matrix in found.covariance())
    value, error = float(found.values()[policy]), math.sqrt(sampling + monte_carlo)
    reach = float(stats.t.ppf((1 + question.level) / 2, found.member.shape[1] - 1)) * error
    return Replicated(
        value,
        error,
        Interval(value - reach, value + reach, question.level, "group jackknife", "independent", POLICY_VALUE),
        _curve(found, policy, question.level),
        outcomes,
        found.member.shape[0],
        math.sqrt(sampling),
        math.sqrt(monte_carlo),
        found.horizon,
        found.notes,
    )


def _value_alone(evaluator: Replicable, question: Question, material: Material) -> Replicated:
    planned = first_passes(None)
    with closing(Pool(evaluator, [question.policy], material, question)) as pool:
        outcomes = [row[0] for row in pool.passes(range(planned))]
    short = [outcome.rounds for outcome in outcomes if math.isnan(outcome.value)]
    if short:
        raise evaluator.failure(material, max(short))
    done = f"{len(outcomes)} of {planned} passes over the log"
    return _without_error(outcomes, material.horizon, (stopped_note(done),) if pool.stopped else ())


def _without_error(outcomes: list[Outcome], horizon: int, notes: tuple[str, ...]) -> Replicated:
    """The value from passes over the whole log, with their own noise and nothing else."""
    values = np.array([outcome.value for outcome in outcomes])
    curve = np.mean([outcome.curve for outcome in outcomes], axis=0)
    noise = float(values.std(ddof=1)) / math.sqrt(values.size) if values.size > 1 else math.nan
    line = LearningCurve(bin_edges(horizon)[1:], curve, curve, curve)
    return Replicated(float(values.mean()), math.nan, None, line, outcomes, 0, math.nan, noise, horizon, notes)


def _curve(found: Replicates, policy: int, level: float) -> LearningCurve:
    full = np.array([row[policy].curve for row in found.full])
    subset = np.array([row[policy].curve for row in found.subset])
    sampling = np.diag(group_influence(subset, found.member).covariance)
    monte_carlo = full.var(axis=0, ddof=1) / len(full)
    reach = stats.norm.ppf((1 + level) / 2) * np.sqrt(np.maximum(sampling, 0.0) + monte_carlo)
    value = full.mean(axis=0)
    return LearningCurve(bin_edges(found.horizon)[1:], value, value - reach, value + reach)
