"""check_interval(): contract tests for an interval."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from backcast._request import EvaluationRequest
from backcast._validation import confidence_level, count
from backcast.checks.findings import ContractReport
from backcast.errors import ContractError
from backcast.estimate import Estimate, Interval
from backcast.evaluators.importance_weighting import IPS
from backcast.intervals import IntervalMethod, ResultInterval
from backcast.log import Log
from backcast.policies._calls import describe
from backcast.policies.fixed import Fixed

MEANS, TARGET = np.array([0.5, 0.25]), np.array([0.75, 0.25])
TRUE_VALUE = float(MEANS @ TARGET)
N_GROUPS = 20
FALSE_ALARM = 1e-4  # odds that an interval with exactly the stated coverage is refused


def check_interval(
    interval: IntervalMethod | ResultInterval,
    *,
    level: float = 0.9,
    n_events: int = 200,
    runs: int = 200,
    seed: int = 0,
) -> ContractReport:
    """Check the properties that every interval has; raise :class:`ContractError` at the first violation.

    The last property is its coverage: over simulated logs of uniform choices between two actions, whose rewards of 0
    and 1 have the means 0.5 and 0.25, the interval of IPS contains the value of a fixed policy in at least the number
    of logs that an interval with exactly the stated level would fall short of once in 10,000 times.

    Parameters
    ----------
    interval
        An interval for fixed policies (``interval(sample, level)``), or one from results
        (``interval_from(estimate, level)``), which gets ``influences``, ``group_values`` of 20 groups and
        ``pass_values``.
    level
        Level at which coverage is counted.
    n_events, runs
        Events per log, and number of logs.
    seed
        Seed of the logs.

    Examples
    --------
    >>> from backcast.intervals.asymptotic import Normal
    >>> print(check_interval(Normal()))
    Normal() passed 5 checks:
    - both ends are numbers, the interval contains the value and states level, method, assumption and estimand
    - the same sample gives the same interval
    - a higher level gives an interval that contains that of a lower level
    - rewards times 4 give an interval that is 4 times as wide
    - at the level 0.9 it contained the true value in 180 of 200 simulated logs
    """
    if isinstance(interval, type) or not isinstance(interval, IntervalMethod | ResultInterval):
        raise ContractError(
            f"{interval!r} is no interval; give an instance with a method interval(sample, level) or "
            "interval_from(estimate, level)"
        )
    confidence_level(level)
    count("n_events", n_events, 2 * N_GROUPS)
    return ContractReport(describe(interval), tuple(_check_laws(interval, level, n_events, count("runs", runs), seed)))


def _check_laws(method: Any, level: float, n_events: int, runs: int, seed: int) -> Iterator[str]:
    from scipy.stats import binom

    name = describe(method)
    interval_of = partial(_interval_of, method)
    log = _simulated_log(n_events, seed)
    estimate, interval = interval_of(log, level)
    if not isinstance(interval, Interval):
        raise ContractError(f"{name} returned a {type(interval).__name__}; return a backcast.Interval")
    if not interval.low <= estimate.value <= interval.high:
        raise ContractError(f"{name}: {interval} does not contain the value {estimate.value:g}")
    if interval.level != level or not (interval.method and interval.assumption and interval.estimand):
        raise ContractError(f"{name}: {interval!r} does not state its level, method, assumption and estimand")
    yield "both ends are numbers, the interval contains the value and states level, method, assumption and estimand"
    if interval_of(log, level)[1] != interval:
        raise ContractError(f"{name}: two intervals of the same sample differ; draw from a generator with a fixed seed")
    yield "the same sample gives the same interval"
    _, wider = interval_of(log, (1 + level) / 2)
    if not (wider.low <= interval.low and interval.high <= wider.high):
        raise ContractError(f"{name}: {wider} does not contain {interval}")
    yield "a higher level gives an interval that contains that of a lower level"
    _, scaled = interval_of(_simulated_log(n_events, seed, scale=4.0), level)
    if not np.isclose(scaled.half_width, 4 * interval.half_width, rtol=1e-6, atol=1e-9):
        raise ContractError(
            f"{name}: rewards times 4 change the half-width from {interval.half_width:g} to {scaled.half_width:g}"
        )
    yield "rewards times 4 give an interval that is 4 times as wide"
    intervals = (interval_of(_simulated_log(n_events, seed + 1 + run), level)[1] for run in range(runs))
    hits = sum(each.low <= TRUE_VALUE <= each.high for each in intervals)
    fewest = int(binom.ppf(FALSE_ALARM, runs, level))
    if hits < fewest:
        raise ContractError(
            f"{name}: at the level {level:g} it contained the true value in {hits} of {runs} simulated logs, fewer "
            f"than {fewest}; the odds of that are at most {FALSE_ALARM:g} if it has its level"
        )
    yield f"at the level {level:g} it contained the true value in {hits} of {runs} simulated logs"


def _interval_of(method: Any, log: Log, level: float) -> tuple[Estimate, Any]:
    if isinstance(method, IntervalMethod):
        estimate = IPS().estimate(EvaluationRequest(log, Fixed(TARGET), interval=method, level=level))
        return estimate, estimate.interval
    estimate = IPS().estimate(EvaluationRequest(log, Fixed(TARGET), level=level))
    values = log.rewards * TARGET[log.actions] / log.propensities
    groups = np.array([group.mean() for group in np.array_split(values, N_GROUPS)])
    # equal groups have the mean of the whole; passes of a fixed policy need not differ
    groups += estimate.value - groups.mean()
    estimate = replace(estimate, group_values=groups, pass_values=np.full(N_GROUPS, estimate.value))
    return estimate, method.interval_from(estimate, level)


def _simulated_log(n_events: int, seed: int, scale: float = 1.0) -> Log:
    rng = np.random.default_rng([seed, n_events])
    actions = rng.integers(2, size=n_events)
    rewards = scale * (rng.random(n_events) < MEANS[actions])
    return Log(None, actions, rewards, np.full(n_events, 0.5), n_actions=2, reward_range=(0.0, scale))
