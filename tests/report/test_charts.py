"""Charts show the numbers of the estimates, with contrast and descriptions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from backcast.comparison import Comparison
from backcast.estimate import POLICY_VALUE, Difference, Interval
from backcast.report._summary import summarize
from backcast.report.charts import COLOURS, curves_chart, differences_chart, plot_result, values_chart
from tests.support.reports import make_comparison, make_estimate


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

    def test_differences_have_the_sign_of_the_comparison(self) -> None:
        interval = Interval(-0.05, 0.01, 0.95, "paired group jackknife", "independent", POLICY_VALUE)
        reversed_pair = Comparison(
            {"worse": make_estimate(0.07), "better": make_estimate(0.09)},
            (Difference("worse", "better", -0.02, 0.01, interval),),
            (("better", 0.9), ("worse", 0.1)),
        )
        [row] = differences_chart(summarize(reversed_pair)).to_dict()["layer"][1]["data"]["values"]
        assert row["difference"] == "worse minus better"
        assert (row["estimate"], row["low"], row["high"], row["sign"]) == (-0.02, -0.05, 0.01, "unclear")

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
