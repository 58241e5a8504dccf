"""Files of a size that the tests try only in small: a million columns, labels and cells of 100 MB.

``python -m bench.fuzz.full_size`` writes each file, reads it in a new process, and checks the outcome: a log, or one of
backcast's errors in one line of moderate length, within limits of memory and time.
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
from bench.common.processes import ONE_THREAD, last_line, measure_usage

COLUMNS = 10**6
ALLOWED_COLUMNS = 99_000
MANY_COLUMNS = 900_000  # Arrow's reader opens no more
LABEL = 10**8  # bytes
LONGEST_MESSAGE = 5_000  # characters
COLUMN_NAMES: dict[str, Any] = {"context": "x*", "action": "a", "reward": "r", "propensity": "p"}


@dataclass(frozen=True)
class Case:
    """A file, how it is written and read, whether a log is expected, and limits in megabytes and seconds."""

    name: str
    description: str
    file: str
    write: Callable[[Path], None]
    readable: bool
    megabytes: float
    seconds: float
    read: Callable[[Path], object]


class Reading(NamedTuple):
    """The outcome of reading a file, the log or error in words, peak megabytes and seconds."""

    outcome: str
    message: str
    megabytes: float
    seconds: float

    def describe(self, case: Case) -> str:
        faults = "; ".join(find_faults(case, self)) or "as expected"
        return f"{case.description}: {self.outcome}, {self.megabytes:,.0f} MB, {self.seconds:.1f} s: {faults}"


def find_faults(case: Case, reading: Reading) -> list[str]:
    """Return what differs from what is expected."""
    expected = "read" if case.readable else "refused"
    faults = []
    if reading.outcome != expected:
        faults.append(f"it should be {expected}, and is {reading.outcome}: {reading.message[:300]}")
    if reading.megabytes > case.megabytes:
        faults.append(f"{reading.megabytes:,.0f} MB, and {case.megabytes:,.0f} are allowed")
    if reading.seconds > case.seconds:
        faults.append(f"{reading.seconds:.0f} s, and {case.seconds:.0f} are allowed")
    if len(reading.message) > LONGEST_MESSAGE or not reading.message.isprintable():
        faults.append(f"a message of {len(reading.message):,} characters")
    return faults


def wide_parquet(columns: int) -> Callable[[Path], None]:
    """Return a writer of two events with so many features."""

    def write(path: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        names = ["a", "r", "p", *(f"x{number}" for number in range(columns))]
        arrays = [pa.array([0, 1]), pa.array([1, 0]), pa.array([0.5, 0.5]), *[pa.array([1.0, 0.0])] * columns]
        table = pa.Table.from_arrays(arrays, names=names)
        pq.write_table(table, path, use_dictionary=False, write_statistics=False)

    return write


def write_wide_csv(path: Path) -> None:
    """Write two events with a million features as text."""
    names = ",".join(["a", "r", "p", *(f"x{number}" for number in range(COLUMNS))])
    path.write_text(f"{names}\n0,1,0.5{',1' * COLUMNS}\n1,0,0.5{',0' * COLUMNS}\n")


def large_label(column: str) -> Callable[[Path], None]:
    """Return a writer of two events, one of which has a very long text in one column."""

    def write(path: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        columns: dict[str, Any] = {"x": [1.0, 2.0], "a": ["m", "n"], "r": [1, 0], "p": [0.5, 0.5]}
        columns[column] = ["y" * LABEL, "z"]
        pq.write_table(pa.table(columns), path, compression=None)

    return write


def write_large_csv_label(path: Path) -> None:
    """Write a very long name of an action as text."""
    path.write_text(f"x,a,r,p\n1,{'y' * LABEL},1,0.5\n2,z,0,0.5\n")


def write_large_run_file(path: Path) -> None:
    """Write settings with a very long text."""
    path.write_text(f'log = "log.csv"\naction = "{"y" * LABEL}"\n')


def read_log(path: Path) -> object:
    import backcast as bc

    return bc.read_log(path, **COLUMN_NAMES)


def read_settings(path: Path) -> object:
    from backcast.cli.settings import read_run_file

    return read_run_file(str(path))


def _label_case(column: str, *, readable: bool) -> Case:
    cells = {"x": "a cell of the context", "a": "a name of an action", "r": "a reward", "p": "a propensity"}
    description = f"Parquet, {cells[column]} of 100 MB"
    return Case(f"label-{column}", description, "log.parquet", large_label(column), readable, 1_500, 60, read_log)


CASES = {
    case.name: case
    for case in (
        Case("columns", "Parquet, a million columns", "log.parquet", wide_parquet(COLUMNS), False, 1_000, 60, read_log),
        Case("columns-many", f"Parquet, {MANY_COLUMNS:,} columns", "log.parquet", wide_parquet(MANY_COLUMNS), False,
             5_000, 60, read_log),
        Case("columns-allowed", f"Parquet, {ALLOWED_COLUMNS:,} columns", "log.parquet", wide_parquet(ALLOWED_COLUMNS),
             True, 2_000, 120, read_log),
        Case("columns-csv", "CSV, a million columns", "log.csv", write_wide_csv, False, 1_000, 60, read_log),
        _label_case("x", readable=True),
        _label_case("a", readable=True),
        _label_case("r", readable=False),
        _label_case("p", readable=False),
        Case("label-csv", "CSV, a name of an action of 100 MB", "log.csv", write_large_csv_label, False, 1_500, 60,
             read_log),
        Case("settings", "run file with a text of 100 MB", "run.toml", write_large_run_file, False, 500, 60,
             read_settings),
    )
}  # fmt: skip


def read_here(case: Case, path: Path) -> Reading:
    """Read the file in this process."""
    start = perf_counter()
    try:
        outcome, message = "read", repr(case.read(path))
    except BackcastError as error:
        outcome, message = "refused", str(error)
    return Reading(outcome, message, measure_usage().largest, perf_counter() - start)


def read_in_process(case: Case) -> Reading:
    """Write the file and read it, each in a new process; remove it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, case.file)
        _run_step(case, "write", path, None).check_returncode()
        try:
            completed = _run_step(case, "read", path, 2 * case.seconds)
        except subprocess.TimeoutExpired:
            return Reading("stopped", "no result in twice the allowed time", 0.0, 2 * case.seconds)
    if completed.returncode:
        message = f"exit code {completed.returncode}: {last_line(completed.stderr)[-300:]!r}"
        return Reading("broken", message, 0.0, 0.0)
    return Reading(**json.loads(completed.stdout))


def _run_step(case: Case, step: str, path: Path, timeout: float | None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench.fuzz.full_size", step, case.name, str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, env={**os.environ, **ONE_THREAD})


def main() -> None:
    if len(sys.argv) == 4:
        step, name, path = sys.argv[1:]
        if step == "write":
            CASES[name].write(Path(path))
        else:
            print(json.dumps(read_here(CASES[name], Path(path))._asdict()))
        return
    readings = {case: read_in_process(case) for case in CASES.values()}
    for case, reading in readings.items():
        print(reading.describe(case))
    if any(find_faults(case, reading) for case, reading in readings.items()):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
