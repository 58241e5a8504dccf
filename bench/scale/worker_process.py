"""One workload in a process: ``python -m bench.scale.worker_process dr FOLDER --engine dask --workers 2``.

The process prepares the workload, runs it once on a small part of the log, and then once for every line on its input.
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

from bench.common.processes import ONE_THREAD, CaseFailed, last_line, measure_usage
from bench.scale.data import FIRST_FILE

ENGINES = ("local", "dask")


@dataclass(frozen=True)
class Case:
    """A workload, the engine that runs it, and the number of its workers."""

    work: str
    engine: str = "local"
    workers: int = 1

    def __str__(self) -> str:
        return f"{self.work}, {self.engine} {self.workers}"


@dataclass(frozen=True)
class Measurement:
    """One case: seconds of the run, and of the run before it that loaded code and started the workers.

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
    def case(self) -> Case:
        return Case(self.work, self.engine, self.workers)

    @property
    def rate(self) -> float:
        return self.events / self.seconds

    @property
    def cores(self) -> float:
        """Number of busy cores, on average."""
        return self.cpu / self.seconds


class WorkerProcess(NamedTuple):
    """A process that has prepared a case and runs it on request; ``errors`` is its error stream."""

    process: subprocess.Popen[str]
    errors: IO[str]

    def start_run(self) -> None:
        """Start a run; its measurement is returned by :meth:`wait_for_run`."""
        print("run", file=self.process.stdin, flush=True)

    def wait_for_run(self) -> Measurement:
        """Return the measurement of the run that was started."""
        return Measurement(**json.loads(self.read_line()))

    def run(self) -> Measurement:
        """Run the case once."""
        self.start_run()
        return self.wait_for_run()

    def read_line(self) -> str:
        """Return the next line of output."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if line:
            return line
        self.process.wait()
        self.errors.seek(0)
        raise CaseFailed(last_line(self.errors.read()))


@contextmanager
def start_worker_process(case: Case, folder: Path) -> Iterator[WorkerProcess]:
    """Start a process, and wait until it has prepared the case."""
    # workers of a cluster must be able to import bench
    paths = os.pathsep.join(filter(None, [os.getcwd(), os.environ.get("PYTHONPATH")]))
    quiet = {"DASK_DISTRIBUTED__LOGGING__DISTRIBUTED": "error"}
    environment = {**os.environ, **ONE_THREAD, **quiet, "PYTHONPATH": paths}
    options = ["--engine", case.engine, "--workers", str(case.workers)]
    command = [sys.executable, "-m", "bench.scale.worker_process", case.work, str(folder), *options]
    pipe = subprocess.PIPE
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(command, text=True, env=environment, stdin=pipe, stdout=pipe, stderr=errors) as process,
    ):
        worker = WorkerProcess(process, errors)
        worker.read_line()
        # the process ends when the pipes are closed, at the end of its input
        yield worker


def run_case(case: Case, folder: Path) -> Measurement:
    """Measure the case once in a new process."""
    with start_worker_process(case, folder) as worker:
        return worker.run()


def serve_runs(case: Case, folder: Path, requests: Iterable[str], respond: Callable[[str], None]) -> None:
    """Prepare the case in this process, run it on a part of the log, and then on all of it for each request."""
    from bench.scale.workloads import WORKLOADS, load_input, open_stream

    workload = WORKLOADS[case.work]
    with start_workers(case) as jobs:
        log = load_input(workload, folder)
        start = perf_counter()
        workload.run(open_stream(folder / FIRST_FILE) if workload.streamed else log[: len(log) // 4], jobs)
        first_seconds = perf_counter() - start
        respond("ready")
        for _ in requests:
            cpu, start = measure_usage().cpu, perf_counter()
            value, events = workload.run(log, jobs)
            seconds = perf_counter() - start
            usage = measure_usage()
            times = {"seconds": seconds, "first_seconds": first_seconds}
            usage = usage._replace(cpu=usage.cpu - cpu)
            respond(json.dumps({**asdict(case), "events": events, **times, "value": value, **usage._asdict()}))


@contextmanager
def start_workers(case: Case) -> Iterator[int | None]:
    """Start the workers of the engine; yield the number of jobs to request (None: all workers of the cluster)."""
    if case.engine == "local":
        yield case.workers
        return
    from joblib import parallel_config

    distributed = import_module("distributed")
    options = {"threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with (
        distributed.LocalCluster(n_workers=case.workers, **options) as cluster,
        distributed.Client(cluster),
        parallel_config(backend="dask"),
    ):
        yield None


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("work")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--engine", choices=ENGINES, default="local")
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    case = Case(options.work, options.engine, options.workers)
    serve_runs(case, options.folder, sys.stdin, partial(print, flush=True))


if __name__ == "__main__":
    main()
