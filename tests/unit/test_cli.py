"""The command line: what it prints, how it fails, and that it starts quickly."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import backcast as bc
from backcast._progress import progress_bar
from backcast.cli import main
from backcast.cli.objects import EVALUATORS, INTERVALS, POLICIES, Registry, build
from backcast.cli.progress import drift_warnings_as_lines, watch_run
from backcast.cli.run import RunOptions
from backcast.demo_data import ARTICLES, COLUMNS, FEATURES, news_log, write_news
from backcast.errors import OptionError

GOLDEN = Path(__file__).parents[1] / "golden" / "cli"
HEAVY = ("numba", "pyarrow", "sklearn", "altair", "scipy", "vl_convert", "jinja2")

# Eight events, even odds: mail earned 1, 0, 1, 0 and none 1, 1, 1, 0. By hand, the inverse propensity score of
# (1/4, 3/4) is (2 * 1/2 + 3 * 3/2) / 8 = 0.6875, and that of the uniform policy 5/8.
LOG = """hour,shown,click,p
1,mail,1,0.5
2,none,1,0.5
3,mail,0,0.5
4,none,1,0.5
5,mail,1,0.5
6,none,1,0.5
7,mail,0,0.5
8,none,0,0.5
"""
COLUMNS_OF_LOG = "--context hour --action shown --reward click --propensity p"
EVALUATE = f"evaluate log.csv {COLUMNS_OF_LOG}"
COMPARE = f"compare log.csv {COLUMNS_OF_LOG}"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new folder with a small log, and a terminal of known width."""
    (tmp_path / "log.csv").write_text(LOG)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def run(words: str) -> int:
    return main(shlex.split(words))


def run_process(*words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "backcast.cli", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **options)


def tidy(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines()) + "\n"


def golden(name: str) -> str:
    return (GOLDEN / name).read_text(encoding="utf-8")


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
                *("horizon", "curve", "notes", "settings"),
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


def write_even_log(path: Path, events: int = 400, *, drifting: bool = False) -> None:
    """Even odds between two actions; the second earns 3/4 and the first 1/4, or more and more if drifting."""
    rng = np.random.default_rng(0)
    actions = rng.integers(2, size=events)
    chance = np.linspace(0, 1, events) if drifting else np.where(actions == 1, 0.75, 0.25)
    rewards = (rng.random(events) < chance).astype(int)
    rows = (f"{rng.random():.6f},{'ab'[action]},{reward},0.5" for action, reward in zip(actions, rewards, strict=True))
    path.write_text("\n".join(["hour,shown,click,p", *rows]) + "\n")


EVEN_AND_MORE = "--policy even=uniform --policy 'more=fixed:probabilities=[0.25,0.75]' --evaluator ips"
SMALL = "--policy one='fixed:probabilities=[0,1]' --policy zero='fixed:probabilities=[1,0]' --evaluator clock"
SMALL_RUN = "--horizon 10 --replicates 60"


