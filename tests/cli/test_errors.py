"""Invalid input, interrupts and closed pipes: one line and an exit code."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from backcast import errors
from backcast.cli import commands
from tests.support.cli import CHECK, COLUMNS, COMPARE, EIGHT_EVENTS, EVALUATE, golden, run

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
    "a report with nowhere to go": f"{EVALUATE} --policy uniform --report no/report.html",
    "a seed below zero": f"{EVALUATE} --policy uniform --seed -1",
    "no job at all": f"{EVALUATE} --policy uniform --jobs 0",
    "replicates that are no number": f"{EVALUATE} --policy ucb1 --replicates some",
    "too few replicates": f"{EVALUATE} --policy ucb1 --evaluator clock --horizon 2 --interval group-jackknife "
    "--replicates 20",
    "an order that matters": f"{EVALUATE} --policy ucb1 --evaluator clock --horizon 2 --not-exchangeable",
    "a comparison of one": f"{COMPARE} --policy uniform --baseline none",
    "a comparison without replicates": f"{COMPARE} --policy uniform --policy ucb1 --replicates none",
    "a name given twice": f"{COMPARE} --policy a=uniform --policy a=ucb1",
    "a name without a policy": f"{COMPARE} --policy a= --policy ucb1",
    "a part that no column plays": "evaluate log.csv --action shown --reward click --policy uniform",
    "columns of a log that has none": "check log.dsjson --action shown",
    "a check of no column": "check log.csv --action shown --reward click --propensity q",
}


# errors of other kinds, with their exit codes
OTHER = {
    "a horizon out of reach": (f"{EVALUATE} --policy ucb1 --evaluator rs --horizon 1000", 6),
    "a job that takes too long": (
        f"{EVALUATE} --policy own:Sleeps --evaluator clock --horizon 2 --replicates 60 --time-limit 0.05 --quiet",
        7,
    ),
    "probabilities of the wrong length": (f"{EVALUATE} --policy fixed:probabilities=[1.0] --evaluator ips", 8),
    "a policy that raises": (f"{EVALUATE} --policy own:Raises --evaluator ips", 8),
    "a factory that raises": (f"{EVALUATE} --policy own:fail --evaluator ips", 8),
    "a module that raises": (f"{EVALUATE} --policy broken:Policy --evaluator ips", 8),
}
OWN = """
import time

class Raises:
    def probabilities(self, contexts, available=None):
        raise ZeroDivisionError("of my own")

class Sleeps(Raises):
    def probabilities(self, contexts, available=None):
        time.sleep(0.5)
        return [[0.5, 0.5]] * len(contexts)

def fail():
    raise ZeroDivisionError("of my own")
"""

WORDED_BY_TYPER = {
    "a misspelt command",
    "an unknown option",
    "a word for a number",
    "a seed below zero",
    "no job at all",
}


@pytest.fixture
def own_policies(folder: Path) -> None:
    (folder / "own.py").write_text(OWN)
    (folder / "broken.py").write_text("import no_such_module\n")
    (folder / "bad.csv").write_text(EIGHT_EVENTS.replace("3,mail,0,0.5", "3,mail,0,0"))
    for name in ("own", "broken"):
        sys.modules.pop(name, None)


@pytest.mark.usefixtures("own_policies")
class TestErrors:
    @pytest.mark.parametrize(("words", "code"), [*((words, 2) for words in BAD.values()), *OTHER.values()])
    def test_an_error_is_one_line_and_the_code_of_its_kind(
        self, words: str, code: int, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run(words) == code
        printed = capsys.readouterr()
        assert printed.out == ""
        assert re.fullmatch(r"error: .+\n", printed.err)

    def test_messages(self, capsys: pytest.CaptureFixture[str]) -> None:
        cases = {**BAD, **{name: words for name, (words, _) in OTHER.items()}}
        lines = []
        for name in cases:
            if name not in WORDED_BY_TYPER:
                run(cases[name])
                lines.append(f"{name}\n    {capsys.readouterr().err}")
        assert "\n".join(lines) == golden("errors.txt")

    @pytest.mark.parametrize(
        ("words", "code"), [(BAD["a bad row"], 2), (BAD["a misspelt command"], 2), *OTHER.values()]
    )
    def test_with_json_an_error_is_one_document(
        self, words: str, code: int, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run(f"{words} --json") == code
        printed = capsys.readouterr()
        error = json.loads(printed.out)["error"]
        assert error["exit_code"] == code
        assert printed.err == f"error: {error['message']}\n"
        assert issubclass(getattr(errors, error["kind"]), errors.BackcastError)

    def test_an_unexpected_failure_is_a_document_and_a_traceback(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def fail(*arguments: object) -> None:
            raise ZeroDivisionError("a fault of ours")

        monkeypatch.setattr(commands, "open_log", fail)
        with pytest.raises(ZeroDivisionError):
            run(f"{EVALUATE} --policy uniform --json")
        error = {"kind": "ZeroDivisionError", "message": "a fault of ours", "exit_code": 1}
        assert json.loads(capsys.readouterr().out) == {"error": error}

    def test_memory_that_runs_out_is_code_7(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def fill_memory(*arguments: object) -> None:
            raise MemoryError

        monkeypatch.setattr(commands, "open_log", fill_memory)
        assert run(f"{EVALUATE} --policy uniform") == 7
        assert capsys.readouterr().err.startswith("error: memory ran out")

    def test_every_error_has_an_exit_code(self) -> None:
        kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]
        codes = {kind.exit_code for kind in kinds if issubclass(kind, errors.BackcastError)}
        assert codes == {2, 6, 7, 8, 130}

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("words", "code"),
        [
            (f"{EVALUATE} --policy uniform --json", 0),
            (CHECK, 0),
            ("check bad.csv --action hour --reward click --propensity p", 2),
        ],
    )
    def test_a_closed_pipe_changes_no_exit_code(self, words: str, code: int, folder: Path) -> None:
        command = [sys.executable, "-m", "backcast.cli", *shlex.split(words)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.close()
            assert (process.stderr.read() == b"") == (code == 0)
        assert process.returncode == code
