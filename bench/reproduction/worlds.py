"""Both tasks on more data sets, so that no conclusion hangs on one of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.reproduction.datasets import UCI, load_world
from bench.reproduction.journal import Plan
from bench.reproduction.results import Score
from bench.reproduction.table1 import static_scores
from bench.reproduction.table2 import adaptive_scores

__all__ = ["TRIALS", "horizon_for", "mean_ranks", "names", "relative", "run"]

TRIALS = 30
RUNS = 200
BATCHES = 20  # at most so many batches of 15 rounds


def horizon_for(examples: int) -> int:
    """Rounds of the adaptive task: 300, or fewer where the set is small, in whole batches of 15.

    >>> horizon_for(10_992), horizon_for(1797), horizon_for(214)
    (300, 75, 30)
    """
    return 15 * min(BATCHES, max(2, examples // 350))


def names(plan: Plan) -> tuple[str, ...]:
    """The UCI sets and digits; digits alone where there is no data folder."""
    return ("digits",) if plan.data is None else ("digits", *UCI)


def relative(scores: list[Score]) -> dict[str, float]:
    """Each evaluator's rmse over that of RS."""
    base = next(one.rmse for one in scores if one.evaluator == "RS")
    return {one.evaluator: one.rmse / base for one in scores}


def mean_ranks(tables: list[dict[str, float]]) -> dict[str, float]:
    """Average place of each evaluator, 1 for the least error; one that gave no answer comes last.

    >>> mean_ranks([{"RS": 1.0, "ours": 0.25}, {"RS": 1.0, "ours": 2.0}])
    {'RS': 1.5, 'ours': 1.5}
    """
    errors = np.array([list(table.values()) for table in tables])
    places = np.argsort(np.argsort(np.nan_to_num(errors, nan=np.inf), axis=1), axis=1) + 1
    return dict(zip(tables[0], places.mean(axis=0).tolist(), strict=True))


def run(plan: Plan) -> dict[str, Any]:
    """Scores by task and data set."""
    trials = plan.trials or TRIALS
    runs = min(plan.simulations, RUNS)
    tables: dict[str, Any] = {"static": {}, "adaptive": {}, "facts": {}}
    for name in names(plan):
        tables["static"][name], facts = static_scores(plan, name, f"static-{name}", trials)
        horizon = horizon_for(len(load_world(name, plan.data)))
        adaptive = adaptive_scores(plan, name, horizon, trials, runs)
        tables["adaptive"][name] = adaptive["scores"]["evaluation"]
        tables["facts"][name] = {"static": facts, "adaptive": adaptive["facts"]}
    return tables
