"""Estimators that differ only in the shape they give the weights."""

from __future__ import annotations

from backcast.estimate import Estimate
from backcast.evaluators.question import Question, require_stationary
from backcast.evaluators.stationary.method import Method, estimate_from
from backcast.evaluators.stationary.shapes import Family
from backcast.evaluators.stationary.tuning import Threshold, tuned, with_choice
from backcast.evaluators.stationary.weighing import weigh

__all__ = ["answer_shaped"]


def answer_shaped(name: str, family: Family, threshold: Threshold, question: Question, *, model: bool) -> Estimate:
    """The estimate with weights of this family, at the threshold given or chosen by SLOPE++."""
    require_stationary(question.policy, name)
    events = weigh(question, model=model)
    if threshold == "auto":
        choice = tuned(family, events)
        return with_choice(estimate_from(Method(name, model=model), question, events, choice.neutral), choice)
    fixed = float(threshold)
    method = Method(
        name,
        model=model,
        shape=family.at(fixed),
        largest=lambda ratio: family.largest(fixed, ratio),
        settings={"threshold": fixed, "tuned": False},
    )
    return estimate_from(method, question, events)
