"""What a replay of a permuted log records for its standard error: readings, acceptances, and values by bin of rounds.

Every event is read once, with its multiplier, and every accepted event may change what comes after it. The records have
the form of those of clock replay, but for several histories in one pass (docs/theory.md, section 5, "Permutations").
"""

from __future__ import annotations

import numpy as np

from backcast._arrays import BoolArray, FloatArray, IntArray
from backcast._engine.replay_loop import TraceArrays
from backcast.evaluators._passes import PassResult

LARGEST_RATE = 0.9  # acceptance rate, above which blocks are hardly longer without an event


def record_influences(
    result: PassResult, trace: TraceArrays, order: IntArray, horizon: int, edges: IntArray, n_events: int, centre: float
) -> PassResult:
    """Return the result of a replay with what :class:`backcast.evaluators._passes.InfluenceTable` needs.

    ``order`` are the events of the log as they were replayed, ``edges`` those of bins of rounds, and ``centre`` a
    number near the value that is the same in all passes. With M complete histories, of which that of an event has the
    value V and the sum C of multipliers:

    - ``reading`` is ``c_k (R_k - V) / (M C)``;
    - ``accepted`` are the events of the M histories, one history after the other;
    - ``bins`` ``(M, 3, J)`` are, of contributions ``x_k = c_k (R_k - centre) / C``, the mean over the round before
      each bin, the sum before it, and the sum after its first round: what is read in the first round itself contains
      the accepted event, and must not predict what follows it;
    - ``own`` is what an accepted event itself contributes to that last sum, less the mean of accepted events, and what
      would be read in addition if it had not been accepted.

    >>> trace = TraceArrays(np.ones(4), np.ones(4), np.array([1.0, 0.0, 1.0, 1.0]), np.array([False, True] * 2))
    >>> result = PassResult(0.75, np.zeros(1), 2, 0.0)
    >>> result = record_influences(result, trace, np.array([3, 2, 1, 0]), 2, np.array([0, 2]), 4, centre=0.5)
    >>> result.reading.tolist(), result.accepted.tolist(), result.bins[0, :, 0].tolist()
    ([0.0625, 0.0625, -0.1875, 0.0625], [2, 0], [0.0, 0.0, 0.25])

    By hand: four events are read with a weight of 1/4 each, 1 and 0 in the first round, 1 and 1 in the second.
    """
    rounds: IntArray = np.cumsum(trace.accepted) - trace.accepted  # of each event, counted through all histories
    n_histories = int(trace.accepted.sum()) // horizon
    is_used = rounds < n_histories * horizon  # the last history is not complete
    rounds, order, accepted = rounds[is_used], order[is_used], trace.accepted[is_used]
    multiplier, value = trace.multiplier[is_used], trace.value[is_used]
    history = rounds // horizon
    share = multiplier / np.bincount(history, weights=multiplier)[history]
    centred = share * (value - np.bincount(history, weights=share * value)[history])
    contribution = share * (value - centre)
    by_round, shares = (
        np.bincount(rounds, weights=column).reshape(n_histories, horizon) for column in (contribution, share)
    )
    starts, nothing = edges[:-1], np.zeros((n_histories, 1))
    means = np.append(nothing, by_round / shares, axis=1)
    sums = np.append(nothing, by_round.cumsum(axis=1), axis=1)
    bins = [means[:, starts], sums[:, starts], sums[:, -1:] - sums[:, starts + 1]]
    reading, own = np.zeros((2, n_events))
    reading[order] = centred / n_histories
    own[order] = _own_contributions(contribution, accepted, ~np.isin(rounds % horizon, starts))
    own[order] += _unread_contributions(centred, accepted, rounds)
    return result._replace(
        reading=reading, own=own / n_histories, accepted=order[accepted], edges=edges, bins=np.stack(bins, axis=1)
    )


def _own_contributions(contribution: FloatArray, accepted: BoolArray, is_later: BoolArray) -> FloatArray:
    """Return what accepted events contribute to the sum after the first round of their bin, less its mean.

    Only those of later rounds of the bin are in this sum.
    """
    counted = accepted & is_later
    own = np.zeros(contribution.size)
    if counted.any():
        own[counted] = contribution[counted] - contribution[counted].mean()
    return own


def _unread_contributions(centred: FloatArray, accepted: BoolArray, rounds: IntArray) -> FloatArray:
    """Return what would be read in addition if an accepted event had not ended its block, less the mean of all events.

    A block has 1/rate events on average, those without its last one 1/rate - 1, so these are divided by 1 - rate.
    """
    others = np.bincount(rounds, weights=centred)[rounds[accepted]] - centred[accepted]
    unread = np.zeros(centred.size)
    unread[accepted] = others / (1.0 - min(float(accepted.mean()), LARGEST_RATE))
    return np.asarray(unread - unread.mean())


def curve_variance(sums: FloatArray, edges: IntArray, n_events: int) -> FloatArray:
    """Return the variance over logs of reading each block of a curve, from the sums ``c^2 R^2, c^2 R, c^2`` of bins.

    Over permutations any event may be read in any block, so it is the variance of values in the block over n.

    >>> sums = np.array([[0.0, 0.0, 5.0, 3.0, 2.0]])
    >>> curve_variance(sums, np.array([0, 1]), n_events=10)
    array([0.025])
    """
    squares, first, weights = np.add.reduceat(sums[:, 2:], edges[:-1], axis=0).T
    return np.asarray(np.maximum(squares / weights - (first / weights) ** 2, 0.0) / n_events)
