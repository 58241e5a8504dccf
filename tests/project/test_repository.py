"""What the repository promises about itself."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
TARGETS = ["setup", "demo", "test", "lint", "docs", "screenshots", "bench", "bench-speed", "bench-scale", "clean"]

LEAKS = {
    "a developer's home": re.compile(r"(?:/(?:home|Users|root)/|[A-Z]:\\Users\\)\w"),
    "a registry setting": re.compile(r"\b(?:extra-)?index[-_]url\b|--find[-_]links"),
    "a registry host": re.compile(r"://[^\s/]*(?:pypi|pythonhosted|artifactory|devpi|jfrog|nexus)"),
    "a password in an address": re.compile(r"://[^\s/:@]+:[^\s/@]+@"),
}


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def ignored_names() -> list[str]:
    lines = (ROOT / ".gitignore").read_text().splitlines()
    return [".git", *(line.strip("/") for line in lines if line and not line.startswith("#"))]


def kept_files() -> Iterator[Path]:
    """Files of the checkout that .gitignore does not name (with no need of git, for unpacked archives)."""
    ignored = ignored_names()

    def is_kept(name: str) -> bool:
        return not any(fnmatch(name, pattern) for pattern in ignored)

    for folder, folders, files in os.walk(ROOT):
        folders[:] = filter(is_kept, folders)
        yield from (Path(folder, name) for name in files if is_kept(name))


def text_of(path: Path) -> str:
    """The file's text, or nothing where it is not text."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


def leaks_in(text: str) -> list[str]:
    return [what for what, pattern in LEAKS.items() if pattern.search(text)]


def requirements() -> list[str]:
    table = project()
    extras = table["project"]["optional-dependencies"].values()
    return [
        *table["build-system"]["requires"],
        *table["project"]["dependencies"],
        *(r for extra in extras for r in extra),
    ]


def test_newest_version_in_the_changelog_is_the_packages() -> None:
    newest = re.search(r"^## \[(\d[^\]]*)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest is not None
    assert newest[1] == project()["project"]["version"] == version("backcast")


def test_changelog_speaks_in_sentences() -> None:
    entries = re.findall(r"^- (.+(?:\n  .+)*)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert entries
    assert [entry for entry in entries if not entry.endswith(".")] == []


@pytest.mark.parametrize("target", TARGETS)
def test_makefile_has_what_was_promised(target: str) -> None:
    assert re.search(rf"^{target}:.*## \w", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_ci_runs_what_a_user_runs() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert "make test" in script.read_text().splitlines()


def test_ci_brings_a_browser_and_insists_on_it() -> None:
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    assert "export CI=true" in lines
    assert any("apt-get install" in line and "chromium" in line for line in lines)


@pytest.mark.parametrize("where", ["docs", "README.md"])
def test_pictures_are_small_and_used(where: str) -> None:
    images = sorted((ROOT / "docs" / "images").iterdir())
    assert images
    assert [image.name for image in images if image.stat().st_size > 300_000] == []
    pages = [ROOT / where] if where.endswith(".md") else sorted((ROOT / where).glob("*.md"))
    shown = {name for page in pages for name in re.findall(r"images/([\w.-]+)", page.read_text())}
    assert shown
    assert shown <= {image.name for image in images}
    if where == "docs":
        assert {image.name for image in images} <= shown


def collected(**environment: str) -> subprocess.CompletedProcess[str]:
    """What pytest collects of the browser tests and of one other."""
    words = "-m pytest -q --collect-only -n0 -p no:cacheprovider tests/browser tests/project/test_repository.py -k"
    selected = {**os.environ, "CI": "", **environment}
    command = [sys.executable, *words.split(), "browser or readme_is_short"]
    return subprocess.run(command, cwd=ROOT, env=selected, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_without_a_browser_its_tests_are_left_out_aloud() -> None:
    result = collected(CHROMIUM="no-such-browser")
    assert result.returncode == 0
    assert "test_report_page" not in result.stdout
    assert "test_readme_is_short" in result.stdout
    assert "The browser tests were left out, because no Chromium was found" in result.stdout


@pytest.mark.slow
def test_automatic_checks_do_not_pass_without_a_browser() -> None:
    result = collected(CHROMIUM="no-such-browser", CI="true")
    assert result.returncode != 0
    assert "CI is set and no Chromium was found" in result.stdout + result.stderr


def test_no_file_tells_of_the_machine_it_was_written_on() -> None:
    result = {str(path.relative_to(ROOT)): leaks_in(text_of(path)) for path in kept_files()}
    assert "pyproject.toml" in result
    assert {path: leaks for path, leaks in result.items() if leaks} == {}


@pytest.mark.parametrize(
    ("text", "leak"),
    [
        ("/ho~me/ada/data", "a developer's home"),
        ("C:\\Us~ers\\ada", "a developer's home"),
        ("pip install --index~-url x", "a registry setting"),
        ("https://mirror.py~pi.example/simple", "a registry host"),
        ("https:~//ada:pw@example.com", "a password in an address"),
    ],
)
def test_leaks_are_recognised(text: str, leak: str) -> None:
    # The tildes keep this file from being its own finding.
    assert leaks_in(text.replace("~", "")) == [leak]


def test_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) < 150


@pytest.mark.parametrize("requirement", requirements())
def test_dependencies_have_lower_bounds_only(requirement: str) -> None:
    assert re.fullmatch(r"[\w-]+(\[[\w,-]+\])?>=[\d.]+", requirement)
