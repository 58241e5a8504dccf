"""Standard errors of parts of a learning curve, less a baseline, from the full passes of clock replay.

Any weighted mean of V_t over rounds has influences like those of the value (``_passes.py``). They are linear in the
weights, so those of the bins of rounds give all others: one sweep over the events collects sums of products between
bins, and the variance of each weighted mean is a quadratic form (docs/theory.md, section 5, "Parts of the curve").
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from backcast._arrays import FloatArray, IntArray
from backcast.estimate import Precision
from backcast.evaluators._passes import (
    SMALLEST_PAIR_SHARE,
    BaselineInfluences,
    PassResult,
    combine_terms,
    has_large_weights,
    predict_history,
    prediction_matrix,
    separate_histories,
    share_of_rounds,
)

CHUNK_NUMBERS = 1 << 18  # of influences of all bins and passes in a chunk of events: 2 MB, which stay in the cache


class CurveInfluences:
    """Precision of weighted means of one policy's V_t over bins of rounds, with or without a baseline subtracted."""

    def __init__(
        self, passes: Sequence[PassResult], n_events: int, effective_events: float, baseline: BaselineInfluences
    ) -> None:
        self.edges = passes[0].edges
        self._passes, self._n_events, self._effective_events = passes, n_events, effective_events
        self._baseline = baseline
        self._lengths = np.diff(self.edges) / self.edges[-1]
        bins = np.array([result.bins for result in passes])
        totals = np.append(bins[:, 1], np.array([result.value for result in passes])[:, None], axis=1)
        self._contributions = np.diff(totals, axis=1)  # (B, J): of each bin to the mean over all rounds
        self._remaining = _remaining_by_bin(bins, self._contributions)
        self._histories = separate_histories([result.accepted for result in passes], n_events)
        self._direct, self._cross, self._history, self._own_squares = self._collect()

    def _collect(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return by pass, ``(B, J + 1, J + 1)``: products with all other passes, and of direct influences with itself.

        Products are of direct with direct, direct with history (both ways), and history with history influences.
        """
        n_passes, n_bins = self._contributions.shape
        direct, cross, history, own = np.zeros((4, n_passes, n_bins + 1, n_bins + 1))
        for read, changed in self._chunks():  # D and Q of docs/theory.md
            all_read, all_changed = read.sum(axis=0).T, changed.sum(axis=0).T
            read_again, changed_again = np.swapaxes(read, 1, 2), np.swapaxes(changed, 1, 2)
            products = read @ read_again
            direct += read @ all_read - products
            cross += read @ all_changed - read @ changed_again + changed @ all_read - changed @ read_again
            history += changed @ all_changed - changed @ changed_again
            own += products
        return direct, cross, history, own

    def _chunks(self) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Iterate over ``(B, J + 1, m)`` direct and history influences of consecutive events, the baseline's last."""
        n_passes, n_bins = self._contributions.shape
        size = max(1, CHUNK_NUMBERS // (n_passes * (n_bins + 1)))
        average = has_large_weights(self._passes)
        accepted_in = [self._bins_of_acceptance(result) for result in self._passes]
        for start in range(0, self._n_events, size):
            stop = min(start + size, self._n_events)
            direct, history = np.zeros((2, n_passes, n_bins + 1, stop - start))
            for b, result in enumerate(self._passes):
                columns = slice(start, stop)
                places: slice | IntArray = slice(None)
                if result.rows.size:
                    columns = slice(*np.searchsorted(result.rows, (start, stop)))
                    places = result.rows[columns] - start
                readings, own = _influences_by_bin(result, columns, self._lengths, average)
                # views of one pass: an index of places beside that of the pass would put them first
                read, changed = direct[b], history[b]
                read[:-1, places] = readings
                changed[:-1, places] = self._history_by_bin(b, accepted_in[b][columns], columns, own)
                if self._baseline.direct:
                    read[-1, places] = self._baseline.direct[b][columns]
                    changed[-1, places] = self._baseline.history[b][columns]
            if self._baseline.fixed.size:
                direct[:, -1] = self._baseline.fixed[start:stop]
            yield direct, history

    def _bins_of_acceptance(self, result: PassResult) -> IntArray:
        """Return the bin in which each event of a pass was accepted, the number of bins if it was not."""
        n_events = result.rows.size or self._n_events
        bins = np.full(n_events, self._lengths.size)
        positions = np.searchsorted(result.rows, result.accepted) if result.rows.size else result.accepted
        bins[positions] = np.repeat(np.arange(self._lengths.size), np.diff(self.edges))
        return bins

    def _history_by_bin(self, b: int, accepted_in: IntArray, columns: slice, own: FloatArray) -> FloatArray:
        """Return the influences ``(J, m)`` of becoming history on the contribution of each bin, less ``own``."""
        remaining = self._remaining[b]
        gained = np.append(remaining, np.zeros((len(remaining), 1)), axis=1)[:, accepted_in]
        return np.asarray(gained - remaining @ np.diff(self._passes[b].compensator[:, columns], axis=0) - own)

    def precision(self, weights: FloatArray, values: FloatArray, *, less_baseline: bool = True) -> Precision:
        """Return the precision of a weighted mean of V_t over bins, given its ``(B,)`` values by pass.

        ``weights`` of the ``(J,)`` bins have the sum 1. The values may be of other rounds near these: they give the
        Monte-Carlo variance, the bins the variance over logs.
        """
        coefficients = np.append(weights / self._lengths, -1.0 if less_baseline else 0.0)
        predicted, kappa, values_by_bin = self._predicted(coefficients[:-1])
        monte_carlo = values
        if less_baseline and self._baseline.values.size:
            other = self._baseline
            total = predicted + other.predicted
            covariance = float(np.cov(values_by_bin, other.values)[0, 1])
            shared = 2 * np.sqrt(kappa * other.kappa) * covariance * other.overlap
            predicted, monte_carlo = max(total - shared, SMALLEST_PAIR_SHARE * total), values - other.values
        terms = combine_terms(
            _mean_of_pairs(_quadratic(self._direct, coefficients))[0],
            _mean_of_pairs(_quadratic(self._cross, coefficients)),
            _mean_of_pairs(_quadratic(self._history, coefficients)),
            float(predicted),
            float(monte_carlo.var(ddof=1)) / len(values),
            self._effective_events,
            len(values),
            self._n_events,
        )
        return Precision(terms.sampling, terms.monte_carlo, terms.degrees_of_freedom)

    def _predicted(self, coefficients: FloatArray) -> tuple[float, float, FloatArray]:
        """Return the predicted history term of a weighted mean, kappa, and its values by pass."""
        values = self._contributions @ coefficients
        kappa = share_of_rounds(np.einsum("i,bij->bj", coefficients, self._remaining), self.edges)
        alone = np.append(coefficients, 0.0)
        reading = _quadratic(self._own_squares, alone).mean() - _mean_of_pairs(_quadratic(self._direct, alone))[0]
        history_variance = max(float(values.var(ddof=1) - reading), 0.0)
        return predict_history(kappa, history_variance, self._histories), kappa, values


def _remaining_by_bin(bins: FloatArray, contributions: FloatArray) -> FloatArray:
    """Return ``(B, J, J)``: what of bin i's contribution comes after the first round of bin j, less its prediction.

    The sum over i is :func:`backcast.evaluators._passes.remaining_values`.
    """
    n_passes, n_bins = contributions.shape
    remaining = np.zeros((n_passes, n_bins, n_bins))
    # the first round of a bin, over T: what is left of the whole is the sum of later bins and the remainder of this one
    first = contributions[:, ::-1].cumsum(axis=1)[:, ::-1] - bins[:, 2]
    for j in range(n_bins):
        later = contributions[:, j:].copy()
        later[:, 0] -= first[:, j]
        later -= later.mean(axis=0)
        projection = prediction_matrix(bins[:, :2, j])
        scale = 1 - np.diag(projection) - 1 / n_passes
        remaining[:, j:, j] = (later - projection @ later) / scale[:, None]
    return remaining


def _influences_by_bin(
    result: PassResult, columns: slice, lengths: FloatArray, average: bool
) -> tuple[FloatArray, FloatArray]:
    """Return ``(J, m)`` readings of events by bin, and their covariance with the events' own acceptance.

    The latter is recorded for all rounds together. That of a bin is its reading times the mean compensator of the bin,
    with the sign of ``own``; what is missing is divided among the bins by their length. If ``average``, weights are too
    large for readings to be used, and the values of events averaged over all rounds stand for each bin.
    """
    readings = np.diff(result.readings[:, columns].astype(np.float64), axis=0)
    compensator = result.compensator[:, columns]
    own = -readings * (compensator[:-1] + compensator[1:]) / 2
    own += lengths[:, None] * (result.own[columns] - own.sum(axis=0))
    if average:
        centred = (result.event_values[columns] - result.event_values.mean()) / result.event_values.size
        readings = lengths[:, None] * centred
    return readings, own


def _quadratic(products: FloatArray, coefficients: FloatArray) -> FloatArray:
    return np.asarray((products @ coefficients) @ coefficients)


def _mean_of_pairs(rows: FloatArray) -> tuple[float, float]:
    """Return the mean over pairs of different passes, and its leave-one-out error, from each pass's sum over others.

    >>> _mean_of_pairs(np.array([2.0, 2.0, 2.0]))
    (1.0, 0.0)
    """
    n, total = len(rows), float(rows.sum())
    left_out = (total - 2 * rows) / ((n - 1) * (n - 2))
    error = np.sqrt((n - 1) / n * ((left_out - left_out.mean()) ** 2).sum())
    return total / (n * (n - 1)), float(error)
