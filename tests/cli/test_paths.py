"""No output may be an input: refused before any work, and the input is unchanged."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from backcast.cli.paths import check_outputs
from backcast.errors import OptionError
from tests.support.cli import COLUMNS, EIGHT_EVENTS, EVALUATE, run

IPS = "--policy uniform --evaluator ips"


@pytest.fixture(autouse=True)
def logs(folder: Path) -> None:
    (folder / "logs").mkdir()
    (folder / "logs" / "part.csv").write_text(EIGHT_EVENTS)
    (folder / "symlink.html").symlink_to(folder / "log.csv")
    (folder / "linked").symlink_to(folder / "logs")
    os.link(folder / "log.csv", folder / "hardlink.html")
    os.link(folder / "logs" / "part.csv", folder / "hardlink.json")
    (folder / "run.toml").write_text('log = "log.csv"\naction = "shown"\nreward = "click"\npropensity = "p"\n')


WRONG = [
    f"{EVALUATE} {IPS} --report log.csv",
    f"{EVALUATE} {IPS} --save-json ./logs/../log.csv",
    f"{EVALUATE} {IPS} --report symlink.html",
    f"{EVALUATE} {IPS} --report hardlink.html",
    f"{EVALUATE} {IPS} --checkpoint log.csv",
    f"{EVALUATE} {IPS} --checkpoint .",
    f"{EVALUATE} {IPS} --report both.json --save-json both.json",
    f"evaluate logs {COLUMNS} {IPS} --report logs/report.html",
    f"evaluate logs {COLUMNS} {IPS} --report linked/part.csv",
    f"evaluate linked {COLUMNS} {IPS} --save-json hardlink.json",
    f"evaluate logs {COLUMNS} {IPS} --checkpoint logs/done",
    f"evaluate 'logs/*.csv' {COLUMNS} {IPS} --report logs/new.csv",
    f"evaluate run.toml {IPS} --report run.toml",
    f"compare {EVALUATE.removeprefix('evaluate ')} --policy a=uniform --policy b=ucb1 --report log.csv",
    f"plan {EVALUATE.removeprefix('evaluate ')} --policy a=uniform --policy b=ucb1 --difference 0.1 --html log.csv",
    "init logs --out logs/run.toml",
    "report run.toml --report run.toml",
]


@pytest.mark.parametrize("words", WRONG)
def test_it_is_refused_and_nothing_is_lost(words: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert run(words) == 2
    assert "would" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_a_name_in_another_case_is_the_same_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system without upper and lower case, acted out: both names have the identity of one file."""
    identity = os.stat(folder / "log.csv")
    real_stat = os.stat
    monkeypatch.setattr(os, "stat", lambda path, **more: identity if path == "LOG.CSV" else real_stat(path, **more))
    monkeypatch.setattr(os.path, "realpath", lambda path, **more: str(path))
    with pytest.raises(OptionError, match=r"which is the input 'log\.csv'"):
        check_outputs({"report": "LOG.CSV"}, ["log.csv"])


def test_other_paths_are_accepted(folder: Path) -> None:
    outputs = {"report": "report.html", "result": "logs/result.json", "checkpoint": "done"}
    check_outputs(outputs, ["log.csv", "logs/*.csv", "s3://bucket/log", None])
    check_outputs({"report": "/dev/null", "result": "/dev/null"}, ["log.csv"])
