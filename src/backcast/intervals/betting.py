"""Intervals by betting: a value is ruled out when a fair game against it would have made the player rich."""

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
from backcast.intervals._sample import (
    WeightedSample,
    check_largest_weight,
    event_range,
    largest_ratio,
    reward_range,
    within_rewards,
)

BOLDNESS = 0.75  # largest share of the fortune that one event may cost: Waudby-Smith and Ramdas's for a given n


GRID = 128  # candidate values tried at a time; two rounds leave 1/16,000 of the range


COUNT, MEAN_X, MEAN_W, VAR_X, COV, VAR_W = range(6)


Outcomes: TypeAlias = Callable[[], Iterator[tuple[FloatArray, FloatArray]]]


class Game(NamedTuple):
    """What the player knows beforehand.

    ``n`` events to size the bets for, ``goal`` the fortune that rules a value out, ``heaviest`` the bound on the
    weights (infinity: unknown, so that no bets are laid on them), ``prior`` the variance of x thought of before the
    first event.
    """

    n: float
    goal: float
    heaviest: float
    prior: float


@compiled
def stake(variance: float, game: Game) -> float:
    """``sqrt(2 log(goal) / (n variance))``: about the bet that grows fastest (Waudby-Smith and Ramdas 2024, eq. 15).

    >>> stake(0.5, Game(4.0, math.e, math.inf, 0.25))
    1.0
    """
    return math.sqrt(2.0 * math.log(game.goal) / (game.n * variance))


@compiled
def take_note(seen: FloatArray, x: float, w: float) -> None:
    """Update the count, the means of x and w, and their scatter (Welford 1962).

    >>> seen = np.zeros(6)
    >>> take_note(seen, 1.0, 1.0)
    >>> take_note(seen, 3.0, 1.0)
    >>> seen[MEAN_X].item(), seen[VAR_X].item()
    (2.0, 2.0)
    """
    seen[COUNT] += 1.0
    step_x, step_w = x - seen[MEAN_X], w - seen[MEAN_W]
    seen[MEAN_X] += step_x / seen[COUNT]
    seen[MEAN_W] += step_w / seen[COUNT]
    seen[VAR_X] += step_x * (x - seen[MEAN_X])
    seen[COV] += step_x * (w - seen[MEAN_W])
    seen[VAR_W] += step_w * (w - seen[MEAN_W])


@compiled
def hedge(seen: FloatArray, game: Game, bet: float) -> float:
    """How much of ``w - 1`` to subtract from x: the best baseline so far, no more than leaves the bet affordable."""
    if math.isinf(game.heaviest) or seen[VAR_W] <= 0.0 or game.heaviest <= 1.0:
        return 0.0
    affordable = (BOLDNESS / bet - 1.0) / (game.heaviest - 1.0)
    return float(max(0.0, min(seen[COV] / seen[VAR_W], affordable, 1.0)))


@compiled
def play(x: FloatArray, w: FloatArray, candidates: FloatArray, wealth: FloatArray, seen: FloatArray, game: Game) -> int:
    """Bet on ``E x > v`` for every candidate v in rising order; how many are ruled out at the end of the block.

    Each event multiplies the fortune by ``1 + bet (x - b (w - 1) - v)``, bet and baseline b set before the event.
    If v is the true mean the fortune is a martingale, and ever reaches the goal with probability at most 1/goal
    (Ville). A candidate once ruled out stays so; its wealth is set to infinity.

    >>> wealth, two = np.ones(2), np.array([1.0, 1.0])
    >>> play(two, two, np.array([0.0, 1.0]), wealth, np.zeros(6), Game(2.0, 2.0, math.inf, 0.25))
    1
    >>> wealth
    array([inf,  1.])

    By hand: against 0 the fortune grows by more than half at each event, against 1 it stays.
    """
    ruled_out = 0
    while ruled_out < wealth.size and math.isinf(wealth[ruled_out]):
        ruled_out += 1
    for k in range(x.size):
        spread = (game.prior + seen[VAR_X]) / (seen[COUNT] + 1.0)
        baseline = hedge(seen, game, stake(spread, game))
        left = seen[VAR_X] - 2.0 * baseline * seen[COV] + baseline * baseline * seen[VAR_W]
        bet = stake((game.prior + max(left, 0.0)) / (seen[COUNT] + 1.0), game)
        depth = baseline * (game.heaviest - 1.0) if baseline > 0.0 else 0.0
        hedged = x[k] - baseline * (w[k] - 1.0)
        for j in range(ruled_out, candidates.size):
            worst = candidates[j] + depth
            wealth[j] *= 1.0 + (bet if bet * worst <= BOLDNESS else BOLDNESS / worst) * (hedged - candidates[j])
        while ruled_out < wealth.size and wealth[ruled_out] >= game.goal:
            wealth[ruled_out] = np.inf
            ruled_out += 1
        take_note(seen, x[k], w[k])
    return ruled_out


