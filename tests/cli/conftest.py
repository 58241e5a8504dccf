"""A folder to run commands in; every JSON document that a command writes there is checked against the schema."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import EIGHT_EVENTS, OUTPUT_SCHEMA


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


@pytest.fixture(autouse=True)
def check_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check every document of a command against the published schema, as it is written."""
    dumps: Callable[..., str] = json.dumps

    def checked_dumps(document: Any, **options: Any) -> str:
        text = dumps(document, **options)
        # documents for users are indented; others are not
        if options.get("indent") == 2:
            OUTPUT_SCHEMA.validate(json.loads(text))
        return text

    monkeypatch.setattr(json, "dumps", checked_dumps)
