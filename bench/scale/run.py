"""Make a long log, measure work on it, remove it, and write the tables: ``python -m bench.scale.run``."""

from __future__ import annotations

import json
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from dataclasses import asdict
from datetime import date
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Any

from bench.scale import model, report
from bench.scale.child import ENGINES, Case, CaseFailed, Measured, run
from bench.scale.data import NoRoom, log_on_disk, size_of
from bench.scale.paired import Pairs, paired
from bench.scale.soak import Sample, Soaked
from bench.scale.works import WORKS
from bench.speed import machine

EVENTS = 100_000_000
FOLDER = Path("build/bench-scale")
RESULTS = Path("bench/results")
PAIRED = ("compiled", "python")  # run in pairs of one worker and two, several rounds
IN_TURN = (*PAIRED, "pieces")  # short enough for that; of the others the best counts


def tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def attempt(case: Case, folder: Path) -> Measured | str:
    try:
        found = run(case, folder)
    except CaseFailed as failure:
        tell(f"{case.work}, {case.engine} {case.workers}: {failure}")
        return str(failure)
    peak = f"{found.largest:,.0f} MB"
    tell(f"{case.work}, {case.engine} {case.workers}: {found.seconds:.1f} s, {found.rate:,.0f} a second, {peak}")
    return found


def better(best: Measured | str | None, new: Measured | str) -> Measured | str:
    """The quicker of two attempts; a failure is kept only where nothing was measured."""
    measured = [one for one in (best, new) if isinstance(one, Measured)]
    return min(measured, key=lambda one: one.seconds) if measured else new


def measure(folder: Path, rounds: int, only: Sequence[str]) -> dict[Case, Measured | str]:
    """Every case of these works but those that come in pairs; short ones in turns, so that a slow minute hits all."""
    results: dict[Case, Measured | str] = {}
    for turn in range(rounds):
        for case in report.cases():
            if case.work in only and case.work not in PAIRED and (turn == 0 or case.work in IN_TURN):
                results[case] = better(results.get(case), attempt(case, folder))
    return results


def measure_pairs(folder: Path, rounds: int, only: Sequence[str]) -> tuple[dict[Case, Measured | str], list[Pairs]]:
    """Works in pairs of one worker and two: the runs of middle length, and all pairs."""
    results: dict[Case, Measured | str] = {}
    pairs = []
    for work, engine in product((work for work in PAIRED if work in only), ENGINES):
        cases = [Case(work, engine, workers) for workers in report.WORKERS]
        try:
            found, middle = paired(work, engine, folder, rounds, tell)
        except CaseFailed as failure:
            tell(f"{work}, {engine}: {failure}")
            results |= dict.fromkeys(cases, str(failure))
            continue
        pairs.append(found)
        results |= dict(zip(cases, middle, strict=True))
    return results, pairs


def soaked(runs: int) -> Soaked:
    """The long soak, in a process of its own; its log is large enough for arrays to be mapped into workers."""
    words = f"-m bench.scale.soak --runs {runs} --events 20000 --processes"
    done = subprocess.run([sys.executable, *words.split()], capture_output=True, text=True)
    if not done.stdout:
        raise SystemExit(done.stderr)
    found = json.loads(done.stdout.splitlines()[-1])
    return Soaked(found["runs"], Sample(**found["begin"]), Sample(**found["end"]))


def recorded_cases(kept: dict[str, Any]) -> dict[Case, Measured | str]:
    """What an earlier run measured."""
    found = [Measured(**case) for case in kept["cases"]]
    return {Case(one.work, one.engine, one.workers): one for one in found}


def recorded_pairs(kept: dict[str, Any]) -> list[Pairs]:
    """The pairs of runs in a record; older ones have none."""
    times = ("one", "two", "beside")
    return [
        Pairs(pairs["work"], pairs["engine"], *(tuple(pairs[name]) for name in times))
        for pairs in kept.get("pairs", [])
    ]


def again(options: Namespace) -> None:
    """Measure some works that need no long log again, and put them into the record of the last whole run."""
    kept = json.loads((RESULTS / "scale.json").read_text())
    with log_on_disk(FOLDER / "log", options.events) as log:
        new, pairs = measure_pairs(log, options.rounds, options.only)
        new |= measure(log, options.rounds, options.only)
    results = {**recorded_cases(kept), **new}
    pairs = [*(one for one in recorded_pairs(kept) if one.work not in options.only), *pairs]
    soak = Soaked(kept["soak"]["runs"], Sample(**kept["soak"]["begin"]), Sample(**kept["soak"]["end"]))
    command = " ".join(["python -m bench.scale.run", *sys.argv[1:]])
    later = f"; {' and '.join(options.only)} again on {date.today().isoformat()} with `{command}`"
    recorded = {**record(results, pairs, soak, kept["log"]), "date": kept["date"]}
    save(results, soak, recorded, "make bench-scale", later)
    model.main()


