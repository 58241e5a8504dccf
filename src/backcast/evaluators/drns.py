"""DR-ns: doubly robust estimation with rejection sampling at an adaptive rate, for policies that learn.

Dudik, Erhan, Langford, Li, "Sample-efficient Nonstationary Policy Evaluation for Contextual Bandits", UAI 2012.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import numpy as np

from backcast._arrays import FloatArray, IntArray
from backcast._engine.replay import MultiplierSchedule, Run
from backcast._request import EvaluationRequest
from backcast._validation import at_least, count, share
from backcast.diagnostics import PermutedDiagnostics
from backcast.errors import EvaluationError, HorizonNotReached, OptionError, StopEvaluation
from backcast.estimate import Estimate
from backcast.evaluators._replay import (
    Simulation,
    curve_of,
    diagnose,
    progressive_policy,
    run_interval,
    run_notes,
    simulate,
)
from backcast.evaluators._replicate_statistics import PassResult, Replicated, bin_edges
from backcast.evaluators._replicates import ReplicateInputs, replicated
from backcast.evaluators._reward_predictions import out_of_sample_predictions
from backcast.evaluators._weight_transforms import slope_plus_plus
from backcast.evaluators.acceptance import AcceptanceRule, Budget, Quantile, WorstCase, schedule_for
from backcast.io.stream import head_of

GRID = (0.0, 0.01, 0.05, 0.1)


REACH = 1.96


MOST_WARM_UP = 500


@dataclass(frozen=True)
class DRns:
    """Algorithm 1 of the founding paper; ``DRns(q=...)`` with nothing else is that algorithm to the letter.

    Parameters
    ----------
    q
        Quantile of the observed ratios ``p/pi`` that bounds the multiplier: 0 is nearly unbiased, more accepts more.
        "auto" tries 0, .01, .05 and .1 and takes the largest that still agrees with all smaller ones (SLOPE++).
    c_max
        Largest multiplier; above 1 there is always bias.
    acceptance
        A rule in place of ``q``: ``Quantile(q)``, ``WorstCase()``, ``Budget(eta)``, or a fixed multiplier.
    warm_up
        Events at the head of the log that only fill the ratios, so that the first block is not over-weighted.
    carry
        Whether the ratios are kept from one trajectory to the next.

    Examples
    --------
    >>> DRns(q=0.05).name
    'DRns(q=0.05)'
    """

    q: float | Literal["auto"] | None = None
    c_max: float = 1.0
    acceptance: AcceptanceRule | None = None
    warm_up: int = 0
    carry: bool = False

    def __post_init__(self) -> None:
        at_least("c_max", self.c_max, 0.0, strict=True)
        count("warm_up", self.warm_up, 0)
        if isinstance(self.q, str) and self.q != "auto":
            raise OptionError(f"q is {self.q!r}; give a number in [0, 1], or 'auto'")
        if self.q is not None and not isinstance(self.q, str):
            share("q", self.q)
        if self.q is not None and self.acceptance is not None:
            raise OptionError("give q or acceptance, not both: q is short for acceptance=Quantile(q)")

    @classmethod
    def recommended(cls, events: int) -> DRns:
        """The preset for a log of so many events: q = 0.01, the ratios warmed up on a twentieth of it, and carried on.

        Where the bias must be bounded beforehand, and not only measured, use ``DRns(acceptance=Budget(eta))``.

        >>> DRns.recommended(4000)
        DRns(q=0.01, c_max=1.0, acceptance=None, warm_up=200, carry=True)
        """
        return cls(q=0.01, warm_up=min(MOST_WARM_UP, events // 20), carry=True)

    @property
    def rule(self) -> AcceptanceRule:
        """The acceptance rule in force."""
        if self.acceptance is not None:
            return self.acceptance
        return Quantile(self.q if isinstance(self.q, int | float) else 0.01)

    @property
    def name(self) -> str:
        """How results call it."""
        rule = f"q={self.rule.q:g}" if isinstance(self.rule, Quantile) else f"{self.rule}"
        rule = "q='auto'" if self.q == "auto" else rule
        rest = [f"c_max={self.c_max:g}"] * (self.c_max != 1) + [f"warm_up={self.warm_up}"] * (self.warm_up > 0)
        return f"DRns({', '.join([rule, *rest, *['carry=True'] * self.carry])})"

    def plan_replay(self, request: EvaluationRequest) -> tuple[EvaluationRequest, MultiplierSchedule]:
        """The question without the events set aside, and how the multiplier moves."""
        aside = self.rule.calibration if isinstance(self.rule, Budget) else self.warm_up
        head, rest = head_of(request.log, aside)
        request = replace(request, log=rest)
        return request, schedule_for(self.rule, request, self.c_max, carry=self.carry, warm_up=head)

    def estimate(self, request: EvaluationRequest) -> Estimate:
        """Estimate by ``R / C``, averaged over complete trajectories; over replicates too, where they are asked for."""
        if self.q == "auto":
            return tuned_estimate(self, request)
        if request.replicates is not None:
            return permuted_estimate(self, request)
        request, schedule = self.plan_replay(request)
        return doubly_robust_estimate(request, simulate(request, schedule), self.name)


@dataclass(frozen=True)
class WC:
    """DR-ns with the worst-case multiplier ``min mu``: unbiased simulation, few acceptances (Dudik et al. 2012, 4.1).

    Examples
    --------
    >>> WC().name
    'WC'
    """

    @property
    def name(self) -> str:
        """How results call it."""
        return "WC"

    def plan_replay(self, request: EvaluationRequest) -> tuple[EvaluationRequest, MultiplierSchedule]:
        """The question as it is, with a fixed multiplier."""
        return request, schedule_for(WorstCase(), request, 1.0, carry=False, warm_up=None)

    def estimate(self, request: EvaluationRequest) -> Estimate:
        """Estimate by ``R / C``, averaged over complete trajectories; over replicates too, where they are asked for."""
        if request.replicates is not None:
            return permuted_estimate(self, request)
        request, schedule = self.plan_replay(request)
        return doubly_robust_estimate(request, simulate(request, schedule), self.name)


def tuned_estimate(evaluator: DRns, request: EvaluationRequest) -> Estimate:
    """Try a grid of q on the same events and draws; SLOPE++ says how far bias can be told from noise.

    Standard error and interval are those of the smallest q that reached the horizon, stretched to hold the value,
    because the bias of the chosen one cannot be seen.
    """
    found: list[tuple[float, Estimate]] = []
    for q in GRID:
        try:
            found.append((q, replace(evaluator, q=q).estimate(request.within(f"q-{q:g}"))))
        except HorizonNotReached as failure:
            short = failure
        except StopEvaluation:
            if not found:
                raise
            break
    if not found:
        raise short
    values = np.array([estimate.value for _, estimate in found])
    best = slope_plus_plus(values, np.nan_to_num([REACH * estimate.std_error for _, estimate in found]))
    (smallest, careful), (q, chosen) = found[0], found[best]
    interval = careful.interval
    if interval is not None:
        interval = replace(interval, low=min(interval.low, chosen.value), high=max(interval.high, chosen.value))
    note = f"SLOPE++ chose q = {q:g}; standard error and interval are those of q = {smallest:g}."
    return replace(
        chosen,
        std_error=careful.std_error,
        interval=interval,
        evaluator=evaluator.name,
        notes=(note, *chosen.notes),
    )


def doubly_robust_estimate(request: EvaluationRequest, found: Simulation, name: str) -> Estimate:
    """The estimate from a run: mean of ``R / C`` over the complete trajectories."""
    values = found.values(lambda trajectory: trajectory.value)
    error, interval = run_interval(request, found, values)
    log = found.log
    return Estimate(
        value=float(values.mean()),
        std_error=error,
        interval=interval,
        diagnostics=diagnose(request, found),
        policy=request.policy_name,
        evaluator=name,
        curve=curve_of(found.curve, request.level),
        horizon=request.horizon,
        notes=(*found.notes, *run_notes(request, found, values)),
        settings={"seed": request.seed, "level": request.level},
        _progressive=None
        if log is None
        else lambda: progressive_policy(request.policy, log, found.complete, request.seed),
    )


MARGIN = 1.3


class _Unused1(Protocol):
    """An evaluator that goes through the log in order, steering its multiplier."""

    @property
    def name(self) -> str:
        """How results call it."""
        ...

    def plan_replay(self, request: EvaluationRequest) -> tuple[EvaluationRequest, MultiplierSchedule]:
        """The events to run on, and how the multiplier moves."""
        ...


@dataclass(frozen=True)
class Permuted:
    """Replicates of DR-ns: each runs on the events in an order of its own, several trajectories a run."""

    inner: _Unused1
    horizon: int

    @property
    def name(self) -> str:
        """How results call it."""
        return f"{self.inner.name} x permutations"

    def inputs(self, request: EvaluationRequest) -> ReplicateInputs:
        """The events with their predictions; permutations make sense only for a horizon."""
        if not request.in_memory:
            raise EvaluationError("replicates permute the log, so it must be in memory; read it with read_log")
        log, predicted = out_of_sample_predictions(request)
        return ReplicateInputs(log, predicted, self.horizon)

    def replicate(
        self, policy: Any, inputs: ReplicateInputs, rows: IntArray | None, seed: np.random.SeedSequence
    ) -> PassResult:
        """One run on these events in random order; the mean over its complete trajectories."""
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(inputs.log)) if rows is None else rng.permutation(rows)
        shuffled = inputs.log[order]
        request, schedule = self.inner.plan_replay(EvaluationRequest(shuffled, policy, horizon=inputs.horizon))
        log = request.log
        predicted = inputs.predicted
        if len(predicted) > 1:
            predicted = predicted[order[len(shuffled) - len(log) :]]
        run = Run(policy, schedule, log.reward_bounds, rng, horizon=inputs.horizon, length=len(log), keep_order=False)
        run.feed(log, predicted, rng.random(len(log)))
        return _outcome(run, inputs.horizon)

    def long_enough(self, outcomes: Sequence[PassResult]) -> bool:
        """Whether the subsets had events to spare."""
        return float(np.mean([outcome.rounds for outcome in outcomes])) >= MARGIN * self.horizon

    def failure(self, inputs: ReplicateInputs, reached: int) -> HorizonNotReached:
        """The error for a horizon that no trajectory reaches."""
        return HorizonNotReached(
            f"no trajectory of {inputs.horizon} rounds could be built from {len(inputs.log):,} events. "
            "Ask for a shorter horizon, accept more (a larger q, Budget), use ClockReplay, or give a longer log"
        )


def _outcome(run: Run, horizon: int) -> PassResult:
    trajectories = run.close()
    complete = [trajectory for trajectory in trajectories if trajectory.complete]
    accepted = sum(trajectory.accepted for trajectory in trajectories)
    if not complete:
        return PassResult(math.nan, np.zeros(0), accepted, math.inf)
    value = float(np.mean([trajectory.value for trajectory in complete]))
    certificate = float(np.mean([float(trajectory.sums["excess"]) for trajectory in complete]))
    return PassResult(value, _curve(run, horizon), accepted, certificate)


def _curve(run: Run, horizon: int) -> FloatArray:
    width = int(run.curve.width[0])
    sums = run.curve.sums[: -(-horizon // width), :2]
    edges = np.unique(np.linspace(0, len(sums), bin_edges(horizon).size).astype(np.int64))
    reward, weight = np.add.reduceat(sums, edges[:-1], axis=0).T
    return np.asarray(reward / weight)


def permuted_estimate(evaluator: _Unused1, request: EvaluationRequest) -> Estimate:
    """Value from permutations of the whole log, error from subsets of groups."""
    if request.horizon is None:
        raise OptionError(f"replicates of {evaluator.name} estimate V_T; give horizon=T")
    outer = Permuted(evaluator, request.horizon)
    found = replicated(outer, request)
    return found.estimate(outer, request, permuted_diagnostics(found, request))


def permuted_diagnostics(found: Replicated, request: EvaluationRequest) -> PermutedDiagnostics:
    """The facts of an answer from permutations."""
    return PermutedDiagnostics(
        events=len(request.log),
        rounds=found.horizon,
        permutations=len(found.outcomes),
        trajectories=float(np.mean([outcome.rounds // found.horizon for outcome in found.outcomes])),
        replicates=found.replicates,
        bias_certificate=float(np.mean([outcome.certificate for outcome in found.outcomes])),
        sampling_error=found.sampling_error,
        monte_carlo_error=found.monte_carlo_error,
        propensities_estimated=request.propensities_estimated,
    )
