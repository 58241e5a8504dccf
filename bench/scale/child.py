"""One piece of work in a process of its own: ``python -m bench.scale.child dr FOLDER --engine dask --workers 2``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from time import perf_counter

from bench.scale.data import FIRST
from bench.scale.process import used
from bench.speed.cases import ONE_THREAD

ENGINES = ("local", "dask")


@dataclass(frozen=True)
class Case:
    """A piece of work, and who does it."""

    work: str
    engine: str = "local"
    workers: int = 1

    def command(self, folder: Path) -> list[str]:
        options = ["--engine", self.engine, "--workers", str(self.workers)]
        return [sys.executable, "-m", "bench.scale.child", self.work, str(folder), *options]


@dataclass(frozen=True)
class Measured:
    """One case: seconds of the run, and of the one before it that loaded code and woke the workers.

    ``largest`` and ``together`` are peak megabytes, of the largest process and of all; ``cpu`` is the processor time
    of all processes during the run.
    """

    work: str
    engine: str
    workers: int
    events: int
    seconds: float
    first_seconds: float
    value: float
    largest: float
    together: float
    cpu: float

    @property
    def rate(self) -> float:
        return self.events / self.seconds

    @property
    def cores(self) -> float:
        """Cores that were busy, on average."""
        return self.cpu / self.seconds


class CaseFailed(Exception):
    """A case ended with an error; its last words are the message."""


def run(case: Case, folder: Path) -> Measured:
    """The case, measured in a fresh process."""
    # workers of a cluster must find the benchmark too
    paths = os.pathsep.join(filter(None, [os.getcwd(), os.environ.get("PYTHONPATH")]))
    own = {**os.environ, **ONE_THREAD, "PYTHONPATH": paths, "DASK_DISTRIBUTED__LOGGING__DISTRIBUTED": "error"}
    done = subprocess.run(case.command(folder), capture_output=True, text=True, env=own)
    if done.returncode:
        raise CaseFailed((done.stderr.strip() or "no message").splitlines()[-1])
    return Measured(**json.loads(done.stdout.splitlines()[-1]))


def measured(case: Case, folder: Path) -> Measured:
    """The case, measured in this process: once on one file of the log, then on all of it."""
    from bench.scale.works import WORKS, log_of, stream_of

    work = WORKS[case.work]
    with engine(case) as jobs:
        log = log_of(work, folder)
        start = perf_counter()
        work.run(stream_of(folder / FIRST) if work.streamed else log[: len(log) // 4], jobs)
        first = perf_counter() - start
        cpu, start = used().cpu, perf_counter()
        value, events = work.run(log, jobs)
        seconds = perf_counter() - start
        found = used()
    return Measured(**asdict(case), events=events, seconds=seconds, first_seconds=first, value=value,
                    largest=found.largest, together=found.together, cpu=found.cpu - cpu)  # fmt: skip


@contextmanager
def engine(case: Case) -> Iterator[int | None]:
    """The workers, and the number of jobs to ask for."""
    if case.engine == "local":
        yield case.workers
        return
    from joblib import parallel_config

    with cluster(case.workers), parallel_config(backend="dask"):
        # as many as the cluster has
        yield None


@contextmanager
def cluster(workers: int) -> Iterator[None]:
    """A Dask cluster on this machine, a process and a thread for each worker."""
    distributed = import_module("distributed")
    options = {"threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with distributed.LocalCluster(n_workers=workers, **options) as own, distributed.Client(own):
        yield


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("work")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--engine", choices=ENGINES, default="local")
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    print(json.dumps(asdict(measured(Case(options.work, options.engine, options.workers), options.folder))))


if __name__ == "__main__":
    main()
