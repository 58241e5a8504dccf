"""Reports from saved results, plans, Ctrl-C, shell completion, and the manual's page."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from backcast.cli import main
from backcast.cli.progress import catch_interrupt
from tools.cli_page import cli_page

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden" / "cli"
COLUMNS = "log.csv --action shown --reward click --propensity p"
PLAN = f"{COLUMNS} --policy a=uniform --policy 'b=fixed:probabilities=[0.25,0.75]' --evaluator ips --difference 0.1"
ASSUMED = "--reward-sd 0.5 --weight 2 --horizon 10 --difference 0.1 --difference 0.2"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a log of 400 events: two actions at even odds that pay 1 in 4 and 3 in 4 times."""
    rows = [f"{'ab'[k % 2]},{int((k // 2) % 4 < (1, 3)[k % 2])},0.5" for k in range(400)]
    (tmp_path / "log.csv").write_text("\n".join(["shown,click,p", *rows]) + "\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("COLUMNS", "100")
    return tmp_path


def run(words: str) -> int:
    return main(shlex.split(words))


def run_process(words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "backcast.cli", *shlex.split(words)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, env={**os.environ, **environment}
    )


def tidy(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines()) + "\n"


def golden(name: str) -> str:
    return (GOLDEN / name).read_text(encoding="utf-8")


class TestReport:
    def test_the_page_is_made_again_without_the_log(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        words = f"compare {PLAN.partition(' --difference')[0]} --report first.html --save-json result.json"
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
        assert run(f"evaluate {COLUMNS} --policy uniform --evaluator ips --save-json result.json --json") == 0
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
        assert run(f"evaluate {COLUMNS} --policy uniform --evaluator ips --save-json {name}") == 2
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


class TestPlan:
    def test_from_assumptions(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(f"plan {ASSUMED}") == 0
        assert tidy(capsys.readouterr().out) == golden("plan-assumed.txt")

    def test_from_a_pilot(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(f"plan {PLAN} --html plan.html --png plan.png --svg plan.svg") == 0
        printed = capsys.readouterr()
        assert tidy(printed.out) == golden("plan.txt")
        assert printed.err.count("The chart is in") == 3
        page = (folder / "plan.html").read_text(encoding="utf-8")
        assert not re.search(r"<script[^>]+src=", page)

    def test_json_is_that_of_the_library(self, capsys: pytest.CaptureFixture[str]) -> None:
        import backcast as bc

        assert run(f"plan {ASSUMED} --power 0.9 --level 0.9 --json") == 0
        assumed = bc.PlanAssumptions(reward_sd=0.5, weight=2, horizon=10)
        expected = bc.plan(assumed, [0.1, 0.2], power=0.9, level=0.9).to_dict()
        assert json.loads(capsys.readouterr().out, parse_constant=pytest.fail) == json.loads(json.dumps(expected))

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            ("plan --reward-sd 1 --weight 2", "the difference to detect is missing"),
            ("plan --difference 0.1", "there is neither a pilot log nor an assumption"),
            (f"plan {COLUMNS} --policy uniform --difference 0.1", "a comparison needs two"),
            (f"plan {ASSUMED} --png no/plan.png", "the chart cannot be written to 'no/plan.png'"),
        ],
    )
    def test_bad_input(self, words: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(words) == 2
        assert message in capsys.readouterr().err


# A policy that learns five times per pass, and sends a signal to its process after ``at`` updates.
STOPS = """
import os, signal
import numpy as np

class Stops:
    learnt = 0

    def __init__(self, at=1000):
        self.at, self.sums, self.counts = at, np.ones(2), np.full(2, 2.0)

    def probabilities(self, contexts, available=None):
        best = np.arange(2) == np.argmax(self.sums / self.counts)
        return np.tile(np.where(best, 0.9, 0.1), (len(contexts), 1))

    def learn(self, contexts, actions, rewards, probabilities):
        np.add.at(self.sums, actions, rewards)
        np.add.at(self.counts, actions, 1)
        Stops.learnt += 1
        if Stops.learnt == self.at:
            os.kill(os.getpid(), signal.SIGINT)
"""
CLOCK = f"{COLUMNS} --evaluator clock --horizon 5"


class TestInterrupt:
    @pytest.fixture(autouse=True)
    def policy(self, folder: Path) -> None:
        (folder / "stops.py").write_text(STOPS)

    def test_the_estimate_so_far_is_printed(self) -> None:
        done = run_process(f"evaluate {CLOCK} --policy a=stops:Stops --policy b=ucb1 --save-json result.json")
        assert done.returncode == 130
        assert tidy(done.stdout) == golden("partial.txt")
        lines = done.stderr.strip().splitlines()
        assert lines[0] == "stopping: the estimate so far follows; press Ctrl-C again to leave at once"
        assert lines[1] == "stopped before b"
        assert lines[-1] == "interrupted"
        assert json.loads(Path("result.json").read_text())["partial"] is True

    def test_so_is_the_comparison(self) -> None:
        done = run_process(f"compare {CLOCK} --policy a=stops:Stops --policy b=ucb1 --json")
        assert done.returncode == 130
        document = json.loads(done.stdout)
        assert document["partial"] is True
        assert list(document["estimates"]) == ["a", "b"]
        assert len(document["differences"]) == 1
        assert done.stderr == "interrupted\n"

    def test_nothing_is_printed_before_the_first_estimate(self) -> None:
        done = run_process(f"evaluate {COLUMNS} --evaluator dr-ns --horizon 300 --policy 'stops:Stops:at=1' --quiet")
        assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")

    def test_the_handler_is_restored(self) -> None:
        import signal

        before = signal.getsignal(signal.SIGINT)
        with catch_interrupt(quiet=True) as interrupt:
            assert signal.getsignal(signal.SIGINT) is not before
            interrupt.raise_if_requested()
        assert signal.getsignal(signal.SIGINT) is before


class TestCompletion:
    @pytest.mark.parametrize(
        ("words", "offered"),
        [
            ("backcast ev", {"evaluate"}),
            ("backcast evaluate log.csv --policy lin", {"linucb"}),
            ("backcast compare log.csv --evaluator sn", {"snips", "sndr"}),
            ("backcast plan --rew", {"--reward", "--reward-range", "--reward-sd"}),
        ],
    )
    def test_of_commands_options_and_names(self, words: str, offered: set[str]) -> None:
        environment = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
        done = run_process("", _BACKCAST_COMPLETE="complete_bash", **environment)
        assert set(done.stdout.split()) == offered

    def test_the_script_is_shown(self) -> None:
        done = run_process("", _BACKCAST_COMPLETE="source_bash")
        assert "complete" in done.stdout
        assert "_BACKCAST_COMPLETE=complete_bash" in done.stdout


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
