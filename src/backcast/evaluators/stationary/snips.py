"""Self-normalised inverse propensity scoring."""

from __future__ import annotations

from dataclasses import dataclass

from backcast.estimate import Estimate
from backcast.evaluators.question import Question
from backcast.evaluators.stationary.method import Method, answer_by
from backcast.intervals.forms import Form, SelfNormalised
from backcast.intervals.moments import Moments

__all__ = ["SNIPS", "self_normalised"]


def self_normalised(moments: Moments) -> Form:
    """The form of a quotient of averages."""
    return SelfNormalised()


@dataclass(frozen=True)
class SNIPS:
    """``sum_k w_k r_k / sum_k w_k`` (Swaminathan and Joachims 2015).

    Stays within the rewards seen and does not move when a constant is added to them; its bias is of order 1/n.

    Examples
    --------
    >>> from backcast.log import Log
    >>> from backcast.policies.stationary import Fixed
    >>> log = Log(contexts=None, actions=[0, 0, 0, 1], rewards=[1, 1, 0, 1], propensities=[0.5] * 4)
    >>> SNIPS().answer(Question(log, Fixed([0.75, 0.25]))).value
    0.7

    By hand: the weights are 1.5 and 0.5; (1.5 + 1.5 + 0.5) / 5.
    """

    def answer(self, question: Question) -> Estimate:
        """The average reward under normalised weights."""
        return answer_by(Method("SNIPS", form=self_normalised), question)
