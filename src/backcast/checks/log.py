"""check(): all checks of a log, and the facts about a log that they share."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from backcast._arrays import BoolArray, FloatArray, IntArray, is_sparse
from backcast.checks._association import Prediction, frequent_features, matching_actions, predict_actions
from backcast.checks._drift import LogDrift, context_order, find_drift, logger_drift, reward_drift
from backcast.checks._policy_fit import fit_policy
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
from backcast.checks._rewards import duplicates, reward_concentration, reward_leak, reward_range, reward_scale
from backcast.checks.findings import Finding, HealthReport
from backcast.errors import OptionError
from backcast.io.stream import LogStream
from backcast.log import Log

MOST_EVENTS, MOST_BYTES = 10**6, 2**30  # of a stream that are checked, whichever is less
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
    reward_concentration,
    reward_leak,
)
DRIFT_CHECKS = ("logger_drift", "reward_drift", "context_order")


def check(log: Any, policy: Any = None, *, exchangeable: bool = True) -> HealthReport:
    """Check a log for faults, and how well it suits a policy.

    Each finding that rests on a statistical test is a false alarm for at most one sound log in 100,000, so that the
    whole report has about 2 false alarms in 10,000 sound logs. The result is not random.

    Parameters
    ----------
    log
        The log. If a stream from :func:`backcast.scan_log` has more than a million events, or takes more than 1 GB of
        memory, a sample of that size is checked: a hundred slices, evenly spaced. Events between the slices, and
        copies of an event in another slice, are not seen; the report contains the number of events checked.
    policy
        A policy to be evaluated on the log; a copy is scored, in its initial state if it learns.
    exchangeable
        False if the order of the log is known to matter, as for a logger that learned: drift is then not a fault.

    Examples
    --------
    >>> import numpy as np
    >>> from backcast.environments import LinearEnvironment
    >>> from backcast.log import Log
    >>> log = LinearEnvironment(4, 3, logistic=True).log(2000, np.random.default_rng(0))
    >>> check(log).verdict
    'ok'
    >>> half = Log(log.contexts, log.actions, log.rewards, np.full(2000, 0.5))
    >>> check(half)["constant_propensity"].verdict
    'fail'
    """
    log, description = _load_events(log)
    facts = LogFacts(log, exchangeable=exchangeable)
    findings = tuple(finding for run_check in CHECKS if (finding := run_check(facts)) is not None)
    if policy is None:
        return HealthReport(description, findings, reading=log.reading)
    drifts = any(finding.name in DRIFT_CHECKS and finding.verdict != "ok" for finding in findings)
    fit, policy_findings = fit_policy(facts, policy, in_log_order=drifts or not exchangeable)
    return HealthReport(description, findings + policy_findings, fit, log.reading)


def _load_events(log: Any) -> tuple[Log, str]:
    """Return the events to check, sampled from a long stream, and a description of them."""
    if isinstance(log, Log):
        return log, repr(log)
    if not isinstance(log, LogStream):
        raise OptionError(
            f"{type(log).__name__} is neither a log in memory nor a stream from scan_log; read it with read_log"
        )
    stream = log.with_event_count()
    n_events = stream.n_events or 0
    bytes_per_event = max(1, stream.bytes_in_memory // max(1, n_events))
    sample = stream.sample(max(1, min(MOST_EVENTS, MOST_BYTES // bytes_per_event)))
    if len(sample) == n_events:
        return sample, repr(sample)
    return sample, f"{len(sample):,} events in evenly spaced slices of {stream!r}"


class LogFacts:
    """Quantities of a log that several checks share, computed once; drift is a fault if it is ``exchangeable``."""

    def __init__(self, log: Log, *, exchangeable: bool = True) -> None:
        self.log, self.exchangeable = log, exchangeable

    @property
    def n(self) -> int:
        """Number of events."""
        return len(self.log)

    @cached_property
    def inverse(self) -> FloatArray:
        """``1/p`` of each event."""
        inverse: FloatArray = 1.0 / self.log.columns.propensities
        return inverse

    @cached_property
    def counts(self) -> IntArray:
        """Number of events at which each action was taken."""
        return np.bincount(self.log.columns.actions, minlength=self.log.n_actions)

    @property
    def seen(self) -> BoolArray:
        """Which actions were ever taken."""
        return self.counts > 0

    @cached_property
    def few_events(self) -> bool:
        """Whether many actions were taken only once, so that there may be others that are neither seen nor declared."""
        return bool((self.counts == 1).sum() > 0.1 * self.log.n_actions)

    @cached_property
    def eligible(self) -> FloatArray:
        """Number of eligible actions at each event."""
        if self.log.columns.available is None:
            return np.full(self.n, float(self.log.n_actions))
        return np.asarray(self.log.columns.available.sum(axis=1), dtype=np.float64)

    @cached_property
    def supported(self) -> FloatArray:
        """Number of eligible actions at each event that are taken somewhere in the log."""
        if self.log.columns.available is None:
            return np.full(self.n, float(self.seen.sum()))
        return np.asarray(self.log.columns.available[:, self.seen].sum(axis=1), dtype=np.float64)

    @cached_property
    def eligible_counts(self) -> FloatArray:
        """Number of events at which each action was eligible."""
        if self.log.columns.available is None:
            return np.full(self.log.n_actions, float(self.n))
        return np.asarray(self.log.columns.available.sum(axis=0), dtype=np.float64)

    @cached_property
    def drift(self) -> LogDrift:
        """Drift of the logger and of the rewards."""
        return find_drift(self.log)

    @cached_property
    def prediction(self) -> Prediction | None:
        """Actions predicted from earlier events; None if there are too few."""
        return predict_actions(self.log)

    def context_columns(self, most: int) -> list[tuple[str, FloatArray]]:
        """Return up to ``most`` features that vary, by name; of sparse contexts the most frequent ones.

        Features of each action are averaged over all actions, because those of the action taken depend on the choice.
        """
        contexts = self.log.columns.contexts
        if is_sparse(contexts):
            frequent = frequent_features(contexts, most)
            dense = np.asarray(contexts[:, frequent].toarray()) if frequent.size else np.zeros((self.n, 0))
            return [(self.log.feature_name(j), dense[:, i]) for i, j in enumerate(frequent.tolist())]
        table = np.asarray(contexts).mean(axis=1) if contexts.ndim == 3 else np.asarray(contexts)
        varied = np.flatnonzero(table.max(axis=0) > table.min(axis=0)) if table.shape[1] else np.zeros(0, np.int64)
        return [(self.log.feature_name(j), table[:, j]) for j in varied[:most].tolist()]
