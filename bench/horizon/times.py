"""Time to answer of the default call on long horizons; writes bench/results/horizon_times.md.

    python -m bench.horizon.times [--events 10000,100000] [--rounds 100,1000] [--limit 600] [--former-limit 300]

Each call runs in a process of its own with two jobs: by the present code, by commit 38f3d63 (extracted under build/),
and as one bare pass. A call that takes longer than its limit is stopped, and not run where it would take longer still.
The page is written after every row, and --resume continues it at the same commit.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from bench.common.former import FORMER, check_out_former, run_with_source
from bench.common.machine import ROOT, describe_provenance, provenance
from bench.common.markdown import format_number, markdown_table
from bench.common.output import RESULTS, print_status, write_json, write_page
from bench.horizon.worlds import make_long_world

POLICIES = ("EpsilonGreedy", "LinUCB", "LinearThompson", "NumPy, batches of 15", "FromClassifier, batches of 50")
FOLDER = Path("build/bench-horizon")
PRESENT, PASS, FORMER_CALL = "present", "pass", "former"
KINDS = {PRESENT: "answer", PASS: "pass", FORMER_CALL: "answer"}  # first argument of bench.horizon.answer
OVER = "over"
HEAD = (
    *("policy", "n", "T", "seconds", "forecast", "processor seconds", f"seconds at {FORMER}", "times faster"),
    *("one pass", "over one pass", "value"),
)


def write_events(n_events: int) -> Path:
    """Write a log of the soft logger's world, and return its path."""
    path = FOLDER / f"events-{n_events}.npz"
    if not path.exists():
        log = make_long_world("soft", None).log(n_events, np.random.default_rng(16))
        path.parent.mkdir(parents=True, exist_ok=True)
        columns = {name: getattr(log, name) for name in ("contexts", "actions", "rewards", "propensities", "n_actions")}
        np.savez(path, **columns)
    return path


def run_answer(source: Path, kind: str, *arguments: Any, limit: float) -> dict[str, Any]:
    """Return what :mod:`bench.horizon.answer` prints, run with the backcast of a source folder, or the error."""
    try:
        outcome: dict[str, Any] = run_with_source(source, "bench.horizon.answer", kind, *arguments, limit=limit)
    except subprocess.TimeoutExpired:
        return {"error": f"{OVER} {limit:g} s"}
    except RuntimeError as error:
        return {"error": str(error)[:80]}
    return outcome


def is_over(outcome: dict[str, Any]) -> bool:
    """Return whether a call was stopped, or was not run because a shorter one was."""
    return str(outcome.get("error", "")).startswith(OVER)


def was_over(rows: Sequence[dict[str, Any]], case: tuple[str, int, int], call: str) -> bool:
    """Return whether this call of the same policy was over its limit with no more events and no more rounds."""
    policy, n_events, rounds = case
    smaller = [row for row in rows if row["policy"] == policy and row["n"] <= n_events and row["T"] <= rounds]
    return any(is_over(row.get(call, {})) for row in smaller)


def measure_case(
    rows: Sequence[dict[str, Any]], case: tuple[str, int, int], sources: dict[str, Path], limits: dict[str, float]
) -> dict[str, Any]:
    """Return the outcomes of one row; calls that were over their limit in an earlier row are not run."""
    policy, n_events, rounds = case
    record: dict[str, Any] = {"policy": policy, "n": n_events, "T": rounds}
    path = write_events(n_events)
    for call, source in sources.items():
        if was_over(rows, case, call):
            record[call] = {"error": OVER}
        else:
            record[call] = run_answer(source, KINDS[call], path, n_events, rounds, policy, limit=limits[call])
    print_status(str(record))
    return record


