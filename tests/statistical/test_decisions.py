"""Rates of false decisions on logs that support a decision well, poorly or not at all: a few cells of the benchmark."""

from __future__ import annotations

import pytest
from scipy import stats

from bench.accuracy.decisions import BASE_REWARD, LIMIT, World, grid, measure

LOGS = 40
# (actions, smallest probability, rewards, events)
CELLS = [
    (2, 0.05, "binary", 300),
    (4, 0.05, "heavy-tailed", 1_000),
    (10, 0.01, "bounded", 1_000),
    (50, 0.002, "binary", 10_000),
]


def test_false_decisions_are_rare() -> None:
    """In bench/results/decisions.md no decision is false; at a rate of 1 % the odds of a false alarm are 1e-4.

    With normal intervals and the diagnostics of the winner alone, a rare action gave 36 to 72 % false decisions.
    """
    worlds = {(k, p, world.rewards, world.n_events): world for k, p, world in grid()}
    cells = [measure(k, p, worlds[k, p, rewards, n], LOGS) for k, p, rewards, n in CELLS]
    assert sum(cell.wrong for cell in cells) <= stats.binom.ppf(1 - 1e-4, LOGS * len(cells), 0.01)
    answers, covered = sum(cell.answers for cell in cells), sum(cell.covered for cell in cells)
    # every cell of the benchmark covers at least 92 %
    assert covered >= stats.binom.ppf(1e-4, answers, 0.92)


@pytest.mark.parametrize("smallest", [0.3, 0.05])
def test_equal_policies_are_rarely_distinguished(smallest: float) -> None:
    """Every decision is false here; the limit is 6 %, and at that rate the odds of a false alarm are 1e-3."""
    world = World((1 - smallest, smallest), (BASE_REWARD, BASE_REWARD), "binary", 1_000)
    cell = measure(2, smallest, world, 2 * LOGS)
    assert cell.right + cell.wrong <= stats.binom.ppf(1 - 1e-3, cell.answers, LIMIT)
