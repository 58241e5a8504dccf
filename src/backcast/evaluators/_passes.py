"""Standard errors of replays from their full passes: the influence of each event on the value.

An event influences the value of a pass by being read (``reading``) and by becoming history: with ``M_k`` the indicator
that it is accepted less its compensator, the second is the covariance of ``M_k`` with the remainder of the value. Sums
of squared influences over events, taken over pairs of different passes so that the noise of passes cancels, estimate
the variance over logs (Efron-Stein; docs/theory.md, section 5).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from backcast._arrays import FloatArray, IntArray
from backcast.estimate import block_edges, block_means

FEWEST_PASSES = 8  # passes from which a standard error is given
MOST_BINS = 12  # bins of rounds in which acceptances are related to what follows
BIN_POWER = 1.5  # edges T (j/J)^1.5: early acceptances influence more of what follows
FINE_BLOCKS = 120  # blocks of rounds among which a break-even round is looked for
RECORD_BYTES = 256 << 20  # memory for the compensators of MOST_PASSES passes
MOST_PASSES = 64  # with pilots and passes for the bias less than 100; 128 would shorten an interval by 2 % on average
MOST_CHEAP_PASSES = 512  # where they take little time
MORE_PASSES = 16  # steps of their number
LARGEST_READING_EXHAUSTION = 0.02  # exhausted mass per round above which weights of readings are too large to be used
FEWEST_HISTORIES = 0.2  # smallest N - kappa in the prediction of the history term
SMALLEST_SHARE = 0.25  # of the direct term: a negative cross term does not take the variance below it
SMALLEST_PAIR_SHARE = 0.1  # of the sum of both history terms: the prediction for a difference is not below it
EVENTS_PER_CHUNK = 1 << 16
NO_VALUES: FloatArray = np.zeros(0)
NO_EVENTS: IntArray = np.zeros(0, dtype=np.int64)


class PassResult(NamedTuple):
    """One pass: value, curve, rounds played, and bias certificate.

    ``rows`` are the events that were used, empty for all; ``event_values`` the values of these events averaged over
    rounds, ``accepted`` the event of each round. What follows is for standard errors: the variance of reading
    each point of the curve, the influence of each event by being read, its influence on its own reading,
    compensators of acceptance at the ``edges`` of bins of rounds, and values by bin; for those of parts of the curve,
    ``readings`` up to these edges, the curve on the finer blocks of :func:`fine_edges`, and V_t in the last round. All
    are empty if not known. A replay of a permuted log has several histories: ``accepted`` are their events one after
    the other, and ``bins`` have a row for each, ``(M, 3, J)``. ``filled`` are the rounds whose event was drawn again,
    with a fresh reward, because none was left; with ``reads_held_out`` values were read on events that were held out
    from the history. ``further`` has the results of outcomes and segments that were read in the same pass.
    """

    value: float
    curve: FloatArray
    rounds: int
    certificate: float
    rows: IntArray = NO_EVENTS
    event_values: FloatArray = NO_VALUES
    accepted: IntArray = NO_EVENTS
    curve_variance: FloatArray = NO_VALUES
    reading: FloatArray = NO_VALUES
    own: FloatArray = NO_VALUES
    edges: IntArray = NO_EVENTS
    compensator: FloatArray = NO_VALUES
    bins: FloatArray = NO_VALUES
    readings: FloatArray = NO_VALUES
    fine_curve: FloatArray = NO_VALUES
    end_value: float = math.nan
    filled: IntArray = NO_EVENTS
    reads_held_out: bool = False
    further: tuple[PassResult, ...] = ()

    @classmethod
    def from_rounds(cls, values: FloatArray, horizon: int, certificate: float = math.nan) -> PassResult:
        """Return the result of a pass with these values or rewards by round; those after the horizon are not used.

        A pass with fewer rounds than the horizon has no value (nan). ``certificate`` bounds the bias of the simulation,
        if a bound is known.

        >>> PassResult.from_rounds(np.array([0.0, 1.0, 1.0]), horizon=2)[:3]
        (0.5, array([0., 1.]), 2)
        """
        if len(values) < horizon:
            return cls(math.nan, NO_VALUES, len(values), math.inf)
        rounds = np.asarray(values[:horizon], dtype=np.float64)
        return cls(float(rounds.mean()), block_means(rounds, block_edges(horizon)), horizon, certificate)

    @property
    def reached_horizon(self) -> bool:
        """Whether the pass has a value."""
        return not math.isnan(self.value)


def most_cheap_passes(n_events: int) -> int:
    """Return the most passes over so many events whose compensators and readings by bin fit into memory, at least 64.

    >>> most_cheap_passes(2_000), most_cheap_passes(10_000), most_cheap_passes(10**6)
    (512, 256, 64)
    """
    recorded = RECORD_BYTES // (4 * 2 * (MOST_BINS + 1) * max(n_events, 1))
    return int(np.clip(recorded, MOST_PASSES, MOST_CHEAP_PASSES)) // MORE_PASSES * MORE_PASSES


def bin_edges(horizon: int, n_events: int, batch_size: int) -> IntArray:
    """Return the rounds at which bins start and end, on the boundaries of batches.

    >>> bin_edges(100, 1000, 1).tolist()
    [0, 2, 7, 12, 19, 27, 35, 45, 54, 65, 76, 88, 100]
    >>> bin_edges(100, 1000, 40).tolist()
    [0, 40, 80, 100]
    """
    n_bins = int(np.clip(RECORD_BYTES // (4 * MOST_PASSES * max(n_events, 1)), 3, MOST_BINS))
    edges = np.round(horizon * (np.arange(n_bins + 1) / n_bins) ** BIN_POWER).astype(np.int64)
    return np.unique([*(edges // batch_size * batch_size), horizon])


def fine_edges(horizon: int) -> IntArray:
    """Return the edges of the blocks of rounds among which a break-even round is looked for, shorter at the beginning.

    >>> fine_edges(100).tolist()[:5], fine_edges(100).size
    ([0, 1, 2, 3, 4], 95)
    """
    return np.unique(np.round(horizon * (np.arange(FINE_BLOCKS + 1) / FINE_BLOCKS) ** BIN_POWER).astype(np.int64))


def bin_values(values: FloatArray, edges: IntArray) -> FloatArray:
    """Return per bin its first V_t, the sum before it and the sum after its first round, both over T.

    >>> bin_values(np.array([1.0, 2.0, 3.0, 4.0]), np.array([0, 2, 4]))
    array([[1.  , 3.  ],
           [0.  , 0.75],
           [2.25, 1.  ]])
    """
    sums = np.append(0.0, np.cumsum(values)) / values.size
    starts = edges[:-1]
    return np.array([values[starts], sums[starts], sums[-1] - sums[starts + 1]])


class ErrorTerms(NamedTuple):
    """Variance of a value over logs in its terms, its Monte-Carlo variance, and degrees of freedom of their sum.

    ``pass_noise`` is the variance of the estimated variance that more passes would reduce; ``effective_events`` is the
    effective number of events that carry the direct term.
    """

    direct: float
    cross: float
    history: float
    monte_carlo: float
    degrees_of_freedom: float
    pass_noise: float
    effective_events: float

    @property
    def sampling(self) -> float:
        """Variance over logs."""
        return max(self.direct + self.cross + self.history, SMALLEST_SHARE * self.direct)


class _Influences(NamedTuple):
    """Per pass b: value, events it used (empty for all), direct and history influences of these events.

    ``subtracted`` are direct influences of all events that are the same in every pass: those of a fixed policy, in a
    difference to it.
    """

    values: FloatArray
    rows: list[IntArray]
    direct: list[FloatArray]
    history: list[FloatArray]
    subtracted: FloatArray = NO_VALUES

    def minus(self, other: _Influences) -> _Influences:
        """Return the influences on the difference of two policies that were run on the same events."""
        direct = [a - b for a, b in zip(self.direct, other.direct, strict=True)]
        history = [a - b for a, b in zip(self.history, other.history, strict=True)]
        return _Influences(self.values - other.values, self.rows, direct, history)

    def chunks(self, n_events: int) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Iterate over ``(B, m)`` direct and history influences of consecutive events; 0 where a pass has none."""
        for start in range(0, n_events, EVENTS_PER_CHUNK):
            stop = min(start + EVENTS_PER_CHUNK, n_events)
            direct, history = np.zeros((2, len(self.values), stop - start))
            for b, rows in enumerate(self.rows):
                if rows.size == 0:
                    direct[b], history[b] = self.direct[b][start:stop], self.history[b][start:stop]
                else:
                    i, j = np.searchsorted(rows, (start, stop))
                    direct[b, rows[i:j] - start] = self.direct[b][i:j]
                    history[b, rows[i:j] - start] = self.history[b][i:j]
            if self.subtracted.size:
                direct -= self.subtracted[start:stop]
            yield direct, history


