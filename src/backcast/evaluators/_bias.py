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

EXTRA_SHARES = (0.5, 1.0)  # of all rounds, filled although events are left
BIAS_PASSES = 16  # for each of them
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
    least squares through their point. Where next to nothing is filled the bias is taken as 0, with an error of the
    filled share times the spread of rewards.

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
    values = [np.array([result.value for result in passes]) for passes in (full, *more_filled)]
    means = np.array([level.mean() for level in values])
    variances = np.array([level.var(ddof=1) / level.size for level in values])
    x = np.array([filled_share(passes) - share for passes in more_filled])
    weights = x / (x @ x)  # of the differences to the full passes
    slope = float(weights @ (means[1:] - means[0]))
    error = math.sqrt(float(weights**2 @ variances[1:]) + float(weights.sum()) ** 2 * variances[0])
    return BiasEstimate(slope * share, error * share, METHOD)
