"""DRns and WC: doubly robust estimation with rejection sampling at an adaptive rate, for policies that learn.

Dudik, Erhan, Langford, Li, "Sample-efficient Nonstationary Policy Evaluation for Contextual Bandits", UAI 2012.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from backcast._arrays import FloatArray, IntArray
from backcast._engine.replay import MultiplierSchedule
from backcast._engine.replay_loop import CurveSums, TraceArrays
from backcast._parameters import Parametrized
from backcast._request import EvaluationRequest
from backcast._validation import at_least, count, share
from backcast.diagnostics import PermutedDiagnostics
from backcast.errors import EvaluationError, HorizonNotReached, OptionError, StopEvaluation
from backcast.estimate import Estimate, block_edges
from backcast.evaluators._acceptance_bias import estimate_acceptance_bias
from backcast.evaluators._pass_inputs import PassInputs, repeat_for_readings
from backcast.evaluators._passes import PassResult, bin_edges
from backcast.evaluators._permutation_records import curve_variance, record_influences
from backcast.evaluators._replay import doubly_robust_estimate, replay, replay_request
from backcast.evaluators._replicate_statistics import ReplicateTable
from backcast.evaluators._replicates import run_replicates
from backcast.evaluators._reward_predictions import out_of_sample_predictions
from backcast.evaluators._weight_transforms import slope_plus_plus
from backcast.evaluators.acceptance import AcceptanceRule, Budget, Quantile, WorstCase, schedule_for
from backcast.intervals.learning import InfinitesimalJackknife
from backcast.io.stream import LogStream
from backcast.policies.base import batch_size_of, is_learning

Q_GRID = (0.0, 0.01, 0.05, 0.1)
Z_95 = 1.96
LARGEST_WARM_UP = 500
SMALL_Q, SMALL_Q_EVENTS = 0.01, 10_000  # the recommended q, up to so many events
SPARE_ROUNDS = 1.3  # rounds of a subset, in horizons, from which on it is long enough


class _ReplayEvaluator(Parametrized):
    """What DRns and WC share: one replay in log order, or replays of permutations of an exchangeable log."""

    name: Any

    def plan_replay(self, request: EvaluationRequest) -> tuple[EvaluationRequest, MultiplierSchedule]:
        """Return the request without the events set aside, and how the multiplier changes."""
        raise NotImplementedError

    def estimate(self, request: EvaluationRequest) -> Estimate:
        """Estimate by ``R / C``, averaged over complete trajectories, and over permutations if replicates are given."""
        return self.estimate_value(request, with_bias=True)

    def estimate_value(self, request: EvaluationRequest, *, with_bias: bool) -> Estimate:
        """Estimate by the rule in force; the bias of a pass in log order takes further passes."""
        table = self.run_jointly(request, [request.policy])
        if table is not None:
            return self.estimate_of(0, table, request)
        estimated = request.log.propensities_estimated
        request, schedule = self.plan_replay(request)
        result = replay_request(request, schedule)
        bias = estimate_acceptance_bias(request, schedule, result) if with_bias else None
        return doubly_robust_estimate(request, result, self.name, estimated=estimated, bias=bias)

    def run_jointly(self, request: EvaluationRequest, policies: Sequence[Any]) -> ReplicateTable | None:
        """Replay permutations for all policies on common events and randomness; None if no replicates are requested."""
        if request.replicates is None:
            return None
        if request.horizon is None:
            raise OptionError(f"replicates of {self.name} estimate V_T; give horizon=T")
        if isinstance(request.log, LogStream):
            raise EvaluationError("replicates permute the log, so it must be in memory; read it with read_log")
        inputs = PassInputs(*out_of_sample_predictions(request), request.horizon)
        enough_rounds = SPARE_ROUNDS * request.horizon
        return run_replicates(
            inputs,
            request,
            policies,
            one_pass=partial(repeat_for_readings, self._replay_permutation),
            default_interval=InfinitesimalJackknife(),
            long_enough=lambda passes: float(np.mean([result.rounds for result in passes])) >= enough_rounds,
            horizon_error=_horizon_error,
        )

    def estimate_of(self, policy: int, table: ReplicateTable, request: EvaluationRequest) -> Estimate:
        """Return the estimate of one of the policies that were run jointly."""
        results = table.passes_of(policy)
        sampling_error, monte_carlo_error = table.errors(policy)
        diagnostics = PermutedDiagnostics(
            events=request.log.n_events or 0,
            rounds=table.horizon,
            permutations=len(results),
            trajectories=float(np.mean([result.rounds // table.horizon for result in results])),
            replicates=len(table.member),
            bias_certificate=float(np.mean([result.certificate for result in results])),
            sampling_error=sampling_error,
            monte_carlo_error=monte_carlo_error,
            propensities_estimated=request.log.propensities_estimated,
            effective_events=table.effective_events(policy),
        )
        return table.to_estimate(policy, request, f"{self.name} x permutations", diagnostics)

    def _replay_permutation(
        self, policy: Any, inputs: PassInputs, rows: IntArray | None, seed: np.random.SeedSequence
    ) -> PassResult:
        """Replay these rows (None: all) in random order; the mean over the complete trajectories.

        Given the events, this mean has the expectation of the first trajectory (see ``ReplayResult.complete``). A pass
        without a complete trajectory has no value, and ``run_replicates`` never leaves it out of a mean.
        """
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(inputs.log)) if rows is None else rng.permutation(rows)
        shuffled = inputs.log[order]
        request, schedule = self.plan_replay(EvaluationRequest(shuffled, policy, horizon=inputs.horizon))
        log: Any = request.log
        predicted = inputs.predicted
        if len(predicted) > 1:
            predicted = predicted[order[len(shuffled) - len(log) :]]
        draws, horizon = rng.random(len(log)), inputs.horizon
        trace = TraceArrays.of_length(len(log) if rows is None else 0)
        result = replay(
            log, policy, schedule, predictions=predicted, draws=draws, horizon=horizon, rng=rng, trace=trace
        )
        accepted = sum(trajectory.accepted for trajectory in result.trajectories)
        if not result.complete:
            return PassResult(math.nan, np.zeros(0), accepted, math.inf)
        value = float(result.values(lambda trajectory: trajectory.value).mean())
        certificate = float(result.values(lambda trajectory: float(trajectory.sums["excess"])).mean())
        sums, edges = _curve_sums(result.curve, horizon)
        reward, weight = np.add.reduceat(sums[:, :2], edges[:-1], axis=0).T
        found = PassResult(value, reward / weight, accepted, certificate)
        if rows is not None:
            return found
        n_events = len(inputs.log)
        found = found._replace(curve_variance=curve_variance(sums, edges, n_events))
        bins = bin_edges(horizon, n_events, batch_size_of(policy) if is_learning(policy) else horizon)
        centre = float(inputs.log.columns.rewards.mean())
        return record_influences(found, trace, order[-len(log) :], horizon, bins, n_events, centre)


@dataclass(frozen=True)
class DRns(_ReplayEvaluator):
    """Algorithm 1 of the founding paper; ``DRns(q=...)`` without other options is exactly that algorithm.

    Parameters
    ----------
    q
        Quantile of the observed ratios ``p/pi`` that bounds the multiplier: 0 is nearly unbiased, more accepts more.
        "auto" tries 0, .01, .05 and .1 and takes the largest that agrees with all smaller ones (SLOPE++).
    c_max
        Largest multiplier; above 1 there is always bias.
    acceptance
        A rule instead of ``q``: ``Quantile(q)``, ``WorstCase()``, ``Budget(eta)``, or a fixed multiplier.
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
        """Return the preset for a log of so many events: ratios warmed up on a twentieth of it, and carried.

        q is 0.01 up to 10,000 events and falls with the root of their number beyond, as the standard error does.

        If the bias must be bounded in advance, and not only measured, use ``DRns(acceptance=Budget(eta))``.

        >>> DRns.recommended(4000)
        DRns(q=0.01, c_max=1.0, acceptance=None, warm_up=200, carry=True)
        """
        return cls(q=small_quantile(events), warm_up=min(LARGEST_WARM_UP, events // 20), carry=True)

    @property
    def rule(self) -> AcceptanceRule:
        """The acceptance rule in force."""
        if self.acceptance is not None:
            return self.acceptance
        return Quantile(self.q if isinstance(self.q, int | float) else 0.01)

    @property
    def name(self) -> str:
        """Name in results."""
        rule = f"q={self.rule.q:g}" if isinstance(self.rule, Quantile) else f"{self.rule}"
        rule = "q='auto'" if self.q == "auto" else rule
        others = [f"c_max={self.c_max:g}"] * (self.c_max != 1) + [f"warm_up={self.warm_up}"] * (self.warm_up > 0)
        return f"DRns({', '.join([rule, *others, *['carry=True'] * self.carry])})"

    def plan_replay(self, request: EvaluationRequest) -> tuple[EvaluationRequest, MultiplierSchedule]:
        """Return the request without the events set aside, and how the multiplier changes."""
        n_head = self.rule.calibration if isinstance(self.rule, Budget) else self.warm_up
        head = None
        if n_head:
            head, remainder = request.log.split_head(n_head)
            if remainder is None:
                raise EvaluationError(
                    f"{n_head} events are needed for warm-up or calibration; the log has only {len(head)}"
                )
            request = replace(request, log=remainder)
        return request, schedule_for(self.rule, request, self.c_max, carry=self.carry, head=head)

    def estimate(self, request: EvaluationRequest) -> Estimate:
        """Estimate by ``R / C``, averaged over complete trajectories, and over permutations if replicates are given."""
        return _select_q(self, request) if self.q == "auto" else super().estimate(request)


@dataclass(frozen=True)
class WC(_ReplayEvaluator):
    """DR-ns with the worst-case multiplier ``min mu``: unbiased simulation, few acceptances (Dudik et al. 2012, 4.1).

    Examples
    --------
    >>> WC().name
    'WC'
    """

    @property
    def name(self) -> str:
        """Name in results."""
        return "WC"

    def plan_replay(self, request: EvaluationRequest) -> tuple[EvaluationRequest, MultiplierSchedule]:
        """Return the request, and a fixed multiplier."""
        return request, schedule_for(WorstCase(), request, 1.0, carry=False, head=None)


def small_quantile(events: int) -> float:
    """Return the q whose bias falls as fast as the standard error of longer logs; a fixed one would keep its bias.

    >>> small_quantile(2_000), small_quantile(1_000_000)
    (0.01, 0.001)
    """
    return float(f"{SMALL_Q / math.sqrt(max(1.0, events / SMALL_Q_EVENTS)):.2g}")


def _select_q(evaluator: DRns, request: EvaluationRequest) -> Estimate:
    """Try a grid of q on the same events and draws, and choose by SLOPE++.

    Standard error and interval are those of the smallest q that reached the horizon, extended to contain the value,
    because it is chosen by the same events. There is no bias estimate: SLOPE++ compares levels of acceptance itself.
    """
    estimates: dict[float, Estimate] = {}
    error: HorizonNotReached | None = None
    for q in Q_GRID:
        try:
            estimates[q] = replace(evaluator, q=q).estimate_value(request.scoped(f"q-{q:g}"), with_bias=False)
        except HorizonNotReached as too_short:
            error = too_short
        except StopEvaluation:
            if not estimates:
                raise
            break
    if not estimates:
        assert error is not None
        raise error
    values = np.array([estimate.value for estimate in estimates.values()])
    half_widths = np.nan_to_num([Z_95 * estimate.std_error for estimate in estimates.values()])
    smallest, q = next(iter(estimates)), list(estimates)[slope_plus_plus(values, half_widths)]
    chosen, interval = estimates[q], estimates[smallest].interval
    if interval is not None:
        interval = replace(interval, low=min(interval.low, chosen.value), high=max(interval.high, chosen.value))
    note = f"SLOPE++ chose q = {q:g}; standard error and interval are those of q = {smallest:g}."
    return replace(
        chosen,
        std_error=estimates[smallest].std_error,
        interval=interval,
        evaluator=evaluator.name,
        notes=(note, *chosen.notes),
    )


def _horizon_error(inputs: PassInputs, reached: int) -> HorizonNotReached:
    return HorizonNotReached(
        f"no trajectory of {inputs.horizon} rounds could be built from {len(inputs.log):,} events. "
        "Ask for a shorter horizon, accept more (a larger q, Budget), use ClockReplay, or give a longer log"
    )


def _curve_sums(curve: CurveSums, horizon: int) -> tuple[FloatArray, IntArray]:
    """Return the sums of the bins up to the horizon, and the edges of blocks of them."""
    sums = curve.sums[: -(-horizon // int(curve.width[0]))]
    return sums, np.unique(np.linspace(0, len(sums), block_edges(horizon).size).astype(np.int64))
