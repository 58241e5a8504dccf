"""The log on the couch: what several checks look at, worked out once."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from backcast.arrays import BoolArray, FloatArray, IntArray, is_sparse
from backcast.health.prediction import Prediction, predict_actions
from backcast.log import Log

__all__ = ["Case"]


class Case:
    """A log and what is known of it at a glance.

    Parameters
    ----------
    log
        The log.
    exchangeable
        Whether its order is said not to matter.
    """

    def __init__(self, log: Log, *, exchangeable: bool = True) -> None:
        self.log, self.exchangeable = log, exchangeable

    @property
    def n(self) -> int:
        """Number of events."""
        return len(self.log)

    @cached_property
    def inverse(self) -> FloatArray:
        """``1/p`` of each event."""
        inverse: FloatArray = 1.0 / self.log._propensities
        return inverse

    @cached_property
    def counts(self) -> IntArray:
        """How often each action was taken."""
        return np.bincount(self.log._actions, minlength=self.log.n_actions)

    @property
    def seen(self) -> BoolArray:
        """Which actions were ever taken."""
        return self.counts > 0

    @cached_property
    def few_events(self) -> bool:
        """Whether many actions were seen only once, so that others may exist that nobody has seen or declared."""
        return bool((self.counts == 1).sum() > 0.1 * self.log.n_actions)

    @cached_property
    def eligible(self) -> FloatArray:
        """Number of actions that were eligible at each event."""
        if self.log._available is None:
            return np.full(self.n, float(self.log.n_actions))
        return np.asarray(self.log._available.sum(axis=1), dtype=np.float64)

    @cached_property
    def supported(self) -> FloatArray:
        """Number of actions that were eligible at each event and are seen somewhere in the log."""
        if self.log._available is None:
            return np.full(self.n, float(self.seen.sum()))
        return np.asarray(self.log._available[:, self.seen].sum(axis=1), dtype=np.float64)

    @cached_property
    def chances(self) -> FloatArray:
        """Number of events at which each action was eligible."""
        if self.log._available is None:
            return np.full(self.log.n_actions, float(self.n))
        return np.asarray(self.log._available.sum(axis=0), dtype=np.float64)

    @cached_property
    def order(self) -> IntArray:
        """The rows in the order of time, or as they stand where the log has no times."""
        if self.log._times is None:
            return np.arange(self.n)
        return np.argsort(self.log._times, kind="stable")

    @cached_property
    def prediction(self) -> Prediction | None:
        """What the past of the log says of the actions to come; None where there is too little past."""
        return predict_actions(self.log, self.order)

    def context_columns(self, most: int) -> list[tuple[str, FloatArray]]:
        """Some features of the context, by name: the most varied, or most frequent where most are 0.

        Features of each action are averaged over the actions: those of the one taken would tell of the choice.
        """
        contexts = self.log._contexts
        if is_sparse(contexts):
            often = np.bincount(contexts.indices, minlength=contexts.shape[1])
            chosen = np.sort(np.argsort(-often, kind="stable")[:most])
            dense = np.asarray(contexts[:, chosen].toarray()) if chosen.size else np.zeros((self.n, 0))
            return [(f"feature {j}", dense[:, i]) for i, j in enumerate(chosen.tolist())]
        table = np.asarray(contexts).mean(axis=1) if contexts.ndim == 3 else np.asarray(contexts)
        varied = np.flatnonzero(table.max(axis=0) > table.min(axis=0)) if table.shape[1] else np.zeros(0, np.int64)
        return [(f"feature {j}", table[:, j]) for j in varied[:most].tolist()]
