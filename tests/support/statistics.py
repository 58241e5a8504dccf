"""Statistical limits for tests on samples."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2, chisquare

from backcast._arrays import FloatArray
from backcast.log import Log

# Sample means may differ by 4 standard errors (false alarm: 1 in 16,000), chi-square statistics up to their 1e-4 tail.
# Seeds are fixed, so the tests are deterministic.
FAR = 4.0
TAIL = 1e-4


def chi_square_is_small(observed: FloatArray, expected: FloatArray) -> bool:
    assert observed.sum() == pytest.approx(expected.sum())
    used = expected > 0
    assert not observed[~used].any()
    statistic = float((np.square(observed - expected)[used] / expected[used]).sum())
    return statistic < float(chi2.isf(TAIL, used.sum() - 1))


def inverse_propensity(log: Log, target: FloatArray) -> FloatArray:
    weights: FloatArray = target[np.arange(len(log)), log.actions] / log.propensities
    return weights * log.rewards


def assert_close(sample: FloatArray, truth: float, spread: float = 0.0) -> None:
    """The mean of the sample agrees with the truth, which has the standard error ``spread``."""
    error = (sample.var() / sample.size + spread**2) ** 0.5
    assert abs(sample.mean() - truth) < FAR * error


def p_value(found: Counter[Any], law: dict[Any, float]) -> float:
    """Chi-square test of counts against a law; what is expected fewer than five times is taken together."""
    total = sum(found.values())
    common = [outcome for outcome, chance in law.items() if chance * total >= 5]
    counts = np.array([found[outcome] for outcome in common])
    expected = total * np.array([law[outcome] for outcome in common])
    counts, expected = np.append(counts, total - counts.sum()), np.append(expected, total - expected.sum())
    if expected[-1] < 5:
        counts, expected = counts[:-1], expected[:-1] * counts[:-1].sum() / expected[:-1].sum()
    return float(chisquare(counts, expected).pvalue)
