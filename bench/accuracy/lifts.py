"""Lifts over what the log earned: how often do their intervals hold the true lifts, alone and all together?

Five policies are compared with the log: two that learn, two that are fixed, and one that chooses as the logger did,
whose lift is 0. Values of the learning policies are means of live runs, those of the others are computed.

- by policy: logs in which the interval of its lift, at its own level, holds the true lift
- all five: logs in which the simultaneous intervals of all five hold their lifts
- false: logs in which the verdict on the policy that equals the logger is "better"

Run: ``python -m bench.accuracy.lifts [--logs 400]``; the results are in bench/results/lifts.md.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import backcast as bc
from backcast.environments.live import coin_flips, run_live
from bench.accuracy.settings import CHECKPOINTS, make_parser
from bench.common.machine import describe_provenance, provenance
from bench.common.markdown import markdown_table
from bench.common.output import write_json, write_page
from bench.common.trials import TrialRunner

LIVE_RUNS = 20_000  # standard error of a truth below 0.001
EQUAL = "as the logger"


class World(NamedTuple):
    """Mean rewards and probabilities of the logger by context and action; contexts are equally likely indicators."""

    name: str
    means: tuple[tuple[float, ...], ...]
    logging: tuple[tuple[float, ...], ...]
    n_events: int
    horizon: int

    def log(self, rng: np.random.Generator) -> bc.Log:
        """Return one log."""
        means, logging = np.array(self.means), np.array(self.logging)
        contexts = rng.integers(len(means), size=self.n_events)
        bounds = logging.cumsum(axis=1)[contexts]
        actions = np.minimum((rng.random((self.n_events, 1)) > bounds).sum(axis=1), means.shape[1] - 1)
        rewards = (rng.random(self.n_events) < means[contexts, actions]).astype(float)
        propensities = logging[contexts, actions]
        one_hot = np.eye(len(means))[contexts]
        return bc.Log(one_hot, actions, rewards, propensities, n_actions=means.shape[1], reward_range=(0, 1))

    def policies(self) -> dict[str, Any]:
        """Return the policies of the comparison."""
        n_actions = len(self.means[0])
        return {
            "LinUCB": bc.LinUCB(0.5, batch_size=5),
            "epsilon-greedy": bc.EpsilonGreedy(0.2, batch_size=5),
            "uniform": bc.Uniform(),
            "first": bc.Fixed([1.0] + [0.0] * (n_actions - 1)),
            EQUAL: ByContext(self.logging),
        }

    def lifts(self, runs: int = LIVE_RUNS) -> dict[str, float]:
        """Return the true lifts."""
        means, logging = np.array(self.means), np.array(self.logging)
        contexts, rng = np.eye(len(means)), np.random.default_rng(0)
        values = {"uniform": means.mean(), "first": means[:, 0].mean(), EQUAL: (means * logging).sum(axis=1).mean()}
        for name, policy in self.policies().items():
            if name not in values:
                live = run_live(contexts, means, policy, horizon=self.horizon, runs=runs, rng=rng, draw=coin_flips)
                values[name] = live.mean()
        return {name: float(value - values[EQUAL]) for name, value in values.items()}


class ByContext:
    """A fixed policy with a row of probabilities for each indicator context."""

    def __init__(self, table: tuple[tuple[float, ...], ...]) -> None:
        self.table = table

    def probabilities(self, contexts: Any, available: Any = None) -> Any:
        """Return the probabilities of all actions."""
        return np.asarray(contexts) @ np.array(self.table)


WORLDS = (
    World("even logger", ((0.6, 0.3), (0.2, 0.5)), ((0.5, 0.5), (0.5, 0.5)), 1_000, 40),
    World("logger near the best", ((0.6, 0.3, 0.1), (0.2, 0.5, 0.3)), ((0.7, 0.2, 0.1), (0.2, 0.6, 0.2)), 2_000, 60),
    World("rare rewards", ((0.05, 0.1), (0.15, 0.05)), ((0.7, 0.3), (0.7, 0.3)), 3_000, 60),
)


def measure_log(world: World, truth: dict[str, float], number: int) -> dict[str, Any]:
    """Return which intervals of one log hold the true lift, alone and simultaneous, and the verdict on the logger."""
    log = world.log(np.random.default_rng([17, number]))
    found = bc.compare(log, world.policies(), horizon=world.horizon, exchangeable=True, seed=number)
    alone = {name: found.estimates[name].lift for name in truth}
    return {
        "alone": {name: lift.interval.low <= truth[name] <= lift.interval.high for name, lift in alone.items() if lift},
        "together": all(lift.interval.low <= truth[name] <= lift.interval.high for name, lift in found.lifts.items()),
        "better": dict(found.verdict.policies)[EQUAL] == "better",
    }


def summarize(world: World, trials: list[dict[str, Any]]) -> list[str]:
    """Return a row of the table."""
    shares = {name: np.mean([trial["alone"][name] for trial in trials]) for name in world.policies()}
    learning, fixed = (shares["LinUCB"], shares["epsilon-greedy"]), (shares["uniform"], shares["first"], shares[EQUAL])
    together, false = (float(np.mean([trial[key] for trial in trials])) for key in ("together", "better"))
    cells = [f"{100 * share:.1f}" for share in (*learning, *fixed, together, false)]
    return [world.name, f"{world.n_events:,}", str(world.horizon), *cells]


def main() -> None:
    options = make_parser(__doc__, logs=400).parse_args()
    runner, rows, records = TrialRunner(CHECKPOINTS, 17, options.jobs), [], {}
    for world in WORLDS:
        truth = world.lifts()
        trials = runner.run(f"lifts-{world.name}", measure_log, (world, truth), options.logs, {"world": world})
        rows.append(summarize(world, trials))
        records[world.name] = {"truth": truth, "row": rows[-1]}
    origin = provenance(f"python -m bench.accuracy.lifts --logs {options.logs}")
    head = ["world", "n", "T", *WORLDS[0].policies(), "all five", "false"]
    blocks = [
        "# Lifts over what the log earned",
        describe_provenance(origin),
        f"{options.logs} logs per row, all numbers in percent; a coverage of 95 has the standard error "
        f"{100 * np.sqrt(0.95 * 0.05 / options.logs):.1f}.",
        (__doc__ or "").partition("\n\n")[2].partition("Run:")[0].strip(),
        markdown_table(head, rows, text_columns=1),
    ]
    write_page(options.output / "lifts.md", blocks)
    write_json(options.output / "lifts.json", {**origin, "worlds": records})


if __name__ == "__main__":
    main()
