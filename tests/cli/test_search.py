"""``backcast search``: the best of many settings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import backcast as bc
from tests.support.cli import LOG_AND_COLUMNS, run, write_click_log

FIXED = f"search {LOG_AND_COLUMNS} --policy a=uniform --policy 'b=fixed:probabilities=[0.25,0.75]' --evaluator ips"
LEARNING = f"search {LOG_AND_COLUMNS} --policy ucb1:batch_size=10 --grid exploration=0.1,10 --horizon 30 --exchangeable"


@pytest.fixture(autouse=True)
def folder(folder: Path) -> Path:
    write_click_log(folder / "log.csv")
    return folder


def test_fixed_policies(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(FIXED) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("Best: b, 0.625 per round (95 % interval ")
    assert "b was chosen in 100 % of the folds" in printed
    assert "stage" not in printed


def test_a_grid_in_flags_and_in_a_run_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(f"{LEARNING} --json") == 0
    document = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert document["format"] == "backcast search"
    assert [each["parameters"] for each in document["candidates"]] == [{"exploration": 0.1}, {"exploration": 10}]
    (folder / "run.toml").write_text(
        'log = "log.csv"\naction = "shown"\nreward = "click"\npropensity = "p"\nhorizon = 30\nexchangeable = true\n'
        'grid = { exploration = [0.1, 10] }\n[policies]\nucb = { kind = "ucb1", batch_size = 10 }\n'
    )
    assert run("search run.toml --quiet --save-json best.json") == 0
    assert capsys.readouterr().out.startswith("Best: UCB1(exploration=0.1)")
    saved = json.loads((folder / "best.json").read_text())
    assert saved["estimate"]["value"] == document["estimate"]["value"]
    log = bc.read_log(folder / "log.csv", context=[], action="shown", reward="click", propensity="p")
    with pytest.warns(bc.DriftWarning):
        best = bc.search(log, bc.UCB1(batch_size=10), {"exploration": [0.1, 10]}, horizon=30, exchangeable=True)
    assert best.estimate.value == document["estimate"]["value"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (f"search {LOG_AND_COLUMNS} --policy ucb1 --grid exploration=1,2", "give horizon=T"),
        (f"search {LOG_AND_COLUMNS} --policy ucb1 --grid exploration --horizon 9", "write an option and its values"),
        (f"search {LOG_AND_COLUMNS} --policy ucb1 --horizon 9", "a search needs at least two"),
        (f"{FIXED} --grid a=1,2", "a grid varies the options of one policy"),
        (f"{LEARNING} --grid exploration=3", "the grid has 'exploration' twice"),
        (f"search {LOG_AND_COLUMNS} --policy ucb1 --grid explore=1,2 --horizon 9", "did you mean 'exploration'"),
        (f"{FIXED} --save-json best.html", "saved as JSON"),
    ],
)
def test_bad_input(words: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words) == 2
    assert message in capsys.readouterr().err
