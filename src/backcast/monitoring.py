"""Monitor: DR-ns fed as events arrive, with an estimate at any time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from backcast._engine.replay import ReplayRun
from backcast._request import EvaluationRequest, RandomStreams
from backcast.errors import EvaluationError, OptionError
from backcast.estimate import Estimate
from backcast.evaluators._replay import ReplayResult, doubly_robust_estimate
from backcast.evaluators.drns import DRns
from backcast.intervals.learning import Anytime
from backcast.log import Log


class Monitor:
    """One run of DR-ns over events as they arrive; its interval is valid at all times simultaneously.

    The reward model is the running mean of the rewards before each part. The interval is for V(pi_PV), the
    progressive-validation policy of the run so far, and is valid for any logger that does not look ahead.

    Parameters
    ----------
    policy
        The policy to evaluate; a copy is run.
    reward_range
        Known bounds of the reward.
    smallest_propensity
        A known lower bound on the propensities; the interval needs one that was fixed in advance.
    evaluator
        ``DRns(q=...)``, with options that set no events aside.
    level, seed
        As for :func:`backcast.evaluate`.

    Examples
    --------
    >>> from backcast.policies.context_free import UCB1
    >>> rng = np.random.default_rng(0)
    >>> monitor = Monitor(UCB1(), reward_range=(0, 1), smallest_propensity=0.5)
    >>> for day in range(2):
    ...     actions = rng.integers(2, size=500)
    ...     monitor.feed(Log(None, actions, actions * 1.0, np.full(500, 0.5), n_actions=2))
    >>> monitor.estimate().diagnostics.events
    1000
    >>> print(monitor.estimate().interval)
    [0.9415, 1] (95 % anytime empirical Bernstein)
    """

    def __init__(
        self,
        policy: Any,
        *,
        reward_range: tuple[float, float],
        smallest_propensity: float,
        evaluator: DRns | None = None,
        level: float = 0.95,
        seed: int = 0,
    ) -> None:
        if not 0 < smallest_propensity <= 1:
            raise OptionError(f"smallest_propensity is {smallest_propensity}; it must be in (0, 1]")
        self._policy, self._evaluator = policy, DRns(q=0.01) if evaluator is None else evaluator
        self._reward_range = (float(reward_range[0]), float(reward_range[1]))
        self._smallest_propensity = float(smallest_propensity)
        self._level, self._seed = level, seed
        self._streams = RandomStreams.from_seed(seed)
        self._run: ReplayRun | None = None
        self._reward_total = 0.0
        self._propensities_estimated = False
        self._last_time: Any = None

    def feed(self, log: Log) -> None:
        """Process the next events, in order; their times, if given, must not be before those of earlier events."""
        times = log.columns.times
        if times is not None and self._last_time is not None and times[0] < self._last_time:
            raise EvaluationError(
                f"the time of the first event is {times[0]}, before {self._last_time}, the last one fed; feed events "
                "in the order of time"
            )
        low, high = float(log.rewards.min()), float(log.rewards.max())
        if low < self._reward_range[0] or high > self._reward_range[1]:
            raise EvaluationError(
                f"rewards from {low:g} to {high:g} are outside the declared range {self._reward_range}"
            )
        if log.propensities.min() < self._smallest_propensity:
            raise EvaluationError(
                f"a propensity of {log.propensities.min():g} is below the declared bound "
                f"{self._smallest_propensity:g}; the interval needs a bound that holds"
            )
        if self._run is None:
            options: dict[str, Any] = {"interval": Anytime(), "level": self._level, "seed": self._seed}
            self._request = EvaluationRequest(log[np.zeros(0, dtype=np.int64)], self._policy, **options)
            _, schedule = self._evaluator.plan_replay(replace(self._request, log=log))
            rng = self._streams.policy
            self._run = ReplayRun(self._policy, schedule, self._reward_range, rng, record_order=False)
        n = self._run.events_fed
        mean = self._reward_total / n if n else sum(self._reward_range) / 2
        self._run.feed(log, np.full((1, log.n_actions), mean), self._streams.acceptance.random(len(log)))
        self._reward_total += float(log.rewards.sum())
        self._propensities_estimated |= log.propensities_estimated
        self._last_time = self._last_time if times is None else times[-1]

    def estimate(self) -> Estimate:
        """Return the estimate up to now, with an interval that is valid at this and every other time."""
        if self._run is None:
            raise EvaluationError("no events have been fed yet; call feed(log) first")
        result = replace(
            ReplayResult.from_run(self._run, self._run.trajectories_so_far()),
            reward_range=self._reward_range,
            value_range=self._reward_range,
            smallest_propensity=self._smallest_propensity,
            smallest_is_known=True,
        )
        name = f"Monitor of {self._evaluator.name}"
        return doubly_robust_estimate(self._request, result, name, estimated=self._propensities_estimated)
