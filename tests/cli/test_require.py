"""``backcast compare --require``: every exit code of a gate, and requirements that are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import backcast as bc
from backcast.cli.requirements import parse_requirement
from tests.support.cli import COMPARE, EVEN_AND_MORE, run, write_even_log

GOOD, BAD, EVEN = (f"--policy {name}='fixed:probabilities={p}'" for name, p in
                   {"good": "[0,1]", "bad": "[1,0]", "even": "[0.5,0.5]"}.items())  # fmt: skip


@pytest.mark.parametrize(
    ("policies", "requirement", "code"),
    [
        (GOOD, "better", 0),
        (BAD, "better", 3),
        (EVEN, "better", 4),
        (GOOD, "not-worse", 0),
        (BAD, "not-worse", 3),
        (EVEN, "not-worse", 0),
        (f"{GOOD} {BAD}", "better", 0),  # the verdict is about the highest value
        (f"{GOOD} {BAD}", "good > logged + 0.1", 0),
        (f"{GOOD} {BAD}", "good>logged+10%", 0),
        (f"{GOOD} {BAD}", "good > logged + 0.9", 3),
        (f"{GOOD} {BAD}", "good > logged + 0.25", 4),
        (f"{GOOD} {BAD}", "bad > logged", 3),
        (f"{GOOD} {BAD}", "bad < logged", 0),
        (f"{GOOD} {BAD}", "logged > bad", 0),
        (f"{GOOD} {BAD}", "good > bad", 0),
        (f"{GOOD} {BAD}", "bad >= good", 3),
        (f"{GOOD} {BAD} --baseline bad", "better", 0),
        (f"{GOOD} {BAD} --baseline bad", "good > bad + 1e-1", 0),
    ],
)
def test_exit_code(policies: str, requirement: str, code: int, folder: Path) -> None:
    write_even_log(folder / "log.csv")
    assert run(f"{COMPARE} {policies} --evaluator ips --require '{requirement}' --quiet") == code


def test_an_estimate_that_is_not_trustworthy_ends_with_5(capsys: pytest.CaptureFixture[str]) -> None:
    """The log of this folder has eight events."""
    for requirement in ("better", "not-worse", "more > logged"):
        assert run(f"{COMPARE} {EVEN_AND_MORE} --require '{requirement}'") == 5
        assert f"Requirement '{requirement}': not trustworthy." in capsys.readouterr().err


def test_several_requirements_are_all_reported(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_even_log(folder / "log.csv")
    requirements = "--require 'good > logged + 0.9' --require 'good > logged + 0.25' --require better"
    assert run(f"{COMPARE} {GOOD} {BAD} --evaluator ips {requirements} --json") == 3
    document = json.loads(capsys.readouterr().out)
    assert [gate["outcome"] for gate in document["requirements"]] == ["contradicted", "unclear", "met"]
    assert document["requirements"][0]["reason"].startswith("good minus logged lies between +0.")
    assert document["verdict"]["decision"] == "better"
    assert document["lifts"]["good"]["relative_interval"]["low"] > 0.1


def test_the_table_starts_with_the_log(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_even_log(folder / "log.csv")
    assert run(f"{COMPARE} {GOOD} --evaluator ips") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[4:6]] == ["logged", "good"]
    text = " ".join(" ".join(lines).split())
    assert "good earns 0.3" in text
    assert "more per round than the log did (+" in text
    assert run(f"{COMPARE} {GOOD} --evaluator ips --baseline none") == 2


@pytest.mark.parametrize(
    ("requirement", "problem"),
    [
        ("", "starts with none of the names"),
        ("best", "starts with none of the names"),
        ("good", "comes one of >=, <=, >, <"),
        ("good > ", "starts with none of the names"),
        ("good > other", "'other' starts with none of the names"),
        ("good > logged * 2", "a margin such as"),
        ("good > logged + 1e999", "finite"),
        ("good > logged + __import__('os')", "a margin such as"),
        ("logged > good + 5 %", "share of the baseline"),
        ("good > good", "no difference"),
    ],
)
def test_a_requirement_that_cannot_be_read_is_refused(
    requirement: str, problem: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_even_log(folder / "log.csv")
    assert run(f'{COMPARE} {GOOD} --evaluator ips --require "{requirement}"') == 2
    error = capsys.readouterr().err
    assert problem in error
    assert error.startswith("error: require is ")


def test_names_may_hold_any_characters() -> None:
    names = ["a", "a > b", "linucb:alpha=0.3", "logged"]
    assert parse_requirement("a > b > logged", names).first == "a > b"
    parsed = parse_requirement("linucb:alpha=0.3 <= a - .5e1 %", names)
    assert (parsed.first, parsed.operator, parsed.second) == ("linucb:alpha=0.3", "<=", "a")
    assert (parsed.margin, parsed.is_share) == (-0.05, True)
    with pytest.raises(bc.OptionError):
        parse_requirement("a > > b", ["a", "b"])
