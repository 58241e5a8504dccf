"""Coverage and width of every interval for fixed policies; writes bench/results/coverage.md.

    python -m bench.accuracy.coverage [--runs 300] [--output bench/results/coverage.md]

Logs of four actions with known mean rewards, light weights (at most 2) and heavy ones (up to 50 on an action logged
once in a hundred events), short and long, with rewards of 0 and 1 and of -1 and 1. No constant of an interval was
chosen on these logs.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from backcast._request import EvaluationRequest
from backcast.evaluators import DR, IPS
from backcast.intervals.asymptotic import CressieRead, Normal, Student
from backcast.intervals.betting import Betting
from backcast.intervals.bootstrap import BCa, Bootstrap
from backcast.intervals.concentration import ClopperPearson, EmpiricalBernstein, Hoeffding
from backcast.log import Log
from backcast.policies.fixed import Fixed
from backcast.reward_models import Constant
from bench.speed.machine import describe

LEVEL = 0.95
ODDS = 1e-3
LENGTHS = (100, 1000, 10_000)
RANGES = ((0.0, 1.0), (-1.0, 1.0))
MEANS = np.array([0.85, 0.3, 0.5, 0.1])
POLICY = np.array([0.5, 0.3, 0.1, 0.1])
LOGGERS = {"light": np.array([0.25, 0.25, 0.25, 0.25]), "heavy": np.array([0.01, 0.33, 0.33, 0.33])}
LARGEST = {"light": 2.0, "heavy": 50.0}


class Cell(NamedTuple):
    """Coverage and mean width of one interval on logs of one length."""

    covered: float
    width: float
    runs: int

    def __str__(self) -> str:
        # fewer hits than this come by chance with odds of 1e-3 only
        short = self.covered * self.runs < stats.binom.ppf(ODDS, self.runs, LEVEL)
        return f"{self.covered:.3f}{'*' if short else ''} ({self.width:.3f})"


def weighted_rewards(largest: float) -> dict[str, Any]:
    """Intervals for IPS; those that take a bound on the weights are told the true one."""
    return {
        "normal": Normal(),
        "t": Student(),
        "bootstrap, percentile": Bootstrap(300),
        "bootstrap, BCa": BCa(300),
        "Cressie-Read, weights unbounded": CressieRead(math.inf),
        "Cressie-Read": CressieRead(largest),
        "Hoeffding": Hoeffding(largest),
        "empirical Bernstein": EmpiricalBernstein(largest),
        "Clopper-Pearson": ClopperPearson(largest),
        "betting, weights unbounded": Betting(math.inf),
        "betting": Betting(largest),
    }


def modelled(largest: float) -> dict[str, Any]:
    """Intervals for DR."""
    return {
        "normal": Normal(),
        "t": Student(),
        "bootstrap, percentile": Bootstrap(300),
        "bootstrap, BCa": BCa(300),
        "Hoeffding": Hoeffding(largest),
        "empirical Bernstein": EmpiricalBernstein(largest),
        "betting": Betting(largest),
    }


def one_log(weights: str, n: int, low: float, high: float, run: int) -> Log:
    rng = np.random.default_rng((2026, run, n))
    logging = LOGGERS[weights]
    actions = rng.choice(4, n, p=logging)
    rewards = low + (high - low) * (rng.random(n) < MEANS[actions])
    return Log(None, actions, rewards, logging[actions], n_actions=4, reward_range=(low, high))


def measure(evaluator: Any, methods: dict[str, Any], logs: list[Log], truth: float) -> Iterator[Cell]:
    """The cell of each method on the same logs."""
    for method in methods.values():
        found: list[Any] = [
            evaluator.estimate(
                EvaluationRequest(log, Fixed(POLICY), interval=method, level=LEVEL, seed=run, reward_model=Constant())
            ).interval
            for run, log in enumerate(logs)
        ]
        covered = np.mean([each.low <= truth <= each.high for each in found])
        yield Cell(float(covered), float(np.mean([each.high - each.low for each in found])), len(logs))


def table(evaluator: Any, methods: dict[str, Any], weights: str, bounds: tuple[float, float], runs: int) -> list[str]:
    """Lines of one table: a row a method, a column a length."""
    low, high = bounds
    truth = low + (high - low) * float(POLICY @ MEANS)
    columns = []
    for n in LENGTHS:
        count = runs if n < LENGTHS[-1] else runs // 3
        logs = [one_log(weights, n, low, high, run) for run in range(count)]
        columns.append(list(measure(evaluator, methods, logs, truth)))
    claims = [_claim(method) for method in methods.values()]
    rows = zip(methods, claims, *columns, strict=True)
    return [
        "| interval | claims | " + " | ".join(f"n = {n:,}" for n in LENGTHS) + " |",
        "|---|---|" + "---|" * len(LENGTHS),
        *("| " + " | ".join(map(str, row)) + " |" for row in rows),
    ]


def _claim(method: Any) -> str:
    return "every n" if isinstance(method, Hoeffding | EmpiricalBernstein | ClopperPearson | Betting) else "large n"


def report(runs: int) -> str:
    """The whole page."""
    start = time.process_time()
    parts: list[str] = []
    for weights in LOGGERS:
        for bounds in RANGES:
            parts += ["", f"## IPS, {weights} weights, rewards in [{bounds[0]:g}, {bounds[1]:g}]", ""]
            parts += table(IPS(), weighted_rewards(LARGEST[weights]), weights, bounds, runs)
        parts += ["", f"## DR with a cross-fitted constant model, {weights} weights, rewards in [0, 1]", ""]
        parts += table(DR(), modelled(LARGEST[weights]), weights, RANGES[0], runs)
    minutes = (time.process_time() - start) / 60
    return "\n".join([*_head(runs, minutes), *parts, *_tail()]) + "\n"


def _head(runs: int, minutes: float) -> list[str]:
    return [
        "# Coverage of the intervals for fixed policies",
        "",
        f"Made by `python -m bench.accuracy.coverage --runs {runs}` on {date.today().isoformat()} in {minutes:.1f} "
        f"minutes of one core ({describe()}).",
        "",
        f"Share of {runs} logs ({runs // 3} of the longest) whose {100 * LEVEL:g} % interval holds the true value, and "
        "in brackets the mean width. A star marks coverage below the level by more than chance explains (odds of "
        f"{ODDS:g}). All methods see the same logs; those that take a bound on the weights are told the true one, 2 "
        "for light weights and 50 for heavy ones. No constant of an interval was chosen on these logs. What claims "
        "every n does so for a model given beforehand; with a cross-fitted one the tables show how it does.",
    ]


def _tail() -> list[str]:
    return [
        "",
        "Reading it: with heavy weights and few events the rare action may be missing from the log altogether; the "
        "normal and bootstrap intervals then know nothing of it, and that is where they fail. Cressie-Read and betting "
        "imagine or allow for what was not seen, and use that weights average 1. Told a bound on the weights, "
        "Cressie-Read is narrower than the normal interval of IPS in every table, and betting is not far behind though "
        "it claims every n. Hoeffding and empirical Bernstein keep their word at a price.",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=300, help="logs a table cell; a third as many of the longest")
    parser.add_argument("--output", type=Path, default=Path("bench/results/coverage.md"))
    asked = parser.parse_args()
    asked.output.parent.mkdir(parents=True, exist_ok=True)
    asked.output.write_text(report(asked.runs))


if __name__ == "__main__":
    main()
