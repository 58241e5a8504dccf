"""run_jobs: run independent jobs in order of their numbers, in parallel, from a checkpoint, with progress.

Every job has a key, from which it takes its randomness, and a small result, so results do not depend on where a job
ran. joblib distributes the jobs: to threads or processes of this machine, or to a cluster that the caller selected with
``joblib.parallel_config``. Jobs of a worker that died are run again by another.
"""

from __future__ import annotations

import multiprocessing
import pickle
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from backcast._logging import logger
from backcast._parallel.checkpoint import Checkpoint
from backcast._parallel.stop import STOPPABLE
from backcast._parallel.time_limit import time_limit_error
from backcast._parallel.workers import Backend, Job, SharedArguments, select_backend
from backcast.errors import OptionError, StopEvaluation, WorkError

MAX_DEATHS = 3  # times in a row that workers may die without finishing a job
WORKER_LOSSES = {
    "BrokenProcessPool",  # processes of this machine
    "KilledWorker",  # Dask, when a job was tried on several workers and all of them died
    "CancelledError",  # Dask, when all workers died that held the shared arguments
    "RayActorError",
    "WorkerCrashedError",
}


def ignore_progress(events: int) -> None:
    """Do nothing: the default progress callback."""


def ignore_values(values: Sequence[tuple[float, float]]) -> None:
    """Do nothing: the default callback for values so far."""


@dataclass(frozen=True)
class Execution:
    """How jobs are run: parallel jobs, seconds per job, folder of finished jobs, and what progress is reported to.

    ``n_jobs`` is None for what ``joblib.parallel_config`` sets, else one. ``on_progress`` gets the number of events
    processed since its last call and may raise :class:`StopEvaluation`. ``on_values`` gets value and standard error of
    each policy so far, nan if not known.
    """

    n_jobs: int | None = None
    time_limit: float | None = None
    checkpoint: Checkpoint | None = None
    on_progress: Callable[[int], None] = ignore_progress
    on_values: Callable[[Sequence[tuple[float, float]]], None] = ignore_values

    @property
    def shows_values(self) -> bool:
        """Whether values so far are wanted."""
        return self.on_values is not ignore_values


class JobResults(NamedTuple):
    """Results in the order of the jobs; fewer if the progress callback stopped the run."""

    results: list[Any]
    stopped: bool


def run_jobs(
    function: Callable[..., Any],
    shared: SharedArguments,
    jobs: Sequence[Job],
    execution: Execution,
    *,
    threads: bool = False,
    result_types: Sequence[type] = (),
    on_results: Callable[[Sequence[Any]], None] | None = None,
) -> JobResults:
    """Return ``function(*shared.values, *job.arguments)`` for every job.

    ``threads`` means that the function releases the interpreter lock, so threads of one process are as good as
    processes. ``result_types`` are the NamedTuples and dataclasses in results, which a checkpoint needs to read them.
    ``on_results`` gets the results so far, in the order of the jobs, after each of them.

    >>> run_jobs(pow, SharedArguments(2), [Job(("power", n), (n,), events=1) for n in (3, 4)], Execution())
    JobResults(results=[8, 16], stopped=False)
    """
    from threadpoolctl import threadpool_limits

    checkpoint = execution.checkpoint
    results: dict[int, Any] = {}
    if checkpoint is not None:
        stored = {i: checkpoint.get(job.file_name, result_types) for i, job in enumerate(jobs)}
        results = {i: entry.value for i, entry in stored.items() if entry is not None}
        logger.info("%d of %d jobs are in the checkpoint %s", len(results), len(jobs), checkpoint.folder)
    # results that are stored are wanted one by one, as soon as they exist
    backend = select_backend(execution.n_jobs, execution.time_limit, threads=threads, one_by_one=checkpoint is not None)
    reported = 0
    with threadpool_limits(1):
        computed = _compute(backend, function, shared, jobs, [i for i in range(len(jobs)) if i not in results])
        try:
            while reported < len(jobs):
                if reported in results:
                    # progress is reported in the order of the jobs, so a run that is stopped has the first of them
                    reported += 1
                    if on_results is not None:
                        on_results([results[i] for i in range(reported)])
                    execution.on_progress(jobs[reported - 1].events)
                    continue
                with STOPPABLE:
                    i, result = next(computed)
                results[i] = result
                logger.debug("%s finished, %d of %d", jobs[i].name, len(results), len(jobs))
                if checkpoint is not None:
                    checkpoint.put(jobs[i].file_name, result, result_types)
        except StopEvaluation:
            return JobResults([results[i] for i in range(reported)], stopped=True)
        finally:
            computed.close()
    return JobResults([results[i] for i in range(len(jobs))], stopped=False)


def _compute(
    backend: Backend, function: Callable[..., Any], shared: SharedArguments, jobs: Sequence[Job], missing: list[int]
) -> Generator[tuple[int, Any], None, None]:
    """Yield index and result of the missing jobs; jobs of workers that die are sent out again."""
    deaths = 0
    while missing:
        results = backend.map(function, shared, [(i, jobs[i]) for i in missing])
        try:
            for i, result in results:
                deaths = 0
                missing.remove(i)
                yield i, result
        except (TimeoutError, multiprocessing.TimeoutError) as error:
            if backend.time_limit is None:
                raise WorkError(f"the jobs could not be sent to the workers: {error}") from error
            name = f"{jobs[missing[0]].name}, or a job sent out with it,"
            raise time_limit_error(name, backend.time_limit) from None
        except pickle.PicklingError as error:
            # the cause may be a whole remote traceback, whose last line names the problem
            reason = str(error.__cause__ or error).strip('"\n ').splitlines()[-1]
            raise OptionError(
                f"the jobs cannot be sent to other processes ({reason}); use n_jobs=1, or a policy that can be pickled"
            ) from error
        except Exception as error:
            if not any(kind.__name__ in WORKER_LOSSES for kind in type(error).__mro__):
                raise
            deaths += 1
            logger.warning("a worker died (%s); its jobs are run again", type(error).__name__)
            if deaths == MAX_DEATHS:
                raise WorkError(
                    f"workers died {deaths} times in a row while running {jobs[missing[0]].name} and the jobs sent "
                    "with it; most likely memory ran out: use fewer parallel jobs (n_jobs), or a shorter log"
                ) from error
            shared.close()
        finally:
            results.close()
