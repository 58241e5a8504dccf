"""ClockReplay: an exact history of a learning policy from an exchangeable log, in which no event is discarded.

It answers the open problem of Dudik, Erhan, Langford, Li (UAI 2012, section 5): a policy that cycles through K actions
gets a history of about n rounds from a uniform log of n events, where rejection sampling gets n/K.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from backcast._arrays import FloatArray, IntArray
from backcast._engine.clock import NO_EDGES, ClockPass, run_clock_pass
from backcast._engine.replay_loop import EventArrays
from backcast._parameters import Parametrized
from backcast._request import EvaluationRequest, SeedKey, seed_sequence
from backcast._validation import at_least, count
from backcast.diagnostics import ClockDiagnostics
from backcast.errors import HorizonNotReached
from backcast.estimate import Estimate, block_edges, block_means
from backcast.evaluators._disjoint_parts import PartResults, run_parts
from backcast.evaluators._passes import (
    PassResult,
    between_event_variance,
    bin_edges,
    bin_values,
    fine_edges,
    separate_histories,
)
from backcast.evaluators._replicate_statistics import ReplicateTable
from backcast.evaluators._replicates import PassInputs, run_replicates
from backcast.evaluators._reward_predictions import out_of_sample_predictions
from backcast.intervals.learning import InfinitesimalJackknife
from backcast.io.stream import LogStream
from backcast.log import Log
from backcast.policies.base import batch_size_of, is_learning

READING_INTERVAL = 8  # most rounds that one reading of V_t serves; values changed by 1/60 of a standard error at most
LARGEST_SUBSET_EXHAUSTION = 0.02  # exhausted mass per round up to which subsets have the error of the log


@dataclass(frozen=True)
class ClockReplay(Parametrized):
    """Simulate the policy exactly and keep rejected events in use; needs an exchangeable log.

    Parameters
    ----------
    pool
        Events of a longer log that are used in one pass, drawn again for each. A stream is cut into parts of at most
        this many events, at least ten of them, and each part is evaluated separately.
    parts
        How many of a stream's parts to use, evenly spread; None for all.
    tolerance
        Largest exhaustion certificate (summed over rounds) of a horizon that is chosen automatically.

    Examples
    --------
    >>> ClockReplay().name
    'ClockReplay'
    """

    pool: int = 100_000
    tolerance: float = 0.05
    parts: int | None = None
    needs_exchangeable: ClassVar[bool] = True

    def __post_init__(self) -> None:
        count("pool", self.pool, 1)
        if self.parts is not None:
            count("parts", self.parts, 2)
        at_least("tolerance", self.tolerance, 0.0)

    @property
    def name(self) -> str:
        """Name in results."""
        return "ClockReplay"

    def estimate(self, request: EvaluationRequest) -> Estimate:
        """Estimate V_T from passes over the log, and its error from subsets of groups (of a stream: from its parts)."""
        return self.estimate_of(0, self.run_jointly(request, [request.policy]), request)

    def run_jointly(self, request: EvaluationRequest, policies: Sequence[Any]) -> ReplicateTable | PartResults:
        """Run the passes of all policies on common events and common randomness."""
        if isinstance(request.log, LogStream):
            return run_parts(
                request,
                policies,
                one_pass=self.run_pass,
                choose_horizon=self._supported_horizon,
                pool=self.pool,
                n_parts=self.parts,
            )
        log, predicted = out_of_sample_predictions(request)
        horizon = request.horizon
        if horizon is None:
            horizon = self._supported_horizon(replace(request, policy=policies[0]), log, predicted)
        return run_replicates(
            PassInputs(log, predicted, horizon),
            request,
            policies,
            one_pass=self.run_pass,
            default_interval=InfinitesimalJackknife(),
            long_enough=subsets_are_long_enough,
            horizon_error=horizon_error,
        )

    def estimate_of(self, policy: int, passes: ReplicateTable | PartResults, request: EvaluationRequest) -> Estimate:
        """Return the estimate of one of the policies that were run jointly."""
        if isinstance(passes, PartResults):
            return passes.to_estimate(policy, request, self.name)
        results = passes.passes_of(policy)
        sampling_error, monte_carlo_error = passes.errors(policy)
        n_events = request.log.n_events or 0
        diagnostics = ClockDiagnostics(
            events=n_events,
            rounds=passes.horizon,
            passes=len(results),
            replicates=len(passes.member),
            bias_certificate=float(np.mean([result.certificate for result in results])),
            sampling_error=sampling_error,
            monte_carlo_error=monte_carlo_error,
            value_spread=math.sqrt(
                between_event_variance([result.event_values for result in results if not result.rows.size])
            ),
            separate_histories=separate_histories([result.accepted for result in results], n_events),
            propensities_estimated=request.log.propensities_estimated,
            degrees_of_freedom=passes.precision(policy).degrees_of_freedom if passes.has_standard_errors else math.nan,
        )
        return passes.to_estimate(policy, request, self.name, diagnostics)

    def _supported_horizon(self, request: EvaluationRequest, log: Log, predicted: FloatArray) -> int:
        """Return half the rounds that one pass reaches within the tolerance, so that subsets reach them too."""
        rng = np.random.default_rng(seed_sequence(request.seed, SeedKey.HORIZON))
        clock_pass = _run_clock(request.policy, log, predicted, rng, len(log))
        within_tolerance = np.cumsum(clock_pass.exhausted) <= self.tolerance
        return max(1, int(within_tolerance.sum()) // 2)

    def run_pass(
        self, policy: Any, inputs: PassInputs, rows: IntArray | None, seed: np.random.SeedSequence
    ) -> PassResult:
        """Run one pass over these rows (None: the whole log, or a pool of it).

        What is known of single events is reported for full passes only.
        """
        log, predicted, horizon = inputs
        rng = np.random.default_rng(seed)
        is_subset = rows is not None
        if rows is None and len(log) > self.pool:
            rows = np.sort(rng.choice(len(log), self.pool, replace=False))
        if rows is not None:
            log, predicted = log[rows], predicted if len(predicted) == 1 else predicted[rows]
        edges = bin_edges(horizon, len(log), batch_size_of(policy) if is_learning(policy) else horizon)
        clock_pass = _run_clock(policy, log, predicted, rng, horizon, NO_EDGES if is_subset else edges)
        value = clock_pass.value
        if value.size < horizon:
            return PassResult(np.nan, np.zeros(0), value.size, np.inf)
        blocks = block_edges(horizon)
        result = PassResult(float(value.mean()), block_means(value, blocks), horizon, float(clock_pass.exhausted.sum()))
        if is_subset:
            return result
        return result._replace(
            rows=NO_EDGES if rows is None else rows,
            event_values=clock_pass.event_values,
            accepted=clock_pass.order if rows is None else rows[clock_pass.order],
            curve_variance=block_means(clock_pass.variance, blocks),
            reading=clock_pass.reading,
            own=clock_pass.own,
            edges=edges,
            compensator=clock_pass.compensator,
            bins=bin_values(value, edges),
            readings=clock_pass.readings,
            fine_curve=block_means(value, fine_edges(horizon)),
            end_value=float(value[-1]),
        )


def _run_clock(
    policy: Any,
    log: Log,
    predicted: FloatArray,
    rng: np.random.Generator,
    horizon: int,
    edges: IntArray = NO_EDGES,
) -> ClockPass:
    events = EventArrays.from_log(log, predicted, rng.random(len(log)))
    return run_clock_pass(policy, log, events, horizon, rng, edges, READING_INTERVAL)


def subsets_are_long_enough(passes: Sequence[PassResult]) -> bool:
    """Return whether subsets of this size keep nearly all of what the policy would choose.

    Subsets give the error, not the value. Up to a fiftieth of exhausted mass per round their error is that of the log;
    at an eighth it was measured as two thirds of it, at a quarter as half.
    """
    exhausted, rounds = np.sum([(result.certificate, result.rounds) for result in passes], axis=0)
    return bool(exhausted <= LARGEST_SUBSET_EXHAUSTION * rounds)


def horizon_error(inputs: PassInputs, reached: int) -> HorizonNotReached:
    """Return the error for a horizon that exhausts the log."""
    return HorizonNotReached(
        f"the horizon of {inputs.horizon} rounds exhausts the log: after {reached} rounds none of its "
        f"{len(inputs.log):,} events could be accepted. Ask for a horizon of at most {reached} or give a longer log"
    )
