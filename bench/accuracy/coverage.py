"""Coverage and width of every interval for fixed policies; writes bench/results/coverage.md.

    python -m bench.accuracy.coverage [--runs 300] [--output bench/results/coverage.md]

Logs of four actions with known mean rewards, with light weights (at most 2) and heavy ones (up to 50 on an action
logged once in a hundred events), short and long, with rewards of 0 and 1 and of -1 and 1. No constant of an interval
was chosen on these logs.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

import backcast as bc
from backcast._request import EvaluationRequest
from bench.common.machine import describe_provenance, provenance
from bench.common.markdown import markdown_table
from bench.common.output import RESULTS, write_page

LEVEL = 0.95
ODDS = 1e-3
LENGTHS = (100, 1000, 10_000)
RANGES = ((0.0, 1.0), (-1.0, 1.0))
MEANS = np.array([0.85, 0.3, 0.5, 0.1])
POLICY = np.array([0.5, 0.3, 0.1, 0.1])
LOGGERS = {"light": np.array([0.25, 0.25, 0.25, 0.25]), "heavy": np.array([0.01, 0.33, 0.33, 0.33])}
LARGEST = {"light": 2.0, "heavy": 50.0}
FOR_EVERY_N = bc.Hoeffding | bc.EmpiricalBernstein | bc.ClopperPearson | bc.Betting
COMMENT = (
    "With heavy weights and few events the rare action may be missing from the log. The normal and bootstrap intervals "
    "take no account of it then, and that is where they fail. Cressie-Read and betting allow for what was not "
    "observed, and use that weights average 1. With a bound on the weights, Cressie-Read is narrower than the normal "
    "interval of IPS in every table, and betting is nearly as narrow although it claims every n. Hoeffding and "
    "empirical Bernstein hold their level with wide intervals."
)


class Cell(NamedTuple):
    """Coverage and mean width of one interval on logs of one length."""

    coverage: float
    width: float
    runs: int

    def __str__(self) -> str:
        # fewer hits than this have odds of 1e-3
        too_few = self.coverage * self.runs < stats.binom.ppf(ODDS, self.runs, LEVEL)
        return f"{self.coverage:.3f}{'*' if too_few else ''} ({self.width:.3f})"


def dr_intervals(largest_weight: float) -> dict[str, Any]:
    """Return the intervals for DR; those that need a bound on the weights get the true one."""
    return {
        "normal": bc.Normal(),
        "t": bc.Student(),
        "bootstrap, percentile": bc.Bootstrap(300),
        "bootstrap, BCa": bc.BCa(300),
        "Hoeffding": bc.Hoeffding(largest_weight),
        "empirical Bernstein": bc.EmpiricalBernstein(largest_weight),
        "betting": bc.Betting(largest_weight),
    }


def ips_intervals(largest_weight: float) -> dict[str, Any]:
    """Return the intervals for IPS."""
    return {
        **dr_intervals(largest_weight),
        "betting, weights unbounded": bc.Betting(math.inf),
        "Clopper-Pearson": bc.ClopperPearson(largest_weight),
        "Cressie-Read": bc.CressieRead(largest_weight),
        "Cressie-Read, weights unbounded": bc.CressieRead(math.inf),
    }


def draw_log(weights: str, n: int, low: float, high: float, run: int) -> bc.Log:
    rng = np.random.default_rng((2026, run, n))
    logging = LOGGERS[weights]
    actions = rng.choice(4, n, p=logging)
    rewards = low + (high - low) * (rng.random(n) < MEANS[actions])
    return bc.Log(None, actions, rewards, logging[actions], n_actions=4, reward_range=(low, high))


def measure_interval(evaluator: Any, interval: Any, logs: list[bc.Log], truth: float) -> Cell:
    """Return the cell of one interval."""
    options: dict[str, Any] = {"interval": interval, "level": LEVEL, "reward_model": bc.Constant()}
    requests = [EvaluationRequest(log, bc.Fixed(POLICY), seed=run, **options) for run, log in enumerate(logs)]
    ends = np.array([(i.low, i.high) for i in (evaluator.estimate(request).interval for request in requests)])
    coverage = np.mean((ends[:, 0] <= truth) & (truth <= ends[:, 1]))
    return Cell(float(coverage), float(np.mean(ends[:, 1] - ends[:, 0])), len(logs))


def coverage_table(
    evaluator: Any, intervals: dict[str, Any], weights: str, bounds: tuple[float, float], runs: int
) -> str:
    """Return a table with a row for each interval and a column for each length; all see the same logs."""
    low, high = bounds
    truth = low + (high - low) * float(POLICY @ MEANS)
    counts = {n: runs if n < LENGTHS[-1] else runs // 3 for n in LENGTHS}
    logs = {n: [draw_log(weights, n, low, high, run) for run in range(counts[n])] for n in LENGTHS}
    rows = [
        [
            name,
            "every n" if isinstance(interval, FOR_EVERY_N) else "large n",
            *(measure_interval(evaluator, interval, logs[n], truth) for n in LENGTHS),
        ]
        for name, interval in intervals.items()
    ]
    return markdown_table(["interval", "claims", *(f"n = {n:,}" for n in LENGTHS)], rows, text_columns=2)


def coverage_blocks(runs: int) -> list[str]:
    """Return the blocks of the page."""
    blocks = []
    for weights, largest in LARGEST.items():
        for bounds in RANGES:
            blocks.append(f"## IPS, {weights} weights, rewards in [{bounds[0]:g}, {bounds[1]:g}]")
            blocks.append(coverage_table(bc.IPS(), ips_intervals(largest), weights, bounds, runs))
        blocks.append(f"## DR with a cross-fitted constant model, {weights} weights, rewards in [0, 1]")
        blocks.append(coverage_table(bc.DR(), dr_intervals(largest), weights, RANGES[0], runs))
    return blocks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=300, help="logs of each cell; a third as many of the longest")
    parser.add_argument("--output", type=Path, default=RESULTS / "coverage.md")
    options = parser.parse_args()
    start = time.process_time()
    tables = coverage_blocks(options.runs)
    minutes = (time.process_time() - start) / 60
    origin = describe_provenance(provenance(f"python -m bench.accuracy.coverage --runs {options.runs}"))
    intro = (
        f"Share of {options.runs} logs ({options.runs // 3} of the longest) whose {100 * LEVEL:g} % interval contains "
        "the true value, and in brackets the mean width. A star marks coverage below the level by more than chance "
        f"explains (odds of {ODDS:g}). All intervals see the same logs; those that need a bound on the weights get the "
        "true one, 2 for light weights and 50 for heavy ones. No constant of an interval was chosen on these logs. "
        "What claims every n does so for a model given in advance; here the model is cross-fitted."
    )
    title = "# Coverage of the intervals for fixed policies"
    write_page(options.output, [title, f"{origin} It took {minutes:.1f} minutes of one core.", intro, *tables, COMMENT])


if __name__ == "__main__":
    main()
