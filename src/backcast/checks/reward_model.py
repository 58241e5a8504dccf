"""check_reward_model(): contract tests for a reward model."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np

from backcast._arrays import FloatArray
from backcast.checks.evaluator import ROUNDING, attributes_of
from backcast.checks.findings import ContractReport
from backcast.errors import ContractError
from backcast.log import Log, replace_columns
from backcast.policies._calls import describe
from backcast.reward_models.cross_fitting import CrossFit
from backcast.reward_models.regression import RewardModel

SINGLE_EVENTS = 20  # events that are predicted one at a time


def check_reward_model(model: RewardModel, log: Log, *, seed: int = 0) -> ContractReport:
    """Check the properties of a reward model that evaluators rely on; raise :class:`ContractError` at a violation.

    Parameters
    ----------
    model
        The model, not fitted; only copies of it are fitted.
    log
        Events to fit it on, a few hundred that are like yours.
    seed
        Seed of the folds.

    Examples
    --------
    >>> from backcast.reward_models.regression import Constant
    >>> log = Log([[0.0], [1.0], [2.0]], actions=[0, 1, 0], rewards=[1, 0, 1], propensities=[0.5] * 3)
    >>> print(check_reward_model(Constant(), log))
    Constant(value=None) passed 7 checks:
    - fit returns the model
    - there is a finite prediction for every event and action, within the reward range
    - two fits on the same events give the same predictions
    - a fit forgets earlier fits
    - fitting a copy does not change the original
    - the prediction of an event does not depend on the other events of its block
    - an event that is left out of a fit does not influence its own prediction
    """
    if isinstance(model, type) or not isinstance(model, RewardModel):
        raise ContractError(f"{model!r} is no reward model; give an instance with fit(log) and predict(contexts)")
    return ContractReport(describe(model), tuple(_check_laws(model, log, seed)))


def _check_laws(model: Any, log: Log, seed: int) -> Iterator[str]:
    name = describe(model)
    state = attributes_of(model)
    fitted = copy.deepcopy(model)
    if fitted.fit(log) is not fitted:
        raise ContractError(f"{name}.fit does not return the model; end it with 'return self'")
    yield "fit returns the model"
    predicted = np.asarray(fitted.predict(log.contexts))
    if predicted.shape != (len(log), log.n_actions):
        raise ContractError(
            f"{name}.predict returned the shape {predicted.shape}; expected {(len(log), log.n_actions)}, events by "
            "actions"
        )
    low, high = log.reward_bounds
    wrong = ~((predicted >= low - ROUNDING) & (predicted <= high + ROUNDING))
    if wrong.any():
        row, action = np.argwhere(wrong)[0]
        raise ContractError(
            f"row {int(log.rows[row])}, action {log.action_labels[action]!r}: {name} predicts "
            f"{predicted[row, action]:g}; rewards lie in [{low:g}, {high:g}]: clip predictions to log.reward_bounds"
        )
    yield "there is a finite prediction for every event and action, within the reward range"
    again = copy.deepcopy(model).fit(log).predict(log.contexts)
    _require_equal(name, "differ between two fits on the same events; fix the seed of the model", predicted, again)
    yield "two fits on the same events give the same predictions"
    refitted = copy.deepcopy(model).fit(replace_columns(log, rewards=log.rewards[::-1].copy())).fit(log)
    _require_equal(name, "depend on an earlier fit; start anew in fit", predicted, refitted.predict(log.contexts))
    yield "a fit forgets earlier fits"
    if attributes_of(model) != state:
        raise ContractError(f"{name} changed because a copy was fitted; copies must share nothing (see __deepcopy__)")
    yield "fitting a copy does not change the original"
    rows = np.unique(np.linspace(0, len(log) - 1, SINGLE_EVENTS).astype(np.int64))
    singly = np.concatenate([np.asarray(fitted.predict(log[[row]].contexts)) for row in rows])
    _require_equal(name, "depend on the other events of the block", predicted[rows], singly, tolerance=1e-6)
    yield "the prediction of an event does not depend on the other events of its block"
    row, rewards = len(log) // 2, log.rewards.copy()
    rewards[row] = low + high - rewards[row]
    first, second = (
        CrossFit(model, folds=2).predictions(each, np.random.default_rng(seed)).predicted[row]
        for each in (log, replace_columns(log, rewards=rewards, reward_range=(low, high)))
    )
    _require_equal(name, "of an event depend on its own reward, which was left out of the fit", first, second)
    yield "an event that is left out of a fit does not influence its own prediction"


def _require_equal(name: str, violation: str, first: Any, second: Any, tolerance: float = ROUNDING) -> None:
    difference: FloatArray = np.abs(np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64))
    if not difference.max() <= tolerance:
        raise ContractError(f"{name}: predictions {violation}. They differ by up to {difference.max():g}")
