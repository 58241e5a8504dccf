"""Clock replay: an exact history from an exchangeable log, none of whose events is thrown away.

It answers the open problem of Dudik, Erhan, Langford, Li (UAI 2012, section 5): a policy that cycles through K actions
gets a history of length near n from a uniform log of n events, where rejection sampling gets n/K.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from backcast._arrays import BoolArray, FloatArray, IntArray
from backcast._engine.clock import ClockPass, clock_pass
from backcast._engine.replay_loop import event_arrays
from backcast._request import EvaluationRequest
from backcast._validation import at_least, count
from backcast.diagnostics import ClockDiagnostics
from backcast.errors import HorizonNotReached
from backcast.estimate import Estimate
from backcast.evaluators._disjoint_parts import estimate_on_parts
from backcast.evaluators._replicate_statistics import (
    NO_EVENTS,
    NO_VALUES,
    PassResult,
    Replicated,
    between_event_variance,
    binned,
    separate_histories,
)
from backcast.evaluators._replicates import ReplicateInputs, replicated
from backcast.evaluators._reward_predictions import out_of_sample_predictions
from backcast.log import Log

EXHAUSTED_SHARE = 0.02


@dataclass(frozen=True)
class ClockTrace:
    """One pass of clock replay.

    Attributes
    ----------
    accepted
        Whether each event joined the history.
    order
        Accepted events in order, as positions in the log.
    curve
        The value V_t by round.
    exhausted
        The exhausted mass by round; its sum bounds the total variation to a true history.
    """

    accepted: BoolArray
    order: IntArray
    curve: FloatArray
    exhausted: FloatArray

    @property
    def estimate(self) -> float:
        """Mean of the curve."""
        return float(self.curve.mean())


@dataclass(frozen=True)
class ClockReplay:
    """Simulate the policy exactly, keeping rejected events in play; needs an exchangeable log.

    Parameters
    ----------
    pool
        Events of a longer log that take part in one pass, drawn afresh for each. A stream is cut into parts of at most
        so many events, at least ten of them, and each part is evaluated by itself.
    parts
        How many of a stream's parts to use, evenly spread; all of them where None.
    tolerance
        Largest exhaustion certificate (summed over rounds) of a horizon that is chosen for you.

    Examples
    --------
    >>> ClockReplay().name
    'ClockReplay'
    """

    pool: int = 100_000
    tolerance: float = 0.05
    parts: int | None = None

    def __post_init__(self) -> None:
        count("pool", self.pool, 1)
        if self.parts is not None:
            count("parts", self.parts, 2)
        at_least("tolerance", self.tolerance, 0.0)

    @property
    def name(self) -> str:
        """How results call it."""
        return "ClockReplay"

    def inputs(self, request: EvaluationRequest) -> ReplicateInputs:
        """The events with their predictions; a horizon that the log supports with ease where none is given."""
        log, predicted = out_of_sample_predictions(request)
        horizon = request.horizon
        if horizon is None:
            horizon = self._supported(request, log, predicted)
        return ReplicateInputs(log, predicted, horizon)

    def _supported(self, request: EvaluationRequest, log: Log, predicted: FloatArray) -> int:
        """Half of what one pass reaches within the tolerance, so that other passes and subsets reach it too."""
        rng = np.random.default_rng(np.random.SeedSequence(request.seed, spawn_key=(9,)))
        one = self._pass(request.policy, log, predicted, rng, len(log))
        within = np.cumsum(one.exhausted) <= self.tolerance
        return max(1, int(within.sum()) // 2)

    def replicate(
        self, policy: object, inputs: ReplicateInputs, rows: IntArray | None, seed: np.random.SeedSequence
    ) -> PassResult:
        """One pass over these events (all of them, or a pool), with thresholds of its own."""
        rng, whole = np.random.default_rng(seed), rows is None
        if whole and len(inputs.log) > self.pool:
            rows = np.sort(rng.choice(len(inputs.log), self.pool, replace=False))
        log = inputs.log if rows is None else inputs.log[rows]
        predicted = inputs.predicted
        predicted = predicted if rows is None or len(predicted) == 1 else predicted[rows]
        one = self._pass(policy, log, predicted, rng, inputs.horizon)
        if one.rounds < inputs.horizon:
            return PassResult(np.nan, np.zeros(0), one.rounds, np.inf)
        values = one.event_values if rows is None else NO_VALUES
        accepted = NO_EVENTS if not whole else one.order if rows is None else rows[one.order]
        certificate = float(one.exhausted.sum())
        return PassResult(float(one.value.mean()), binned(one.value), one.rounds, certificate, values, accepted)

    def _pass(
        self, policy: object, log: Log, predicted: FloatArray, rng: np.random.Generator, horizon: int
    ) -> ClockPass:
        return clock_pass(policy, log, event_arrays(log, predicted, rng.random(len(log))), horizon, rng)

    def failure(self, inputs: ReplicateInputs, reached: int) -> HorizonNotReached:
        """The error for a horizon that exhausts the log."""
        return HorizonNotReached(
            f"the horizon of {inputs.horizon} rounds exhausts the log: after {reached} rounds none of its "
            f"{len(inputs.log):,} events could be accepted. Ask for a shorter horizon or give a longer log"
        )

    def long_enough(self, outcomes: Sequence[PassResult]) -> bool:
        """Whether subsets of this size keep nearly all of what the policy would choose.

        Subsets give the error, not the value. Up to a fiftieth of exhausted mass a round their error is that of the
        log; at an eighth it came out at two thirds of it, at a quarter at half.
        """
        exhausted, rounds = np.sum([(outcome.certificate, outcome.rounds) for outcome in outcomes], axis=0)
        return bool(exhausted <= EXHAUSTED_SHARE * rounds)

    def estimate(self, request: EvaluationRequest) -> Estimate:
        """Value from passes over the whole log, error from subsets of groups; of a stream both from its parts."""
        if not request.in_memory:
            return estimate_on_parts(self, request, [request.policy]).estimate(0, self.name, request)
        found = replicated(self, request)
        return found.estimate(self, request, clock_diagnostics(found, request))

    def trace(
        self,
        log: Log,
        policy: object,
        predicted: FloatArray,
        uniforms: FloatArray,
        horizon: int | None,
        rng: np.random.Generator,
    ) -> ClockTrace:
        """One pass with the given thresholds, to the horizon or until no event can fire."""
        one = clock_pass(policy, log, event_arrays(log, predicted, uniforms), horizon or len(log), rng)
        if horizon is not None and one.rounds < horizon:
            raise self.failure(ReplicateInputs(log, predicted, horizon), one.rounds)
        accepted = np.zeros(len(log), dtype=np.bool_)
        accepted[one.order] = True
        return ClockTrace(accepted, one.order, one.value, one.exhausted)


def clock_diagnostics(found: Replicated, request: EvaluationRequest) -> ClockDiagnostics:
    """The facts of an answer by clock replay."""
    return ClockDiagnostics(
        events=len(request.log),
        rounds=found.horizon,
        passes=len(found.outcomes),
        replicates=found.replicates,
        bias_certificate=float(np.mean([outcome.certificate for outcome in found.outcomes])),
        sampling_error=found.sampling_error,
        monte_carlo_error=found.monte_carlo_error,
        value_spread=math.sqrt(between_event_variance([outcome.event_values for outcome in found.outcomes])),
        separate_histories=separate_histories([outcome.accepted for outcome in found.outcomes], len(request.log)),
        propensities_estimated=request.propensities_estimated,
    )
