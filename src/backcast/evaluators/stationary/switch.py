"""SWITCH-DR."""

from __future__ import annotations

from dataclasses import dataclass

from backcast.estimate import Estimate
from backcast.evaluators.question import Question
from backcast.evaluators.stationary.shaped import answer_shaped
from backcast.evaluators.stationary.shapes import SWITCH
from backcast.evaluators.stationary.tuning import Threshold, check_threshold

__all__ = ["SwitchDR"]


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
    >>> from backcast.policies.stationary import Fixed
    >>> log = Log(contexts=None, actions=[0, 1], rewards=[1, 1], propensities=[0.25, 0.5])
    >>> SwitchDR(threshold=2.0).answer(Question(log, Fixed([0.75, 0.25]), reward_model=0.5)).value
    0.625

    By hand: the weight 3 is switched off; 0.5 from the model and 0.5 * 0.5 / 2 from the other event.
    """

    threshold: Threshold = "auto"

    def __post_init__(self) -> None:
        check_threshold(self.threshold)

    def answer(self, question: Question) -> Estimate:
        """The model's answer, corrected where the weights are moderate."""
        return answer_shaped("SwitchDR", SWITCH, self.threshold, question, model=True)
