"""Student's interval over disjoint parts of the log, each with a trajectory or an estimate of its own."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy import stats

from backcast.arrays import FloatArray
from backcast.options import count

__all__ = ["Segments", "student_interval"]


def student_interval(values: FloatArray, level: float) -> tuple[float, float, float]:
    """Standard error of the mean of independent values, and the two ends ``mean -+ t_{m-1} s / sqrt(m)``.

    >>> import numpy as np
    >>> error, low, high = student_interval(np.array([0.0, 1.0]), level=0.5)
    >>> round(error, 6), round(low, 6), round(high, 6)
    (0.5, 0.0, 1.0)

    By hand: s = sqrt(1/2), over sqrt(2) is 1/2, and Student's quartile with 1 degree of freedom is 1.
    """
    m = values.size
    error = float(values.std(ddof=1)) / math.sqrt(m)
    reach = float(stats.t.ppf((1 + level) / 2, m - 1)) * error
    mean = float(values.mean())
    return error, mean - reach, mean + reach


@dataclass(frozen=True)
class Segments:
    """Cut the log into ``count`` disjoint contiguous segments, evaluate each by itself, and let them vote.

    Assumption: independent (segments of an i.i.d. log), or time-ordered logs whose segments are nearly so.
    Estimand: V_T(pi). Conservative: each segment has only a part of the log.
    """

    count: int = 10

    def __post_init__(self) -> None:
        count("count", self.count, 2)
