"""The doubly robust estimator, plain and self-normalised."""

from __future__ import annotations

from dataclasses import dataclass

from backcast.estimate import Estimate
from backcast.evaluators.question import Question
from backcast.evaluators.stationary.method import Method, answer_by
from backcast.evaluators.stationary.snips import self_normalised

__all__ = ["DR", "SNDR"]


@dataclass(frozen=True)
class DR:
    """``mean_k [ sum_a pi(a|x_k) q(x_k, a) + w_k (r_k - q(x_k, a_k)) ]`` (Dudik, Langford and Li 2011).

    Right when either the propensities or the reward model q are; unbiased whatever the model with true
    propensities. The model is cross-fitted unless the question says otherwise.

    Examples
    --------
    >>> from backcast.log import Log
    >>> from backcast.policies.stationary import Fixed
    >>> log = Log(contexts=None, actions=[0, 1], rewards=[1, 0.5], propensities=[0.5, 0.5])
    >>> DR().answer(Question(log, Fixed([0.75, 0.25]), reward_model=0.5)).value
    0.875

    By hand: the model says 0.5 throughout; the only surprise is 0.5 at weight 1.5: 0.5 + 0.75 / 2.
    """

    def answer(self, question: Question) -> Estimate:
        """The model's answer, corrected by the weighted surprises."""
        return answer_by(Method("DR", model=True), question)


@dataclass(frozen=True)
class SNDR:
    """``mean_k sum_a pi q + sum_k w_k (r_k - q(x_k, a_k)) / sum_k w_k`` (Robins et al. 2007): DR, weights normalised.

    Examples
    --------
    >>> from backcast.log import Log
    >>> from backcast.policies.stationary import Fixed
    >>> log = Log(contexts=None, actions=[0, 0], rewards=[1, 0.5], propensities=[0.5, 0.5])
    >>> SNDR().answer(Question(log, Fixed([1.0]), reward_model=0.5)).value
    0.75

    By hand: 0.5 from the model, and the surprises 0.5 and 0 average 0.25.
    """

    def answer(self, question: Question) -> Estimate:
        """The model's answer, corrected by the normalised surprises."""
        return answer_by(Method("SNDR", model=True, form=self_normalised), question)
