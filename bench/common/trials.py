"""Numbered trials in parallel, each stored when it is finished, so that a stopped run can continue."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from backcast._parallel.checkpoint import open_checkpoint
from backcast._parallel.jobs import Execution, Job, run_jobs
from backcast._parallel.workers import SharedArguments


def run_trials(
    function: Callable[..., Any],
    shared: tuple[Any, ...],
    count: int,
    *,
    folder: Path,
    facts: Mapping[str, Any],
    jobs: int = 1,
    result_types: Sequence[type] = (),
    show_progress: bool = True,
) -> list[Any]:
    """Return the results of ``function(*shared, number)`` for every number below ``count``.

    Parameters
    ----------
    function
        A trial. It takes its randomness from its number, and worker processes can import it.
    shared
        Arguments that all trials have in common.
    count
        Number of trials; more than in an earlier run adds the missing ones.
    folder
        Where finished trials are stored. Trials stored there are not run again.
    facts
        What the trials depend on; a folder of other facts is refused.
    jobs
        Trials at the same time.
    result_types
        The NamedTuples and dataclasses in the results.
    show_progress
        Whether to show a bar on the error stream.

    Examples
    --------
    >>> import tempfile
    >>> run_trials(pow, (2,), 4, folder=Path(tempfile.mkdtemp()), facts={"base": 2}, show_progress=False)
    [1, 2, 4, 8]
    """
    checkpoint = open_checkpoint(folder, {name: str(value) for name, value in facts.items()})
    numbered = [Job(("trial", number), (number,), events=1) for number in range(count)]
    with _progress_bar(folder.name, count, visible=show_progress) as on_progress:
        execution = Execution(jobs, None, checkpoint, on_progress)
        return run_jobs(function, SharedArguments(*shared), numbered, execution, kinds=result_types).results


@contextmanager
def _progress_bar(title: str, total: int, *, visible: bool) -> Iterator[Callable[[int], None]]:
    with Progress(console=Console(stderr=True), transient=True, disable=not visible) as progress:
        task = progress.add_task(title, total=total)
        yield lambda trials: progress.advance(task, trials)
