"""Files at the size that the suite only tries in small: a million columns, labels and cells of 100 MB.

``python -m bench.fuzz.full_size`` makes each file, reads it in a process of its own, and checks what comes of it: a log
or an error of ours in a line that fits a screen, within the memory and the time that are allowed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

from backcast.errors import BackcastError
from bench.scale.process import used

COLUMNS = 10**6
TOLERABLE_COLUMNS = 99_000
MANY_COLUMNS = 900_000  # as many as Arrow's reader still opens
LABEL = 10**8  # bytes
LONGEST_MESSAGE = 5_000
PARTS: dict[str, Any] = {"context": "x*", "action": "a", "reward": "r", "propensity": "p"}


@dataclass(frozen=True)
class Case:
    """A file, how it is made and read, whether a log comes of it, and the megabytes and seconds that are allowed."""

    name: str
    words: str
    file: str
    make: Callable[[Path], None]
    readable: bool
    megabytes: float
    seconds: float
    read: Callable[[Path], object]


class Tried(NamedTuple):
    """What came of reading a file: a log or the words of an error, peak megabytes and seconds."""

    outcome: str
    words: str
    megabytes: float
    seconds: float


def faults(case: Case, tried: Tried) -> list[str]:
    """What is not as it should be."""
    wanted = "read" if case.readable else "refused"
    found = [] if tried.outcome == wanted else [f"it should be {wanted}, and is {tried.outcome}: {tried.words[:300]}"]
    if tried.megabytes > case.megabytes:
        found.append(f"{tried.megabytes:,.0f} MB, and {case.megabytes:,.0f} are allowed")
    if tried.seconds > case.seconds:
        found.append(f"{tried.seconds:.0f} s, and {case.seconds:.0f} are allowed")
    if len(tried.words) > LONGEST_MESSAGE or not tried.words.isprintable():
        found.append(f"a message of {len(tried.words):,} signs")
    return found


def wide_parquet(columns: int) -> Callable[[Path], None]:
    """Two events with so many features."""

    def make(path: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        names = ["a", "r", "p", *(f"x{number}" for number in range(columns))]
        own = [pa.array([0, 1]), pa.array([1, 0]), pa.array([0.5, 0.5])]
        table = pa.Table.from_arrays([*own, *[pa.array([1.0, 0.0])] * columns], names=names)
        pq.write_table(table, path, use_dictionary=False, write_statistics=False)

    return make


def wide_csv(path: Path) -> None:
    """The same as text."""
    names = ",".join(["a", "r", "p", *(f"x{number}" for number in range(COLUMNS))])
    path.write_text(f"{names}\n0,1,0.5{',1' * COLUMNS}\n1,0,0.5{',0' * COLUMNS}\n")


def large_label(part: str) -> Callable[[Path], None]:
    """Two events, one of which has a very long text in one part."""

    def make(path: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        columns: dict[str, Any] = {"x": [1.0, 2.0], "a": ["m", "n"], "r": [1, 0], "p": [0.5, 0.5]}
        columns[part] = ["y" * LABEL, "z"]
        pq.write_table(pa.table(columns), path, compression=None)

    return make


def large_csv_label(path: Path) -> None:
    """A very long name of an action, as text."""
    path.write_text(f"x,a,r,p\n1,{'y' * LABEL},1,0.5\n2,z,0,0.5\n")


def large_run_file(path: Path) -> None:
    """Settings with a very long text."""
    path.write_text(f'log = "log.csv"\naction = "{"y" * LABEL}"\n')


def read_log(path: Path) -> object:
    import backcast as bc

    return bc.read_log(path, **PARTS)


def read_settings(path: Path) -> object:
    from backcast.cli.settings import read_run_file

    return read_run_file(str(path))


def _label(part: str, *, readable: bool) -> Case:
    words = {"x": "a cell of the context", "a": "a name of an action", "r": "a reward", "p": "a propensity"}[part]
    make = large_label(part)
    return Case(f"label-{part}", f"Parquet, {words} of 100 MB", "log.parquet", make, readable, 1_500, 60, read_log)


CASES = {
    case.name: case
    for case in (
        Case("columns", "Parquet, a million columns", "log.parquet", wide_parquet(COLUMNS), False, 1_000, 60, read_log),
        Case("columns-many", f"Parquet, {MANY_COLUMNS:,} columns", "log.parquet", wide_parquet(MANY_COLUMNS), False,
             5_000, 60, read_log),
        Case("columns-tolerable", f"Parquet, {TOLERABLE_COLUMNS:,} columns", "log.parquet",
             wide_parquet(TOLERABLE_COLUMNS), True, 2_000, 120, read_log),
        Case("columns-csv", "CSV, a million columns", "log.csv", wide_csv, False, 1_000, 60, read_log),
        _label("x", readable=True),
        _label("a", readable=True),
        _label("r", readable=False),
        _label("p", readable=False),
        Case("label-csv", "CSV, a name of an action of 100 MB", "log.csv", large_csv_label, False, 1_500, 60, read_log),
        Case("settings", "run file with a text of 100 MB", "run.toml", large_run_file, False, 500, 60, read_settings),
    )
}  # fmt: skip


def tried_here(case: Case, path: Path) -> Tried:
    """Read the file in this process."""
    start = perf_counter()
    try:
        outcome, words = "read", repr(case.read(path))
    except BackcastError as error:
        outcome, words = "refused", str(error)
    return Tried(outcome, words, used().largest, perf_counter() - start)


def tried(case: Case) -> Tried:
    """Make the file and read it, each in a process of its own; it is gone afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, case.file)
        _child(case, "make", path, None)
        try:
            done = _child(case, "read", path, 2 * case.seconds)
        except subprocess.TimeoutExpired:
            return Tried("stopped", "no answer in twice the time that is allowed", 0.0, 2 * case.seconds)
    if done.returncode:
        return Tried("broken", f"exit code {done.returncode}: {done.stderr.strip()[-300:]!r}", 0.0, 0.0)
    return Tried(**json.loads(done.stdout))


def _child(case: Case, what: str, path: Path, seconds: float | None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench.fuzz.full_size", what, case.name, str(path)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=seconds, env=environment, check=what == "make"
    )


def main() -> None:
    if len(sys.argv) == 4:
        what, name, path = sys.argv[1:]
        if what == "make":
            CASES[name].make(Path(path))
        else:
            print(json.dumps(tried_here(CASES[name], Path(path))._asdict()))
        return
    found = {case: tried(case) for case in CASES.values()}
    for case, one in found.items():
        problems = "; ".join(faults(case, one)) or "as it should be"
        print(f"{case.words}: {one.outcome}, {one.megabytes:,.0f} MB, {one.seconds:.1f} s: {problems}")
    if any(faults(case, one) for case, one in found.items()):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
