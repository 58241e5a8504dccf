"""backcast warmup compiles loops ahead of their use."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from backcast._kernels.jit import cache_folder
from tests.support.cli import run


def test_it_says_where_the_code_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("warmup --policy ucb1 --contexts dense --json") == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["policies"], document["contexts"]) == (["ucb1"], ["dense"])
    assert document["folder"] == str(cache_folder())
    assert list(Path(document["folder"]).rglob("clock*"))


@pytest.mark.parametrize("words", ["warmup --policy linubc", "warmup --contexts thick"])
def test_unknown_names_are_refused(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(words) == 2
    assert "there " in capsys.readouterr().err
