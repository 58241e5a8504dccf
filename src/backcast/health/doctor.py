"""The doctor: every check, one report."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from backcast.errors import OptionError
from backcast.health.association import matching_actions
from backcast.health.case import Case
from backcast.health.coverage import action_coverage, harmonic_mean, missing_events
from backcast.health.duplicates import duplicates
from backcast.health.findings import Finding, HealthReport
from backcast.health.fit import fit_of
from backcast.health.order import context_order, logger_drift, reward_drift
from backcast.health.propensities import (
    clipped_propensities,
    constant_propensity,
    estimated_propensities,
    propensity_range,
    rounded_propensities,
)
from backcast.health.recorded import logging_probabilities
from backcast.health.rewards import reward_leak, reward_range, reward_scale
from backcast.health.support import unsupported_actions
from backcast.log import Log

__all__ = ["CHECKS", "check"]

MOST_EVENTS, MOST_BYTES = 10**6, 2**30  # of a stream: whichever is less

CHECKS: tuple[Callable[[Case], Finding | None], ...] = (
    propensity_range,
    estimated_propensities,
    constant_propensity,
    rounded_propensities,
    clipped_propensities,
    harmonic_mean,
    action_coverage,
    missing_events,
    matching_actions,
    logging_probabilities,
    unsupported_actions,
    duplicates,
    logger_drift,
    reward_drift,
    context_order,
    reward_range,
    reward_scale,
    reward_leak,
)


def check(log: Any, policy: Any = None, *, exchangeable: bool = True) -> HealthReport:
    """Look for what is wrong with a log, and say how it suits a policy.

    Findings that rest on chance are wrong about a sound log once in 100,000 logs or less, each, so all of them
    together raise a false alarm at about 2 in 10,000. Nothing here is random: the same log, the same report.

    Parameters
    ----------
    log
        The log. Of a stream from :func:`backcast.scan_log` that has more events than a million, or than take 1 GB of
        memory, so many are looked at, in a hundred stretches evenly spread: what lies between them is not seen, nor
        copies of an event in another stretch, and the report says how many events it is about.
    policy
        A policy that is to be evaluated on it; a copy is asked, in its first state if it learns.
    exchangeable
        False where the order is known to matter, as for the log of a learning logger: drift is then no fault.

    Examples
    --------
    >>> import numpy as np
    >>> from backcast.worlds import LinearWorld
    >>> log = LinearWorld(4, 3, logistic=True).log(2000, np.random.default_rng(0))
    >>> check(log).verdict
    'ok'
    >>> half = log.replace(_propensities=np.full(2000, 0.5), _logging=None)
    >>> check(half)["constant_propensity"].verdict
    'fail'
    """
    log, about = _looked_at(log)
    case = Case(log, exchangeable=exchangeable)
    findings = tuple(finding for test in CHECKS if (finding := test(case)) is not None)
    if policy is None:
        return HealthReport(about, findings)
    drifts = any(finding.name in ("logger_drift", "context_order") and finding.remedy for finding in findings)
    fit, more = fit_of(case, policy, drifts)
    return HealthReport(about, findings + more, fit)


def _looked_at(log: Any) -> tuple[Log, str]:
    """The events that are looked at, and what they are."""
    if isinstance(log, Log):
        return log, repr(log)
    if not hasattr(log, "sample"):
        raise OptionError(
            f"{type(log).__name__} is neither a log in memory nor a stream from scan_log; read it with read_log"
        )
    stream = log.counted()
    size = max(1, stream.bytes_in_memory // stream.n_rows)
    some = stream.sample(max(1, min(MOST_EVENTS, MOST_BYTES // size)))
    if len(some) == stream.n_rows:
        return some, repr(some)
    return some, f"{len(some):,} events, in stretches evenly spread over {stream!r}"
