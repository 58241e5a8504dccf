"""Numbered trials in parallel, each stored when it is finished, so that a stopped run can continue."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from backcast._parallel.checkpoint import open_checkpoint
from backcast._parallel.jobs import Execution, run_jobs
from backcast._parallel.workers import Job, SharedArguments


@dataclass(frozen=True)
class TrialRunner:
    """Runs trials, ``jobs`` at the same time, and stores them under ``folder``.

    Examples
    --------
    >>> import tempfile
    >>> TrialRunner(Path(tempfile.mkdtemp()), show_progress=False).run("powers", pow, (2,), 4)
    [1, 2, 4, 8]
    """

    folder: Path
    seed: int = 0
    jobs: int = 1
    show_progress: bool = True

    def run(
        self,
        name: str,
        function: Callable[..., Any],
        shared: tuple[Any, ...],
        count: int,
        facts: Mapping[str, Any] | None = None,
        result_types: Sequence[type] = (),
    ) -> list[Any]:
        """Return the results of ``function(*shared, number)`` for every number below ``count``.

        A trial takes its randomness from its number. Trials already stored under the name are not run again; if they
        had another seed or other facts, an error is raised. ``result_types`` are the NamedTuples and dataclasses in
        the results.
        """
        identity = {"seed": self.seed, **(facts or {})}
        checkpoint = open_checkpoint(self.folder / name, {key: str(value) for key, value in identity.items()})
        numbered = [Job(("trial", number), (number,), events=1) for number in range(count)]
        with Progress(console=Console(stderr=True), transient=True, disable=not self.show_progress) as bar:
            task = bar.add_task(name, total=count)
            execution = Execution(self.jobs, None, checkpoint, lambda trials: bar.advance(task, trials))
            return run_jobs(function, SharedArguments(*shared), numbered, execution, result_types=result_types).results
