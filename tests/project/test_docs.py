"""What the README and the manual show is run, and their links lead somewhere."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES_WITH_CODE = [
    "index",
    "evaluate-fixed",
    "evaluate-learning",
    "compare-policies",
    "outcomes",
    "segments",
    "sample-size",
    "missing-propensities",
    "custom-policies",
    "custom-evaluators",
    "custom-intervals",
    "custom-reward-models",
    "large-logs",
    "diagnostics",
    "report",
    "log-format",
    "vowpal-wabbit",
    "parallel",
    "rerun",
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


@pytest.mark.parametrize("name", PAGES_WITH_CODE)
def test_code_of_a_page_runs(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = (DOCS / f"{name}.md").read_text()
    code = blocks(text, "python")
    assert code
    space: dict[str, object] = {"__name__": "page"}
    for block in code:
        exec(compile(block, f"{name}.md", "exec", dont_inherit=True), space)
    shown = capsys.readouterr().out
    assert shown
    assert [claim for claim in re.findall(r"^prints `(.+?)`", text, re.MULTILINE) if claim not in shown] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    result = links(page.read_text())
    assert [link for link in result if not leads_somewhere(page, link)] == []


def test_dead_links_are_recognised() -> None:
    assert leads_somewhere(DOCS / "index.md", "notation.md#two-estimands")
    assert not leads_somewhere(DOCS / "index.md", "notation.md#three-estimands")
    assert not leads_somewhere(DOCS / "index.md", "nowhere.md")


def test_every_page_is_in_the_navigation() -> None:
    listed = set(re.findall(r"([\w-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    assert {page.name for page in DOCS.glob("*.md")} <= listed


def test_quoted_code_is_that_of_the_reference(capsys: pytest.CaptureFixture[str]) -> None:
    *quoted, example = blocks((DOCS / "algorithm.md").read_text(), "python")
    source = (ROOT / "src/backcast/reference.py").read_text()
    assert len(quoted) == 5
    assert [block for block in quoted if block not in source] == []
    exec(compile(example, "algorithm.md", "exec"), {})
    assert capsys.readouterr().out == "True True\n"


def public_modules() -> list[str]:
    """Modules without an underscore in their path."""
    paths = (path.relative_to(ROOT / "src").with_suffix("") for path in (ROOT / "src/backcast").rglob("*.py"))
    return [".".join(path.parts) for path in paths if not any(part.startswith("_") for part in path.parts)]


def test_every_public_module_is_in_the_reference() -> None:
    text = (DOCS / "reference.md").read_text()
    assert [module for module in public_modules() if not re.search(rf"{module}\b", text)] == []


def test_architecture_lists_every_module() -> None:
    [tree] = re.findall(r"^```\n(backcast/ .*?)^```$", (DOCS / "architecture.md").read_text(), re.MULTILINE | re.DOTALL)
    package = ROOT / "src/backcast"
    folders = re.split(r"^(?=\S)", tree, flags=re.MULTILINE)[1:]
    listed = {text.split()[0]: (int(text.split()[1]), re.findall(r"^  (\S+)", text, re.MULTILINE)) for text in folders}
    assert listed.keys() == {f"{path.parent.name}/" for path in package.rglob("*.py")}
    for name, (count, modules) in listed.items():
        folder = package if name == "backcast/" else package / name
        assert sorted(modules) == sorted(path.name for path in folder.glob("*.py"))
        assert count == len(modules)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_tests_and_scripts_that_a_page_names_exist(page: Path) -> None:
    paths = re.findall(r"`((?:tests|bench|src|examples|tools)/[\w./-]+)", page.read_text(encoding="utf-8"))
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_every_numbered_statement_of_the_theory_names_its_test() -> None:
    text, table = (DOCS / "theory.md").read_text(encoding="utf-8").split("## 8. How each statement is checked")
    statements = re.findall(r"^\*\*((?:Lemma|Proposition|Theorem) \d+)", text, re.MULTILINE)
    assert len(statements) >= 8
    assert [statement for statement in statements if f"| {statement} |" not in table] == []
