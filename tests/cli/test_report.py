"""``backcast report``: the page of a saved result."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.cli import EVEN_OR_MORE, LOG_AND_COLUMNS, run, write_click_log


@pytest.fixture(autouse=True)
def folder(folder: Path) -> Path:
    write_click_log(folder / "log.csv")
    return folder


class TestReport:
    def test_the_page_is_made_again_without_the_log(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        words = f"compare {EVEN_OR_MORE} --report first.html --save-json result.json"
        assert run(words) == 0
        assert f"The result is in {(folder / 'result.json').resolve()}" in capsys.readouterr().err
        (folder / "log.csv").unlink()
        assert run("report result.json --png chart.png --svg chart.svg") == 0
        assert (folder / "report.html").read_bytes() == (folder / "first.html").read_bytes()
        assert (folder / "chart.png").read_bytes().startswith(b"\x89PNG")
        assert (folder / "chart.svg").read_text().startswith("<svg")
        lines = capsys.readouterr().err.splitlines()
        written = (("report", "report.html"), ("chart", "chart.png"), ("chart", "chart.svg"))
        assert lines == [f"The {what} is in {(folder / name).resolve()}" for what, name in written]

    def test_json_and_quiet(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(f"evaluate {LOG_AND_COLUMNS} --policy uniform --evaluator ips --save-json result.json --json") == 0
        printed, saved = json.loads(capsys.readouterr().out), json.loads((folder / "result.json").read_text())
        assert {key: saved[key] for key in printed} == printed
        assert set(saved) - set(printed) == {"passages", "health"}
        assert run("report result.json --json") == 0
        assert json.loads(capsys.readouterr().out) == {
            "report": str((folder / "report.html").resolve()),
            "partial": False,
        }
        assert run("report result.json --quiet") == 0
        assert capsys.readouterr() == ("", "")

    @pytest.mark.parametrize("name", ["report.html", "REPORT.HTM"])
    def test_json_is_not_saved_in_a_file_named_html(
        self, name: str, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run(f"evaluate {LOG_AND_COLUMNS} --policy uniform --evaluator ips --save-json {name}") == 2
        message = capsys.readouterr().err
        assert f"save_json is '{name}', but the result is saved as JSON" in message
        assert "use --report for an HTML report" in message
        assert not (folder / name).exists()

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            ("report log.csv", "log.csv: cannot be read as JSON"),
            ("report none.json", "none.json: cannot be read (No such file or directory)"),
            ("report none.json --report no/r.html", "there is no folder 'no'"),
        ],
    )
    def test_bad_input(self, words: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(words) == 2
        assert message in capsys.readouterr().err
