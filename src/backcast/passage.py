"""One run of an evaluation seen from close by, summed up so that it can be drawn."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from backcast.arrays import FloatArray, IntArray

__all__ = ["WEIGHT_EDGES", "Passage", "WeightShares", "weight_shares"]

WEIGHT_EDGES = tuple(2.0**power for power in range(-3, 7))
"""Weights are counted in classes that double: 0, at most 1/8, up to 1/4, ..., up to 64, more."""


@dataclass(frozen=True)
class WeightShares:
    """How the weights ``pi/p`` of events are spread.

    Attributes
    ----------
    shares
        Share of the events in each class: 0 exactly, then up to each of ``WEIGHT_EDGES``, then more than the last.
    effective_sample_size
        ``(sum w)^2 / sum w^2``: how many equally weighted events these are worth.
    largest
        The largest weight.
    """

    shares: FloatArray
    effective_sample_size: float
    largest: float


def weight_shares(weights: FloatArray, events: int) -> WeightShares:
    """Count weights by class; a sample of them speaks for all the events.

    >>> found = weight_shares(np.array([0.0, 1.0, 1.0, 2.0]), events=8)
    >>> found.shares[[0, 4, 5]], found.largest
    (array([0.25, 0.5 , 0.25]), 2.0)
    >>> round(found.effective_sample_size, 3)
    5.333

    By hand: (1 + 1 + 2)^2 / (1 + 1 + 4) = 16/6 of four events, so twice that of eight.
    """
    classes = np.where(weights > 0, 1 + np.searchsorted(WEIGHT_EDGES, weights), 0)
    counts = np.bincount(classes, minlength=len(WEIGHT_EDGES) + 2)
    squares = float((weights**2).sum())
    worth = float(weights.sum()) ** 2 / squares if squares else 0.0
    return WeightShares(counts / weights.size, worth * events / weights.size, float(weights.max()))


@dataclass(frozen=True)
class Passage:
    """One run: what it accepted along the log, how events weigh, and which actions the policy takes.

    Attributes
    ----------
    events
        Events that the run went through.
    in_order
        Whether it went through them in the order of the log.
    actions
        Labels of the actions.
    logged, taken
        Share of each action in the log, and under the policy, averaged over the run; ``taken`` is None for a policy
        that only tells the probability of one action.
    weights
        How the weights of events are spread.
    ends
        Events at which stretches of the run end; empty where nothing is accepted.
    accepted, multiplier
        Share of events accepted, and mean multiplier ``c_t``, in each stretch; empty where there is none.
    rounds, exhausted
        For clock replay: rounds, and the exhausted mass added up so far, which ends as the bias certificate.
    """

    events: int
    in_order: bool
    actions: tuple[str, ...]
    logged: FloatArray
    taken: FloatArray | None
    weights: WeightShares
    ends: IntArray
    accepted: FloatArray
    multiplier: FloatArray
    rounds: IntArray
    exhausted: FloatArray
