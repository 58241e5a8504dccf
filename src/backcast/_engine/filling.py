"""Fill rounds of clock replay for which the log has no unused event left (docs/theory.md, section 4, "Filling").

Where meters have passed 1 no event can fire any more, although the policy still chooses such events. A filled round
draws one of them again, so that context and action have the law of a live round, and gives the policy a fresh reward
from the reward model.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from backcast._arrays import BoolArray, FloatArray
from backcast._engine.meters import Meters
from backcast._engine.reward_law import RewardLaw, draw_reward
from backcast._kernels.jit import compiled, inlined
from backcast.log import Log

COIN, LATE_COIN, DONOR, REWARD = range(4)  # columns of the uniform numbers of a round


class Fill(NamedTuple):
    """Random numbers and fresh rewards of filled rounds, and the events that are held out from the history.

    ``draws`` has four uniform numbers per round, and no row if rounds are not filled. Fresh rewards have the predicted
    ``means`` at the context and action of each event, and fall around them by ``law``. Held-out events are never
    accepted, so that V_t can be read on them whatever is exhausted.
    """

    draws: FloatArray
    means: FloatArray
    law: RewardLaw
    held_out: BoolArray

    @classmethod
    def off(cls) -> Fill:
        """Return what fills no round."""
        nothing = np.zeros(0)
        return cls(np.zeros((0, 4)), nothing, RewardLaw(0.0, 1.0, nothing), np.zeros(0, dtype=np.bool_))

    @classmethod
    def from_log(
        cls, log: Log, means: FloatArray, horizon: int, rng: np.random.Generator, held_out: Any = None
    ) -> Fill:
        """Return random numbers for all rounds, and the law of rewards around their predicted means.

        >>> log = Log(None, actions=[0, 0, 1], rewards=[0, 1, 1], propensities=[0.5] * 3)
        >>> fill = Fill.from_log(log, np.full(3, 0.5), 4, np.random.default_rng(0))
        >>> fill.draws.shape, fill.held_out.size
        ((4, 4), 0)
        """
        mask = np.zeros(0, dtype=np.bool_) if held_out is None else np.ascontiguousarray(held_out, dtype=np.bool_)
        law = RewardLaw.from_rewards(log.columns.learned_rewards, means)
        return cls(rng.random((horizon, 4)), np.ascontiguousarray(means), law, mask)


@inlined
def draw_fresh_reward(fill: Fill, k: int, uniform: float) -> float:
    """Draw a reward at context and action of event k, within the range of logged rewards."""
    return min(max(draw_reward(fill.law, fill.means[k], uniform), fill.law.low), fill.law.high)


@compiled
def exhausted_speed(after: float, until: float, meters: Meters) -> tuple[float, float]:
    """Return the summed speed of events whose meters passed 1 in ``(after, until]``, and when the next one will.

    >>> meters = Meters.of_length(3)._replace(exhausts=np.array([0.5, 1.5, 2.0]), speed=np.array([2.0, 1.0, 4.0]))
    >>> meters.use_at_start(np.arange(3))
    >>> exhausted_speed(-np.inf, 1.5, meters)
    (3.0, 2.0)
    """
    total, following = 0.0, np.inf
    for k in meters.used_rows[: meters.n_used[0]]:
        time = meters.exhausts[k]
        if time > until:
            following = min(following, time)
        elif time > after:
            total += meters.speed[k]
    return total, following


@compiled
def draw_donor(after: float, until: float, uniform: float, meters: Meters) -> int:
    """Draw an event whose meter passed 1 in ``(after, until]``, with probability proportional to its speed.

    >>> meters = Meters.of_length(3)._replace(exhausts=np.array([0.5, 1.5, 2.0]), speed=np.array([2.0, 1.0, 4.0]))
    >>> draw_donor(-np.inf, 1.5, 0.5, meters), draw_donor(-np.inf, 1.5, 0.75, meters)
    (0, 1)
    """
    total = 0.0
    for k in range(meters.exhausts.size):
        if after < meters.exhausts[k] <= until:
            total += meters.speed[k]
    remaining, donor = uniform * total, -1
    for k in range(meters.exhausts.size):
        if after < meters.exhausts[k] <= until and meters.speed[k] > 0.0:
            donor = k
            remaining -= meters.speed[k]
            if remaining < 0.0:
                break
    return donor


@compiled
def add_refills(until: float, meters: Meters) -> None:
    """Add the probability ``w_k/n`` of being drawn in this round to the compensator of every exhausted event."""
    for k in meters.used_rows[: meters.n_used[0]]:
        if meters.exhausts[k] <= until:
            meters.refills[k] += meters.speed[k] / meters.exhausts.size
