"""Betting intervals: a value is excluded once a bettor against it would have multiplied its wealth enough."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from backcast._arrays import FloatArray
from backcast._kernels.jit import compiled
from backcast._validation import count
from backcast.estimate import Interval
from backcast.intervals._bounds import (
    WeightBound,
    clip_to_reward_range,
    event_range,
    find_ratio_bound,
    require_reward_range,
)
from backcast.intervals._sample import WeightedSample

MAX_LOSS = 0.75  # largest share of the wealth that one event may cost: Waudby-Smith and Ramdas's for a given n
GRID = 128  # candidate values tried at a time; two rounds leave 1/16,000 of the range
COUNT, MEAN_X, MEAN_W, VAR_X, COV, VAR_W = range(6)  # entries of the running statistics

Outcomes: TypeAlias = Callable[[], Iterator[tuple[FloatArray, FloatArray]]]


class Game(NamedTuple):
    """What is known before the first event.

    ``n`` events to size the bets for, ``goal`` the wealth that excludes a value, ``max_weight`` the bound on the
    weights (infinity: unknown, so that no bets are placed on them), ``prior`` the variance of x assumed before the
    first event.
    """

    n: float
    goal: float
    max_weight: float
    prior: float


@dataclass(frozen=True)
class Betting(WeightBound):
    """A confidence sequence by betting (Waudby-Smith and Ramdas 2024; Karampatziakis, Mineiro and Ramdas 2021).

    For every candidate value a bettor bets, event by event, that the truth is larger (and another that it is
    smaller); candidates against which the wealth ever reached ``2 / alpha`` are excluded. Bets use the known bound
    on the weights to hedge with ``w - 1``, whose mean is 0.

    Assumption: martingale: events in the order in which a logger that does not look ahead recorded them, rewards
    within the declared range, weights within the bound; then it covers for every n. With ``tuned_for`` fixed it
    covers at all times together, so that a growing log may be evaluated repeatedly. Cross-fitted models make events
    dependent: use ``Progressive``, ``Split`` or ``Fitted`` if the guarantee must be exact.
    Estimand: that of the estimate; V(pi) for IPS, SNIPS and BaselineIPS.

    Parameters
    ----------
    largest_weight
        A known bound on ``pi/p``, infinity for none; None uses the bound that the log shows, if any. Weighted rewards
        need no bound, but without one there is no hedging; with a reward model a log that shows none is refused.
    tuned_for
        Number of events for which the bets are sized; None uses the length of the log.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from backcast.intervals._sample import sample_from_values
    >>> sample = replace(sample_from_values(*[0.0, 1.0] * 200), reward_range=(0, 1), residual_range=(0, 1))
    >>> print(Betting().interval(sample, level=0.95))
    [0.433, 0.5671] (95 % betting)
    """

    tuned_for: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tuned_for is not None:
            count("tuned_for", self.tuned_for)

    def interval(self, sample: WeightedSample, level: float) -> Interval:
        """Return the interval within the range of the estimand."""
        low, high = least_reward, most_reward = require_reward_range(sample, "betting")
        max_weight = math.inf
        if sample.weighs_rewards:
            max_weight = find_ratio_bound(sample, self.largest_weight)
        else:
            low, high = event_range(sample, self.largest_weight, "betting")
        # before the first event, values are assumed to vary like coin flips between the ends of the reward range
        prior = 0.25 * ((most_reward - least_reward) / (high - low)) ** 2
        game = Game(float(self.tuned_for or sample.moments.n), 2 / (1 - level), max_weight, prior)
        least = lower_end(lambda: _scaled_outcomes(sample, low, high, mirrored=False), game)
        most = lower_end(lambda: _scaled_outcomes(sample, low, high, mirrored=True), game)
        ends = low + (high - low) * least, high - (high - low) * most
        return clip_to_reward_range(Interval(*ends, level, "betting", "martingale", sample.estimand), sample)


def _scaled_outcomes(
    sample: WeightedSample, low: float, high: float, *, mirrored: bool
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Yield x and w per block: x is ``w (r - low)/(high - low)`` or the scaled event value, or their mirror image."""
    for columns in sample.columns():
        if sample.weighs_rewards:
            gain = high - columns.residual if mirrored else columns.residual - low
            yield columns.ratio * gain / (high - low), columns.ratio
        else:
            value = columns.base + columns.term
            yield (high - value if mirrored else value - low) / (high - low), np.ones_like(value)


def lower_end(outcomes: Outcomes, game: Game) -> float:
    """The least mean in [0, 1] that outcomes x >= 0 do not exclude, rounded down to 1/16,000."""
    low, high = bracket_lower_end(outcomes, game, 0.0, 1.0)
    return low if low == high else bracket_lower_end(outcomes, game, low, high)[0]


