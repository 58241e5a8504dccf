"""How many events a pass of clock replay needs, and whether it scores all of them (meters) or few (thinning)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from backcast._arrays import FloatArray
from backcast._engine.clock import FIRST_LONG_SPAN
from backcast._engine.thinning import SAMPLE
from backcast.evaluators._fresh_rewards import FOLDS
from backcast.policies.base import batch_size_of, is_learning
from backcast.policies.context_free import UCB1, RoundRobin
from backcast.policies.linear import EpsilonGreedy, LinUCB

SAFE_METER = 0.5  # meters that are not expected to be larger do not pass 1
RARE_SHARE = 0.1  # of pairs of event and action: those with the smallest propensities, which a pool may exhaust
SMALLEST_POOL = 2_000
TRAINED_SHARE = 1 - 1 / FOLDS  # of the events of a thinned pass, the others are read
# An update of a thinned pass calls Python about five times, which takes as long as scoring so many events: 100
# microseconds beside 0.1 to 0.3 for an event of a matrix product in NumPy.
CALL_EVENTS = 500
SMALLEST_GAIN = 8  # scored events of a pass with meters over those of a thinned one, from which events are thinned
FEWEST_UPDATES = 20
# a comparison per event decides whether their choice changed: 15 nanoseconds, as few as thinning needs
SCORED_IN_PART = (EpsilonGreedy, LinUCB, UCB1, RoundRobin)


def smallest_pool(propensities: FloatArray, horizon: int) -> int:
    """Return the fewest events of a pass that a policy does not exhaust, unless it prefers the rarest actions.

    The meter of an event is at most the clock, about T/m after T rounds over m events, over its propensity. It stays
    below a half for nine tenths of the pairs of event and action, each of which is logged with its propensity.

    >>> smallest_pool(np.full(50, 0.1), horizon=1_000)
    20000
    """
    order = np.argsort(propensities)
    pairs = np.cumsum(1.0 / propensities[order])
    rare = propensities[order[np.searchsorted(pairs, RARE_SHARE * pairs[-1])]]
    return max(SMALLEST_POOL, math.ceil(horizon / (SAFE_METER * float(rare))))


def thinned_scorings(policy: Any, n_actions: float, horizon: int, reading_interval: int) -> float:
    """Return how many events a thinned pass scores: proposals, readings, and what the calls of updates take.

    >>> thinned_scorings(EpsilonGreedy(batch_size=50), n_actions=8, horizon=1_000, reading_interval=8)
    25120.0

    By hand: 1,000 rounds accept one proposal of eight, in four fifths of the events; 20 updates are 20 x 256 events in
    readings, and 20 x 500 for their calls.
    """
    updates = math.ceil(horizon / batch_size_of(policy))
    readings = min(updates, FIRST_LONG_SPAN + horizon / reading_interval)
    return horizon * n_actions / TRAINED_SHARE + readings * SAMPLE + updates * CALL_EVENTS


def is_thinned(policy: Any, propensities: FloatArray, n_events: int, horizon: int, reading_interval: int) -> bool:
    """Return whether passes over ``n_events`` events of a log with these propensities are thinned.

    They are if scoring all events after every update takes far longer, and the log is so long that few of its events
    are exhausted.

    >>> propensities = np.full(50, 0.1)
    >>> [is_thinned(object(), propensities, 10**5, 1_000, 8), is_thinned(LinUCB(), propensities, 10**5, 1_000, 8)]
    [False, False]
    """
    if not is_learning(policy) or isinstance(policy, SCORED_IN_PART):
        return False
    updates = horizon // batch_size_of(policy)
    if updates < FEWEST_UPDATES:
        return False
    n_actions = float(np.mean(1.0 / propensities))  # the mean of 1/p is the number of actions (harmonic mean test)
    scored = thinned_scorings(policy, n_actions, horizon, reading_interval)
    return updates * n_events >= SMALLEST_GAIN * scored and TRAINED_SHARE * n_events >= smallest_pool(
        propensities, horizon
    )
