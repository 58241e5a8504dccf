"""Predicted rewards beside each part of the log, honest for a log in memory and for a stream."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from backcast._arrays import FloatArray, IntArray
from backcast._parallel.checkpoint import Checkpoint
from backcast._request import EvaluationRequest, RandomStreams
from backcast.errors import EvaluationError, OptionError
from backcast.io.stream import cut_head
from backcast.log import Log
from backcast.reward_models.cross_fitting import (
    CrossFit,
    Fitted,
    Given,
    OutOfSampleModel,
    OutOfSamplePredictions,
    Split,
    as_out_of_sample,
    assign_folds,
)
from backcast.reward_models.regression import RewardModel

HEAD_ROWS = 100_000


MEAN_ROWS = 65_536  # events between two updates of the running mean


PIECE = "predictions"


def out_of_sample_predictions(request: EvaluationRequest) -> OutOfSamplePredictions:
    """The events of a log in memory with predictions for them; kept with the work that is done, once they are there."""
    kept = None if request.keep is None else request.keep.get(PIECE)
    if kept is not None:
        return OutOfSamplePredictions(request.log, kept.value)
    model = as_out_of_sample(request.reward_model)
    found = model.predictions(request.log, RandomStreams.of(request.seed).folds)
    # predictions that were given cost nothing; a model that gave up events for its own has another log
    if request.keep is not None and found.log is request.log and not isinstance(model, Given):
        request.keep.put(PIECE, found.predicted)
    return found


def predictions_in_memory(request: EvaluationRequest, streams: RandomStreams) -> tuple[Log, FloatArray]:
    """The events to evaluate of a log in memory, with a row of predictions for each, or one row for all."""
    model = request.reward_model
    if isinstance(model, int | float) and math.isfinite(model):
        # one row for all events: a table of them would cost more than the whole evaluation
        return request.log, np.full((1, request.log.n_actions), float(model))
    return as_out_of_sample(model).predictions(request.log, streams.folds)


class Guide(Protocol):
    """Who predicts the rewards of a stream as it comes by."""

    def predicted(self, part: Log) -> Iterator[tuple[Log, FloatArray]]:
        """The part in pieces, each with its predictions: a row an event, or one row for all."""
        ...

    def state(self) -> list[Any]:
        """What was learned from the parts so far, as plain values."""
        ...

    def restore(self, state: list[Any]) -> None:
        """Go on from such a state."""
        ...


def guided(request: EvaluationRequest) -> tuple[EvaluationRequest, Guide]:
    """The question without the events that a reward model was trained on, and who predicts the rest.

    A stream is read once, so what may come with it is: nothing (the running mean of the rewards, set anew every 65,536
    events), a number, a ``Fitted`` model, or a model that is fitted on the head of the stream (its first 100,000
    events, which are then not evaluated).
    """
    model = request.reward_model
    if model is None:
        return request, RunningMean()
    if isinstance(model, int | float):
        return request, Level(float(model))
    if isinstance(model, Fitted):
        return request, Model(model.model)
    if not isinstance(model, RewardModel | Split):
        raise OptionError(
            f"{type(model).__name__} needs the whole log in memory; with a stream use None, a number, "
            "Fitted(model), or a plain model, which is fitted on the head of the stream"
        )
    head, rest = cut_head(request.log, HEAD_ROWS)
    if rest is None:
        raise EvaluationError(
            f"the reward model is trained on the first {HEAD_ROWS:,} events of a stream and this one has only "
            f"{len(head):,}; read it with read_log, or give Fitted(model) or a number"
        )
    own = model.model if isinstance(model, Split) else model
    return replace(request, log=rest), Model(Fitted(own).model.fit(head))


@dataclass(frozen=True)
class Level:
    """One number for all."""

    value: float

    def predicted(self, part: Log) -> Iterator[tuple[Log, FloatArray]]:
        """The part as it is."""
        yield part, np.full((1, part.n_actions), self.value)

    def state(self) -> list[Any]:
        """Nothing is learned."""
        return []

    def restore(self, state: list[Any]) -> None:
        """There is nothing to go on from."""


@dataclass(frozen=True)
class Model:
    """A fitted model."""

    model: Any

    def predicted(self, part: Log) -> Iterator[tuple[Log, FloatArray]]:
        """The part as it is."""
        yield part, np.asarray(self.model.predict(part.contexts))

    def state(self) -> list[Any]:
        """Nothing more is learned."""
        return []

    def restore(self, state: list[Any]) -> None:
        """There is nothing to go on from."""


@dataclass
class RunningMean:
    """The mean of the rewards before each block of events; blocks do not depend on how the stream is read."""

    total: float = 0.0
    events: int = 0
    block: list[FloatArray] = field(default_factory=list)

    def predicted(self, part: Log) -> Iterator[tuple[Log, FloatArray]]:
        """The part, cut where a block ends."""
        prior = 0.0 if part.reward_range is None else sum(part.reward_range) / 2
        start = 0
        while start < len(part):
            missing = MEAN_ROWS - sum(rewards.size for rewards in self.block)
            piece = part[start : start + missing] if start or missing < len(part) else part
            yield piece, np.full((1, part.n_actions), self.total / self.events if self.events else prior)
            self._add(piece._rewards, missing)
            start += len(piece)

    def _add(self, rewards: FloatArray, missing: int) -> None:
        self.block.append(rewards)
        if rewards.size == missing:
            # a block at a time: sums of floats depend on how they are cut
            self.total += float(np.concatenate(self.block).sum())
            self.events += MEAN_ROWS
            self.block = []

    def state(self) -> list[Any]:
        """The sums, and the rewards of the block under way."""
        return [self.total, self.events, np.concatenate([np.zeros(0), *self.block])]

    def restore(self, state: list[Any]) -> None:
        """Go on from there."""
        self.total, self.events, begun = state
        self.block = [begun] if begun.size else []


HEAD = 100_000  # events at the head of a stream that train its reward model


PROBE = 8  # events of the head that a model is asked about


ONCE = "the log is a {}, which can be read only once; give a Log, a stream from scan_log, or a list of parts"


class Predictor(Protocol):
    """Predicted rewards of all actions for a block of a stage's events, shape ``(m, K)``."""

    def __call__(self, block: Log, places: IntArray) -> FloatArray:
        """``places`` are the block's positions within the stage."""
        ...


