"""IPS with clipped weights."""

from __future__ import annotations

from dataclasses import dataclass

from backcast.estimate import Estimate
from backcast.evaluators.question import Question
from backcast.evaluators.stationary.shaped import answer_shaped
from backcast.evaluators.stationary.shapes import CLIP
from backcast.evaluators.stationary.tuning import Threshold, check_threshold

__all__ = ["ClippedIPS"]


@dataclass(frozen=True)
class ClippedIPS:
    """``mean_k min(w_k, l) r_k`` (Ionides 2008): less variance, and with rewards >= 0 a bias downwards.

    Parameters
    ----------
    threshold
        The largest weight l; "auto" chooses among powers of two by SLOPE++.

    Examples
    --------
    >>> from backcast.log import Log
    >>> from backcast.policies.stationary import Fixed
    >>> log = Log(contexts=None, actions=[0, 1], rewards=[1, 1], propensities=[0.25, 0.75])
    >>> ClippedIPS(threshold=2.0).answer(Question(log, Fixed([0.75, 0.25]))).value
    1.1666666666666667

    By hand: the weights 3 and 1/3 become 2 and 1/3.
    """

    threshold: Threshold = "auto"

    def __post_init__(self) -> None:
        check_threshold(self.threshold)

    def answer(self, question: Question) -> Estimate:
        """The average reward under clipped weights."""
        return answer_shaped("ClippedIPS", CLIP, self.threshold, question, model=False)
