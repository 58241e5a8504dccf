"""Text and tables show the numbers of the estimates."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from backcast._format import format_number, format_percent, join_names
from backcast.diagnostics import ModelDiagnostics
from backcast.errors import printable
from backcast.report._summary import summarize
from backcast.report.text import differences_table, estimate_text, estimates_table
from tests.support.reports import clock_diagnostics, make_comparison, make_estimate, permuted_diagnostics


def terminal_text(thing: Any) -> str:
    console = Console(width=100, no_color=True)
    with console.capture() as capture:
        console.print(thing)
    return capture.get()


def table_text(result: Any) -> str:
    return terminal_text(estimates_table(summarize(result)))


class TestFormat:
    @pytest.mark.parametrize(
        ("value", "text"),
        [
            (0.081249, "0.08125"),
            (12345.6, "12,346"),
            (float("nan"), "–"),
            (None, "–"),
            (float("inf"), "inf"),
            ("x", "x"),
        ],
    )
    def test_figures(self, value: Any, text: str) -> None:
        assert format_number(value) == text

    def test_percentages_keep_three_digits(self) -> None:
        assert (format_percent(0.43124), format_percent(float("nan"))) == ("43.1 %", "–")

    def test_one_name_is_not_joined(self) -> None:
        assert join_names(["a"]) == "a"

    @given(st.text())
    def test_text_on_one_line_has_nothing_a_terminal_obeys(self, text: str) -> None:
        shown = printable(text)
        assert shown.isprintable()


class TestText:
    def test_value_interval_and_reliability_are_shown(self) -> None:
        assert estimate_text(make_estimate(notes=("One run only.",))).splitlines() == [
            "LinUCB(alpha=0.3): 0.080 per round",
            "  interval    0.070 to 0.090 (95 %, 10 disjoint segments; assumes that events are independent draws)",
            "  estimand    the average reward per round that the policy earns, over its first 1,000 rounds",
            "  method      DRns(q=0.01), horizon 1,000, seed 7",
            "  accepted    4,312 of 10,000 events (43.1 %); 4 trajectories complete, 1 failed",
            "  weights     effective sample size 2,210 of 10,000 events; mean weight 1.002, largest 8.1",
            "  bias        certificate 0.002 (upper bound on the total variation from a live history)",
            "  reliability good",
            "  note        One run only.",
        ]

    def test_print_uses_it(self) -> None:
        assert str(make_estimate()) == estimate_text(make_estimate())

    def test_a_missing_interval_is_explained(self) -> None:
        assert "no valid interval is available" in estimate_text(make_estimate(interval=None))

    def test_direct_method_depends_on_the_model(self) -> None:
        text = estimate_text(make_estimate(diagnostics=ModelDiagnostics(100, 50, 1)))
        assert "reward model: the estimate depends on it alone" in text
        assert "accepted" not in text

    def test_clock_replay_shows_runs_and_errors_in_place_of_acceptance(self) -> None:
        estimate = make_estimate(diagnostics=clock_diagnostics(), evaluator="ClockReplay", std_error=0.0041)
        assert estimate_text(estimate).splitlines()[3:] == [
            "  method      ClockReplay, horizon 1,000, seed 7",
            "  runs        16 histories of 200 rounds from 8,000 events; 300 on subsets",
            "  error       0.0041: sampling 0.004, Monte-Carlo 0.001",
            "  bias        certificate 0.001 (upper bound on the total variation from a live history)",
            "  reliability good",
        ]

    def test_without_replicates_the_sampling_error_is_unknown(self) -> None:
        facts = permuted_diagnostics(replicates=0, sampling_error=float("nan"))
        text = estimate_text(make_estimate(diagnostics=facts, interval=None))
        assert "16 orders of 200 rounds from 8,000 events\n" in text
        assert "Monte-Carlo 0.001; sampling error unknown" in text

    def test_table_of_a_comparison_has_chances_and_one_of_differences(self) -> None:
        comparison = summarize(make_comparison(0.001))
        assert re.search(r"linucb .* 90 %", terminal_text(estimates_table(comparison)))
        assert re.search(r"linucb minus greedy +0\.010 +0\.001 to 0\.050", terminal_text(differences_table(comparison)))

    def test_table_has_no_column_of_acceptance_where_none_accepts(self) -> None:
        assert "accepted" in table_text(make_estimate())
        assert "accepted" not in table_text(make_estimate(diagnostics=clock_diagnostics()))

    def test_table_lists_the_best_first(self) -> None:
        table = table_text({"worse": make_estimate(0.05), "better": make_estimate(0.08)})
        assert table.index("better") < table.index("worse")
        assert "95 % interval" in table

    def test_table_shows_markup_in_names_as_it_is(self) -> None:
        assert "[red]x[/red]" in table_text({"[red]x[/red]": make_estimate()})
