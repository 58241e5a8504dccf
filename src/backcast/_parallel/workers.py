"""How many pieces of work to send out together: what takes long goes alone, and the last keep nobody waiting."""

from __future__ import annotations

import os
import signal
import time
import warnings
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from functools import cache
from typing import Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np

from backcast._parallel.shared_file import SharedFile, SharedFileRef, load_shared
from backcast._parallel.time_limit import TimeLimit, time_limit_of
from backcast.errors import PolicyError, WorkError
from backcast.log import Log

AHEAD = 2  # loads for each worker that what is left should still be good for


T = TypeVar("T")


class BatchSizer(Generic[T]):
    """Pieces in loads that take about a moment each, from what earlier ones took; smaller ones towards the end.

    ``target_seconds`` is in seconds; 0 sends every piece alone.

    >>> pace = BatchSizer(range(12), workers=1, target_seconds=1.0)
    >>> loads = pace.loads()
    >>> next(loads)
    [0]
    >>> pace.note(pieces=1, seconds=0.25)
    >>> list(loads)
    [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10], [11]]

    By hand: a piece takes a quarter of a second, so four make a moment; of the last three, half is two.
    """

    def __init__(self, pieces: Sequence[T], workers: int, target_seconds: float) -> None:
        self._pieces, self._workers, self._moment = pieces, workers, target_seconds
        self._noted, self._seconds = 0, 0.0

    def note(self, pieces: int, seconds: float) -> None:
        """So many pieces took so long."""
        self._noted += pieces
        self._seconds += seconds

    def loads(self) -> Iterator[list[T]]:
        """All pieces in order."""
        start = 0
        while start < len(self._pieces):
            size = self._size(len(self._pieces) - start)
            yield list(self._pieces[start : start + size])
            start += size

    def _size(self, left: int) -> int:
        if self._noted == 0 or self._moment == 0:
            return 1
        wanted = self._moment * self._noted / max(self._seconds, 1e-9)
        return max(1, int(min(wanted, -(-left // (AHEAD * self._workers)))))


Results: TypeAlias = Generator[tuple[int, Any], None, None]


DASK, RAY, PROCESSES = "DaskDistributedBackend", "RayBackend", "LokyBackend"


GRACE = 20.0  # seconds beyond the limit after which a worker that does not listen is ended


# seconds of work that are sent out together: much beside what sending takes (bench/results/scale.md), little beside all
MOMENT, CLUSTER_MOMENT = 0.2, 0.5


SCATTERS, PAUSE = 5, 1.0  # times that Dask is sent what pieces share while its workers come and go, seconds in between


HANDFUL = 4  # pieces for each worker that are asked for at once, where results come back together


class SharedArguments:
    """What all pieces of a question share, and where on a cluster it lies."""

    def __init__(self, *values: Any) -> None:
        self.values = values
        self._places: dict[str, Any] = {}
        self._hands: Any = None

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, self.values

    def handle(self, backend: Any) -> Any:
        """What to send with a piece so that its worker finds the values."""
        kind = type(backend).__name__
        if kind == PROCESSES:
            if kind not in self._places:
                self._places[kind] = SharedFile(self.values)
            place: SharedFileRef = self._places[kind].place
            return place
        if kind == DASK and kind not in self._places:
            self._places[kind] = _scattered(backend.client, self)
        if kind == RAY and kind not in self._places:
            import ray

            self._places[kind] = ray.put(self)
        return self._places.get(kind, self)

    def hands(self, hire: Callable[[], Any]) -> Any:
        """Workers that stay for all the work on these values, hired when they are first needed."""
        if self._hands is None:
            self._hands = hire().__enter__()
        return self._hands

    def close(self) -> None:
        """Let workers go, and forget where the values lie: they are sent anew to whoever works on them next."""
        places, self._places = self._places, {}
        if PROCESSES in places:
            places[PROCESSES].close()
        if DASK in places:
            # with all that still waits for it: pieces of a run that has ended would be tried again and again
            with suppress(Exception):  # the cluster may be gone
                places[DASK].client.cancel([places[DASK]], force=True)
        if self._hands is not None:
            hands, self._hands = self._hands, None
            hands.__exit__(None, None, None)


def _scattered(client: Any, shared: SharedArguments) -> Any:
    """The same on every worker of Dask: what only one holds is lost with it."""
    for _ in range(SCATTERS):
        # a worker that leaves meanwhile is missed by the scheduler, where it looks the worker up
        with suppress(KeyError):
            return client.scatter(shared, broadcast=True, hash=False)
        time.sleep(PAUSE)
    raise WorkError("workers of Dask leave again and again while they are sent the log; is the cluster in order?")


def _arrived(*values: Any) -> SharedArguments:
    """The same in another process, arrays laid as compiled code wants them: in a message they may begin anywhere."""
    return SharedArguments(*map(_aligned, values))


def _aligned(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return np.require(value, requirements=["A"])
    if isinstance(value, Log):
        return value.replace(**{name: _aligned(getattr(value, name)) for name in Log.COLUMNS})
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(_aligned, value))
    return value


class Task(NamedTuple):
    """A piece of work as it is sent out: its place among all, what it is called, and its own arguments."""

    place: int
    name: str
    arguments: tuple[Any, ...]


class WorkerPool(NamedTuple):
    """Workers for one kind of work.

    ``n_jobs`` is how many at once (None: as the caller's ``joblib.parallel_config`` says, else one); ``threads`` says
    that the work lets go of the interpreter's lock; ``time_limit`` is in seconds for a piece; ``one_by_one`` says that
    each result is wanted as soon as it is there.
    """

    n_jobs: int | None = None
    threads: bool = False
    time_limit: float | None = None
    one_by_one: bool = False

    def results(self, function: Callable[..., Any], shared: SharedArguments, tasks: Sequence[Task]) -> Results:
        """Place and result of every task, as they are done."""
        from joblib.parallel import get_active_backend

        backend, context_jobs = get_active_backend(prefer=self._hint)
        kind = type(backend).__name__
        # a whole cluster is what whoever chose it wants; joblib's own default is one worker for Ray, all for Dask
        n_jobs = -1 if kind == RAY and self.n_jobs is None and context_jobs in (None, 1) else self.n_jobs
        workers = _at_once(n_jobs)
        if kind not in (DASK, RAY) and workers == 1:
            return self._here(function, shared, tasks)
        if kind == RAY:
            return self._by_handfuls(function, shared, tasks, backend, n_jobs)
        target_seconds = 0.0 if self._is_alone else CLUSTER_MOMENT if kind == DASK else MOMENT
        pace = BatchSizer(tasks, workers, target_seconds)
        if kind == DASK and workers == 1:
            return self._by_one(function, shared, pace, backend)
        return self._streamed(function, shared, pace, backend, n_jobs)

    @property
    def _hint(self) -> Literal["threads"] | None:
        # threads cannot be ended from outside, so a limit takes processes
        return "threads" if self.threads and self.time_limit is None else None

    @property
    def _limit(self) -> TimeLimit | None:
        return None if self.time_limit is None else TimeLimit(self.time_limit, GRACE)

    @property
    def _is_alone(self) -> bool:
        """Whether every piece is sent out by itself."""
        return self.one_by_one or self.time_limit is not None

    def _here(self, function: Callable[..., Any], shared: SharedArguments, tasks: Sequence[Task]) -> Results:
        for task in tasks:
            yield _done(os.getpid(), function, shared, task, self._limit)

    def _by_one(
        self, function: Callable[..., Any], shared: SharedArguments, pace: BatchSizer[Task], backend: Any
    ) -> Results:
        """For a cluster of one worker, which joblib would leave idle to do all of it here."""
        asker, handle = os.getpid(), shared.handle(backend)
        patience = None if self.time_limit is None else self.time_limit + GRACE
        # the next load waits at the worker while it does this one, unless time is counted
        ahead = 1 if self.time_limit is not None else 2
        sent: deque[Any] = deque()
        try:
            for load in pace.loads():
                work = asker, function, handle, load, self._limit
                sent.append(backend.client.submit(_load_done, *work, pure=False))
                if len(sent) == ahead:
                    yield from _noted(pace, sent[0].result(timeout=patience))
                    sent.popleft()
            while sent:
                yield from _noted(pace, sent[0].result(timeout=patience))
                sent.popleft()
        finally:
            for unwanted in sent:
                unwanted.cancel()

    def _streamed(
        self,
        function: Callable[..., Any],
        shared: SharedArguments,
        pace: BatchSizer[Task],
        backend: Any,
        n_jobs: int | None,
    ) -> Results:
        loads = self._calls(function, shared, pace.loads(), backend)
        outcomes = self._parallel(n_jobs, "generator_unordered", 1)(loads)
        try:
            for outcome in outcomes:
                yield from _noted(pace, outcome)
        finally:
            # work that is no longer wanted is let go; joblib would warn that it was in vain
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                outcomes.close()

    def _by_handfuls(
        self,
        function: Callable[..., Any],
        shared: SharedArguments,
        tasks: Sequence[Task],
        backend: Any,
        n_jobs: int | None,
    ) -> Results:
        """For engines that give results back all together, and whose workers take long to start."""
        size = _at_once(n_jobs) * (1 if self.one_by_one else HANDFUL)
        hands = shared.hands(lambda: self._parallel(n_jobs, "list", 1 if self._is_alone else "auto"))
        for start in range(0, len(tasks), size):
            handful = ([task] for task in tasks[start : start + size])
            for load in hands(self._calls(function, shared, handful, backend)):
                yield from load.results

    def _parallel(self, n_jobs: int | None, return_as: str, batch_size: int | str) -> Any:
        from joblib import Parallel

        # arrays in a file are mapped so that they count as writable, else every pass would copy them
        options: dict[str, Any] = {"mmap_mode": "c", "prefer": self._hint, "batch_size": batch_size}
        if self.time_limit is not None:
            # none waits in line, so all that are out are at work
            options |= {"timeout": self.time_limit + GRACE, "pre_dispatch": "n_jobs"}
        return Parallel(n_jobs=n_jobs, return_as=return_as, **options)

    def _calls(
        self, function: Callable[..., Any], shared: SharedArguments, loads: Iterable[list[Task]], backend: Any
    ) -> Iterator[Any]:
        from joblib import delayed

        asker, handle = os.getpid(), shared.handle(backend)
        return (delayed(_load_done)(asker, function, handle, load, self._limit) for load in loads)


def _at_once(n_jobs: int | None) -> int:
    from joblib import effective_n_jobs

    count: Any = effective_n_jobs  # None, which it takes, is missing from its type
    return int(count(n_jobs))


class Load(NamedTuple):
    """What came of pieces that were sent out together, and the seconds they took."""

    results: list[tuple[int, Any]]
    seconds: float


def _noted(pace: BatchSizer[Task], load: Load) -> list[tuple[int, Any]]:
    pace.note(len(load.results), load.seconds)
    return load.results


def _load_done(
    asker: int, function: Callable[..., Any], handle: Any, tasks: Sequence[Task], limit: TimeLimit | None
) -> Load:
    """Pieces that were sent out together, one after another."""
    start = time.perf_counter()
    results = [_done(asker, function, handle, task, limit) for task in tasks]
    return Load(results, time.perf_counter() - start)


def _done(
    asker: int, function: Callable[..., Any], handle: Any, task: Task, limit: TimeLimit | None
) -> tuple[int, Any]:
    """One piece, by whoever it was sent to."""
    values = _values(handle)
    elsewhere = os.getpid() != asker
    if elsewhere:
        # Ctrl-C reaches all processes of a terminal; whoever asked decides what becomes of the work
        with suppress(ValueError):  # some clusters work in threads, which signals do not reach
            signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with _one_thread() if elsewhere else nullcontext(), time_limit_of(limit, task.name, elsewhere=elsewhere):
            return task.place, function(*values, *task.arguments)
    except PolicyError as problem:
        raise type(problem)(f"{problem} ({task.name})") from problem.__cause__


def _values(handle: Any) -> tuple[Any, ...]:
    if isinstance(handle, SharedArguments):
        return handle.values
    if isinstance(handle, SharedFileRef):
        return load_shared(handle)
    import ray

    found: SharedArguments = ray.get(handle)
    return found.values


def _one_thread() -> Any:
    """Linear algebra in one thread: the pieces have the cores, and sums come out alike wherever they are taken."""
    return _libraries().limit(limits=1)


@cache
def _libraries() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
