"""Decisions on logs that support them well, poorly or not at all: how often is the verdict of a comparison wrong?

Every log has K actions and no contexts. The logger takes all actions but the first with the smallest probability p; the
last action earns twice as much as the first, the others lie between. ``compare`` is asked, with its defaults, whether
"always the last action" is better than "always the first". The logs are declared exchangeable: a test for drift, which
has one false alarm in 100,000 logs, would take half of the time.

- false decisions: the verdict says that a policy is better which is not
- coverage: of the interval of the difference, over the logs that have one
- not trustworthy: verdicts without a decision because of poor diagnostics; refused: no event of the last action

Run: ``python -m bench.accuracy.decisions [--logs 100] [--jobs 2]``; the results are in bench/results/decisions.md.
Cells that are finished are stored, so that a stopped run continues.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import backcast as bc
from bench.accuracy.settings import CHECKPOINTS, make_parser
from bench.common.machine import describe_provenance, provenance
from bench.common.markdown import markdown_table
from bench.common.output import write_json, write_page
from bench.common.trials import TrialRunner

ACTIONS = (2, 4, 10, 50)
SMALLEST = (0.3, 0.05, 0.01, 0.002)
EVENTS = (100, 300, 1_000, 10_000, 100_000)
REWARDS = ("binary", "bounded", "heavy-tailed")
BASE_REWARD = 0.1  # of the first action; the last earns twice as much
HOPELESS = (300, 1_000, 3_000)  # events of the logs with p = (.985, .005, .005, .005)
LIMIT = 0.06  # of false decisions in any cell


class World(NamedTuple):
    """Probabilities of the logger and mean rewards by action, kind of rewards, and number of events."""

    propensities: tuple[float, ...]
    means: tuple[float, ...]
    rewards: str
    n_events: int

    def log(self, rng: np.random.Generator) -> bc.Log:
        """Return one log."""
        p, means = np.array(self.propensities), np.array(self.means)
        actions = rng.choice(p.size, size=self.n_events, p=p)
        mean = means[actions]
        if self.rewards == "binary":
            rewards = (rng.random(self.n_events) < mean).astype(float)
        elif self.rewards == "bounded":
            rewards = rng.beta(2 * mean, 2 * (1 - mean))
        else:
            # lognormal with the standard deviation 1.3 times the mean, and no bound
            rewards = mean * rng.lognormal(-0.5, 1.0, self.n_events)
        bounds = None if self.rewards == "heavy-tailed" else (0.0, 1.0)
        return bc.Log(None, actions, rewards, p[actions], n_actions=p.size, reward_range=bounds)


@dataclass(frozen=True)
class Cell:
    """Counts over the logs of one world."""

    actions: int
    smallest: float
    events: int
    rewards: str
    logs: int
    refused: int
    not_trustworthy: int
    unclear: int
    right: int
    wrong: int
    covered: int

    @property
    def answers(self) -> int:
        """Logs with a comparison."""
        return self.logs - self.refused


def grid() -> Iterator[tuple[int, float, World]]:
    """Iterate over the worlds; more than 1/p rare actions leave no probability to the first, and are left out."""
    for n_events in EVENTS:
        for rewards in REWARDS:
            for k in ACTIONS:
                for smallest in SMALLEST:
                    if smallest * (k - 1) < 0.95:
                        p = (1 - smallest * (k - 1), *[smallest] * (k - 1))
                        means = tuple(BASE_REWARD * (1 + a / (k - 1)) for a in range(k))
                        yield k, smallest, World(p, means, rewards, n_events)


def measure(k: int, smallest: float, world: World, logs: int) -> Cell:
    """Compare the last action with the first on independent logs of a world."""
    first, last = np.eye(k)[0], np.eye(k)[-1]
    policies = {"new": bc.Fixed(last), "control": bc.Fixed(first)}
    truth = world.means[-1] - world.means[0]
    counts = dict.fromkeys(("refused", "not_trustworthy", "unclear", "right", "wrong", "covered"), 0)
    for number in range(logs):
        rng = np.random.default_rng([number, k, world.n_events, round(1e6 * smallest), REWARDS.index(world.rewards)])
        try:
            comparison = bc.compare(world.log(rng), policies, baseline=None, exchangeable=True)
        except bc.NoOverlap:
            counts["refused"] += 1
            continue
        verdict, interval = comparison.verdict, comparison.differences[0].interval
        if verdict.decision == "better":
            counts["right" if verdict.policy == "new" and truth > 0 else "wrong"] += 1
        else:
            counts[verdict.decision.replace(" ", "_")] += 1
        counts["covered"] += interval.low <= truth <= interval.high
    return Cell(k, smallest, world.n_events, world.rewards, logs, **counts)


def measure_world(table: str, logs: int, number: int) -> Cell:
    """Measure one of the worlds of a table; half as many logs are made of the longest ones."""
    k, smallest, world = worlds_by_table()[table][number]
    return measure(k, smallest, world, logs // 2 if world.n_events == max(EVENTS) else logs)


def share(count: int, total: int) -> str:
    """Return a share as a percentage, empty without a total."""
    return f"{100 * count / total:.1f}" if total else ""


def rows(cells: list[Cell]) -> Iterator[list[str]]:
    """Return the rows of a table, one per cell; percentages of the logs with a comparison, refused of all logs."""
    for cell in cells:
        yield [
            f"{cell.events:,}",
            cell.rewards,
            str(cell.actions),
            f"{cell.smallest:g}",
            share(cell.wrong, cell.answers),
            share(cell.right, cell.answers),
            share(cell.unclear, cell.answers),
            share(cell.not_trustworthy, cell.answers),
            share(cell.covered, cell.answers),
            share(cell.refused, cell.logs),
        ]


HEAD = [
    "events",
    "rewards",
    "actions",
    "smallest p",
    "false",
    "right",
    "unclear",
    "not trustworthy",
    "coverage",
    "refused",
]


def equal_worlds() -> Iterator[tuple[int, float, World]]:
    """Iterate over worlds with two actions of equal reward, in which every decision is wrong."""
    for n_events in EVENTS[:-1]:
        for smallest in SMALLEST:
            yield 2, smallest, World((1 - smallest, smallest), (BASE_REWARD, BASE_REWARD), "binary", n_events)


ABOUT = """\
The policy "always the last action" earns twice as much as "always the first". Numbers are percentages of the logs that
were compared; "refused" is the percentage of logs without an event of the last action, for which `compare` raises
`NoOverlap`. Bounded rewards have a beta distribution on [0, 1], heavy-tailed ones a lognormal distribution (sigma 1)
without a declared range."""
RARE = "## One rare action that is better: p = (.985, .005, .005, .005), mean rewards .10, .133, .167, .20"
EQUAL = """\
Two actions with the same mean reward: every decision is false. Intervals at 95 % allow for 5 %."""


def worlds_by_table() -> dict[str, list[tuple[int, float, World]]]:
    """Return the worlds of each table of the page."""
    rare = [World((0.985, 0.005, 0.005, 0.005), (0.10, 0.133, 0.167, 0.20), "binary", n) for n in HOPELESS]
    return {"rare": [(4, 0.005, world) for world in rare], "equal": list(equal_worlds()), "grid": list(grid())}


def write_results(tables: dict[str, list[Cell]], source: dict[str, Any], folder: Path) -> str:
    """Write the page and the JSON file, and return the page."""
    cells = [*tables["rare"], *tables["grid"]]
    worst = max(cells, key=lambda cell: cell.wrong / max(cell.answers, 1))
    lowest = min((cell for cell in cells if cell.answers >= cell.logs / 2), key=lambda c: c.covered / c.answers)
    wrong, right = sum(cell.wrong for cell in cells), sum(cell.right for cell in cells)
    left_out = [f"K = {k}, p = {p:g}" for k in ACTIONS for p in SMALLEST if p * (k - 1) >= 0.95]
    summary = (
        f"{tables['grid'][0].logs} logs per cell of the grid ({tables['grid'][-1].logs} of {max(EVENTS):,} events), "
        f"{tables['rare'][0].logs} in the other tables. Of "
        f"{right + wrong:,} decisions {wrong} were false. The worst cell has {share(worst.wrong, worst.answers)} % "
        f"false decisions (limit: {100 * LIMIT:g} %); the lowest coverage of the difference, in cells with at least "
        f"half of the logs compared, is {share(lowest.covered, lowest.answers)} %."
    )
    blocks = [
        "# False decisions",
        describe_provenance(source),
        summary,
        ABOUT,
        RARE,
        markdown_table(HEAD, rows(tables["rare"]), text_columns=2),
        "## The grid",
        f"Left out, because the probabilities would exceed 1: {'; '.join(left_out)}.",
        markdown_table(HEAD, rows(tables["grid"]), text_columns=2),
        "## Equal policies",
        EQUAL,
        markdown_table(HEAD, rows(tables["equal"]), text_columns=2),
    ]
    write_json(folder / "decisions.json", {"provenance": source, "cells": tables})
    return write_page(folder / "decisions.md", blocks)


def main() -> None:
    """Measure every cell and write the page."""
    options = make_parser(__doc__, logs=100).parse_args()
    source = provenance(f"python -m bench.accuracy.decisions --logs {options.logs}")
    runner = TrialRunner(CHECKPOINTS, jobs=options.jobs)
    tables: dict[str, list[Cell]] = {}
    for name, worlds in worlds_by_table().items():
        logs = options.logs if name == "grid" else 2 * options.logs
        facts = {"logs": logs, "commit": source["commit"]}
        tables[name] = runner.run(f"decisions-{name}", measure_world, (name, logs), len(worlds), facts, (Cell,))
    print(write_results(tables, source, options.output))


if __name__ == "__main__":
    main()
