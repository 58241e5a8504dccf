"""BreakEven: the round from which a learning policy earns more than a baseline, and that by which it has paid."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from backcast._arrays import FloatArray, IntArray
from backcast._display import NotebookDisplay


@dataclass(frozen=True)
class RoundInterval(NotebookDisplay):
    """Confidence interval of a round; None is "not within the horizon", for ``low`` and thus for both ends.

    Examples
    --------
    >>> RoundInterval(low=10, high=None).to_text(horizon=500)
    '10 to more than 500'
    """

    low: int | None
    high: int | None

    def to_text(self, horizon: int) -> str:
        """Return both ends in words, for an evaluation over ``horizon`` rounds."""
        after = f"more than {horizon:,}"
        if self.low is None:
            return after
        return f"{self.low:,} to {after if self.high is None else format(self.high, ',')}"


@dataclass(frozen=True)
class BreakEven(NotebookDisplay):
    """When a learning policy begins to earn more than a baseline, and when it has made up for what learning cost.

    With V_t what the policy earns in round t on average over live runs, and b the value of the baseline, the intervals
    cover the true rounds at the level if V_t passes b at most once. They have the resolution of the blocks of rounds
    that the curve is known for, which at their longest are about 1 % of the horizon (of a stream: 2 %).

    Attributes
    ----------
    round
        Round from which on the policy earns more per round than the baseline: where the isotonic regression of V_t
        passes b. None: not within the horizon.
    interval
        Interval of that round.
    payback
        Round by which it has earned more in total than the baseline would have: where the sum of ``V_s - b`` over the
        rounds so far turns positive. None: not within the horizon.
    payback_interval
        Interval of that round.
    horizon
        Number of rounds T.
    level
        Level of each of the intervals.
    baseline
        "logged", the mean of the logged rewards, or the name of a policy.

    Examples
    --------
    >>> print(BreakEven(140, RoundInterval(90, 210), 290, RoundInterval(180, None), 500, 0.95, "logged"))
    earns more than logged from round 140 on (95 %: 90 to 210), paid back by round 290 (95 %: 180 to more than 500)
    """

    round: int | None
    interval: RoundInterval
    payback: int | None
    payback_interval: RoundInterval
    horizon: int
    level: float
    baseline: str

    def __str__(self) -> str:
        level, rounds = f"{100 * self.level:g} %", f"within {self.horizon:,} rounds"
        first, paid = (each.to_text(self.horizon) for each in (self.interval, self.payback_interval))
        more = f"from round {self.round:,} on" if self.round is not None else f"not {rounds}"
        back = f"by round {self.payback:,}" if self.payback is not None else f"not {rounds}"
        return f"earns more than {self.baseline} {more} ({level}: {first}), paid back {back} ({level}: {paid})"


class GainCurve(NamedTuple):
    """What a policy earns more than a baseline, with half-widths of pointwise intervals.

    ``gain`` is the mean of ``V_t - b`` over the blocks between ``edges`` (the first is 0, the last the horizon);
    ``mean_gain`` the mean over all rounds up to the end of each block.
    """

    edges: IntArray
    gain: FloatArray
    half_width: FloatArray
    mean_gain: FloatArray
    mean_half_width: FloatArray


def find_break_even(curve: GainCurve, level: float, baseline: str) -> BreakEven:
    """Find both rounds, and their intervals by inverting the pointwise intervals of the curve.

    The sum of gains is smallest where their isotonic regression passes 0, because that regression is the slope of the
    sum's convex minorant. So single rounds that differ from their neighbours, by noise or because the policy explores
    in all histories at the same time, do not move the estimate, and nothing has to be tuned. The ends of an interval
    are the nearest blocks on both sides whose regression, or whose sum, differs from 0.

    A policy that loses 1 in each of two rounds and gains 2 in each of the next two:

    >>> gain = np.array([-1.0, -1.0, 2.0, 2.0])
    >>> sums = gain.cumsum() / np.arange(1, 5)
    >>> curve = GainCurve(np.arange(5), gain, np.full(4, 0.5), sums, np.full(4, 0.25))
    >>> found = find_break_even(curve, 0.95, "logged")
    >>> found.round, found.interval, found.payback, found.payback_interval
    (3, RoundInterval(low=2, high=3), 4, RoundInterval(low=3, high=4))

    By hand: the sums are -1, -2, 0, 2. The second round is below and the third above the baseline; the sum is above 0
    in the fourth. The interval of the sum excludes 0 after the second round, and includes it after the third.
    """
    edges, n = curve.edges, curve.gain.size
    sums = np.append(0.0, curve.mean_gain * edges[1:])
    turn, paid = n - int(np.argmin(sums[::-1])), int(np.flatnonzero(sums <= 0)[-1])
    # Between two blocks: one with a round that is not above the baseline, and one with a round that is.
    below, above = _surrounding(fit_isotonic(curve.gain, np.diff(edges)), curve.half_width, turn)
    low = 1 if below is None else None if below == n - 1 else int(edges[below]) + 1
    interval = RoundInterval(low, None if above is None else int(edges[above + 1]))
    # Between the ends of two blocks: the sum so far is not positive at one, and positive at the other.
    below, above = _surrounding(curve.mean_gain, curve.mean_half_width, paid)
    low = 1 if below is None else None if below == n - 1 else int(edges[below + 1]) + 1
    payback_interval = RoundInterval(low, None if above is None else int(edges[above + 1]))
    # a policy that ends below the baseline does not earn more from some round on, whatever it earned at first
    ends_below = curve.gain[-1] + curve.half_width[-1] < 0
    return BreakEven(
        round=None if turn == n or ends_below else int(edges[turn]) + 1,
        interval=RoundInterval(None, None) if ends_below else interval,
        payback=_payback(sums, edges, paid),
        payback_interval=payback_interval,
        horizon=int(edges[-1]),
        level=level,
        baseline=baseline,
    )


def fit_isotonic(values: FloatArray, lengths: IntArray) -> FloatArray:
    """Return the nearest sequence that never falls: the isotonic regression, weighted by the lengths of blocks.

    Pool adjacent violators (Ayer et al. 1955): neighbours in the wrong order are replaced by their mean.

    >>> fit_isotonic(np.array([1.0, 4.0, 1.0, 6.0]), np.array([1, 2, 1, 1]))
    array([1., 3., 3., 6.])
    """
    means: list[float] = []
    weights: list[int] = []
    counts: list[int] = []
    for value, length in zip(values.tolist(), lengths.tolist(), strict=True):
        mean, weight, n_blocks = value, length, 1
        while means and means[-1] >= mean:
            before, before_weight = means.pop(), weights.pop()
            mean = (before * before_weight + mean * weight) / (before_weight + weight)
            weight, n_blocks = weight + before_weight, n_blocks + counts.pop()
        means.append(mean)
        weights.append(weight)
        counts.append(n_blocks)
    return np.repeat(means, counts)


def _surrounding(values: FloatArray, half_widths: FloatArray, place: int) -> tuple[int | None, int | None]:
    """Return the last block before a place whose interval is below 0, and the first one from there on above 0.

    >>> _surrounding(np.array([-2.0, -1.0, 0.5, 2.0]), np.full(4, 1.5), 2)
    (0, 3)
    """
    below = np.flatnonzero((values + half_widths < 0)[:place])
    above = np.flatnonzero((values - half_widths > 0)[place:])
    return int(below[-1]) if below.size else None, place + int(above[0]) if above.size else None


def _payback(sums: FloatArray, edges: IntArray, last: int) -> int | None:
    """Return the first round after the last sum that is not positive; linear between the ends of blocks."""
    if last == sums.size - 1:
        return None
    share = float(-sums[last] / (sums[last + 1] - sums[last]))
    return int(edges[last]) + math.floor(share * int(edges[last + 1] - edges[last])) + 1
