"""Race: policies run on common passes in stages, after each of which those that have fallen behind are dropped.

The bound concerns the value on this log: more passes make that value more precise, so a policy that is behind by more
than their noise would not become the best with more of them. Whether the log itself distinguishes two policies is a
matter of its sampling error, which no number of passes reduces.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from backcast._arrays import FloatArray, IntArray
from backcast._request import EvaluationRequest
from backcast.errors import StopEvaluation
from backcast.estimate import Estimate, Precision, student_quantile
from backcast.evaluators._replicate_statistics import ReplicateTable
from backcast.evaluators._reward_predictions import out_of_sample_predictions

STAGES = (8, 16, 32, 64)  # passes of each policy by the end of a stage
FIRST_PASS = 1_000_000  # number of the first pass: an evaluation of the winner runs other passes, from 0 on
LEVEL = 0.95  # of the bound, over all policies and stages
LARGEST_SHARE = 0.5  # of the policies of a stage that take part in the next


@dataclass
class Runner:
    """One policy in the race: its values by pass, by group of events in each stage, and where it was dropped."""

    values: list[float] = field(default_factory=list)
    groups: list[FloatArray] = field(default_factory=list)
    stage: int | None = None
    precisions: dict[str, Precision] = field(default_factory=dict)


@dataclass
class Race:
    """A race of learning policies on one log; policies that do not learn take part with the estimates they have.

    Attributes
    ----------
    evaluator, request
        Clock replay, or another evaluator whose passes record influences, and the request for it.
    policies
        The learning policies by name.
    known
        Estimates of the others, with influences of events.
    group
        Number of the group of each event.
    """

    evaluator: Any
    request: EvaluationRequest
    policies: Mapping[str, Any]
    known: Mapping[str, Estimate]
    group: IntArray
    runners: dict[str, Runner] = field(init=False)
    passes: int = 0

    def __post_init__(self) -> None:
        self.runners = {name: Runner() for name in (*self.policies, *self.known)}

    def run(self) -> str:
        """Run the race, and return the name of the winner."""
        racing = list(self.runners)
        for number, total in enumerate(STAGES, start=1):
            table, places = self._run_stage(racing, total)
            leading = self._leading(racing) if number < len(STAGES) else self._by_value(racing)[:1]
            for name in set(racing) - set(leading):
                self.runners[name].stage = number
                for other in leading:
                    self.runners[name].precisions[other] = self._precision(table, places, name, other)
            racing = leading
            if len(racing) == 1:
                break
        return racing[0]

    def _run_stage(self, racing: Sequence[str], total: int) -> tuple[ReplicateTable | None, dict[str, int]]:
        """Run passes until there are so many; return those of this stage, and the place of each learning policy."""
        done = len(self.runners[racing[0]].values)
        learning = [name for name in racing if name in self.policies]
        table: ReplicateTable | None = None
        if learning:
            numbers = range(FIRST_PASS + done, FIRST_PASS + total)
            request = replace(self.request, passes=numbers, replicates="auto")
            table = self.evaluator.run_jointly(request, [self.policies[name] for name in learning])
            assert table is not None
            if len(table.full) < len(numbers):
                raise StopEvaluation("the search was stopped before its end; start it again")
            self.passes += len(numbers) * len(learning)
        places = {name: i for i, name in enumerate(learning)}
        for name in racing:
            runner = self.runners[name]
            if name in places:
                assert table is not None
                values = table.full_values()[:, places[name]]
                influences = table.influences.event_influences(places[name])
            else:
                values, influences = np.full(total - done, self.known[name].value), _influences_of(self.known[name])
            runner.values += values.tolist()
            runner.groups.append(values.mean() + group_means(influences - influences.mean(), self.group))
        return table, places

    def _by_value(self, names: Sequence[str]) -> list[str]:
        return sorted(names, key=lambda name: -float(np.mean(self.runners[name].values)))

    def _leading(self, racing: Sequence[str]) -> list[str]:
        """Return the policies of the next stage: not behind the best by more than the bound, and at most half."""
        ordered = self._by_value(racing)
        best = np.array(self.runners[ordered[0]].values)
        # one-sided, over all policies and stages
        level = 1 - 2 * (1 - LEVEL) / ((len(self.runners) - 1) * len(STAGES))
        quantile = student_quantile(level, best.size - 1)
        leading = []
        for name in ordered:
            behind = best - np.array(self.runners[name].values)
            if behind.mean() <= quantile * behind.std(ddof=1) / math.sqrt(behind.size):
                leading.append(name)
        return leading[: max(1, int(LARGEST_SHARE * len(racing)))]

    def _precision(self, table: ReplicateTable | None, places: Mapping[str, int], a: str, b: str) -> Precision:
        """Return the precision of the difference of two policies, by the passes of this stage."""
        if table is not None and a in places and b in places:
            return table.difference_precision(places[a], places[b])
        if table is not None and (a in places or b in places):
            learning, fixed = (a, b) if a in places else (b, a)
            return table.fixed_difference_precision(places[learning], _influences_of(self.known[fixed]))
        difference = _influences_of(self.known[a]) - _influences_of(self.known[b])
        return Precision(float(difference.var(ddof=1)) / difference.size, 0.0, math.inf)

    def difference(self, name: str, winner: str) -> tuple[float, Precision]:
        """Return how much more a policy earns than the winner, on the passes of both, with its precision."""
        values = np.array(self.runners[name].values)
        behind = values - np.array(self.runners[winner].values[: values.size])
        precision = self.runners[name].precisions[winner]
        return float(behind.mean()), precision._replace(monte_carlo=float(behind.var(ddof=1)) / behind.size)

    def group_values(self, name: str, winner: str) -> FloatArray:
        """Return the value by group: that of the winner, plus the difference to it on the passes of both.

        Noise that a policy shares with the winner cancels. Influences from few passes are noisy themselves, so the
        differences are reduced to the spread over groups that the sampling error of the difference implies: choices by
        folds would otherwise be more random than the choice by the whole log (the value was too low by 0.6 standard
        errors in bench/accuracy's search benchmark).
        """
        weights = np.diff([0, *STAGES])
        own, best = np.array(self.runners[name].groups), np.array(self.runners[winner].groups)
        value = np.average(best, axis=0, weights=weights[: len(best)])
        if name == winner:
            return np.asarray(value)
        difference = np.average(own - best[: len(own)], axis=0, weights=weights[: len(own)])
        deviation = difference - difference.mean()
        variance = self.runners[name].precisions[winner].sampling * difference.size
        reduction = min(1.0, math.sqrt(variance / max(float(deviation.var(ddof=1)), np.finfo(float).tiny)))
        return np.asarray(value + difference.mean() + reduction * deviation)


def with_predictions(request: EvaluationRequest) -> EvaluationRequest:
    """Return the request with the predictions of its reward model, so that stages do not fit it again."""
    log, predicted = out_of_sample_predictions(request)
    if len(predicted) == 1:
        return replace(request, log=log)
    by_row = np.zeros((int(log.rows.max()) + 1, log.n_actions))
    by_row[log.rows] = predicted
    return replace(request, log=log, reward_model=by_row)


def group_means(values: FloatArray, group: IntArray) -> FloatArray:
    """Return the mean in each group.

    >>> group_means(np.array([1.0, 2.0, 4.0]), np.array([0, 1, 1]))
    array([1., 3.])
    """
    return np.asarray(np.bincount(group, values) / np.bincount(group))


def _influences_of(estimate: Estimate) -> FloatArray:
    assert estimate.influences is not None
    return estimate.influences
