"""What evaluator="auto" chooses: evaluator, reward model and replicates, by policy, log and cost."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from backcast._parallel.jobs import Execution
from backcast._request import EvaluationRequest, Evaluator, PassPlan
from backcast._time_budget import CORES, default_budget, plan_for_log, plan_parts, update_cost
from backcast.checks._drift import find_drift
from backcast.errors import DriftWarning, HorizonNotReached, OptionError
from backcast.evaluators._disjoint_parts import number_of_parts
from backcast.evaluators._logged_rewards import LoggedMean
from backcast.evaluators.acceptance import Budget
from backcast.evaluators.clock_replay import ClockReplay
from backcast.evaluators.drns import WC, DRns, small_quantile
from backcast.io.stream import LogStream
from backcast.log import Log
from backcast.policies.base import LogPolicy, Policy, is_learning
from backcast.reward_models.cross_fitting import CrossFit, Progressive, default_model
from backcast.reward_models.low_variance import LowVariance

Choice: TypeAlias = tuple[Any, EvaluationRequest, tuple[str, ...]]  # evaluator, completed request, notes

AS_GIVEN, DRIFT = "as given", "drift was detected"
BASELINE_NOTE = "Lifts are over the mean reward of the whole log, along which its logger or rewards may have changed."
BUDGET = 0.1  # total variation allowed to a rule in log order
ACCEPTED_CERTIFICATE = 2 * BUDGET  # bias certificate up to which a rule is accepted; it is measured with noise
USELESS_CERTIFICATE = 0.5  # from here on reports grade the certificate as poor
LARGEST_EXCESS = 6  # times the budget that clock replay may take where it cannot be made shorter
PERMUTED_SCORINGS = 100  # scorings of an event by DRns over permutations, with its subsets
OVER_BUDGET = "This is longer than the time budget of {:.3g} seconds: fewer events or passes would not be accurate."


class Order(NamedTuple):
    """Whether the order of a log is irrelevant (None: not known, for a stream), and the reason in words."""

    exchangeable: bool | None
    reason: str


def resolve_evaluator(
    evaluator: Any, request: EvaluationRequest, policies: Sequence[Any], exchangeable: bool | None
) -> Choice:
    """Return the evaluator, the request completed for it, and for "auto" a sentence with the choice and its reason."""
    if isinstance(evaluator, str) and evaluator == "auto":
        order = _find_order(request.log, exchangeable)
        return _with_replicates(_choose_evaluator(request, policies, order), policies, exchangeable)
    if isinstance(evaluator, type) or not isinstance(evaluator, Evaluator):
        raise OptionError(f"evaluator is {evaluator!r}; give an evaluator such as DRns(q=0.01), or 'auto'")
    if exchangeable is False and getattr(evaluator, "needs_exchangeable", False):
        name = type(evaluator).__name__
        raise OptionError(f"{name} needs an exchangeable log, but exchangeable is False; use DRns")
    choice: Choice = evaluator, request, ()
    # the default budget is for what "auto" chooses: an evaluator that is given does what its options say
    if isinstance(evaluator, ClockReplay) and request.time_budget != "default":
        choice = _within_budget(evaluator, request, policies)
    return _with_replicates(choice, policies, exchangeable)


def resolve_by_kind(
    evaluator: Any,
    request: EvaluationRequest,
    learners: Sequence[Any],
    fixed: Sequence[Any],
    exchangeable: bool | None,
) -> tuple[Choice, Choice]:
    """Return the choice for learning policies, and that of "auto" for fixed ones on the same log, as if alone."""
    if simulates_histories(evaluator):
        for_learners = resolve_evaluator(evaluator, request, [*learners, *fixed], exchangeable)
        return for_learners, resolve_as_fixed(evaluator, request, fixed, exchangeable)
    order = _find_order(request.log, exchangeable)
    for_learners = _choose_evaluator(request, learners, order)
    return _with_replicates(for_learners, learners, exchangeable), _choose_for_fixed(request, fixed, order)


def simulates_histories(evaluator: object) -> bool:
    """Return whether an evaluator simulates histories of the policy, as DRns, WC, RS, Replay and ClockReplay do."""
    return not isinstance(evaluator, type) and (hasattr(evaluator, "plan_replay") or hasattr(evaluator, "run_jointly"))


def resolve_as_fixed(
    evaluator: Any, request: EvaluationRequest, policies: Sequence[Any], exchangeable: bool | None
) -> Choice:
    """Return what "auto" chooses for fixed policies of a comparison whose evaluator simulates histories.

    Histories would only add noise to the value of a policy that does not learn.
    """
    resolve_evaluator(evaluator, request, policies, exchangeable)  # raises if it does not fit the log
    # an evaluator that needs an exchangeable log is given for one
    declared = True if exchangeable is None and getattr(evaluator, "needs_exchangeable", False) else exchangeable
    chosen, completed, notes = _choose_for_fixed(request, policies, _find_order(request.log, declared))
    note = f"{evaluator.name} simulates policies that learn; fixed policies are evaluated as fixed policies."
    return chosen, replace(completed, replicates=None), (note, *notes)


def _with_replicates(choice: Choice, policies: Sequence[Any], exchangeable: bool | None) -> Choice:
    """Return the choice with "default" replicates resolved."""
    evaluator, request, notes = choice
    if request.replicates == "default":
        # others that can run passes compare policies on permutations of a log in memory that is given as exchangeable
        is_permuted = len(policies) > 1 and exchangeable and hasattr(evaluator, "run_jointly")
        is_permuted = is_permuted and isinstance(request.log, Log) and request.horizon is not None
        needs_exchangeable = getattr(evaluator, "needs_exchangeable", False)
        request = replace(request, replicates="auto" if needs_exchangeable or is_permuted else None)
    return evaluator, request, (*notes, *request.log.reading.notes())


def _choose_evaluator(request: EvaluationRequest, policies: Sequence[Any], order: Order) -> Choice:
    if not any(is_learning(policy) for policy in policies):
        return _choose_for_fixed(request, policies, order)
    log = request.log
    if not isinstance(log, Log):
        return _choose_for_stream(request, policies, order)
    if not order.exchangeable:
        return _choose_in_log_order(request, policies, order)
    if request.horizon is None:
        evaluator = DRns(q=small_quantile(len(log)))
        note = f"auto chose one pass of {evaluator.name}, because no horizon was given; give horizon=T for V_T."
        return evaluator, _with_model(request, Progressive(default_model(request.log))), (note,)
    kind = "joint" if request.log.has_action_features else "low-variance"
    model_note = f"with a cross-fitted {kind} reward model, " if request.reward_model is None else ""
    request = _with_model(request, _cross_fitted_model(request.log))
    if request.replicates == "default":
        request = replace(request, replicates="auto")
    evaluator, planned, budget_notes = _within_budget(ClockReplay(), request, policies)
    if planned.plan is not None and _takes_too_long(planned.plan, request, policies):
        note = "auto chose DRns over permutations, because clock replay would take too long with this policy and log."
        return DRns.recommended(len(log)), request, (note,)
    note = f"auto chose ClockReplay {model_note}because the log is taken as exchangeable ({order.reason})."
    return evaluator, planned, (note, *budget_notes)


def _within_budget(evaluator: ClockReplay, request: EvaluationRequest, policies: Sequence[Any]) -> Choice:
    """Return clock replay with the events, passes and readings that the time budget allows, and what that means."""
    log, horizon, budget = request.log, request.horizon, request.time_budget
    learners = [policy for policy in policies if is_learning(policy)]
    if budget is None or horizon is None or not learners:
        return evaluator, request, ()
    if not isinstance(log, Log):
        log = log.with_event_count()
    seconds = default_budget(log.n_events or 0) if isinstance(budget, str) else float(budget)
    most, n_readings = evaluator.pool, len(request.readings)
    if isinstance(log, Log):
        passes = request.replicates if isinstance(request.replicates, int) else None
        plan = plan_for_log(seconds, log, learners, horizon, most, passes, n_readings)
        whole = min(len(log), most)
    else:
        plan, whole = plan_parts(seconds, log, learners, horizon, most, n_readings), most
    chosen = replace(
        evaluator,
        pool=most if plan.pool == whole else plan.pool,
        reading_interval=max(plan.reading_interval, evaluator.reading_interval),
        parts=evaluator.parts or plan.parts,
    )
    return chosen, replace(request, log=log, time_budget=seconds, plan=plan), _notes_on_plan(plan, whole)


def _notes_on_plan(plan: PassPlan, whole: int) -> tuple[str, ...]:
    """Return what a budget reduced, in a sentence; nothing if passes are over as many events as without a budget."""
    work = f"{plan.passes} passes over {plan.pool:,} events each"
    if plan.parts is not None:
        work = f"{plan.parts} parts of the stream, at most {plan.pool:,} events each,"
    time = f"about {plan.seconds:.2g} seconds on {CORES} cores"
    if plan.seconds > plan.budget:
        return (f"{work} take {time}. {OVER_BUDGET.format(plan.budget)}",)
    if plan.pool == whole and plan.parts is None:
        return ()
    return (f"The time budget of {plan.budget:.3g} seconds allows {work}, {time}; more time makes the error smaller.",)


def _takes_too_long(plan: PassPlan, request: EvaluationRequest, policies: Sequence[Any]) -> bool:
    """Return whether clock replay takes far longer than the budget and than DRns over permutations, which would do."""
    log, horizon = request.log, request.horizon
    if isinstance(log, Log) and horizon is not None:
        # its multiplier is at least the quantile of the propensities, and so is the share of events that it accepts
        share = float(np.quantile(log.columns.propensities, small_quantile(len(log))))
        if horizon > share * len(log):
            return False
    scoring = 1e-9 * sum(update_cost(policy, log.n_actions, log.n_features, is_shared=True) for policy in policies)
    permuted = PERMUTED_SCORINGS * (log.n_events or 0) * scoring / CORES
    return plan.seconds > max(LARGEST_EXCESS * plan.budget, permuted)


def _choose_for_fixed(request: EvaluationRequest, policies: Sequence[Any], order: Order) -> Choice:
    """Choose DR, or if the order matters an evaluator whose weights and predictions depend on earlier events only."""
    if all(getattr(policy, "repeats_log", False) for policy in policies):
        note = "auto chose the mean of the logged rewards, because the policy is the logger itself."
        return LoggedMean(), request, (note,)
    if order.exchangeable is not False:
        from backcast.evaluators.doubly_robust import DR

        return DR(), request, ("auto chose cross-fitted DR, because the policy is fixed.",)
    from backcast.evaluators.adaptive_loggers import CADR, StableVar

    first, _ = request.log.split_head(1)
    has_tables = all(isinstance(policy, Policy | LogPolicy) for policy in policies)
    has_tables = has_tables and first.columns.logging_probabilities is not None
    evaluator = StableVar() if has_tables else CADR()
    model_note = "with a progressive reward model, " if request.reward_model is None else ""
    note = f"auto chose {evaluator.name} {model_note}because the log is not exchangeable ({order.reason})."
    notes: tuple[str, ...] = (note, BASELINE_NOTE)
    if order.reason == DRIFT:
        notes += ("If rewards drift, the value is a mean over the time of the log, weighted by precision.",)
    return evaluator, request, notes


def _choose_in_log_order(request: EvaluationRequest, policies: Sequence[Any], order: Order) -> Choice:
    """Choose the first acceptance rule whose bias certificate is small, from the most to the fewest accepted events.

    The certificate does not depend on the reward model, so the trial passes use none. If no rule is certified at this
    horizon, the note states one that the log supports.
    """
    assert isinstance(request.log, Log)
    n_events = len(request.log)
    model_note = "with a progressive reward model, " if request.reward_model is None else ""
    why = f"in log order {model_note}because the log is not exchangeable ({order.reason})"
    completed = replace(
        _with_model(request, Progressive(default_model(request.log))), replicates=None
    )  # they would permute the log
    recommended = DRns.recommended(n_events)
    if request.horizon is None:
        return recommended, completed, (f"auto chose {recommended.name} {why}.", BASELINE_NOTE)
    budget = DRns(acceptance=Budget(BUDGET, calibration=max(1, min(1000, n_events // 10))))
    certificates: dict[DRns | WC, float] = {}
    for evaluator in (recommended, budget, WC()):
        certificates[evaluator] = _largest_certificate(evaluator, request, policies)
        if certificates[evaluator] <= ACCEPTED_CERTIFICATE:
            break
    chosen = min(
        certificates, key=lambda evaluator: (certificates[evaluator] > ACCEPTED_CERTIFICATE, certificates[evaluator])
    )
    note = f"auto chose {chosen.name} {why}"
    if chosen is not recommended and math.isfinite(certificates[recommended]):
        note += f"; with {recommended.name} the bias certificate would be {certificates[recommended]:.3g}"
    if certificates[chosen] < USELESS_CERTIFICATE:
        return chosen, completed, (f"{note}.", BASELINE_NOTE)
    supported = _supported_horizon(request, policies, (budget, WC()))
    remedy = f"; this log supports a horizon of about {supported} rounds in log order" if supported else ""
    if math.isinf(certificates[chosen]):
        raise HorizonNotReached(
            f"no trajectory of {request.horizon} rounds could be built in log order from {n_events:,} events{remedy}. "
            "Ask for a shorter horizon, or give a longer log; exchangeable=True allows other orders"
        )
    shortfall = f"No acceptance rule has a small bias at a horizon of {request.horizon} rounds{remedy}."
    return chosen, completed, (f"{note}.", shortfall, BASELINE_NOTE)


def _largest_certificate(evaluator: DRns | WC, request: EvaluationRequest, policies: Sequence[Any]) -> float:
    """Return the largest bias certificate of the policies; infinite if one of them does not reach the horizon."""
    trial = replace(request, reward_model=0.0, replicates=None, interval=None, execution=Execution())
    try:
        estimates = [evaluator.estimate_value(replace(trial, policy=policy), with_bias=False) for policy in policies]
    except HorizonNotReached:
        return math.inf
    return float(max(estimate.diagnostics.bias_certificate for estimate in estimates))


def _supported_horizon(request: EvaluationRequest, policies: Sequence[Any], evaluators: Sequence[Any]) -> int | None:
    """Return the horizon, shortened by steps of 0.7 until an evaluator has a small certificate; None if none has."""
    assert request.horizon is not None
    horizon = 7 * request.horizon // 10
    while horizon >= 1:
        shorter = replace(request, horizon=horizon)
        if any(_largest_certificate(each, shorter, policies) <= ACCEPTED_CERTIFICATE for each in evaluators):
            return horizon
        horizon = 7 * horizon // 10
    return None


def _choose_for_stream(request: EvaluationRequest, policies: Sequence[Any], order: Order) -> Choice:
    """Choose clock replay on as many parts as are affordable if the caller declared the log exchangeable, or DRns."""
    assert isinstance(request.log, LogStream)
    request = replace(request, log=request.log.with_event_count())  # the quantile depends on it
    n_events = request.log.n_events or 0
    in_order = DRns(q=small_quantile(n_events))
    in_log_order = f"auto chose {in_order.name} in log order, because the log is a stream{{}}."
    if not (order.exchangeable and request.horizon is not None):
        return in_order, request, (in_log_order.format(""),)
    evaluator, planned, budget_notes = _within_budget(ClockReplay(), request, policies)
    if planned.plan is not None and _takes_too_long(planned.plan, request, policies):
        return in_order, request, (in_log_order.format(" and clock replay would take too long with this policy"),)
    number = number_of_parts(n_events, evaluator.pool)
    share = "" if evaluator.parts is None else f", {evaluator.parts} of {number} to save time"
    reason = f"the log is taken as exchangeable ({order.reason})"
    note = f"auto chose ClockReplay on parts of the stream{share}, because {reason}."
    return evaluator, _with_model(planned, _cross_fitted_model(request.log)), (note, *budget_notes)


def _cross_fitted_model(log: Log | LogStream) -> CrossFit:
    # LowVariance has a regression for each action; actions with features are positions in a list
    return CrossFit(default_model(log) if log.has_action_features else LowVariance())


def _find_order(log: Log | LogStream, declared: bool | None) -> Order:
    """Return what the caller declared, or else whether no drift is detected; warn of drift unless it is declared."""
    if declared is False or not isinstance(log, Log):
        return Order(declared, AS_GIVEN)
    drifting = find_drift(log).detected
    if drifting:
        warnings.warn(
            f"{' and '.join(drifting)} drift along the log, so its order may matter"
            + ("" if declared else "; it is evaluated in log order. Pass exchangeable=True to override this"),
            DriftWarning,
            stacklevel=4,  # the caller of evaluate or compare
        )
    if declared:
        return Order(True, f"{AS_GIVEN}, although {DRIFT}" if drifting else AS_GIVEN)
    return Order(False, DRIFT) if drifting else Order(True, "no drift was detected")


def _with_model(request: EvaluationRequest, model: Any) -> EvaluationRequest:
    return request if request.reward_model is not None else replace(request, reward_model=model)
