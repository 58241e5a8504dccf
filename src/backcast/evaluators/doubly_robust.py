"""The doubly robust estimator, plain and self-normalised."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from backcast._arrays import FloatArray, IntArray, plain
from backcast._request import EvaluationRequest, RandomStreams, require_fixed_policy
from backcast.errors import EvaluationError, OptionError
from backcast.estimate import Estimate
from backcast.evaluators._reward_predictions import PredictedPart, StagedLog, predicted_parts, with_fitted_model
from backcast.evaluators._weight_transforms import (
    CLIP,
    SHRINK,
    SUB_GAUSSIAN,
    SWITCH,
    Threshold,
    check_threshold,
    chosen,
    estimate_with_transform,
    with_choice,
)
from backcast.evaluators._weighted_estimate import EstimatorSpec, estimate_from, moments_of, weighted_estimate
from backcast.evaluators._weighted_events import Recipe, WeightedBlock, WeightedLog, beyond, bounds, weight_predicted
from backcast.evaluators.importance_weighting import self_normalised
from backcast.log import Log
from backcast.policies._calls import probabilities_of, probability_of, select_logged, start_copy
from backcast.reward_models.cross_fitting import CrossFit
from backcast.reward_models.regression import PerAction


@dataclass(frozen=True)
class DR:
    """``mean_k [ sum_a pi(a|x_k) q(x_k, a) + w_k (r_k - q(x_k, a_k)) ]`` (Dudik, Langford and Li 2011).

    Right when either the propensities or the reward model q are; unbiased whatever the model with true
    propensities. The model is cross-fitted unless the question says otherwise.

    Examples
    --------
    >>> from backcast.log import Log
    >>> from backcast.policies.fixed import Fixed
    >>> log = Log(contexts=None, actions=[0, 1], rewards=[1, 0.5], propensities=[0.5, 0.5])
    >>> DR().estimate(EvaluationRequest(log, Fixed([0.75, 0.25]), reward_model=0.5)).value
    0.875

    By hand: the model says 0.5 throughout; the only surprise is 0.5 at weight 1.5: 0.5 + 0.75 / 2.
    """

    def estimate(self, request: EvaluationRequest) -> Estimate:
        """The model's answer, corrected by the weighted surprises."""
        return weighted_estimate(EstimatorSpec("DR", model=True), request)


@dataclass(frozen=True)
class SNDR:
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

    def estimate(self, request: EvaluationRequest) -> Estimate:
        """The model's answer, corrected by the normalised surprises."""
        return weighted_estimate(EstimatorSpec("SNDR", model=True, form=self_normalised), request)


@dataclass(frozen=True)
class SwitchDR:
    """``mean_k [ sum_a pi q + w_k I(w_k <= l) (r_k - q(x_k, a_k)) ]`` (Wang, Agarwal and Dudik 2017).

    Where the weight is too large the model alone is believed.

    Parameters
    ----------
    threshold
        The largest weight l that is still used; "auto" chooses by SLOPE++ among 0 (the direct method), powers of
        two and infinity (DR).

    Examples
    --------
    >>> from backcast.log import Log
    >>> from backcast.policies.fixed import Fixed
    >>> log = Log(contexts=None, actions=[0, 1], rewards=[1, 1], propensities=[0.25, 0.5])
    >>> SwitchDR(threshold=2.0).estimate(EvaluationRequest(log, Fixed([0.75, 0.25]), reward_model=0.5)).value
    0.625

    By hand: the weight 3 is switched off; 0.5 from the model and 0.5 * 0.5 / 2 from the other event.
    """

    threshold: Threshold = "auto"

    def __post_init__(self) -> None:
        check_threshold(self.threshold)

    def estimate(self, request: EvaluationRequest) -> Estimate:
        """The model's answer, corrected where the weights are moderate."""
        return estimate_with_transform("SwitchDR", SWITCH, self.threshold, request, model=True)


