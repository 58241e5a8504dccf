"""Out-of-sample reward predictions: for a log in memory, and for a stream."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from backcast._arrays import FloatArray, IntArray
from backcast._request import EvaluationRequest, RandomStreams
from backcast.errors import EvaluationError, OptionError
from backcast.io.stream import LogStream
from backcast.log import Log
from backcast.reward_models._calls import fit_copy, predict
from backcast.reward_models.cross_fitting import (
    CrossFit,
    Fitted,
    Given,
    OutOfSamplePredictions,
    as_out_of_sample,
    predict_out_of_sample,
)
from backcast.reward_models.regression import assign_folds

HEAD_EVENTS = 100_000  # events at the head of a stream that train its reward model
MEAN_EVENTS = 65_536  # events between two updates of the running mean
PROBE_EVENTS = 8  # events on which a model that is fitted again is compared with its former self


def out_of_sample_predictions(request: EvaluationRequest) -> OutOfSamplePredictions:
    """Return the events of a log in memory with their predictions: one row per event, or one row for all.

    Predictions of a fitted model are stored in the checkpoint.
    """
    log, model, checkpoint = request.log, request.reward_model, request.checkpoint
    assert isinstance(log, Log)
    if isinstance(model, int | float) and math.isfinite(model):
        # one row for all events: a whole table would cost more than the evaluation
        return OutOfSamplePredictions(log, np.full((1, log.n_actions), float(model)))
    stored = None if checkpoint is None else checkpoint.get("predictions")
    if stored is not None:
        if np.shape(stored.value) != (len(log), log.n_actions):
            raise ValueError(f"stored predictions have the shape {np.shape(stored.value)}")  # the file was forged
        return OutOfSamplePredictions(log, stored.value)
    model = as_out_of_sample(model, log=log)
    predictions = predict_out_of_sample(model, log, RandomStreams.from_seed(request.seed).folds)
    # given predictions cost nothing; a model that sets events aside for training returns another log
    if checkpoint is not None and predictions.log is log and not isinstance(model, Given):
        checkpoint.put("predictions", predictions.predicted)
    return predictions


def with_stream_model(request: EvaluationRequest) -> tuple[EvaluationRequest, tuple[str, ...]]:
    """Return the request with a reward model that can predict any part of a stream, and notes for the reader.

    Unless the model is given or fitted, it is fitted on the first ``HEAD_EVENTS`` events of the stream, which are then
    not evaluated. A stream no longer than that is read into memory and evaluated there.
    """
    model = as_out_of_sample(request.reward_model, log=request.log)
    if isinstance(request.log, Log) or isinstance(model, Fitted | Given):
        return request, ()
    head, remainder = request.log.split_head(HEAD_EVENTS)
    if remainder is None:
        return replace(request, log=head), ()
    if not hasattr(model, "model"):
        raise EvaluationError(
            f"{type(model).__name__} needs the whole log in memory; with a stream use a reward model, which is fitted "
            f"on the first {HEAD_EVENTS:,} events, Fitted(model), or a number"
        )
    fitted = Fitted(fit_copy(model.model, head))
    _check_refit(request, fitted.model, head[:PROBE_EVENTS])
    note = f"the first {len(head):,} events of the stream trained the reward model and were not evaluated"
    return replace(request, log=remainder, reward_model=fitted), (note,)


def _check_refit(request: EvaluationRequest, model: Any, probe: Log) -> None:
    """Raise if the model predicts something else than it did when the stored jobs were run."""
    if request.checkpoint is None:
        return
    predictions = predict(model, probe)
    stored = request.checkpoint.get("probe")
    if stored is None:
        request.checkpoint.put("probe", predictions)
    elif not np.array_equal(stored.value, predictions):
        raise OptionError(
            f"{type(model).__name__} predicts something else after it was fitted on the same events again, so the "
            "stored jobs do not belong to it; fix its seed, remove the checkpoint folder and start again"
        )


class StreamRewardModel:
    """Predictions for the parts of a stream, in order; the base class predicts one number.

    ``predict_part`` yields the part in blocks, each with its predictions: one row per event, or one row for all.
    """

    def __init__(self, constant: float = 0.0) -> None:
        self._constant = constant

    def predict_part(self, part: Log) -> Iterator[tuple[Log, FloatArray]]:
        """Yield the part with its predictions."""
        yield part, np.full((1, part.n_actions), self._constant)

    def state(self) -> list[Any]:
        """Return what was learned from the parts so far."""
        return []

    def load_state(self, state: list[Any]) -> None:
        """Continue from a state."""

    def probe(self, log: Log) -> dict[str, FloatArray]:
        """Return predictions that identify a fitted model, by its name."""
        return {}


class FittedStreamModel(StreamRewardModel):
    """Predictions of a fitted reward model."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def predict_part(self, part: Log) -> Iterator[tuple[Log, FloatArray]]:
        """Yield the part with its predictions."""
        yield part, predict(self._model, part)

    def probe(self, log: Log) -> dict[str, FloatArray]:
        """Return predictions that identify the model."""
        return {type(self._model).__name__: predict(self._model, log)}


