"""The interval to take when nobody asks for another."""

from __future__ import annotations

from dataclasses import dataclass

from backcast.estimate import Interval
from backcast.intervals.cressie_read import CressieRead
from backcast.intervals.normal import Normal
from backcast.intervals.sample import Sample

__all__ = ["Recommended"]


@dataclass(frozen=True)
class Recommended:
    """Cressie-Read where rewards of a declared range are weighed and nothing else is done; normal otherwise.

    Assumption: asymptotic, independent events. Estimand: that of the estimate.

    Examples
    --------
    >>> from backcast.intervals.sample import values_of
    >>> Recommended().interval(values_of(0.0, 1.0), level=0.95).method
    'normal'
    """

    def interval(self, sample: Sample, level: float) -> Interval:
        """That of the method that fits."""
        fits = sample.weighs_rewards and sample.reward_range is not None
        return CressieRead().interval(sample, level) if fits else Normal().interval(sample, level)
