"""PassEvaluator, the base of evaluators that simulate a policy in passes over a log, and PolicyRun, its simulation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from backcast._arrays import FloatArray, IntArray
from backcast._parameters import Parametrized
from backcast._request import EvaluationRequest
from backcast.diagnostics import PassDiagnostics
from backcast.errors import HorizonNotReached, OptionError
from backcast.estimate import Estimate
from backcast.evaluators._disjoint_parts import PartResults, run_parts
from backcast.evaluators._pass_inputs import PassInputs, repeat_for_readings
from backcast.evaluators._passes import PassResult
from backcast.evaluators._replicate_statistics import ReplicateTable
from backcast.evaluators._replicates import run_replicates
from backcast.evaluators._reward_predictions import out_of_sample_predictions
from backcast.intervals.learning import GroupJackknife
from backcast.io.stream import LogStream
from backcast.log import Log
from backcast.policies._calls import probabilities_of, start_copy, update_on_events
from backcast.policies.base import batch_size_of, is_learning

PART_EVENTS = 100_000  # most events in a part of a stream, which is held in memory


class PassEvaluator(Parametrized):
    """Base of evaluators that simulate the policy in passes over an exchangeable log; a subclass runs one pass.

    From :meth:`run_pass` follow the value (mean of passes over the whole log), its standard error (group jackknife:
    passes over subsets of groups of events), the learning curve, comparisons in which policies share events and random
    numbers, parallel jobs, checkpoints, and on a stream one evaluation per part. The estimand is V_T, so a horizon must
    be given.

    Attributes
    ----------
    uses_model
        Whether passes use predicted rewards; if not, no reward model is fitted.

    Examples
    --------
    A pass that draws the next event at random, and knows nothing of propensities:

    >>> from backcast.evaluation import evaluate
    >>> from backcast.policies.fixed import Uniform
    >>> class MeanReward(PassEvaluator):
    ...     def run_pass(self, policy, inputs, rows, seed):
    ...         events = inputs.log if rows is None else inputs.log[rows]
    ...         order = np.random.default_rng(seed).permutation(len(events))
    ...         return PassResult.from_rounds(events.rewards[order], inputs.horizon)
    >>> log = Log(None, actions=[0, 1] * 50, rewards=[0.5] * 100, propensities=[0.5] * 100)
    >>> estimate = evaluate(log, Uniform(), MeanReward(), horizon=10)
    >>> estimate.value, estimate.interval.method
    (0.5, 'group jackknife')
    """

    needs_exchangeable: ClassVar[bool] = True
    uses_model: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """Name in results: that of the class, unless a subclass has another."""
        return type(self).__name__

    def run_pass(
        self, policy: Any, inputs: PassInputs, rows: IntArray | None, seed: np.random.SeedSequence
    ) -> PassResult:
        """Simulate a copy of the policy over these rows of the log (None: all), with random numbers from the seed only.

        The same policy, inputs, rows and seed must give the same result, in any process.
        """
        raise NotImplementedError

    def estimate(self, request: EvaluationRequest) -> Estimate:
        """Return the estimate from passes of one policy."""
        return self.estimate_of(0, self.run_jointly(request, [request.policy]), request)

    def run_jointly(self, request: EvaluationRequest, policies: Sequence[Any]) -> ReplicateTable | PartResults:
        """Run the passes of all policies on common events and common randomness."""
        horizon = request.horizon
        if horizon is None:
            raise OptionError(f"{self.name} estimates V_T; give horizon=T")
        if not self.uses_model:
            request = replace(request, reward_model=0.0)
        if isinstance(request.log, LogStream):
            return run_parts(
                request,
                policies,
                one_pass=partial(repeat_for_readings, self.run_pass),
                choose_horizon=_given_horizon,
                pool=PART_EVENTS,
                n_parts=None,
            )
        return run_replicates(
            PassInputs(*out_of_sample_predictions(request), horizon),
            request,
            policies,
            one_pass=partial(repeat_for_readings, self.run_pass),
            default_interval=GroupJackknife(),
            long_enough=_is_long_enough,
            horizon_error=self._horizon_error,
        )

    def estimate_of(self, policy: int, passes: ReplicateTable | PartResults, request: EvaluationRequest) -> Estimate:
        """Return the estimate of one of the policies that were run jointly."""
        if isinstance(passes, PartResults):
            return passes.to_estimate(policy, request, self.name)
        results = passes.passes_of(policy)
        sampling_error, monte_carlo_error = passes.errors(policy)
        diagnostics = PassDiagnostics(
            events=request.log.n_events or 0,
            rounds=passes.horizon,
            passes=len(results),
            replicates=len(passes.member),
            bias_certificate=float(np.mean([result.certificate for result in results])),
            sampling_error=sampling_error,
            monte_carlo_error=monte_carlo_error,
            propensities_estimated=request.log.propensities_estimated,
        )
        return passes.to_estimate(policy, request, self.name, diagnostics)

    def _horizon_error(self, inputs: PassInputs, reached: int) -> HorizonNotReached:
        return HorizonNotReached(
            f"a pass of {self.name} over {len(inputs.log):,} events ended after {reached} of {inputs.horizon} rounds. "
            f"Ask for a horizon of at most {reached}, or give a longer log"
        )


def _given_horizon(request: EvaluationRequest, log: Log, predicted: FloatArray) -> int:
    assert request.horizon is not None
    return request.horizon


def _is_long_enough(passes: Sequence[PassResult]) -> bool:
    """Accept subsets of any size whose passes reach the horizon: what else a pass needs is not known here."""
    return True


class PolicyRun:
    """A copy of a policy in simulation: scored at the events of a log, trained on those that are accepted.

    Probabilities are checked as by every evaluator, and accepted events reach ``learn`` ``batch_size`` at a time.

    Parameters
    ----------
    policy
        The policy; it is copied and not changed.
    log
        The events.
    rng
        Generator that is passed to ``start``, if the policy has it.

    Examples
    --------
    >>> from backcast.policies.context_free import RoundRobin
    >>> log = Log(None, actions=[0, 1], rewards=[1, 0], propensities=[0.5, 0.5])
    >>> run = PolicyRun(RoundRobin(), log, np.random.default_rng(0))
    >>> run.probabilities([0])
    array([[1., 0.]])
    >>> run.accept(0, probability=1.0), run.probabilities([0])
    (True, array([[0., 1.]]))
    """

    def __init__(self, policy: Any, log: Log, rng: np.random.Generator) -> None:
        self._log, self._policy = log, start_copy(policy, log, rng)
        self._batch_size = batch_size_of(policy) if is_learning(policy) else 0
        self._rows: list[int] = []
        self._probabilities: list[float] = []

    def probabilities(self, rows: Sequence[int] | IntArray) -> FloatArray:
        """Return the present probabilities of all actions at these events, shape ``(m, K)``."""
        return probabilities_of(self._policy, self._log[rows])

    def accept(self, row: int, probability: float) -> bool:
        """Add an event to the history, with the policy's probability of its action; return whether the policy learned.

        As long as it has not learned, its probabilities are the same.
        """
        if self._batch_size == 0:
            return False
        self._rows.append(row)
        self._probabilities.append(probability)
        if len(self._rows) < self._batch_size:
            return False
        update_on_events(self._policy, self._log[self._rows], np.array(self._probabilities))
        self._rows, self._probabilities = [], []
        return True
