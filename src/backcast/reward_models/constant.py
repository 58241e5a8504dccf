"""The simplest reward model: one number."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import numpy as np

from backcast.arrays import Contexts, FloatArray
from backcast.log import Log
from backcast.reward_models.protocol import not_fitted

__all__ = ["Constant"]


@dataclass
class Constant:
    """The same prediction for every action: a given value, or the mean reward of the log.

    Even this removes most of the bias that stopping at a fixed number of accepted events brings.

    Parameters
    ----------
    value
        The prediction; None takes the mean reward of the log it is fitted on.

    Examples
    --------
    >>> log = Log(contexts=[[0.0], [1.0]], actions=[0, 1], rewards=[1.0, 0.5], propensities=[0.5, 0.5])
    >>> Constant().fit(log).predict(log.contexts)
    array([[0.75, 0.75],
           [0.75, 0.75]])
    """

    value: float | None = None
    _level: float = field(init=False, repr=False, default=0.0)
    _n_actions: int = field(init=False, repr=False, default=0)

    def fit(self, log: Log) -> Self:
        """Take the mean reward (unless a value was given) and the number of actions."""
        self._level = float(log.rewards.mean()) if self.value is None else float(self.value)
        self._n_actions = log.n_actions
        return self

    def predict(self, contexts: Contexts) -> FloatArray:
        """The one number for all actions of each context, shape ``(n, K)``."""
        if self._n_actions == 0:
            raise not_fitted(self)
        return np.full((contexts.shape[0], self._n_actions), self._level)
