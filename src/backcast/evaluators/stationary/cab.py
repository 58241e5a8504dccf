"""Continuous adaptive blending."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from backcast.arrays import IntArray
from backcast.engine.events import plain
from backcast.engine.scoring import probabilities_of
from backcast.errors import EvaluationError
from backcast.estimate import Estimate
from backcast.evaluators.question import Question, require_stationary
from backcast.evaluators.stationary.kernels import beyond, taken
from backcast.evaluators.stationary.method import Method, estimate_from, moments_of
from backcast.evaluators.stationary.predicting import Stage, StagedLog, staged, with_fitted_model
from backcast.evaluators.stationary.shapes import CLIP
from backcast.evaluators.stationary.tuning import Threshold, check_threshold, chosen, with_choice
from backcast.evaluators.stationary.weighing import Recipe, Weighed, WeighedLog, bounds, weigh_staged
from backcast.log import Log

__all__ = ["CAB"]


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
    >>> from backcast.policies.stationary import Fixed
    >>> log = Log(None, actions=[0], rewards=[1], propensities=[0.25], logging_probabilities=[[0.25, 0.75]])
    >>> CAB(threshold=2.0).answer(Question(log, Fixed([0.75, 0.25]), reward_model=[[0.5, 1.0]])).value
    2.125

    By hand: the weight 3 becomes 2, and the 0.75 - 2 * 0.25 left of action 0 earn 0.5 each.
    """

    threshold: Threshold = "auto"

    def __post_init__(self) -> None:
        check_threshold(self.threshold)

    def answer(self, question: Question) -> Estimate:
        """The clipped average, filled up by the model."""
        require_stationary(question.policy, "CAB")
        question, notes = with_fitted_model(question)
        log = replace(staged(question, model=True), notes=notes)
        if self.threshold != "auto":
            return _estimate(question, log, float(self.threshold))
        grid = CLIP.grid[::-1]
        choice = chosen(grid, [moments_of(_blended(question, log, m), [CLIP.at(m)])[0] for m in grid])
        return with_choice(_estimate(question, log, CLIP.neutral), choice)


def _estimate(question: Question, log: StagedLog, threshold: float) -> Estimate:
    method = Method(
        "CAB",
        model=True,
        blended=True,
        shape=CLIP.at(threshold),
        largest=lambda ratio: min(threshold, ratio),
        settings={"threshold": threshold, "tuned": False},
    )
    return estimate_from(method, question, _blended(question, log, threshold))


def _blended(question: Question, log: StagedLog, threshold: float) -> WeighedLog:
    # sums kept under one threshold are not those under another
    own = question.within(f"threshold-{threshold:g}")
    return weigh_staged(own, log, Recipe(partial(_weigh_blended, threshold), model=True))


def _weigh_blended(threshold: float, policy: Any, stage: Stage, block: Log, places: IntArray) -> Weighed:
    """The base is the model's share; the residual is the reward itself."""
    if block._logging is None:
        raise EvaluationError(
            "CAB needs the logger's probabilities of all actions and this log records only those of the logged ones; "
            "pass logging_probabilities to the log, or use PessimisticDR, which has the same expectation"
        )
    target = probabilities_of(policy, block)
    base = beyond(target, stage.table(block, places), plain(block._logging), threshold)
    return Weighed(taken(target, block._actions) / block._propensities, base, block._rewards, bounds(target, block))
