"""plan(): the number of events a log needs to distinguish policies, from a pilot comparison or from assumptions.

The sampling variance of an estimated difference falls as one over the number of events (both terms of the information
floor do), so one pilot, or one assumed spread, gives the error at any length. The Monte-Carlo error of the replicates
does not fall with the log; the pilot's is used. The intervals of fixed policies also allow for one event that the log
may have missed, which falls as one over the number of events too.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
from scipy import optimize, stats

from backcast._differences import missed_event
from backcast._equality import ContentEquality
from backcast._horizon_proposal import describe_flattening
from backcast._serialization import to_json
from backcast._validation import at_least, confidence_level, count, share
from backcast.comparison import Comparison
from backcast.diagnostics import PartsDiagnostics
from backcast.errors import OptionError
from backcast.estimate import Difference, student_quantile
from backcast.evaluators._disjoint_parts import FEWEST_PARTS
from backcast.intervals.learning import GroupJackknife

EVENTS_PER_ROUND = 1.2  # events that subsets of five sixths of a log need, per round and unit of weight
MAX_EVENTS = 1e15
MAX_DISTANCE = 30.0  # standard errors; beyond, scipy's noncentral t may fail, and the power is 1 anyway


@dataclass(frozen=True)
class PlanAssumptions:
    """Assumptions about two policies and about a log that does not exist yet.

    Per event, the difference of two doubly robust values has the variance ``2 (1 - g) w s^2``, with s the spread of the
    reward around its prediction, w the typical weight and g the agreement; learning adds ``2 T v^2`` over runs of T
    rounds, with v the spread over live runs. Over n events both are divided by n.

    Parameters
    ----------
    reward_sd
        Standard deviation s of the reward around its prediction; without a reward model, that of the reward.
    weight
        Typical weight w: the mean of ``pi / p`` over the actions that the policy takes. A uniform log of K actions
        has w = K for a deterministic policy, a log collected by the policy itself has w = 1.
    horizon
        Rounds T that the policies run for; None for policies that do not learn.
    agreement
        Share g of the decisions in which the policies take the same action.
    run_sd
        Standard deviation v of a policy's average reward over live runs of T rounds, beyond that due to the noise of
        the rewards: the effect of what it happens to learn. 0 for policies that do not learn.

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


@dataclass(frozen=True, eq=False)
class Spread(ContentEquality):
    """Variance of one estimated difference as a function of the number of events.

    Attributes
    ----------
    pair
        The two policies.
    variance
        Sampling variance of the estimated difference, times the number of events.
    monte_carlo
        Monte-Carlo variance of the replicates, at any number of events.
    freedom
        Degrees of freedom of its standard error; infinite for normal intervals.
    missed
        What the interval allows for an event that the log may have missed, times the number of events; 0 for learners.
    """

    pair: str
    variance: float
    monte_carlo: float
    freedom: float
    missed: float = 0.0

    def error_at(self, events: int) -> float:
        """Return the standard error of the difference with this number of events."""
        return math.sqrt(self.variance / events + self.monte_carlo)

    def power_at(self, events: int, difference: float, critical: float) -> float:
        """Return the probability that an interval with this quantile excludes 0, if the difference is this large.

        Half of the interval is ``m + critical * hypot(error, m)``, with m for the missed event (see ``compare``).
        """
        error, missed = self.error_at(events), self.missed / events
        return power_at_distance(
            (abs(difference) - missed) / error, critical * math.hypot(error, missed) / error, self.freedom
        )


@dataclass(frozen=True, eq=False)
class Need(ContentEquality):
    """Number of events needed to detect one difference.

    Attributes
    ----------
    pair, difference
        The two policies, and the size of the difference.
    events
        Events of the log.
    low, high
        Range of that number, because the pilot's standard error is uncertain.
    """

    pair: str
    difference: float
    events: int
    low: int
    high: int


