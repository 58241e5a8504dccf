"""Grades of estimates by their diagnostics."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backcast.diagnostics import ModelDiagnostics, PartsDiagnostics, WeightDiagnostics
from backcast.grading import KNOWN, bias_bound, grade, grade_diagnostics
from tests.support.reports import clock_diagnostics, make_estimate, permuted_diagnostics, replay_diagnostics


class TestGrades:
    def test_every_diagnostic_of_every_kind_is_explained(self) -> None:
        fixed = (WeightDiagnostics(1, 1.0, 1.0, 1.0), ModelDiagnostics(1, 1, 1))
        parts = PartsDiagnostics(1, 1, 10, 2, 0.0, 0.1, 0.1)
        kinds = (replay_diagnostics(), clock_diagnostics(), permuted_diagnostics(), parts, *fixed)
        assert {name for kind in kinds for name in kind.to_dict()} == set(KNOWN)

    @pytest.mark.parametrize(
        ("changes", "expected", "reason"),
        [
            ({}, "good", None),
            ({"bias_certificate": 0.003}, "fair", "bias certificate: a relevant bias is not ruled out"),
            ({"bias_certificate": 0.4}, "fair", "bias certificate: a relevant bias is not ruled out"),
            ({"bias_certificate": 0.5}, "poor", "bias certificate: too large to certify anything"),
            ({"bias_certificate": 3.0}, "poor", "bias certificate: no guarantee"),
            ({"bias_mass": 0.05}, "fair", "bias mass: acceptance probabilities were cut at 1 in some rounds"),
            ({"bias_mass": 0.5}, "poor", "bias mass: acceptance probabilities were cut at 1 in many rounds"),
            ({"effective_sample_size": 20.0}, "poor", "effective sample size: very few events carry the estimate"),
            ({"effective_sample_size": 200.0}, "fair", "effective sample size: few events carry the estimate"),
            ({"effective_sample_size": 298.0, "events": 300}, "good", None),
            (
                {"effective_sample_size": 24.0, "events": 25},
                "poor",
                "effective sample size: the log has only 25 events",
            ),
            # 10,000 events, 2,210 effective: the standard error of the mean weight is 0.019, with 9,000 it is 0.0033
            ({"mean_weight": 0.95}, "good", None),
            ({"mean_weight": 0.95, "effective_sample_size": 9000.0}, "fair", "mean weight: not close to 1"),
            ({"mean_weight": 0.85, "effective_sample_size": 9000.0}, "poor", "mean weight: far from 1"),
            ({"mean_weight": 0.5, "effective_sample_size": 20.0}, "poor", "effective sample size: very few events"),
            ({"mean_weight": 0.5}, "poor", "mean weight: far from 1"),
            ({"trajectories_failed": 2}, "fair", "failed trajectories: some"),
            ({"propensities_estimated": True}, "fair", "propensities estimated: the estimate depends"),
            ({"bias_certificate": float("nan")}, "good", None),
        ],
    )
    def test_the_worst_diagnostic_decides(self, changes: dict[str, Any], expected: str, reason: str | None) -> None:
        reliability = grade(make_estimate(diagnostics=replay_diagnostics(**changes)))
        assert reliability.grade == expected
        assert [r.startswith(str(reason)) for r in reliability.reasons] == ([True] if reason else [])

    @pytest.mark.parametrize("facts", [clock_diagnostics, permuted_diagnostics], ids=["clock", "permuted"])
    @pytest.mark.parametrize(
        ("changes", "expected", "reason"),
        [
            ({}, "good", None),
            ({"bias_certificate": 0.0025}, "good", None),
            ({"bias_certificate": 0.05}, "fair", "bias certificate: a relevant bias is not ruled out"),
            ({"bias_certificate": 0.9}, "poor", "bias certificate: too large to certify anything"),
            ({"monte_carlo_error": 0.003}, "fair", "Monte-Carlo error: not small"),
            ({"sampling_error": float("nan")}, "good", None),
            ({"propensities_estimated": True}, "fair", "propensities estimated: the estimate depends"),
        ],
    )
    def test_replicated_evaluators_are_judged(
        self, facts: Any, changes: dict[str, Any], expected: str, reason: str | None
    ) -> None:
        reliability = grade(make_estimate(diagnostics=facts(**changes)))
        assert reliability.grade == expected
        assert [r.startswith(str(reason)) for r in reliability.reasons] == ([True] if reason else [])

    @pytest.mark.parametrize(
        ("number", "expected", "reasons", "next_step"),
        [
            (float("nan"), "good", (), ""),
            (100.0, "good", (), ""),
            (99.0, "fair", ("effective events: few events carry the standard error",), ""),
            (30.0, "fair", ("effective events: few events carry the standard error",), ""),
            (
                25.0,
                "poor",
                ("effective events: very few events carry the standard error, which is then often too small",),
                "Needs about 4,000 events like these.",
            ),
        ],
    )
    def test_a_standard_error_of_few_events_carries_no_decision(
        self, number: float, expected: str, reasons: tuple[str, ...], next_step: str
    ) -> None:
        facts = clock_diagnostics(effective_events=number, events=1_000)
        reliability = grade(make_estimate(diagnostics=facts))
        assert (reliability.grade, reliability.reasons, reliability.next_step) == (expected, reasons, next_step)

    @pytest.mark.parametrize(
        ("certificate", "words"),
        [(0.0, "nothing was cut off"), (0.01, "negligible"), (0.02, "a relevant bias is not ruled out")],
    )
    def test_without_a_known_range_a_hundredth_is_the_limit(self, certificate: float, words: str) -> None:
        facts = grade_diagnostics(
            make_estimate(diagnostics=clock_diagnostics(bias_certificate=certificate), settings={})
        )
        assert [fact.judgement for fact in facts if fact.name == "bias certificate"] == [words]

    # Laws of the judgement: the same question at another scale is judged alike, and more is never judged better.
    @given(st.floats(0, 2), st.floats(0, 2), st.floats(1e-4, 1), st.sampled_from([0.25, 1.0, 4.0]))
    def test_a_larger_certificate_is_never_judged_better(
        self, first: float, other: float, error: float, width: float
    ) -> None:
        def grade(certificate: float, scale: float = 1.0) -> int:
            settings = {"reward_range": [0.0, scale * width]}
            facts = clock_diagnostics(bias_certificate=certificate)
            estimate = make_estimate(diagnostics=facts, std_error=scale * error, settings=settings)
            [fact] = [fact for fact in grade_diagnostics(estimate) if fact.name == "bias certificate"]
            return ["good", "fair", "poor"].index(fact.grade)

        assert grade(min(first, other)) <= grade(max(first, other))
        assert grade(first) == grade(first, scale=8.0)
        assert grade(max(first, 0.5)) == 2
        assert grade(max(first, 0.051)) > 0

    def test_the_bias_is_at_most_the_certificate_times_the_range(self) -> None:
        wide = {"reward_range": [-1.0, 3.0]}
        assert bias_bound(make_estimate(diagnostics=clock_diagnostics(bias_certificate=0.25), settings=wide)) == 1.0
        # values within a range never differ by more than its width
        assert bias_bound(make_estimate(diagnostics=clock_diagnostics(bias_certificate=9.0), settings=wide)) == 4.0

    def test_a_diagnostic_not_known_here_is_still_shown(self) -> None:
        class UserDiagnostics:
            events = 3

            def to_dict(self) -> dict[str, Any]:
                return {"events": 3, "user_figure": 0.5}

        assert [(f.name, f.figure) for f in grade_diagnostics(make_estimate(diagnostics=UserDiagnostics()))][1] == (
            "user figure",
            "0.5",
        )
