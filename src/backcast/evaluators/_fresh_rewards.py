"""Means of the fresh rewards that fill rounds, from models that have not seen the events on which values are read.

A policy that learned from a model of the held-out rewards would be read on the noise it has learned. So an event is
predicted without its own fold and without the one held out (docs/theory.md, section 4).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations_with_replacement
from typing import Any, NamedTuple

import numpy as np

from backcast._arrays import BoolArray, FloatArray, IntArray
from backcast.log import Log, replace_columns
from backcast.reward_models._calls import fit_copy, predict
from backcast.reward_models.cross_fitting import CrossFit, Progressive, Split, default_model
from backcast.reward_models.low_variance import LowVariance
from backcast.reward_models.regression import PerAction, RewardModel, Weighting, assign_folds, is_estimator

FOLDS = 5  # of which one is held out: a history from four fifths of the events is exhausted later than one from a half
WEIGHTINGS: tuple[Weighting, ...] = (None, "inverse", "inverse_square")  # of the default model, of which one is chosen
MOST_CHOICE_EVENTS = 20_000  # on which it is chosen: three times fifteen fits


class FreshRewards(NamedTuple):
    """The fold of each event, and the means of fresh rewards at its context and action by the fold that is held out.

    ``means`` has a row per fold, or one row if predictions do not come from a ``model`` that was fitted here.
    """

    fold: IntArray
    means: FloatArray
    model: RewardModel | None = None

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
        fold = assign_folds(len(log), FOLDS, rng)
        return cls(fold, _predict_without_folds(log, model, fold, range(FOLDS)), model)

    def of_rows(self, rows: IntArray) -> FreshRewards:
        """Return the fresh rewards of some of the events."""
        return FreshRewards(self.fold[rows], self.means[:, rows], self.model)

    def refit(self, log: Log, number: int) -> FreshRewards:
        """Return these fresh rewards, of a part of a log, from models fitted on that part alone, for one pass over it.

        ``number`` is that of the pass, which holds out one fold.
        """
        if self.model is None:
            return self
        return self._replace(means=_predict_without_folds(log, self.model, self.fold, [number % FOLDS]))

    def own_means(self) -> FloatArray:
        """Return the mean of each event without its own fold, where no events are held out."""
        own = np.minimum(self.fold, len(self.means) - 1)
        return np.ascontiguousarray(self.means[own, np.arange(self.fold.size)])

    def hold_out(self, number: int) -> tuple[BoolArray, FloatArray]:
        """Return the events that pass ``number`` holds out, fold after fold, and the means of that pass."""
        held_out = number % FOLDS
        return self.fold == held_out, np.ascontiguousarray(self.means[min(held_out, len(self.means) - 1)])


def _predict_without_folds(log: Log, model: RewardModel, fold: IntArray, held_out: Sequence[int]) -> FloatArray:
    """Return the means ``(FOLDS, n)`` of fresh rewards, for each of the folds to hold out (other rows: 0).

    Event k is predicted by a copy of the model that was fitted without the fold of k and without the one held out.
    """
    # the policy learns from these rewards, whatever outcome is read
    log = replace_columns(log, rewards=log.columns.learned_rewards, learned=None)
    means = np.zeros((FOLDS, len(log)))
    members = [np.flatnonzero(fold == f) for f in range(FOLDS)]
    for f, g in combinations_with_replacement(range(FOLDS), 2):
        wanted = {h: rows for h, rows in ((f, members[g]), (g, members[f])) if h in held_out and rows.size}
        if wanted:
            fitted = fit_copy(model, log, np.flatnonzero((fold != f) & (fold != g)))
        for h, rows in wanted.items():
            means[h, rows] = predict(fitted, log[rows])[np.arange(rows.size), log.columns.actions[rows]]
    return means


def choose_fresh_rewards(reward_model: Any, log: Log, rng: np.random.Generator) -> FreshRewards:
    """Return fresh rewards from the candidate model of the smallest out-of-sample error, weighted by 1/p^2.

    Events are drawn again in proportion to pi/p, and only those with small p, so that the model is needed where the
    logger rarely acts. With equal weights a linear model that is not right is fitted where the logger acts often: on
    pendigits (T = 1,000) the value was 0.022 too low, and not measurably with 1/p^2 (docs/theory.md, section 4).
    """
    candidates, sample = list_candidates(reward_model, log), log
    if len(candidates) > 1 and len(log) > MOST_CHOICE_EVENTS:
        sample = log[np.sort(rng.choice(len(log), MOST_CHOICE_EVENTS, replace=False))]
    sample = replace_columns(sample, rewards=sample.columns.learned_rewards, learned=None)
    seed, taken, errors = rng.integers(2**32), (np.arange(len(sample)), sample.columns.actions), []
    for model in candidates:
        predicted = CrossFit(model, FOLDS).predictions(sample, np.random.default_rng(seed)).predicted[taken]
        errors.append(float(np.sum(((sample.columns.rewards - predicted) / sample.columns.propensities) ** 2)))
    best = int(np.argmin(errors))
    return FreshRewards.from_model(log, candidates[best], np.random.default_rng(seed))


def list_candidates(reward_model: Any, log: Log) -> list[RewardModel]:
    """Return the models that fresh rewards may be drawn from, which can be fitted on any part of the log.

    These are the default model with three weightings, and the given one, if it can be fitted. ``LowVariance``, which
    shrinks what it predicts, and a number, which has nothing about actions, are left out: a policy that learns from
    them learns less than live (T = n/5, all rounds filled: error of the value -0.039 with LowVariance, -0.003 with
    PerAction; docs/theory.md, section 4).

    >>> log = Log(None, actions=[0, 1], rewards=[0, 1], propensities=[0.5, 0.5])
    >>> list_candidates(CrossFit(LowVariance()), log)
    [PerAction(estimator=None, weights=None)]

    All propensities are equal here, so that weightings are, too.
    """
    model = reward_model.model if isinstance(reward_model, CrossFit | Progressive | Split) else reward_model
    if is_estimator(model):
        model = PerAction(model)
    default, propensities = default_model(log), log.columns.propensities
    weightings = WEIGHTINGS[:1] if propensities.min() == propensities.max() else WEIGHTINGS
    candidates: list[RewardModel] = [replace(default, weights=weights) for weights in weightings]
    if isinstance(model, RewardModel) and not isinstance(model, LowVariance) and model not in candidates:
        candidates.insert(0, model)
    return candidates