@dataclass(frozen=True, eq=False)
class Plan(ContentEquality):
    """Result of :func:`plan`.

    Attributes
    ----------
    needs
        Events for each pair and difference.
    spreads
        The variances they follow from, one per pair.
    horizon, power, level
        Rounds, probability of detecting the difference, level of the intervals.
    pilot_events
        Events of the pilot log; None without a pilot.
    notes
        Sentences about the validity of the numbers.
    """

    needs: tuple[Need, ...]
    spreads: tuple[Spread, ...]
    horizon: int | None
    power: float
    level: float
    pilot_events: int | None = None
    notes: tuple[str, ...] = ()

    def power_at(self, events: int, difference: float, pair: str | None = None) -> float:
        """Probability that a log of this many events detects this difference (of the first pair, if none is named)."""
        spread = next((spread for spread in self.spreads if pair in (None, spread.pair)), None)
        if spread is None:
            raise OptionError(f"there is no pair {pair!r}; there are {', '.join(each.pair for each in self.spreads)}")
        critical = student_quantile(_simultaneous_level(self.level, len(self.spreads)), spread.freedom)
        return spread.power_at(count("events", events), difference, critical)

    def __str__(self) -> str:
        rounds = "" if self.horizon is None else f" over {self.horizon:,} rounds"
        lines = [f"To distinguish policies{rounds}, {100 * self.level:g} % intervals, power {100 * self.power:g} %:"]
        for need in self.needs:
            bounds = "" if need.low == need.high else f" ({need.low:,} to {need.high:,})"
            lines.append(f"  {need.pair}: a difference of {need.difference:g} needs {need.events:,} events{bounds}")
        return "\n".join([*lines, *self.notes])

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain numbers, strings, lists and dicts, for JSON."""
        plain: dict[str, Any] = to_json(self)
        return plain

    def to_frame(self) -> Any:
        """Return one row per need as an Arrow table: pair, difference, events, low, high, power, level, horizon."""
        from backcast.report.frames import plan_frame

        return plan_frame(self)

    def plot(self) -> Any:
        """Return an Altair chart: power by the number of events, a line for each difference."""
        from backcast.report.charts import plan_chart

        return plan_chart(self)


def plan(
    source: Comparison | PlanAssumptions,
    difference: float | Sequence[float],
    *,
    power: float = 0.8,
    level: float = 0.95,
) -> Plan:
    """Compute how many events a log needs for its paired intervals to distinguish policies.

    It is an approximation for logs of hundreds of events or more. From a pilot, what the intervals of fixed policies
    allow for an event that the log may have missed is included; :class:`backcast.PlanAssumptions` do not contain the
    reward range that it depends on.

    Parameters
    ----------
    source
        A comparison on a pilot log, made by :func:`backcast.compare` at the horizon of interest, or
        :class:`backcast.PlanAssumptions`.
    difference
        Difference in average reward per round that must be detected, or several of them.
    power
        Probability that the interval excludes 0 if the difference is real.
    level
        Level of the intervals; simultaneous for all pairs, as in a comparison.

    Examples
    --------
    Fixed policies, a uniform log of two actions, rewards of 0 or 1 with probability 1/2: the variance is
    2 * 2 * (1/2)^2 = 1 per event, and the squared sum of the normal quantiles, (1.96 + 0.84)^2 = 7.85, is divided by
    0.1 squared.

    >>> print(plan(PlanAssumptions(reward_sd=0.5, weight=2), difference=0.1))
    To distinguish policies, 95 % intervals, power 80 %:
      a minus b: a difference of 0.1 needs 785 events
    """
    if not isinstance(source, Comparison | PlanAssumptions):
        raise OptionError(
            f"source is a {type(source).__name__}; give a comparison on a pilot log (from compare) or PlanAssumptions"
        )
    differences: list[Any] = [difference] if np.ndim(difference) == 0 else np.asarray(difference).tolist()
    _check_options(differences, power, level)
    min_events = 1
    if isinstance(source, Comparison):
        spreads, pilot_events, horizon = _spreads_from_pilot(source)
        freedom = spreads[0].freedom
        uncertainty = _variance_factors(freedom, level)
    else:
        pilot_events, horizon, uncertainty = None, source.horizon, (1.0, 1.0)
        freedom = math.inf if horizon is None else GroupJackknife().groups - 1
        spreads = (Spread("a minus b", source.variance, 0.0, freedom),)
        if horizon is not None:
            min_events = math.ceil(EVENTS_PER_ROUND * horizon * source.weight)
    critical = student_quantile(_simultaneous_level(level, len(spreads)), freedom)
    needs = tuple(
        _need(spread, size, power, critical, uncertainty, min_events) for spread in spreads for size in differences
    )
    notes = _notes(needs, pilot_events, min_events)
    if isinstance(source, Comparison):
        notes += tuple(filter(None, itertools.starmap(describe_flattening, source.estimates.items())))
    return Plan(needs, spreads, horizon, power, level, pilot_events, notes)


def _check_options(differences: list[Any], power: Any, level: float) -> None:
    if not differences:
        raise OptionError("no difference is given; give the size of the difference that must be detected")
    for size in differences:
        if not isinstance(size, Real) or not math.isfinite(size) or size == 0:
            raise OptionError(f"difference is {size!r}; it must be a finite number other than 0")
    confidence_level(level)
    if not isinstance(power, int | float) or not 1 - level < power < 1:
        raise OptionError(f"power is {power!r}; it must lie between {1 - level:.3g} (1 - level) and 1")


def _spreads_from_pilot(pilot: Comparison) -> tuple[tuple[Spread, ...], int, int | None]:
    """Return the spreads that the pilot's standard errors imply, its number of events and its horizon."""
    differences = pilot.differences or tuple(pilot.lifts.values())
    if not differences:
        raise OptionError("the comparison has no differences with standard errors; run it to its end, with replicates")
    first = next(iter(pilot.estimates.values()))
    events = min(estimate.diagnostics.events for estimate in pilot.estimates.values())
    freedom = min(difference.degrees_of_freedom for difference in differences)
    if isinstance(first.diagnostics, PartsDiagnostics) and first.diagnostics.parts > FEWEST_PARTS:
        # a longer stream has more parts, not longer ones, each with its own passes: the whole error falls
        differences = tuple(replace(difference, monte_carlo_error=0.0) for difference in differences)
    missed = {
        name: missed_event(estimate, estimate.settings.get("reward_range"))
        for name, estimate in pilot.estimates.items()
    }
    spreads = tuple(
        _spread(each, events, freedom, max(missed[each.first], missed[each.second])) for each in differences
    )
    return spreads, events, first.horizon


