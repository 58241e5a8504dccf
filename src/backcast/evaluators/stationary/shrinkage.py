"""Doubly robust estimators with shrunken weights."""

from __future__ import annotations

from dataclasses import dataclass

from backcast.estimate import Estimate
from backcast.evaluators.question import Question
from backcast.evaluators.stationary.shaped import answer_shaped
from backcast.evaluators.stationary.shapes import CLIP, SHRINK, SUB_GAUSSIAN
from backcast.evaluators.stationary.tuning import Threshold, check_threshold

__all__ = ["PessimisticDR", "ShrinkageDR", "SubGaussian"]


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
    >>> from backcast.policies.stationary import Fixed
    >>> log = Log(contexts=None, actions=[0, 0], rewards=[1, 1], propensities=[0.25, 0.25], n_actions=2)
    >>> ShrinkageDR(threshold=3.0).answer(Question(log, Fixed([0.75, 0.25]), reward_model=0.5)).value
    0.875

    By hand: the weight 3 becomes 3 * 3 / (9 + 3) = 0.75; 0.5 + 0.75 * 0.5.
    """

    threshold: Threshold = "auto"

    def __post_init__(self) -> None:
        check_threshold(self.threshold)

    def answer(self, question: Question) -> Estimate:
        """The model's answer, corrected with optimistically shrunken weights."""
        return answer_shaped("ShrinkageDR", SHRINK, self.threshold, question, model=True)


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
    >>> from backcast.policies.stationary import Fixed
    >>> log = Log(contexts=None, actions=[0, 0], rewards=[1, 1], propensities=[0.25, 0.25], n_actions=2)
    >>> PessimisticDR(threshold=2.0).answer(Question(log, Fixed([0.75, 0.25]), reward_model=0.75)).value
    1.25

    By hand: the weight 3 becomes 2; 0.75 + 2 * 0.25.
    """

    threshold: Threshold = "auto"

    def __post_init__(self) -> None:
        check_threshold(self.threshold)

    def answer(self, question: Question) -> Estimate:
        """The model's answer, corrected with clipped weights."""
        return answer_shaped("PessimisticDR", CLIP, self.threshold, question, model=True)


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
    >>> from backcast.policies.stationary import Fixed
    >>> log = Log(contexts=None, actions=[0, 0], rewards=[1, 1], propensities=[0.25, 0.25], n_actions=2)
    >>> SubGaussian(threshold=0.5).answer(Question(log, Fixed([0.75, 0.25]), reward_model=0.5)).value
    1.25

    By hand: the weight 3 becomes 3 / (0.5 + 1.5) = 1.5; 0.5 + 1.5 * 0.5.
    """

    threshold: Threshold = "auto"

    def __post_init__(self) -> None:
        check_threshold(self.threshold, high=1.0)

    def answer(self, question: Question) -> Estimate:
        """The model's answer, corrected with weights of bounded growth."""
        return answer_shaped("SubGaussian", SUB_GAUSSIAN, self.threshold, question, model=True)
