"""How long a log must be to tell two policies apart: from a pilot comparison, or from assumptions.

The sampling variance of an estimated difference falls as one over the number of events (both terms of the information
floor do), so one pilot, or one honest guess at the spread, tells the error at any length. What chance in the replicates
adds does not fall with the log; it is taken as the pilot had it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import optimize, stats

from backcast._serialization import to_json
from backcast._validation import at_least, count, share
from backcast.comparison import Comparison, Difference
from backcast.diagnostics import ClockDiagnostics, PartsDiagnostics
from backcast.errors import OptionError
from backcast.evaluators._disjoint_parts import FEWEST_PARTS
from backcast.intervals.learning import GroupJackknife

REACH = 1.2  # events that subsets of five sixths of a log need, for each round and unit of weight


MOST = 1e15


@dataclass(frozen=True)
class PlanAssumptions:
    """What is assumed of two policies and of a log that is not there yet.

    Per event, the difference of two doubly robust values has the variance ``2 (1 - g) w s^2``, with s the spread of the
    reward around its prediction, w the typical weight and g the agreement; over runs of T rounds the policies' own luck
    adds ``2 T v^2``, with v the spread over live runs. Over n events both are divided by n.

    Parameters
    ----------
    reward_sd
        Standard deviation s of the reward around its prediction; that of the reward itself where nothing predicts it.
    weight
        Typical weight w: the mean of ``pi / p`` over the actions that the policy takes. A log of K actions chosen
        evenly has w = K for a policy that is sure of its action, a log of the policy's own has w = 1.
    horizon
        Rounds T that the policies run for; None for policies that do not learn.
    agreement
        Share g of the decisions in which the policies take the same action.
    run_sd
        Spread v of a policy's average reward over live runs of T rounds beyond what chance in the rewards explains: how
        much depends on what it happens to learn. 0 for policies that do not learn.

    Examples
    --------
    >>> PlanAssumptions(reward_sd=0.5, weight=4, agreement=0.5).variance
    1.0
    """

    reward_sd: float
    weight: float
    horizon: int | None = None
    agreement: float = 0.0
    run_sd: float = 0.0

    def __post_init__(self) -> None:
        at_least("reward_sd", self.reward_sd, 0.0, strict=True)
        at_least("weight", self.weight, 1.0)
        at_least("run_sd", self.run_sd, 0.0)
        if share("agreement", self.agreement) == 1:
            raise OptionError("agreement is 1; policies that always agree do not differ")
        if self.horizon is not None:
            count("horizon", self.horizon)

    @property
    def variance(self) -> float:
        """Variance of the difference, times the number of events."""
        learning = 0.0 if self.horizon is None else 2 * self.horizon * self.run_sd**2
        return 2 * (1 - self.agreement) * self.weight * self.reward_sd**2 + learning


@dataclass(frozen=True)
class Spread:
    """How sure a log can be of one difference.

    Attributes
    ----------
    pair
        The two policies.
    variance
        Sampling variance of the estimated difference, times the number of events.
    monte_carlo
        Variance that chance in the replicates adds, at any number of events.
    freedom
        Degrees of freedom of its standard error; infinite where they do not matter.
    """

    pair: str
    variance: float
    monte_carlo: float
    freedom: float

    def error_at(self, events: int) -> float:
        """Standard error of the difference with so many events."""
        return math.sqrt(self.variance / events + self.monte_carlo)


@dataclass(frozen=True)
class Need:
    """Events that it takes to tell one difference.

    Attributes
    ----------
    pair, difference
        Between which policies, and how large it is.
    events
        Events of the log.
    low, high
        How far off that may be, because the pilot's own standard error is uncertain.
    """

    pair: str
    difference: float
    events: int
    low: int
    high: int


@dataclass(frozen=True)
class Plan:
    """How long a log must be.

    Attributes
    ----------
    needs
        Events for each pair and difference.
    spreads
        What they come from, a pair each.
    horizon, power, level
        Of the question: rounds, chance of telling the difference, level of the intervals.
    pilot_events
        Events of the pilot log; None where there was none.
    notes
        Sentences a reader must know.
    """

    needs: tuple[Need, ...]
    spreads: tuple[Spread, ...]
    horizon: int | None
    power: float
    level: float
    pilot_events: int | None = None
    notes: tuple[str, ...] = ()

    def power_at(self, events: int, difference: float, pair: str | None = None) -> float:
        """Chance that a log of so many events tells a difference of this size (of the first pair, if none is named)."""
        spread = next((one for one in self.spreads if pair in (None, one.pair)), None)
        if spread is None:
            raise OptionError(f"there is no pair {pair!r}; there are {', '.join(one.pair for one in self.spreads)}")
        error = spread.error_at(count("events", events))
        return power_of(abs(difference) / error, critical_distance(self._each, spread.freedom), spread.freedom)

    @property
    def _each(self) -> float:
        return _level_of_each(self.level, len(self.spreads))

    def __str__(self) -> str:
        rounds = "" if self.horizon is None else f" over {self.horizon:,} rounds"
        lines = [f"To tell policies apart{rounds}, {100 * self.level:g} % intervals, power {100 * self.power:g} %:"]
        lines += [
            f"  {need.pair}: {need.difference:g} takes {need.events:,} events{_range(need)}" for need in self.needs
        ]
        return "\n".join([*lines, *self.notes])

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain numbers, strings, lists and dicts, for JSON."""
        plain: dict[str, Any] = to_json(self)
        return plain

    def plot(self) -> Any:
        """An Altair chart: power by the number of events, a line for each difference."""
        from backcast.report.charts import plan_chart

        return plan_chart(self)


