"""check_evaluator(): contract tests for an evaluator."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from backcast._arrays import FloatArray, IntArray
from backcast._parallel.jobs import Execution
from backcast._request import EvaluationRequest, Evaluator
from backcast.checks.findings import ContractReport
from backcast.errors import ContractError, EvaluationError, NeedsStationaryPolicy
from backcast.estimate import Estimate
from backcast.log import Log, replace_columns
from backcast.policies._calls import describe
from backcast.policies.base import is_learning
from backcast.policies.context_free import UCB1
from backcast.policies.fixed import Fixed, Logged, Uniform

ROUNDING = 1e-9  # relative: sums of other numbers, or in another order, differ by this much at most
REWARD = 0.75  # the constant reward
SCALE = 4.0  # a power of two, so that rounding is the same in other units


def check_evaluator(
    evaluator: Evaluator,
    log: Log | None = None,
    *,
    policy: Any = None,
    horizon: int = 10,
    draws_actions: bool = False,
    averages_rounds: bool = True,
    seed: int = 0,
) -> ContractReport:
    """Check the properties that every evaluator has; raise :class:`ContractError` at the first violation.

    Parameters
    ----------
    evaluator
        The evaluator.
    log
        A log that it can evaluate, of a few hundred events; None simulates one of uniform choices among three actions.
    policy
        A learning policy that it can evaluate; None uses UCB1, unless the evaluator is for fixed policies only.
    horizon
        Rounds T; a few, so that every pass reaches them.
    draws_actions
        Whether the evaluator draws actions of the policy. With other names of the actions it then draws others, and its
        value changes by chance.
    averages_rounds
        Whether the value is the mean over rounds. That of ``DRns`` is not: rounds that took more events weigh more, so
        that its learning curve need not average to the value.
    seed
        Seed of the log and of the evaluations.

    Examples
    --------
    >>> from backcast.evaluators.importance_weighting import IPS
    >>> print(check_evaluator(IPS()))
    IPS() passed 8 checks:
    - an estimate is returned whose interval, if it has one, contains its value
    - the estimate can be printed, and saved as JSON and loaded
    - the same seed gives the same result
    - policy and log are not changed
    - the result does not depend on the number of parallel jobs
    - rewards that are all the same give that reward
    - rewards in other units give the value in those units
    - other names of the actions give the same value
    """
    if isinstance(evaluator, type) or not isinstance(evaluator, Evaluator):
        raise ContractError(f"{evaluator!r} is no evaluator; give an instance with a method estimate(request)")
    log = _simulated_log(seed) if log is None else log
    world = _World(evaluator, log, horizon, seed, np.random.default_rng(seed).random((len(log), log.n_actions)))
    fixed = Fixed(np.arange(1, log.n_actions + 1) / np.arange(1, log.n_actions + 1).sum())
    learner = UCB1() if policy is None else policy
    try:
        world.estimate(learner)
    except NeedsStationaryPolicy:
        learner = fixed
    except EvaluationError as problem:
        if policy is not None:
            raise
        raise ContractError(f"{world.name} cannot evaluate UCB1 here: {problem}. Give log= and policy=") from None
    laws = [
        *_check_one_policy(world, learner, averages_rounds),
        *_check_transformed_logs(world, fixed, learner, draws_actions),
    ]
    return ContractReport(world.name, tuple(laws))


@dataclass(frozen=True)
class _World:
    """An evaluator with a log, predictions within the reward range, and a horizon."""

    evaluator: Any
    log: Log
    horizon: int
    seed: int
    predicted: FloatArray

    def estimate(self, policy: Any, n_jobs: int = 1, log: Log | None = None, model: Any = None) -> Estimate:
        request = self.request(policy, n_jobs, log, model)
        estimate = self.evaluator.estimate(request)
        if not isinstance(estimate, Estimate):
            raise ContractError(f"{self.name}.estimate returned a {type(estimate).__name__}; return a bc.Estimate")
        return estimate

    def request(self, policy: Any, n_jobs: int = 1, log: Log | None = None, model: Any = None) -> EvaluationRequest:
        low, high = self.log.reward_bounds
        return EvaluationRequest(
            self.log if log is None else log,
            policy,
            low + (high - low) * self.predicted if model is None else model,
            self.horizon,
            seed=self.seed,
            policy_name=describe(policy),
            execution=Execution(n_jobs),
        )

    @property
    def name(self) -> str:
        return describe(self.evaluator)

    def require_equal(self, law: str, value: float, expected: float) -> None:
        if not abs(value - expected) <= ROUNDING * max(1.0, abs(expected)):
            raise ContractError(f"{self.name}: {law}; the value is {value:.12g} and should be {expected:.12g}")


def _check_one_policy(world: _World, policy: Any, averages_rounds: bool) -> Iterator[str]:
    """Check one property after another on the log as it is, and yield each that holds."""
    name = world.name
    state, log = attributes_of(policy), world.log.fingerprint()
    estimate = world.estimate(policy)
    interval = estimate.interval
    if interval is not None and not interval.low <= estimate.value <= interval.high:
        raise ContractError(f"{name}: the value {estimate.value:g} is not in its interval {interval}")
    yield "an estimate is returned whose interval, if it has one, contains its value"
    saved = json.loads(json.dumps(estimate.to_dict(), allow_nan=False))
    if not str(estimate) or Estimate.from_dict(saved).to_dict() != estimate.to_dict():
        raise ContractError(f"{name}: the estimate that is loaded from JSON is not the one that was saved")
    yield "the estimate can be printed, and saved as JSON and loaded"
    if world.estimate(policy).to_dict() != estimate.to_dict():
        raise ContractError(f"{name}: two calls with the same seed differ; draw only from request.generator()")
    yield "the same seed gives the same result"
    if attributes_of(policy) != state:
        raise ContractError(f"{name} changed the policy; work on a copy (PolicyRun, or copy.deepcopy)")
    if world.log.fingerprint() != log:
        raise ContractError(f"{name} changed the log; copy its columns before writing to them")
    yield "policy and log are not changed"
    if world.estimate(policy, n_jobs=2).to_dict() != estimate.to_dict():
        raise ContractError(f"{name}: the result with n_jobs=2 differs; take random numbers from the seed of each job")
    yield "the result does not depend on the number of parallel jobs"
    curve = estimate.curve
    if curve is not None and averages_rounds:
        mean = float(np.average(curve.value, weights=np.diff(curve.rounds, prepend=0)))
        world.require_equal("the learning curve does not average to the value", mean, estimate.value)
        yield "the learning curve averages to the value"
    if callable(getattr(world.evaluator, "run_jointly", None)):
        request = world.request(policy)
        passes = world.evaluator.run_jointly(request, [Uniform(), policy])
        if passes is not None:
            value = world.evaluator.estimate_of(1, passes, request).value
            if value != estimate.value:
                raise ContractError(f"{name}: beside another policy the value is {value!r}, alone {estimate.value!r}")
            yield "a policy that is compared with others has the same value"


def _check_transformed_logs(world: _World, fixed: Fixed, learner: Any, draws_actions: bool) -> Iterator[str]:
    """Check how values change with the log, and yield each property that holds."""
    log, low, high = world.log, *world.log.reward_bounds
    constant = replace_columns(log, rewards=np.full(len(log), REWARD), reward_range=(REWARD - 1, REWARD + 1))
    # weights of a finite log do not average 1, except those of the logger itself
    logger = Logged() if log.logging_probabilities is not None else Uniform()
    policies = [logger] if log.smallest_propensity_is_known else []
    for policy in [*policies, learner] if is_learning(learner) else policies:
        value = world.estimate(policy, log=constant, model=REWARD).value
        world.require_equal("rewards that are all the same do not give that reward", value, REWARD)
    yield "rewards that are all the same give that reward"
    value = world.estimate(fixed).value
    scaled = replace_columns(log, rewards=SCALE * log.rewards, reward_range=(SCALE * low, SCALE * high))
    model = SCALE * (low + (high - low) * world.predicted)
    rescaled = world.estimate(fixed, log=scaled, model=model).value
    world.require_equal(f"rewards times {SCALE:g} do not give {SCALE:g} times the value", rescaled, SCALE * value)
    yield "rewards in other units give the value in those units"
    if draws_actions:
        return
    order = np.roll(np.arange(log.n_actions), 1)
    renamed = Fixed(np.asarray(fixed.probabilities(np.zeros((1, 1))))[0][np.argsort(order)])
    model = (low + (high - low) * world.predicted)[:, np.argsort(order)]
    value_renamed = world.estimate(renamed, log=_rename_actions(log, order), model=np.ascontiguousarray(model)).value
    world.require_equal("other names of the actions give another value", value_renamed, value)
    yield "other names of the actions give the same value"


def attributes_of(item: object) -> bytes | None:
    """Return the attributes of an object in a form that can be compared; None if there is none.

    The class itself need not be importable: it may be defined in a notebook or a function.
    """
    try:
        return pickle.dumps(vars(item))
    except (AttributeError, TypeError, pickle.PicklingError):
        return None


def _rename_actions(log: Log, order: IntArray) -> Log:
    """Return the same log with action ``a`` called ``order[a]``."""
    back = np.argsort(order)
    columns = {
        name: None if column is None else np.ascontiguousarray(column[:, back])
        for name, column in (("available", log.available), ("logging_probabilities", log.logging_probabilities))
    }
    if log.has_action_features:
        columns["contexts"] = np.ascontiguousarray(np.asarray(log.contexts)[:, back])
    return replace_columns(log, actions=order[log.actions], **columns)


def _simulated_log(seed: int, n: int = 240, n_actions: int = 3) -> Log:
    rng = np.random.default_rng(seed)
    logging = np.full((n, n_actions), 1 / n_actions)
    actions = rng.integers(n_actions, size=n)
    rewards = rng.integers(65, size=n) / 64
    return Log(
        rng.normal(size=(n, 2)),
        actions,
        rewards,
        logging[:, 0],
        n_actions=n_actions,
        reward_range=(0.0, 1.0),
        logging_probabilities=logging,
    )
