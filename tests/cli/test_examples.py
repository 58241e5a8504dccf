"""The examples in the help of the commands run on the log of the demo."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.cli import run


def example_in(help_text: str) -> str:
    """The command after the word "Example", up to the next blank line."""
    _, _, after = help_text.partition("Example")
    lines = [line.strip() for line in after.splitlines()[1:]]
    start = next(i for i, line in enumerate(lines) if line.startswith("backcast "))
    end = lines.index("", start)
    return " ".join(lines[start:end]).removeprefix("backcast ")


class TestExamples:
    @pytest.mark.parametrize(
        ("command", "shown"),
        [
            ("evaluate", "linucb:alpha=0.3"),
            ("compare", "a minus b"),
            ("check", "no problem found"),
            ("plan", "Events needed to distinguish policies over 100 rounds"),
            ("init", "run.toml is written"),
        ],
    )
    def test_on_the_log_of_the_demo(
        self, command: str, shown: str, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run("demo --log news.csv") == 0
        assert f"The log is in {(folder / 'news.csv').resolve()}" in capsys.readouterr().err
        assert run(f"{command} --help") == 0
        assert run(example_in(capsys.readouterr().out)) == 0
        assert shown in capsys.readouterr().out

    def test_demo_ends_with_where_the_report_is(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run("demo --help") == 0
        assert run(example_in(capsys.readouterr().out)) == 0
        printed = capsys.readouterr()
        assert printed.err.splitlines()[-1] == f"The report is in {(folder / 'report.html').resolve()}"
        for name in ("random", "half random", "epsilon-greedy", "linucb"):
            assert re.search(rf"^ +{name} +0\.\d+ +0\.\d+ to 0\.\d+", printed.out, re.MULTILINE)
        assert "random minus linucb" in printed.out
        assert "auto chose ClockReplay" in printed.out
        assert "embedded: a news page" in (folder / "report.html").read_text(encoding="utf-8")
