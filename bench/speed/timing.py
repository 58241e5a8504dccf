"""What every runner shares: its arguments, its stopwatch, and the line of JSON it ends with."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from time import perf_counter

from bench.speed.data import WeightTransform


@dataclass(frozen=True)
class Timing:
    """One run of one system: ``value`` is its estimate, to show that it did the work."""

    system: str
    work: str
    events: int
    seconds: float
    value: float
    accepted: int | None = None

    @property
    def rate(self) -> float:
        return self.events / self.seconds


@dataclass(frozen=True)
class Job:
    """A piece of work made ready: ``run`` is timed and returns the value and the number of accepted events."""

    system: str
    work: str
    run: Callable[[], tuple[float, int | None]]


Runner = Callable[[WeightTransform, int], Job]


def timed(job: Job, events: int) -> Timing:
    start = perf_counter()
    value, accepted = job.run()
    return Timing(job.system, job.work, events, perf_counter() - start, float(value), accepted)


def main(runners: Mapping[str, Runner]) -> None:
    """Run one of the runners as the command line says; reading the log into the system's own types is not timed."""
    parser = ArgumentParser()
    parser.add_argument("runner", choices=runners)
    parser.add_argument("--shape", nargs=3, type=int, default=(1_000_000, 10, 20), metavar=("N", "K", "D"))
    parser.add_argument("--limit", type=int, help="use the first events only")
    parser.add_argument("--repeat", type=int, default=1, help="report the quickest of several runs")
    options = parser.parse_args()
    shape = WeightTransform(*options.shape)
    limit = options.limit or shape.events
    job = runners[options.runner](shape, limit)
    best = min((timed(job, limit) for _ in range(options.repeat)), key=lambda timing: timing.seconds)
    print(json.dumps(asdict(best)))
