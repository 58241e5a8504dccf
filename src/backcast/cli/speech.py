"""Words beside the result, and results for machines."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from backcast.report.text import one_line

__all__ = ["print_json", "say"]


def print_json(payload: Mapping[str, Any]) -> None:
    """Strict JSON on standard output, and nothing else."""
    sys.stdout.write(json.dumps(payload, indent=2, allow_nan=False) + "\n")


def say(text: str) -> None:
    """One line to the person at the terminal, beside the result."""
    print(one_line(text), file=sys.stderr)
