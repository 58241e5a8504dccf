"""Bias of filled replay in units of reward, by filling more rounds and extrapolating to none.

What the policy learns in filled rounds depends on the reward model. If more rounds are filled, although events are left
for them, the value moves by what the model's error does to it; the same per filled round is its bias (simulation and
extrapolation, Cook and Stefanski 1994; docs/theory.md, section 5).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from backcast._arrays import FloatArray
from backcast.estimate import BiasEstimate
from backcast.evaluators._passes import PassResult

EXTRA_FACTOR = 3.0  # times the exhausted mass of a round: probability that it is filled although events are left
BIAS_PASSES = 16  # that are filled more
FEW_BIAS_PASSES, FEW_FILLED = 8, 0.05  # up to so large a filled share, where what is extrapolated is small
SMALLEST_INCREASE = 0.1  # of the filled share, from which the extrapolation to none is made
SMALL_SHARE = 0.002  # of filled rounds, up to which the bias is negligible
METHOD = "more filled rounds, extrapolated to none"


def filled_share(passes: Sequence[PassResult]) -> float:
    """Return the share of filled rounds, the mean over passes."""
    return float(np.mean([result.filled.size / result.rounds for result in passes]))


def is_filled(passes: Sequence[PassResult]) -> bool:
    """Return whether so many rounds are filled that the bias may matter."""
    return filled_share(passes) > SMALL_SHARE


def bias_passes(passes: Sequence[PassResult]) -> int:
    """Return how many passes that are filled more the bias of these passes takes."""
    if not is_filled(passes):
        return 0
    return FEW_BIAS_PASSES if filled_share(passes) <= FEW_FILLED else BIAS_PASSES


def estimate_bias(
    full: Sequence[PassResult], more_filled: Sequence[PassResult], reward_spread: float
) -> BiasEstimate | None:
    """Return the bias of the mean of full passes; None if passes that are filled more are needed and missing.

    With ``s`` the filled share and ``theta(s) = theta(0) + b s``, the bias is ``b s`` of the full passes, ``b`` the
    mean slope from full passes to those with the same random numbers that are filled more. Where next to nothing is
    filled the bias is taken as 0, with an error of the filled share times the spread of rewards; so it is where hardly
    more rounds can be filled, because all events that the policy likes are exhausted together.

    >>> def passes(value, filled):
    ...     return [PassResult(v, np.zeros(1), 8, 0.0, filled=np.arange(filled)) for v in (value - 0.25, value + 0.25)]
    >>> estimate_bias(passes(0.5, 2), passes(0.25, 4), 1.0).value
    -0.25

    By hand: the value falls by 1/4 from a quarter of filled rounds to a half, and so it does from none to a quarter.
    """
    share = filled_share(full)
    if share > SMALL_SHARE and not all_reach_horizon(more_filled):
        return None
    by_pass = bias_by_pass(full, more_filled)
    if by_pass is None:
        return BiasEstimate(0.0, share * reward_spread, METHOD)
    return _mean_bias(by_pass)


def all_reach_horizon(passes: Sequence[PassResult]) -> bool:
    """Return whether there are passes, and all of them reach the horizon."""
    return bool(passes) and all(result.reached_horizon for result in passes)


def bias_by_pass(full: Sequence[PassResult], more_filled: Sequence[PassResult]) -> FloatArray | None:
    """Return what each pass shows of the bias, with the noise of its random numbers; None if it is not extrapolated."""
    share = filled_share(full)
    if share <= SMALL_SHARE:
        return None
    n = min(len(full), len(more_filled))
    increase = filled_share(more_filled[:n]) - filled_share(full[:n])
    if increase < SMALLEST_INCREASE * share:
        return None
    change = np.array([more.value - result.value for result, more in zip(full[:n], more_filled[:n], strict=True)])
    return change * (share / increase)


def estimate_difference_bias(
    first: tuple[Sequence[PassResult], Sequence[PassResult], float],
    second: tuple[Sequence[PassResult], Sequence[PassResult], float],
) -> BiasEstimate | None:
    """Return the bias of the difference of two values, given full passes, more filled ones and spread of both.

    Both are run on the same random numbers, so that what filling does to both of them cancels.

    >>> def passes(value, filled):
    ...     return [PassResult(v, np.zeros(1), 8, 0.0, filled=np.arange(filled)) for v in (value - 0.25, value + 0.25)]
    >>> pair = passes(0.5, 2), passes(0.25, 4), 1.0
    >>> estimate_difference_bias(pair, pair)
    BiasEstimate(value=0.0, std_error=0.0, method='more filled rounds, extrapolated to none')
    """
    biases = [estimate_bias(*each) for each in (first, second)]
    if biases[0] is None or biases[1] is None:
        return None
    by_pass = [bias_by_pass(*each[:2]) for each in (first, second)]
    if by_pass[0] is not None and by_pass[1] is not None:
        return _mean_bias(by_pass[0] - by_pass[1])
    error = math.hypot(biases[0].std_error, biases[1].std_error)
    return BiasEstimate(biases[0].value - biases[1].value, error, METHOD)


def combine_parts(by_part: Sequence[BiasEstimate]) -> BiasEstimate:
    """Return the bias of the mean over parts of a stream; what is not extrapolated in a part is so in all of them.

    >>> combine_parts([BiasEstimate(0.25, 0.5, METHOD), BiasEstimate(0.75, 0.5, METHOD)])
    BiasEstimate(value=0.5, std_error=0.25, method='more filled rounds, extrapolated to none')
    """
    values, errors = (np.array([getattr(bias, name) for bias in by_part]) for name in ("value", "std_error"))
    error = float(values.std(ddof=1)) / math.sqrt(values.size)
    unknown = float(np.where(values == 0.0, errors, 0.0).mean())
    return BiasEstimate(float(values.mean()), math.hypot(error, unknown), METHOD)


def _mean_bias(by_pass: FloatArray) -> BiasEstimate:
    error = float(by_pass.std(ddof=1)) / math.sqrt(by_pass.size)
    return BiasEstimate(float(by_pass.mean()), error, METHOD)
