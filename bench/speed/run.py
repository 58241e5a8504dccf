"""Measure every system in turn, several rounds, and write the tables: ``python -m bench.speed.run``."""

from __future__ import annotations

import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Iterable

from bench.common.machine import describe_provenance, provenance
from bench.common.output import RESULTS, print_status, write_json, write_page
from bench.common.processes import CaseFailed
from bench.speed import tables
from bench.speed.cases import Case, Comparison, list_comparisons, run_case
from bench.speed.data import FOLDER, LogShape, write_npz
from bench.speed.memory import memory_section
from bench.speed.scaling import measure_sweeps
from bench.speed.timing import Timing

PARALLEL_EVENTS = 4_000_000
TIME_IMPORT = "from time import perf_counter as now; start = now(); import {}; print(now() - start)"


def list_cases(comparisons: Iterable[Comparison]) -> list[Case]:
    """Return every case once, backcast also on each peer's prefix, in the order of the comparisons."""
    return list(dict.fromkeys(c for t in comparisons for c in (t.peer, t.ours, t.ours.with_limit(t.peer.limit))))


def measure_cases(cases: list[Case], rounds: int) -> dict[Case, Timing | str]:
    """Return the best of several rounds; each round runs every case once, so that a slow minute affects all."""
    best: dict[Case, Timing | str] = {}
    for number in range(1, rounds + 1):
        for case in cases:
            result: Timing | str
            try:
                result = run_case(case)
                status = f"{result.rate:,.0f} events/s"
            except CaseFailed as failure:
                result = status = str(failure)
            best[case] = faster(best.get(case), result)
            print_status(f"round {number}/{rounds}  {case.module} {case.runner}, {case.limit:,} events: {status}")
    return best


def faster(best: Timing | str | None, new: Timing | str) -> Timing | str:
    """Return the faster of two results of a case; an error message only if there is no timing."""
    timings = [result for result in (best, new) if isinstance(result, Timing)]
    return min(timings, key=lambda timing: timing.seconds) if timings else new


def imports_section(rounds: int) -> str:
    """Return the import times of backcast and numpy, the best of several rounds."""
    seconds = {}
    for name in ("backcast", "numpy"):
        command = [sys.executable, "-c", TIME_IMPORT.format(name)]
        runs = [subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(rounds)]
        seconds[name] = min(map(float, runs))
    ours, numpy = seconds.values()
    times = f"`import backcast` takes {1e3 * ours:.0f} ms, `import numpy` {1e3 * numpy:.0f} ms"
    return f"{times}: {ours / numpy:.2f}× (goal: at most 2×)."


def parallel_section(scale: float, rounds: int) -> str:
    """Return the speed of a fixed policy from Parquet with one job and with two."""
    events = int(PARALLEL_EVENTS * scale)
    cases = [Case("ours", f"fixed-{jobs}", events, (events, 10, 20)) for jobs in (1, 2)]
    timings = [timing for timing in measure_cases(cases, rounds).values() if isinstance(timing, Timing)]
    lines = [f"- {timing.system}, {timing.work}: {timing.rate:,.0f} events/s" for timing in timings]
    return "\n".join([*lines, f"- two jobs over one: {timings[1].rate / timings[0].rate:.2f}×"])


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="a tenth of the size, one round, results under build/")
    options = parser.parse_args()
    scale, rounds = (0.1, 1) if options.quick else (1.0, options.rounds)
    folder = FOLDER / "results" if options.quick else RESULTS

    comparisons = list_comparisons(scale)
    cases = list_cases(comparisons)
    print_status(f"writing the log of {cases[0].shape[0]:,} events in each system's format ...")
    write_npz(LogShape(*cases[0].shape))
    results = measure_cases(cases, rounds)
    points = measure_sweeps(scale)
    tables.save_sweeps_chart(points, folder)
    growth = [tables.describe_growth(points), "![scaling](speed-scaling.svg)", tables.sweeps_table(points)]
    sections = {
        "Ratios": tables.comparisons_table(comparisons, results),
        "Systems": tables.systems_table(results),
        "Row groups in parallel": parallel_section(scale, rounds),
        "Memory": memory_section(scale),
        "Start-up": imports_section(rounds),
        "How time grows": "\n\n".join(growth),
    }
    origin = provenance("python -m bench.speed.run --quick" if options.quick else "make bench-speed")
    intro = (
        "One uniform log, K = 10, d = 20, for all; each system in its own process on one thread (VW reads on a second "
        "one), all systems in turn, best of the rounds. Converting the log to a system's input types is not timed; "
        "reading files is, where the table says file. Slow systems get a prefix of the log, and a ratio is always one "
        "on the same events for both. All rows are one pass of DR-ns with a constant reward model, except the "
        "default call, which runs many passes and fits a reward model."
    )
    body = [f"## {title}\n\n{section}" for title, section in sections.items()]
    print(write_page(folder / "speed.md", ["# Speed", describe_provenance(origin), intro, *body]))
    timings = [timing for timing in results.values() if isinstance(timing, Timing)]
    write_json(folder / "speed.json", {**origin, "systems": timings, "sweeps": points})
    print_status(f"written to {folder}/speed.md")


if __name__ == "__main__":
    main()
