"""Many runs in a row: does anything grow? ``python -m bench.scale.soak --runs 200``.

Memory, threads, open files and the files that joblib maps into workers are looked at after every run, once some runs
have warmed everything up.
"""

from __future__ import annotations

import gc
import json
import os
import tempfile
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np

import backcast as bc
from bench.scale import process
from bench.scale.data import N_ACTIONS, N_FEATURES, write_part
from bench.scale.works import LinearSoftmax, stream_of
from bench.speed.numpy_policy import NumpyGreedy

ALLOWED = 0.05
EDGE = 0.2  # share of the runs, at either end, whose medians are compared
REPORT_EVERY = 100

Kind = Callable[[], Any]


@dataclass(frozen=True)
class Sample:
    """What this process holds after a run; ``mapped`` counts files that were made for workers and are still there."""

    megabytes: float
    threads: int
    files: int
    mapped: int


@dataclass(frozen=True)
class Soaked:
    """Medians at the beginning and at the end."""

    runs: int
    begin: Sample
    end: Sample

    @property
    def growth(self) -> float:
        """Of memory, as a share."""
        return self.end.megabytes / self.begin.megabytes - 1

    @property
    def leaks(self) -> list[str]:
        """What grew, in words."""
        names = ("threads", "files", "mapped")
        counted = [(name, getattr(self.begin, name), getattr(self.end, name)) for name in names]
        grown = [f"{name} grew from {before} to {after}" for name, before, after in counted if after > before]
        if self.growth > ALLOWED:
            grown.append(f"memory grew by {self.growth:.1%}, from {self.begin.megabytes:.0f} MB")
        return grown


def kinds(folder: Path, *, processes: bool) -> tuple[list[Kind], Kind]:
    """Runs of every kind: in memory, in threads, from files, broken off; and one with a report, which takes longest."""
    path = folder / "day=001"
    stream = stream_of(path)
    log = stream.read()
    greedy, fixed = bc.EpsilonGreedy(0.1), LinearSoftmax()

    def ask(data: Any, policy: Any, evaluator: Any, **options: Any) -> bc.Estimate:
        return bc.evaluate(data, policy, evaluator, seed=0, **options)

    def broken_off() -> None:
        def enough(events: int) -> None:
            raise bc.StopEvaluation

        with suppress(bc.StopEvaluation):
            ask(stream_of(path), greedy, bc.DRns(q=0.01), horizon=10, reward_model=0.3, progress=enough)

    def reported() -> None:
        bc.save_report(ask(log, fixed, bc.IPS()), folder / "report.html")

    replicated: dict[str, Any] = {"horizon": 10, "replicates": 60, "exchangeable": True, "reward_model": 0.3}

    def in_processes() -> bc.Estimate:
        return ask(log, NumpyGreedy(N_ACTIONS, N_FEATURES), bc.DRns(q=0.01), n_jobs=2, **replicated)

    every: list[Kind] = [
        lambda: ask(log, greedy, bc.DRns(q=0.01), horizon=10, reward_model=0.3),
        lambda: ask(log, greedy, bc.ClockReplay(), n_jobs=2, **replicated),
        lambda: ask(log, fixed, bc.DR(), reward_model=bc.CrossFit(bc.PerAction(), folds=2)),
        lambda: ask(stream, greedy, bc.DRns(q=0.01), horizon=10, reward_model=0.3),
        lambda: ask(stream_of(path), fixed, bc.IPS(), n_jobs=2),
        broken_off,
        lambda: ask(log, NumpyGreedy(N_ACTIONS, N_FEATURES), bc.DRns(q=0.01), horizon=10, reward_model=0.3),
    ]
    return ([*every, in_processes] if processes else every), reported


def sample() -> Sample:
    gc.collect()
    return Sample(process.resident(), process.threads(), process.open_files(), mapped_files())


def mapped_files() -> int:
    """Files that this process, or joblib for it, keeps for workers."""
    homes = {Path("/dev/shm"), Path(tempfile.gettempdir())}
    folders = [own for home in homes for own in home.glob(f"joblib_memmapping_folder_{os.getpid()}_*")]
    laid = [own for home in homes for own in home.glob(f"backcast-{os.getpid()}-*")]
    return len(laid) + sum(1 for own in folders for _ in own.iterdir())


def samples(runs: int, every: list[Kind], reported: Kind, warm_up: int) -> Iterator[Sample]:
    for kind in [reported, reported, *islice(cycle(every), warm_up)]:
        kind()
    # what is there now stays: to look for rubbish among it after every run would take longer than the runs
    gc.freeze()
    for number, kind in enumerate(islice(cycle(every), runs), start=1):
        (kind if number % REPORT_EVERY else reported)()
        yield sample()
    gc.unfreeze()


def soak(runs: int, *, events: int, warm_up: int, processes: bool) -> Soaked:
    """The runs, on a small log on disk."""
    with tempfile.TemporaryDirectory() as name:
        write_part(Path(name), events, events, part=0)
        taken = list(samples(runs, *kinds(Path(name), processes=processes), warm_up))
    edge = max(1, int(EDGE * runs))
    return Soaked(runs, middle(taken[:edge]), middle(taken[-edge:]))


def middle(taken: list[Sample]) -> Sample:
    """Medians of each figure."""
    table = np.median([list(asdict(one).values()) for one in taken], axis=0)
    return Sample(float(table[0]), *(round(figure) for figure in table[1:]))


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--warm-up", type=int, default=30)
    parser.add_argument("--events", type=int, default=2_000, help="length of the log that all runs are about")
    parser.add_argument("--processes", action="store_true", help="runs in worker processes too")
    options = parser.parse_args()
    found = soak(options.runs, events=options.events, warm_up=options.warm_up, processes=options.processes)
    print(json.dumps(asdict(found)))
    if found.leaks:
        raise SystemExit("; ".join(found.leaks))


if __name__ == "__main__":
    main()