def format_row(record: dict[str, Any], former_limit: float) -> list[str]:
    """Return a row of the table; a former call that was stopped gives a lower bound of the ratio."""
    present, one_pass, former = (record.get(call, {"error": ""}) for call in (PRESENT, PASS, FORMER_CALL))
    cells = [record["policy"], f"{record['n']:,}", f"{record['T']:,}", _seconds(present)]
    cells += [f"{present['forecast']:.1f}" if "forecast" in present else ""]
    cells += [_seconds(present, "cpu"), _seconds(former)]
    faster = over_pass = ""
    if "seconds" in present:
        if "seconds" in former:
            faster = f"{former['seconds'] / present['seconds']:.1f}"
        elif is_over(former):
            faster = f"over {former_limit / present['seconds']:.0f}"
        if "seconds" in one_pass:
            over_pass = f"{present['cpu'] / one_pass['cpu']:.0f}"
    value = " ± ".join(format_number(present[name]) for name in ("value", "std_error")) if "seconds" in present else ""
    return [*cells, faster, _seconds(one_pass), over_pass, value]


def _seconds(outcome: dict[str, Any], key: str = "seconds") -> str:
    if "seconds" not in outcome:
        return str(outcome["error"])
    return f"{outcome[key]:.{1 if outcome[key] >= 1 else 3}f}"


def read_rows(path: Path, origin: dict[str, Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the rows of earlier runs, and the origin of all rows together; raise if they are of another commit."""
    if not path.exists():
        return [], origin
    stored, commit = json.loads(path.read_text()), origin["commit"]
    if stored["commit"] != commit or commit.endswith("-dirty"):
        raise SystemExit(f"--resume: the rows were made at commit {stored['commit']}, and the code is at {commit}")
    return list(stored["rows"]), {**origin, "command": f"{stored['command']}`, then `{origin['command']}"}


def write_results(stem: Path, origin: dict[str, Any], rows: list[dict[str, Any]], limits: dict[str, float]) -> None:
    """Write the page and the records, the stem with their suffixes."""
    former_limit = limits[FORMER_CALL]
    intro = (
        "Ten actions, twenty features; the default call `evaluate(log, policy, horizon=T, exchangeable=True, "
        "n_jobs=2)` in a warm process, the seconds that are stated before the work starts, the same call at "
        f"commit {FORMER}, and the mean of passes without reward model and standard error (processor seconds over "
        f"processor seconds). A call over its limit was stopped ({limits[PRESENT]:g} s, at {FORMER} "
        f'{former_limit:g} s); "over" alone: it was not run, because it was over the limit with no more events and no '
        "more rounds."
    )
    table = markdown_table(HEAD, [format_row(row, former_limit) for row in rows])
    write_page(stem.with_suffix(".md"), ["# Time to answer", describe_provenance(origin), intro, table])
    write_json(stem.with_suffix(".json"), {**origin, "rows": rows})


def main() -> None:
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--events", default="10000,100000,1000000")
    parser.add_argument("--rounds", default="100,1000,10000")
    parser.add_argument("--policies", default=";".join(POLICIES), help="names, separated by semicolons")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds after which a call is stopped")
    parser.add_argument("--former-limit", type=float, default=300.0, help=f"the same for calls of {FORMER}")
    parser.add_argument("--without-former", action="store_true", help=f"do not run {FORMER}")
    parser.add_argument("--resume", action="store_true", help="keep the rows of an interrupted run at this commit")
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--name", default="horizon_times", help="name of the page, for rows that are measured apart")
    options = parser.parse_args()
    sources = {PRESENT: ROOT / "src", PASS: ROOT / "src"}
    if not options.without_former:
        sources[FORMER_CALL] = check_out_former()
    limits = {PRESENT: options.limit, PASS: options.limit, FORMER_CALL: options.former_limit}
    # ascending, so that a call is stopped before longer ones of the same policy
    sizes = [sorted(int(number) for number in text.split(",")) for text in (options.events, options.rounds)]
    origin = provenance(" ".join(["python -m bench.horizon.times", shlex.join(sys.argv[1:])]))
    stem = options.output / options.name
    rows, origin = read_rows(stem.with_suffix(".json"), origin) if options.resume else ([], origin)
    finished = {(row["policy"], row["n"], row["T"]) for row in rows}
    for n_events, rounds, policy in product(*sizes, options.policies.split(";")):
        if (policy, n_events, rounds) not in finished:
            rows.append(measure_case(rows, (policy, n_events, rounds), sources, limits))
            write_results(stem, origin, rows, limits)


if __name__ == "__main__":
    main()