def plan(
    source: Comparison | PlanAssumptions,
    difference: float | Sequence[float],
    *,
    power: float = 0.8,
    level: float = 0.95,
) -> Plan:
    """Say how many events a log needs for its paired interval to tell policies apart.

    Parameters
    ----------
    source
        A comparison on a pilot log, made by :func:`backcast.compare` at the horizon that matters, or
        :class:`backcast.PlanAssumptions`.
    difference
        Difference in average reward a round that must be told, or several of them.
    power
        Chance that the interval excludes 0 where the difference is there.
    level
        Level of the intervals; all pairs together, as in a comparison.

    Examples
    --------
    Fixed policies, a fair coin between two actions, rewards of 0 or 1 at even odds: 2 * 2 * (1/2)^2 = 1 an event, and
    the squared sum of the normal quantiles, (1.96 + 0.84)^2 = 7.85, times 1 over 0.1 squared.

    >>> print(plan(PlanAssumptions(reward_sd=0.5, weight=2), difference=0.1))
    To tell policies apart, 95 % intervals, power 80 %:
      a minus b: 0.1 takes 785 events
    """
    wanted = [difference] if isinstance(difference, int | float) else list(difference)
    _check(wanted, power, level)
    spreads, events, horizon = _measured(source) if isinstance(source, Comparison) else _assumed(source)
    least = 1 if isinstance(source, Comparison) else _reach(source)
    freedom, each = spreads[0].freedom, _level_of_each(level, len(spreads))
    distance = distance_for(power, critical_distance(each, freedom), freedom)
    doubt = _doubt(math.inf if events is None else freedom, level)
    needs = tuple(_need(spread, size, distance, doubt, least) for spread in spreads for size in wanted)
    return Plan(needs, spreads, horizon, power, level, events, _notes(needs, events, least))


def _check(wanted: list[float], power: float, level: float) -> None:
    if not wanted:
        raise OptionError("no difference is given; say how large a difference must be told")
    for size in wanted:
        if not (math.isfinite(size) and size != 0):
            raise OptionError(f"difference is {size}; it must be a finite number other than 0")
    if not 0 < level < 1:
        raise OptionError(f"level is {level}; it must lie between 0 and 1")
    if not 1 - level < power < 1:
        raise OptionError(f"power is {power}; it must lie between {1 - level:.3g} (1 - level) and 1")


def _measured(pilot: Comparison) -> tuple[tuple[Spread, ...], int, int | None]:
    """The spreads that a pilot's standard errors show."""
    if not pilot.differences:
        raise OptionError("the comparison has no differences with standard errors; run it to its end, with replicates")
    first = next(iter(pilot.estimates.values()))
    events = min(estimate.diagnostics.events for estimate in pilot.estimates.values())
    paired = isinstance(first.diagnostics, ClockDiagnostics)
    freedom = GroupJackknife().groups - 1 if paired else math.inf
    gaps = pilot.differences
    if isinstance(first.diagnostics, PartsDiagnostics):
        freedom = first.diagnostics.parts - 1
        if first.diagnostics.parts > FEWEST_PARTS:
            # a longer stream has more parts, not longer ones, each with passes of its own: all of the error falls
            gaps = tuple(replace(gap, monte_carlo_error=0.0) for gap in gaps)
    return tuple(_spread(gap, events, freedom) for gap in gaps), events, first.horizon


