"""Longer than the paper's: trajectories of 500 rounds, where it says that RS and WC fail."""

from __future__ import annotations

from typing import Any

from bench.reproduction.journal import Plan
from bench.reproduction.table2 import adaptive_scores

__all__ = ["HORIZON", "TRIALS", "run"]

TRIALS = 50
HORIZON = 500


def run(plan: Plan) -> dict[str, Any]:
    """Table 2 again with 500 rounds."""
    return adaptive_scores(plan, plan.world, HORIZON, plan.trials or TRIALS, plan.simulations)
