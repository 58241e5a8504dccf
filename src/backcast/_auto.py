"""What evaluator="auto" chooses: evaluator, reward model and replicates, by policy, log and cost."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from backcast._request import EvaluationRequest, Evaluator
from backcast.checks._drift import find_drift
from backcast.errors import DriftWarning, OptionError
from backcast.evaluators._disjoint_parts import FEWEST_PARTS, FEWEST_PASSES, number_of_parts
from backcast.evaluators.clock_replay import ClockReplay
from backcast.evaluators.drns import DRns
from backcast.io.stream import LogStream
from backcast.log import Log
from backcast.policies.base import batch_size_of, is_learning
from backcast.policies.compiled import CompiledPolicy
from backcast.policies.linear import LinearThompson
from backcast.reward_models.cross_fitting import CrossFit, Progressive, default_model
from backcast.reward_models.low_variance import LowVariance

Choice: TypeAlias = tuple[Any, EvaluationRequest, tuple[str, ...]]  # evaluator, completed request, notes

PASSES = 100  # passes of clock replay that must be affordable
COMPILED_LIMIT = 5e9  # events that a compiled policy may score in all
PYTHON_LIMIT = 1e9  # events that a Python policy may score in all
THOMPSON_COST = 3000  # its probabilities are integrals: tens of microseconds per event, not tens of nanoseconds


def resolve_evaluator(
    evaluator: Any, request: EvaluationRequest, policies: Sequence[Any], exchangeable: bool | None
) -> Choice:
    """Return the evaluator, the request completed for it, and for "auto" a sentence with the choice and its reason."""
    notes: tuple[str, ...] = ()
    if isinstance(evaluator, str) and evaluator == "auto":
        evaluator, request, notes = _choose_evaluator(request, policies, exchangeable)
    elif isinstance(evaluator, type) or not isinstance(evaluator, Evaluator):
        raise OptionError(f"evaluator is {evaluator!r}; give an evaluator such as DRns(q=0.01), or 'auto'")
    needs_exchangeable = getattr(evaluator, "needs_exchangeable", False)
    if exchangeable is False and needs_exchangeable:
        name = type(evaluator).__name__
        raise OptionError(f"{name} needs an exchangeable log, but exchangeable is False; use DRns")
    if request.replicates == "default":
        # others that can run passes compare policies on permutations of a log in memory that is given as exchangeable
        is_permuted = len(policies) > 1 and exchangeable and hasattr(evaluator, "run_jointly")
        is_permuted = is_permuted and isinstance(request.log, Log) and request.horizon is not None
        request = replace(request, replicates="auto" if needs_exchangeable or is_permuted else None)
    return evaluator, request, (*notes, *request.log.reading.notes())


def _choose_evaluator(request: EvaluationRequest, policies: Sequence[Any], exchangeable: bool | None) -> Choice:
    if not any(is_learning(policy) for policy in policies):
        from backcast.evaluators.doubly_robust import DR

        return DR(), request, ("auto chose cross-fitted DR, because the policy is fixed.",)
    if not isinstance(request.log, Log):
        return _choose_for_stream(request, policies, exchangeable)
    n_events = len(request.log)
    if not _is_exchangeable(request.log, exchangeable):
        progressive = request.reward_model is None
        request = replace(
            _with_model(request, Progressive(default_model(request.log))), replicates=None
        )  # they would permute the log
        model_note = "with a progressive reward model, " if progressive else ""
        reason = "as given" if exchangeable is False else "drift was detected"
        note = f"auto chose DRns in log order {model_note}because the log is not exchangeable ({reason})."
        return DRns.recommended(n_events), request, (note,)
    if request.horizon is None:
        note = "auto chose one pass of DRns(q=0.01), because no horizon was given; give horizon=T for V_T."
        return DRns(q=0.01), _with_model(request, Progressive(default_model(request.log))), (note,)
    kind = "joint" if request.log.has_action_features else "low-variance"
    model_note = f"with a cross-fitted {kind} reward model, " if request.reward_model is None else ""
    request = _with_model(request, _cross_fitted_model(request.log))
    if request.replicates == "default":
        request = replace(request, replicates="auto")
    events = min(n_events, ClockReplay().pool)
    if all(PASSES * events * _scorings_per_event(request, policy) <= _limit(policy) for policy in policies):
        note = f"auto chose ClockReplay {model_note}because {_why_exchangeable(exchangeable)}."
        return ClockReplay(), request, (note,)
    note = "auto chose DRns over permutations, because clock replay would take too long with this policy and log."
    return DRns.recommended(n_events), request, (note,)


def _choose_for_stream(request: EvaluationRequest, policies: Sequence[Any], exchangeable: bool | None) -> Choice:
    """Choose clock replay on as many parts as are affordable if the caller declared the log exchangeable, or DRns."""
    in_log_order = "auto chose DRns(q=0.01) in log order, because the log is a stream{}."
    if not (exchangeable and request.horizon is not None) or isinstance(request.log, Log):
        return DRns(q=0.01), request, (in_log_order.format(""),)
    request = replace(request, log=request.log.with_event_count())
    n_events = request.log.n_events or 0
    n_parts = number_of_parts(n_events, ClockReplay().pool)
    events = n_events / n_parts
    affordable = min(
        _limit(policy) / (FEWEST_PASSES * events * _scorings_per_event(request, policy)) for policy in policies
    )
    if affordable < 2 * FEWEST_PARTS and affordable < n_parts:
        note = in_log_order.format(" and clock replay would take too long with this policy")
        return DRns(q=0.01), request, (note,)
    evaluator = ClockReplay() if affordable >= n_parts else ClockReplay(parts=int(affordable))
    share = "" if evaluator.parts is None else f", {evaluator.parts} of {n_parts} to save time"
    note = f"auto chose ClockReplay on parts of the stream{share}, because {_why_exchangeable(True)}."
    return evaluator, _with_model(request, _cross_fitted_model(request.log)), (note,)


def _cross_fitted_model(log: Log | LogStream) -> CrossFit:
    # LowVariance has a regression for each action; actions with features are positions in a list
    return CrossFit(default_model(log) if log.has_action_features else LowVariance())


def _why_exchangeable(declared: bool | None) -> str:
    reason = "as given" if declared else "no drift was detected"
    return f"the log is exchangeable ({reason})"


def _is_exchangeable(log: Log, declared: bool | None) -> bool:
    """Return what the caller declared, or else whether no drift is detected; warn of drift unless it is declared."""
    if declared is False:
        return False
    drifting = find_drift(log).detected
    if drifting:
        warnings.warn(
            f"{' and '.join(drifting)} drift along the log, so its order may matter"
            + ("" if declared else "; it is evaluated in log order. Pass exchangeable=True to override this"),
            DriftWarning,
            stacklevel=5,  # the caller of evaluate or compare
        )
    return declared or not drifting


def _with_model(request: EvaluationRequest, model: Any) -> EvaluationRequest:
    return request if request.reward_model is not None else replace(request, reward_model=model)


def _scorings_per_event(request: EvaluationRequest, policy: Any) -> float:
    """How often a pass of clock replay scores each event, in units of the cost of a linear policy."""
    assert request.horizon is not None
    updates = request.horizon / batch_size_of(policy)
    return updates * THOMPSON_COST if isinstance(policy, LinearThompson) else updates


def _limit(policy: Any) -> float:
    return COMPILED_LIMIT if isinstance(policy, CompiledPolicy) else PYTHON_LIMIT
