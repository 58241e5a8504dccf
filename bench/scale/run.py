"""Write a long log, measure workloads on it, remove it, and write the tables: ``python -m bench.scale.run``."""

from __future__ import annotations

import json
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Any

from bench.common.machine import describe_provenance, provenance
from bench.common.output import RESULTS, print_status, write_json, write_page
from bench.common.processes import CaseFailed
from bench.scale import model, tables
from bench.scale.data import DiskTooSmall, log_on_disk
from bench.scale.paired import Pairs, measure_pairs
from bench.scale.soak import Sample, Soak
from bench.scale.worker_process import ENGINES, Case, Measurement, run_case
from bench.scale.workloads import WORKLOADS

EVENTS = 100_000_000
FOLDER = Path("build/bench-scale")
PAIRED = ("compiled", "python")  # measured in pairs of one worker and two, several rounds
SHORT = (*PAIRED, "empty-jobs")  # short enough for several rounds

Results = dict[Case, Measurement | str]


def measure_workloads(folder: Path, rounds: int, names: Sequence[str]) -> tuple[Results, list[Pairs]]:
    """Measure workloads in pairs, then the others; short ones in several rounds, of which the best counts."""
    results: Results = {}
    all_pairs = []
    for work, engine in product((name for name in PAIRED if name in names), ENGINES):
        cases = [Case(work, engine, workers) for workers in tables.WORKERS]
        try:
            pairs, medians = measure_pairs(work, engine, folder, rounds)
        except CaseFailed as failure:
            print_status(f"{work}, {engine}: {failure}")
            results |= dict.fromkeys(cases, str(failure))
            continue
        all_pairs.append(pairs)
        results |= dict(zip(cases, medians, strict=True))
    for number in range(rounds):
        for case in tables.list_cases():
            if case.work in names and case.work not in PAIRED and (number == 0 or case.work in SHORT):
                results[case] = faster(results.get(case), try_case(case, folder))
    return results, all_pairs


def try_case(case: Case, folder: Path) -> Measurement | str:
    """Return the measurement, or the error message if the case failed."""
    try:
        run = run_case(case, folder)
    except CaseFailed as failure:
        print_status(f"{case}: {failure}")
        return str(failure)
    print_status(f"{case}: {run.seconds:.1f} s, {run.rate:,.0f} events/s, {run.largest:,.0f} MB")
    return run


def faster(best: Measurement | str | None, new: Measurement | str) -> Measurement | str:
    """Return the faster of two results of a case; an error message only if there is no measurement."""
    runs = [result for result in (best, new) if isinstance(result, Measurement)]
    return min(runs, key=lambda run: run.seconds) if runs else new


def run_soak(count: int) -> Soak:
    """Run the soak in a new process; its log is large enough for arrays to be mapped into workers."""
    command = f"-m bench.scale.soak --runs {count} --events 20000 --processes"
    completed = subprocess.run([sys.executable, *command.split()], capture_output=True, text=True)
    if not completed.stdout:
        raise SystemExit(completed.stderr)
    return read_soak(json.loads(completed.stdout.splitlines()[-1]))