class BaselineInfluences(NamedTuple):
    """Influences of events on what a curve is compared with.

    ``fixed`` are those on a fixed policy or on the mean of the logged rewards, ``(n,)`` and over n. For a policy that
    was run in the same passes, ``direct`` and ``history`` are by pass, ``values`` are its values, and the others are
    as in :class:`InfluenceTable`: predicted history term, kappa, and the events in common with the policy in different
    passes relative to the same pass.
    """

    fixed: FloatArray = NO_VALUES
    direct: Sequence[FloatArray] = ()
    history: Sequence[FloatArray] = ()
    values: FloatArray = NO_VALUES
    predicted: float = 0.0
    kappa: float = 0.0
    overlap: float = 0.0


class InfluenceTable:
    """Variances of values and of differences from full passes ``(B, P)`` over the same events."""

    def __init__(self, full: Sequence[Sequence[PassResult]], n_events: int) -> None:
        self._policies = [list(passes) for passes in zip(*full, strict=True)]
        self._n_events = n_events
        self._influences = cache(self._influences_of)
        self.of_value = cache(self._of_value)
        self.of_difference = cache(self._of_difference)

    def _of_value(self, policy: int) -> ErrorTerms:
        """Return the terms of the variance of one policy's value."""
        influences, predicted, _ = self._influences(policy)
        return self._terms(influences, predicted)

    def _of_difference(self, a: int, b: int) -> ErrorTerms:
        """Return the terms of the variance of the difference of two values.

        The predicted history term is that of both, less what they share: their covariance over passes, times the share
        of common events in different passes relative to the same pass.
        """
        (first, first_predicted, first_kappa), (second, second_predicted, second_kappa) = map(self._influences, (a, b))
        total = first_predicted + second_predicted
        across, same = _common_events(self._policies[a], self._policies[b])
        covariance = float(np.cov(first.values, second.values)[0, 1])
        shared = 2 * math.sqrt(first_kappa * second_kappa) * covariance * across / same if same > 0 else 0.0
        return self._terms(first.minus(second), max(total - shared, SMALLEST_PAIR_SHARE * total))

    def of_difference_to_fixed(self, policy: int, influences: FloatArray) -> ErrorTerms:
        """Return the terms of the variance of the difference to a fixed policy, given the influences of events on it.

        The value of a fixed policy has no history and no Monte-Carlo error: each event influences it directly, in every
        pass by the same amount.
        """
        own, predicted, _ = self._influences(policy)
        return self._terms(own._replace(subtracted=influences / self._n_events), predicted)

    def baseline_influences(self, policy: int, baseline: int) -> BaselineInfluences:
        """Return the influences on the value of another policy, which one policy's curve is compared with."""
        other, predicted, kappa = self._influences(baseline)
        across, same = _common_events(self._policies[policy], self._policies[baseline])
        overlap = across / same if same > 0 else 0.0
        return BaselineInfluences(
            direct=other.direct,
            history=other.history,
            values=other.values,
            predicted=predicted,
            kappa=kappa,
            overlap=overlap,
        )

    def event_influences(self, policy: int) -> FloatArray:
        """Return the influence of each event on one policy's value, the mean over passes, in units of the value."""
        influences, _, _ = self._influences(policy)
        blocks = influences.chunks(self._n_events)
        return self._n_events * np.concatenate([(direct + history).mean(axis=0) for direct, history in blocks])

    def _influences_of(self, policy: int) -> tuple[_Influences, float, float]:
        """Return the influences of one policy, the predicted history term, and kappa."""
        passes = self._policies[policy]
        values = np.array([result.value for result in passes])
        direct = [result.reading for result in passes]
        if has_large_weights(passes):
            direct = [
                (result.event_values - result.event_values.mean()) / result.event_values.size for result in passes
            ]
        edges = passes[0].edges
        # one row for each history: a replay of a permuted log has several
        bins = [result.bins.reshape(-1, 3, edges.size - 1) for result in passes]
        y = remaining_values(np.concatenate(bins))
        rows = np.split(y, np.cumsum([len(of_pass) for of_pass in bins])[:-1])
        history = [_history_influences(result, y_b, edges) for result, y_b in zip(passes, rows, strict=True)]
        influences = _Influences(values, [result.rows for result in passes], direct, history)
        # the history term is about kappa/N of the variance that histories add to a pass
        gram = sum((block @ block.T for block, _ in influences.chunks(self._n_events)), np.zeros((1, 1)))
        direct_term, _ = mean_of_pairs(gram)
        history_variance = max(values.var(ddof=1) - (np.trace(gram) / len(passes) - direct_term), 0.0)
        kappa = share_of_rounds(y, edges)
        # of one history: M of them in a pass have an Mth of its variance, and share M times as many events
        per_pass = len(y) / len(passes)
        histories = per_pass * separate_histories([result.accepted for result in passes], self._n_events)
        return influences, predict_history(kappa, per_pass * history_variance, histories), kappa

    def _terms(self, influences: _Influences, predicted: float) -> ErrorTerms:
        n_passes = len(influences.values)
        direct_gram, cross_gram, history_gram = np.zeros((3, n_passes, n_passes))
        squares = fourth_powers = 0.0
        for direct, history in influences.chunks(self._n_events):
            direct_gram += direct @ direct.T
            cross_gram += direct @ history.T
            history_gram += history @ history.T
            mean = direct.mean(axis=0)
            squares, fourth_powers = squares + float((mean**2).sum()), fourth_powers + float((mean**4).sum())
        return combine_terms(
            mean_of_pairs(direct_gram)[0],
            mean_of_pairs(cross_gram + cross_gram.T),
            mean_of_pairs(history_gram),
            predicted,
            float(influences.values.var(ddof=1)) / n_passes,
            squares**2 / fourth_powers if fourth_powers > 0 else math.inf,
            n_passes,
            self._n_events,
        )


