"""Predicted rewards beside each part of the log, honest for a log in memory and for a stream."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from backcast.arrays import FloatArray
from backcast.errors import EvaluationError, OptionError
from backcast.evaluators.heads import cut_head
from backcast.evaluators.question import Question, Streams
from backcast.log import Log
from backcast.reward_models import Fitted, Given, HonestPredictions, RewardModel, Split, make_honest

__all__ = ["HEAD_ROWS", "Guide", "guided", "honest_predictions", "predictions_in_memory"]

HEAD_ROWS = 100_000
MEAN_ROWS = 65_536  # events between two updates of the running mean
PIECE = "predictions"


def honest_predictions(question: Question) -> HonestPredictions:
    """The events of a log in memory with predictions for them; kept with the work that is done, once they are there."""
    kept = None if question.keep is None else question.keep.get(PIECE)
    if kept is not None:
        return HonestPredictions(question.log, kept.value)
    model = make_honest(question.reward_model)
    found = model.predictions(question.log, Streams.of(question.seed).folds)
    # predictions that were given cost nothing; a model that gave up events for its own has another log
    if question.keep is not None and found.log is question.log and not isinstance(model, Given):
        question.keep.put(PIECE, found.predicted)
    return found


def predictions_in_memory(question: Question, streams: Streams) -> tuple[Log, FloatArray]:
    """The events to evaluate of a log in memory, with a row of predictions for each, or one row for all."""
    model = question.reward_model
    if isinstance(model, int | float) and math.isfinite(model):
        # one row for all events: a table of them would cost more than the whole evaluation
        return question.log, np.full((1, question.log.n_actions), float(model))
    return make_honest(model).predictions(question.log, streams.folds)


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


def guided(question: Question) -> tuple[Question, Guide]:
    """The question without the events that a reward model was trained on, and who predicts the rest.

    A stream is read once, so what may come with it is: nothing (the running mean of the rewards, set anew every 65,536
    events), a number, a ``Fitted`` model, or a model that is fitted on the head of the stream (its first 100,000
    events, which are then not evaluated).
    """
    model = question.reward_model
    if model is None:
        return question, RunningMean()
    if isinstance(model, int | float):
        return question, Level(float(model))
    if isinstance(model, Fitted):
        return question, Model(model.model)
    if not isinstance(model, RewardModel | Split):
        raise OptionError(
            f"{type(model).__name__} needs the whole log in memory; with a stream use None, a number, "
            "Fitted(model), or a plain model, which is fitted on the head of the stream"
        )
    head, rest = cut_head(question.log, HEAD_ROWS)
    if rest is None:
        raise EvaluationError(
            f"the reward model is trained on the first {HEAD_ROWS:,} events of a stream and this one has only "
            f"{len(head):,}; read it with read_log, or give Fitted(model) or a number"
        )
    own = model.model if isinstance(model, Split) else model
    return replace(question, log=rest), Model(Fitted(own).model.fit(head))


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
