"""Parts of the log with honest predictions: cross-fitted in memory, fitted on the head of a stream."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from backcast.arrays import FloatArray
from backcast.engine.scoring import joined_contexts
from backcast.errors import EvaluationError
from backcast.evaluators.question import Question, Streams
from backcast.log import Log
from backcast.reward_models.honesty import Fitted, Given, HonestModel, make_honest

__all__ = ["HEAD", "Predicted", "PredictedParts", "predicted_parts"]

HEAD = 100_000  # events at the head of a stream that train its reward model


class Predicted(NamedTuple):
    """Events with the predicted reward of every action, None where no model is asked."""

    log: Log
    predicted: FloatArray | None


@dataclass(frozen=True)
class PredictedParts:
    """Predicted parts of a log, as often as wanted, and what a reader must know of them."""

    parts: Callable[[], Iterator[Predicted]]
    notes: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Predicted]:
        return self.parts()


def predicted_parts(question: Question, *, model: bool) -> PredictedParts:
    """The question's log with predictions that owe nothing to the events they are for.

    In memory the reward model is kept honest as asked, cross-fitted by default. Of a stream the first ``HEAD``
    events train the model and are not evaluated, unless it comes fitted; a stream shorter than that is read whole.
    """
    if not model:
        return PredictedParts(lambda: (Predicted(part, None) for part in question.parts()))
    honest = make_honest(question.reward_model)
    if question.in_memory:
        return _in_memory(honest, question.log, question.seed)
    if isinstance(honest, Fitted | Given):
        return PredictedParts(lambda: (_predicted(honest, part) for part in question.parts()))
    return _after_head(honest, question)


def _in_memory(honest: HonestModel, log: Log, seed: int) -> PredictedParts:
    left, predicted = honest.predictions(log, Streams.of(seed).folds)
    return PredictedParts(lambda: iter((Predicted(left, predicted),)))


def _predicted(honest: Fitted | Given, part: Log) -> Predicted:
    if isinstance(honest, Given) and np.ndim(honest.predicted) == 2:
        honest = Given(np.asarray(honest.predicted)[part.rows])
    return Predicted(part, honest.predictions(part, np.random.default_rng(0)).predicted)


def _after_head(honest: Any, question: Question) -> PredictedParts:
    parts = iter(question.log)
    head = list(_head(parts))
    if next(parts, None) is None:
        return _in_memory(honest, joined_log(head), question.seed)
    if not hasattr(honest, "model"):
        raise EvaluationError(
            f"{type(honest).__name__} cannot be kept honest over a stream; give a reward model, which is fitted on "
            "the stream's head, or Fitted(model)"
        )
    fitted = Fitted(copy.deepcopy(honest.model).fit(joined_log(head)))
    events = sum(len(part) for part in head)
    return PredictedParts(
        lambda: (_predicted(fitted, part) for part in islice(iter(question.log), len(head), None)),
        (f"the first {events:,} events of the stream trained the reward model and were not evaluated",),
    )


def _head(parts: Iterator[Log]) -> Iterator[Log]:
    events = 0
    while events < HEAD and (part := next(parts, None)) is not None:
        events += len(part)
        yield part


def joined_log(parts: list[Log]) -> Log:
    """Parts end to end as one log.

    >>> log = Log(contexts=[[0.0], [1.0], [2.0]], actions=[0, 1, 0], rewards=[1, 2, 3], propensities=[0.5] * 3)
    >>> joined_log([log[:1], log[1:]]).rewards
    array([1., 2., 3.])
    """
    names = ("_actions", "_rewards", "_propensities", "_available", "_times", "_logging", "_rows")
    columns = {name: [getattr(part, name) for part in parts] for name in names}
    whole = {name: None if some[0] is None else np.concatenate(some) for name, some in columns.items()}
    return parts[0].replace(_contexts=joined_contexts([part._contexts for part in parts]), **whole)
