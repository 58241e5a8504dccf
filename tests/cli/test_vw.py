"""Logs of Vowpal Wabbit on the command line: recognised by name or by their first lines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.cli import run

ADF = "shared |U a\n0:-1:0.5 |A x\n|A y\n\nshared |U b\n|A x\n0:0:0.5 |A y\n\n"


def dsjson(n: int = 40) -> str:
    observation = {"RewardValue": 1.0, "EventId": "dangling"}
    decisions = [
        {
            "_label_cost": -float(k % 3 == 0),
            "_label_probability": 0.5,
            "_label_Action": 1 + k % 2,
            "_labelIndex": k % 2,
            "a": [1, 2],
            "p": [0.5, 0.5],
            "c": {"U": {"s": f"u{k % 3}"}, "_multi": [{"A": {"t": "x"}}, {"A": {"t": "y"}}]},
        }
        for k in range(n)
    ]
    return "".join(json.dumps(record) + "\n" for record in [observation, *decisions])


@pytest.mark.parametrize(
    ("name", "content", "target"),
    [
        ("log.json", dsjson(), "log.json"),
        ("log.json", "\ufeff" + dsjson(), "log.json"),
        ("d/log.json", dsjson(), "d/*.json"),
        ("d/log.dsjson", dsjson(), "d"),
        ("log.dat", ADF, "log.dat"),
        ("log.ldf", ADF, "log.ldf"),
        ("log.txt", "1:0:0.5 | a\n2:-1:0.5 tag| b\n", "log.txt"),
    ],
)
def test_logs_are_recognised(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str, content: str, target: str
) -> None:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(content, encoding="utf-8")
    run(f"check {target} --json")
    report = json.loads(capsys.readouterr().out)
    assert report["log"].startswith("Log(")
    assert report["reading"]["files"] == [str(Path(target).parent / path.name) if "*" in target else name]
    if "json" in name:
        assert report["reading"]["left_out"] == [{"reason": "observation without a decision", "count": 1}]
        assert report["reading"]["interactions"] == ["shared x action"]


def test_interactions_are_an_option(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "log.dsjson").write_text(dsjson())
    for words, expected in (("none", []), ("UA", ["UA"]), ("auto", ["shared x action"])):
        run(f"check log.dsjson --interactions {words} --json")
        assert json.loads(capsys.readouterr().out)["reading"]["interactions"] == expected


def test_what_was_left_out_is_in_the_result(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "log.dsjson").write_text(dsjson())
    assert run("evaluate log.dsjson --policy uniform --evaluator ips --json") == 0
    assert "Reading left out 1 (observation without a decision)." in capsys.readouterr().out


def test_the_format_is_named_where_a_file_is_not_recognised(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "log.csv").write_text("a,b\n1,2\n")
    assert run("check log.csv") == 2
    assert "--format vw for a log of Vowpal Wabbit" in " ".join(capsys.readouterr().err.split())


def test_a_table_with_bars_is_no_log_of_vowpal_wabbit(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "log.txt").write_text("hour|shown|click\n7|mail|1\n")
    assert run("check log.txt") == 2
    assert "the column of the action" in " ".join(capsys.readouterr().err.split())
