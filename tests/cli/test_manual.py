"""The manual's page about the commands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.cli import run
from tools.cli_page import cli_page

ROOT = Path(__file__).parents[2]


class TestManual:
    def test_the_page_is_up_to_date(self) -> None:
        assert (ROOT / "docs" / "cli.md").read_text(encoding="utf-8") == cli_page(), "run make cli-page"

    def test_its_run_file_is_one(self, folder: Path) -> None:
        from backcast.cli.settings import read_run_file

        [text] = re.findall(r"```toml\n(.*?)```", cli_page(), re.DOTALL)
        (folder / "run.toml").write_text(text)
        assert read_run_file("run.toml")["policies"]["careful"] == {"kind": "linucb", "alpha": 1.0}

    def test_the_second_example_of_plan_runs(self, capsys: pytest.CaptureFixture[str]) -> None:
        [example] = re.findall(r"^backcast (plan --reward-sd .*)$", cli_page(), re.MULTILINE)
        assert run(example) == 0
        assert "75,625" in capsys.readouterr().out
