"""The summary of a result and its verdict."""

from __future__ import annotations

from typing import Any

import pytest

from backcast.errors import OptionError
from backcast.estimate import PROGRESSIVE_VALUE, Interval
from backcast.report._summary import summarize, verdict
from tests.support.reports import make_comparison, make_estimate, replay_diagnostics


class TestVerdict:
    def test_one_policy(self) -> None:
        words = verdict(summarize(make_estimate()))
        assert words.startswith("LinUCB(alpha=0.3) would have earned 0.080 per round (95 % interval 0.070 to 0.090).")

    def test_intervals_apart(self) -> None:
        words = verdict(summarize({"a": make_estimate(0.05), "b": make_estimate(0.08)}))
        assert "b has the highest estimate: 0.080" in words
        assert "b is better than a." in words

    def test_overlapping_intervals_decide_nothing(self) -> None:
        words = verdict(summarize({"a": make_estimate(0.07), "b": make_estimate(0.08), "c": make_estimate(0.075)}))
        assert "The log does not show whether b is better than c and a." in words

    def test_two_estimands_are_not_compared(self) -> None:
        other = Interval(0.01, 0.02, 0.95, "Theorem 2", "martingale", PROGRESSIVE_VALUE)
        words = verdict(summarize({"a": make_estimate(0.015, interval=other), "b": make_estimate()}))
        assert "The log does not show whether b is better than a." in words

    def test_no_interval_no_decision(self) -> None:
        words = verdict(summarize({"a": make_estimate(interval=None), "b": make_estimate(0.5)}))
        assert "does not show whether b is better than a" in words

    @pytest.mark.parametrize(
        ("low", "words"),
        [
            (
                0.001,
                "linucb is better than greedy: linucb minus greedy is 0.010 per round (95 % interval 0.001 to 0.050).",
            ),
            (-0.001, "The log does not show whether linucb is better than greedy."),
        ],
    )
    def test_paired_differences_decide_where_they_are_known(self, low: float, words: str) -> None:
        assert words in verdict(summarize(make_comparison(low)))

    def test_a_poor_diagnostic_is_named(self) -> None:
        words = verdict(summarize(make_estimate(diagnostics=replay_diagnostics(bias_mass=0.5))))
        assert "Do not rely on it (bias mass: acceptance probabilities were cut at 1 in many rounds)." in words


class TestSummary:
    def test_a_missing_value_comes_last(self) -> None:
        summary = summarize({"none": make_estimate(float("nan")), "some": make_estimate(0.1)})
        assert list(summary.estimates) == ["some", "none"]

    @pytest.mark.parametrize("result", [{}, [], None, {"a": 1.0}])
    def test_what_is_no_estimate_is_refused(self, result: Any) -> None:
        with pytest.raises(OptionError, match="report"):
            summarize(result)

    @pytest.mark.parametrize(
        ("name", "shown"),
        [("a\0", "a\\x00"), ("a\udcff", "a\\udcff"), ("\x1b[2J", "\\x1b[2J"), ("\u202eb\u2066", "\\u202eb\\u2066")],
    )
    def test_characters_that_no_file_can_hold_or_that_turn_the_text_are_written_out(
        self, name: str, shown: str
    ) -> None:
        assert summarize({name: make_estimate()}).best == shown
