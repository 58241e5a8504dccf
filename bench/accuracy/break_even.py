"""Coverage of break-even rounds and of values after learning, where the curve of the policy is known.

    python -m bench.accuracy.break_even --logs 100

Contextless worlds, so that many live runs at once give V_t to three digits: UCB1, and a policy that plays each action
in proportion to one more than twice what it has earned. Rewards are 0 or 1.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import backcast as bc
from backcast.break_even import fit_isotonic

LIVE_RUNS = 40_000


class World(NamedTuple):
    """Chances of a reward, probabilities of the logger, events, rounds, the policy, and its live runs."""

    means: Any
    logging: Any
    events: int
    horizon: int
    policy: Any
    run: Callable[..., Any]

    @property
    def baseline(self) -> float:
        """What the logger earns per round."""
        return float(self.means @ self.logging)

    def log(self, rng: np.random.Generator) -> bc.Log:
        """A log of the world."""
        actions = rng.choice(self.means.size, size=self.events, p=self.logging)
        rewards = (rng.random(self.events) < self.means[actions]).astype(float)
        return bc.Log(None, actions, rewards, self.logging[actions], n_actions=self.means.size, reward_range=(0, 1))


class Truth(NamedTuple):
    """The curve, and what follows from it."""

    curve: Any
    round: int | None
    payback: int | None

    @classmethod
    def of(cls, curve: Any, baseline: float) -> Truth:
        """Both rounds of a curve: where its isotonic regression passes the baseline, and where the sum turns positive.

        V_t of UCB1 does not always rise: all runs explore an action again at about the same time.
        """
        gain = curve - baseline
        return cls(curve, _after(fit_isotonic(gain, np.ones(gain.size, dtype=np.int64))), _after(gain.cumsum()))


def _after(values: Any) -> int | None:
    last = int(np.flatnonzero(np.append(0.0, values) <= 0)[-1])
    return last + 1 if last < values.size else None


def run_ucb1(means: Any, horizon: int, runs: int, rng: np.random.Generator, exploration: float) -> Any:
    """V_t of UCB1 by many live runs: the first of the best actions, unplayed ones first."""
    plays, sums = np.zeros((2, runs, means.size))
    curve, rows = np.empty(horizon), np.arange(runs)
    for t in range(horizon):
        with np.errstate(divide="ignore", invalid="ignore"):
            bonus = exploration * np.sqrt(2 * np.log(max(t, 1))) / np.sqrt(plays)
            scores = np.where(plays == 0, np.inf, sums / plays + bonus)
        actions = scores.argmax(axis=1)
        curve[t] = means[actions].mean()
        plays[rows, actions] += 1
        sums[rows, actions] += rng.random(runs) < means[actions]
    return curve


def run_leaning(means: Any, horizon: int, runs: int, rng: np.random.Generator) -> Any:
    """V_t of the policy that leans towards what has paid, by many live runs."""
    table, rows, curve = np.ones((runs, means.size)), np.arange(runs), np.empty(horizon)
    for t in range(horizon):
        chances = table / table.sum(axis=1, keepdims=True)
        curve[t] = (chances @ means).mean()
        actions = (rng.random((runs, 1)) > chances.cumsum(axis=1)[:, :-1]).sum(axis=1)
        table[rows, actions] += 2 * (rng.random(runs) < means[actions])
    return curve


class Paid(NamedTuple):
    """One more than twice the summed rewards of each action."""

    table: Any


def leaning_score(state: Any, view: Any, k: Any, available: Any, out: Any) -> None:
    """Play in proportion to the table."""
    out[:] = state.table
    out /= out.sum()


def leaning_learn(state: Any, view: Any, k: Any, action: Any, reward: Any, probability: Any) -> None:
    """Add what was earned."""
    state.table[action] += 2 * reward


def worlds() -> dict[str, World]:
    """The worlds by name."""
    leaning = bc.Compiled(lambda n_actions, n_features: Paid(np.ones(n_actions)), leaning_score, leaning_learn)
    three, four = np.array([0.2, 0.4, 0.6]), np.array([0.3, 0.4, 0.5, 0.6])

    def ucb1(exploration: float, logging: list[float], events: int, horizon: int) -> World:
        run = partial(run_ucb1, exploration=exploration)
        return World(four, np.array(logging), events, horizon, bc.UCB1(exploration), run)

    return {
        "ucb1, early": ucb1(0.3, [0.1, 0.2, 0.3, 0.4], 1_000, 150),
        "ucb1, middle": ucb1(0.5, [0.1, 0.1, 0.3, 0.5], 3_000, 300),
        "ucb1, late": ucb1(1.0, [0.1, 0.2, 0.3, 0.4], 3_000, 300),
        "ucb1, not paid back": ucb1(1.0, [0.1, 0.1, 0.3, 0.5], 3_000, 300),
        "leaning": World(three, np.array([0.2, 0.1, 0.7]), 2_000, 200, leaning, run_leaning),
    }


def covers(interval: bc.RoundInterval, true: int | None, horizon: int) -> bool:
    """Whether an interval contains a round, or what lies beyond the horizon."""
    low, high = (horizon + 1 if end is None else end for end in (interval.low, interval.high))
    return low <= (horizon + 1 if true is None else true) <= high


def measure(world: World, logs: int, passes: int) -> dict[str, float]:
    """Shares of logs covered, and mean lengths of the intervals as shares of the horizon."""
    rng, horizon = np.random.default_rng(0), world.horizon
    truth = Truth.of(world.run(world.means, horizon, LIVE_RUNS, rng), world.baseline)
    rows = []
    for log in (world.log(rng) for _ in range(logs)):
        estimate = bc.evaluate(
            log, world.policy, bc.ClockReplay(), horizon=horizon, replicates=passes, reward_model=0.5, exchangeable=True
        )
        even, after = estimate.break_even, estimate.after_learning
        assert even is not None
        assert after is not None
        assert after.end_interval is not None
        last = float(truth.curve[after.first_round - 1 :].mean())
        rows.append(
            {
                "value": estimate.interval.low <= truth.curve.mean() <= estimate.interval.high,
                "break-even": covers(even.interval, truth.round, horizon),
                "payback": covers(even.payback_interval, truth.payback, horizon),
                "after learning": after.interval.low <= last <= after.interval.high,
                "end policy": after.end_interval.low <= truth.curve[-1] <= after.end_interval.high,
                "length of break-even": ((even.interval.high or horizon) - (even.interval.low or horizon)) / horizon,
                "length of payback": ((even.payback_interval.high or horizon) - (even.payback_interval.low or horizon))
                / horizon,
                "estimate of break-even": horizon if even.round is None else even.round,
                "estimate of payback": horizon if even.payback is None else even.payback,
            }
        )
    means = {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}
    return {**means, "true break-even": truth.round or np.nan, "true payback": truth.payback or np.nan}


def main() -> None:
    """Print a table of all worlds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=100)
    parser.add_argument("--passes", type=int, default=32)
    parser.add_argument("--worlds", nargs="*")
    options = parser.parse_args()
    for name, world in worlds().items():
        if not options.worlds or name in options.worlds:
            print(name, {key: round(value, 3) for key, value in measure(world, options.logs, options.passes).items()})


if __name__ == "__main__":
    main()