@dataclass(frozen=True)
class ShrinkageDR:
    """``mean_k [ sum_a pi q + l w_k/(w_k^2 + l) (r_k - q(x_k, a_k)) ]``: DRos of Su et al. 2020.

    Parameters
    ----------
    threshold
        l: 0 is the direct method, infinity is DR; "auto" chooses by SLOPE++ among powers of four between.

    Examples
    --------
    >>> from backcast.log import Log
    >>> from backcast.policies.fixed import Fixed
    >>> log = Log(contexts=None, actions=[0, 0], rewards=[1, 1], propensities=[0.25, 0.25], n_actions=2)
    >>> ShrinkageDR(threshold=3.0).estimate(EvaluationRequest(log, Fixed([0.75, 0.25]), reward_model=0.5)).value
    0.875

    By hand: the weight 3 becomes 3 * 3 / (9 + 3) = 0.75; 0.5 + 0.75 * 0.5.
    """

    threshold: Threshold = "auto"

    def __post_init__(self) -> None:
        check_threshold(self.threshold)

    def estimate(self, request: EvaluationRequest) -> Estimate:
        """The model's answer, corrected with optimistically shrunken weights."""
        return estimate_with_transform("ShrinkageDR", SHRINK, self.threshold, request, model=True)


@dataclass(frozen=True)
class PessimisticDR:
    """``mean_k [ sum_a pi q + min(w_k, l) (r_k - q(x_k, a_k)) ]``: DRps of Su et al. 2020.

    Parameters
    ----------
    threshold
        The largest weight l: infinity is DR; "auto" chooses among powers of two by SLOPE++.

    Examples
    --------
    >>> from backcast.log import Log
    >>> from backcast.policies.fixed import Fixed
    >>> log = Log(contexts=None, actions=[0, 0], rewards=[1, 1], propensities=[0.25, 0.25], n_actions=2)
    >>> PessimisticDR(threshold=2.0).estimate(EvaluationRequest(log, Fixed([0.75, 0.25]), reward_model=0.75)).value
    1.25

    By hand: the weight 3 becomes 2; 0.75 + 2 * 0.25.
    """

    threshold: Threshold = "auto"

    def __post_init__(self) -> None:
        check_threshold(self.threshold)

    def estimate(self, request: EvaluationRequest) -> Estimate:
        """The model's answer, corrected with clipped weights."""
        return estimate_with_transform("PessimisticDR", CLIP, self.threshold, request, model=True)


@dataclass(frozen=True)
class SubGaussian:
    """``mean_k [ sum_a pi q + w_k/(1 - l + l w_k) (r_k - q(x_k, a_k)) ]`` (Metelli, Russo and Restelli 2021).

    With ``reward_model=0`` it is their estimator without a model.

    Parameters
    ----------
    threshold
        l in [0, 1]: 0 is DR; "auto" chooses among 0 and powers of a half by SLOPE++.

    Examples
    --------
    >>> from backcast.log import Log
    >>> from backcast.policies.fixed import Fixed
    >>> log = Log(contexts=None, actions=[0, 0], rewards=[1, 1], propensities=[0.25, 0.25], n_actions=2)
    >>> SubGaussian(threshold=0.5).estimate(EvaluationRequest(log, Fixed([0.75, 0.25]), reward_model=0.5)).value
    1.25

    By hand: the weight 3 becomes 3 / (0.5 + 1.5) = 1.5; 0.5 + 1.5 * 0.5.
    """

    threshold: Threshold = "auto"

    def __post_init__(self) -> None:
        check_threshold(self.threshold, high=1.0)

    def estimate(self, request: EvaluationRequest) -> Estimate:
        """The model's answer, corrected with weights of bounded growth."""
        return estimate_with_transform("SubGaussian", SUB_GAUSSIAN, self.threshold, request, model=True)


