"""What the README and the manual show is run, and their links lead somewhere."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
REPLAY_RECORD = [
    "evaluate-fixed",
    "evaluate-learning",
    "choose-between",
    "how-long-a-log",
    "no-propensities",
    "own-policy",
    "big-logs",
    "diagnostics",
    "report",
    "log-format",
    "theory",
]
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def links(text: str) -> list[str]:
    """Where a page points to within the repository."""
    return [target for target in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in target]


def anchors(text: str) -> set[str]:
    """Headings as a page's addresses spell them."""
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w]+", "-", title.lower()).strip("-") for title in titles}


def leads_somewhere(page: Path, link: str) -> bool:
    name, _, anchor = link.partition("#")
    target = page.parent / name if name else page
    return target.exists() and (not anchor or anchor in anchors(target.read_text()))


def test_readme_session_is_true() -> None:
    [session] = blocks((ROOT / "README.md").read_text(), "python")
    test = doctest.DocTestParser().get_doctest(session, {}, "README", "README.md", 0)
    assert len(test.examples) > 5
    assert doctest.DocTestRunner().run(test).failed == 0


@pytest.mark.parametrize("name", REPLAY_RECORD)
def test_code_of_a_page_runs(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = (DOCS / f"{name}.md").read_text()
    code = blocks(text, "python")
    assert code
    space: dict[str, object] = {"__name__": "page"}
    for block in code:
        exec(compile(block, f"{name}.md", "exec"), space)
    shown = capsys.readouterr().out
    assert shown
    assert [claim for claim in re.findall(r"^prints `(.+?)`", text, re.MULTILINE) if claim not in shown] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    result = links(page.read_text())
    assert [link for link in result if not leads_somewhere(page, link)] == []


def test_dead_links_are_recognised() -> None:
    assert leads_somewhere(DOCS / "index.md", "notation.md#two-questions")
    assert not leads_somewhere(DOCS / "index.md", "notation.md#three-questions")
    assert not leads_somewhere(DOCS / "index.md", "nowhere.md")


def test_every_page_is_in_the_navigation() -> None:
    listed = set(re.findall(r"([\w-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    assert {page.name for page in DOCS.glob("*.md")} <= listed
