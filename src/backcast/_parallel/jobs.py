"""Pieces of work, done one by one, side by side, or on a cluster: what is done does not depend on who did it.

Every piece has a key of its own, from which it takes its randomness, and leaves a small result. joblib hands the pieces
out: to threads or processes of this machine, or to a cluster where the caller said so with ``joblib.parallel_config``.
Results may be kept in a checkpoint, and those that are kept are not computed again. Work of a worker that died is done
by another.
"""

from __future__ import annotations

import multiprocessing
import pickle
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from backcast._parallel.checkpoint import Checkpoint
from backcast._parallel.time_limit import out_of_time
from backcast._parallel.workers import SharedArguments, Task, WorkerPool
from backcast.errors import OptionError, StopEvaluation, WorkError

PATIENCE = 3  # times in a row that workers may die without finishing a piece


LOST = {
    "BrokenProcessPool",  # processes of this machine
    "KilledWorker",  # Dask, when a piece was tried on several workers and all of them died
    "CancelledError",  # Dask, when all workers died that held what the pieces share
    "RayActorError",
    "WorkerCrashedError",
}


def no_progress(events: int) -> None:
    """Nobody is watching."""


class Job(NamedTuple):
    """One piece of work.

    ``key`` names it, alone among the pieces of a question and alike in every run; ``events`` is its size, for whoever
    watches the progress.
    """

    key: tuple[str | int, ...]
    arguments: tuple[Any, ...]
    events: int

    @property
    def name(self) -> str:
        """What messages call it."""
        return " ".join(map(str, self.key))


@dataclass(frozen=True)
class Execution:
    """On what terms work is done: how many pieces at once, how long one may take, where they are kept, who watches."""

    n_jobs: int | None = None
    time_limit: float | None = None
    keep: Checkpoint | None = None
    on_progress: Callable[[int], None] = no_progress


class JobResults(NamedTuple):
    """Results in the order of the jobs; fewer where somebody had enough."""

    results: list[Any]
    stopped: bool


def run_jobs(
    function: Callable[..., Any],
    shared: SharedArguments,
    jobs: Sequence[Job],
    terms: Execution,
    *,
    threads: bool = False,
    kinds: Sequence[type] = (),
) -> JobResults:
    """Results of ``function(*shared.values, *job.arguments)`` for every job.

    ``threads`` says that the function lets go of the interpreter's lock, so that threads of one process serve as well.
    ``kinds`` are the NamedTuples and dataclasses in the results, which a checkpoint must know.

    >>> run_jobs(pow, SharedArguments(2), [Job(("power", n), (n,), events=1) for n in (3, 4)], Execution())
    JobResults(results=[8, 16], stopped=False)
    """
    from threadpoolctl import threadpool_limits

    crew = WorkerPool(terms.n_jobs, threads, terms.time_limit, one_by_one=terms.keep is not None)
    found = {} if terms.keep is None else _kept(terms.keep, jobs, kinds)
    told = 0
    with threadpool_limits(1):
        work = _new_results(crew, function, shared, jobs, found)
        try:
            while told < len(jobs):
                if told in found:
                    # in the order of the jobs, so that whoever has enough gets the first so many of them
                    told += 1
                    terms.on_progress(jobs[told - 1].events)
                    continue
                place, result = next(work)
                found[place] = result
                if terms.keep is not None:
                    terms.keep.put(_file(jobs[place]), result, kinds)
        except StopEvaluation:
            return JobResults([found[place] for place in range(told)], stopped=True)
        finally:
            work.close()
    return JobResults([found[place] for place in range(len(jobs))], stopped=False)


def _kept(keep: Checkpoint, jobs: Sequence[Job], kinds: Sequence[type]) -> dict[int, Any]:
    pieces = {place: keep.get(_file(job), kinds) for place, job in enumerate(jobs)}
    return {place: piece.value for place, piece in pieces.items() if piece is not None}


def _file(job: Job) -> str:
    return "-".join(map(str, job.key))


def _new_results(
    crew: WorkerPool, function: Callable[..., Any], shared: SharedArguments, jobs: Sequence[Job], found: dict[int, Any]
) -> Generator[tuple[int, Any], None, None]:
    """Results that are not found yet; where workers die, what they had in hand is given to others."""
    deaths = 0
    missing = [place for place in range(len(jobs)) if place not in found]
    while missing:
        results = crew.results(function, shared, [Task(i, jobs[i].name, jobs[i].arguments) for i in missing])
        try:
            for place, result in results:
                deaths = 0
                missing.remove(place)
                yield place, result
        except (TimeoutError, multiprocessing.TimeoutError) as problem:
            if crew.time_limit is None:
                raise WorkError(f"the work could not be sent out: {problem}") from problem
            raise out_of_time(f"{jobs[missing[0]].name}, or one sent out with it,", crew.time_limit) from None
        except pickle.PicklingError as problem:
            raise _unsendable(problem) from problem
        except Exception as problem:
            if not _is_loss(problem):
                raise
            deaths += 1
            if deaths == PATIENCE:
                raise WorkError(
                    f"workers died {deaths} times in a row while doing {jobs[missing[0]].name} and what came with it; "
                    "most likely memory ran out: use fewer at once (n_jobs), or a shorter log"
                ) from problem
            shared.close()
        finally:
            results.close()


def _is_loss(problem: Exception) -> bool:
    return any(kind.__name__ in LOST for kind in type(problem).__mro__)


def _unsendable(problem: Exception) -> OptionError:
    # the cause may be the whole of a remote traceback, whose last line says what it was
    reason = str(problem.__cause__ or problem).strip('"\n ').splitlines()[-1]
    return OptionError(
        f"the work cannot be sent to other processes ({reason}); run it with n_jobs=1, or give a policy that can be "
        "pickled"
    )
