"""Theorem 2 of the founding paper: a deviation bound for one run, offered for reference."""

from __future__ import annotations

import math
from dataclasses import dataclass

from backcast.options import at_least

__all__ = ["TheoremTwo", "deviation_bound"]


def deviation_bound(events: int, weight: float, c_max: float, largest_weight: float, delta: float) -> float:
    """``(n c_max / C) 2 max{(1+M) ln(2/delta)/n, sqrt((3+M) ln(2/delta)/n)}`` (Dudik et al. 2012, Theorem 2).

    >>> round(deviation_bound(events=100, weight=50.0, c_max=1.0, largest_weight=1.0, delta=2 / math.e), 6)
    0.8

    By hand: n c_max / C = 2, and max{2/100, sqrt(4/100)} = 0.2.
    """
    log_term = math.log(2 / delta)
    inner = max((1 + largest_weight) * log_term / events, math.sqrt((3 + largest_weight) * log_term / events))
    return events * c_max / weight * 2 * inner


@dataclass(frozen=True)
class TheoremTwo:
    """The paper's own bound on ``|R/C - V(pi_PV)|`` for a single run; conservative.

    Assumption: martingale (any logger that does not look ahead). Estimand: V(pi_PV).

    Parameters
    ----------
    largest_weight
        The bound M on ``pi/mu``; None takes one over the smallest propensity of the log.

    Examples
    --------
    >>> TheoremTwo(largest_weight=4.0)
    TheoremTwo(largest_weight=4.0)
    """

    largest_weight: float | None = None

    def __post_init__(self) -> None:
        if self.largest_weight is not None:
            at_least("largest_weight", self.largest_weight, 0.0, strict=True)