def _spread(gap: Difference, events: int, freedom: float) -> Spread:
    if gap.std_error == 0:
        raise OptionError(
            f"{gap.first} and {gap.second} do the same on the pilot log, so it tells nothing of the spread"
        )
    chance = gap.monte_carlo_error**2
    return Spread(f"{gap.first} minus {gap.second}", events * (gap.std_error**2 - chance), chance, freedom)


def _assumed(given: PlanAssumptions) -> tuple[tuple[Spread, ...], None, int | None]:
    freedom = math.inf if given.horizon is None else GroupJackknife().groups - 1
    return (Spread("a minus b", given.variance, 0.0, freedom),), None, given.horizon


def _reach(given: PlanAssumptions) -> int:
    """Events without which runs of T rounds cannot be simulated at all."""
    return 1 if given.horizon is None else math.ceil(REACH * given.horizon * given.weight)


def _need(spread: Spread, difference: float, distance: float, doubt: tuple[float, float], least: int) -> Need:
    """Events at which the difference is so many standard errors."""
    allowed = (difference / distance) ** 2 - spread.monte_carlo
    if allowed <= 0:
        raise OptionError(
            f"a difference of {difference:g} is lost in chance in the replicates (standard error "
            f"{math.sqrt(spread.monte_carlo):.2g}), however long the log; compare with more replicates, or 'auto'"
        )
    events = spread.variance / allowed
    if events > MOST:
        raise OptionError(
            f"a difference of {difference:g} would take more than {MOST:.0e} events; ask for a larger one"
        )
    whole, low, high = (max(math.ceil(events * factor), least) for factor in (1.0, *doubt))
    return Need(spread.pair, difference, whole, low, high)


def _doubt(freedom: float, level: float) -> tuple[float, float]:
    """How far a variance may be from one that was measured with so many degrees of freedom, as factors."""
    if not math.isfinite(freedom):
        return 1.0, 1.0
    ends = (stats.chi2.ppf((1 + sign * level) / 2, freedom) for sign in (1, -1))
    low, high = (freedom / float(end) for end in ends)
    return low, high


def _level_of_each(level: float, pairs: int) -> float:
    """Bonferroni, as comparisons do it."""
    return 1 - (1 - level) / pairs


def _range(need: Need) -> str:
    return "" if need.low == need.high else f" ({need.low:,} to {need.high:,})"


def _notes(needs: Sequence[Need], pilot: int | None, least: int) -> tuple[str, ...]:
    found = []
    if pilot is not None:
        found.append(
            f"The spread was measured on a pilot of {pilot:,} events, so the log must come from the same logger: one "
            "that takes the policies' actions more rarely needs more events."
        )
    if pilot is not None and any(need.events < pilot for need in needs):
        found.append("The pilot itself is long enough for a difference of which fewer events are asked than it has.")
    if least > 1 and any(need.events == least for need in needs):
        found.append(f"Fewer than {least:,} events could not simulate the horizon, however large the difference.")
    return tuple(found)


def critical_distance(level: float, freedom: float) -> float:
    """Standard errors on either side of an interval."""
    return float(stats.t.ppf((1 + level) / 2, freedom) if math.isfinite(freedom) else stats.norm.ppf((1 + level) / 2))


def power_of(distance: float, critical: float, freedom: float) -> float:
    """Chance that an interval excludes 0 on the right side, the truth being so many standard errors away."""
    if not math.isfinite(freedom):
        return float(stats.norm.sf(critical - distance))
    # beyond 30 standard errors scipy's noncentral t may fail, and nothing is left to tell
    return 1.0 if distance > 30 else float(np.clip(stats.nct.sf(critical, freedom, distance), 0, 1))


def distance_for(power: float, critical: float, freedom: float) -> float:
    """Standard errors that the truth must be away from 0 for this power.

    >>> round(distance_for(0.8, critical_distance(0.95, math.inf), math.inf), 4)
    2.8016
    """
    if not math.isfinite(freedom):
        return critical + float(stats.norm.ppf(power))
    return float(optimize.brentq(lambda distance: power_of(distance, critical, freedom) - power, 0.0, 30.0))
