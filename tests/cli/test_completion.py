"""Completion in the shell."""

from __future__ import annotations

import pytest

from tests.support.cli import run_process


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
