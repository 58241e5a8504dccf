"""Bootstrap intervals: percentile, and bias-corrected and accelerated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from backcast._arrays import FloatArray
from backcast._request import SeedKey
from backcast._validation import count
from backcast.estimate import Interval
from backcast.intervals._sample import TERM, WEIGHT, WeightedSample

GROUPS = 2000  # longer logs are resampled in this many groups
CHUNK = 64  # replicates drawn at a time


@dataclass(frozen=True)
class Bootstrap:
    """The percentile interval (Efron 1979): quantiles of the estimate over resampled logs.

    Assumption: asymptotic, independent events. Estimand: that of the estimate. Logs of more than 2,000 events are
    resampled in 2,000 groups, which preserves mean, variance and skewness. The draws use the seed of the evaluation.

    Parameters
    ----------
    replicates
        Number of resampled logs.

    Examples
    --------
    >>> from backcast.intervals._sample import sample_from_values
    >>> print(Bootstrap().interval(sample_from_values(0.5, 0.5, 0.5), level=0.95))
    [0.5, 0.5] (95 % bootstrap)
    """

    replicates: int = 2000

    def __post_init__(self) -> None:
        count("replicates", self.replicates, 100)

    def interval(self, sample: WeightedSample, level: float) -> Interval:
        """Return the interval between two quantiles."""
        values = replicate_values(sample, sum_groups(sample), self.replicates)
        ends = replicate_quantiles(values, ((1 - level) / 2, (1 + level) / 2))
        return Interval(*ends, level, "bootstrap", "asymptotic", sample.estimand)


@dataclass(frozen=True)
class BCa:
    """The bias-corrected and accelerated percentile interval (Efron 1987): allows for bias and skewness.

    Assumption: asymptotic, independent events. Estimand: that of the estimate. Otherwise as :class:`Bootstrap`.

    Examples
    --------
    >>> from backcast.intervals._sample import sample_from_values
    >>> print(BCa().interval(sample_from_values(0.5, 0.5, 0.5), level=0.95))
    [0.5, 0.5] (95 % BCa bootstrap)
    """

    replicates: int = 2000

    def __post_init__(self) -> None:
        count("replicates", self.replicates, 100)

    def interval(self, sample: WeightedSample, level: float) -> Interval:
        """Return the interval between two quantiles at corrected levels."""
        sums = sum_groups(sample)
        values = replicate_values(sample, sums, self.replicates)
        left_out = _estimate_from_sums(sample, (sums.sum(axis=1, keepdims=True) - sums).T)
        levels = bca_levels(level, share_below(values, sample.value), acceleration(left_out))
        return Interval(*replicate_quantiles(values, levels), level, "BCa bootstrap", "asymptotic", sample.estimand)


def sum_groups(sample: WeightedSample, groups: int = GROUPS) -> FloatArray:
    """Sums of base, weight and term, the number of events, and sums of squares and products, shape ``(6, G)``.

    Event k goes to group ``k mod G``. Independent events in groups of equal size give group sums whose total has the
    same mean, variance and skewness: resampling groups replaces resampling events for logs of any length.
    The last two rows hold ``sum (w - mean w)^2`` and ``sum (w - mean w)(term - mean term)``, from which an estimate
    refits its constants on each resampled log.

    >>> from backcast.intervals._sample import sample_from_values
    >>> sum_groups(sample_from_values(1.0, 2.0, 4.0), groups=2)[2:4]
    array([[5., 2.],
           [2., 1.]])
    """
    size = min(groups, sample.moments.n)
    sums = np.zeros((6, size))
    start = 0
    for columns in sample.columns():
        n = columns.base.size
        group = (start + np.arange(n)) % size
        weight, term = columns.weight - sample.moments.mean[WEIGHT], columns.term - sample.moments.mean[TERM]
        rows = (columns.base, columns.weight, columns.term, np.ones(n), weight * weight, weight * term)
        for row, values in zip(sums, rows, strict=True):
            row += np.bincount(group, values, minlength=size)
        start += n
    return sums


def replicate_values(sample: WeightedSample, sums: FloatArray, replicates: int) -> FloatArray:
    """Return the estimate on each of many resampled logs."""
    rng = np.random.default_rng((sample.seed, SeedKey.BOOTSTRAP))
    size = sums.shape[1]
    values = np.empty(replicates)
    for start in range(0, replicates, CHUNK):
        counts = rng.multinomial(size, np.full(size, 1 / size), size=min(CHUNK, replicates - start))
        values[start : start + CHUNK] = _estimate_from_sums(sample, counts @ sums.T)
    # a replicate whose weights are all 0 has no estimate; rare unless the log hardly overlaps the policy
    return values[np.isfinite(values)]


def _estimate_from_sums(sample: WeightedSample, totals: FloatArray) -> Any:
    """Return the estimate of each log whose sums (those of :func:`sum_groups`) are a row of ``totals``."""
    base, weight, term, squares, products = totals[:, [0, 1, 2, 4, 5]].T / totals[:, 3]
    # squares and products are centred at the means of the log: shift them to the means of the resampled log
    shift_weight, shift_term = weight - sample.moments.mean[WEIGHT], term - sample.moments.mean[TERM]
    var_weight, cov_weight_term = squares - shift_weight * shift_weight, products - shift_weight * shift_term
    with np.errstate(divide="ignore", invalid="ignore"):
        return sample.aggregate.refit(weight, var_weight, cov_weight_term).value(base, weight, term)


def replicate_quantiles(values: FloatArray, levels: tuple[float, float]) -> tuple[float, float]:
    """The ``(B + 1) p``-th of B sorted replicates, so that a small B does not make the interval narrower.

    Davison and Hinkley 1997, section 2.4.

    >>> replicate_quantiles(np.arange(1.0, 100.0), (0.05, 0.95))
    (5.0, 95.0)
    """
    low, high = np.quantile(values, levels, method="weibull").tolist()
    return low, high


def acceleration(left_out: FloatArray) -> float:
    """``sum d^3 / (6 (sum d^2)^1.5)`` of the jackknife deviations d (Efron 1987).

    >>> acceleration(np.array([1.0, 1.0, -2.0]))
    0.06804138174397717

    By hand: the mean is 0 and d = -1, -1, 2, so 6 / (6 * 6^1.5).
    """
    finite = left_out[np.isfinite(left_out)]
    deviations = finite.mean() - finite
    squares = float((deviations**2).sum())
    return float((deviations**3).sum()) / (6 * squares**1.5) if squares > 0 else 0.0


def bca_levels(level: float, below: float, accelerated: float) -> tuple[float, float]:
    """Corrected quantile levels, given the share of replicates below the estimate and the acceleration.

    With ``z0 = Phi^-1(below)`` and a the acceleration, level p becomes
    ``Phi(z0 + (z0 + z_p) / (1 - a (z0 + z_p)))`` (Efron 1987).

    >>> bca_levels(0.5, below=0.5, accelerated=0.0)
    (0.25, 0.75)
    """
    from scipy.special import ndtr, ndtri

    bias = float(ndtri(below))

    def corrected(tail: float) -> float:
        shifted = bias + float(ndtri(tail))
        return float(ndtr(bias + shifted / max(1 - accelerated * shifted, 1e-9)))

    return corrected((1 - level) / 2), corrected((1 + level) / 2)


def share_below(values: FloatArray, value: float) -> float:
    """Share of the replicates below the estimate, ties counted half; never 0 or 1."""
    share = float((values < value).mean() + (values == value).mean() / 2)
    return min(max(share, 0.5 / values.size), 1 - 0.5 / values.size)
