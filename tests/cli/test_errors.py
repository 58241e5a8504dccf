"""Invalid input, interrupts and closed pipes: one line and an exit code."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cli import COLUMNS, COMPARE, EIGHT_EVENTS, EVALUATE, golden, run, run_process

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
    "a file that is not there": f"evaluate lgo.csv {COLUMNS} --policy uniform",
    "a misspelt column": "evaluate log.csv --action shwon --reward click --propensity p --policy uniform",
    "a bad row": f"evaluate bad.csv {COLUMNS} --policy uniform",
    "a level out of range": f"{EVALUATE} --policy uniform --level 95",
    "a learner given to ips": f"{EVALUATE} --policy ucb1 --evaluator ips",
    "a horizon out of reach": f"{EVALUATE} --policy ucb1 --evaluator rs --horizon 1000",
    "probabilities of the wrong length": f"{EVALUATE} --policy fixed:probabilities=[1.0] --evaluator ips",
    "a report with nowhere to go": f"{EVALUATE} --policy uniform --report no/report.html",
    "a seed below zero": f"{EVALUATE} --policy uniform --seed -1",
    "no job at all": f"{EVALUATE} --policy uniform --jobs 0",
    "replicates that are no number": f"{EVALUATE} --policy ucb1 --replicates some",
    "too few replicates": f"{EVALUATE} --policy ucb1 --evaluator clock --horizon 2 --interval group-jackknife "
    "--replicates 20",
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
        (folder / "bad.csv").write_text(EIGHT_EVENTS.replace("3,mail,0,0.5", "3,mail,0,0"))
        assert run(words) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        assert re.fullmatch(r"error: .+\n", printed.err)

    def test_messages(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        names = [name for name in BAD if name not in WORDED_BY_TYPER]
        (folder / "bad.csv").write_text(EIGHT_EVENTS.replace("3,mail,0,0.5", "3,mail,0,0"))
        lines = []
        for name in names:
            run(BAD[name])
            lines.append(f"{name}\n    {capsys.readouterr().err}")
        assert "\n".join(lines) == golden("errors.txt")

    @pytest.mark.slow
    def test_the_second_interrupt_is_one_line_and_code_130(self, folder: Path) -> None:
        # real signals, sent by the policy to its own process in the middle of the work
        (folder / "stops.py").write_text(
            "import os, signal\n"
            "class Stops:\n"
            "    def probabilities(self, contexts, available=None):\n"
            "        os.kill(os.getpid(), signal.SIGINT)\n"
            "        os.kill(os.getpid(), signal.SIGINT)\n"
        )
        stopped = run_process(f"{EVALUATE} --policy stops:Stops --evaluator ips --quiet")
        assert (stopped.returncode, stopped.stdout, stopped.stderr.strip()) == (130, "", "interrupted")

    @pytest.mark.slow
    def test_a_closed_pipe_ends_the_command_without_a_message(self, folder: Path) -> None:
        command = [sys.executable, "-m", "backcast.cli", *shlex.split(f"{EVALUATE} --policy uniform --json")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.close()
            assert process.stderr.read() == b""
        assert process.returncode == 1