def make_record(
    origin: Mapping[str, Any], results: Results, pairs: Sequence[Pairs], soak: Soak, log: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the measurements as plain data, from which the model takes its constants."""
    runs = [asdict(run) for run in results.values() if isinstance(run, Measurement)]
    return {**origin, "log": log, "cases": runs, "pairs": [asdict(p) for p in pairs], "soak": asdict(soak)}


def read_cases(record: Mapping[str, Any]) -> Results:
    """Return the measurements of a record."""
    runs = [Measurement(**case) for case in record["cases"]]
    return {run.case: run for run in runs}


def read_pairs(record: Mapping[str, Any]) -> list[Pairs]:
    """Return the pairs of runs of a record; early records have none."""
    times = ("one", "two", "beside")
    return [Pairs(p["work"], p["engine"], *(tuple(p[name]) for name in times)) for p in record.get("pairs", [])]


def read_soak(record: Mapping[str, Any]) -> Soak:
    """Return a recorded soak."""
    return Soak(record["runs"], Sample(**record["begin"]), Sample(**record["end"]))


def scale_blocks(results: Results, record: Mapping[str, Any], note: str = "") -> list[str]:
    """Return the blocks of the page; ``note`` describes workloads that were measured later."""
    log = record["log"]
    intro = (
        f"One log of {log['events']:,} events in partitioned Parquet ({log['files']:,} files, {log['bytes'] / 1e9:.2f} "
        f"GB), written in {log['seconds']:.0f} s by two processes and removed afterwards: K = 10 actions, 8 context "
        "columns, a logger that is not uniform. Each line is one process; it first runs the workload on a small part "
        "of the log, which loads code and starts workers, and then is timed. Memory is the peak of the largest "
        "process, including that first run. Workloads in memory have 40,000 events; replicates are run in turn on one "
        "worker and on two, all started in advance, and the median of the pairs counts."
    )
    sections = {
        "From disk, one job": tables.passes_table(results),
        "One worker and two": tables.speed_ups_table(results, read_pairs(record))
        + "\n\n![seconds by engine and workers](scale-workers.svg)\n\n"
        + "Independent: the limit of the machine, two independent processes, each with the whole workload. Starting "
        + "workers is not in these times; the next table has it. Cores busy: a stream is decoded in a separate thread, "
        + "so even one job uses more than one core.",
        "Distributing jobs": tables.job_costs_table(results),
        "Many runs in a row": tables.soak_section(read_soak(record["soak"])),
        "Forecast for longer logs": model.forecast_section(record),
    }
    body = [f"## {title}\n\n{section}" for title, section in sections.items()]
    return ["# Scale", describe_provenance(dict(record)) + note, intro, *body]


def write_results(results: Results, record: Mapping[str, Any], note: str = "") -> str:
    """Write page, data and chart; those of short logs under build/. Return the page."""
    folder = RESULTS if record["log"]["events"] >= EVENTS else FOLDER / "results"
    tables.save_workers_chart(results, folder)
    write_json(folder / "scale.json", dict(record))
    print_status(f"written to {folder}/scale.md")
    return write_page(folder / "scale.md", scale_blocks(results, record, note))


def measure_all(options: Namespace) -> None:
    """Measure every workload and the soak."""
    print_status(f"writing {options.events:,} events ...")
    start = perf_counter()
    with log_on_disk(FOLDER / "log", options.events) as log:
        sizes = [path.stat().st_size for path in log.rglob("*.parquet")]
        seconds = perf_counter() - start
        facts = {"events": options.events, "files": len(sizes), "bytes": sum(sizes), "seconds": seconds}
        results, pairs = measure_workloads(log, options.rounds, list(WORKLOADS))
    is_full_size = options.events >= EVENTS
    command = "make bench-scale" + ("" if is_full_size else f' SCALE="--events {options.events}"')
    record = make_record(provenance(command), results, pairs, run_soak(options.soak), facts)
    print(write_results(results, record))
    if is_full_size:
        model.main()


def measure_again(options: Namespace) -> None:
    """Measure some short workloads again, and replace them in the record of the last full run."""
    previous = json.loads((RESULTS / "scale.json").read_text())
    with log_on_disk(FOLDER / "log", options.events) as log:
        new, new_pairs = measure_workloads(log, options.rounds, options.only)
    results = {**read_cases(previous), **new}
    pairs = [*(p for p in read_pairs(previous) if p.work not in options.only), *new_pairs]
    latest = provenance(" ".join(["python -m bench.scale.run", *sys.argv[1:]]))
    origin = {name: previous.get(name, "unknown") for name in latest} | {"command": "make bench-scale"}
    record = make_record(origin, results, pairs, read_soak(previous["soak"]), previous["log"])
    note = f" {' and '.join(options.only)} again: {describe_provenance(latest)}"
    write_results(results, {**record, "again": latest}, note)
    model.main()


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=EVENTS, help="length of the log; fewer for a small trial")
    parser.add_argument("--rounds", type=int, default=2, help="rounds of the short workloads: two pairs of runs each")
    parser.add_argument("--soak", type=int, default=200, help="runs in a row")
    parser.add_argument("--only", nargs="+", choices=SHORT, help="measure these again, and put them into the record")
    options = parser.parse_args()
    try:
        (measure_again if options.only else measure_all)(options)
    except DiskTooSmall as problem:
        raise SystemExit(f"bench-scale: {problem}") from None
    except KeyboardInterrupt:
        raise SystemExit("bench-scale: stopped; the log is removed and nothing was recorded") from None


if __name__ == "__main__":
    main()