def combine_terms(
    direct: float,
    cross_and_error: tuple[float, float],
    history_and_error: tuple[float, float],
    predicted: float,
    monte_carlo: float,
    effective_events: float,
    n_passes: int,
    n_events: int,
) -> ErrorTerms:
    """Return the terms after shrinkage: the history term to its prediction, a negative cross term to 0."""
    (cross, cross_error), (history, history_error) = cross_and_error, history_and_error
    history_weight = predicted**2 / (predicted**2 + history_error**2) if predicted > 0 else 1.0
    product = direct * predicted
    cross_weight = product / (product + cross_error**2) if product > 0 else 0.0
    terms = ErrorTerms(
        direct=max(direct, 0.0),
        cross=cross if cross > 0 else cross_weight * cross,
        history=history_weight * history + (1 - history_weight) * predicted,
        monte_carlo=monte_carlo,
        degrees_of_freedom=math.inf,
        pass_noise=2 * monte_carlo**2 / (n_passes - 1)
        + cross_weight * cross_error**2
        + history_weight * history_error**2,
        effective_events=effective_events,
    )
    noise = direct**2 * max(1 / effective_events - 1 / n_events, 0.0) + terms.pass_noise
    variance = terms.sampling + monte_carlo
    return terms._replace(degrees_of_freedom=max(2 * variance**2 / noise, 1.0) if noise > 0 else math.inf)


