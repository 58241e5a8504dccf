"""Fuzz every target, read files of full size, and record the results: ``python -m bench.fuzz SECONDS FOLDER``.

The record is written to ``bench/results/fuzz.md`` if every target had at least a minute, otherwise to the folder.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bench.common.machine import describe_provenance, provenance
from bench.common.markdown import markdown_table
from bench.common.output import RESULTS, print_status, write_page
from bench.common.processes import last_line
from bench.fuzz.full_size import CASES, Case, Reading, find_faults, read_in_process

RECORDED_SECONDS = 60  # per target, at least, of a run that is recorded
DESCRIPTIONS = {
    "vw-text": "Vowpal Wabbit, text",
    "vw-json": "Vowpal Wabbit, dsjson",
    "run-file": "run files",
    "spec": "policies, evaluators and intervals in words",
    "saved": "saved results",
    "nesting": "the depth of JSON, compared with Python's parser",
}
FIXED = """Found by earlier runs, and fixed:

- `fixed:probabilities=[{.5,0.5]` ended in a traceback, because a list that cannot be read stays text, and numpy's own
  error came out where the policy made numbers of it. It is an example of `tests/security/test_fuzzed_settings.py` now.
- A Parquet file of 34 MB with 200,000 columns took 2.7 GB of memory to read, so that as many columns as Arrow's reader
  opens would have taken some 12 GB. More than 100,000 are refused now;
  `tests/security/test_resource_limits.py` tests that."""


class FuzzResult(NamedTuple):
    """Inputs tried on one target, the files of those that broke it, and its error message if it ended early."""

    target: str
    executions: int
    findings: list[str]
    error: str

    def __str__(self) -> str:
        return ", ".join(self.findings) or (f"ended early: {self.error}" if self.error else "none")


def fuzz_target(target: str, seconds: int, folder: Path) -> FuzzResult:
    """Fuzz a target in a new process; inputs that break it stay in the folder."""
    command = [sys.executable, "-m", "bench.fuzz.run", target, str(seconds), str(folder)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    completed = subprocess.run(command, capture_output=True, text=True, errors="replace", env=environment)
    # the corpus is a folder of the same name; findings are files beside it
    findings = sorted(path.name for path in folder.glob(f"{target}-*") if path.is_file())
    executions, message = parse_output(completed.stderr)
    return FuzzResult(target, executions, findings, message if completed.returncode else "")


def parse_output(output: str) -> tuple[int, str]:
    """Return the number of inputs tried, and the last line that is not a statistic of the fuzzer.

    >>> parse_output("TypeError: no\\nstat::number_of_executed_units: 7665\\nstat::average_exec_per_sec: 127")
    (7665, 'TypeError: no')
    """
    executions = re.search(r"stat::number_of_executed_units:\s*(\d+)", output)
    message = last_line("\n".join(line for line in output.splitlines() if not line.startswith("stat::")))
    return int(executions[1]) if executions else 0, message


def fuzz_blocks(seconds: int, results: Sequence[FuzzResult], readings: dict[Case, Reading]) -> list[str]:
    """Return the blocks of the page."""
    targets = [
        [result.target, DESCRIPTIONS[result.target], f"{result.executions:,}", f"{seconds}", str(result)]
        for result in results
    ]
    files = [
        [
            *(case.description, reading.outcome),
            *(f"{reading.megabytes:,.0f} MB", f"{case.megabytes:,.0f} MB"),
            *(f"{reading.seconds:.1f}", f"{case.seconds:.0f}"),
            "; ".join(find_faults(case, reading)) or "yes",
        ]
        for case, reading in readings.items()
    ]
    return [
        "Other work may have kept the machine busy: inputs tried and seconds do not measure speed.",
        "## Parsers",
        markdown_table(["target", "parses", "inputs tried", "seconds", "findings"], targets, text_columns=2),
        "## Files of full size",
        "Each is written, then read in a new process; memory is the peak of that process.",
        markdown_table(["file", "outcome", "peak memory", "limit", "seconds", "limit", "as expected"], files, 2),
        FIXED,
    ]


def main() -> None:
    seconds, folder = int(sys.argv[1]), Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    results, readings = [], {}
    for target in DESCRIPTIONS:
        print_status(f"fuzzing {target} for {seconds} seconds ...")
        results.append(fuzz_target(target, seconds, folder))
        print_status(f"{results[-1].executions:,} inputs tried; findings: {results[-1]}")
    for case in CASES.values():
        readings[case] = read_in_process(case)
        print_status(readings[case].describe(case))
    path = (RESULTS if seconds >= RECORDED_SECONDS else folder) / "fuzz.md"
    origin = describe_provenance(provenance(f"make fuzz FUZZ_SECONDS={seconds}"))
    write_page(path, ["# Fuzzing", origin, *fuzz_blocks(seconds, results, readings)])
    print_status(f"written to {path}")
    if any(r.findings or r.error for r in results) or any(find_faults(*item) for item in readings.items()):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