def bracket_lower_end(outcomes: Outcomes, game: Game, low: float, high: float) -> tuple[float, float]:
    """The largest excluded candidate of a grid over [low, high] and its neighbour above (``low`` twice if none is)."""
    candidates = np.linspace(low, high, GRID)
    wealth, statistics = np.ones(GRID), np.zeros(6)
    excluded = 0
    for x, w in outcomes():
        excluded = play(x, w, candidates, wealth, statistics, game)
    if excluded == 0:
        return low, low
    return float(candidates[excluded - 1]), float(candidates[min(excluded, GRID - 1)])


@compiled
def stake(variance: float, game: Game) -> float:
    """``sqrt(2 log(goal) / (n variance))``: about the bet that grows fastest (Waudby-Smith and Ramdas 2024, eq. 15).

    >>> stake(0.5, Game(4.0, math.e, math.inf, 0.25))
    1.0
    """
    return math.sqrt(2.0 * math.log(game.goal) / (game.n * variance))


@compiled
def update_statistics(statistics: FloatArray, x: float, w: float) -> None:
    """Update the count, the means of x and w, and their scatter (Welford 1962).

    >>> statistics = np.zeros(6)
    >>> update_statistics(statistics, 1.0, 1.0)
    >>> update_statistics(statistics, 3.0, 1.0)
    >>> statistics[MEAN_X].item(), statistics[VAR_X].item()
    (2.0, 2.0)
    """
    statistics[COUNT] += 1.0
    step_x, step_w = x - statistics[MEAN_X], w - statistics[MEAN_W]
    statistics[MEAN_X] += step_x / statistics[COUNT]
    statistics[MEAN_W] += step_w / statistics[COUNT]
    statistics[VAR_X] += step_x * (x - statistics[MEAN_X])
    statistics[COV] += step_x * (w - statistics[MEAN_W])
    statistics[VAR_W] += step_w * (w - statistics[MEAN_W])


@compiled
def hedge(statistics: FloatArray, game: Game, bet: float) -> float:
    """Multiple of ``w - 1`` to subtract from x: the best baseline so far, limited so that the bet stays affordable."""
    if math.isinf(game.max_weight) or statistics[VAR_W] <= 0.0 or game.max_weight <= 1.0:
        return 0.0
    affordable = (MAX_LOSS / bet - 1.0) / (game.max_weight - 1.0)
    return float(max(0.0, min(statistics[COV] / statistics[VAR_W], affordable, 1.0)))


@compiled
def play(
    x: FloatArray, w: FloatArray, candidates: FloatArray, wealth: FloatArray, statistics: FloatArray, game: Game
) -> int:
    """Bet on ``E x > v`` for every candidate v in rising order; return how many are excluded after the block.

    Each event multiplies the wealth by ``1 + bet (x - b (w - 1) - v)``, bet and baseline b set before the event.
    If v is the true mean the wealth is a martingale, and ever reaches the goal with probability at most 1/goal
    (Ville). An excluded candidate stays excluded; its wealth is set to infinity.

    >>> wealth, two = np.ones(2), np.array([1.0, 1.0])
    >>> play(two, two, np.array([0.0, 1.0]), wealth, np.zeros(6), Game(2.0, 2.0, math.inf, 0.25))
    1
    >>> wealth
    array([inf,  1.])

    By hand: against 0 the wealth grows by more than half at each event, against 1 it stays the same.
    """
    excluded = 0
    while excluded < wealth.size and math.isinf(wealth[excluded]):
        excluded += 1
    for k in range(x.size):
        # the baseline of the hedge, then the bet for the variance that the hedge leaves; both from earlier events
        variance = (game.prior + statistics[VAR_X]) / (statistics[COUNT] + 1.0)
        baseline = hedge(statistics, game, stake(variance, game))
        left = statistics[VAR_X] - 2.0 * baseline * statistics[COV] + baseline * baseline * statistics[VAR_W]
        bet = stake((game.prior + max(left, 0.0)) / (statistics[COUNT] + 1.0), game)
        # the hedged outcome is at least -depth, so one event costs at most bet (v + depth) of the wealth
        depth = baseline * (game.max_weight - 1.0) if baseline > 0.0 else 0.0
        hedged = x[k] - baseline * (w[k] - 1.0)
        for j in range(excluded, candidates.size):
            worst = candidates[j] + depth
            wealth[j] *= 1.0 + (bet if bet * worst <= MAX_LOSS else MAX_LOSS / worst) * (hedged - candidates[j])
        while excluded < wealth.size and wealth[excluded] >= game.goal:
            wealth[excluded] = np.inf
            excluded += 1
        update_statistics(statistics, x[k], w[k])
    return excluded
