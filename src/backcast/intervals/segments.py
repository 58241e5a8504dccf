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
    >>> error, low, high = student_interval(np.array([1.0, 2.0]), level=0.5)
    >>> round(error, 6), round(low, 6), round(high, 6)
    (0.5, 1.0, 2.0)

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

    Nothing is asked of the log as a whole: the value is the mean over the segments, and so is the curve, with a band of
    Student's t; the diagnostics are theirs joined, counts added up. Segments are shared out by ``n_jobs``.

    Examples
    --------
    >>> from backcast.evaluation import evaluate
    >>> from backcast.evaluators.stationary import IPS
    >>> from backcast.log import Log
    >>> from backcast.policies.stationary import Fixed
    >>> log = Log(None, actions=[0, 1, 0, 1], rewards=[1, 1, 0, 1], propensities=[0.5] * 4)
    >>> evaluate(log, Fixed([0.5, 0.5]), IPS(), interval=Segments(2)).std_error
    0.25

    By hand: the halves of the log are worth 1 and 1/2, whose mean has the standard error 1/4.
    """

    count: int = 10

    def __post_init__(self) -> None:
        count("count", self.count, 2)
