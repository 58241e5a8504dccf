"""The HTML report: it shows the estimates, labels stay text, and nothing is fetched."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backcast.comparison import Comparison
from backcast.diagnostics import ModelDiagnostics, WeightDiagnostics
from backcast.errors import OptionError, printable
from backcast.estimate import POLICY_VALUE, Difference, Interval
from backcast.report._summary import summarize
from backcast.report.html import report_html, save_report
from tests.support.reports import HOSTILE, Page, make_comparison, make_estimate


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