class PredictedPart(NamedTuple):
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

    parts: Callable[[], Iterator[list[PredictedPart]]]
    notes: tuple[str, ...] = ()


def predicted_parts(request: EvaluationRequest, *, model: bool) -> StagedLog:
    """The question's log with predictors that owe nothing to the events they predict.

    In memory the reward model is kept honest as asked, cross-fitted by default; a stream must have been through
    :func:`with_fitted_model`.
    """
    if isinstance(request.log, Iterator):
        raise EvaluationError(ONCE.format(type(request.log).__name__))
    if not model:
        return StagedLog(lambda: ([PredictedPart(part)] for part in request.parts()))
    honest = as_out_of_sample(request.reward_model)
    if request.in_memory:
        return _in_memory(honest, request.log, request.seed)
    assert isinstance(honest, Fitted | Given)
    return StagedLog(lambda: ([_ready(honest, part)] for part in request.parts()))


def with_fitted_model(request: EvaluationRequest) -> tuple[EvaluationRequest, tuple[str, ...]]:
    """The question with a reward model that can be asked about any part of a stream, and what a reader must know.

    Of a stream the first ``HEAD`` events train the model and are not evaluated, unless it comes fitted; a stream no
    longer than that is read whole. A log in memory stays as it is.
    """
    honest = as_out_of_sample(request.reward_model)
    if request.in_memory or isinstance(honest, Fitted | Given):
        return request, ()
    if isinstance(request.log, Iterator):
        raise EvaluationError(ONCE.format(type(request.log).__name__))
    head, rest = cut_head(request.log, HEAD)
    if rest is None:
        return replace(request, log=head), ()
    if not hasattr(honest, "model"):
        raise EvaluationError(
            f"{type(honest).__name__} cannot be kept honest over a stream; give a reward model, which is fitted on "
            "the stream's head, or Fitted(model)"
        )
    fitted = Fitted(copy.deepcopy(honest.model).fit(head))
    if request.keep is not None:
        check_said(request.keep, fitted.model, head[:PROBE])
    note = f"the first {len(head):,} events of the stream trained the reward model and were not evaluated"
    return replace(request, log=rest, reward_model=fitted), (note,)


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


def _in_memory(honest: OutOfSampleModel, log: Log, seed: int) -> StagedLog:
    rng = RandomStreams.of(seed).folds
    if isinstance(honest, Fitted | Given):
        stages = [_ready(honest, log)]
    elif isinstance(honest, CrossFit) and len(log) > 1:
        stages = list(_cross_fitted(honest, log, rng))
    else:
        left, predicted = honest.predictions(log, rng)
        stages = [_looked_up(left, predicted)]
    return StagedLog(lambda: iter((stages,)))


def _cross_fitted(honest: CrossFit, log: Log, rng: np.random.Generator) -> Iterator[PredictedPart]:
    """Stages of ``CrossFit``: the very models of its ``predictions``, but no table of events times actions."""
    fold = assign_folds(len(log), min(honest.folds, len(log)), rng)
    for number in range(int(fold.max()) + 1):
        held = np.flatnonzero(fold == number)
        model = copy.deepcopy(honest.model).fit(log[fold != number])
        yield _asked(model, log[held], held)


def _ready(honest: Fitted | Given, part: Log) -> PredictedPart:
    if isinstance(honest, Fitted):
        return _asked(honest.model, part)
    if np.ndim(honest.predicted) == 0:
        return PredictedPart(part, level=float(np.asarray(honest.predicted)))
    table = np.asarray(honest.predicted, dtype=np.float64)
    # by row number, so that a table made for the whole stream serves each of its parts
    own = table[part.rows] if len(table) != len(part) and part.rows.max() < len(table) else table
    return _looked_up(part, Given(own).predictions(part, np.random.default_rng(0)).predicted)


def _asked(model: Any, part: Log, places: IntArray | None = None) -> PredictedPart:
    def predict(block: Log, places: IntArray) -> FloatArray:
        return Fitted(model).predictions(block, np.random.default_rng(0)).predicted

    return PredictedPart(part, places, predict, model)


def _looked_up(part: Log, predicted: FloatArray) -> PredictedPart:
    return PredictedPart(part, None, lambda block, places: predicted[places])
