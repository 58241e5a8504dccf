"""Bias of filled replay in units of reward, by filling more rounds and extrapolating to none.

What the policy learns in filled rounds depends on the reward model. If more rounds are filled, although events are left
for them, the value moves by what the model's error does to it; the same per filled round is its bias (simulation and
extrapolation, Cook and Stefanski 1994; docs/theory.md, section 5).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from backcast.estimate import BiasEstimate
from backcast.evaluators._passes import PassResult

EXTRA_FACTOR = 3.0  # times the exhausted mass of a round: probability that it is filled although events are left
BIAS_PASSES = 32  # that are filled more
SMALLEST_INCREASE = 0.1  # of the filled share, from which the extrapolation to none is made
SMALL_SHARE = 0.002  # of filled rounds, up to which the bias is negligible
METHOD = "more filled rounds, extrapolated to none"


def filled_share(passes: Sequence[PassResult]) -> float:
    """Return the share of filled rounds, the mean over passes."""
    return float(np.mean([result.filled.size / result.rounds for result in passes]))


def is_filled(passes: Sequence[PassResult]) -> bool:
    """Return whether so many rounds are filled that the bias may matter."""
    return filled_share(passes) > SMALL_SHARE


def estimate_bias(
    full: Sequence[PassResult], more_filled: Sequence[Sequence[PassResult]], reward_spread: float
) -> BiasEstimate | None:
    """Return the bias of the mean of full passes; None if passes that are filled more are needed and missing.

    With ``s`` the filled share and ``theta(s) = theta(0) + b s``, the bias is ``b s`` of the full passes, ``b`` by
    least squares through their point, from passes with the same random numbers. Where next to nothing is filled the
    bias is taken as 0, with an error of the filled share times the spread of rewards; so it is where hardly more rounds
    can be filled, because all events that the policy likes are exhausted together.

    >>> def passes(value, filled):
    ...     return [PassResult(v, np.zeros(1), 8, 0.0, filled=np.arange(filled)) for v in (value - 0.25, value + 0.25)]
    >>> estimate_bias(passes(0.5, 2), [passes(0.25, 4), passes(-0.25, 8)], 1.0).value
    -0.25

    By hand: the value falls by 1/4 from a quarter of filled rounds to a half, and by 3/4 to all of them: b = -1.
    """
    share = filled_share(full)
    if share <= SMALL_SHARE:
        return BiasEstimate(0.0, share * reward_spread, METHOD)
    if not more_filled or not all(result.reached_horizon for passes in more_filled for result in passes):
        return None
    # passes with the same random numbers, so that the noise they share cancels
    n = min(len(passes) for passes in (full, *more_filled))
    values = np.array([[result.value for result in passes[:n]] for passes in (full, *more_filled)])
    x = np.array([filled_share(passes[:n]) - filled_share(full[:n]) for passes in more_filled])
    if x.max() < SMALLEST_INCREASE * share:
        return BiasEstimate(0.0, share * reward_spread, METHOD)
    slopes = x @ (values[1:] - values[0]) / (x @ x)  # by pass
    error = float(slopes.std(ddof=1)) / math.sqrt(n)
    return BiasEstimate(float(slopes.mean()) * share, error * share, METHOD)
