"""Text, charts and pages show the numbers of the estimates, and labels stay text."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from backcast.checks import Finding, HealthReport
from backcast.comparison import Comparison, Difference
from backcast.diagnostics import (
    ClockDiagnostics,
    ModelDiagnostics,
    PartsDiagnostics,
    PermutedDiagnostics,
    ReplayDiagnostics,
    WeightDiagnostics,
)
from backcast.errors import OptionError, printable
from backcast.estimate import POLICY_VALUE, PROGRESSIVE_VALUE, Estimate, Interval, LearningCurve
from backcast.report._format import format_number, format_percent, join_names
from backcast.report._grading import KNOWN, bias_bound, grade, grade_diagnostics
from backcast.report._summary import summarize, verdict
from backcast.report.charts import COLOURS, curves_chart, differences_chart, plot_result, values_chart
from backcast.report.html import report_html, save_report
from backcast.report.text import differences_table, estimate_text, estimates_table

HOSTILE = [
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'; alert(1); //",
    "<!-- & --> &amp; {{ 7 * 7 }} {% raw %}",
    "line\u2028separator \u202eright to left",
]


def replay_diagnostics(**changes: Any) -> ReplayDiagnostics:
    facts = ReplayDiagnostics(
        events=10_000,
        accepted=4_312,
        acceptance_rate=0.4312,
        trajectories_complete=4,
        trajectories_failed=1,
        effective_sample_size=2210.0,
        mean_weight=1.002,
        largest_weight=8.1,
        bias_mass=0.0001,
        cut_share=0.002,
        bias_certificate=0.002,
        theorem_1=0.3,
        value_per_round=0.082,
    )
    return replace(facts, **changes)


def learning_curve(value: float) -> LearningCurve:
    rounds = np.arange(100, 1001, 100)
    values = value - 0.03 / np.arange(1, 11)
    return LearningCurve(rounds, values, values - 0.01, values + 0.01)


def make_estimate(value: float = 0.08, name: str = "LinUCB(alpha=0.3)", **changes: Any) -> Estimate:
    interval = Interval(value - 0.01, value + 0.01, 0.95, "10 disjoint segments", "independent", POLICY_VALUE)
    estimate = Estimate(
        value,
        0.005,
        interval,
        replay_diagnostics(),
        policy=name,
        evaluator="DRns(q=0.01)",
        curve=learning_curve(value),
        horizon=1000,
        settings={"seed": 7, "level": 0.95, "reward_range": [0.0, 1.0]},
    )
    return replace(estimate, **changes)


def make_comparison(low: float) -> Comparison:
    interval = Interval(low, 0.05, 0.95, "group jackknife", "independent", POLICY_VALUE)
    estimates = {"greedy": make_estimate(0.07), "linucb": make_estimate(0.08)}
    difference = Difference("linucb", "greedy", 0.01, 0.004, interval)
    return Comparison(estimates, (difference,), (("linucb", 0.9), ("greedy", 0.1)), ("Auto chose.",))


def clock_diagnostics(**changes: Any) -> ClockDiagnostics:
    facts = ClockDiagnostics(
        events=8_000,
        rounds=200,
        passes=16,
        replicates=300,
        bias_certificate=0.001,
        sampling_error=0.004,
        monte_carlo_error=0.001,
        value_spread=0.5,
    )
    return replace(facts, **changes)


def permuted_diagnostics(**changes: Any) -> PermutedDiagnostics:
    facts = PermutedDiagnostics(
        events=8_000,
        rounds=200,
        permutations=16,
        trajectories=7.5,
        replicates=300,
        bias_certificate=0.001,
        sampling_error=0.004,
        monte_carlo_error=0.001,
    )
    return replace(facts, **changes)


class Page(HTMLParser):
    """What a browser would make of a page: tags with their attributes, text by the id of its element."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self._open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        self.texts.setdefault(self._open[-1] if self._open else "", []).append(data)

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.tags)

    def script_texts(self) -> list[str]:
        return self.texts["script"]


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
        assert "Monte-Carlo 0.001; sampling error unknown, because no replicates were run" in text

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
            ({"bias_certificate": 3.0}, "poor", "bias certificate: too large to certify anything"),
            ({"bias_mass": 0.05}, "fair", "bias mass: acceptance probabilities were cut at 1 in some rounds"),
            ({"bias_mass": 0.5}, "poor", "bias mass: acceptance probabilities were cut at 1 in many rounds"),
            ({"effective_sample_size": 20.0}, "poor", "effective sample size: the estimate rests on very few events"),
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


