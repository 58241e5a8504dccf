"""Who predicts which events: models that never saw them, cross-fitted in memory, fitted on the head of a stream."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from backcast.arrays import FloatArray, IntArray
from backcast.checkpoint import Checkpoint
from backcast.errors import EvaluationError, OptionError
from backcast.evaluators.heads import cut_head
from backcast.evaluators.question import Question, Streams
from backcast.log import Log
from backcast.reward_models.folds import fold_numbers
from backcast.reward_models.honesty import CrossFit, Fitted, Given, HonestModel, make_honest

__all__ = ["HEAD", "Predictor", "Stage", "StagedLog", "staged", "with_fitted_model"]

HEAD = 100_000  # events at the head of a stream that train its reward model
PROBE = 8  # events of the head that a model is asked about
ONCE = "the log is a {}, which can be read only once; give a Log, a stream from scan_log, or a list of parts"


class Predictor(Protocol):
    """Predicted rewards of all actions for a block of a stage's events, shape ``(m, K)``."""

    def __call__(self, block: Log, places: IntArray) -> FloatArray:
        """``places`` are the block's positions within the stage."""
        ...


class Stage(NamedTuple):
    """Events of one part of the log that one model predicts.

    ``places`` says where in the part they stand (None: they are all of it, in order); ``model`` is a fitted reward
    model where there is one, and ``predict`` asks it or looks its answers up; both are None where nobody predicts.
    ``level`` is the answer where it is one number for all.
    """

    log: Log
    places: IntArray | None = None
    predict: Predictor | None = None
    model: Any = None
    level: float | None = None

    def table(self, block: Log, places: IntArray) -> FloatArray:
        """Predicted reward of all actions at a block of the stage's events, shape ``(m, K)``."""
        if self.predict is not None:
            return self.predict(block, places)
        return np.full((len(block), block.n_actions), 0.0 if self.level is None else self.level)


@dataclass(frozen=True)
class StagedLog:
    """Parts of a log, each as its stages, as often as wanted; and what a reader must know of them."""

    parts: Callable[[], Iterator[list[Stage]]]
    notes: tuple[str, ...] = ()


def staged(question: Question, *, model: bool) -> StagedLog:
    """The question's log with predictors that owe nothing to the events they predict.

    In memory the reward model is kept honest as asked, cross-fitted by default; a stream must have been through
    :func:`with_fitted_model`.
    """
    if isinstance(question.log, Iterator):
        raise EvaluationError(ONCE.format(type(question.log).__name__))
    if not model:
        return StagedLog(lambda: ([Stage(part)] for part in question.parts()))
    honest = make_honest(question.reward_model)
    if question.in_memory:
        return _in_memory(honest, question.log, question.seed)
    assert isinstance(honest, Fitted | Given)
    return StagedLog(lambda: ([_ready(honest, part)] for part in question.parts()))


def with_fitted_model(question: Question) -> tuple[Question, tuple[str, ...]]:
    """The question with a reward model that can be asked about any part of a stream, and what a reader must know.

    Of a stream the first ``HEAD`` events train the model and are not evaluated, unless it comes fitted; a stream no
    longer than that is read whole. A log in memory stays as it is.
    """
    honest = make_honest(question.reward_model)
    if question.in_memory or isinstance(honest, Fitted | Given):
        return question, ()
    if isinstance(question.log, Iterator):
        raise EvaluationError(ONCE.format(type(question.log).__name__))
    head, rest = cut_head(question.log, HEAD)
    if rest is None:
        return replace(question, log=head), ()
    if not hasattr(honest, "model"):
        raise EvaluationError(
            f"{type(honest).__name__} cannot be kept honest over a stream; give a reward model, which is fitted on "
            "the stream's head, or Fitted(model)"
        )
    fitted = Fitted(copy.deepcopy(honest.model).fit(head))
    if question.keep is not None:
        check_said(question.keep, fitted.model, head[:PROBE])
    note = f"the first {len(head):,} events of the stream trained the reward model and were not evaluated"
    return replace(question, log=rest, reward_model=fitted), (note,)


def check_said(keep: Checkpoint, model: Any, some: Log) -> None:
    """Refuse a model that says something else of these events than it said when the kept work was done."""
    said = np.asarray(model.predict(some.contexts))
    kept = keep.get("said")
    if kept is None:
        keep.put("said", said)
    elif not np.array_equal(kept.value, said):
        raise OptionError(
            f"{type(model).__name__} came out differently when it was fitted on the same events again, so the work "
            "that was kept does not go with it; fix its seed, remove the checkpoint folder and start again"
        )


def _in_memory(honest: HonestModel, log: Log, seed: int) -> StagedLog:
    rng = Streams.of(seed).folds
    if isinstance(honest, Fitted | Given):
        stages = [_ready(honest, log)]
    elif isinstance(honest, CrossFit) and len(log) > 1:
        stages = list(_cross_fitted(honest, log, rng))
    else:
        left, predicted = honest.predictions(log, rng)
        stages = [_looked_up(left, predicted)]
    return StagedLog(lambda: iter((stages,)))


def _cross_fitted(honest: CrossFit, log: Log, rng: np.random.Generator) -> Iterator[Stage]:
    """Stages of ``CrossFit``: the very models of its ``predictions``, but no table of events times actions."""
    fold = fold_numbers(len(log), min(honest.folds, len(log)), rng)
    for number in range(int(fold.max()) + 1):
        held = np.flatnonzero(fold == number)
        model = copy.deepcopy(honest.model).fit(log[fold != number])
        yield _asked(model, log[held], held)


def _ready(honest: Fitted | Given, part: Log) -> Stage:
    if isinstance(honest, Fitted):
        return _asked(honest.model, part)
    if np.ndim(honest.predicted) == 0:
        return Stage(part, level=float(np.asarray(honest.predicted)))
    table = np.asarray(honest.predicted, dtype=np.float64)
    # by row number, so that a table made for the whole stream serves each of its parts
    own = table[part.rows] if len(table) != len(part) and part.rows.max() < len(table) else table
    return _looked_up(part, Given(own).predictions(part, np.random.default_rng(0)).predicted)


def _asked(model: Any, part: Log, places: IntArray | None = None) -> Stage:
    def predict(block: Log, places: IntArray) -> FloatArray:
        return Fitted(model).predictions(block, np.random.default_rng(0)).predicted

    return Stage(part, places, predict, model)


def _looked_up(part: Log, predicted: FloatArray) -> Stage:
    return Stage(part, None, lambda block, places: predicted[places])