def _spread(difference: Difference, events: int, freedom: float, missed: float) -> Spread:
    if difference.std_error == 0:
        raise OptionError(
            f"{difference.first} and {difference.second} do the same on the pilot log, so it does not show the spread "
            "of their difference; use a longer pilot, or PlanAssumptions"
        )
    monte_carlo = difference.monte_carlo_error**2
    variance = events * (difference.std_error**2 - monte_carlo)
    return Spread(f"{difference.first} minus {difference.second}", variance, monte_carlo, freedom, events * missed)


def _need(
    spread: Spread,
    difference: float,
    power: float,
    critical: float,
    uncertainty: tuple[float, float],
    min_events: int,
) -> Need:
    """Return the number of events at which the difference is detected with this power."""
    distance = distance_for_power(power, critical, spread.freedom)
    allowed = (difference / distance) ** 2 - spread.monte_carlo
    if allowed <= 0:
        raise OptionError(
            f"a difference of {difference:g} is hidden by the Monte-Carlo error of the replicates (standard error "
            f"{math.sqrt(spread.monte_carlo):.2g}), however long the log; compare with more replicates, or 'auto'"
        )
    events = spread.variance / allowed
    if events > MAX_EVENTS:
        raise OptionError(
            f"a difference of {difference:g} would need more than {MAX_EVENTS:.0e} events; give a larger one"
        )
    number, low, high = (
        max(
            _with_missed_event(
                replace(spread, variance=spread.variance * factor), events * factor, difference, power, critical
            ),
            min_events,
        )
        for factor in (1.0, *uncertainty)
    )
    return Need(spread.pair, difference, number, low, high)


def _with_missed_event(spread: Spread, events: float, difference: float, power: float, critical: float) -> int:
    """Return the smallest number of events with this power, given the number without the allowance for a missed event.

    The power grows with the number of events from there on, where the allowance is below the difference.
    """
    low = math.ceil(events)
    if spread.missed == 0:
        return low
    high = low
    while spread.power_at(high, difference, critical) < power:
        low, high = high, 2 * high
    return bisect_left(range(high + 1), power, lo=low, key=lambda n: spread.power_at(n, difference, critical))


def _variance_factors(freedom: float, level: float) -> tuple[float, float]:
    """Interval of a variance estimated with these degrees of freedom (chi-square), as factors of the estimate."""
    if not math.isfinite(freedom):
        return 1.0, 1.0
    low, high = (freedom / float(stats.chi2.ppf((1 + sign * level) / 2, freedom)) for sign in (1, -1))
    return low, high


def _simultaneous_level(level: float, pairs: int) -> float:
    """Level of each interval so that all hold together (Bonferroni, as in comparisons)."""
    return 1 - (1 - level) / pairs


def _notes(needs: Sequence[Need], pilot_events: int | None, min_events: int) -> tuple[str, ...]:
    notes = []
    if pilot_events is not None:
        notes.append(
            f"The spread was measured on a pilot of {pilot_events:,} events, so the log must come from the same "
            "logger: one that takes the policies' actions more rarely needs more events."
        )
    if pilot_events is not None and any(need.events < pilot_events for need in needs):
        notes.append("The pilot is already long enough for each difference that needs fewer events than it has.")
    if min_events > 1 and any(need.events == min_events for need in needs):
        notes.append(f"Fewer than {min_events:,} events could not simulate the horizon, however large the difference.")
    return tuple(notes)


def power_at_distance(distance: float, critical: float, freedom: float) -> float:
    """Probability that an interval excludes 0 on the right side if the truth is ``distance`` standard errors away."""
    if not math.isfinite(freedom):
        return float(stats.norm.sf(critical - distance))
    return 1.0 if distance > MAX_DISTANCE else float(np.clip(stats.nct.sf(critical, freedom, distance), 0, 1))


def distance_for_power(power: float, critical: float, freedom: float) -> float:
    """Distance of the truth from 0, in standard errors, that gives this power.

    >>> round(distance_for_power(0.8, student_quantile(0.95, math.inf), math.inf), 4)
    2.8016
    """
    if not math.isfinite(freedom):
        return critical + float(stats.norm.ppf(power))
    return float(optimize.brentq(lambda d: power_at_distance(d, critical, freedom) - power, 0.0, MAX_DISTANCE))
