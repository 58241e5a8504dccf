"""DR and its relatives: SNDR, SwitchDR, ShrinkageDR, PessimisticDR, SubGaussian, CAB, MRDR."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from backcast._arrays import FloatArray, IntArray, as_kernel_array
from backcast._kernels.jit import compiled
from backcast._parameters import Parametrized
from backcast._request import EvaluationRequest, RandomStreams, require_fixed_policy
from backcast.errors import EvaluationError, OptionError
from backcast.estimate import Estimate
from backcast.evaluators._reward_predictions import PredictedPart, predicted_parts, with_stream_model
from backcast.evaluators._weight_transforms import CLIP, SHRINK, SUB_GAUSSIAN, SWITCH, Threshold, check_threshold
from backcast.evaluators._weighted_estimate import (
    EstimatorSpec,
    TransformedEstimator,
    WeightedEstimator,
    estimate_from_events,
    moments_of,
    select_threshold,
    with_threshold,
)
from backcast.evaluators._weighted_events import WeightedBlock, WeightedLog, ratio_bounds, weight_events
from backcast.evaluators.importance_weighting import self_normalized
from backcast.log import Log
from backcast.policies._calls import probabilities_of, probability_of, select_logged, start_copy
from backcast.reward_models.cross_fitting import CrossFit
from backcast.reward_models.regression import PerAction, is_estimator


@dataclass(frozen=True)
class DR(WeightedEstimator):
    """``mean_k [ sum_a pi(a|x_k) q(x_k, a) + w_k (r_k - q(x_k, a_k)) ]`` (Dudik, Langford and Li 2011).

    Right when either the propensities or the reward model q are; unbiased whatever the model with true
    propensities. The model is cross-fitted unless the request has one that is not.

    Examples
    --------
    >>> from backcast.log import Log
    >>> from backcast.policies.fixed import Fixed
    >>> log = Log(contexts=None, actions=[0, 1], rewards=[1, 0.5], propensities=[0.5, 0.5])
    >>> DR().estimate(EvaluationRequest(log, Fixed([0.75, 0.25]), reward_model=0.5)).value
    0.875

    By hand: the model predicts 0.5 everywhere; the only residual is 0.5 at weight 1.5: 0.5 + 0.75 / 2.
    """

    spec = EstimatorSpec("DR", model="full")


@dataclass(frozen=True)
class SNDR(WeightedEstimator):
    """``mean_k sum_a pi q + sum_k w_k (r_k - q(x_k, a_k)) / sum_k w_k`` (Robins et al. 2007): DR, weights normalised.

    Examples
    --------
    >>> from backcast.log import Log
    >>> from backcast.policies.fixed import Fixed
    >>> log = Log(contexts=None, actions=[0, 0], rewards=[1, 0.5], propensities=[0.5, 0.5])
    >>> SNDR().estimate(EvaluationRequest(log, Fixed([1.0]), reward_model=0.5)).value
    0.75

    By hand: 0.5 from the model, and the surprises 0.5 and 0 average 0.25.
    """

    spec = EstimatorSpec("SNDR", model="full", aggregate=self_normalized)


@dataclass(frozen=True)
class SwitchDR(TransformedEstimator):
    """``mean_k [ sum_a pi q + w_k I(w_k <= l) (r_k - q(x_k, a_k)) ]`` (Wang, Agarwal and Dudik 2017).

    Events of larger weight contribute the prediction of the model alone.

    Parameters
    ----------
    threshold
        The largest weight l that is still used; "auto" chooses by estimated mean squared error among 0 (the direct
        method), powers of two and infinity (DR).

    Examples
    --------
    >>> from backcast.log import Log
    >>> from backcast.policies.fixed import Fixed
    >>> log = Log(contexts=None, actions=[0, 1], rewards=[1, 1], propensities=[0.25, 0.5])
    >>> SwitchDR(threshold=2.0).estimate(EvaluationRequest(log, Fixed([0.75, 0.25]), reward_model=0.5)).value
    0.625

    By hand: the weight 3 is switched off; 0.5 from the model and 0.5 * 0.5 / 2 from the other event.
    """

    spec = EstimatorSpec("SwitchDR", model="full")
    family = SWITCH


@dataclass(frozen=True)
class ShrinkageDR(TransformedEstimator):
    """``mean_k [ sum_a pi q + l w_k/(w_k^2 + l) (r_k - q(x_k, a_k)) ]``: DRos of Su et al. 2020.

    Parameters
    ----------
    threshold
        l: 0 is the direct method, infinity is DR; "auto" chooses among powers of four between by estimated mean squared
        error.

    Examples
    --------
    >>> from backcast.log import Log
    >>> from backcast.policies.fixed import Fixed
    >>> log = Log(contexts=None, actions=[0, 0], rewards=[1, 1], propensities=[0.25, 0.25], n_actions=2)
    >>> ShrinkageDR(threshold=3.0).estimate(EvaluationRequest(log, Fixed([0.75, 0.25]), reward_model=0.5)).value
    0.875

    By hand: the weight 3 becomes 3 * 3 / (9 + 3) = 0.75; 0.5 + 0.75 * 0.5.
    """

    spec = EstimatorSpec("ShrinkageDR", model="full")
    family = SHRINK


@dataclass(frozen=True)
class PessimisticDR(TransformedEstimator):
    """``mean_k [ sum_a pi q + min(w_k, l) (r_k - q(x_k, a_k)) ]``: DRps of Su et al. 2020.

    Parameters
    ----------
    threshold
        The largest weight l: infinity is DR; "auto" chooses among powers of two by estimated mean squared error.

    Examples
    --------
    >>> from backcast.log import Log
    >>> from backcast.policies.fixed import Fixed
    >>> log = Log(contexts=None, actions=[0, 0], rewards=[1, 1], propensities=[0.25, 0.25], n_actions=2)
    >>> PessimisticDR(threshold=2.0).estimate(EvaluationRequest(log, Fixed([0.75, 0.25]), reward_model=0.75)).value
    1.25

    By hand: the weight 3 becomes 2; 0.75 + 2 * 0.25.
    """

    spec = EstimatorSpec("PessimisticDR", model="full")
    family = CLIP


@dataclass(frozen=True)
class SubGaussian(TransformedEstimator):
    """``mean_k [ sum_a pi q + w_k/(1 - l + l w_k) (r_k - q(x_k, a_k)) ]`` (Metelli, Russo and Restelli 2021).

    With ``reward_model=0`` it is their estimator without a model.

    Parameters
    ----------
    threshold
        l in [0, 1]: 0 is DR; "auto" chooses among 0 and powers of a half by estimated mean squared error.

    Examples
    --------
    >>> from backcast.log import Log
    >>> from backcast.policies.fixed import Fixed
    >>> log = Log(contexts=None, actions=[0, 0], rewards=[1, 1], propensities=[0.25, 0.25], n_actions=2)
    >>> SubGaussian(threshold=0.5).estimate(EvaluationRequest(log, Fixed([0.75, 0.25]), reward_model=0.5)).value
    1.25

    By hand: the weight 3 becomes 3 / (0.5 + 1.5) = 1.5; 0.5 + 1.5 * 0.5.
    """

    spec = EstimatorSpec("SubGaussian", model="full")
    family = SUB_GAUSSIAN
    largest_threshold = 1.0


@dataclass(frozen=True)
class CAB(Parametrized):
    """``mean_k [ sum_a max(0, pi(a) - M mu(a)) q(x_k, a) + min(w_k, M) r_k ]`` (Su et al. 2019).

    The model answers only for the probability that weights cut at M leave over, and for actions the logger never
    takes. Needs the logger's probabilities of all actions; where a log has only those of the logged ones,
    :class:`PessimisticDR` has the same expectation.

    Parameters
    ----------
    threshold
        The largest weight M; "auto" chooses among powers of two and infinity by estimated mean squared error, at one
        scoring of the log for each.

    Examples
    --------
    >>> from backcast.policies.fixed import Fixed
    >>> log = Log(None, actions=[0], rewards=[1], propensities=[0.25], logging_probabilities=[[0.25, 0.75]])
    >>> CAB(threshold=2.0).estimate(EvaluationRequest(log, Fixed([0.75, 0.25]), reward_model=[[0.5, 1.0]])).value
    2.125

    By hand: the weight 3 becomes 2, and the 0.75 - 2 * 0.25 left of action 0 earn 0.5 each.
    """

    threshold: Threshold = "auto"

    def __post_init__(self) -> None:
        check_threshold(self.threshold)

    def estimate(self, request: EvaluationRequest) -> Estimate:
        """Return the clipped average, completed by the model."""
        require_fixed_policy(request.policy, "CAB")
        request, notes = with_stream_model(request)
        # the reward model is fitted once for all thresholds
        parts = predicted_parts(request, uses_model=True) if isinstance(request.log, Log) else None

        def weighted(threshold: float) -> WeightedLog:
            # sums stored under one threshold are not those under another
            scoped = request.scoped(f"threshold-{threshold:g}")
            weight = partial(_weight_remainder, threshold)
            return WeightedLog(scoped, weight, uses_model=True, notes=notes, parts=parts)

        def estimate_at(threshold: float) -> Estimate:
            spec = EstimatorSpec("CAB", model="remainder", transform=CLIP.at(threshold))
            return estimate_from_events(spec, request, weighted(threshold))

        if self.threshold != "auto":
            return with_threshold(estimate_at(float(self.threshold)), self.threshold, tuned=False)
        grid = CLIP.grid[::-1]
        moments = [moments_of(weighted(threshold), [CLIP.at(threshold)])[0] for threshold in grid]
        return select_threshold(estimate_at(CLIP.neutral), grid, moments)


def _weight_remainder(
    threshold: float, policy: Any, part: PredictedPart, block: Log, positions: IntArray
) -> WeightedBlock:
    """Weight rewards; the model predicts what weights clipped at the threshold leave."""
    if block.columns.logging_probabilities is None:
        raise EvaluationError(
            "CAB needs the logger's probabilities of all actions and this log records only those of the logged ones; "
            "pass logging_probabilities to the log, or use PessimisticDR, which has the same expectation"
        )
    target = probabilities_of(policy, block)
    base = remainders(
        target, part.table(block, positions), as_kernel_array(block.columns.logging_probabilities), threshold
    )
    ratio = select_logged(target, block.columns.actions) / block.columns.propensities
    return WeightedBlock(ratio, base, block.columns.rewards, ratio_bounds(target, block), block.columns.rewards)


@compiled
def remainders(target: FloatArray, predicted: FloatArray, logging: FloatArray, threshold: float) -> FloatArray:
    """Return ``sum_a max(0, pi(a) - M mu(a)) rhat(a)``: what weights clipped at M leave to the model (Su et al. 2019).

    >>> remainders(np.array([[0.75, 0.25]]), np.array([[0.5, 1.0]]), np.array([[0.25, 0.75]]), 2.0)
    array([0.125])

    By hand: action 0 has 0.75 - 2 * 0.25 left, at 0.5; action 1 has nothing left.
    """
    out = np.zeros(target.shape[0])
    for k in range(target.shape[0]):
        for a in range(target.shape[1]):
            left = target[k, a]
            if logging[k, a] > 0.0:  # an action that the logger never takes is left to the model, however large M is
                left -= threshold * logging[k, a]
            if left > 0.0:
                out[k] += left * predicted[k, a]
    return out


@dataclass(frozen=True)
class MRDR(Parametrized):
    """DR whose model minimises ``sum_k pi_k^2 (1 - p_k)/p_k^2 (r_k - q(x_k, a_k))^2`` (Farajtabar et al. 2018).

    That sum estimates the part of DR's variance that the model can do something about (exactly so for a policy
    that is sure of its action; for others the covariances between actions, which no log shows, are left out).
    The model is one regression an action, cross-fitted: the question's ``reward_model`` if it is a scikit-learn
    estimator or a ``PerAction``, else ridge regression.

    Parameters
    ----------
    folds
        Parts of the cross-fitting.

    Examples
    --------
    >>> from backcast.policies.fixed import Fixed
    >>> log = Log(contexts=None, actions=[0, 1] * 4, rewards=[0.5, 0.25] * 4, propensities=[0.5] * 8)
    >>> MRDR().estimate(EvaluationRequest(log, Fixed([1.0, 0.0]))).value
    0.5
    """

    folds: int = 5

    def estimate(self, request: EvaluationRequest) -> Estimate:
        """Return DR with the model fitted for this policy."""
        require_fixed_policy(request.policy, "MRDR")
        model = PerAction(_base_estimator(request.reward_model), weights=mrdr_weights(request.policy, request.seed))
        request = replace(request, reward_model=CrossFit(model, self.folds))
        events = weight_events(request, uses_model=True)
        estimate = estimate_from_events(EstimatorSpec("MRDR", model="full"), request, events)
        return replace(estimate, settings={**estimate.settings, "folds": self.folds})


def mrdr_weights(policy: Any, seed: int = 0) -> Callable[[Log], FloatArray]:
    """The training weights ``pi(a_k|x_k)^2 (1 - p_k)/p_k^2`` as a function of the log.

    >>> from backcast.policies.fixed import Fixed
    >>> log = Log(contexts=None, actions=[0, 1], rewards=[1, 1], propensities=[0.5, 0.25])
    >>> mrdr_weights(Fixed([0.5, 0.5]))(log)
    array([0.5, 3. ])
    """

    def weights(log: Log) -> FloatArray:
        ratio = (
            probability_of(start_copy(policy, log, RandomStreams.from_seed(seed).policy), log)
            / log.columns.propensities
        )
        wanted = ratio**2 * (1.0 - log.columns.propensities)
        # never quite 0, so that every action seen can be fitted
        return np.maximum(wanted, max(1e-9 * wanted.max(), 1e-300))

    return weights


def _base_estimator(reward_model: Any) -> Any:
    if isinstance(reward_model, PerAction):
        return reward_model.estimator
    if reward_model is None or is_estimator(reward_model):
        return reward_model
    raise OptionError(
        f"MRDR fits its own reward model and was given {type(reward_model).__name__}; give a scikit-learn estimator, "
        "PerAction(estimator) or nothing, or use DR with this model"
    )
