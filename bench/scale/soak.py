"""Many runs in a row, to detect leaks: ``python -m bench.scale.soak --runs 200``.

Memory, threads, open files and the files that are mapped into workers are counted after every run, once some runs have
loaded everything.
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
from bench.common.processes import count_open_files, count_threads, resident_megabytes
from bench.scale.data import N_ACTIONS, N_FEATURES, write_part
from bench.scale.workloads import LinearSoftmax, open_stream
from bench.speed.numpy_policy import NumpyGreedy

ALLOWED_GROWTH = 0.05
EDGE = 0.2  # share of the runs, at either end, whose medians are compared
REPORT_EVERY = 100

Run = Callable[[], Any]


@dataclass(frozen=True)
class Sample:
    """Resources of this process after a run; ``mapped`` counts files for workers that still exist."""

    megabytes: float
    threads: int
    files: int
    mapped: int


@dataclass(frozen=True)
class Soak:
    """Medians at the beginning and at the end."""

    runs: int
    begin: Sample
    end: Sample

    @property
    def growth(self) -> float:
        """Relative growth of memory."""
        return self.end.megabytes / self.begin.megabytes - 1

    @property
    def leaks(self) -> list[str]:
        """What grew, in words."""
        counts = [(name, getattr(self.begin, name), getattr(self.end, name)) for name in ("threads", "files", "mapped")]
        leaks = [f"{name} grew from {before} to {after}" for name, before, after in counts if after > before]
        if self.growth > ALLOWED_GROWTH:
            leaks.append(f"memory grew by {self.growth:.1%}, from {self.begin.megabytes:.0f} MB")
        return leaks


def make_runs(folder: Path, *, processes: bool) -> tuple[list[Run], Run]:
    """Return runs of every kind: in memory, in threads, from files, interrupted; and one that writes a report."""
    path = folder / "day=001"
    stream = open_stream(path)
    log = stream.read()
    greedy, fixed = bc.EpsilonGreedy(0.1), LinearSoftmax()

    def evaluate(data: Any, policy: Any, evaluator: Any, **options: Any) -> bc.Estimate:
        return bc.evaluate(data, policy, evaluator, seed=0, **options)

    def interrupt() -> None:
        def stop(events: int) -> None:
            raise bc.StopEvaluation

        with suppress(bc.StopEvaluation):
            evaluate(open_stream(path), greedy, bc.DRns(q=0.01), horizon=10, reward_model=0.3, progress=stop)

    def write_report() -> None:
        bc.save_report(evaluate(log, fixed, bc.IPS()), folder / "report.html")

    replicated: dict[str, Any] = {"horizon": 10, "replicates": 60, "exchangeable": True, "reward_model": 0.3}
    runs: list[Run] = [
        lambda: evaluate(log, greedy, bc.DRns(q=0.01), horizon=10, reward_model=0.3),
        lambda: evaluate(log, greedy, bc.ClockReplay(), n_jobs=2, **replicated),
        lambda: evaluate(log, fixed, bc.DR(), reward_model=bc.CrossFit(bc.PerAction(), folds=2)),
        lambda: evaluate(stream, greedy, bc.DRns(q=0.01), horizon=10, reward_model=0.3),
        lambda: evaluate(open_stream(path), fixed, bc.IPS(), n_jobs=2),
        interrupt,
        lambda: evaluate(log, NumpyGreedy(N_ACTIONS, N_FEATURES), bc.DRns(q=0.01), horizon=10, reward_model=0.3),
    ]
    if processes:
        numpy_policy = NumpyGreedy(N_ACTIONS, N_FEATURES)
        runs.append(lambda: evaluate(log, numpy_policy, bc.DRns(q=0.01), n_jobs=2, **replicated))
    return runs, write_report


def take_sample() -> Sample:
    gc.collect()
    return Sample(resident_megabytes(), count_threads(), count_open_files(), count_mapped_files())


def count_mapped_files() -> int:
    """Return the number of files that this process, or joblib for it, holds for workers."""
    homes = {Path("/dev/shm"), Path(tempfile.gettempdir())}
    folders = [path for home in homes for path in home.glob(f"joblib_memmapping_folder_{os.getpid()}_*")]
    files = [path for home in homes for path in home.glob(f"backcast-{os.getpid()}-*")]
    return len(files) + sum(1 for folder in folders for _ in folder.iterdir())


def take_samples(count: int, runs: list[Run], write_report: Run, warm_up: int) -> Iterator[Sample]:
    for run in [write_report, write_report, *islice(cycle(runs), warm_up)]:
        run()
    # objects that exist now are permanent: searching them for garbage after every run would take longer than the runs
    gc.freeze()
    for number, run in enumerate(islice(cycle(runs), count), start=1):
        (run if number % REPORT_EVERY else write_report)()
        yield take_sample()
    gc.unfreeze()


def soak(count: int, *, events: int, warm_up: int, processes: bool) -> Soak:
    """Run many evaluations of a small log on disk."""
    with tempfile.TemporaryDirectory() as name:
        write_part(Path(name), events, events, part=0)
        samples = list(take_samples(count, *make_runs(Path(name), processes=processes), warm_up))
    edge = max(1, int(EDGE * count))
    return Soak(count, median_sample(samples[:edge]), median_sample(samples[-edge:]))


def median_sample(samples: list[Sample]) -> Sample:
    """Return the median of each number."""
    medians = np.median([list(asdict(sample).values()) for sample in samples], axis=0)
    return Sample(float(medians[0]), *(round(number) for number in medians[1:]))


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--warm-up", type=int, default=30)
    parser.add_argument("--events", type=int, default=2_000, help="length of the log")
    parser.add_argument("--processes", action="store_true", help="runs in worker processes too")
    options = parser.parse_args()
    result = soak(options.runs, events=options.events, warm_up=options.warm_up, processes=options.processes)
    print(json.dumps(asdict(result)))
    if result.leaks:
        raise SystemExit("; ".join(result.leaks))


if __name__ == "__main__":
    main()