def share_of_rounds(remaining: FloatArray, edges: IntArray) -> float:
    """Return kappa, the share of rounds that matter, from the ``(B, J)`` values that remain after the start of bins."""
    variance = np.minimum.accumulate(remaining.var(axis=0, ddof=1))
    drops, lengths = np.maximum(variance - np.append(variance[1:], 0.0), 0.0), np.diff(edges)
    if drops.sum() > 0:
        return float(np.sqrt(drops * lengths).sum() ** 2 / (edges[-1] * drops.sum()))
    return 1.0


def predict_history(kappa: float, history_variance: float, histories: float) -> float:
    """Return the prediction of the history term: about kappa/N of the variance that histories add to a pass."""
    return kappa * history_variance / max(histories - kappa, FEWEST_HISTORIES)


def has_large_weights(passes: Sequence[PassResult]) -> bool:
    """Return whether so much is exhausted that the weights of readings are too large to be used."""
    if passes[0].event_values.size == 0:
        return False  # not weighted: a replay of a permuted log reads every event once
    exhausted = np.mean([result.certificate for result in passes])
    return bool(exhausted > LARGEST_READING_EXHAUSTION * passes[0].rounds) and not passes[0].reads_held_out


def _history_influences(result: PassResult, remaining: FloatArray, edges: IntArray) -> FloatArray:
    """Return ``sum_j y_j (accepted in bin j - compensator of bin j)``, less ``own``, the mean over histories."""
    influence = -result.own
    if result.compensator.size:
        influence -= remaining[0] @ np.diff(result.compensator, axis=0)
    positions = np.searchsorted(result.rows, result.accepted) if result.rows.size else result.accepted
    # not "+=": an event that was drawn again occurs several times
    np.add.at(influence, positions, np.repeat(remaining, np.diff(edges), axis=1).ravel() / len(remaining))
    return np.asarray(influence)


