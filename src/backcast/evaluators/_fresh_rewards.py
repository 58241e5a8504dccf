"""Means of the fresh rewards that fill rounds, from models that have not seen the events on which values are read.

A policy that learned from a model of the held-out rewards would be read on the noise it has learned: with a model
fitted on the whole log, the bias estimate was +0.011 where the bias was -0.008 (2,000 events, 200 coefficients,
T = 3n/10; docs/theory.md, section 4). So an event is predicted without its own fold and without the one held out.
"""

from __future__ import annotations

from itertools import combinations_with_replacement
from typing import Any, NamedTuple

import numpy as np

from backcast._arrays import BoolArray, FloatArray, IntArray
from backcast.log import Log, replace_columns
from backcast.reward_models._calls import fit_copy, predict
from backcast.reward_models.cross_fitting import CrossFit, Progressive, Split, default_model
from backcast.reward_models.low_variance import LowVariance
from backcast.reward_models.regression import PerAction, RewardModel, assign_folds, is_estimator

FOLDS = 5  # of which one is held out: a history from four fifths of the events is exhausted later than one from a half


class FreshRewards(NamedTuple):
    """The fold of each event, and the means of fresh rewards at its context and action by the fold that is held out.

    ``means`` has a row per fold, or one row if predictions do not come from rewards of the log.
    """

    fold: IntArray
    means: FloatArray

    @classmethod
    def from_predictions(cls, log: Log, predicted: FloatArray, rng: np.random.Generator) -> FreshRewards:
        """Return means from a table of predictions ``(n, K)``, or one row for all events.

        >>> log = Log(None, actions=[0, 1], rewards=[0, 1], propensities=[0.5, 0.5])
        >>> FreshRewards.from_predictions(log, np.array([[0.25, 0.75]]), np.random.default_rng(0)).means
        array([[0.25, 0.75]])
        """
        rows = np.arange(len(log)) if len(predicted) > 1 else 0
        return cls(assign_folds(len(log), FOLDS, rng), predicted[rows, log.columns.actions][None])

    @classmethod
    def from_model(cls, log: Log, model: RewardModel, rng: np.random.Generator) -> FreshRewards:
        """Return means from copies of a model, each fitted without one fold or two.

        >>> from backcast.reward_models.regression import Constant
        >>> log = Log(None, actions=[0] * 10, rewards=[0] * 9 + [1], propensities=[1] * 10)
        >>> fresh = FreshRewards.from_model(log, Constant(), np.random.default_rng(0))
        >>> fresh.means[:, 9], fresh.means[fresh.fold[9]].max()
        (array([0., 0., 0., 0., 0.]), np.float64(0.0))

        By hand: the last event is predicted without its reward; so are the others if its fold is held out.
        """
        # the policy learns from these rewards, whatever outcome is read
        log = replace_columns(log, rewards=log.columns.learned_rewards, learned=None)
        fold = assign_folds(len(log), FOLDS, rng)
        means = np.empty((FOLDS, len(log)))
        members = [np.flatnonzero(fold == f) for f in range(FOLDS)]
        for f, g in combinations_with_replacement(range(FOLDS), 2):
            fitted = fit_copy(model, log, np.flatnonzero((fold != f) & (fold != g)))
            for held_out, rows in {f: members[g], g: members[f]}.items():
                predicted = predict(fitted, log[rows])
                means[held_out, rows] = predicted[np.arange(rows.size), log.columns.actions[rows]]
        return cls(fold, means)

    def of_rows(self, rows: IntArray) -> FreshRewards:
        """Return the fresh rewards of some of the events."""
        return FreshRewards(self.fold[rows], self.means[:, rows])

    def own_means(self) -> FloatArray:
        """Return the mean of each event without its own fold, where no events are held out."""
        own = np.minimum(self.fold, len(self.means) - 1)
        return np.ascontiguousarray(self.means[own, np.arange(self.fold.size)])

    def hold_out(self, number: int) -> tuple[BoolArray, FloatArray]:
        """Return the events that pass ``number`` holds out, fold after fold, and the means of that pass."""
        held_out = number % FOLDS
        return self.fold == held_out, np.ascontiguousarray(self.means[min(held_out, len(self.means) - 1)])


def model_of_fresh_rewards(reward_model: Any, log: Log) -> RewardModel | None:
    """Return the model that fresh rewards are drawn from; None if predictions are given, or fitted elsewhere.

    ``LowVariance`` shrinks what it predicts, and a number says nothing about actions: a policy that learns from them
    learns less than live. The default model takes their place (T = n/5, all rounds filled: error of the value -0.039
    with LowVariance, -0.003 with PerAction; docs/theory.md, section 4).

    >>> log = Log(None, actions=[0, 1], rewards=[0, 1], propensities=[0.5, 0.5])
    >>> model_of_fresh_rewards(CrossFit(LowVariance()), log), model_of_fresh_rewards(np.zeros((2, 2)), log)
    (PerAction(estimator=None, weights=None), None)
    """
    model = reward_model.model if isinstance(reward_model, CrossFit | Progressive | Split) else reward_model
    if model is None or isinstance(model, LowVariance | int | float):
        return default_model(log)
    if is_estimator(model):
        return PerAction(model)
    return model if isinstance(model, RewardModel) else None
