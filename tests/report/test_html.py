"""The HTML report: it shows the estimates, labels stay text, and nothing is fetched."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import backcast as bc
from backcast.comparison import Comparison
from backcast.diagnostics import ModelDiagnostics, WeightDiagnostics
from backcast.errors import OptionError, printable
from backcast.estimate import POLICY_VALUE, Difference, Interval
from backcast.report._summary import summarize
from backcast.report.html import report_html, save_report
from tests.support.reports import HOSTILE, Page, make_comparison, make_estimate, replay_diagnostics


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


class TestDecision:
    def test_the_top_says_what_was_evaluated_and_the_end_how_to_run_it_again(self, tmp_path: Path) -> None:
        source = tmp_path / "clicks.csv"
        rows = [f"{i % 24},{'ab'[i % 2]},{int(i % 3 == 0)},0.5,2026-05-01T{i % 24:02d}:00" for i in range(240)]
        source.write_text("\n".join(["hour,shown,clicked,p,at", *rows]))
        columns = {"context": "hour", "action": "shown", "reward": "clicked", "propensity": "p", "times": "at"}
        log = bc.read_log(source, **columns, reward_range=(0, 1))
        estimate = bc.evaluate(log, bc.Fixed([1, 0]), bc.DR())
        page = Page(report_html(estimate, log=log, result_file="a result.json"))
        facts = dict(zip(page.texts["dt"], page.texts["dd"], strict=False))
        assert (facts["Log"], facts["Events"]) == ("clicks.csv", "240")
        assert facts["Dates"] == "2026-05-01 00:00:00 to 2026-05-01 23:00:00"
        assert facts["Reward"] == "column clicked, from 0 to 1, on average 0.3333 per round in the log"
        assert facts["Columns"] == "context: hour; action: shown; propensity: p; times: at"
        assert page.texts["code"] == ['backcast rerun "a result.json"']
        settings = set(page.texts["td"])
        assert estimate.provenance is not None
        assert {"DR()", "read_log", str(source), "clicked", estimate.provenance.log.digest} <= settings
        assert any(text.startswith("CrossFit(model=") for text in settings)
        assert any(f"backcast {bc.__version__}" in text for text in settings)

    def test_what_could_be_wrong_is_in_the_order_of_importance(self) -> None:
        faults = (bc.Finding("order", "warn", 0.1, "a warning"), bc.Finding("copies", "fail", 0.5, "a fault", "drop"))
        poor = make_estimate(0.09, diagnostics=replay_diagnostics(bias_mass=0.5))
        page = Page(report_html({"b": poor, "a": make_estimate(0.08)}, health=bc.HealthReport("Log", faults)))
        concerns = [text for text in page.texts["span"] if text.startswith(("The log: ", "b: ", "a: "))]
        assert concerns == [
            "The log: a fault",
            "b: bias mass: acceptance probabilities were cut at 1 in many rounds.",
            "The log: a warning",
        ]

    def test_nothing_that_does_not_apply(self) -> None:
        fixed = make_estimate(diagnostics=WeightDiagnostics(4000, 2000.0, 1.0, 2.0), curve=None, horizon=None)
        ids = {attributes.get("id") for tag, attributes in Page(report_html(fixed)).tags if tag == "h2"}
        assert ids == {"policies", "trust", "reliability", "settings"}
