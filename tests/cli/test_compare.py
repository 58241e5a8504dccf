"""``backcast compare``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import backcast as bc
from tests.support.cli import COMPARE, EVEN_AND_MORE, golden, run, tidy, write_even_log

SMALL = "--policy one='fixed:probabilities=[0,1]' --policy zero='fixed:probabilities=[1,0]' --evaluator clock"
SMALL_RUN = "--horizon 10 --replicates 60"


class TestCompare:
    def test_table_differences_and_ranking(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(f"{COMPARE} {EVEN_AND_MORE} --report r.html") == 0
        printed = capsys.readouterr()
        assert tidy(printed.out) == golden("compare.txt")
        assert printed.err == f"The report is in {(folder / 'r.html').resolve()}\n"
        assert "even minus more" in (folder / "r.html").read_text(encoding="utf-8")

    def test_signs_and_verdict_of_table_and_json_agree(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(f"{COMPARE} {EVEN_AND_MORE} --json") == 0
        document = json.loads(capsys.readouterr().out)
        [difference] = document["differences"]
        assert (difference["first"], difference["second"], difference["value"]) == ("even", "more", -0.0625)
        assert "even minus more   -0.06" in golden("compare.txt")
        assert document["ranking"] == []
        assert (document["verdict"]["decision"], document["verdict"]["policy"]) == ("not trustworthy", "more")
        assert document["estimates"]["more"]["reliability"]["grade"] == "poor"

    @pytest.mark.slow
    def test_json_is_that_of_the_library(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        write_even_log(folder / "log.csv")
        assert run(f"{COMPARE} {SMALL} {SMALL_RUN} --seed 2 --jobs 2 --json") == 0
        printed = capsys.readouterr()
        log = bc.read_log("log.csv", context="hour", action="shown", reward="click", propensity="p")
        policies = {"one": bc.Fixed([0, 1]), "zero": bc.Fixed([1, 0])}
        expected = bc.compare(log, policies, bc.ClockReplay(), horizon=10, replicates=60, seed=2).to_dict()
        document = json.loads(printed.out, parse_constant=pytest.fail)
        assert document["log"]["events"] == 400
        assert {key: document[key] for key in expected} == expected
        assert printed.err == ""

    def test_fixed_policies_are_compared_by_auto(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        write_even_log(folder / "log.csv")
        assert run(f"{COMPARE} --policy even=uniform --policy 'fixed:probabilities=[0,1]' --json") == 0
        document = json.loads(capsys.readouterr().out)
        assert [entry["policy"] for entry in document["ranking"]] == ["fixed:probabilities=[0,1]", "even"]
