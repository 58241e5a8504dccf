"""ClockReplay: an exact history of a learning policy from an exchangeable log, in which no event is discarded.

It answers the open problem of Dudik, Erhan, Langford, Li (UAI 2012, section 5): a policy that cycles through K actions
gets a history of about n rounds from a uniform log of n events, where rejection sampling gets n/K.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from backcast._arrays import FloatArray, IntArray
from backcast._engine.clock import NO_EDGES, ClockPass, run_clock_pass
from backcast._engine.filling import Fill
from backcast._engine.readings import FurtherReading, ReadColumns
from backcast._engine.replay_loop import EventArrays
from backcast._engine.thinning import run_thinned_pass
from backcast._parameters import Parametrized
from backcast._request import EvaluationRequest, SeedKey, seed_sequence
from backcast._validation import at_least, count
from backcast.diagnostics import ClockDiagnostics
from backcast.errors import HorizonNotReached
from backcast.estimate import Estimate, block_edges, block_means
from backcast.evaluators._disjoint_parts import PartResults, run_parts
from backcast.evaluators._fresh_rewards import FOLDS, FreshRewards, choose_fresh_rewards
from backcast.evaluators._pass_cost import SAFE_METER, is_thinned
from backcast.evaluators._pass_inputs import OnePass, PassInputs, repeat_for_readings
from backcast.evaluators._passes import (
    PassResult,
    between_event_variance,
    bin_edges,
    bin_values,
    fine_edges,
    separate_histories,
)
from backcast.evaluators._replicate_statistics import ReplicateTable
from backcast.evaluators._replicates import run_replicates
from backcast.evaluators._reward_predictions import out_of_sample_predictions
from backcast.intervals.learning import InfinitesimalJackknife
from backcast.io.stream import LogStream
from backcast.log import Log
from backcast.policies.base import batch_size_of, is_learning

READING_INTERVAL = 8  # most rounds that one reading of V_t serves; values changed by 1/60 of a standard error at most
MOST_ROUNDS_PER_EVENT = 1000  # of histories that are filled: longer ones rest on the model alone, and fill the memory
FEWEST_FILLED_EVENTS = 4 * FOLDS  # of a log whose reward model is fitted without two of its folds, also on half of it
LARGEST_UNUSED_EXHAUSTION = 0.02  # exhausted mass per round up to which V_t is read on unused events (theory.md, 4)
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
    fill
        Whether a round for which no unused event is left draws one of the used events again, with a fresh reward of a
        reward model; histories may then be longer than the log, up to 1,000 times. Without filling, the policy gets
        what is left, and a horizon that exhausts the log is refused.
    reading_interval
        Most rounds that one reading of V_t serves, of a policy that is scored action by action; 1 reads every round.
        The round that is read is drawn at random, so that the mean over rounds stays unbiased.

    Examples
    --------
    >>> ClockReplay().name
    'ClockReplay'
    """

    pool: int = 100_000
    tolerance: float = 0.05
    parts: int | None = None
    fill: bool = True
    reading_interval: int = READING_INTERVAL
    needs_exchangeable: ClassVar[bool] = True

    def __post_init__(self) -> None:
        count("pool", self.pool, 1)
        if self.parts is not None:
            count("parts", self.parts, 2)
        at_least("tolerance", self.tolerance, 0.0)
        count("reading_interval", self.reading_interval, 1)

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
                choose_pass=self._choose_pass,
                prepare=self.with_fresh_rewards,
                halve=halve_log if self.fill else None,
            )
        log, predicted = out_of_sample_predictions(request)
        horizon = request.horizon
        if horizon is None:
            horizon = self._supported_horizon(replace(request, policy=policies[0]), log, predicted)
        inputs = self.with_fresh_rewards(PassInputs(log, predicted, horizon), request.reward_model, request.seed)
        passes = [self._choose_pass(policy, inputs, request.seed) for policy in policies]
        return run_replicates(
            inputs,
            request,
            policies,
            one_pass=passes,
            halve=halve_log if self.fill else None,
            default_interval=InfinitesimalJackknife(),
            long_enough=subsets_are_long_enough,
            horizon_error=horizon_error,
            # thinned passes hold the interpreter lock
            threads=not any(self.is_thinned(policy, inputs) for policy in policies),
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
            value_spread=_value_spread(results),
            separate_histories=separate_histories([result.accepted for result in results], n_events),
            propensities_estimated=request.log.propensities_estimated,
            degrees_of_freedom=passes.precision(policy).degrees_of_freedom if passes.has_standard_errors else math.nan,
            filled_share=float(np.mean([result.filled.size / result.rounds for result in results])),
            effective_events=passes.effective_events(policy),
        )
        return passes.to_estimate(policy, request, self.name, diagnostics)

    def _supported_horizon(self, request: EvaluationRequest, log: Log, predicted: FloatArray) -> int:
        """Return half the rounds that one pass reaches within the tolerance, so that subsets reach them too."""
        rng = np.random.default_rng(seed_sequence(request.seed, SeedKey.HORIZON))
        clock_pass = _run_clock(request.policy, log, predicted, rng, len(log))
        within_tolerance = np.cumsum(clock_pass.exhausted) <= self.tolerance
        return max(1, int(within_tolerance.sum()) // 2)

    def may_exhaust(self, log: Log, horizon: int) -> bool:
        """Return whether meters may pass 1: they are at most the clock, about T/n, over the smallest propensity."""
        n_events = min(len(log), self.pool)
        return horizon > SAFE_METER * n_events * float(log.columns.propensities.min())

    def is_thinned(self, policy: Any, inputs: PassInputs) -> bool:
        """Return whether full passes score events when they are proposed, and not all of them after every update."""
        log, horizon = inputs.log, inputs.horizon
        if not self.fill or len(log) < FEWEST_FILLED_EVENTS:
            return False
        n_events = min(len(log), self.pool)
        return is_thinned(policy, log.columns.propensities, n_events, horizon, self.reading_interval)

    def _choose_pass(self, policy: Any, inputs: PassInputs, seed: int) -> Any:
        """Return the kind of pass: values are read on held-out events if a trial pass exhausts much of the log.

        The trial is not part of the value: to choose pass by pass would select among histories.
        """
        if inputs.fresh is None or self.is_thinned(policy, inputs):
            return self.run_pass
        trial = self.run_pass(policy, inputs, None, seed_sequence(seed, SeedKey.TRIAL))
        if trial.reached_horizon and trial.certificate <= LARGEST_UNUSED_EXHAUSTION * trial.rounds:
            return self.run_pass
        return partial(self.run_pass, reads_held_out=True)

    def run_pass(
        self,
        policy: Any,
        inputs: PassInputs,
        rows: IntArray | None,
        seed: np.random.SeedSequence,
        *,
        reads_held_out: bool = False,
        of_half: bool = False,
    ) -> PassResult:
        """Run one pass over these rows (None: the whole log, or a pool of it).

        What is known of single events is reported for full passes only. With ``reads_held_out`` the history is drawn
        from four fifths of the events, and the others can be read whatever is exhausted. A pass ``of_half`` of the
        log, or of a pool, is for the bias estimate; two passes with consecutive numbers have both halves.
        """
        is_subset, n_events = rows is not None, len(inputs.log)
        thins = not is_subset and self.is_thinned(policy, inputs)
        if thins and inputs.readings:
            return repeat_for_readings(partial(self.run_pass, of_half=of_half), policy, inputs, rows, seed)
        rng, number = np.random.default_rng(seed), int(seed.spawn_key[-1]) if seed.spawn_key else 0
        if of_half:
            rows = self._draw_half(n_events, seed, number)
        elif rows is None and n_events > self.pool:
            rows = np.sort(rng.choice(n_events, self.pool, replace=False))
        if rows is not None:
            inputs = inputs.of_rows(rows)
        reads_held_out = reads_held_out or thins or of_half
        if of_half and inputs.fresh is not None:
            inputs = inputs._replace(fresh=inputs.fresh.refit(inputs.log, number))
        log, predicted, horizon = inputs[:3]
        columns = inputs.read_columns()
        edges = bin_edges(horizon, len(log), batch_size_of(policy) if is_learning(policy) else horizon)
        fill = None
        if self.fill and horizon <= MOST_ROUNDS_PER_EVENT * len(log):
            fill = self.make_fill(inputs, seed, reads_held_out=reads_held_out)
        reports_events = not is_subset and not of_half
        recorded = edges if reports_events else NO_EDGES
        interval = self.reading_interval
        if thins and fill is not None:
            events = EventArrays.from_log(log, predicted, rng.random(len(log)))
            clock_pass = run_thinned_pass(policy, log, events, horizon, rng, recorded, interval, fill)
        else:
            clock_pass = _run_clock(policy, log, predicted, rng, horizon, recorded, fill, interval, columns)
        n_rounds = clock_pass.n_rounds
        if n_rounds < horizon:
            short = PassResult(np.nan, np.zeros(0), n_rounds, np.inf)
            return short._replace(further=(short,) * len(inputs.readings))
        history = PassResult(
            np.nan,
            np.zeros(0),
            horizon,
            float(clock_pass.exhausted.sum()),
            filled=np.flatnonzero(clock_pass.filled),
            reads_held_out=reads_held_out,
        )
        if reports_events:
            history = history._replace(
                rows=NO_EDGES if rows is None else rows,
                accepted=clock_pass.order if rows is None else rows[clock_pass.order],
                edges=edges,
                compensator=clock_pass.compensator,
            )
        # the readings share the arrays of the history, which are most of the memory
        further = tuple(_read(history, each, reports_events) for each in clock_pass.further)
        result = _read(history, clock_pass, reports_events)._replace(further=further)
        return result._replace(readings=clock_pass.readings) if reports_events else result

    def make_fill(self, inputs: PassInputs, seed: np.random.SeedSequence, *, reads_held_out: bool = False) -> Fill:
        """Return what fills the rounds of a pass; its random numbers are separate, so that others stay the same.

        Passes hold out one fold after another, by their number, with which the key of a seed ends. All events are then
        read equally often.
        """
        key = (*seed.spawn_key, SeedKey.FILL)
        rng = np.random.default_rng(np.random.SeedSequence(seed.entropy, spawn_key=key))
        log, fresh, held_out = inputs.log, inputs.fresh, None
        if fresh is None:
            fresh = FreshRewards.from_predictions(log, inputs.predicted, np.random.default_rng(SeedKey.FILL))
        means = fresh.own_means()
        if reads_held_out:
            held_out, means = fresh.hold_out(int(seed.spawn_key[-1]) if seed.spawn_key else 0)
        return Fill.from_log(log, means, inputs.horizon, rng, held_out)

    def with_fresh_rewards(self, inputs: PassInputs, reward_model: Any, seed: int) -> PassInputs:
        """Return the inputs with fresh rewards for rounds that are filled, if there may be any."""
        log = inputs.log
        if not self.fill or not self.may_exhaust(log, inputs.horizon) or len(log) < FEWEST_FILLED_EVENTS:
            return inputs
        rng = np.random.default_rng(seed_sequence(seed, SeedKey.FILL))
        return inputs._replace(fresh=choose_fresh_rewards(reward_model, log, rng))

    def _draw_half(self, n_events: int, seed: np.random.SeedSequence, number: int) -> IntArray:
        """Return one half of the events, or of a pool of them; the next number, if this one is even, has the other."""
        key = (*seed.spawn_key[:-1], SeedKey.HALVES, number // 2)
        order = np.random.default_rng(np.random.SeedSequence(seed.entropy, spawn_key=key)).permutation(n_events)
        return np.sort(order[: self.pool][number % 2 :: 2])


def halve_log(one_pass: Callable[..., PassResult]) -> OnePass:
    """Return the pass over a half of the log, for the bias estimate."""
    return partial(one_pass, of_half=True)


def _read(history: PassResult, read: ClockPass | FurtherReading, reports_events: bool) -> PassResult:
    """Return the result of a pass with the value of what was read, and what is known of events if it is reported."""
    value, horizon, blocks = read.value, history.rounds, block_edges(history.rounds)
    result = history._replace(value=float(value.mean()), curve=block_means(value, blocks))
    if not reports_events:
        return result
    return result._replace(
        event_values=read.event_values,
        curve_variance=block_means(read.variance, blocks),
        reading=read.reading,
        own=read.own,
        bins=bin_values(value, history.edges),
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
    fill: Fill | None = None,
    reading_interval: int = READING_INTERVAL,
    columns: ReadColumns | None = None,
) -> ClockPass:
    events = EventArrays.from_log(log, predicted, rng.random(len(log)))
    return run_clock_pass(policy, log, events, horizon, rng, edges, reading_interval, fill, columns)


def _value_spread(results: Sequence[PassResult]) -> float:
    """Return the standard deviation of event values averaged over histories, from events that passes have in common."""
    thins = bool(np.isnan(results[0].event_values).any())  # of events that were not read
    if not (results[0].rows.size or thins):
        return math.sqrt(between_event_variance([result.event_values for result in results]))
    variances = []
    for first, second in zip(results, results[FOLDS if thins else 1 :], strict=False):  # of the same held-out fold
        (rows, values), (other_rows, other_values) = _read_events(first), _read_events(second)
        _, i, j = np.intersect1d(rows, other_rows, assume_unique=True, return_indices=True)
        if i.size > 1:
            variances.append(np.cov(values[i], other_values[j])[0, 1])
    return math.sqrt(max(float(np.mean(variances)), 0.0)) if variances else 0.0


def _read_events(result: PassResult) -> tuple[IntArray, FloatArray]:
    """Return the events of a pass that were read, and their values."""
    was_read = np.flatnonzero(np.isfinite(result.event_values))
    return (result.rows[was_read] if result.rows.size else was_read), result.event_values[was_read]


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
        f"{len(inputs.log):,} events could be accepted. Ask for a horizon of at most {reached}, give a longer log, or "
        "let a reward model fill the other rounds (ClockReplay(fill=True), the default)"
    )
