"""TrainingSplit: the head of a log that warm-started policies are trained on, and what is evaluated then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from backcast._request import log_shape
from backcast.errors import LogError
from backcast.estimate import Estimate
from backcast.io.stream import LogStream
from backcast.log import Log
from backcast.policies._calls import describe
from backcast.policies.compiled import CompiledPolicy
from backcast.policies.wrappers import WarmStart, train_policy
from backcast.provenance import describe_object


@dataclass(frozen=True)
class TrainingSplit:
    """A log without the events that policies were trained on, and these policies by name.

    Attributes
    ----------
    given_log, given_policies
        What was passed to the evaluation.
    log, policies
        What is evaluated: the other events, with trained policies in place of warm starts.
    n_training
        Number of events at the head of the log that are not evaluated.
    """

    given_log: Log | LogStream
    given_policies: Mapping[str, Any]
    log: Log | LogStream
    policies: dict[str, Any]
    n_training: int

    @classmethod
    def of(cls, log: Log | LogStream, policies: Mapping[str, Any]) -> TrainingSplit:
        """Train the warm starts among these policies, each on its share; the largest share is held out for all."""
        given_log, shares = log, [policy.share or 0.0 for policy in policies.values() if isinstance(policy, WarmStart)]
        head: Log | None = None
        n_events = 0
        if max(shares) > 0:
            log = log if isinstance(log, Log) else log.with_event_count()
            n_events = log.n_events or 0
            n_training = round(max(shares) * n_events)
            if n_training > 0:
                head, remainder = log.split_head(n_training)
                if remainder is None:
                    raise LogError(f"the log has {n_events} events; a share of {max(shares):g} leaves none to evaluate")
                log = remainder
        trained = {name: _train(policy, head, n_events, log) for name, policy in policies.items()}
        return cls(given_log, policies, log, trained, 0 if head is None else len(head))

    def notes(self) -> tuple[str, ...]:
        """Return a sentence on the events that are not evaluated, if there are any."""
        if self.n_training == 0:
            return ()
        kind = "policy" if len(self.policies) == 1 else "warm-started policies"
        other = "" if len(self.policies) == 1 else "; all policies are evaluated on the others"
        trained = f"The first {self.n_training:,} events of the log trained the {kind} and are not evaluated{other}."
        return (f"{trained} The value is that of a policy trained on these very events.",)

    def complete(self, estimate: Estimate, name: str) -> Estimate:
        """Return the estimate of one policy as one of the policy and the log that were given."""
        given, provenance = self.given_policies[name], estimate.provenance
        if provenance is not None:
            provenance = replace(
                provenance,
                policy=describe_object(given),
                log=log_shape(self.given_log),
                source=self.given_log.source,
            )
        if not isinstance(self.given_log, Log):
            return replace(estimate, policy=describe(given), provenance=provenance)
        summary, progressive = estimate._replay_summary, estimate._progressive
        return replace(
            estimate,
            policy=describe(given),
            provenance=provenance,
            _replay_summary=summary and summary.without_head(self.given_log, self.n_training),
            _progressive=progressive and progressive.with_log(self.given_log),
        )


def _train(policy: Any, head: Log | None, n_events: int, log: Log | LogStream) -> Any:
    """Return what is evaluated for a policy: itself, or trained if it is a warm start.

    A compiled policy keeps what it has learned when it is started, so it is trained once; others are trained in every
    pass, with the random numbers of the pass.
    """
    if not isinstance(policy, WarmStart):
        return policy
    if policy.log is None:
        n_own = round((policy.share or 0.0) * n_events)
        if head is None or n_own == 0:
            return policy.policy
        policy = WarmStart(policy.policy, log=head[:n_own])
    if not isinstance(policy.policy, CompiledPolicy):
        return policy
    events = policy.training_events(log.action_labels, log.n_features)
    return train_policy(policy.policy, events, np.random.default_rng(0))
