"""Backends that run jobs: this process, threads or processes of this machine, a Dask or a Ray cluster.

Arguments that all jobs share are sent to each worker once: processes of this machine map them from a file, Dask workers
get a copy each, Ray workers read them from the object store of their machine.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from functools import cache, partial
from typing import Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np

from backcast._parallel.shared_file import SharedFile, SharedFileRef, load_shared
from backcast._parallel.time_limit import TimeLimit, limit_time
from backcast.errors import ContractError, PolicyError, WorkError
from backcast.log import Log, replace_columns

KILL_AFTER = 20.0  # seconds beyond the time limit after which a worker that does not react is killed
# Seconds of work that are sent out together: long beside the cost of sending (bench/results/scale.md), short beside all
# work, so that workers end at about the same time.
BATCH_SECONDS, CLUSTER_BATCH_SECONDS = 0.2, 0.5
BATCHES_AHEAD = 2  # batches per worker for which the remaining jobs should be enough
SCATTER_ATTEMPTS, SCATTER_PAUSE = 5, 1.0  # how often shared arguments are sent to Dask while workers come and go
JOBS_PER_WORKER = 4  # jobs per worker and call on Ray, which returns the results of a call all together

T = TypeVar("T")
Function: TypeAlias = Callable[..., Any]


class Job(NamedTuple):
    """One unit of parallel work.

    ``key`` identifies it among the jobs of a request and is the same in every run; ``events`` is its size in the units
    of the progress callback.
    """

    key: tuple[str | int, ...]
    arguments: tuple[Any, ...]
    events: int

    @property
    def name(self) -> str:
        """Name in messages."""
        return " ".join(map(str, self.key))

    @property
    def file_name(self) -> str:
        """Name in a checkpoint."""
        return "-".join(map(str, self.key))


NumberedJobs: TypeAlias = Sequence[tuple[int, Job]]
Results: TypeAlias = Generator[tuple[int, Any], None, None]


class SharedArguments:
    """Arguments that all jobs of a request share, and the resources that keep them reachable for workers."""

    def __init__(self, *values: Any) -> None:
        self.values = values
        self._resources: dict[str, tuple[Any, Callable[[], object]]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return _receive, self.values

    def resource(self, kind: str, create: Callable[[], tuple[Any, Callable[[], object]]]) -> Any:
        """Return the resource of this kind, created on first use; ``create`` returns it and a function to close it."""
        if kind not in self._resources:
            self._resources[kind] = create()
        return self._resources[kind][0]

    def close(self) -> None:
        """Close all resources; they are created again if they are needed again."""
        resources, self._resources = self._resources, {}
        for _, close in resources.values():
            close()


def _receive(*values: Any) -> SharedArguments:
    """Rebuild shared arguments in a worker, arrays aligned for compiled code: in a message they may start anywhere."""
    return SharedArguments(*map(_align, values))


def _align(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return np.require(value, requirements=["A"])
    if isinstance(value, Log):
        return replace_columns(value, **_align(value.columns)._asdict())
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(_align, value))
    return value


def select_backend(
    n_jobs: int | None, time_limit: float | None, *, threads: bool = False, one_by_one: bool = False
) -> Backend:
    """Return the backend that the caller's ``joblib.parallel_config`` and ``n_jobs`` ask for.

    ``threads`` means that jobs release the interpreter lock; ``one_by_one`` that each result is wanted as soon as it
    exists.
    """
    # threads cannot be killed, so a time limit needs processes
    prefer: Literal["threads"] | None = "threads" if threads and time_limit is None else None
    options = _Options(n_jobs, prefer, time_limit, one_by_one)
    if n_jobs in (None, 1) and "joblib" not in sys.modules:
        # no other backend can have been selected, and to import joblib takes a fifth of a second
        return Backend(options, None)
    from joblib.parallel import get_active_backend

    joblib_backend, context_jobs = get_active_backend(prefer=prefer)
    kind = type(joblib_backend).__name__
    if kind == "RayBackend":
        # joblib's default for Ray is one worker; a user who selects a cluster wants all of it
        whole_cluster = n_jobs is None and context_jobs in (None, 1)
        return RayBackend(options._replace(n_jobs=-1) if whole_cluster else options, joblib_backend)
    if kind == "DaskDistributedBackend":
        return DaskBackend(options, joblib_backend)
    if _effective_n_jobs(n_jobs) == 1:
        return Backend(options, joblib_backend)
    return ProcessBackend(options, joblib_backend) if kind == "LokyBackend" else ThreadBackend(options, joblib_backend)


class _Options(NamedTuple):
    """Interface of backends; see :func:`select_backend`."""

    n_jobs: int | None
    prefer: Literal["threads"] | None
    time_limit: float | None
    one_by_one: bool


class Backend:
    """Run jobs one after another in this process; base class of the parallel backends."""

    def __init__(self, options: _Options, joblib_backend: Any) -> None:
        self._options, self._joblib_backend = options, joblib_backend

    @property
    def time_limit(self) -> float | None:
        """Seconds that a job may take."""
        return self._options.time_limit

    def map(self, function: Function, shared: SharedArguments, jobs: NumberedJobs) -> Results:
        """Yield index and result of every job, in any order."""
        for i, job in jobs:
            yield i, _run_job(os.getpid(), function, shared, job, self._limit)

    @property
    def _limit(self) -> TimeLimit | None:
        return None if self.time_limit is None else TimeLimit(self.time_limit, KILL_AFTER)

    @property
    def _sends_single_jobs(self) -> bool:
        return self._options.one_by_one or self.time_limit is not None


class ThreadBackend(Backend):
    """Run jobs in threads through joblib, in batches whose size adapts to how long jobs take."""

    batch_seconds = BATCH_SECONDS

    def map(self, function: Function, shared: SharedArguments, jobs: NumberedJobs) -> Results:
        """Yield index and result of every job, as they are finished."""
        sizer = self._sizer(jobs)
        batches = self._parallel("generator_unordered", 1)(self._calls(function, shared, sizer.batches()))
        try:
            for batch in batches:
                yield from sizer.record(batch)
        finally:
            # jobs that are not wanted any more are cancelled; joblib would warn that they were started in vain
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                batches.close()

    def _reference(self, shared: SharedArguments) -> Any:
        """Return what is sent with each batch so that its worker finds the shared arguments."""
        return shared

    def _sizer(self, jobs: NumberedJobs) -> BatchSizer[tuple[int, Job]]:
        seconds = 0.0 if self._sends_single_jobs else self.batch_seconds
        return BatchSizer(jobs, _effective_n_jobs(self._options.n_jobs), seconds)

    def _parallel(self, return_as: str, batch_size: int | str) -> Any:
        from joblib import Parallel

        # arrays in a file are mapped copy-on-write: read-only ones would be copied by every pass
        options: dict[str, Any] = {"mmap_mode": "c", "prefer": self._options.prefer, "batch_size": batch_size}
        if self.time_limit is not None:
            # no job waits in a queue, so the time limit starts when a job is sent out
            options |= {"timeout": self.time_limit + KILL_AFTER, "pre_dispatch": "n_jobs"}
        return Parallel(n_jobs=self._options.n_jobs, return_as=return_as, **options)

    def _calls(self, function: Function, shared: SharedArguments, batches: Iterable[NumberedJobs]) -> Iterator[Any]:
        from joblib import delayed

        parent, reference = os.getpid(), self._reference(shared)
        return (delayed(_run_batch)(parent, function, reference, batch, self._limit) for batch in batches)


class ProcessBackend(ThreadBackend):
    """Run jobs in processes of this machine through joblib; shared arguments are in one memory-mapped file.

    joblib's own memory mapping takes 2.5 ms per job where this takes 0.4 ms, and leaves a core idle at the end.
    """

    def _reference(self, shared: SharedArguments) -> Any:
        def write() -> tuple[SharedFileRef, Callable[[], object]]:
            file = SharedFile(shared.values)
            # the closure keeps the object: its file is deleted with it
            return file.reference, lambda: file.close()

        return shared.resource("file", write)


class DaskBackend(ThreadBackend):
    """Run jobs on a Dask cluster."""

    batch_seconds = CLUSTER_BATCH_SECONDS

    def map(self, function: Function, shared: SharedArguments, jobs: NumberedJobs) -> Results:
        """Yield index and result of every job, as they are finished."""
        if _effective_n_jobs(self._options.n_jobs) > 1:
            yield from super().map(function, shared, jobs)
            return
        # joblib would leave a cluster of one worker idle and run everything in this process
        sizer, client = self._sizer(jobs), self._joblib_backend.client
        patience = None if self.time_limit is None else self.time_limit + KILL_AFTER
        # the next batch waits at the worker while it runs this one, unless time is limited
        ahead = 1 if self.time_limit is not None else 2
        parent, reference = os.getpid(), self._reference(shared)
        pending: deque[Any] = deque()
        try:
            for batch in sizer.batches():
                pending.append(client.submit(_run_batch, parent, function, reference, batch, self._limit, pure=False))
                if len(pending) == ahead:
                    yield from sizer.record(pending[0].result(timeout=patience))
                    pending.popleft()
            while pending:
                yield from sizer.record(pending[0].result(timeout=patience))
                pending.popleft()
        finally:
            for future in pending:
                future.cancel()

    def _reference(self, shared: SharedArguments) -> Any:
        client = self._joblib_backend.client

        def scatter() -> tuple[Any, Callable[[], object]]:
            for _ in range(SCATTER_ATTEMPTS):
                # the scheduler raises KeyError if a worker leaves in the meantime
                with suppress(KeyError):
                    # on every worker: arguments that only one worker holds are lost with it
                    future = client.scatter(shared, broadcast=True, hash=False)
                    return future, partial(_cancel, client, future)
                time.sleep(SCATTER_PAUSE)
            raise WorkError("Dask workers keep leaving while the log is sent to them; is the cluster healthy?")

        return shared.resource("dask", scatter)


def _cancel(client: Any, future: Any) -> None:
    # with everything that waits for it: jobs of a run that has ended would be tried again and again
    with suppress(Exception):  # the cluster may be gone
        client.cancel([future], force=True)


class RayBackend(ThreadBackend):
    """Run jobs on a Ray cluster, whose workers take long to start and which returns all results of a call together."""

    def map(self, function: Function, shared: SharedArguments, jobs: NumberedJobs) -> Results:
        """Yield index and result of every job, some jobs per worker at a time."""
        size = _effective_n_jobs(self._options.n_jobs) * (1 if self._options.one_by_one else JOBS_PER_WORKER)

        def open_pool() -> tuple[Any, Callable[[], object]]:
            pool = self._parallel("list", 1 if self._sends_single_jobs else "auto").__enter__()
            return pool, lambda: pool.__exit__(None, None, None)

        pool = shared.resource("ray pool", open_pool)
        for start in range(0, len(jobs), size):
            single_jobs = ([job] for job in jobs[start : start + size])
            for batch in pool(self._calls(function, shared, single_jobs)):
                yield from batch.results

    def _reference(self, shared: SharedArguments) -> Any:
        import ray

        return shared.resource("ray", lambda: (ray.put(shared), lambda: None))


def _effective_n_jobs(n_jobs: int | None) -> int:
    from joblib import effective_n_jobs

    count: Any = effective_n_jobs  # its type does not have None, which it accepts
    return int(count(n_jobs))


class BatchResults(NamedTuple):
    """Results of jobs that were sent out together, and the seconds they took."""

    results: list[tuple[int, Any]]
    seconds: float


class BatchSizer(Generic[T]):
    """Group jobs into batches that take about ``target_seconds``, by the time earlier jobs took; smaller near the end.

    ``target_seconds=0`` sends every job alone.

    >>> sizer = BatchSizer(range(12), n_workers=1, target_seconds=1.0)
    >>> batches = sizer.batches()
    >>> next(batches)
    [0]
    >>> _ = sizer.record(BatchResults([(0, None)], seconds=0.25))
    >>> list(batches)
    [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10], [11]]

    By hand: a job takes a quarter of a second, so four make a batch; half of the last three is two, rounded up.
    """

    def __init__(self, jobs: Sequence[T], n_workers: int, target_seconds: float) -> None:
        self._jobs, self._n_workers, self._target_seconds = jobs, n_workers, target_seconds
        self._finished, self._seconds = 0, 0.0

    def record(self, batch: BatchResults) -> list[tuple[int, Any]]:
        """Note how long a batch took, and return its results."""
        self._finished += len(batch.results)
        self._seconds += batch.seconds
        return batch.results

    def batches(self) -> Iterator[list[T]]:
        """Iterate over all jobs in order."""
        start = 0
        while start < len(self._jobs):
            size = 1
            if self._finished > 0 and self._target_seconds > 0:
                affordable = self._target_seconds * self._finished / max(self._seconds, 1e-9)
                remaining = len(self._jobs) - start
                size = max(1, int(min(affordable, -(-remaining // (BATCHES_AHEAD * self._n_workers)))))
            yield list(self._jobs[start : start + size])
            start += size


def _run_batch(
    parent: int, function: Function, reference: Any, batch: NumberedJobs, limit: TimeLimit | None
) -> BatchResults:
    """Run jobs that were sent out together, one after another."""
    start = time.perf_counter()
    results = [(i, _run_job(parent, function, reference, job, limit)) for i, job in batch]
    return BatchResults(results, time.perf_counter() - start)


def _run_job(parent: int, function: Function, reference: Any, job: Job, limit: TimeLimit | None) -> Any:
    """Run one job, in the parent process or in a worker."""
    if isinstance(reference, SharedArguments):
        values = reference.values
    elif isinstance(reference, SharedFileRef):
        values = load_shared(reference)
    else:
        import ray

        values = ray.get(reference).values
    in_worker = os.getpid() != parent
    if in_worker:
        # Ctrl-C reaches all processes of a terminal; the parent decides what happens to the jobs
        with suppress(ValueError):  # some clusters run jobs in threads, where signals cannot be set
            signal.signal(signal.SIGINT, signal.SIG_IGN)
    # linear algebra in one thread: jobs use the cores, and sums are taken in the same order everywhere
    one_thread = _thread_pools().limit(limits=1) if in_worker else nullcontext()
    try:
        with one_thread, nullcontext() if limit is None else limit_time(limit, job.name, in_worker=in_worker):
            return function(*values, *job.arguments)
    except (PolicyError, ContractError) as error:
        raise type(error)(f"{error} ({job.name})") from error.__cause__


@cache
def _thread_pools() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
