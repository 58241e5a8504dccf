"""Measure every system in turn, several rounds, and write the table: ``python -m bench.speed.run``."""

from __future__ import annotations

import json
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Iterable
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

from bench.speed import charts, machine, memory, report, scaling
from bench.speed.cases import Case, CaseFailed, Target, run, targets
from bench.speed.data import FOLDER, WeightTransform, npz_file
from bench.speed.timing import Timing

RESULTS = Path("bench/results")
PARALLEL_EVENTS = 4_000_000
STOPWATCH = "from time import perf_counter as now; start = now(); import {}; print(now() - start)"


def tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def cases_of(comparisons: Iterable[Target]) -> list[Case]:
    """Every case once, ours also on each peer's prefix, in the order of the comparisons."""
    return list(dict.fromkeys(c for t in comparisons for c in (t.peer, t.ours, t.ours.on(t.peer.limit))))


def attempt(case: Case) -> Timing | str:
    try:
        return run(case)
    except CaseFailed as failure:
        return str(failure)


def quicker(best: Timing | str | None, new: Timing | str) -> Timing | str:
    """The better of two attempts at a case; a failure is kept only where nothing was measured."""
    measured = [attempt for attempt in (best, new) if isinstance(attempt, Timing)]
    return min(measured, key=lambda timing: timing.seconds) if measured else new


def interleaved(cases: list[Case], rounds: int) -> dict[Case, Timing | str]:
    """The best of several rounds, each of which runs every case once: a slow minute hits all alike."""
    best: dict[Case, Timing | str] = {}
    for turn in range(1, rounds + 1):
        for case in cases:
            new = attempt(case)
            best[case] = quicker(best.get(case), new)
            shown = f"{new.rate:,.0f} events/s" if isinstance(new, Timing) else new
            tell(f"round {turn}/{rounds}  {case.module} {case.runner}, {case.limit:,} events: {shown}")
    return best


def import_seconds(name: str, rounds: int) -> float:
    command = [sys.executable, "-c", STOPWATCH.format(name)]
    return min(float(subprocess.run(command, capture_output=True, text=True, check=True).stdout) for _ in range(rounds))


def imports(rounds: int) -> str:
    ours, numpy = import_seconds("backcast", rounds), import_seconds("numpy", rounds)
    times = f"`import backcast` takes {1e3 * ours:.0f} ms, `import numpy` {1e3 * numpy:.0f} ms"
    return f"{times}: {ours / numpy:.2f}× (asked: at most 2×)."


def parallel(scale: float, rounds: int) -> str:
    """A fixed policy from Parquet with one job and with two."""
    events = int(PARALLEL_EVENTS * scale)
    cases = [Case("ours", f"fixed-{jobs}", events, (events, 10, 20)) for jobs in (1, 2)]
    found = [timing for timing in interleaved(cases, rounds).values() if isinstance(timing, Timing)]
    lines = [f"- {timing.system}, {timing.work}: {timing.rate:,.0f} events/s" for timing in found]
    return "\n".join([*lines, f"- two jobs over one: {found[1].rate / found[0].rate:.2f}×"])


def written(sections: dict[str, str], command: str) -> str:
    versions = ", ".join(f"{name} {number}" for name, number in machine.versions().items())
    head = [
        "# Speed",
        f"Measured on {date.today().isoformat()} with `{command}`.",
        f"Machine: {machine.describe()}. Versions: {versions}.",
        "One uniformly logged log, K = 10, d = 20, for all; each system in its own process on one thread (VW reads on "
        "a second one), all systems in turn, best of the rounds. Making a system's own input types from the log is not "
        "timed; reading files is, where the table says file. Slow systems get a prefix of the log, and the ratio is "
        "given for that prefix too.",
    ]
    return "\n\n".join([*head, *(f"## {title}\n\n{body}" for title, body in sections.items())]) + "\n"


def record(results: report.Results, points: list[scaling.Point]) -> dict[str, Any]:
    """The measurements as plain data."""
    return {
        "date": date.today().isoformat(),
        "machine": machine.describe(),
        "versions": machine.versions(),
        "systems": [asdict(timing) for timing in results.values() if isinstance(timing, Timing)],
        "sweeps": [asdict(point) for point in points],
    }


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="a tenth of the size, one round, results under build/")
    options = parser.parse_args()
    scale, rounds = (0.1, 1) if options.quick else (1.0, options.rounds)
    folder = FOLDER / "results" if options.quick else RESULTS
    folder.mkdir(parents=True, exist_ok=True)

    comparisons = targets(scale)
    cases = cases_of(comparisons)
    tell(f"writing the log of {cases[0].shape[0]:,} events in each system's format ...")
    npz_file(WeightTransform(*cases[0].shape))
    results = interleaved(cases, rounds)
    points = scaling.measure(scale, tell)
    charts.save(points, folder)
    sections = {
        "Ratios": report.comparisons(comparisons, results),
        "Systems": report.systems(results),
        "Row groups side by side": parallel(scale, rounds),
        "Memory": memory.section(scale),
        "Start-up": imports(rounds),
        "How time grows": "\n".join(report.growth(points))
        + "\n\n![scaling](speed-scaling.svg)\n\n"
        + report.sweeps(points),
    }
    text = written(sections, "make bench-speed" if not options.quick else "python -m bench.speed.run --quick")
    (folder / "speed.md").write_text(text)
    (folder / "speed.json").write_text(json.dumps(record(results, points), indent=1) + "\n")
    print(text)
    tell(f"written to {folder}/speed.md")


if __name__ == "__main__":
    main()
