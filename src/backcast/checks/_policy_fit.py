"""Does the log suit a policy? Support, effective sample size, largest weights, and the evaluator that fits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from backcast._arrays import FloatArray
from backcast._request import EvaluationRequest, check_is_policy
from backcast.checks._evidence import SURE, shortfall_evidence
from backcast.checks.findings import Finding, PolicyFit, Verdict, worst
from backcast.evaluators._weighted_events import weight_events
from backcast.policies.base import is_learning

if TYPE_CHECKING:
    from backcast.checks.log import LogFacts

SHOWN = 5


MUCH = 0.1  # of the policy's choices outside the log, or of all weight in one event


GOOD, POOR, HOPELESS = 1_000.0, 100.0, 10.0  # effective sample sizes


def fit_of(facts: LogFacts, policy: Any, drifts: bool) -> tuple[PolicyFit, tuple[Finding, ...]]:
    """How the log suits the policy, in figures and in findings."""
    check_is_policy(policy)
    weights = np.concatenate(
        [block.ratio for block in weight_events(EvaluationRequest(facts.log, policy), model=False)]
    )
    findings = policy_support(facts, weights), policy_overlap(facts, weights)
    ready = worst([finding.verdict for finding in findings])
    evaluator, reason = _evaluator(is_learning(policy), drifts or not facts.exchangeable, weights, ready)
    heaviest = np.argsort(-weights, kind="stable")[:SHOWN]
    fit = PolicyFit(
        policy=_name(policy),
        learning=is_learning(policy),
        effective_sample_size=effective_sample_size(weights),
        mean_weight=float(weights.mean()),
        largest_weights=tuple((int(facts.log._rows[k]), float(weights[k])) for k in heaviest),
        evaluator=evaluator,
        reason=reason,
    )
    return fit, findings


def effective_sample_size(weights: FloatArray) -> float:
    """``(sum w)^2 / sum w^2`` (Kish 1965).

    >>> effective_sample_size(np.array([1.0, 1.0, 0.0, 0.0]))
    2.0
    """
    total = float(weights.sum())
    return total**2 / float(np.square(weights).sum()) if total > 0 else 0.0


def policy_support(facts: LogFacts, weights: FloatArray) -> Finding:
    """The mean weight is 1 where the policy only does what the logger may do."""
    mean = float(weights.mean())
    if shortfall_evidence(weights, float(facts.n), max(float(weights.max()), 1.0)) < SURE:
        return Finding("policy_support", "ok", mean, f"the mean weight is {mean:.3g}")
    message = f"the mean weight is {mean:.3g}: {100 * (1 - mean):.0f} % of the policy's choices are not in the log"
    remedy = (
        "Estimates know of those choices only what a reward model says. Restrict the policy to what was explored, or "
        "explore what it does"
    )
    return Finding("policy_support", "fail" if 1 - mean > MUCH else "warn", mean, message, remedy)


def policy_overlap(facts: LogFacts, weights: FloatArray) -> Finding:
    """The log is worth enough events to this policy, and no event speaks for all."""
    size = effective_sample_size(weights)
    share = float(weights.max() / max(float(weights.sum()), 1e-300))
    message = f"the log is worth {size:,.0f} of its {facts.n:,} events to this policy"
    remedy = "Collect more events, explore closer to the policy, or lean on a reward model (DR, ShrinkageDR)"
    verdict: Verdict = "ok"
    if size < POOR or share > MUCH:
        verdict = "fail" if size < HOPELESS else "warn"
        message += f"; the largest weight has {100 * share:.0f} % of the sum"
    return Finding("policy_overlap", verdict, size, message, "" if verdict == "ok" else remedy)


def _evaluator(learning: bool, ordered: bool, weights: FloatArray, ready: Verdict) -> tuple[str, str]:
    """The evaluator that fits, as one would write it, and why."""
    if learning and ordered:
        return "DRns(q=0.01)", "the policy learns and the order of the log matters"
    if learning:
        return "ClockReplay()", "the policy learns and the log looks exchangeable"
    size = effective_sample_size(weights)
    if ready == "fail":
        return "DM()", "too little of the policy is in the log to weigh; all hangs on the reward model"
    if size < GOOD or size < 0.05 * weights.size:
        return "ShrinkageDR()", "few events carry the weight, so large weights are shrunk"
    return "DR()", "the log covers the policy well"


def _name(policy: object) -> str:
    # the default repr carries a memory address, which says nothing
    text = repr(policy)
    return type(policy).__name__ if " object at 0x" in text else text