def rule_out(outcomes: Outcomes, game: Game, low: float, high: float) -> tuple[float, float]:
    """The largest candidate between the ends that is ruled out and its neighbour that is not (low if none is)."""
    candidates = np.linspace(low, high, GRID)
    wealth, seen = np.ones(GRID), np.zeros(6)
    ruled_out = 0
    for x, w in outcomes():
        ruled_out = play(x, w, candidates, wealth, seen, game)
    if ruled_out == 0:
        return low, low
    return float(candidates[ruled_out - 1]), float(candidates[min(ruled_out, GRID - 1)])


def lower_end(outcomes: Outcomes, game: Game) -> float:
    """The least mean in [0, 1] that outcomes x >= 0 do not rule out, rounded down to 1/16,000."""
    low, high = rule_out(outcomes, game, 0.0, 1.0)
    return low if low == high else rule_out(outcomes, game, low, high)[0]


@dataclass(frozen=True)
class Betting:
    """A confidence sequence by betting (Waudby-Smith and Ramdas 2024; Karampatziakis, Mineiro and Ramdas 2021).

    For every candidate value a player bets, event by event, that the truth is larger (and another that it is
    smaller); candidates against which the fortune ever reached ``2 / alpha`` are ruled out. Bets use the known bound
    on the weights to hedge with ``w - 1``, whose mean is 0.

    Assumption: martingale: events in the order in which a logger that does not look ahead recorded them, rewards
    within the declared range, weights within the bound; then it covers for every n. With ``tuned_for`` fixed it
    covers at all moments together, so that a growing log may be looked at again and again. Cross-fitted models tie
    events together: take ``Progressive``, ``Split`` or ``Fitted`` where the letter matters.
    Estimand: that of the estimate; V(pi) for IPS, SNIPS and BaselineIPS.

    Parameters
    ----------
    largest_weight
        A known bound on ``pi/p``, infinity for none; None takes the one that the log shows, if any. Weighted rewards
        need no bound, but without one there is no hedging; with a reward model a log that shows none is refused.
    tuned_for
        Number of events for which the bets are sized; None takes the length of the log.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from backcast.intervals._sample import sample_from_values
    >>> sample = replace(sample_from_values(*[0.0, 1.0] * 200), reward_range=(0, 1), residual_range=(0, 1))
    >>> print(Betting().interval(sample, level=0.95))
    [0.433, 0.5671] (95 % betting)
    """

    largest_weight: float | None = None
    tuned_for: int | None = None

    def __post_init__(self) -> None:
        check_largest_weight(self.largest_weight)
        if self.tuned_for is not None:
            count("tuned_for", self.tuned_for)

    def interval(self, sample: WeightedSample, level: float) -> Interval:
        """Two ends within the range of what is estimated."""
        low, high = least_reward, most_reward = reward_range(sample, "betting")
        heaviest = math.inf
        if sample.weighs_rewards:
            heaviest = largest_ratio(sample, self.largest_weight)
        else:
            low, high = event_range(sample, self.largest_weight, "betting")
        # before the first event, values are thought to spread like coins at the ends of the reward range
        prior = 0.25 * ((most_reward - least_reward) / (high - low)) ** 2
        game = Game(float(self.tuned_for or sample.moments.n), 2 / (1 - level), heaviest, prior)
        least = lower_end(lambda: _outcomes(sample, low, high, mirrored=False), game)
        most = lower_end(lambda: _outcomes(sample, low, high, mirrored=True), game)
        ends = low + (high - low) * least, high - (high - low) * most
        return within_rewards(Interval(*ends, level, "betting", "martingale", sample.estimand), sample)


def _outcomes(
    sample: WeightedSample, low: float, high: float, *, mirrored: bool
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """What the player sees, scaled: ``w (r - low)/(high - low)`` or the event value, or their mirror image."""
    for columns in sample.columns():
        if sample.weighs_rewards:
            gain = high - columns.residual if mirrored else columns.residual - low
            yield columns.ratio * gain / (high - low), columns.ratio
        else:
            value = columns.base + columns.term
            yield (high - value if mirrored else value - low) / (high - low), np.ones_like(value)
