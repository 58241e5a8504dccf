"""Search among 16 settings of a learning policy: is the best found, at what cost, and is its value honest?

Every log comes from an environment in which each setting was also run live, so that the value of each is known.

- regret: what the best setting earns more than the chosen one, live; that of a random setting for comparison
- cost: passes of single policies, the evaluation of the best included, over those of comparing all settings in full
- error: of the value of the search, and of the highest value in the race, in standard errors; the latter is optimistic
- coverage: of the 95 % interval, for the live value of the chosen setting

Run: ``python -m bench.accuracy.search [--logs 100]``; the results are in bench/results/search.md.
"""

from __future__ import annotations

import argparse
from typing import Any, NamedTuple

import numpy as np

import backcast as bc
from backcast.environments import LinearEnvironment
from backcast.environments.live import coin_flips, run_live
from bench.common.machine import describe_provenance, provenance
from bench.common.markdown import markdown_table
from bench.common.output import RESULTS, print_status, write_json, write_page

PILOT_PASSES = 8  # of every evaluation with replicates="auto"
LIVE_RUNS = 2_000
COMPARED = 5  # logs on which all settings are compared in full, for the cost
ALPHAS = (0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 7.0, 10.0)
EPSILONS = (0.0, 0.01, 0.02, 0.04, 0.06, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.85, 1.0)


class Case(NamedTuple):
    """A world, a policy with its grid, and the sizes."""

    name: str
    world: LinearEnvironment
    policy: Any
    grid: dict[str, tuple[float, ...]]
    n_events: int
    horizon: int


CASES = (
    Case(
        "epsilon-greedy, uniform logger",
        LinearEnvironment(3, 4, logistic=True, signal=2.0, spread=1.0),
        bc.EpsilonGreedy(batch_size=10),
        {"epsilon": EPSILONS},
        1_500,
        100,
    ),
    Case(
        "LinUCB, logger that prefers good actions",
        LinearEnvironment(5, 6, logistic=True, signal=2.0, logging="paper"),
        bc.LinUCB(batch_size=10),
        {"alpha": ALPHAS},
        3_000,
        150,
    ),
)


def live_values(case: Case, runs: int) -> dict[float, float]:
    """Return the live value of each setting."""
    rng = np.random.default_rng(0)
    contexts, means = case.world.table(20_000, rng)
    [name] = case.grid
    values = {}
    for setting in case.grid[name]:
        policy = type(case.policy)(**{**case.policy.get_params(), name: setting})
        live = run_live(contexts, means, policy, horizon=case.horizon, runs=runs, rng=rng, draw=coin_flips)
        values[setting] = float(live.mean())
    return values


def measure(case: Case, logs: int, runs: int) -> dict[str, Any]:
    """Search on independent logs of a case."""
    truth = live_values(case, runs)
    [name] = case.grid
    columns: dict[str, list[float]] = {key: [] for key in ("regret", "cost", "error", "naive", "covered", "agreed")}
    for number in range(logs):
        log = case.world.log(case.n_events, np.random.default_rng([number, case.n_events]))
        options: dict[str, Any] = {"horizon": case.horizon, "exchangeable": True, "seed": number}
        best = bc.search(log, case.policy, case.grid, **options)
        value, estimate = truth[best.best.parameters[name]], best.estimate
        columns["regret"].append(max(truth.values()) - value)
        columns["error"].append((estimate.value - value) / estimate.std_error)
        columns["naive"].append((best.best.value - value) / estimate.std_error)
        columns["covered"].append(float(estimate.interval.low <= value <= estimate.interval.high))
        columns["agreed"].append(best.best.share_won)
        if number < COMPARED:
            policies = {f"{each:g}": type(case.policy)(each, batch_size=10) for each in case.grid[name]}
            compared = bc.compare(log, policies, **options)
            passes = [PILOT_PASSES + each.diagnostics.passes for each in compared.estimates.values()]
            own = best.passes + PILOT_PASSES + estimate.diagnostics.passes
            columns["cost"].append(own / sum(passes))
    spread = max(truth.values()) - float(np.mean(list(truth.values())))
    return {"case": case.name, "logs": logs, "random regret": spread, **columns}


def row(result: dict[str, Any]) -> list[str]:
    """Return a row of the table."""
    means = {key: float(np.mean(values)) for key, values in result.items() if isinstance(values, list)}
    error = 1 / np.sqrt(result["logs"])
    return [
        result["case"],
        str(result["logs"]),
        f"{means['regret']:.4f}",
        f"{result['random regret']:.4f}",
        f"{means['cost']:.2f}",
        f"{means['error']:+.2f} ± {error:.2f}",
        f"{means['naive']:+.2f}",
        f"{100 * means['covered']:.0f}",
        f"{100 * means['agreed']:.0f}",
    ]


HEAD = [
    *("case", "logs", "regret", "regret of a random setting", "cost", "error of the value"),
    *("error of the highest value", "coverage, %", "folds won, %"),
]


def main() -> None:
    """Measure every case and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=100, help="logs per case")
    parser.add_argument("--runs", type=int, default=LIVE_RUNS, help="live runs per setting")
    options = parser.parse_args()
    source = provenance(f"python -m bench.accuracy.search --logs {options.logs} --runs {options.runs}")
    results = []
    for case in CASES:
        results.append(measure(case, options.logs, options.runs))
        print_status(", ".join(row(results[-1])))
    blocks = [
        "# Search among 16 settings",
        describe_provenance(source),
        (__doc__ or "").partition("\n\n")[2].partition("Run:")[0].strip(),
        markdown_table(HEAD, map(row, results), text_columns=1),
    ]
    write_json(RESULTS / "search.json", {"provenance": source, "results": results})
    print(write_page(RESULTS / "search.md", blocks))


if __name__ == "__main__":
    main()
