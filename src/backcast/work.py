"""Pieces of work, done one by one, side by side, or on a cluster: what is done does not depend on who did it.

Every piece has a key of its own, from which it takes its randomness, and leaves a small result. joblib hands the pieces
out: to threads or processes of this machine, or to a cluster where the caller said so with ``joblib.parallel_config``.
"""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from backcast.errors import Enough

__all__ = ["Finished", "Job", "no_progress", "work_off"]


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


class Finished(NamedTuple):
    """Results in the order of the jobs; fewer where somebody had enough."""

    results: list[Any]
    stopped: bool


def work_off(
    function: Callable[..., Any],
    shared: tuple[Any, ...],
    jobs: Sequence[Job],
    *,
    n_jobs: int | None = None,
    threads: bool = False,
    on_progress: Callable[[int], None] = no_progress,
) -> Finished:
    """Results of ``function(*shared, *job.arguments)`` for every job.

    ``threads`` says that the function lets go of the interpreter's lock, so that threads of one process serve as well.

    >>> work_off(pow, (2,), [Job(("power", n), (n,), events=1) for n in (3, 4)])
    Finished(results=[8, 16], stopped=False)
    """
    from joblib import Parallel, delayed
    from threadpoolctl import threadpool_limits

    work = Parallel(n_jobs=n_jobs, prefer="threads" if threads else None, return_as="generator")
    asker = os.getpid()
    outcomes = work(delayed(_one)(asker, function, job.arguments, *shared) for job in jobs)
    results: list[Any] = []
    with threadpool_limits(1):
        try:
            for job, outcome in zip(jobs, outcomes, strict=True):
                results.append(outcome)
                on_progress(job.events)
        except Enough:
            _cancel(outcomes)
            return Finished(results, stopped=True)
    return Finished(results, stopped=False)


def _cancel(outcomes: Any) -> None:
    """Let go of work that is no longer wanted; joblib would warn that it was in vain."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        outcomes.close()


def _one(asker: int, function: Callable[..., Any], arguments: tuple[Any, ...], *shared: Any) -> Any:
    if os.getpid() != asker:
        # Ctrl-C reaches all processes of a terminal; whoever asked decides what becomes of the work
        with suppress(ValueError):  # some clusters work in threads, which signals do not reach
            signal.signal(signal.SIGINT, signal.SIG_IGN)
    return function(*shared, *arguments)
