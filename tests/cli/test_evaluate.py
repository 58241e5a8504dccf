"""``backcast evaluate``: table, JSON, report, and the warning about drift."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest

import backcast as bc
from backcast.cli.progress import drift_warnings_as_lines
from tests.support.cli import EVALUATE, golden, run, tidy, write_even_log


class TestEvaluate:
    def test_table_verdict_and_notes(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(f"{EVALUATE} --policy uniform --policy 'fixed:probabilities=[0.25,0.75]' --evaluator ips") == 0
        printed = capsys.readouterr()
        assert tidy(printed.out) == golden("evaluate.txt")
        assert printed.err == ""

    def test_quiet_prints_only_the_table(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(f"{EVALUATE} --policy uniform --evaluator ips --quiet") == 0
        assert tidy(capsys.readouterr().out) == golden("quiet.txt")

    def test_json_prints_nothing_else(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert (
            run(f"{EVALUATE} --policy uniform --policy ucb1 --not-exchangeable --json --seed 3 --reward-range 0 1") == 0
        )
        printed = capsys.readouterr()
        payload = json.loads(printed.out, parse_constant=pytest.fail)
        assert printed.err == ""
        assert payload["log"] == {
            "log": "log.csv",
            "events": 8,
            "actions": 2,
            "features": 1,
            "average reward in the log": 0.625,
        }
        assert (payload["format"], payload["version"], payload["partial"]) == ("backcast result", 1, False)
        assert list(payload["estimates"]) == ["uniform", "ucb1"]
        for estimate in payload["estimates"].values():
            assert set(estimate) == {
                *("value", "std_error", "interval", "diagnostics", "policy", "evaluator"),
                *("horizon", "curve", "notes", "settings", "lift", "break_even", "after_learning", "reliability"),
                "bias_estimate",
            }
            assert estimate["settings"]["seed"] == 3

    def test_numbers_are_those_of_the_library(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(f"{EVALUATE} --policy linucb:alpha=0.5 --evaluator dr-ns:q=0.05 --seed 7 --json") == 0
        log = bc.read_log("log.csv", context="hour", action="shown", reward="click", propensity="p")
        expected = bc.evaluate(log, bc.LinUCB(0.5), bc.DRns(q=0.05), seed=7).to_dict()
        assert json.loads(capsys.readouterr().out)["estimates"]["linucb:alpha=0.5"] == expected

    def test_horizon_level_and_interval_reach_the_evaluator(self, capsys: pytest.CaptureFixture[str]) -> None:
        words = "--policy ucb1 --evaluator rs --horizon 1 --level 0.5 --interval segments:count=2 --json"
        assert run(f"{EVALUATE} {words}") == 0
        document = json.loads(capsys.readouterr().out)["estimates"]["ucb1"]
        assert (document["horizon"], document["interval"]["level"]) == (1, 0.5)
        assert document["interval"]["method"] == "2 disjoint segments"

    def test_contexts_by_pattern(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (folder / "wide.csv").write_text("f_1,f_2,x,a,r,p\n1,2,3,0,1,0.5\n3,4,5,1,0,0.5\n")
        words = "evaluate wide.csv --context 'f_*' --context x --action a --reward r --propensity p"
        assert run(f"{words} --policy uniform --evaluator ips --json") == 0
        assert json.loads(capsys.readouterr().out)["log"]["features"] == 3

    def test_report_is_written_and_its_path_printed(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(f"{EVALUATE} --policy uniform --evaluator ips --report r.html") == 0
        assert f"The report is in {(folder / 'r.html').resolve()}" in capsys.readouterr().err
        assert "log.csv" in (folder / "r.html").read_text(encoding="utf-8")

    def test_labels_and_names_are_not_markup(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (folder / "own.py").write_text("from backcast import Uniform\ndef f(note): return Uniform()\n")
        assert run(f"{EVALUATE} --policy 'own:f:note=[red]x[/red]' --evaluator ips") == 0
        assert "[red]x[/red]" in capsys.readouterr().out


class TestDrift:
    @pytest.mark.parametrize("words", ["", "--exchangeable", "--json"])
    def test_a_warning_is_printed_once_in_one_line(
        self, words: str, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        write_even_log(folder / "log.csv", drifting=True)
        policies = "--policy ucb1 --policy round-robin --horizon 5"
        assert run(f"{EVALUATE} {policies} --replicates {'60' if words == '--exchangeable' else 'none'} {words}") == 0
        warning = capsys.readouterr().err
        overruled = (
            "" if words == "--exchangeable" else "; it is evaluated in log order. Pass --exchangeable to override"
        )
        assert warning.startswith(f"warning: rewards drift along the log, so its order may matter{overruled}")
        assert warning.count("\n") == 1

    def test_an_order_known_to_matter_needs_no_warning(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        write_even_log(folder / "log.csv", drifting=True)
        assert run(f"{EVALUATE} --policy ucb1 --not-exchangeable --json") == 0
        assert capsys.readouterr().err == ""

    def test_other_warnings_are_left_as_they_are(self) -> None:
        with pytest.warns(UserWarning, match="odd"), drift_warnings_as_lines():
            warnings.warn("odd", UserWarning, stacklevel=1)
