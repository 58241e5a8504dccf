"""A horizon that a log supports and that can be afforded, with the reasons in words; where learning curves flatten."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from backcast._arrays import FloatArray
from backcast._forecast import USUAL_PASSES
from backcast._horizon import SECONDS, EventRate, format_span
from backcast._time_budget import update_cost
from backcast.estimate import Estimate
from backcast.evaluators.clock_replay import ClockReplay
from backcast.policies.linear import LinUCB

SHORTEST_HORIZON = 10
RARE_SHARE = 0.05  # of the events: their propensities count as rare
SPARE_EVENTS = 4  # events with a rare action in the log, per event with it that a run needs
AFFORDABLE_SECONDS = 60.0
WORTH_SAYING = 5  # affordable rounds as a multiple of those supported, from which on they are not mentioned
USUAL_BATCH = 10  # rounds between updates of the learner that a run file begins with


class HorizonProposal(NamedTuple):
    """A number of rounds, None if the log is too short for any, and sentences that explain it."""

    rounds: int | None
    reasons: tuple[str, ...]


def propose_horizon(
    n_events: int,
    propensities: FloatArray,
    n_actions: int,
    n_features: int,
    *,
    batch_size: int = USUAL_BATCH,
    rate: EventRate | None = None,
) -> HorizonProposal:
    """Propose a horizon: the smaller of what the log supports and what a minute of work allows, rounded down.

    >>> proposal = propose_horizon(20_000, np.full(100, 0.2), 5, 9, rate=EventRate(20_001, 172_800.0))
    >>> proposal.rounds
    1000
    >>> print(proposal.reasons[0])
    The log supports about 1,000 rounds, even if a policy prefers rare actions: 20,000 events, propensities from 0.2.
    >>> print(proposal.reasons[-1])
    It has about 10,000 events per day: 1,000 rounds are 2.4 hours, and horizon = "1d" is 10,000 rounds.
    """
    rare = float(np.quantile(propensities, RARE_SHARE)) if propensities.size else 1 / max(n_actions, 1)
    supported = n_events * rare / SPARE_EVENTS
    affordable = affordable_rounds(n_events, n_actions, n_features, batch_size)
    if supported < SHORTEST_HORIZON:
        return HorizonProposal(
            None,
            (
                f"The log supports fewer than {SHORTEST_HORIZON} rounds if a policy prefers rare actions: "
                f"{n_events:,} events, propensities from {rare:.2g}.",
            ),
        )
    rounds = round_down(min(supported, max(affordable, SHORTEST_HORIZON)))
    reasons = [
        f"The log supports about {round_down(supported):,} rounds, even if a policy prefers rare actions: "
        f"{n_events:,} events, propensities from {rare:.2g}.",
    ]
    if affordable < WORTH_SAYING * supported:
        reasons.append(
            f"A minute of work on one core is enough for about {round_down(max(affordable, 1)):,} rounds of LinUCB "
            f"with an update every {batch_size} rounds."
        )
    if rate is not None:
        per_day = rate.events_in(SECONDS["d"])
        span = format_span(rounds * rate.seconds / max(rate.events - 1, 1))
        reasons.append(
            f'It has about {per_day:,} events per day: {rounds:,} rounds are {span}, and horizon = "1d" is '
            f"{per_day:,} rounds."
        )
    return HorizonProposal(rounds, tuple(reasons))


def affordable_rounds(n_events: int, n_actions: int, n_features: int, batch_size: int) -> float:
    """Return how many rounds of LinUCB a minute allows, by the cost of clock replay per event and update."""
    per_event = 1e-9 * update_cost(LinUCB(batch_size=batch_size), max(n_actions, 1), n_features)
    per_update = USUAL_PASSES * min(max(n_events, 1), ClockReplay().pool) * per_event
    return AFFORDABLE_SECONDS / per_update * batch_size


def round_down(value: float) -> int:
    """Return the largest of 1, 2, 5, 10, 20, 50, ... that does not exceed the value.

    >>> round_down(160), round_down(49), round_down(10)
    (100, 20, 10)
    """
    unit = 10 ** math.floor(math.log10(value))
    return int(next(step * unit for step in (5, 2, 1) if step * unit <= value))


def describe_flattening(name: str, estimate: Estimate) -> str:
    """Return from which round on a learning curve is flat, and what this means for the horizon; empty if not known.

    A curve is flat from where on all of it is within a standard error of the value after learning, or above.
    """
    curve, after = estimate.curve, estimate.after_learning
    if curve is None or after is None or estimate.horizon is None:
        return ""
    low = np.flatnonzero(curve.value < after.value - after.std_error)
    flat_from = 1 if not low.size else int(curve.rounds[low[-1]]) + 1
    if flat_from > 0.6 * estimate.horizon:
        return (
            f"The curve of {name} still rises near round {estimate.horizon:,}: with a longer horizon it would earn "
            "more per round."
        )
    return (
        f"The curve of {name} is flat from about round {flat_from:,} on, as far as the log shows: a longer horizon "
        "adds rounds without learning."
    )
