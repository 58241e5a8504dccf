"""Command line, timing and output of every runner."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from time import perf_counter

from bench.speed.data import LogShape


@dataclass(frozen=True)
class Timing:
    """One run of one system; ``value`` is its estimate, as evidence that it did the work."""

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
class PreparedRun:
    """A run whose input is built: ``run`` is timed, and returns the value and the number of accepted events."""

    system: str
    work: str
    run: Callable[[], tuple[float, int | None]]


Runner = Callable[[LogShape, int], PreparedRun]


def measure_time(prepared: PreparedRun, events: int) -> Timing:
    start = perf_counter()
    value, accepted = prepared.run()
    return Timing(prepared.system, prepared.work, events, perf_counter() - start, float(value), accepted)


def main(runners: Mapping[str, Runner]) -> None:
    """Run the runner named on the command line; converting the log to the system's types is not timed."""
    parser = ArgumentParser()
    parser.add_argument("runner", choices=runners)
    parser.add_argument("--shape", nargs=3, type=int, default=(1_000_000, 10, 20), metavar=("N", "K", "D"))
    parser.add_argument("--limit", type=int, help="use the first events only")
    parser.add_argument("--repeat", type=int, default=1, help="report the fastest of several runs")
    options = parser.parse_args()
    shape = LogShape(*options.shape)
    limit = options.limit or shape.events
    prepared = runners[options.runner](shape, limit)
    best = min((measure_time(prepared, limit) for _ in range(options.repeat)), key=lambda timing: timing.seconds)
    print(json.dumps(asdict(best)))
