"""Help and version: what they show, and that they import nothing heavy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import backcast as bc
from backcast.cli import main
from tests.support.cli import run, run_process

HEAVY = ("numba", "pyarrow", "sklearn", "altair", "scipy", "vl_convert", "jinja2")


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
        assert "0 success; 1 unexpected failure, with a traceback; 2 bad input; 6 the log does not support" in shown
        assert "130 or 143 interrupted" in shown

    @pytest.mark.parametrize("command", COMMANDS)
    def test_every_command_has_quiet_and_json(self, command: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(f"{command} --help") == 0
        shown = capsys.readouterr().out
        assert "--json" in shown
        assert "--quiet" in shown

    def test_help_of_check_has_exit_codes_of_its_own(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run("check --help") == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert "Exit codes: 1 at least one check failed; others as for evaluate" in shown


def test_python_dash_m_is_the_same_program(folder: Path) -> None:
    assert run_process("--version").stdout == f"backcast {bc.__version__}\n"
