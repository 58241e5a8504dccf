"""The examples run, say what they should, and do so while one waits."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def said_by(name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str) -> str:
    monkeypatch.setattr(sys, "argv", [name, *words])
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    return capsys.readouterr().out


def values_in(said: str) -> dict[str, float]:
    """Name and value of the lines that end with an interval."""
    return {name.strip(): float(value) for name, value in re.findall(r"^([^\d\n]+) (\d\.\d+) \[", said, re.MULTILINE)}


def test_news_page(capsys: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    printed = said_by("news.py", capsys, monkeypatch, str(report))
    assert "Health of the log: ok." in printed
    assert "is the best of them with probability" in printed
    assert "Health of the log" in report.read_text(encoding="utf-8")


def test_email_trial(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = said_by("mail_trial.py", capsys, monkeypatch)
    values = values_in(printed)
    # made up so that mail helps, and mail that fits helps more
    assert values["no mail"] < values["men's catalogue to all"] < values["by past purchases"]


def test_email_trial_from_a_file(capsys: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    example = runpy.run_path(str(EXAMPLES / "mail_trial.py"), run_name="example")
    own = example["simulate_trial"](tmp_path / "own.csv", customers=900)
    assert said_by("mail_trial.py", capsys, monkeypatch, str(own)).startswith("Log(900 events, 3 actions, 5 features)")


def test_routing_among_models(capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = said_by("routing.py", capsys, monkeypatch)
    values = values_in(printed)
    assert max(values, key=lambda name: values[name]) == "rule of thumb"
    assert "over its first 200 rounds" in printed


def test_every_example_is_tested() -> None:
    text = Path(__file__).read_text()
    assert [path.name for path in EXAMPLES.glob("*.py") if f'"{path.name}"' not in text] == []
