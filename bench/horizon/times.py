"""Time to answer of the default call on long horizons; writes bench/results/horizon_times.md.

    python -m bench.horizon.times [--events 10000,100000] [--rounds 100,1000] [--limit 600]

Each call runs in a process of its own with two jobs: by the present code, by commit 38f3d63 (in a worktree under
build/), and as one bare pass. A call that takes longer than the limit is stopped.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from bench.common.machine import ROOT, describe_provenance, provenance
from bench.common.markdown import markdown_table
from bench.common.output import RESULTS, print_status, write_json, write_page
from bench.common.processes import ONE_THREAD, last_line
from bench.horizon.worlds import make_long_world

FORMER = "38f3d63"
POLICIES = ("EpsilonGreedy", "LinUCB", "LinearThompson", "NumPy, batches of 15", "FromClassifier, batches of 50")
FOLDER = Path("build/bench-horizon")
HEAD = (
    *("policy", "n", "T", "seconds", "processor seconds", f"seconds at {FORMER}", "times faster"),
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


def check_out_former() -> Path:
    """Return the folder of the former commit's source, checked out if it is not there yet."""
    folder = (FOLDER / FORMER).resolve()
    if not folder.exists():
        subprocess.run(["git", "worktree", "add", "--detach", str(folder), FORMER], cwd=ROOT, check=True)
    return folder / "src"


def run_answer(source: Path, kind: str, *arguments: Any, limit: float) -> dict[str, Any]:
    """Return what :mod:`bench.horizon.answer` prints, run with the backcast of a source folder."""
    paths = os.pathsep.join([str(source), str(ROOT)])
    cache = FOLDER / "compiled" / source.parent.name
    environment = {**os.environ, **ONE_THREAD, "PYTHONPATH": paths, "NUMBA_CACHE_DIR": str(cache.resolve())}
    command = [sys.executable, "-m", "bench.horizon.answer", kind, *map(str, arguments)]
    try:
        completed = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=limit)
    except subprocess.TimeoutExpired:
        return {"error": f"over {limit:g} s"}
    if completed.returncode:
        return {"error": last_line(completed.stderr)[:80]}
    outcome: dict[str, Any] = json.loads(completed.stdout.splitlines()[-1])
    return outcome


def measure_case(policy: str, n_events: int, rounds: int, former: Path | None, limit: float) -> dict[str, Any]:
    """Return the three outcomes of one row."""
    arguments = write_events(n_events), n_events, rounds, policy
    record: dict[str, Any] = {"policy": policy, "n": n_events, "T": rounds}
    record["present"] = run_answer(ROOT / "src", "answer", *arguments, limit=limit)
    record["pass"] = run_answer(ROOT / "src", "pass", *arguments, limit=limit)
    if former is not None:
        record["former"] = run_answer(former, "answer", *arguments, limit=limit)
    print_status(str(record))
    return record


def format_row(record: dict[str, Any], limit: float) -> list[str]:
    """Return a row of the table; a call that was stopped gives a lower bound of the ratio."""
    present, former, one_pass = (record.get(key, {"error": ""}) for key in ("present", "former", "pass"))
    cells = [record["policy"], f"{record['n']:,}", f"{record['T']:,}"]
    cells += [_seconds(present), _seconds(present, "cpu"), _seconds(former)]
    faster = over_pass = ""
    if "seconds" in present:
        if "seconds" in former:
            faster = f"{former['seconds'] / present['seconds']:.1f}"
        elif former["error"].startswith("over"):
            faster = f"over {limit / present['seconds']:.0f}"
        if "seconds" in one_pass:
            over_pass = f"{present['cpu'] / max(one_pass['cpu'], 0.01):.0f}"
    value = f"{present['value']:.4f} ± {present['std_error']:.4f}" if "seconds" in present else ""
    return [*cells, faster, _seconds(one_pass), over_pass, value]


def _seconds(outcome: dict[str, Any], key: str = "seconds") -> str:
    return f"{outcome[key]:.1f}" if "seconds" in outcome else outcome["error"]


def main() -> None:
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--events", default="10000,100000,1000000")
    parser.add_argument("--rounds", default="100,1000,10000")
    parser.add_argument("--policies", default=";".join(POLICIES), help="names, separated by semicolons")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds after which a call is stopped")
    parser.add_argument("--without-former", action="store_true", help=f"do not run {FORMER}")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    former = None if options.without_former else check_out_former()
    sizes = [[int(number) for number in text.split(",")] for text in (options.events, options.rounds)]
    origin = provenance(" ".join(["python -m bench.horizon.times", *sys.argv[1:]]))
    records: list[dict[str, Any]] = []
    for n_events, rounds, policy in product(*sizes, options.policies.split(";")):
        records.append(measure_case(policy, n_events, rounds, former, options.limit))
        table = markdown_table(HEAD, [format_row(record, options.limit) for record in records])
        intro = (
            "Ten actions, twenty features; the default call `evaluate(log, policy, horizon=T, exchangeable=True, "
            f"n_jobs=2)` in a warm process, against the same call at commit {FORMER} and against one pass without "
            "reward model and standard error (processor seconds over processor seconds). A call over the limit of "
            f"{options.limit:g} s was stopped."
        )
        write_page(options.output / "horizon_times.md", ["# Time to answer", describe_provenance(origin), intro, table])
        write_json(options.output / "horizon_times.json", {**origin, "rows": records})


if __name__ == "__main__":
    main()
