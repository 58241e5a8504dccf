"""The log on the couch: what several checks look at, worked out once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from backcast._arrays import BoolArray, FloatArray, IntArray, is_sparse
from backcast.checks._association import Prediction, matching_actions, predict_actions
from backcast.checks._drift import LogDrift, context_order, find_drift, logger_drift, reward_drift, time_order
from backcast.checks._policy_fit import fit_of
from backcast.checks._propensities import (
    action_coverage,
    clipped_propensities,
    constant_propensity,
    estimated_propensities,
    harmonic_mean,
    logging_probabilities,
    missing_events,
    propensity_range,
    rounded_propensities,
    unsupported_actions,
)
from backcast.checks._rewards import duplicates, reward_leak, reward_range, reward_scale
from backcast.checks.findings import Finding, HealthReport
from backcast.errors import OptionError
from backcast.log import Log


class LogFacts:
    """A log and what is known of it at a glance.

    Parameters
    ----------
    log
        The log.
    exchangeable
        Whether its order is said not to matter.
    """

    def __init__(self, log: Log, *, exchangeable: bool = True) -> None:
        self.log, self.exchangeable = log, exchangeable

    @property
    def n(self) -> int:
        """Number of events."""
        return len(self.log)

    @cached_property
    def inverse(self) -> FloatArray:
        """``1/p`` of each event."""
        inverse: FloatArray = 1.0 / self.log._propensities
        return inverse

    @cached_property
    def counts(self) -> IntArray:
        """How often each action was taken."""
        return np.bincount(self.log._actions, minlength=self.log.n_actions)

    @property
    def seen(self) -> BoolArray:
        """Which actions were ever taken."""
        return self.counts > 0

    @cached_property
    def few_events(self) -> bool:
        """Whether many actions were seen only once, so that others may exist that nobody has seen or declared."""
        return bool((self.counts == 1).sum() > 0.1 * self.log.n_actions)

    @cached_property
    def eligible(self) -> FloatArray:
        """Number of actions that were eligible at each event."""
        if self.log._available is None:
            return np.full(self.n, float(self.log.n_actions))
        return np.asarray(self.log._available.sum(axis=1), dtype=np.float64)

    @cached_property
    def supported(self) -> FloatArray:
        """Number of actions that were eligible at each event and are seen somewhere in the log."""
        if self.log._available is None:
            return np.full(self.n, float(self.seen.sum()))
        return np.asarray(self.log._available[:, self.seen].sum(axis=1), dtype=np.float64)

    @cached_property
    def eligible_counts(self) -> FloatArray:
        """Number of events at which each action was eligible."""
        if self.log._available is None:
            return np.full(self.log.n_actions, float(self.n))
        return np.asarray(self.log._available.sum(axis=0), dtype=np.float64)

    @cached_property
    def order(self) -> IntArray:
        """The rows in the order of time, or as they stand where the log has no times."""
        return time_order(self.log)

    @cached_property
    def drift(self) -> LogDrift:
        """Drift of the logger and of the rewards."""
        return find_drift(self.log)

    @cached_property
    def prediction(self) -> Prediction | None:
        """What the past of the log says of the actions to come; None where there is too little past."""
        return predict_actions(self.log, self.order)

    def context_columns(self, most: int) -> list[tuple[str, FloatArray]]:
        """Some features of the context, by name: the most varied, or most frequent where most are 0.

        Features of each action are averaged over the actions: those of the one taken would tell of the choice.
        """
        contexts = self.log._contexts
        if is_sparse(contexts):
            often = np.bincount(contexts.indices, minlength=contexts.shape[1])
            chosen = np.sort(np.argsort(-often, kind="stable")[:most])
            dense = np.asarray(contexts[:, chosen].toarray()) if chosen.size else np.zeros((self.n, 0))
            return [(f"feature {j}", dense[:, i]) for i, j in enumerate(chosen.tolist())]
        table = np.asarray(contexts).mean(axis=1) if contexts.ndim == 3 else np.asarray(contexts)
        varied = np.flatnonzero(table.max(axis=0) > table.min(axis=0)) if table.shape[1] else np.zeros(0, np.int64)
        return [(f"feature {j}", table[:, j]) for j in varied[:most].tolist()]


MOST_EVENTS, MOST_BYTES = 10**6, 2**30  # of a stream: whichever is less


CHECKS: tuple[Callable[[LogFacts], Finding | None], ...] = (
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
    >>> from backcast.environments import LinearEnvironment
    >>> log = LinearEnvironment(4, 3, logistic=True).log(2000, np.random.default_rng(0))
    >>> check(log).verdict
    'ok'
    >>> half = log.replace(_propensities=np.full(2000, 0.5), _logging=None)
    >>> check(half)["constant_propensity"].verdict
    'fail'
    """
    log, about = _looked_at(log)
    facts = LogFacts(log, exchangeable=exchangeable)
    findings = tuple(finding for test in CHECKS if (finding := test(facts)) is not None)
    if policy is None:
        return HealthReport(about, findings)
    drifts = any(
        finding.name in ("logger_drift", "reward_drift", "context_order") and finding.remedy for finding in findings
    )
    fit, more = fit_of(facts, policy, drifts)
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
