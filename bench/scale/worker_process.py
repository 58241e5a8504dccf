"""One piece of work in a process of its own: ``python -m bench.scale.child dr FOLDER --engine dask --workers 2``.

The process makes everything ready, does the work once in small, and then once for every line that it is sent.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import IO, NamedTuple

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


class Child(NamedTuple):
    """A process that has made a case ready, and runs it when it is asked to; ``said`` is what it writes of errors."""

    process: subprocess.Popen[str]
    said: IO[str]

    def start(self) -> None:
        """Ask for a run; what it took is waited for with :meth:`found`."""
        print("go", file=self.process.stdin, flush=True)

    def found(self) -> Measured:
        """What the run that was asked for took."""
        return Measured(**json.loads(self.estimate()))

    def run(self) -> Measured:
        """One run."""
        self.start()
        return self.found()

    def estimate(self) -> str:
        """The next line it tells."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if line:
            return line
        self.process.wait()
        self.said.seek(0)
        raise CaseFailed((self.said.read().strip() or "no message").splitlines()[-1])


@contextmanager
def ready(case: Case, folder: Path) -> Iterator[Child]:
    """A process that waits to run the case."""
    # workers of a cluster must find the benchmark too
    paths = os.pathsep.join(filter(None, [os.getcwd(), os.environ.get("PYTHONPATH")]))
    own = {**os.environ, **ONE_THREAD, "PYTHONPATH": paths, "DASK_DISTRIBUTED__LOGGING__DISTRIBUTED": "error"}
    with (
        tempfile.TemporaryFile("w+") as said,
        subprocess.Popen(
            case.command(folder), text=True, env=own, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said
        ) as process,
    ):
        child = Child(process, said)
        child.estimate()
        # the end of its input, when the pipes are closed, lets it go
        yield child


def run(case: Case, folder: Path) -> Measured:
    """The case, measured once in a fresh process."""
    with ready(case, folder) as child:
        return child.run()


def serve(case: Case, folder: Path, asked: Iterable[str], tell: Callable[[str], None]) -> None:
    """Make the case ready in this process, run it on a part of the log, and then on all of it for each line."""
    from bench.scale.works import WORKS, log_of, stream_of

    work = WORKS[case.work]
    with engine(case) as jobs:
        log = log_of(work, folder)
        start = perf_counter()
        work.run(stream_of(folder / FIRST) if work.streamed else log[: len(log) // 4], jobs)
        first = perf_counter() - start
        tell("ready")
        for _ in asked:
            cpu, start = used().cpu, perf_counter()
            value, events = work.run(log, jobs)
            seconds = perf_counter() - start
            found = used()
            measured = Measured(**asdict(case), events=events, seconds=seconds, first_seconds=first, value=value,
                                largest=found.largest, together=found.together, cpu=found.cpu - cpu)  # fmt: skip
            tell(json.dumps(asdict(measured)))


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
    case = Case(options.work, options.engine, options.workers)
    serve(case, options.folder, sys.stdin, partial(print, flush=True))


if __name__ == "__main__":
    main()
