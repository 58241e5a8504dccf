"""A folder to run commands in."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.cli import EIGHT_EVENTS


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new working directory with a log of eight events, and a terminal of known width."""
    (tmp_path / "log.csv").write_text(EIGHT_EVENTS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path