def record(results: report.Results, pairs: Sequence[Pairs], soak: Soaked, log: dict[str, Any]) -> dict[str, Any]:
    """The measurements as plain data, from which the cost model takes its constants."""
    return {
        "date": date.today().isoformat(),
        "machine": machine.describe(),
        "versions": machine.versions(),
        "log": log,
        "cases": [asdict(found) for found in results.values() if isinstance(found, Measured)],
        "pairs": [asdict(one) for one in pairs],
        "soak": asdict(soak),
    }


def save(results: report.Results, soak: Soaked, recorded: dict[str, Any], command: str, later: str = "") -> str:
    """Page, data and chart in the folder of results; the page."""
    folder = RESULTS if recorded["log"]["events"] >= EVENTS else FOLDER / "results"
    folder.mkdir(parents=True, exist_ok=True)
    text = written(results, soak, recorded, command, later)
    report.save_chart(results, folder)
    (folder / "scale.md").write_text(text)
    (folder / "scale.json").write_text(json.dumps(recorded, indent=1) + "\n")
    tell(f"written to {folder}/scale.md")
    return text


def written(results: report.Results, soak: Soaked, recorded: dict[str, Any], command: str, later: str = "") -> str:
    log = recorded["log"]
    made = f"made in {log['seconds']:.0f} s by two processes and removed afterwards"
    head = [
        "# Scale",
        f"Measured on {recorded['date']} with `{command}`{later}.",
        f"Machine: {recorded['machine']}. Versions: "
        + ", ".join(f"{name} {number}" for name, number in recorded["versions"].items())
        + ".",
        f"One log of {log['events']:,} events in partitioned Parquet ({log['files']:,} files, {log['bytes'] / 1e9:.2f} "
        f"GB), {made}: K = 10 actions, 8 context columns, a logger that is not uniform. Each line is a process of its "
        "own; it first does the work on a small part of the log, which loads code and wakes workers, and then is "
        "timed. Memory is the peak of the largest process, that first run included. Work in memory is about 40,000 "
        "events; replicates are run in turns on one worker and on two, which all wait ready, and the median of the "
        "pairs counts.",
    ]
    sections = {
        "From disk, one job": report.passes(results),
        "One worker and two": report.speed_ups(results, recorded_pairs(recorded))
        + "\n\n![seconds by engine and workers](scale-workers.svg)\n\n"
        + "Of strangers: what the machine itself gives, two processes that know nothing of each other, each at the "
        + "whole question. Starting workers is not in these times; the next table has it. Cores busy: a stream is "
        + "decoded ahead in a thread, so even one job uses more than one core.",
        "Handing out pieces": report.costs(results),
        "Many runs in a row": report.soaked(soak),
        "What that makes of longer logs": model.page(recorded),
    }
    return "\n\n".join([*head, *(f"## {title}\n\n{body}" for title, body in sections.items())]) + "\n"


def parsed() -> Namespace:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=EVENTS, help="length of the log; fewer for a small trial")
    parser.add_argument("--rounds", type=int, default=2, help="rounds of the short works: two pairs of runs each")
    parser.add_argument("--soak", type=int, default=200, help="runs in a row")
    parser.add_argument(
        "--only", nargs="+", choices=IN_TURN, help="measure these works again, and put them into the recorded run"
    )
    return parser.parse_args()


def main() -> None:
    options = parsed()
    if options.only:
        again(options)
        return
    tell(f"writing {options.events:,} events ...")
    start = perf_counter()
    try:
        with log_on_disk(FOLDER / "log", options.events) as log:
            files = len(list(log.rglob("*.parquet")))
            facts = {"events": options.events, "files": files, "bytes": size_of(log), "seconds": perf_counter() - start}
            results, pairs = measure_pairs(log, options.rounds, list(WORKS))
            results |= measure(log, options.rounds, list(WORKS))
    except NoRoom as problem:
        raise SystemExit(f"bench-scale: {problem}") from None
    except KeyboardInterrupt:
        raise SystemExit("bench-scale: stopped; the log is removed and nothing was recorded") from None
    soak = soaked(options.soak)
    whole = options.events >= EVENTS
    command = "make bench-scale" + ("" if whole else f' SCALE="--events {options.events}"')
    print(save(results, soak, record(results, pairs, soak, facts), command))
    if whole:
        model.main()


if __name__ == "__main__":
    main()
