"""What "auto" means: the evaluator, reward model and replicates that fit the policy and the log, said in a sentence."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import stats

from backcast._request import EvaluationRequest, Evaluator
from backcast.errors import OptionError
from backcast.evaluators._disjoint_parts import FEWEST_PARTS, FEWEST_PASSES, number_of_parts
from backcast.evaluators.clock_replay import ClockReplay
from backcast.evaluators.drns import WC, DRns
from backcast.log import Log
from backcast.policies.base import batch_size_of, is_learning
from backcast.policies.compiled import CompiledPolicy
from backcast.policies.linear import LinearThompson
from backcast.reward_models.cross_fitting import CrossFit, Progressive
from backcast.reward_models.low_variance import LowVariance
from backcast.reward_models.regression import PerAction

SEGMENTS = 10


ALARM = 1e-6


PASSES = 100


COMPILED_LIMIT = 5e9


THOMPSON_COST = 3000  # its exact probabilities are integrals: tens of microseconds an event, not tens of nanoseconds


PYTHON_LIMIT = 1e9


class DriftWarning(UserWarning):
    """Propensities or rewards move along the log, so that its order may matter."""


def drift(log: Log) -> list[str]:
    """What moves along the log: its propensities, or the mean reward of its actions (one-way analysis of variance).

    Each test sounds a false alarm on an exchangeable log once in a million times.

    >>> steady = Log(None, [0, 1] * 50, [0.0, 1.0] * 50, [0.5] * 100)
    >>> drift(steady)
    []
    """
    if len(log) < 10 * SEGMENTS:
        return []
    segment = np.arange(len(log)) * SEGMENTS // len(log)
    found = []
    if _moves(np.log(log.propensities), segment):
        found.append("propensities")
    residual = log.rewards.copy()
    for action in np.unique(log.actions):
        chosen = log.actions == action
        residual[chosen] -= residual[chosen].mean()
    if _moves(residual, segment):
        found.append("rewards")
    return found


def _moves(column: Any, segment: Any) -> bool:
    parts = [column[segment == number] for number in range(SEGMENTS)]
    if max(part.std() for part in parts) == 0:
        return len({float(part.mean()) for part in parts}) > 1
    return bool(stats.f_oneway(*parts).pvalue < ALARM)


def resolve_evaluator(
    evaluator: Any, request: EvaluationRequest, policies: Sequence[Any], exchangeable: bool | None
) -> tuple[Any, EvaluationRequest, tuple[str, ...]]:
    """Return the evaluator that was given, or one that fits, the completed request, and notes that say why."""
    notes: tuple[str, ...] = ()
    if isinstance(evaluator, str) and evaluator == "auto":
        evaluator, request, notes = _chosen(request, policies, exchangeable)
    elif isinstance(evaluator, type) or not isinstance(evaluator, Evaluator):
        raise OptionError(f"evaluator is {evaluator!r}; give an evaluator such as DRns(q=0.01), or 'auto'")
    elif exchangeable is False and isinstance(evaluator, ClockReplay):
        raise OptionError("ClockReplay needs an exchangeable log and exchangeable=False was given; use DRns")
    if request.replicates == "default":
        # DRns compares several policies on permutations of a log in memory that is given as exchangeable
        is_permuted = len(policies) > 1 and exchangeable and isinstance(evaluator, DRns | WC)
        is_permuted = is_permuted and isinstance(request.log, Log) and request.horizon is not None
        request = replace(request, replicates="auto" if isinstance(evaluator, ClockReplay) or is_permuted else None)
    return evaluator, request, notes


def _chosen(
    request: EvaluationRequest, policies: Sequence[Any], exchangeable: bool | None
) -> tuple[Any, EvaluationRequest, tuple[str, ...]]:
    from backcast.evaluators.doubly_robust import DR

    if not any(is_learning(policy) for policy in policies):
        return DR(), request, ("auto chose cross-fitted DR, because the policy is fixed.",)
    if not isinstance(request.log, Log):
        return _for_stream(request, policies, exchangeable)
    if not _settled_exchangeable(request.log, exchangeable):
        return _in_log_order(request)
    if request.horizon is None:
        why = "auto chose one pass of DRns(q=0.01), because no horizon was given; give horizon=T for V_T."
        return DRns(q=0.01), _with_model(request, CrossFit(PerAction())), (why,)
    request = _with_model(request, CrossFit(LowVariance()))
    if _affordable(request, policies):
        why = "auto chose ClockReplay with a cross-fitted low-variance reward model, because the log is exchangeable."
        return ClockReplay(), _with_replicates(request), (why,)
    why = "auto chose DRns over permutations, because clock replay would take too long with this policy and log."
    return DRns.recommended(request.log.n_events or 0), _with_replicates(request), (why,)


def _for_stream(
    request: EvaluationRequest, policies: Sequence[Any], exchangeable: bool | None
) -> tuple[Any, EvaluationRequest, tuple[str, ...]]:
    """Clock replay in parts where the caller says that order means nothing, as many of them as can be afforded."""
    in_order = "auto chose DRns(q=0.01) in log order, because the log is a stream{}."
    if not (exchangeable and request.horizon is not None) or isinstance(request.log, Log):
        return DRns(q=0.01), request, (in_order.format(""),)
    request = replace(request, log=request.log.with_event_count())
    total = request.log.n_events or 0
    number = number_of_parts(total, ClockReplay().pool)
    events = total / number
    affordable = min(_limit(policy) / (FEWEST_PASSES * events * _updates(request, policy)) for policy in policies)
    if affordable < 2 * FEWEST_PARTS and affordable < number:
        return DRns(q=0.01), request, (in_order.format(" and clock replay would take too long with this policy"),)
    evaluator = ClockReplay() if affordable >= number else ClockReplay(parts=int(affordable))
    some = "" if evaluator.parts is None else f", {evaluator.parts} of {number} to save time"
    why = f"auto chose ClockReplay on parts of the stream{some}, because the log is exchangeable."
    return evaluator, _with_model(request, CrossFit(LowVariance())), (why,)


def _settled_exchangeable(log: Log, said: bool | None) -> bool:
    moving = drift(log)
    if moving and said is not False:
        warnings.warn(
            f"{' and '.join(moving)} drift along the log, so its order may matter"
            + ("" if said else "; it is evaluated in log order. Say exchangeable=True to overrule this"),
            DriftWarning,
            stacklevel=4,
        )
    return said if said is not None else not moving


def _in_log_order(request: EvaluationRequest) -> tuple[Any, EvaluationRequest, tuple[str, ...]]:
    why = "auto chose DRns in log order with a progressive reward model, because the log is not exchangeable."
    request = replace(request, replicates=None)  # they would permute the log
    return DRns.recommended(request.log.n_events or 0), _with_model(request, Progressive(PerAction())), (why,)


def _with_model(request: EvaluationRequest, model: Any) -> EvaluationRequest:
    return request if request.reward_model is not None else replace(request, reward_model=model)


def _with_replicates(request: EvaluationRequest) -> EvaluationRequest:
    return replace(request, replicates="auto") if request.replicates == "default" else request


def _affordable(request: EvaluationRequest, policies: Sequence[Any]) -> bool:
    events = min((request.log.n_events or 0), ClockReplay().pool)
    return all(PASSES * events * _updates(request, policy) <= _limit(policy) for policy in policies)


def _updates(request: EvaluationRequest, policy: Any) -> float:
    """How often a pass scores all its events, in units of what a linear policy takes."""
    assert request.horizon is not None
    updates = request.horizon / batch_size_of(policy)
    return updates * THOMPSON_COST if isinstance(policy, LinearThompson) else updates


def _limit(policy: Any) -> float:
    return COMPILED_LIMIT if isinstance(policy, CompiledPolicy) else PYTHON_LIMIT
