"""The coverage benchmark runs, and marks coverage below the level."""

from __future__ import annotations

from backcast.evaluators import IPS
from backcast.intervals import CressieRead, Normal
from bench.accuracy.coverage import Cell, coverage_table


def test_a_table_has_a_row_for_every_interval() -> None:
    intervals = {"normal": Normal(), "Cressie-Read": CressieRead(2.0)}
    lines = coverage_table(IPS(), intervals, "light", (0.0, 1.0), runs=6).splitlines()
    assert len(lines) == 4
    assert lines[0] == "| interval | claims | n = 100 | n = 1,000 | n = 10,000 |"
    assert lines[2].startswith("| normal | large n | ")
    assert lines[3].count("(0.") == 3


def test_a_star_needs_more_than_chance() -> None:
    assert str(Cell(0.95, 0.5, 100)) == "0.950 (0.500)"
    assert str(Cell(0.90, 0.5, 100)) == "0.900 (0.500)"
    assert str(Cell(0.80, 0.5, 100)) == "0.800* (0.500)"
