"""Inverse propensity scoring."""

from __future__ import annotations

from dataclasses import dataclass

from backcast.estimate import Estimate
from backcast.evaluators.question import Question
from backcast.evaluators.stationary.method import Method, answer_by

__all__ = ["IPS"]


@dataclass(frozen=True)
class IPS:
    """``mean_k w_k r_k`` with ``w = pi/p`` (Horvitz and Thompson 1952): unbiased, at the mercy of large weights.

    Asks no reward model. A policy with ``probability_of(contexts, actions)`` is asked for the logged actions only,
    so that thousands of actions cost no more than two.

    Examples
    --------
    >>> from backcast.log import Log
    >>> from backcast.policies.stationary import Fixed
    >>> log = Log(contexts=None, actions=[0, 1, 0, 1], rewards=[1, 0.5, 0, 0], propensities=[0.5] * 4)
    >>> IPS().answer(Question(log, Fixed([0.75, 0.25]))).value
    0.4375

    By hand: the weights are 1.5 and 0.5; (1.5 * 1 + 0.5 * 0.5) / 4.
    """

    def answer(self, question: Question) -> Estimate:
        """The weighted average of the rewards."""
        return answer_by(Method("IPS"), question)