class GivenStreamModel(StreamRewardModel):
    """Given predictions, one row per event of the whole stream."""

    def __init__(self, given: Given) -> None:
        self._given = given

    def predict_part(self, part: Log) -> Iterator[tuple[Log, FloatArray]]:
        """Yield the part with its rows of the table."""
        yield part, self._given.predictions(part, np.random.default_rng(0)).predicted


@dataclass
class RunningMean(StreamRewardModel):
    """The mean reward before each block of events; blocks do not depend on how the stream is read."""

    total: float = 0.0
    events: int = 0
    block: list[FloatArray] = field(default_factory=list)

    def predict_part(self, part: Log) -> Iterator[tuple[Log, FloatArray]]:
        """Yield the part, cut where a block ends."""
        prior = 0.0 if part.reward_range is None else sum(part.reward_range) / 2
        start = 0
        while start < len(part):
            missing = MEAN_EVENTS - sum(rewards.size for rewards in self.block)
            cut = part[start : start + missing] if start or missing < len(part) else part
            yield cut, np.full((1, part.n_actions), self.total / self.events if self.events else prior)
            self.block.append(cut.columns.rewards)
            if len(cut) == missing:
                # one block at a time: sums of floats depend on how they are split
                self.total += float(np.concatenate(self.block).sum())
                self.events += MEAN_EVENTS
                self.block = []
            start += len(cut)

    def state(self) -> list[Any]:
        """Return the sums, and the rewards of the open block."""
        return [self.total, self.events, np.concatenate([np.zeros(0), *self.block])]

    def load_state(self, state: list[Any]) -> None:
        """Continue from a state."""
        self.total, self.events, rewards = state
        self.block = [rewards] if rewards.size else []


def stream_reward_model(reward_model: Any) -> StreamRewardModel:
    """Return the predictions for a stream: the running mean of the rewards if no model was given."""
    if reward_model is None:
        return RunningMean()
    model = as_out_of_sample(reward_model)
    if isinstance(model, Fitted):
        return FittedStreamModel(model.model)
    assert isinstance(model, Given)
    if np.ndim(model.predicted) == 0:
        return StreamRewardModel(float(np.asarray(model.predicted)))
    return GivenStreamModel(model)


class PredictedPart(NamedTuple):
    """Events of one part of a log whose rewards one model predicts.

    ``log`` is the part, ``positions`` are the positions of the events in it (None: all of them, in order). ``predict``
    returns the predictions ``(m, K)`` for a block and its positions; ``model`` is the fitted model, if there is one;
    ``constant`` is the prediction if it is one number for all. All three are None if rewards are not predicted.
    """

    log: Log
    positions: IntArray | None = None
    predict: Callable[[Log, IntArray], FloatArray] | None = None
    model: Any = None
    constant: float | None = None

    def table(self, block: Log, positions: IntArray) -> FloatArray:
        """Return the predicted rewards of all actions at a block of these events, shape ``(m, K)``."""
        if self.predict is not None:
            return self.predict(block, positions)
        return np.full((len(block), block.n_actions), 0.0 if self.constant is None else self.constant)


def predicted_parts(request: EvaluationRequest, *, uses_model: bool) -> Callable[[], Iterator[list[PredictedPart]]]:
    """Return a function that iterates over the parts of the log, each as the events of one or several models.

    In memory the reward model is used as requested, cross-fitted by default; a stream must have been through
    :func:`with_stream_model`.
    """
    log = request.log
    if not uses_model:
        return lambda: ([PredictedPart(part)] for part in log.parts())
    model = as_out_of_sample(request.reward_model, log=log)
    if isinstance(log, LogStream):
        assert isinstance(model, Fitted | Given)
        return lambda: ([_part_of_known_model(model, part)] for part in log.parts())
    rng = RandomStreams.from_seed(request.seed).folds
    if isinstance(model, Fitted | Given):
        parts = [_part_of_known_model(model, log)]
    elif isinstance(model, CrossFit) and len(log) > 1:
        parts = list(_cross_fitted_parts(model, log, rng))
    else:
        evaluated, predicted = predict_out_of_sample(model, log, rng)
        parts = [PredictedPart(evaluated, predict=lambda block, positions: predicted[positions])]
    return lambda: iter((parts,))


def _cross_fitted_parts(cross_fit: CrossFit, log: Log, rng: np.random.Generator) -> Iterator[PredictedPart]:
    """Yield the folds with the models of ``CrossFit.predictions``, without a table of events times actions."""
    fold = assign_folds(len(log), min(cross_fit.folds, len(log)), rng)
    for number in range(int(fold.max()) + 1):
        model = fit_copy(cross_fit.model, log, np.flatnonzero(fold != number))
        yield _part_of_model(model, log, np.flatnonzero(fold == number))


def _part_of_known_model(model: Fitted | Given, part: Log) -> PredictedPart:
    if isinstance(model, Fitted):
        return _part_of_model(model.model, part)
    if np.ndim(model.predicted) == 0:
        return PredictedPart(part, constant=float(np.asarray(model.predicted)))
    predicted = model.predictions(part, np.random.default_rng(0)).predicted
    return PredictedPart(part, predict=lambda block, positions: predicted[positions])


def _part_of_model(model: Any, part: Log, positions: IntArray | None = None) -> PredictedPart:
    return PredictedPart(part, positions, lambda block, positions: predict(model, block), model)
