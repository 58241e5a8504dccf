"""Predicted rewards beside each part of the log, honest for a log in memory and for a stream."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

from backcast.arrays import FloatArray
from backcast.errors import OptionError
from backcast.evaluators.question import Question, Streams
from backcast.log import Log
from backcast.reward_models import Fitted, Given, HonestPredictions, RewardModel, Split, make_honest

__all__ = ["HEAD_ROWS", "honest_predictions", "predicted_parts"]

HEAD_ROWS = 100_000
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


def predicted_parts(question: Question, streams: Streams) -> Iterator[tuple[Log, FloatArray]]:
    """Parts to evaluate with the predictions for them; one row of predictions may serve a whole part.

    A log in memory takes any reward model. A stream is read once, so what may come with it is: nothing (the running
    mean of the rewards before each part), a number, a ``Fitted`` model, or a model that is fitted on the head of the
    stream (up to 100,000 events, which are then not evaluated).
    """
    model = question.reward_model
    if question.in_memory and isinstance(model, int | float) and math.isfinite(model):
        # one row for all events: a table of them would cost more than the whole evaluation
        yield question.log, np.full((1, question.log.n_actions), float(model))
        return
    if question.in_memory:
        yield make_honest(model).predictions(question.log, streams.folds)
        return
    yield from _stream_predictions(question)


def _stream_predictions(question: Question) -> Iterator[tuple[Log, FloatArray]]:
    model = question.reward_model
    parts = question.parts()
    if model is None:
        yield from _running_mean(parts)
    elif isinstance(model, int | float):
        for part in parts:
            yield part, np.full((1, part.n_actions), float(model))
    elif isinstance(model, Fitted):
        for part in parts:
            yield part, np.asarray(model.model.predict(part.contexts))
    elif isinstance(model, RewardModel | Split):
        yield from _fitted_on_head(model.model if isinstance(model, Split) else model, parts)
    else:
        raise OptionError(
            f"{type(model).__name__} needs the whole log in memory; with a stream use None, a number, "
            "Fitted(model), or a plain model, which is fitted on the head of the stream"
        )


def _running_mean(parts: Iterator[Log]) -> Iterator[tuple[Log, FloatArray]]:
    total, events = 0.0, 0
    for part in parts:
        prior = 0.0 if part.reward_range is None else sum(part.reward_range) / 2
        yield part, np.full((1, part.n_actions), total / events if events else prior)
        total += float(part.rewards.sum())
        events += len(part)


def _fitted_on_head(model: RewardModel, parts: Iterator[Log]) -> Iterator[tuple[Log, FloatArray]]:
    first = next(parts)
    head = first[:HEAD_ROWS] if len(first) > HEAD_ROWS else first
    fitted = Fitted(model).model.fit(head)
    rest = [first[len(head) :]] if len(first) > len(head) else []
    for part in itertools.chain(rest, parts):
        yield part, np.asarray(fitted.predict(part.contexts))
