"""Estimates are what they were, to the bit where libraries and processor are those of the record."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from tests.golden.make_estimates import SECTIONS, environment, section_numbers

RECORD = json.loads(Path(__file__).with_name("estimates.json").read_text())
# Sums in another order differ in their last bits; hardly ever does that change which event is accepted.
RELATIVE = 1e-6


@pytest.mark.parametrize("section", SECTIONS)
def test_estimates_are_those_recorded(section: str, tmp_path: Path) -> None:
    computed, recorded = section_numbers(section, tmp_path), RECORD[section]
    if environment() == RECORD["environment"]:
        assert computed == recorded
    else:
        assert_close(computed, recorded, section)


def assert_close(computed: Any, recorded: Any, where: str) -> None:
    """The same keys, texts and counts, and numbers that agree to a millionth."""
    assert type(computed) is type(recorded), where
    if isinstance(recorded, dict):
        assert computed.keys() == recorded.keys(), where
        for name in recorded:
            assert_close(computed[name], recorded[name], f"{where}: {name}")
    elif isinstance(recorded, list):
        assert len(computed) == len(recorded), where
        for place, (first, other) in enumerate(zip(computed, recorded, strict=True)):
            assert_close(first, other, f"{where}[{place}]")
    elif isinstance(recorded, str) and "0x" in recorded:
        first, other = float.fromhex(computed), float.fromhex(recorded)
        assert math.isclose(first, other, rel_tol=RELATIVE, abs_tol=1e-9), f"{where}: {first} and {other}"
    else:
        assert computed == recorded, where
