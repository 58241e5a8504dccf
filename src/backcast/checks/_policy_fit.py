"""How well a log suits a policy: support, effective sample size, largest weights, recommended evaluator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from backcast._arrays import FloatArray
from backcast._request import EvaluationRequest, check_is_policy
from backcast.checks._evidence import SURE, shortfall_evidence
from backcast.checks.findings import Finding, PolicyFit, Verdict, worst_verdict
from backcast.diagnostics import effective_sample_size
from backcast.evaluators._weighted_events import weight_events
from backcast.policies._calls import describe
from backcast.policies.base import is_learning

if TYPE_CHECKING:
    from backcast.checks.log import LogFacts

WEIGHTS_SHOWN = 5
LARGE_SHARE = 0.1  # of the policy's choices outside the log, or of the sum of weights in one event
GOOD, POOR, HOPELESS = 1_000.0, 100.0, 10.0  # effective sample sizes


def fit_policy(facts: LogFacts, policy: Any, *, in_log_order: bool) -> tuple[PolicyFit, tuple[Finding, ...]]:
    """Return how well the log suits the policy, as numbers and as findings."""
    check_is_policy(policy)
    weighted = weight_events(EvaluationRequest(facts.log, policy), uses_model=False)
    weights = np.concatenate([block.ratio for block in weighted.blocks()])
    size = effective_sample_size(float(weights.sum()), float(np.square(weights).sum()))
    findings = policy_support(facts, weights), policy_overlap(facts, weights, size)
    well_covered = size >= max(GOOD, 0.05 * facts.n)
    evaluator, reason = _recommend_evaluator(is_learning(policy), in_log_order, well_covered, worst_verdict(findings))
    fit = PolicyFit(
        policy=describe(policy),
        learning=is_learning(policy),
        effective_sample_size=size,
        mean_weight=float(weights.mean()),
        largest_weights=tuple(
            (int(facts.log.columns.rows[k]), float(weights[k]))
            for k in np.argsort(-weights, kind="stable")[:WEIGHTS_SHOWN]
        ),
        evaluator=evaluator,
        reason=reason,
    )
    return fit, findings


def policy_support(facts: LogFacts, weights: FloatArray) -> Finding:
    """Check that the mean weight is 1: the policy takes only actions that the logger may take."""
    mean = float(weights.mean())
    if shortfall_evidence(weights, float(facts.n), max(float(weights.max()), 1.0)) < SURE:
        return Finding("policy_support", "ok", mean, f"the mean weight is {mean:.3g}")
    message = f"the mean weight is {mean:.3g}: {100 * (1 - mean):.0f} % of the policy's choices are not in the log"
    remedy = (
        "Estimates for those choices rest on the reward model alone. Restrict the policy to actions that were "
        "explored, or explore those that it takes"
    )
    return Finding("policy_support", "fail" if 1 - mean > LARGE_SHARE else "warn", mean, message, remedy)


def policy_overlap(facts: LogFacts, weights: FloatArray, size: float) -> Finding:
    """Check that the effective sample size is large enough, and that no single event dominates."""
    share = float(weights.max() / max(float(weights.sum()), 1e-300))
    message = f"the log is worth {size:,.0f} of its {facts.n:,} events for this policy"
    if size >= POOR and share <= LARGE_SHARE:
        return Finding("policy_overlap", "ok", size, message)
    verdict: Verdict = "fail" if size < HOPELESS else "warn"
    message += f"; the largest weight has {100 * share:.0f} % of the sum"
    remedy = "Collect more events, explore closer to the policy, or rely on a reward model (DR, ShrinkageDR)"
    return Finding("policy_overlap", verdict, size, message, remedy)


def _recommend_evaluator(learning: bool, in_log_order: bool, well_covered: bool, verdict: Verdict) -> tuple[str, str]:
    """Return the recommended evaluator, written as Python code, and the reason."""
    if learning and in_log_order:
        return "DRns(q=0.01)", "the policy learns and the order of the log matters"
    if learning:
        return "ClockReplay()", "the policy learns and the log looks exchangeable"
    if verdict == "fail":
        return "DM()", "too little of the policy is in the log for weighting; the estimate rests on the reward model"
    if not well_covered:
        return "ShrinkageDR()", "few events have most of the weight, so large weights are shrunk"
    return "DR()", "the log covers the policy well"
