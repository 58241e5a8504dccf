"""Bias of filled replay in units of reward, from passes over halves of the log.

A policy learns the errors of the reward model in filled rounds. With half of the events more rounds are filled, and the
model has larger errors, so that values move by several times the bias (docs/theory.md, section 5).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from backcast._arrays import FloatArray
from backcast.estimate import BiasEstimate
from backcast.evaluators._passes import PassResult

BIAS_PASSES = 32  # over halves of the log, which take as long as half as many full passes
FEW_BIAS_PASSES, FEW_FILLED = 16, 0.05  # up to so large a filled share, where what is extrapolated is small
SMALL_SHARE = 0.002  # of filled rounds, up to which the bias is negligible
METHOD = "halves of the log, extrapolated to no filled rounds"


def filled_share(passes: Sequence[PassResult]) -> float:
    """Return the share of filled rounds, the mean over passes."""
    return float(np.mean([result.filled.size / result.rounds for result in passes]))


def is_filled(passes: Sequence[PassResult]) -> bool:
    """Return whether so many rounds are filled that the bias may matter."""
    return filled_share(passes) > SMALL_SHARE


def bias_passes(passes: Sequence[PassResult]) -> int:
    """Return how many passes over halves of the log the bias of these passes takes."""
    if not is_filled(passes):
        return 0
    return FEW_BIAS_PASSES if filled_share(passes) <= FEW_FILLED else BIAS_PASSES


def growth_of_bias(share: float, share_of_half: float) -> float:
    """Return how many times as large the bias is with half of the events, ``2 (s_half/s)^2``.

    What a policy loses grows with the square of its error. Filled rounds put the filled share of the model's error into
    it, and the variance of the model's error is twice as large with half of the events.

    >>> growth_of_bias(0.25, 0.5)
    8.0
    """
    return 2.0 * max(share_of_half / share, 1.0) ** 2


def estimate_bias(
    full: Sequence[PassResult], halves: Sequence[PassResult], reward_spread: float
) -> BiasEstimate | None:
    """Return the bias of the mean of full passes; None if passes over halves are needed and missing.

    With ``g`` the growth of the bias from the log to halves of it, the bias is ``(theta_half - theta)/(g - 1)``. Where
    next to nothing is filled it is taken as 0, with an error of the filled share times the spread of rewards.

    >>> def passes(value, filled):
    ...     return [PassResult(v, np.zeros(1), 8, 0.0, filled=np.arange(filled)) for v in (value - 0.25, value + 0.25)]
    >>> estimate_bias(passes(0.5, 2), passes(0.0625, 4), 1.0).value
    -0.0625

    By hand: half of the events fill twice as many rounds, so that the bias is 8 times as large; 7 biases are -7/16.
    """
    if not is_filled(full):
        return BiasEstimate(0.0, filled_share(full) * reward_spread, METHOD)
    if not all_reach_horizon(halves):
        return None
    return _mean_bias(*_scaled_values(full, halves))


def all_reach_horizon(passes: Sequence[PassResult]) -> bool:
    """Return whether there are passes, and all of them reach the horizon."""
    return bool(passes) and all(result.reached_horizon for result in passes)


def estimate_difference_bias(
    first: tuple[Sequence[PassResult], Sequence[PassResult], float],
    second: tuple[Sequence[PassResult], Sequence[PassResult], float],
) -> BiasEstimate | None:
    """Return the bias of the difference of two values, given full passes, passes over halves, and spread of both.

    Both are run on the same events and random numbers, so that noise which they share cancels.

    >>> def passes(value, filled):
    ...     return [PassResult(v, np.zeros(1), 8, 0.0, filled=np.arange(filled)) for v in (value - 0.25, value + 0.25)]
    >>> pair = passes(0.5, 2), passes(0.25, 4), 1.0
    >>> estimate_difference_bias(pair, pair)
    BiasEstimate(value=0.0, std_error=0.0, method='halves of the log, extrapolated to no filled rounds')
    """
    biases = [estimate_bias(*each) for each in (first, second)]
    if biases[0] is None or biases[1] is None:
        return None
    if is_filled(first[0]) and is_filled(second[0]):
        (full, halves), (other_full, other_halves) = (_scaled_values(*each[:2]) for each in (first, second))
        return _mean_bias(full - other_full, halves - other_halves)
    error = math.hypot(biases[0].std_error, biases[1].std_error)
    return BiasEstimate(biases[0].value - biases[1].value, error, METHOD)


def combine_parts(by_part: Sequence[BiasEstimate]) -> BiasEstimate:
    """Return the bias of the mean over parts of a stream; what is taken as 0 in a part is so in all of them.

    >>> combine_parts([BiasEstimate(0.25, 0.5, METHOD), BiasEstimate(0.75, 0.5, METHOD)]).std_error
    0.25
    """
    values, errors = (np.array([getattr(bias, name) for bias in by_part]) for name in ("value", "std_error"))
    error = float(values.std(ddof=1)) / math.sqrt(values.size)
    unknown = float(np.where(values == 0.0, errors, 0.0).mean())
    return BiasEstimate(float(values.mean()), math.hypot(error, unknown), METHOD)


def _scaled_values(full: Sequence[PassResult], halves: Sequence[PassResult]) -> tuple[FloatArray, FloatArray]:
    """Return the values of full passes and of passes over halves, divided by ``g - 1``."""
    scale = 1.0 / (growth_of_bias(filled_share(full), filled_share(halves)) - 1.0)
    values, half_values = (np.array([result.value for result in passes]) for passes in (full, halves))
    return scale * values, scale * half_values


def _mean_bias(full: FloatArray, halves: FloatArray) -> BiasEstimate:
    """Return the difference of the means of scaled values.

    Both halves of a log together have its sampling noise to first order, so the mean of a pair is one number.
    """
    pairs = halves.reshape(-1, 2).mean(axis=1) if halves.size > 2 else halves
    error = math.sqrt(pairs.var(ddof=1) / pairs.size + full.var(ddof=1) / full.size)
    return BiasEstimate(float(halves.mean() - full.mean()), error, METHOD)
