"""The report in a browser: it loads nothing, runs no script from the data, and is accessible."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from backcast.errors import printable
from tests.browser.conftest import HEIGHT, HOSTILE, Open, Opened

# one worker for all of them: reports and pages are made once
pytestmark = pytest.mark.xdist_group("browser")

KINDS = ["winner", "replay", "worse", "hostile"]
SERIOUS = ("serious", "critical")
Reports = dict[str, Path]
SharedPages = Callable[[str], Opened]

# opacity of every line of a chart, in the order of the legend
OPACITIES = """name => [...document.querySelectorAll(`#${name} .mark-line path`)]
    .map(path => Number(path.getAttribute('opacity') ?? getComputedStyle(path).opacity))"""
# texts of a chart that a grid line, a mark or a point overlaps by more than a pixel
CROSSED = """name => {
    const boxes = selector => [...document.querySelectorAll(`#${name} ${selector}`)].map(each =>
        [each.textContent, each.getBoundingClientRect()]);
    const lines = boxes(".role-axis-grid line, .mark-rule.role-mark line, .mark-rect.role-mark path");
    return boxes(".mark-text.role-mark text").filter(([, text]) => lines.some(([, line]) =>
        line.left < text.right - 1 && line.right > text.left + 1
            && line.top < text.bottom - 1 && line.bottom > text.top + 1)).map(([text]) => text);
}"""
REACHED = """() => {
    const here = document.activeElement;
    return [here.tagName, getComputedStyle(here).outlineStyle];
}"""


def embedded(page: Page) -> dict[str, Any]:
    specs: dict[str, Any] = json.loads(page.locator("#chart-specs").text_content() or "")
    return specs


def open_all_details(page: Page) -> None:
    """All tables that are folded away; not the menus of the charts, which would cover them."""
    for details in page.locator("main details:not(.chart details)").all():
        details.evaluate("each => { each.open = true; }")


def resized(page: Page, width: int) -> int:
    """How wide the page is on a screen of this width, once the charts have followed."""
    page.set_viewport_size({"width": width, "height": HEIGHT})
    page.wait_for_function("width => document.querySelector('#forest svg.marks').clientWidth <= width", arg=width)
    scroll_width: int = page.evaluate("document.documentElement.scrollWidth")
    return scroll_width


@pytest.mark.parametrize("kind", KINDS)
class TestEveryReport:
    def test_loads_without_messages_and_requests_and_draws_every_chart(
        self, shared: SharedPages, reports: Reports, kind: str
    ) -> None:
        opened = shared(kind)
        assert opened.messages == []
        assert opened.requests == [reports[kind].as_uri()]
        charts = list(embedded(opened.page)["charts"])
        assert opened.page.locator(".chart").count() == len(charts)
        for name in charts:
            assert opened.page.locator(f"#{name} .role-mark :is(path, line)").count() > 0, name
            box = opened.page.locator(f"#{name} svg.marks").bounding_box()
            assert box is not None
            assert box["width"] > 600
            assert box["height"] > 80

    def test_no_sideways_scroll_on_narrow_screens(self, shared: SharedPages, kind: str) -> None:
        page = shared(kind).page
        open_all_details(page)
        for width in (768, 360, 320):
            assert resized(page, width) <= width

    def test_prints_on_white_paper_without_controls(self, shared: SharedPages, kind: str) -> None:
        page = shared(kind).page
        page.emulate_media(media="print", color_scheme="dark")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
        for control in ("nav", "#shown", ".chart summary", "main details summary"):
            assert not page.locator(control).first.is_visible()
        # A4 between its usual margins
        assert resized(page, 718) <= 718
        assert page.pdf(format="A4").startswith(b"%PDF")


@dataclass(frozen=True)
class Situation:
    """What a page says: the decision, its colour, the start of the next step, and sections that are left out."""

    label: str
    grade: str
    step: str
    missing: tuple[str, ...] = ()


SITUATIONS = {
    "winner": Situation("Better", "good", "Confirm it live: give linucb a part of the traffic."),
    "tie": Situation("Unclear", "fair", "Needs about ", missing=("learning", "bias")),
    "hopeless": Situation("Not trustworthy", "poor", "new: Needs about ", missing=("learning", "bias")),
    "worse": Situation("Worse", "poor", "Keep what is deployed", missing=("learning", "bias", "differences")),
}


@pytest.mark.parametrize("kind", SITUATIONS)
def test_the_decision_comes_first_and_nothing_that_does_not_apply(open_page: Open, reports: Reports, kind: str) -> None:
    """Without scripts, because the text and the drawings must not need them."""
    expected = SITUATIONS[kind]
    page = open_page(reports[kind], drawn=False, java_script_enabled=False).page
    assert page.locator(".chart svg").count() == page.locator(".chart").count() > 0
    assert not page.locator("#shown").is_visible()
    verdict = page.locator("#verdict")
    assert verdict.locator(".decision").inner_text() == expected.label
    assert f"{expected.grade}-edge" in (verdict.get_attribute("class") or "")
    assert verdict.locator("p").last.inner_text().startswith(f"Next step. {expected.step}")
    box = verdict.bounding_box()
    assert box is not None
    assert box["y"] + box["height"] < HEIGHT
    every = ["lifts", "learning", "policies", "differences", "trust", "bias", "reliability", "runs", "health"]
    shown = [name for name in [*every, "settings"] if name not in expected.missing]
    assert page.locator("section h2").evaluate_all("heads => heads.map(head => head.id)") == shown
    facts = dict(zip(*(page.locator(f"#evaluated {tag}").all_inner_texts() for tag in ("dt", "dd")), strict=True))
    assert "per round in the log" in facts["Reward"]
    if kind == "winner":
        assert facts["Events"] == "800"
        assert facts["Dates"] == "2026-05-01 00:00:00 to 2026-05-01 13:19:00"
        assert facts["Rounds"] == "60"
        assert page.locator("#settings ~ p code").inner_text() == "backcast rerun result.json"
    settings = page.locator("#settings ~ .region tbody th").all_inner_texts()
    assert {"policy", "evaluator", "seed", "log digest", "versions"} <= set(settings)
    decisions = page.locator("#lifts ~ .region tbody td:last-child").all_inner_texts()
    assert decisions[0] == expected.label.lower()
    page.close()


def test_no_name_in_a_chart_is_crossed_by_a_line(shared: SharedPages) -> None:
    """Names above the lines of a chart overlap neither grid lines nor marks, on wide screens and on phones."""
    page = shared("winner").page
    for width in (1000, 360):
        resized(page, width)
        for name in ("lifts-chart", "forest", "gaps", "actions"):
            assert page.locator(f"#{name} .mark-text.role-mark text").count() >= 3
            assert page.evaluate(CROSSED, name) == [], (name, width)


# Every kind of section and every paper; axe looks at each text by itself, so that all pairs would take minutes.
@pytest.mark.parametrize(("kind", "scheme"), [("winner", "light"), ("replay", "dark"), ("worse", "dark")])
def test_axe_finds_nothing_serious(shared: SharedPages, kind: str, scheme: Any) -> None:
    page = shared(kind).page
    page.emulate_media(color_scheme=scheme)
    open_all_details(page)
    violations = Axe().run(page).response["violations"]
    bad = [(each["id"], [node["html"] for node in each["nodes"]]) for each in violations if each["impact"] in SERIOUS]
    assert bad == []


class TestPointing:
    @pytest.mark.parametrize("name", ["forest", "gaps"])
    def test_tooltip_shows_the_numbers(self, shared: SharedPages, name: str) -> None:
        page = shared("winner").page
        row = embedded(page)["charts"][name]["layer"][-1]["data"]["values"][0]
        page.locator(f"#{name} .mark-symbol.role-mark path").first.hover()
        tooltip = page.locator("#vg-tooltip-element.visible")
        tooltip.wait_for()
        assert row["value"] in tooltip.inner_text()
        assert row["interval"] in tooltip.inner_text()

    @pytest.mark.parametrize("name", ["curves", "accepted", "weights", "actions"])
    def test_charts_by_policy_have_tooltips(self, shared: SharedPages, name: str) -> None:
        page = shared("winner").page
        point = page.locator(f"#{name} .mark-symbol.role-mark path").first
        # clear of the bar that floats at the top; points of other policies may lie over this one
        point.evaluate("point => point.scrollIntoView({ block: 'center' })")
        point.hover(force=True)
        page.locator("#vg-tooltip-element.visible").wait_for()
        assert "policy" in page.locator("#vg-tooltip-element").inner_text()

    def test_a_click_on_the_legend_shows_one_policy_alone(self, open_page: Open, reports: Reports) -> None:
        page = open_page(reports["winner"]).page
        assert page.locator("#curves .role-legend-label text").all_text_contents() == embedded(page)["names"]
        assert page.evaluate(OPACITIES, "curves") == [1, 1, 1]
        page.locator("#curves .role-legend-label text").nth(1).click()
        page.wait_for_function(f"({OPACITIES})('curves').join() === '0.15,1,0.15'")
        # a second click, with shift, takes it back
        page.locator("#curves .role-legend-label text").nth(1).click(modifiers=["Shift"])
        page.wait_for_function(f"({OPACITIES})('curves').join() === '1,1,1'")
        page.close()


class TestKeyboard:
    def test_buttons_hide_a_policy_in_every_chart(self, shared: SharedPages) -> None:
        page = shared("winner").page
        first = page.locator("#shown button").first
        first.focus()
        for key, pressed, opacities in (("Space", "false", "0.15,1,1"), ("Enter", "true", "1,1,1")):
            page.keyboard.press(key)
            assert first.get_attribute("aria-pressed") == pressed
            for name in ("curves", "accepted", "weights"):
                page.wait_for_function(f"({OPACITIES})('{name}').join() === '{opacities}'")

    def test_tab_reaches_all_that_can_be_used_and_shows_where_it_is(self, shared: SharedPages) -> None:
        page = shared("winner").page
        page.evaluate("document.activeElement.blur()")
        reached: set[str] = set()
        for _ in range(page.locator("a, button, summary, [tabindex='0']").count()):
            page.keyboard.press("Tab")
            tag, ring = page.evaluate(REACHED)
            assert ring != "none" or tag == "BODY"
            reached.add(tag)
        assert reached >= {"A", "BUTTON", "SUMMARY", "DIV"}

    def test_links_lead_to_their_sections(self, shared: SharedPages) -> None:
        page = shared("replay").page
        for link in page.locator("nav a").all():
            page.evaluate("scrollTo(0, 0)")
            link.click()
            assert page.evaluate("document.querySelector(location.hash).getBoundingClientRect().top") < HEIGHT

    def test_one_policy_alone_needs_no_choice(self, shared: SharedPages) -> None:
        assert not shared("worse").page.locator("#shown").is_visible()
        assert shared("winner").page.locator("#shown").is_visible()


class TestHostileLabels:
    def test_nothing_of_the_data_runs_or_becomes_an_element(self, shared: SharedPages) -> None:
        opened = shared("hostile")
        open_all_details(opened.page)
        assert opened.page.evaluate("window.ran") is None
        assert opened.page.locator("script").count() == 3
        assert opened.page.locator("img, iframe, object, embed, link").count() == 0

    @pytest.mark.parametrize("label", HOSTILE)
    def test_labels_are_read_as_they_were_written(self, shared: SharedPages, label: str) -> None:
        page = shared("hostile").page
        heads = [text.split("best with")[0] for text in page.locator("#policies ~ .region tbody th").all_inner_texts()]
        assert printable(label) in [text.strip() for text in heads]
        assert printable(label) in page.locator("#shown button").all_inner_texts()

    def test_labels_of_actions_files_and_columns_are_text(self, shared: SharedPages) -> None:
        page = shared("hostile").page
        cells = page.locator("#settings ~ .region :is(th, td)").all_inner_texts()
        assert {HOSTILE[0], HOSTILE[1], f"{HOSTILE[2]}.csv"} <= set(cells)
        actions = page.locator("#actions .mark-text.role-mark text").all_text_contents()
        assert actions == [printable(label) for label in HOSTILE[:3]]

    def test_tooltips_show_labels_as_text(self, shared: SharedPages) -> None:
        page = shared("hostile").page
        page.locator("#forest .mark-symbol.role-mark path").first.hover()
        tooltip = page.locator("#vg-tooltip-element.visible")
        tooltip.wait_for()
        assert embedded(page)["names"][0] in tooltip.inner_text()
        assert tooltip.locator("script, img").count() == 0
        assert page.evaluate("window.ran") is None

    def test_the_policy_of_the_page_stops_a_script_that_got_in(self, open_page: Open, reports: Reports) -> None:
        opened = open_page(reports["hostile"])
        hole = "<img src='data:,' onerror='window.ran = true'>"
        opened.page.evaluate("hole => document.body.insertAdjacentHTML('beforeend', hole)", hole)
        opened.page.wait_for_function("document.querySelector('img').complete")
        opened.page.wait_for_timeout(100)
        assert opened.page.evaluate("window.ran") is None
        assert any("Content Security Policy" in text for text in opened.messages)
        opened.page.close()


def test_charts_follow_light_and_dark(shared: SharedPages) -> None:
    page = shared("winner").page
    ink = "getComputedStyle(document.querySelector('#curves .role-axis-label text')).fill"
    light = page.evaluate(ink)
    page.emulate_media(color_scheme="dark")
    assert (light, page.evaluate(ink)) == ("rgb(27, 31, 36)", "rgb(232, 234, 237)")
