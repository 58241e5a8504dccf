"""Guardrails: their grammar, what an interval says about a bound, and their part in the verdict."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import backcast as bc
from backcast.errors import OptionError
from backcast.guardrails import judge_side, parse_guardrail

N = 2000


def guarded_log() -> bc.Log:
    """Two actions: the second earns 0.4 more, and takes 10 ms more; both are logged equally often."""
    rng = np.random.default_rng(0)
    actions = rng.integers(2, size=N)
    rewards = (rng.random(N) < 0.3 + 0.4 * actions).astype(float)
    outcomes = {"ms": 20 + 10 * actions + rng.normal(size=N), "complaints": (rng.random(N) < 0.01).astype(float)}
    return bc.Log(None, actions, rewards, np.full(N, 0.5), reward_range=(0, 1), outcomes=outcomes)


LOG = guarded_log()
POLICIES: dict[str, Any] = {"second": bc.Fixed([0.0, 1.0]), "more of the second": bc.Fixed([0.4, 0.6])}


@pytest.mark.parametrize(
    ("text", "operator", "baseline", "margin", "is_share"),
    [
        ("ms < logged + 5", "<", "logged", 5.0, False),
        (" ms<=logged", "<=", "logged", 0.0, False),
        ("ms > logged - 2 %", ">", "logged", -0.02, True),
        ("ms >= 1e2", ">=", "", 100.0, False),
        ("ms < -.5", "<", "", -0.5, False),
    ],
)
def test_the_grammar(text: str, operator: str, baseline: str, margin: float, is_share: bool) -> None:
    parsed = parse_guardrail(text, ["m", "ms"], "logged")
    assert (parsed.outcome, parsed.operator, parsed.baseline) == ("ms", operator, baseline)
    assert (parsed.margin, parsed.is_share) == (margin, is_share)


@pytest.mark.parametrize(
    ("guardrails", "message"),
    [
        (["speed < 5"], "it must start with one of the log's outcomes"),
        (["ms = 5"], "after 'ms' comes one of"),
        (["ms < fast"], "the baseline, or a number"),
        (["ms < logged * 2"], "a margin such as"),
        (["ms < 5 %"], "the baseline, or a number"),
        ("ms < 5", "give a list of texts"),
        ([5], "give text such as"),
        (["ms < logged + 1e999"], "finite"),
        (["ms < 1e999"], "finite"),
    ],
)
def test_what_cannot_be_parsed_is_refused_before_any_work(guardrails: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        bc.compare(LOG, POLICIES, guardrails=guardrails)


def test_a_log_without_outcomes_has_no_guardrails() -> None:
    log = bc.Log(None, [0, 1], [0, 1], [0.5, 0.5])
    with pytest.raises(OptionError, match="name columns by outcomes="):
        bc.compare(log, POLICIES, guardrails=["ms < 5"])
    with pytest.raises(OptionError, match="leave baseline out"):
        bc.compare(LOG, POLICIES, baseline=None, guardrails=["ms < 5"])


@pytest.mark.parametrize(
    ("operator", "bound", "outcome"),
    [
        *(("<", 2.5, "met"), ("<", 2.0, "unclear"), ("<=", 2.0, "met"), ("<", 1.0, "contradicted")),
        *(("<=", 1.0, "unclear"), (">", 0.5, "met"), (">", 1.0, "unclear"), (">=", 1.0, "met")),
        *((">", 2.0, "contradicted"), (">=", 2.0, "unclear"), (">=", 3.0, "contradicted")),
    ],
)
def test_an_interval_from_1_to_2_and_a_bound(operator: str, bound: float, outcome: str) -> None:
    assert judge_side(1.0, 2.0, operator, bound) == outcome


def decided(guardrails: list[str]) -> tuple[bc.Comparison, dict[str, str]]:
    found = bc.compare(LOG, POLICIES, guardrails=guardrails)
    return found, dict(found.verdict.policies)


def test_a_policy_that_keeps_all_guardrails_is_better() -> None:
    found, decisions = decided(["ms < logged + 6", "complaints < 0.05", "ms < 31", "ms <= logged + 40 %"])
    assert {result.outcome for result in found.guardrails} == {"met"}
    assert (found.verdict.decision, found.verdict.policy) == ("better", "second")
    assert decisions == {"second": "better", "more of the second": "better"}


def test_one_that_breaks_a_guardrail_is_not_and_one_that_keeps_it_comes_first() -> None:
    found, decisions = decided(["ms < logged + 3"])
    assert [(result.policy, result.outcome) for result in found.guardrails] == [
        ("second", "contradicted"),
        ("more of the second", "met"),
    ]
    # the true difference is 5 ms
    verdict = found.verdict
    assert (verdict.decision, verdict.policy) == ("better", "more of the second")
    assert decisions["second"] == "worse"
    assert "second breaks the guardrail ms < logged + 3: ms minus logged lies between +4" in verdict.sentence


def test_one_that_is_not_shown_to_keep_a_guardrail_is_unclear() -> None:
    found, decisions = decided(["complaints < logged + 0.001"])
    assert {result.outcome for result in found.guardrails} == {"unclear"}
    assert set(decisions.values()) == {"unclear"}
    assert "second is not shown to keep the guardrail complaints < logged + 0.001" in found.verdict.sentence


def test_guardrails_of_an_estimate_that_is_poor_are_not_trustworthy() -> None:
    log = LOG[np.flatnonzero((LOG.actions == 0) | (np.arange(N) < 30))]
    found = bc.compare(log, {"second": bc.Fixed([0.0, 1.0])}, bc.IPS(), guardrails=["ms < 100"])
    assert found.guardrails[0].outcome == "not trustworthy"
    assert found.verdict.decision == "not trustworthy"


def test_intervals_of_outcomes_hold_together() -> None:
    found, _ = decided([])
    alone = bc.compare(bc.Log(None, LOG.actions, LOG.outcomes["ms"], LOG.propensities), {"second": POLICIES["second"]})
    joint = found.outcomes["ms"].lifts["second"].interval
    assert joint.half_width > 1.1 * alone.lifts["second"].interval.half_width
    assert found.outcomes["ms"].ranking == ()
