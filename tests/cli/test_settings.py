"""Run files: one schema for flags and files, flags override files, and misspelt keys are refused."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backcast.cli import main
from backcast.cli.init import toml_value
from backcast.cli.options import KEYS
from backcast.cli.settings import merge_settings
from backcast.errors import OptionError, SourceError

RUN_FILE = """
log = "data/log.csv"
context = "hour"
action = "shown"
reward = "click"
propensity = "p"
reward_range = [0, 1]
evaluator = "ips"
level = 0.9
report = "report.html"
save_json = "result.json"

[policies]
even = "uniform"
more = { kind = "fixed", probabilities = [0.25, 0.75] }
"""
ROWS = "hour,shown,click,p\n1,0,1,0.5\n2,1,1,0.5\n3,0,0,0.5\n4,1,1,0.5\n"


@pytest.fixture(autouse=True)
def folder(folder: Path) -> Path:
    """A run file in a folder below the current one, with its log in a folder below that."""
    (folder / "runs" / "data").mkdir(parents=True)
    (folder / "runs" / "data" / "log.csv").write_text(ROWS)
    (folder / "runs" / "run.toml").write_text(RUN_FILE)
    return folder


def result(words: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert main([*words, "--json"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


class TestRuns:
    def test_paths_start_from_the_files_folder(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        document = result(["evaluate", "runs/run.toml"], capsys)
        assert document["log"]["log"] == str(Path("runs", "data", "log.csv"))
        assert (folder / "runs" / "report.html").exists()
        assert json.loads((folder / "runs" / "result.json").read_text())["estimates"] == document["estimates"]

    def test_a_run_file_equals_flags(self, capsys: pytest.CaptureFixture[str]) -> None:
        from_file = result(["evaluate", "runs/run.toml"], capsys)["estimates"]
        columns = ["--context", "hour", "--action", "shown", "--reward", "click", "--propensity", "p"]
        columns += ["--reward-range", "0", "1"]
        policies = ["--policy", "even=uniform", "--policy", "more=fixed:probabilities=[0.25,0.75]"]
        words = ["evaluate", "runs/data/log.csv", *columns, *policies, "--evaluator", "ips", "--level", "0.9"]
        assert result(words, capsys)["estimates"] == from_file

    def test_flags_override_the_file(self, capsys: pytest.CaptureFixture[str]) -> None:
        document = result(["evaluate", "runs/run.toml", "--level", "0.5", "--policy", "only=uniform"], capsys)
        assert list(document["estimates"]) == ["only"]
        assert document["estimates"]["only"]["interval"]["level"] == 0.5

    @pytest.mark.parametrize("command", ["compare", "check"])
    def test_other_commands_take_the_same_file(self, command: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert main([command, "runs/run.toml", "--json"]) in (0, 1)
        assert json.loads(capsys.readouterr().out)

    def test_a_constant_propensity_and_one_that_is_estimated(
        self, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        rng = np.random.default_rng(0)
        rows = "\n".join(f"{a},{b}" for a, b in rng.integers(2, size=(200, 2)))
        (folder / "short.csv").write_text(f"a,r\n{rows}\n")
        words = ["evaluate", "short.csv", "--action", "a", "--reward", "r", "--policy", "uniform", "--evaluator", "ips"]
        constant = result([*words, "--propensity", "0.5"], capsys)["estimates"]["uniform"]
        estimated = result([*words, "--estimate-propensities"], capsys)["estimates"]["uniform"]
        assert constant["diagnostics"]["propensities_estimated"] is False
        assert estimated["diagnostics"]["propensities_estimated"] is True

    def test_a_module_beside_the_run_file_is_found(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (folder / "runs" / "beside.py").write_text("from backcast import Uniform\ndef make(): return Uniform()\n")
        text = RUN_FILE.replace('even = "uniform"', 'even = "beside:make"')
        (folder / "runs" / "run.toml").write_text(text)
        assert list(result(["evaluate", "runs/run.toml"], capsys)["estimates"]) == ["even", "more"]

    def test_a_log_of_vowpal_wabbit_needs_no_columns(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (folder / "day.vw").write_text("1:0.5:0.25 | age:2 new\n2:-1:0.75 | age:3\n" * 4)
        words = ["evaluate", "day.vw", "--policy", "uniform", "--evaluator", "ips", "--hash-size", "4"]
        assert result(words, capsys)["log"]["features"] == 4


BAD = {
    'horzion = 5\nlog = "x"': "there is no setting 'horzion'; did you mean 'horizon'? Settings: log, context, ",
    "log = 3": "log is 3; it must be text",
    "horizon = 'many'": "horizon is 'many'; it must be a whole number, or a span of time such as '1d'",
    "horizon = 2.5": "horizon is 2.5; it must be a whole number",
    "horizon = true": "horizon is True; it must be a whole number",
    "level = 'high'": "level is 'high'; it must be a number",
    "reward_range = [0]": "reward_range is [0]; it must be two numbers",
    "exchangeable = 1": "exchangeable is 1; it must be true or false",
    "context = [1]": "context is [1]; it must be text, or a list of texts",
    "policies = ['uniform']": "policies is ['uniform']; it must be a table of names and policies",
    "[log]\npath = 'x'": "log is {'path': 'x'}; it must be text",
    "jobs = 0": "jobs is 0; it must be at least 1",
    "horizon 5": "this is not TOML (Expected '=' after a key",
}
WRONG = {
    "": "the policy is missing; give it as policies = ...",
    "policies = {a = 'uniform'}": "the log is missing; name a file, or a run file that has log",
    "log = 'data/log.csv'\npolicies = {a = 'uniform'}": "(or --format vw for a log of Vowpal Wabbit) is missing",
    "log = 'data/log.csv'\npolicies = {a = {alpha = 1}}": "the policy 'a' has no kind; write a = { kind = \"linucb\"",
    "log = 'data/log.csv'\npolicies = {a = {kind = 'linucb', alfa = 1}}": "linucb has no option 'alfa'; did you mean",
    "log = 'data/log.csv'\npolicies = {a = 'uniform'}\nsave_json = 'no/r.json'": "the result cannot be written to",
    "log = 'data/log.csv'\npolicies = {a = 'uniform'}\nsave_json = 'r.html'": "but the result is saved as JSON",
}


class TestSlips:
    @pytest.mark.parametrize("text", BAD)
    def test_of_a_key(self, text: str, folder: Path) -> None:
        (folder / "bad.toml").write_text(text)
        with pytest.raises((OptionError, SourceError)) as error:
            merge_settings("bad.toml", {})
        assert f"bad.toml: {BAD[text]}" in str(error.value)

    @pytest.mark.parametrize("text", WRONG)
    def test_of_a_run(self, text: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (folder / "runs" / "bad.toml").write_text(text)
        assert main(["evaluate", "runs/bad.toml"]) == 2
        assert WRONG[text] in capsys.readouterr().err

    def test_of_the_file(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["evaluate", "none.toml"]) == 2
        assert capsys.readouterr().err == "error: none.toml: cannot be read (No such file or directory)\n"


class TestSchema:
    def test_a_flag_for_every_key_and_a_key_for_every_flag(self, capsys: pytest.CaptureFixture[str]) -> None:
        flags = set()
        for command in ("evaluate", "compare", "search", "plan"):
            main([command, "--help"])
            flags |= set(capsys.readouterr().out.replace("…", "").split())
        shown = {flag for flag in flags if flag.startswith("--")}
        for option in KEYS.values():
            name = option.flag.partition("/")[0]
            assert any((name.startswith(flag) and len(flag) > 12) or name == flag for flag in shown), name

    @given(st.text(), st.floats(allow_nan=False, allow_infinity=False), st.integers(-(2**62), 2**62))
    def test_values_come_through_toml(self, text: str, number: float, whole: int) -> None:
        values = [text.encode(errors="ignore").decode(), number, whole]
        for value in values:
            assert tomllib.loads(f"x = {toml_value(value)}") == {"x": value}
