"""Files of bench/results, and progress lines."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from backcast._serialization import to_json

RESULTS = Path("bench/results")


def print_status(line: str) -> None:
    """Print a line on the error stream."""
    print(line, file=sys.stderr, flush=True)


def write_page(path: Path, blocks: Iterable[str]) -> str:
    """Write blocks of Markdown, separated by empty lines, and return the text."""
    text = "\n\n".join(blocks) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return text


def write_json(path: Path, data: dict[str, Any]) -> None:
    """Write dataclasses, arrays and plain values as strict JSON; nan becomes null."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(to_json(data), indent=1, allow_nan=False) + "\n")
