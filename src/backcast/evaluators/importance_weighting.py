"""IPS, SNIPS, ClippedIPS, BaselineIPS: importance weighting of logged rewards."""

from __future__ import annotations

from dataclasses import dataclass

from backcast.evaluators._weight_transforms import CLIP
from backcast.evaluators._weighted_estimate import EstimatorSpec, TransformedEstimator, WeightedEstimator
from backcast.intervals._sample import (
    TERM,
    WEIGHT,
    Aggregate,
    ControlVariateMean,
    Moments,
    SelfNormalizedMean,
    best_baseline,
)


def self_normalized(moments: Moments) -> Aggregate:
    """Return the aggregate of a quotient of averages."""
    return SelfNormalizedMean()


def with_baseline(moments: Moments) -> ControlVariateMean:
    """Return the aggregate of IPS minus the best baseline times the known error of the weights.

    >>> import numpy as np
    >>> from backcast.intervals._sample import EventColumns
    >>> w, r = np.array([1.0, 3.0]), np.array([1.0, 1.0])
    >>> float(with_baseline(Moments.of(EventColumns(0 * w, w, w * r, w, r, w, r))).baseline)
    1.0

    By hand: all rewards are 1, so ``w r`` changes with ``w`` one to one.
    """
    variance, covariance = moments.scatter[WEIGHT, [WEIGHT, TERM]] / moments.n
    return ControlVariateMean(float(best_baseline(moments.mean[WEIGHT], variance, covariance)))


@dataclass(frozen=True)
class IPS(WeightedEstimator):
    """``mean_k w_k r_k`` with ``w = pi/p`` (Horvitz and Thompson 1952): unbiased, at the mercy of large weights.

    Needs no reward model. Of a policy with ``probability_of(contexts, actions)`` only logged actions are evaluated,
    so that thousands of actions cost no more than two.

    Examples
    --------
    >>> from backcast._request import EvaluationRequest
    >>> from backcast.log import Log
    >>> from backcast.policies.fixed import Fixed
    >>> log = Log(contexts=None, actions=[0, 1, 0, 1], rewards=[1, 0.5, 0, 0], propensities=[0.5] * 4)
    >>> IPS().estimate(EvaluationRequest(log, Fixed([0.75, 0.25]))).value
    0.4375

    By hand: the weights are 1.5 and 0.5; (1.5 * 1 + 0.5 * 0.5) / 4.
    """

    spec = EstimatorSpec("IPS")


@dataclass(frozen=True)
class SNIPS(WeightedEstimator):
    """``sum_k w_k r_k / sum_k w_k`` (Swaminathan and Joachims 2015).

    Stays within the rewards seen and does not move when a constant is added to them; its bias is of order 1/n.

    Examples
    --------
    >>> from backcast._request import EvaluationRequest
    >>> from backcast.log import Log
    >>> from backcast.policies.fixed import Fixed
    >>> log = Log(contexts=None, actions=[0, 0, 0, 1], rewards=[1, 1, 0, 1], propensities=[0.5] * 4)
    >>> SNIPS().estimate(EvaluationRequest(log, Fixed([0.75, 0.25]))).value
    0.7

    By hand: the weights are 1.5 and 0.5; (1.5 + 1.5 + 0.5) / 5.
    """

    spec = EstimatorSpec("SNIPS", aggregate=self_normalized)


@dataclass(frozen=True)
class ClippedIPS(TransformedEstimator):
    """``mean_k min(w_k, l) r_k`` (Ionides 2008): less variance, and with rewards >= 0 a bias downwards.

    Parameters
    ----------
    threshold
        The largest weight l; "auto" chooses among powers of two by estimated mean squared error.

    Examples
    --------
    >>> from backcast._request import EvaluationRequest
    >>> from backcast.log import Log
    >>> from backcast.policies.fixed import Fixed
    >>> log = Log(contexts=None, actions=[0, 1], rewards=[1, 1], propensities=[0.25, 0.75])
    >>> ClippedIPS(threshold=2.0).estimate(EvaluationRequest(log, Fixed([0.75, 0.25]))).value
    1.1666666666666667

    By hand: the weights 3 and 1/3 become 2 and 1/3.
    """

    spec = EstimatorSpec("ClippedIPS")
    family = CLIP


@dataclass(frozen=True)
class BaselineIPS(WeightedEstimator):
    """``mean_k w_k r_k - b (mean_k w_k - 1)`` with ``b = cov(w r, w) / var(w)`` (Gupta et al. 2024).

    Weights average 1 in expectation, so any fixed baseline b leaves IPS unbiased; this one leaves the least
    variance. It is estimated from the same events, at a bias of order 1/n.

    Examples
    --------
    >>> from backcast._request import EvaluationRequest
    >>> from backcast.log import Log
    >>> from backcast.policies.fixed import Fixed
    >>> log = Log(contexts=None, actions=[0, 0, 1], rewards=[1, 1, 1], propensities=[0.5] * 3)
    >>> BaselineIPS().estimate(EvaluationRequest(log, Fixed([0.75, 0.25]))).value
    1.0

    By hand: IPS gives 3.5/3, but the weights are too large by as much: 3.5/3 - 1 * (3.5/3 - 1).
    """

    spec = EstimatorSpec("BaselineIPS", aggregate=with_baseline)
