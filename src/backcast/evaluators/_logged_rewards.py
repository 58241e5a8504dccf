"""LoggedMean: what the log itself earned, the baseline of lifts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from backcast._arrays import IntArray
from backcast._parallel.jobs import Execution
from backcast._request import EvaluationRequest
from backcast.estimate import Estimate
from backcast.evaluators._reward_predictions import PredictedPart
from backcast.evaluators._weighted_estimate import EstimatorSpec, estimate_from_events
from backcast.evaluators._weighted_events import WeightedBlock, WeightedLog, weight_logged
from backcast.intervals._sample import EventColumns, Moments
from backcast.intervals.asymptotic import AdjustedStudent
from backcast.io.stream import LogStream
from backcast.log import Log


class LoggedMean:
    """The mean of the logged rewards, which is the value of the logger on any log: each event has weight 1.

    Examples
    --------
    >>> log = Log(None, actions=[0, 1, 0, 1], rewards=[1, 0, 1, 1], propensities=[0.5] * 4)
    >>> LoggedMean().estimate(EvaluationRequest(log, policy=None)).value
    0.75
    """

    spec: ClassVar[EstimatorSpec] = EstimatorSpec("mean of the logged rewards", interval=AdjustedStudent())

    def estimate(self, request: EvaluationRequest) -> Estimate:
        """Return the mean of the logged rewards; of a stream, by one pass over the column of rewards."""
        # the policy is not asked: Logged() need not have the probabilities of all actions
        request = replace(request, policy=None)
        moments = _stream_moments(request.log) if isinstance(request.log, LogStream) else None
        events = WeightedLog(request, _weight, uses_model=False)
        return estimate_from_events(self.spec, request, events, moments)


def _weight(policy: Any, part: PredictedPart, block: Log, positions: IntArray) -> WeightedBlock:
    return weight_logged(block)


def _stream_moments(stream: LogStream) -> Moments:
    moments = Moments.empty()
    for rewards in stream.rewards():
        zeros, ones = np.zeros_like(rewards), np.ones_like(rewards)
        moments = moments + Moments.of(EventColumns(zeros, ones, rewards, ones, rewards, ones, rewards))
    return moments


def logged_baseline(request: EvaluationRequest) -> Estimate:
    """Return the mean of the logged rewards of a request as the baseline of its lifts."""
    own_request = replace(
        request, policy_name="Logged()", reward_model=None, horizon=None, interval=None, execution=Execution()
    )
    return LoggedMean().estimate(own_request)