class TestVerdict:
    def test_one_policy(self) -> None:
        words = verdict(summarize(make_estimate()))
        assert words.startswith("LinUCB(alpha=0.3) would have earned 0.080 per round (95 % interval 0.070 to 0.090).")

    def test_intervals_apart(self) -> None:
        words = verdict(summarize({"a": make_estimate(0.05), "b": make_estimate(0.08)}))
        assert "b has the highest estimate: 0.080" in words
        assert "the log distinguishes them" in words

    def test_overlapping_intervals_decide_nothing(self) -> None:
        words = verdict(summarize({"a": make_estimate(0.07), "b": make_estimate(0.08), "c": make_estimate(0.075)}))
        assert "The intervals of c and a overlap its interval" in words
        assert "does not show which policy is better" in words

    def test_two_estimands_are_not_compared(self) -> None:
        other = Interval(0.01, 0.02, 0.95, "Theorem 2", "martingale", PROGRESSIVE_VALUE)
        words = verdict(summarize({"a": make_estimate(0.015, interval=other), "b": make_estimate()}))
        assert "different quantities" in words

    def test_no_interval_no_decision(self) -> None:
        words = verdict(summarize({"a": make_estimate(interval=None), "b": make_estimate(0.5)}))
        assert "does not show which policy is better" in words

    @pytest.mark.parametrize(
        ("low", "words"), [(0.001, "distinguishes them"), (-0.001, "difference to greedy may be zero")]
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


def luminance(colour: str) -> float:
    """Relative luminance of sRGB (WCAG 2)."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


class TestCharts:
    @pytest.mark.parametrize("colour", COLOURS)
    def test_colours_have_contrast_on_white_and_dark_backgrounds(self, colour: str) -> None:
        here, dark = luminance(colour), luminance("#14171a")
        assert 1.05 / (here + 0.05) >= 3
        assert (here + 0.05) / (dark + 0.05) >= 3

    def test_curve_where_there_is_one_else_the_interval(self) -> None:
        with_curve = plot_result(make_estimate()).to_dict()
        without = plot_result(make_estimate(curve=None)).to_dict()
        assert [layer["mark"]["type"] for layer in with_curve["layer"]] == ["area", "line", "point"]
        assert [layer["mark"]["type"] for layer in without["layer"]] == ["rule", "point", "text"]

    def test_without_any_interval_there_are_points_alone(self) -> None:
        spec = values_chart(summarize(make_estimate(interval=None))).to_dict()
        assert [layer["mark"]["type"] for layer in spec["layer"]] == ["point", "text"]

    def test_numbers_of_the_chart_are_the_estimates(self) -> None:
        rows = values_chart(summarize({"a": make_estimate(0.25)})).to_dict()["layer"][0]["data"]["values"]
        assert (rows[0]["estimate"], rows[0]["low"], rows[0]["high"]) == (0.25, 0.24, 0.26)

    def test_differences_are_the_better_minus_the_worse(self) -> None:
        interval = Interval(-0.05, 0.01, 0.95, "paired group jackknife", "independent", POLICY_VALUE)
        reversed_pair = Comparison(
            {"worse": make_estimate(0.07), "better": make_estimate(0.09)},
            (Difference("worse", "better", -0.02, 0.01, interval),),
            (("better", 0.9), ("worse", 0.1)),
        )
        [row] = differences_chart(summarize(reversed_pair)).to_dict()["layer"][1]["data"]["values"]
        assert row["difference"] == "better minus worse"
        assert (row["estimate"], row["low"], row["high"], row["sign"]) == (0.02, -0.01, 0.05, "unclear")

    def test_a_comparison_is_drawn_with_its_differences(self) -> None:
        both = make_comparison(0.001).plot().to_dict()["vconcat"]
        assert [len(part["layer"]) for part in both] == [3, 4]
        assert "vconcat" not in plot_result({"a": make_estimate()}).to_dict()

    def test_more_policies_than_colours(self) -> None:
        many = {f"policy {i}": make_estimate(i / 100) for i in range(10)}
        scale = curves_chart(summarize(many)).to_dict()["layer"][1]["encoding"]["color"]["scale"]
        assert len(scale["domain"]) == len(scale["range"]) == 10

    def test_a_policy_without_a_curve_is_not_in_its_legend_and_the_others_keep_their_colours(self) -> None:
        mixed = {"fixed": make_estimate(0.9, curve=None), "learner": make_estimate(0.5)}
        scale = curves_chart(summarize(mixed)).to_dict()["layer"][1]["encoding"]["color"]["scale"]
        assert (scale["domain"], scale["range"]) == (["learner"], [COLOURS[1]])

    def test_what_is_not_a_number_leaves_a_gap(self) -> None:
        chart = values_chart(summarize({"a": make_estimate(float("nan"), interval=None), "b": make_estimate()}))
        json.dumps(chart.to_dict(), allow_nan=False)

    def test_axes_are_titled_and_the_chart_described(self) -> None:
        spec = curves_chart(summarize({"a": make_estimate()})).to_dict()
        assert spec["layer"][1]["encoding"]["x"]["title"] == "round"
        assert spec["layer"][1]["encoding"]["y"]["title"] == "average reward per round"
        assert "a: from 0.05 to 0.077 by round 1,000" in spec["description"]

    @pytest.mark.parametrize(("ending", "start"), [("svg", b"<svg"), ("png", b"\x89PNG"), ("html", b"<!DOCTYPE html>")])
    def test_saves_without_a_browser(self, tmp_path: Path, ending: str, start: bytes) -> None:
        file = tmp_path / f"chart.{ending}"
        for result in (make_estimate(), make_estimate(curve=None), make_comparison(0.001)):
            result.plot().save(str(file))
            assert file.read_bytes().startswith(start)


@pytest.fixture(scope="module")
def hostile_page() -> str:
    estimates = {name: make_estimate(0.01 * i, name=name, notes=(name,)) for i, name in enumerate(HOSTILE)}
    estimates[HOSTILE[0]].settings[HOSTILE[1]] = HOSTILE[2]
    return report_html(estimates, about={HOSTILE[3]: HOSTILE[4]})


class TestPage:
    def test_file_is_written_whole(self, tmp_path: Path) -> None:
        path = save_report(make_estimate(), tmp_path / "report.html")
        assert path.is_absolute()
        assert path.read_text(encoding="utf-8").rstrip().endswith("</html>")

    def test_a_missing_folder_is_an_option_error(self, tmp_path: Path) -> None:
        with pytest.raises(OptionError, match=r"cannot be written to .*there is no folder"):
            save_report(make_estimate(), tmp_path / "missing" / "report.html")

    def test_same_estimates_same_page(self) -> None:
        assert report_html(make_estimate()) == report_html(make_estimate())

    def test_hostile_labels_stay_text(self, hostile_page: str) -> None:
        page = Page(hostile_page)
        assert {printable(name) for name in HOSTILE} <= set(page.texts["th"])
        assert page.count("script") == 3
        assert page.count("img") == 0
        assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]

    def test_chart_data_is_json_that_holds_the_labels(self, hostile_page: str) -> None:
        page = json.loads(Page(hostile_page).script_texts()[0])
        names = {printable(name) for name in HOSTILE}
        assert {row["policy"] for row in page["charts"]["forest"]["layer"][0]["data"]["values"]} == names
        assert set(page["names"]) == names

    def test_drawings_hold_no_script(self, hostile_page: str) -> None:
        drawings = re.findall(r"<svg.*?</svg>", hostile_page.split("<script", 1)[0], re.DOTALL)
        assert len(drawings) == 2
        allowed = {"svg", "g", "path", "line", "text", "rect", "defs", "clippath"}
        assert {tag for drawing in drawings for tag, _ in Page(drawing).tags} <= allowed

    def test_nothing_is_fetched(self, hostile_page: str) -> None:
        page = Page(hostile_page)
        assert page.count("link") == page.count("iframe") == page.count("object") == 0
        fetching = ("src", "srcset", "href", "xlink:href", "action", "data", "poster", "background")
        targets = [text for _, attributes in page.tags for a, text in attributes.items() if a in fetching]
        assert [text for text in targets if not str(text).startswith("#")] == []
        styles = "".join(page.texts["style"])
        assert "url(" not in styles
        assert "@import" not in styles

    def test_security_policy_forbids_the_network_and_other_scripts(self, hostile_page: str) -> None:
        import base64
        import hashlib

        page = Page(hostile_page)
        policy = next(a["content"] for tag, a in page.tags if tag == "meta" and "http-equiv" in a)
        assert policy is not None
        assert policy.startswith("default-src 'none';")
        assert "unsafe-eval" not in policy
        assert "http" not in policy
        for script in page.script_texts()[1:]:
            digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
            assert f"'sha256-{digest}'" in policy

    def test_tables_have_captions_and_scopes(self, hostile_page: str) -> None:
        page = Page(hostile_page)
        assert page.count("table") == page.count("caption") == 5
        assert all(attributes.get("scope") in ("row", "col") for tag, attributes in page.tags if tag == "th")
        ids = {attributes["id"] for _, attributes in page.tags if "id" in attributes}
        assert {str(a["href"])[1:] for tag, a in page.tags if tag == "a"} <= ids
        assert {a["aria-labelledby"] for _, a in page.tags if "aria-labelledby" in a} <= ids
        assert page.count("h1") == page.count("main") == page.count("header") == page.count("footer") == 1

    def test_comparison_brings_its_differences(self) -> None:
        page = Page(report_html(make_comparison(0.001)))
        assert "linucb minus greedy" in page.texts["th"]
        assert "best with probability 90 %" in page.texts["small"]
        assert "Auto chose." in "".join(page.texts["p"])

    def test_differences_carry_the_names_that_estimates_carry(self) -> None:
        bad = "a\0"
        interval = Interval(0.01, 0.05, 0.95, "group jackknife", "independent", POLICY_VALUE)
        pair = Difference("b", bad, 0.01, 0.004, interval)
        estimates = {bad: make_estimate(0.07), "b": make_estimate(0.08)}
        summary = summarize(Comparison(estimates, (pair,), (("b", 0.9), (bad, 0.1))))
        assert (summary.differences[0].second, summary.ranking[1][0]) == ("a\\x00", "a\\x00")

    def test_estimates_of_several_kinds_share_a_page(self) -> None:
        kinds = {
            "replay": make_estimate(),
            "weights": make_estimate(diagnostics=WeightDiagnostics(100, 50.0, 1.0, 2.0), curve=None, horizon=None),
            "model": make_estimate(diagnostics=ModelDiagnostics(100, 50, 1), interval=None, curve=None),
        }
        page = report_html(kinds)
        assert 'aria-label="does not apply"' in page
        assert "no valid interval is available" in page

    def test_settings_that_all_share_are_shown_once(self) -> None:
        text = "".join(Page(report_html({"a": make_estimate(0.1), "b": make_estimate(0.2)})).texts["th"])
        assert text.count("seed") == 1

    # A page takes some tenths of a second to draw: few examples, beside the hostile ones above.
    @settings(max_examples=10)
    @given(st.text(min_size=1))
    def test_any_label_comes_out_as_it_went_in(self, label: str) -> None:
        page = Page(report_html({label: make_estimate(curve=None)}))
        assert summarize({label: make_estimate()}).best in page.texts["th"]
        assert page.count("script") == 3


class TestNotebook:
    @pytest.mark.parametrize("kind", ["estimate", "comparison", "health"])
    def test_bundle_holds_text_and_html(self, kind: str) -> None:
        result = shown_in_notebooks("linucb")[kind]
        bundle = result._repr_mimebundle_()
        assert bundle == {"text/plain": str(result), "text/html": result._repr_html_()}
        assert set(result._repr_mimebundle_(include=["text/html"])) == {"text/html"}
        assert set(result._repr_mimebundle_(exclude=["text/html"])) == {"text/plain"}

    @pytest.mark.parametrize("label", HOSTILE)
    @pytest.mark.parametrize("kind", ["estimate", "comparison", "health"])
    def test_hostile_labels_stay_text(self, kind: str, label: str) -> None:
        page = Page(shown_in_notebooks(label)[kind]._repr_html_())
        allowed = {"div", "p", "strong", "table", "thead", "tbody", "tr", "th", "td"}
        drawn = {"svg", "g", "path", "line", "text", "rect", "defs", "clippath"}
        assert {tag for tag, _ in page.tags} <= allowed | drawn
        assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]
        assert any(printable(label) in text for texts in page.texts.values() for text in texts)

    def test_estimates_and_comparisons_bring_a_drawing(self) -> None:
        shown = shown_in_notebooks("linucb")
        assert [Page(shown[kind]._repr_html_()).count("svg") for kind in shown] == [1, 1, 0]


def shown_in_notebooks(label: str) -> dict[str, Any]:
    interval = Interval(0.001, 0.05, 0.95, "group jackknife", "independent", POLICY_VALUE)
    estimates = {label: make_estimate(0.08, notes=(label,)), "greedy": make_estimate(0.07)}
    difference = Difference(label, "greedy", 0.01, 0.004, interval)
    faults = (Finding("duplicates", "warn", 0.5, f"rows of {printable(label)}", "remove them"),)
    return {
        "estimate": make_estimate(name=label),
        "comparison": Comparison(estimates, (difference,), ((label, 0.9), ("greedy", 0.1))),
        "health": HealthReport("Log(9 events)", faults),
    }