def remaining_values(bins: FloatArray) -> FloatArray:
    """Return ``(B, J)``: the value that remains after the start of each bin, less its prediction from what came before.

    The prediction is a ridge regression across passes on the first V_t of the bin and the sum before it, with each pass
    left out in turn. Anything known before the bin may be subtracted; a good prediction reduces the noise.
    """
    n_passes, _, n_bins = bins.shape
    y = np.zeros((n_passes, n_bins))
    for j in range(n_bins):
        remaining = bins[:, 2, j] - bins[:, 2, j].mean()
        projection = prediction_matrix(bins[:, :2, j])
        y[:, j] = (remaining - projection @ remaining) / (1 - np.diag(projection) - 1 / n_passes)
    return y


def prediction_matrix(known: FloatArray) -> FloatArray:
    """Return the ``(B, B)`` matrix of the ridge regression across passes on what is known before a bin, ``(B, 2)``."""
    features = known - known.mean(axis=0)
    spread = features.std(axis=0)
    features = np.divide(features, spread, out=np.zeros_like(features), where=spread > 1e-12)
    return np.asarray(features @ np.linalg.solve(features.T @ features + np.eye(2), features.T))


def mean_of_pairs(gram: FloatArray) -> tuple[float, float]:
    """Return the mean over pairs of different passes, and its error by leaving out each pass in turn.

    >>> mean_of_pairs(np.array([[9.0, 1.0, 1.0], [1.0, 9.0, 1.0], [1.0, 1.0, 9.0]]))
    (1.0, 0.0)
    """
    n = len(gram)
    pairs = gram - np.diag(np.diag(gram))
    total = pairs.sum()
    left_out = (total - pairs.sum(axis=0) - pairs.sum(axis=1)) / ((n - 1) * (n - 2))
    error = math.sqrt((n - 1) / n * float(((left_out - left_out.mean()) ** 2).sum()))
    return float(total) / (n * (n - 1)), error


def _common_events(first: Sequence[PassResult], second: Sequence[PassResult]) -> tuple[float, float]:
    """Return how many events two histories share on average: in different passes, and in the same pass."""
    n = 1 + max(int(result.accepted.max()) for result in (*first, *second))
    totals, same = np.zeros((2, n)), 0.0
    for pair in zip(first, second, strict=True):
        counts = [np.bincount(result.accepted, minlength=n) for result in pair]
        totals += counts
        same += float(counts[0] @ counts[1])
    total, passes = float(totals[0] @ totals[1]), len(first)
    return (total - same) / (passes * (passes - 1)), same / passes


def between_event_variance(passes: Sequence[FloatArray]) -> float:
    """Return the variance over events of their values averaged over histories, from their values in several passes.

    In one pass it is mixed with what that pass's history does. Two passes have only the variance between events in
    common, so it is the mean covariance of two passes: ``(F^2 var(mean) - sum_f var_f) / (F (F - 1))``. Events that
    were not read in every pass (nan) are left out.

    >>> between_event_variance([np.array([0.0, 2.0]), np.array([0.0, 4.0])])
    2.0

    By hand: both grow from the first event to the second, by 2 and by 4; their covariance is 1 x 2.
    """
    n = len(passes)
    if n < 2:
        return 0.0
    table = np.array(passes)
    table = table[:, np.isfinite(table).all(axis=0)]
    if table.shape[1] == 0:
        return 0.0
    common = n**2 * table.mean(axis=0).var() - table.var(axis=1).sum()
    return max(float(common) / (n * (n - 1)), 0.0)


def separate_histories(histories: Sequence[IntArray], n_events: int) -> float:
    """Return how many histories without a common event a log is worth, from several drawn from it.

    Two histories share a part of their T events, and what they share does not average out: a mean over any number of
    histories is worth one over that part. The part is at least T/n, that of a log collected by the policy itself.

    >>> separate_histories([np.array([0, 1]), np.array([1, 2])], n_events=100)
    2.0

    By hand: one event of two in common, a half.
    """
    n = len(histories)
    if n < 2 or histories[0].size == 0:
        return np.nan
    rounds = float(np.mean([history.size for history in histories]))
    uses, within = np.zeros((2, n_events))
    for history in histories:
        counts = np.bincount(history, minlength=n_events)
        uses += counts
        within += counts**2  # an event that was drawn again is no common event
    shared = float((uses**2 - within).sum()) / (n * (n - 1) * rounds)
    return 1 / max(shared, rounds / n_events)
