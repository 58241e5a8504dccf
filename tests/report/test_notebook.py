"""Results in notebooks: labels stay text."""

from __future__ import annotations

from typing import Any

import pytest

from backcast.checks import Finding, HealthReport
from backcast.comparison import Comparison
from backcast.errors import printable
from backcast.estimate import POLICY_VALUE, Difference, Interval
from tests.support.reports import HOSTILE, Page, make_estimate


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