class TestCompare:
    def test_table_differences_and_ranking(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(f"{COMPARE} {EVEN_AND_MORE} --report r.html") == 0
        printed = capsys.readouterr()
        assert tidy(printed.out) == golden("compare.txt")
        assert printed.err == f"The report is in {(folder / 'r.html').resolve()}\n"
        assert "more minus even" in (folder / "r.html").read_text(encoding="utf-8")

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


CHECK = f"check log.csv {COLUMNS_OF_LOG}"


class TestCheck:
    def test_a_sound_log_is_code_0(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        write_even_log(folder / "log.csv")
        assert run(f"{CHECK} --policy ucb1") == 0
        printed = capsys.readouterr()
        assert re.search(r"^ +ok +duplicates +0 +no more events repeat", printed.out, re.MULTILINE)
        assert "UCB1(exploration=1, batch_size=1): effective sample size 400" in printed.out
        assert printed.out.endswith("Log(400 events, 2 actions, 1 feature): no problem found.\n")
        assert printed.err == ""

    def test_a_fault_is_code_1_with_its_remedy(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        write_even_log(folder / "log.csv")
        spoilt = (folder / "log.csv").read_text().replace(",0.5\n", ",0.9\n")
        (folder / "log.csv").write_text(spoilt)
        assert run(f"{CHECK} --quiet") == 1
        printed = capsys.readouterr().out
        assert re.search(r"^ +fail +constant propensity +0\.9 +every propensity is 0\.9", printed, re.MULTILINE)
        assert "→ Record the probability of the action taken" in printed
        assert " ok " not in printed
        assert re.search(r"failed, \d+ warned, of \d+ checks; do not rely on estimates", printed)

    def test_json_is_that_of_the_library(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        write_even_log(folder / "log.csv")
        assert run(f"{CHECK} --policy linucb --json") == 0
        log = bc.read_log("log.csv", context="hour", action="shown", reward="click", propensity="p")
        assert json.loads(capsys.readouterr().out, parse_constant=pytest.fail) == bc.check(log, bc.LinUCB()).to_dict()

    def test_logs_of_vowpal_wabbit_need_no_columns(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        rng = np.random.default_rng(0)
        lines = "".join(f"{a}:{1 - a}:0.5 | hour:{rng.random():.3f}\n" for a in rng.integers(1, 3, 400))
        (folder / "log.vw").write_text(lines)
        (folder / "log.dat").write_text(lines.replace(":0.5 ", ":0.9 "))
        assert run("check log.vw --policy 'fixed:probabilities=[0.25,0.75]' --json") == 0
        document = json.loads(capsys.readouterr().out)
        assert document == bc.check(bc.read_vw("log.vw"), bc.Fixed([0.25, 0.75])).to_dict()
        assert document["policy"]["evaluator"] == "ShrinkageDR()"
        assert run("check log.dat --format cb --quiet") == 1
        assert "fail      constant propensity" in capsys.readouterr().out
        assert run("evaluate log.dat --format vw --policy uniform --evaluator ips --json") == 0
        estimates = json.loads(capsys.readouterr().out)["estimates"]
        # the second action earns 1, has about half of the events, and weighs 0.5 / 0.9
        assert estimates["uniform"]["value"] == pytest.approx(0.5 * 0.5 / 0.9, abs=0.05)

    def test_a_parquet_file_is_examined_like_a_csv(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        write_even_log(folder / "log.csv")
        pq.write_table(pyarrow.csv.read_csv(folder / "log.csv"), folder / "log.parquet")
        printed = []
        for words in (CHECK, CHECK.replace("log.csv", "log.parquet")):
            assert run(f"{words} --json --policy uniform") == 0
            printed.append(capsys.readouterr().out)
        assert printed[0] == printed[1]

    def test_drift_is_no_fault_where_the_order_matters(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        write_even_log(folder / "log.csv", 1000, drifting=True)
        verdicts = []
        for words in ("", "--not-exchangeable"):
            run(f"{CHECK} {words} --json")
            findings = json.loads(capsys.readouterr().out)["findings"]
            verdicts += [finding["verdict"] for finding in findings if finding["name"] == "reward_drift"]
        assert verdicts == ["warn", "ok"]


class TestOwnPolicies:
    def test_module_of_the_current_folder(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (folder / "mine.py").write_text(
            "import numpy as np\n"
            "class Always:\n"
            "    def __init__(self, action=0):\n"
            "        self.action = action\n"
            "    def probabilities(self, contexts, available=None):\n"
            "        return np.tile(np.arange(2) == self.action, (len(contexts), 1)).astype(float)\n"
        )
        assert run(f"{EVALUATE} --policy mine:Always --policy mine:Always:action=1 --evaluator ips --json") == 0
        estimates = json.loads(capsys.readouterr().out)["estimates"]
        # the two mails that were clicked count double, out of eight events; so do the three of the other kind
        assert [estimate["value"] for estimate in estimates.values()] == [0.5, 0.75]

    def test_what_is_no_policy_is_refused(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (folder / "odd.py").write_text("make = dict\nvalue = 3\n")
        assert run(f"{EVALUATE} --policy odd:make") == 2
        assert "is not a policy" in capsys.readouterr().err
        assert run(f"{EVALUATE} --policy odd:value") == 2
        assert "odd:value is a int; give a function or class" in capsys.readouterr().err
        assert run(f"{EVALUATE} --policy odd:mkae") == 2
        assert "module 'odd' has no 'mkae'; did you mean 'make'?" in capsys.readouterr().err

    def test_a_bug_in_own_code_keeps_its_traceback(self, folder: Path) -> None:
        (folder / "broken.py").write_text("def make():\n    return 1 / 0\n")
        with pytest.raises(ZeroDivisionError):
            run(f"{EVALUATE} --policy broken:make")


BAD = {
    "a misspelt command": "evalute log.csv",
    "no policy": EVALUATE,
    "an unknown option": f"{EVALUATE} --policy uniform --evalutor ips",
    "a word for a number": f"{EVALUATE} --policy ucb1 --horizon many",
    "a misspelt policy": f"{EVALUATE} --policy linubc",
    "a misspelt evaluator": f"{EVALUATE} --policy uniform --evaluator drns",
    "a misspelt setting": f"{EVALUATE} --policy linucb:alfa=1",
    "a setting without a value": f"{EVALUATE} --policy linucb:alpha",
    "a setting that is no number": f"{EVALUATE} --policy linucb:alpha=big",
    "a setting out of range": f"{EVALUATE} --policy epsilon-greedy:epsilon=2",
    "a setting that is missing": f"{EVALUATE} --policy fixed",
    "a module that is not there": f"{EVALUATE} --policy nowhere:make",
    "a policy given twice": f"{EVALUATE} --policy uniform --policy uniform",
    "a file that is not there": f"evaluate lgo.csv {COLUMNS_OF_LOG} --policy uniform",
    "a misspelt column": "evaluate log.csv --action shwon --reward click --propensity p --policy uniform",
    "a bad row": f"evaluate bad.csv {COLUMNS_OF_LOG} --policy uniform",
    "a level out of range": f"{EVALUATE} --policy uniform --level 95",
    "a learner given to ips": f"{EVALUATE} --policy ucb1 --evaluator ips",
    "a horizon out of reach": f"{EVALUATE} --policy ucb1 --evaluator rs --horizon 1000",
    "probabilities of the wrong length": f"{EVALUATE} --policy fixed:probabilities=[1.0] --evaluator ips",
    "a report with nowhere to go": f"{EVALUATE} --policy uniform --report no/report.html",
    "a seed below zero": f"{EVALUATE} --policy uniform --seed -1",
    "no job at all": f"{EVALUATE} --policy uniform --jobs 0",
    "replicates that are no number": f"{EVALUATE} --policy ucb1 --replicates some",
    "too few replicates": f"{EVALUATE} --policy ucb1 --evaluator clock --horizon 2 --replicates 20",
    "an order that matters": f"{EVALUATE} --policy ucb1 --evaluator clock --horizon 2 --not-exchangeable",
    "a comparison of one": f"{COMPARE} --policy uniform",
    "a comparison without replicates": f"{COMPARE} --policy uniform --policy ucb1 --replicates none",
    "a name given twice": f"{COMPARE} --policy a=uniform --policy a=ucb1",
    "a name without a policy": f"{COMPARE} --policy a= --policy ucb1",
    "a part that no column plays": "evaluate log.csv --action shown --reward click --policy uniform",
    "columns of a log that has none": "check log.dsjson --action shown",
    "a check of no column": "check log.csv --action shown --reward click --propensity q",
}


WORDED_BY_TYPER = {
    "a misspelt command",
    "an unknown option",
    "a word for a number",
    "a seed below zero",
    "no job at all",
}


class TestErrors:
    @pytest.mark.parametrize("words", BAD.values(), ids=BAD)
    def test_bad_input_is_one_line_and_code_2(
        self, words: str, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (folder / "bad.csv").write_text(LOG.replace("3,mail,0,0.5", "3,mail,0,0"))
        assert run(words) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        assert re.fullmatch(r"error: .+\n", printed.err)

    def test_messages(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        names = [name for name in BAD if name not in WORDED_BY_TYPER]
        (folder / "bad.csv").write_text(LOG.replace("3,mail,0,0.5", "3,mail,0,0"))
        lines = []
        for name in names:
            run(BAD[name])
            lines.append(f"{name}\n    {capsys.readouterr().err}")
        assert "\n".join(lines) == golden("errors.txt")

    def test_the_second_interrupt_is_one_line_and_code_130(self, folder: Path) -> None:
        # real signals, sent by the policy to its own process in the middle of the work
        (folder / "stops.py").write_text(
            "import os, signal\n"
            "class Stops:\n"
            "    def probabilities(self, contexts, available=None):\n"
            "        os.kill(os.getpid(), signal.SIGINT)\n"
            "        os.kill(os.getpid(), signal.SIGINT)\n"
        )
        stopped = run_process(*shlex.split(f"{EVALUATE} --policy stops:Stops --evaluator ips --quiet"), cwd=folder)
        assert (stopped.returncode, stopped.stdout, stopped.stderr.strip()) == (130, "", "interrupted")

    def test_a_closed_pipe_ends_the_command_without_a_message(self, folder: Path) -> None:
        command = [sys.executable, "-m", "backcast.cli", *shlex.split(f"{EVALUATE} --policy uniform --json")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.close()
            assert process.stderr.read() == b""
        assert process.returncode == 1


COMMANDS = ["init", "evaluate", "compare", "check", "plan", "report", "demo"]


class TestStart:
    def test_version(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run("--version") == 0
        assert capsys.readouterr().out == f"backcast {bc.__version__}\n"

    def test_no_arguments_print_the_help(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert main([]) == 0
        assert "Usage: backcast" in capsys.readouterr().out

    @pytest.mark.parametrize(
        "words",
        ["--help", "--version", *(f"{command} --help" for command in COMMANDS), "evaluate", "evaluate --horizon x"],
    )
    def test_nothing_heavy_is_imported_for_it(self, words: str) -> None:
        code = (
            f"import sys; from backcast.cli import main; main({words.split()!r}); print(*sys.modules, file=sys.stderr)"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
        loaded = {name.partition(".")[0] for name in done.stderr.split()}
        assert "typer" in loaded
        assert loaded.isdisjoint(HEAVY)

    @pytest.mark.parametrize("command", ["", *(command for command in COMMANDS if command != "check")])
    def test_help_shows_the_exit_codes(self, command: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(f"{command} --help") == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert "0 success; 1 unexpected failure, with a traceback; 2 bad input; 130 interrupted" in shown

    @pytest.mark.parametrize("command", COMMANDS)
    def test_every_command_has_quiet_and_json(self, command: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(f"{command} --help") == 0
        shown = capsys.readouterr().out
        assert "--json" in shown
        assert "--quiet" in shown

    def test_help_of_check_has_exit_codes_of_its_own(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run("check --help") == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert "0 no check failed; 1 at least one failed; 2 bad input; 130 interrupted" in shown


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
        assert "linucb minus random" in printed.out
        assert "auto chose ClockReplay" in printed.out
        assert "embedded: a news page" in (folder / "report.html").read_text(encoding="utf-8")


class TestSpecs:
    @pytest.mark.parametrize("registry", [POLICIES, EVALUATORS, INTERVALS], ids=lambda registry: registry.kind)
    def test_every_name_stands_for_something_public(self, registry: Registry) -> None:
        assert set(registry.names.values()) <= set(bc.__all__)

    def test_every_evaluator_and_interval_has_a_name(self) -> None:
        everything = {name: getattr(bc, name) for name in bc.__all__}
        classes = {name: thing for name, thing in everything.items() if isinstance(thing, type)}
        homes = [name for name, thing in classes.items() if thing.__module__.startswith("backcast.evaluators.")]
        evaluators = {name for name in homes if callable(getattr(classes[name], "estimate", None))}
        assert evaluators == set(EVALUATORS.names.values())
        intervals = {name for name, thing in classes.items() if thing.__module__.startswith("backcast.intervals.")}
        assert intervals == set(INTERVALS.names.values())

    @pytest.mark.parametrize("registry", [EVALUATORS, INTERVALS], ids=lambda registry: registry.kind)
    def test_every_name_alone_makes_one(self, registry: Registry) -> None:
        for name, public in registry.names.items():
            assert type(build(name, registry)) is getattr(bc, public)

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("LinUCB: alpha = 0.25, ridge=2", "LinUCB(alpha=0.25, ridge=2, batch_size=1)"),
            ("epsilon_greedy", "EpsilonGreedy(epsilon=0.1, ridge=1, batch_size=1)"),
            ("fixed:probabilities=[0.25, 0.75]", "Fixed([0.25, 0.75])"),
            ("egreedy:epsilon=0.5", "EpsilonGreedy(epsilon=0.5, ridge=1, batch_size=1)"),
            ("softmax:temperature=0.5,batch_size=4", "Softmax(temperature=0.5, ridge=1, batch_size=4)"),
            ("thompson:scale=1", "LinearThompson(scale=1, ridge=1, batch_size=1)"),
        ],
    )
    def test_policies_in_words(self, text: str, expected: str) -> None:
        assert repr(build(text, POLICIES)) == expected

    def test_evaluators_in_words(self) -> None:
        assert build("dr-ns:q=0.01,c_max=0.5,carry=true", EVALUATORS) == bc.DRns(q=0.01, c_max=0.5, carry=True)
        assert build("dr-ns:q=none", EVALUATORS) == bc.DRns()

    @given(st.floats(0, 1e6), st.integers(1, 10**9))
    def test_numbers_come_through_unchanged(self, alpha: float, batch: int) -> None:
        policy = build(f"linucb:alpha={alpha!r},batch_size={batch}", POLICIES)
        assert (policy.alpha, policy.batch_size) == (alpha, batch)

    @given(st.text(st.characters(exclude_characters=":")))
    def test_any_other_name_is_an_option_error(self, name: str) -> None:
        if name.strip().lower().replace("_", "-") not in POLICIES.names:
            with pytest.raises(OptionError, match="there is no policy"):
                build(name, POLICIES)


class TestProgress:
    @given(st.lists(st.lists(st.integers(0, 150), max_size=4), min_size=1, max_size=4))
    def test_a_task_never_shows_more_than_its_events(self, tasks: list[list[int]]) -> None:
        console = Console(file=io.StringIO(), force_terminal=True)
        with progress_bar(100, len(tasks), console=console) as bar:
            for number, steps in enumerate(tasks):
                bar.start_task(str(number))
                assert bar.completed == 100 * number
                for events in steps:
                    bar.advance(events)
                assert bar.completed == 100 * number + min(100, sum(steps))

    def test_speed_and_names_are_shown_on_a_terminal(self) -> None:
        stream = io.StringIO()
        with progress_bar(100, 1, console=Console(file=stream, force_terminal=True, width=100)) as bar:
            bar.start_task("[b]uniform[/b]")
            bar.advance(50)
            bar.advance(50)
        assert "[b]uniform[/b]" in stream.getvalue()
        assert "events/s" in stream.getvalue()

    def test_the_length_may_be_unknown(self) -> None:
        with progress_bar(None, 2, console=Console(file=io.StringIO(), force_terminal=True)) as bar:
            for number in range(2):
                bar.start_task(str(number))
                bar.advance(50)
        assert bar.completed == 100

    def test_nothing_is_written_without_a_terminal(self, capsys: pytest.CaptureFixture[str]) -> None:
        with watch_run(100, 1, quiet=False) as run:
            run.start_task("uniform")
            run.advance(100)
        assert capsys.readouterr() == ("", "")

    @pytest.mark.parametrize(("disable", "times"), [(False, 1), (True, 0)])
    def test_compilation_is_reported_once(self, disable: bool, times: int) -> None:
        from backcast._kernels.jit import uncached

        stream = io.StringIO()
        with progress_bar(1, 1, console=Console(file=stream), disable=disable):
            uncached(lambda: 1)()
            uncached(lambda: 2)()
        assert stream.getvalue().count("compiling, once") == times

    @pytest.mark.parametrize(
        ("policy", "evaluator", "keywords", "passes"),
        [
            (bc.UCB1(), "auto", {}, 1),
            (bc.UCB1(), "auto", {"horizon": 5}, 91),
            (bc.Uniform(), "auto", {"horizon": 5}, 1),
            (bc.UCB1(), "auto", {"horizon": 5, "exchangeable": False}, 1),
            (bc.UCB1(), "auto", {"horizon": 5, "replicates": None}, 1),
            (bc.UCB1(), bc.ClockReplay(), {"replicates": 60}, 31),
            (bc.UCB1(), bc.DRns(), {"horizon": 5}, 1),
        ],
    )
    def test_replicates_make_a_longer_bar(
        self, policy: Any, evaluator: Any, keywords: dict[str, Any], passes: int
    ) -> None:
        assert RunOptions({"policy": policy}, evaluator, keywords).count_passes() == passes


class TestDemoLog:
    def test_same_seed_same_log(self) -> None:
        first, second, other = news_log(500, seed=1), news_log(500, seed=1), news_log(500, seed=2)
        np.testing.assert_array_equal(first.contexts, second.contexts)
        np.testing.assert_array_equal(first.rewards, second.rewards)
        assert (first.actions != other.actions).any()

    def test_file_gives_back_the_same_log(self, folder: Path) -> None:
        log = news_log(500)
        path = write_news(folder / "news.csv", log)
        read = bc.read_log(
            path,
            context=list(FEATURES),
            action="article",
            reward="clicked",
            propensity="probability",
            action_labels=ARTICLES,
        )
        assert path.read_text().splitlines()[0] == ",".join(COLUMNS)
        for part in ("contexts", "actions", "rewards", "propensities"):
            np.testing.assert_array_equal(getattr(read, part), getattr(log, part))

    def test_a_missing_folder_is_an_option_error(self, folder: Path) -> None:
        with pytest.raises(OptionError, match="cannot be written"):
            write_news(folder / "missing" / "news.csv", news_log(5))

    def test_it_looks_like_a_news_page(self) -> None:
        log = news_log()
        assert 0.02 < log.rewards.mean() < 0.2
        np.testing.assert_allclose(log.contexts[:, :5].sum(axis=1), 1)
        # Mean of 1/p over events is K where every action has support; its standard error here is about 0.056, so that
        # five of them leave a false alarm less than one chance in a million.
        assert abs((1 / log.propensities).mean() - len(ARTICLES)) < 0.28


def test_python_dash_m_is_the_same_program(folder: Path) -> None:
    assert run_process("--version", cwd=folder, env={**os.environ}).stdout == f"backcast {bc.__version__}\n"
