"""Calling a reward model: fit a copy of it, get checked predictions; what it raises becomes one error."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from backcast._arrays import FloatArray, IntArray
from backcast._parallel.stop import STOPPABLE
from backcast.errors import ContractError, OptionError, convert_errors
from backcast.log import Log
from backcast.reward_models.regression import RewardModel

REMEDY = "backcast.checks.check_reward_model(model, log) tests a model on a small log"


def fit_copy(model: RewardModel, log: Log, positions: IntArray | None = None) -> RewardModel:
    """Return a copy of the model, fitted on all events of the log or on those at these positions.

    A model with ``fit_rows`` gets the whole log and the positions, so that the events are not copied.
    """
    with STOPPABLE, convert_errors(model, "fit", describe_events(log, positions), REMEDY):
        model_copy = copy.deepcopy(model)
        if positions is None:
            fitted: RewardModel = model_copy.fit(log)
        elif callable(getattr(model_copy, "fit_rows", None)):
            fitted = model_copy.fit_rows(log, positions)  # type: ignore[attr-defined]
        else:
            fitted = model_copy.fit(log[positions])
    if not callable(getattr(fitted, "predict", None)):
        raise ContractError(f"{type(model).__name__}.fit returned {fitted!r}; end it with 'return self'")
    return fitted


def predict(model: RewardModel, log: Log) -> FloatArray:
    """Return the checked predictions of a fitted model for all actions at every event, shape ``(n, K)``."""
    with STOPPABLE, convert_errors(model, "predict", describe_events(log), REMEDY):
        predicted = np.asarray(model.predict(log.contexts), dtype=np.float64)
    return check_predictions(predicted, log, f"{type(model).__name__}.predict", ContractError)


def predict_actions(model: Any, log: Log, actions: IntArray) -> FloatArray:
    """Return the predictions of a model that can predict one action per event."""
    with STOPPABLE, convert_errors(model, "predict_actions", describe_events(log), REMEDY):
        return np.asarray(model.predict_actions(log.contexts, actions), dtype=np.float64)


def check_predictions(
    predicted: FloatArray, log: Log, source: str, error: type[ContractError | OptionError]
) -> FloatArray:
    """Return predictions as an array for compiled code, or raise the error: one number per event and action is needed.

    >>> log = Log(None, actions=[0, 1], rewards=[0, 1], propensities=[0.5, 0.5])
    >>> check_predictions(np.zeros((2, 3)), log, "Mine.predict", ContractError)
    Traceback (most recent call last):
    backcast.errors.ContractError: Mine.predict: predictions have shape (2, 3); expected (2, 2), a row for each event \
and a column for each action
    """
    expected = (len(log), log.n_actions)
    if predicted.shape != expected:
        raise error(
            f"{source}: predictions have shape {predicted.shape}; expected {expected}, a row for each event "
            "and a column for each action"
        )
    if not np.isfinite(predicted).all():
        row, action = (int(i) for i in np.argwhere(~np.isfinite(predicted))[0])
        raise error(
            f"{source}: the prediction for row {int(log.columns.rows[row])}, action {log.action_labels[action]!r} is "
            f"{predicted[row, action]}; predictions must be finite numbers"
        )
    # compiled code is specialised for contiguous and writable arrays
    return np.require(predicted, np.float64, ["C", "W"])


def describe_events(log: Log, positions: IntArray | None = None) -> str:
    """Return the number of events at these positions, by default of all, and their first and last row.

    >>> log = Log(None, actions=[0] * 5, rewards=[0] * 5, propensities=[1] * 5)
    >>> describe_events(log), describe_events(log, np.array([1, 3]))
    ('5 events of rows 0..4', '2 events of rows 1..3')
    """
    rows = log.columns.rows
    size = rows.size if positions is None else positions.size
    if size == 0:
        return "0 events"
    first, last = (0, -1) if positions is None else (positions[0], positions[-1])
    return f"{size:,} events of rows {int(rows[first])}..{int(rows[last])}"
