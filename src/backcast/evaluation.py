"""evaluate(): validate the arguments, choose an evaluator, return an Estimate."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from os import PathLike
from typing import Literal, TypeAlias

from backcast._auto import resolve_evaluator
from backcast._differences import Comparand, comparand, lift_precision, make_lift
from backcast._forecast import announce
from backcast._horizon import resolve_horizon
from backcast._parallel.jobs import Execution
from backcast._parallel.time_limit import limit_calls
from backcast._progress import show_progress
from backcast._request import (
    AnyLog,
    AnyPolicy,
    AnyRewardModel,
    EvaluationRequest,
    Evaluator,
    as_log,
    check_request,
    is_partial,
    log_shape,
    with_checkpoint,
)
from backcast._training_split import TrainingSplit
from backcast.checks.policy import probe_policy
from backcast.errors import ContractError, convert_errors, is_built_in
from backcast.estimate import LOGGED, POLICY_VALUE, PROGRESSIVE_VALUE, Estimate, LogComputation
from backcast.evaluators._disjoint_parts import estimate_segments
from backcast.evaluators._logged_rewards import logged_baseline
from backcast.intervals import IntervalMethod
from backcast.intervals._sample import FIXED_VALUE, TRANSFORMED_VALUE
from backcast.intervals.learning import (
    Anytime,
    GroupJackknife,
    InfinitesimalJackknife,
    ResultInterval,
    Segments,
    TheoremTwo,
)
from backcast.io.stream import LogStream
from backcast.log import Log
from backcast.policies._calls import describe
from backcast.policies.base import is_learning
from backcast.policies.wrappers import WarmStart
from backcast.provenance import Provenance, date_now, describe_object, package_versions
from backcast.replay_summary import ReplaySummary, summarize_replay
from backcast.reward_models.cross_fitting import CrossFit, Progressive, default_model, number_predictions

AnyInterval: TypeAlias = (
    IntervalMethod | ResultInterval | InfinitesimalJackknife | GroupJackknife | Anytime | TheoremTwo | Segments
)

FIRST_CALLS = "the first calls of the policy"
MEAN_REWARDS = (FIXED_VALUE, POLICY_VALUE, PROGRESSIVE_VALUE, TRANSFORMED_VALUE)  # estimands with a lift


def evaluate(
    log: AnyLog,
    policy: AnyPolicy,
    evaluator: Evaluator | Literal["auto"] = "auto",
    *,
    reward_model: AnyRewardModel | None = None,
    horizon: int | str | None = None,
    interval: AnyInterval | None = None,
    level: float = 0.95,
    seed: int = 0,
    replicates: int | str | None = "default",
    exchangeable: bool | None = None,
    n_jobs: int | None = None,
    checkpoint: str | PathLike[str] | None = None,
    time_limit: float | None = None,
    time_budget: float | str | None = "default",
    progress: bool | Callable[[int], None] | None = None,
) -> Estimate:
    """Estimate what a policy would have earned on a log.

    Parameters
    ----------
    log
        A :class:`backcast.Log`, or a stream of parts from :func:`backcast.scan_log`.
    policy
        An object with ``probabilities`` (and ``learn``, if it learns); a copy is run, the object is not changed.
    evaluator
        ``DRns(...)``, ``WC()``, ``RS()``, ``Replay()``, ``DM()``, ``IPS()``, ...; "auto" selects one.
    reward_model
        Reward model of the doubly robust estimators: a model, one of ``CrossFit``, ``Split`` and ``Progressive`` around
        a model, an array of predictions (by row number, ``log.rows``), a number, or None for the default.
    horizon
        Number of rounds T of the policy, or a span of time for a log with times ("12h", "1d", "2w": as many rounds as
        it has events in that time); None for one pass over the log.
    interval
        An interval instead of the evaluator's default, such as ``Segments()`` or ``TheoremTwo()``.
    level
        Level of the interval.
    seed
        Seed of all random numbers; the same seed gives the same result.
    replicates
        Passes for the value and standard error of a learning policy: a number, "auto" (until Monte-Carlo
        error is a small part of the total), or None for none. The default is "auto" for ClockReplay, None for DRns.
    exchangeable
        Whether the order of the log is irrelevant (a fixed logger, no drift): "auto" permutes the log if True, uses log
        order if False, and tests for drift and warns of it if None.
    n_jobs
        Number of replicates run in parallel, -1 for one per core; None for the setting of ``joblib.parallel_config``,
        which may be a cluster, or else 1. The result does not depend on it.
    checkpoint
        Folder for finished replicates, or for finished parts or the state of a pass over a stream. The same call
        continues from there; a call with other arguments raises an error.
    time_limit
        Seconds per replicate, after which :class:`backcast.WorkError` is raised; None for no limit.
    time_budget
        Seconds of work on two cores, as a fixed cost model counts them, for which "auto" or ``ClockReplay`` choose the
        number of passes, their events and how often they read V_t; None for no limit. The default is 30 seconds for
        "auto", more for logs of more than 100,000 events, and None for an evaluator that is given. The clock is not
        used, so the same call has the same result on every machine, and may take longer or shorter there.
    progress
        True for a progress bar, or a function that is called with the number of further events processed. If it raises
        :class:`backcast.StopEvaluation`, the result is computed from the finished work, with a note.

    Examples
    --------
    >>> from backcast.evaluators.drns import DRns
    >>> from backcast.log import Log
    >>> from backcast.policies.fixed import Fixed
    >>> log = Log(None, actions=[0, 1, 0, 1], rewards=[1, 0, 1, 0], propensities=[0.5] * 4, reward_range=(0, 1))
    >>> evaluate(log, Fixed([0.5, 0.5]), DRns(q=0.0), reward_model=0.0).value
    0.5
    """
    check_request(
        [policy],
        level=level,
        horizon=horizon,
        seed=seed,
        replicates=replicates,
        exchangeable=exchangeable,
        n_jobs=n_jobs,
        time_limit=time_limit,
        progress=progress,
        time_budget=time_budget,
    )
    log, policy_name = as_log(log), describe(policy)
    rounds, horizon_notes = resolve_horizon(log, horizon)
    predictions = number_predictions(reward_model, log)
    split = TrainingSplit.of(log, {"": policy}) if isinstance(policy, WarmStart) else None
    if split is not None:
        log, policy = split.log, split.policies[""]
    request = EvaluationRequest(
        log=log,
        policy=policy,
        reward_model=predictions,
        horizon=rounds,
        interval=interval,
        level=level,
        seed=seed,
        replicates=replicates,
        policy_name=policy_name,
        time_budget=time_budget,
        execution=Execution(n_jobs, time_limit),
        arguments={
            "evaluator": evaluator,
            "reward_model": reward_model,
            "horizon": horizon,
            "interval": interval,
            "level": level,
            "seed": seed,
            "replicates": replicates,
            "exchangeable": exchangeable,
            "time_budget": time_budget,
        },
        pairs_with_log=True,
    )
    chosen, request, notes = resolve_evaluator(evaluator, request, [policy], exchangeable)
    with limit_calls(time_limit, FIRST_CALLS):
        probe_policy(policy, request.log, seed)
        request = with_checkpoint(request, checkpoint, chosen, {"policy": policy})
        announce(request, chosen, [policy], notes)
    with show_progress(request.log, progress) as callbacks:
        request = replace(request, execution=replace(request.execution, **callbacks._asdict()))
        with convert_evaluator_errors(chosen, request), request.report_damage():
            estimate = run_evaluator(chosen, request)
    if split is not None:
        estimate, notes = split.complete(estimate, ""), (*notes, *split.notes())
    logged = find_baseline(request, {request.policy_name: estimate})
    if logged is not None:
        estimate = with_lift(estimate, logged, request)
    return replace(estimate, notes=(*horizon_notes, *notes, *estimate.notes))


def find_baseline(request: EvaluationRequest, estimates: Mapping[str, Estimate]) -> Estimate | None:
    """Return the mean of the logged rewards; None if the run was stopped and finding it takes a pass over a stream."""
    stopped = not estimates or any(is_partial(estimate.notes) for estimate in estimates.values())
    if stopped and isinstance(request.log, LogStream):
        return None
    return within_reward_range(logged_baseline(request), request.log.reward_range)


def with_lift(estimate: Estimate, logged: Estimate, request: EvaluationRequest) -> Estimate:
    """Return the estimate with its lift over the mean of the logged rewards, if it estimates a mean reward.

    The lift has a standard error only if the estimate has one.
    """
    interval = estimate.interval
    other_quantity = interval is not None and interval.estimand not in MEAN_REWARDS
    if other_quantity or not math.isfinite(estimate.std_error) or not math.isfinite(logged.std_error):
        return estimate
    policy, level = comparand(estimate.policy, estimate, request.log), request.level
    precision = lift_precision(estimate, logged, request.log)
    lift = make_lift(policy, Comparand(LOGGED, logged), precision, level, level, request.log)
    return replace(estimate, lift=lift)


def run_evaluator(evaluator: Evaluator, request: EvaluationRequest) -> Estimate:
    """Return the estimate of a complete request, on segments if these are its interval."""
    if isinstance(request.interval, ResultInterval):
        method, level = request.interval, request.level
        estimate = run_evaluator(evaluator, replace(request, interval=getattr(method, "uses", None)))
        return replace(estimate, interval=method.interval_from(estimate, level))
    if isinstance(request.interval, Segments):
        estimate = estimate_segments(evaluator, request, request.interval)
    else:
        returned: object = evaluator.estimate(request)
        if not isinstance(returned, Estimate):
            name = type(evaluator).__name__
            raise ContractError(f"{name}.estimate returned a {type(returned).__name__}; return a bc.Estimate")
        estimate = returned
    return complete_estimate(estimate, evaluator, request)


def convert_evaluator_errors(evaluator: object, request: EvaluationRequest) -> AbstractContextManager[None]:
    """Return a block in which what an evaluator or interval of a user raises becomes one error of ours."""
    for source, method, check in (
        (evaluator, "estimate", "check_evaluator"),
        (request.interval, "interval", "check_interval"),
    ):
        if source is not None and not is_built_in(source):
            return convert_errors(
                source, method, f"{request.log!r}", f"backcast.checks.{check} tests it on a small log"
            )
    return nullcontext()


def complete_estimate(estimate: Estimate, evaluator: Evaluator, request: EvaluationRequest) -> Estimate:
    """Return the estimate with further settings, its provenance, and computations that need the log again."""
    estimate = within_reward_range(estimate, request.log.reward_range)
    settings = {**estimate.settings, "learns": is_learning(request.policy)}
    if request.reward_model is not None:
        shape = getattr(request.reward_model, "shape", None)
        description = f"predictions given, {' by '.join(map(str, shape))}" if shape else describe(request.reward_model)
        settings["reward_model"] = description
    if request.plan is not None:
        settings |= {f"plan_{name}": value for name, value in request.plan._asdict().items() if value is not None}
    log = request.log
    if isinstance(log, LogStream):
        estimate = replace(estimate, settings=settings)
        return replace(estimate, provenance=find_provenance(estimate, evaluator, request))
    settings["reward_range"] = list(log.reward_bounds)
    # neither the log nor predictions for all of its events are kept alive by the estimate
    light = replace(request.without_log(), reward_model=None, horizon=estimate.horizon)

    def summarize(log: Log) -> ReplaySummary | None:
        return summarize_replay(evaluator, replace(light, log=log))

    estimate = replace(
        estimate,
        settings=settings,
        _progressive=estimate._progressive and estimate._progressive.with_log(log),
        _replay_summary=LogComputation(summarize, log, stored=True),
    )
    return replace(estimate, provenance=find_provenance(estimate, evaluator, request))


def used_reward_model(evaluator: object, request: EvaluationRequest) -> object:
    """Return the reward model of the request, or the default of a built-in evaluator; None if it uses none."""
    if request.reward_model is not None:
        return request.reward_model
    # by name, so that evaluators which are not used are not imported
    name = type(evaluator).__name__
    in_log_order = name in ("DRns", "WC") and request.replicates is None
    if in_log_order and isinstance(request.log, LogStream):
        return "running mean of the rewards"
    if in_log_order or name in ("StableVar", "CADR"):
        return Progressive(default_model(request.log))
    spec = getattr(evaluator, "spec", None)
    uses_model = name in ("ClockReplay", "DM", "DRns", "WC", "CAB", "MRDR") if spec is None else spec.model != "none"
    return CrossFit(default_model(request.log)) if uses_model else None


def find_provenance(estimate: Estimate, evaluator: Evaluator, request: EvaluationRequest) -> Provenance:
    """Return how an estimate was obtained."""
    log = request.log
    used = {
        "evaluator": evaluator,
        "reward_model": used_reward_model(evaluator, request),
        "horizon": estimate.horizon,
        "interval": request.interval,
        "level": request.level,
        "seed": request.seed,
        "replicates": request.replicates,
        **({"time_budget": request.plan.budget} if request.plan is not None else {}),
    }
    options = {name: describe_object(value) for name, value in used.items()}
    # where the evaluator chose, its choice is known by name
    if request.interval is None and estimate.interval is not None:
        options["interval"] = estimate.interval.method
    return Provenance(
        date=date_now(),
        log=log_shape(log),
        source=log.source,
        policy=describe_object(request.policy),
        arguments={name: describe_object(value) for name, value in request.arguments.items()},
        options=options,
        versions=package_versions(),
    )


def within_reward_range(estimate: Estimate, reward_range: tuple[float, float] | None) -> Estimate:
    """Return the estimate with value and interval moved into the declared reward range, which holds every true value.

    Weighted averages of few events may leave it. The nearest end of the range is never farther from the true value. A
    value that is part of a further average, such as that of a segment, is not moved. The interval is extended to hold
    the value: empirical likelihood and betting are not centred on it. One event without a declared range has no
    interval, because it shows no spread.
    """
    value, interval, notes = estimate.value, estimate.interval, estimate.notes
    after = estimate.after_learning
    if after is not None and reward_range is not None:
        estimate = replace(estimate, after_learning=after.within(*reward_range))
    if interval is not None and interval.estimand not in (FIXED_VALUE, POLICY_VALUE, PROGRESSIVE_VALUE):
        return estimate
    if reward_range is not None and not math.isnan(value):
        low, high = reward_range
        value = min(max(value, low), high)
        if interval is not None:
            interval = replace(interval, low=min(max(interval.low, low), high), high=min(max(interval.high, low), high))
        if value != estimate.value:
            notes += (
                f"The weighted average is {estimate.value:.4g}, outside the reward range {low:g} to {high:g}; the "
                "value is the nearest end of the range.",
            )
    elif estimate.diagnostics.events < 2:
        interval = None
    if interval is not None:
        interval = replace(interval, low=min(interval.low, value), high=max(interval.high, value))
    return replace(estimate, value=value, interval=interval, notes=notes)
