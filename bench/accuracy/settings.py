"""The cells of the benchmark: which policy in which world, how long a log, how many rounds; and one trial of a cell."""

from __future__ import annotations

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from backcast._parallel.fingerprint import source_digest
from bench.accuracy.evaluators import CONTESTANTS, DEFAULT, OURS, PAPER, RecordedEstimate, evaluate_all
from bench.accuracy.live import Truth, estimate_truth
from bench.accuracy.policies import POLICIES
from bench.accuracy.worlds import LOGGERS, World, list_worlds, make_world
from bench.common.output import RESULTS
from bench.common.trials import TrialRunner
from bench.reproduction.protocol import Case

SEED = 2012
EVENTS = 3000
HORIZON = 45
LONG_EVENTS, LONG_HORIZON = 6000, 1000
LIVE_RUNS = 500
CHECKPOINTS = Path("build/bench-accuracy")
# histories of 1,000 rounds, by world, logger and policy
LONG = (
    ("straight", "paper", "epsilon-greedy by 15"),
    ("many actions", "uniform", "LinUCB"),
    ("noisy", "paper", "softmax"),
    ("digits", "uniform", "UCB1"),
)


class Setting(NamedTuple):
    """One cell of the benchmark."""

    world: str
    logging: str
    policy: str
    events: int = EVENTS
    horizon: int = HORIZON

    @property
    def label(self) -> str:
        """A name for tables."""
        rounds = "" if self.horizon == HORIZON else f", T = {self.horizon:,}"
        return f"{self.world}, {self.logging}, {self.policy}{rounds}"

    @property
    def stem(self) -> str:
        """A name for files."""
        return "-".join(map(str, self)).replace(" ", "_")

    def make_case(self, data: Path | None, log_seed: list[int], seed: int) -> Case:
        """Draw a log of this setting."""
        log = _cached_world(self.world, self.logging, data).log(self.events, np.random.default_rng(log_seed))
        return Case(log, POLICIES[self.policy], self.horizon, seed)

    def run_trials(
        self, runner: TrialRunner, name: str, function: Callable[..., Any], shared: tuple[Any, ...], count: int
    ) -> list[Any]:
        """Return the results of trials of this setting, stored under the name."""
        # estimates by another version of backcast, of another shape or by other evaluators are not mixed with these
        facts: dict[str, Any] = {"setting": list(self)}
        if function is not simulate_truth:
            facts |= {"source": source_digest(), "fields": RecordedEstimate._fields}
        if function is evaluate_log:
            facts["evaluators"] = [*PAPER, *CONTESTANTS, *OURS]
        return runner.run(f"{name}-{self.stem}", function, shared, count, facts, (RecordedEstimate, Truth))


def list_settings(data: Path | None) -> list[Setting]:
    """Return every world under every logger, policies alternating, so that each meets every logger; then long ones."""
    kinds = list(POLICIES)
    short = [
        Setting(world, logging, kinds[(i + j) % len(kinds)])
        for i, world in enumerate(list_worlds(data))
        for j, logging in enumerate(LOGGERS)
    ]
    return [*short, *(Setting(*names, LONG_EVENTS, LONG_HORIZON) for names in LONG)]


@lru_cache(maxsize=4)
def _cached_world(name: str, logging: str, data: Path | None) -> World:
    return make_world(name, logging, data)


def draw_case(setting: Setting, data: Path | None, number: int) -> Case:
    """Draw the log of this number, which is the same wherever the setting is evaluated."""
    return setting.make_case(data, [SEED, number, *map(ord, setting.stem)], number)


def evaluate_log(setting: Setting, data: Path | None, number: int) -> dict[str, RecordedEstimate]:
    """Return the estimates of all evaluators on one log of the setting."""
    return evaluate_all(draw_case(setting, data, number))


def evaluate_default_on(setting: Setting, data: Path | None, number: int) -> RecordedEstimate:
    """Return the estimate of the default call on one log of the setting."""
    return OURS[DEFAULT](draw_case(setting, data, number))


def simulate_truth(setting: Setting, data: Path | None, number: int) -> Truth:
    """Return the truth of a setting from one batch of live runs."""
    world = _cached_world(setting.world, setting.logging, data)
    return estimate_truth(world, POLICIES[setting.policy], setting.horizon, LIVE_RUNS, SEED + number)


def mean_truth(setting: Setting, runner: TrialRunner, name: str) -> Truth:
    """Return the mean of four independent batches of live runs, for settings that need no data folder."""
    batches = setting.run_trials(runner, f"{name}-truth", simulate_truth, (setting, None), 4)
    return Truth(*np.mean(batches, axis=0).tolist())


def make_parser(description: str | None, logs: int | str) -> ArgumentParser:
    """Return a parser of the options that the benchmarks of learning policies share; ``logs`` may be a list as text."""
    parser = ArgumentParser(description=description, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=type(logs), default=logs, help="logs in each setting")
    parser.add_argument("--jobs", type=int, default=2, help="logs at the same time")
    parser.add_argument("--output", type=Path, default=RESULTS)
    return parser