@dataclass(frozen=True)
class CAB:
    """``mean_k [ sum_a max(0, pi(a) - M mu(a)) q(x_k, a) + min(w_k, M) r_k ]`` (Su et al. 2019).

    The model answers only for the probability that weights cut at M leave over, and for actions the logger never
    takes. Needs the logger's probabilities of all actions; where a log has only those of the logged ones,
    :class:`PessimisticDR` has the same expectation.

    Parameters
    ----------
    threshold
        The largest weight M; "auto" chooses among powers of two and infinity by SLOPE++, at one scoring of the log
        for each.

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
        """The clipped average, filled up by the model."""
        require_fixed_policy(request.policy, "CAB")
        request, notes = with_fitted_model(request)
        log = replace(predicted_parts(request, model=True), notes=notes)
        if self.threshold != "auto":
            return _estimate(request, log, float(self.threshold))
        grid = CLIP.grid[::-1]
        choice = chosen(grid, [moments_of(_blended(request, log, m), [CLIP.at(m)])[0] for m in grid])
        return with_choice(_estimate(request, log, CLIP.neutral), choice)


def _estimate(request: EvaluationRequest, log: StagedLog, threshold: float) -> Estimate:
    method = EstimatorSpec(
        "CAB",
        model=True,
        blended=True,
        shape=CLIP.at(threshold),
        largest=lambda ratio: min(threshold, ratio),
        settings={"threshold": threshold, "tuned": False},
    )
    return estimate_from(method, request, _blended(request, log, threshold))


def _blended(request: EvaluationRequest, log: StagedLog, threshold: float) -> WeightedLog:
    # sums kept under one threshold are not those under another
    own = request.within(f"threshold-{threshold:g}")
    return weight_predicted(own, log, Recipe(partial(_weigh_blended, threshold), model=True))


def _weigh_blended(threshold: float, policy: Any, stage: PredictedPart, block: Log, places: IntArray) -> WeightedBlock:
    """The base is the model's share; the residual is the reward itself."""
    if block._logging is None:
        raise EvaluationError(
            "CAB needs the logger's probabilities of all actions and this log records only those of the logged ones; "
            "pass logging_probabilities to the log, or use PessimisticDR, which has the same expectation"
        )
    target = probabilities_of(policy, block)
    base = beyond(target, stage.table(block, places), plain(block._logging), threshold)
    return WeightedBlock(
        select_logged(target, block._actions) / block._propensities, base, block._rewards, bounds(target, block)
    )


@dataclass(frozen=True)
class MRDR:
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
        """DR with the model fitted for this policy."""
        require_fixed_policy(request.policy, "MRDR")
        model = PerAction(_estimator(request.reward_model), weights=mrdr_weights(request.policy, request.seed))
        asked = replace(request, reward_model=CrossFit(model, self.folds))
        return weighted_estimate(EstimatorSpec("MRDR", model=True, settings={"folds": self.folds}), asked)


def mrdr_weights(policy: Any, seed: int = 0) -> Callable[[Log], FloatArray]:
    """The training weights ``pi(a_k|x_k)^2 (1 - p_k)/p_k^2`` as a function of the log.

    >>> from backcast.policies.fixed import Fixed
    >>> log = Log(contexts=None, actions=[0, 1], rewards=[1, 1], propensities=[0.5, 0.25])
    >>> mrdr_weights(Fixed([0.5, 0.5]))(log)
    array([0.5, 3. ])
    """

    def weights(log: Log) -> FloatArray:
        ratio = probability_of(start_copy(policy, log, RandomStreams.of(seed).policy), log) / log._propensities
        wanted = ratio**2 * (1.0 - log._propensities)
        # never quite 0, so that every action seen can be fitted
        return np.maximum(wanted, max(1e-9 * wanted.max(), 1e-300))

    return weights


def _estimator(reward_model: Any) -> Any:
    if isinstance(reward_model, PerAction):
        return reward_model.estimator
    if reward_model is None or hasattr(reward_model, "get_params"):
        return reward_model
    raise OptionError(
        f"MRDR fits its own reward model and was given {type(reward_model).__name__}; give a scikit-learn estimator, "
        "PerAction(estimator) or nothing, or use DR with this model"
    )
