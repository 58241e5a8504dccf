"""One worker and two in turn, so that a slow minute affects both: one, two, two, one, and so on.

Each side is a process that has prepared its case and waits; ratios are of runs next to each other. The limit of the
machine is measured too: two independent processes, each with the whole workload.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from bench.common.output import print_status
from bench.scale.worker_process import Case, Measurement, start_worker_process


@dataclass(frozen=True)
class Pairs:
    """Seconds of runs on one worker and on two, and on one worker beside an independent process (``beside``)."""

    work: str
    engine: str
    one: tuple[float, ...]
    two: tuple[float, ...]
    beside: tuple[float, ...]

    @property
    def ratios(self) -> list[float]:
        """Speed-up of each pair.

        >>> Pairs("w", "local", one=(2.0, 3.0, 2.0), two=(1.0, 2.0, 1.25), beside=()).ratios
        [2.0, 1.5, 1.6]
        """
        return [one / two for one, two in zip(self.one, self.two, strict=True)]

    @property
    def speed_up(self) -> float:
        """Median speed-up."""
        return median(self.ratios)

    @property
    def ceiling(self) -> float | None:
        """Speed-up of two independent processes: twice the work, in the time that they take beside each other.

        >>> Pairs("w", "local", one=(2.0,), two=(1.25,), beside=(2.5, 2.5)).ceiling
        1.6
        """
        return 2 * median(self.one) / median(self.beside) if self.beside else None


def measure_pairs(work: str, engine: str, folder: Path, rounds: int) -> tuple[Pairs, list[Measurement]]:
    """Return rounds of one, two, two, one, and the run of median length of each."""
    one, two = Case(work, engine, 1), Case(work, engine, 2)
    single_runs: list[Measurement] = []
    double_runs: list[Measurement] = []
    beside: list[float] = []
    with ExitStack() as stack:
        single, double = (stack.enter_context(start_worker_process(case, folder)) for case in (one, two))
        # processes of a cluster share its scheduler, so independent processes are measured on this machine only
        independent = [single, stack.enter_context(start_worker_process(one, folder))] if engine == "local" else []
        for number in range(1, rounds + 1):
            for worker, runs in (
                (single, single_runs),
                (double, double_runs),
                (double, double_runs),
                (single, single_runs),
            ):
                runs.append(worker.run())
            for worker in independent:
                worker.start_run()
            beside += [worker.wait_for_run().seconds for worker in independent]
            times = [", ".join(f"{run.seconds:.1f}" for run in runs[-2:]) for runs in (single_runs, double_runs)]
            print_status(f"{work}, {engine}: {times[0]} and {times[1]} s (round {number} of {rounds})")
    one_seconds, two_seconds = (tuple(run.seconds for run in runs) for runs in (single_runs, double_runs))
    pairs = Pairs(work, engine, one_seconds, two_seconds, tuple(beside))
    return pairs, [_median_run(single_runs), _median_run(double_runs)]


def _median_run(runs: list[Measurement]) -> Measurement:
    """Return a run of median length, with a value that differs from the first run's if there is one."""
    middle = sorted(runs, key=lambda run: run.seconds)[len(runs) // 2]
    different = [run.value for run in runs if run.value != runs[0].value]
    return replace(middle, value=different[0]) if different else middle
