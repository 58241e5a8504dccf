"""A run that is fed as events come in, and can be asked at any time."""

from __future__ import annotations

from typing import Any

import numpy as np

from backcast._engine.replay import Run
from backcast._request import EvaluationRequest, RandomStreams
from backcast.errors import EvaluationError, OptionError
from backcast.estimate import Estimate
from backcast.evaluators._replay import Simulation
from backcast.evaluators.drns import DRns, doubly_robust_estimate
from backcast.intervals.learning import Anytime
from backcast.log import Log


class Monitor:
    """One run of DR-ns over events as they arrive; its interval holds at every look, however often one looks.

    The reward model is the running mean of the rewards before each part. The interval is for V(pi_PV), the
    progressive-validation policy of the run so far, and holds for any logger that does not look ahead.

    Parameters
    ----------
    policy
        The policy to evaluate; a copy is run.
    reward_range
        Known bounds of the reward.
    smallest_propensity
        A known lower bound on the propensities; the interval needs one that was fixed before looking.
    evaluator
        ``DRns(q=...)``, as it comes or with other options that need no events set aside.
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
            raise OptionError(f"smallest_propensity is {smallest_propensity}; it must lie in (0, 1]")
        self._policy, self._evaluator = policy, DRns(q=0.01) if evaluator is None else evaluator
        self._range = (float(reward_range[0]), float(reward_range[1]))
        self._smallest = float(smallest_propensity)
        self._level, self._seed = level, seed
        self._streams = RandomStreams.of(seed)
        self._run: Run | None = None
        self._total, self._events = 0.0, 0
        self._estimated = False

    def feed(self, log: Log) -> None:
        """Take in the next events, in order."""
        low, high = float(log.rewards.min()), float(log.rewards.max())
        if low < self._range[0] or high > self._range[1]:
            raise EvaluationError(f"rewards from {low:g} to {high:g} leave the declared range {self._range}")
        if log.propensities.min() < self._smallest:
            raise EvaluationError(
                f"a propensity of {log.propensities.min():g} is below the declared bound {self._smallest:g}; "
                "the interval needs a bound that holds"
            )
        if self._run is None:
            _, schedule = self._evaluator.plan_replay(EvaluationRequest(log, self._policy))
            self._run = Run(self._policy, schedule, self._range, self._streams.policy, keep_order=False)
        mean = self._total / self._events if self._events else sum(self._range) / 2
        self._run.feed(log, np.full((1, log.n_actions), mean), self._streams.acceptance.random(len(log)))
        self._total += float(log.rewards.sum())
        self._events += len(log)
        self._estimated |= log.propensities_estimated

    def estimate(self) -> Estimate:
        """The estimate up to now, with an interval that holds at this and every other look."""
        if self._run is None:
            raise EvaluationError("nothing has been fed yet; call feed(log) first")
        found = Simulation(
            self._run.so_far(),
            self._run.curve,
            None,
            self._range,
            self._range,
            self._smallest,
            bound_known=True,  # it was declared
            c_max=self._run.schedule.c_max,
            propensities_estimated=self._estimated,
        )
        request = EvaluationRequest(None, self._policy, interval=Anytime(), level=self._level, seed=self._seed)
        return doubly_robust_estimate(request, found, f"Monitor of {self._evaluator.name}")
