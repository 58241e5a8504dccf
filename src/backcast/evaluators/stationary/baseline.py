"""IPS with the baseline that leaves the least variance."""

from __future__ import annotations

from dataclasses import dataclass

from backcast.estimate import Estimate
from backcast.evaluators.question import Question
from backcast.evaluators.stationary.method import Method, answer_by
from backcast.intervals.forms import Controlled, best_baseline
from backcast.intervals.moments import TERM, WEIGHT, Moments

__all__ = ["BaselineIPS", "controlled"]


def controlled(moments: Moments) -> Controlled:
    """IPS less the best baseline times the weights' known error.

    >>> import numpy as np
    >>> from backcast.intervals.moments import Columns
    >>> w, r = np.array([1.0, 3.0]), np.array([1.0, 1.0])
    >>> float(controlled(Moments.of(Columns(0 * w, w, w * r, w, r, w))).baseline)
    1.0

    By hand: all rewards are 1, so ``w r`` moves with ``w`` one to one.
    """
    spread, together = moments.scatter[WEIGHT, [WEIGHT, TERM]] / moments.n
    return Controlled(float(best_baseline(moments.mean[WEIGHT], spread, together)))


@dataclass(frozen=True)
class BaselineIPS:
    """``mean_k w_k r_k - b (mean_k w_k - 1)`` with ``b = cov(w r, w) / var(w)`` (Gupta et al. 2024).

    Weights average 1 in expectation, so any fixed baseline b leaves IPS unbiased; this one leaves the least
    variance. It is estimated from the same events, at a bias of order 1/n.

    Examples
    --------
    >>> from backcast.log import Log
    >>> from backcast.policies.stationary import Fixed
    >>> log = Log(contexts=None, actions=[0, 0, 1], rewards=[1, 1, 1], propensities=[0.5] * 3)
    >>> BaselineIPS().answer(Question(log, Fixed([0.75, 0.25]))).value
    1.0

    By hand: IPS would say 3.5/3, but the weights are as much too large: 3.5/3 - 1 * (3.5/3 - 1).
    """

    def answer(self, question: Question) -> Estimate:
        """The weighted average of the rewards, corrected for the weights' own error."""
        return answer_by(Method("BaselineIPS", form=controlled), question)
