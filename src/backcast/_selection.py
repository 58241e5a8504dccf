"""Selection: the best of many policies, and its value on folds of the events that did not choose it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from backcast._arrays import FloatArray, IntArray
from backcast._auto import Choice
from backcast._differences import DIFFERENCE
from backcast._parallel.jobs import Execution
from backcast._racing import Race, group_means, with_predictions
from backcast._request import EvaluationRequest, SeedKey, seed_sequence
from backcast.errors import EvaluationError
from backcast.estimate import Difference, Estimate, Interval, Precision, student_quantile
from backcast.evaluation import run_evaluator, within_reward_range
from backcast.evaluators.clock_replay import ClockReplay
from backcast.intervals.learning import Segments
from backcast.log import Log
from backcast.policies._calls import describe
from backcast.reward_models.regression import assign_folds

GROUPS = 40  # of events, from which folds are made
PARTITIONS = 20  # of the groups into folds; a single one adds noise of its own, and covered 81 to 95 % in simulations


class Selection:
    """Values of all policies, in total and by group of events; the winner; and the value of choosing it."""

    def __init__(
        self,
        policies: Mapping[str, Any],
        choices: Mapping[str, Choice],
        seed: int,
        n_folds: int,
        on_progress: Callable[[int], None],
    ) -> None:
        self._policies, self._choices = policies, choices
        self._seed, self._n_folds, self._on_progress = seed, n_folds, on_progress
        self._estimates: dict[str, Estimate] = {}
        self._group: IntArray = np.zeros(0, dtype=np.int64)
        self._by_group: dict[str, FloatArray] = {}
        self.values: dict[str, float] = {}
        self.race: Race | None = None
        self.winner = ""

    def run(self) -> None:
        """Find the winner: by a race of those that can run one, else by the estimates of all policies."""
        racing = {name: self._policies[name] for name, choice in self._choices.items() if _can_race(choice)}
        for name in self._policies:
            if name not in racing:
                self._estimates[name] = self._evaluate(name)
        units = [_contributions(estimate).size for estimate in self._estimates.values()]
        if racing:
            evaluator, request, _ = self._choices[next(iter(racing))]
            request = with_predictions(replace(request, execution=self._execution(request)))
            units.append(request.log.n_events or 0)
        if len(set(units)) > 1:
            raise EvaluationError(
                "these policies are evaluated by different parts of the log, so that no folds are common to them; "
                "search among learning and fixed policies separately"
            )
        rng = np.random.default_rng(seed_sequence(self._seed, SeedKey.FOLDS))
        self._group = assign_folds(units[0], min(GROUPS, units[0]), rng)
        if not racing:
            self.values = {name: estimate.value for name, estimate in self._estimates.items()}
            self._by_group = {
                name: group_means(_contributions(estimate), self._group) for name, estimate in self._estimates.items()
            }
            self.winner = max(self.values, key=lambda name: self.values[name])
            return
        self.race = Race(evaluator, request, racing, self._estimates, self._group)
        self.winner = self.race.run()
        self._by_group = {name: self.race.group_values(name, self.winner) for name in self._policies}
        best = float(np.mean(self.race.runners[self.winner].values))
        self.values = {self.winner: best}
        for name in self._policies:
            if name != self.winner:
                self.values[name] = best + self.race.difference(name, self.winner)[0]

    def estimate_winner(self) -> tuple[Estimate, dict[str, float]]:
        """Return the value of choosing, on folds that did not choose, and the share of folds that chose each policy.

        The value of the winner comes from passes that had no part in the choice; that of another policy, where a fold
        chose it, from the winner's and the difference to it in the race.
        """
        names = [self.winner, *(name for name in self._policies if name != self.winner)]  # the first of equal values
        if self.winner not in self._estimates:
            self._estimates[self.winner] = self._evaluate(self.winner)
        estimate = self._estimates[self.winner]
        chosen_by = np.array([self._by_group[name] for name in names]).T
        valued_by = chosen_by + (group_means(_contributions(estimate), self._group) - chosen_by[:, 0])[:, None]
        rng = np.random.default_rng(seed_sequence(self._seed, SeedKey.FOLDS, 1))
        n_groups, n_folds = len(chosen_by), min(self._n_folds, len(chosen_by))
        fold = np.array([assign_folds(n_groups, n_folds, rng) for _ in range(PARTITIONS)])
        value, error, chosen = value_of_choosing(chosen_by, valued_by, np.bincount(self._group), fold)
        shares = dict(zip(names, np.bincount(chosen.ravel(), minlength=len(names)) / chosen.size, strict=True))
        if shares[self.winner] == 1 or estimate.interval is None:
            return estimate, shares
        noise = float(np.nan_to_num(estimate.diagnostics.to_dict().get("monte_carlo_error", 0.0)))
        error = max(math.hypot(error, noise), estimate.std_error)
        half_width = student_quantile(estimate.interval.level, n_groups - 1) * error
        ends, method = (value - half_width, value + half_width), f"jackknife over {n_groups} groups of events"
        interval = replace(estimate.interval, low=ends[0], high=ends[1], method=method)
        estimate = replace(estimate, value=value, std_error=error, interval=interval, influences=None)
        return within_reward_range(estimate, self._choices[self.winner][1].log.reward_range), shares

    def differences(self, level: float) -> dict[str, Difference]:
        """Return the difference of each policy to the winner; the intervals hold together (Bonferroni)."""
        others = [name for name in self._policies if name != self.winner]
        differences = {}
        for name in others:
            if self.race is not None:
                value, precision = self.race.difference(name, self.winner)
            else:
                gap = _contributions(self._estimates[name]) - _contributions(self._estimates[self.winner])
                value = self.values[name] - self.values[self.winner]
                precision = Precision(float(gap.var(ddof=1)) / gap.size, 0.0, gap.size - 1.0)
            error = precision.std_error
            half_width = student_quantile(1 - (1 - level) / len(others), precision.degrees_of_freedom) * error
            interval = Interval(value - half_width, value + half_width, level, "paired", "independent", DIFFERENCE)
            differences[name] = Difference(
                name,
                self.winner,
                value,
                error,
                interval,
                math.sqrt(precision.monte_carlo),
                precision.degrees_of_freedom,
            )
        return differences

    def stage_of(self, name: str) -> int | None:
        """Return the stage after which a policy was dropped."""
        return None if self.race is None else self.race.runners[name].stage

    def passes_of(self, name: str) -> int:
        """Return the number of passes of a policy in the race."""
        if self.race is None or name not in self.race.policies:
            return 0
        return len(self.race.runners[name].values)

    def _evaluate(self, name: str) -> Estimate:
        """Return the estimate of one policy with contributions of events or of groups of events."""
        evaluator, request, _ = self._choices[name]
        policy = self._policies[name]
        request = replace(request, policy=policy, policy_name=describe(policy), execution=self._execution(request))
        estimate = run_evaluator(evaluator, request)
        if estimate.influences is None and estimate.group_values is None:
            # one run in log order says nothing about parts of the log, so its parts are evaluated
            estimate = run_evaluator(evaluator, replace(request, interval=Segments(), replicates=None))
        return estimate

    def _execution(self, request: EvaluationRequest) -> Execution:
        return replace(request.execution, on_progress=self._on_progress)


def _can_race(choice: Choice) -> bool:
    evaluator, request, _ = choice
    return isinstance(evaluator, ClockReplay) and isinstance(request.log, Log)


def _contributions(estimate: Estimate) -> FloatArray:
    """Return what events, or groups of events, contribute to the value, which is their mean."""
    if estimate.influences is not None:
        return np.asarray(estimate.value + estimate.influences - estimate.influences.mean())
    if estimate.group_values is None:
        raise EvaluationError(
            f"{estimate.evaluator} gives no values of parts of the log, so that the choice cannot be valued on others"
        )
    return estimate.group_values


def value_of_choosing(
    chosen_by: FloatArray, valued_by: FloatArray, sizes: IntArray, fold: IntArray
) -> tuple[float, float, IntArray]:
    """Return the mean value of the policy that the other folds choose, its jackknife error, and the choices.

    ``chosen_by`` and ``valued_by`` are ``(G, m)`` means of m policies in G groups of events of these sizes, and each
    row of ``fold`` is one partition of the groups. The error is that of leaving out one group after another; the mean
    over partitions is smooth enough for it.

    >>> values = np.array([[0.0, 1.0], [2.0, 1.0]])
    >>> value_of_choosing(values, values, np.array([1, 1]), np.array([[0, 1]]))[0]
    0.5

    By hand: the first group prefers the second policy, which earns 1 in the second group; that one prefers the first
    policy, which earns 0 in the first group.
    """
    in_fold = (fold[:, :, None] == np.arange(fold.max() + 1)).astype(np.float64)
    choosing, valuing = chosen_by * sizes[:, None], valued_by * sizes[:, None]
    sums = np.einsum("rgf,gm->rfm", in_fold, choosing), np.einsum("rgf,gm->rfm", in_fold, valuing)
    counts = in_fold.transpose(0, 2, 1) @ sizes
    value, chosen = _mean_of_chosen(sums[0], sums[1], counts)
    # without one group: (partitions, groups, folds, policies)
    without, _ = _mean_of_chosen(
        sums[0][:, None] - in_fold[..., None] * choosing[:, None],
        sums[1][:, None] - in_fold[..., None] * valuing[:, None],
        counts[:, None] - in_fold * sizes[:, None],
    )
    by_group = without.mean(axis=0)
    n_groups = by_group.size
    error = math.sqrt((n_groups - 1) / n_groups * float(((by_group - by_group.mean()) ** 2).sum()))
    return float(value.mean()), error, chosen


def _mean_of_chosen(choosing: FloatArray, valuing: FloatArray, counts: FloatArray) -> tuple[FloatArray, IntArray]:
    """Return the mean over folds of what the other folds choose, given sums ``(..., folds, policies)``; the choices."""
    # sums and means over the other folds have the same largest policy
    chosen = (choosing.sum(axis=-2, keepdims=True) - choosing).argmax(axis=-1)
    value = np.take_along_axis(valuing, chosen[..., None], axis=-1)[..., 0]
    return value.sum(axis=-1) / counts.sum(axis=-1), chosen
