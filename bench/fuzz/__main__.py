"""Fuzz every target, try files at full size, and write it all down: ``python -m bench.fuzz.all SECONDS FOLDER``.

The record goes to ``bench/results/fuzz.md`` where every target had a minute at least, else into the folder.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import NamedTuple

from bench.fuzz import full_size
from bench.fuzz.full_size import CASES, Case, Tried, faults
from bench.speed import machine
from bench.speed.report import table

RESULTS = Path("bench/results")
LEAST = 60  # seconds a target of a run that is recorded
WORDS = {
    "vw-text": "Vowpal Wabbit, text",
    "vw-json": "Vowpal Wabbit, dsjson",
    "run-file": "run files",
    "spec": "policies, evaluators and intervals in words",
    "saved": "saved results",
    "nesting": "the depth of JSON, against that of Python's own parser",
}
FOUND = """Found by earlier runs, and mended:

- `fixed:probabilities=[{.5,0.5]` ended in a traceback, because a list that cannot be read stays text, and numpy's own
  error came out where the policy made numbers of it. It is an example of `tests/hostile/test_fuzzed_words.py` now.
- A Parquet file of 34 MB with 200,000 columns took 2.7 GB of memory to read, so that as many columns as Arrow's reader
  opens would have taken some 12 GB. More than 100,000 are refused now; `tests/hostile/test_claims.py` tries that.
"""


class Fuzzed(NamedTuple):
    """What came of one target: inputs tried, those that broke it, and its last words where it ended badly."""

    target: str
    executions: int
    findings: list[str]
    words: str


def tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def fuzzed(target: str, seconds: int, folder: Path) -> Fuzzed:
    """The target in a process of its own; inputs that break it stay in the folder."""
    command = [sys.executable, "-m", "bench.fuzz.run", target, str(seconds), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace",
                          env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False)  # fmt: skip
    # its inputs lie in a folder of the same name; what broke it lies beside that
    findings = sorted(path.name for path in folder.glob(f"{target}-*") if path.is_file())
    return Fuzzed(target, executions(done.stderr), findings, last_words(done.stderr) if done.returncode else "")


def executions(said: str) -> int:
    """How many inputs were tried, from what the fuzzer says at the end.

    >>> executions("stat::number_of_executed_units: 7665\\nstat::average_exec_per_sec: 127")
    7665
    """
    found = re.search(r"stat::number_of_executed_units:\s*(\d+)", said)
    return int(found[1]) if found else 0


def last_words(said: str) -> str:
    """The last line that is not about the fuzzer itself."""
    lines = [line for line in said.splitlines() if line.strip() and not line.startswith("stat::")]
    return lines[-1] if lines else "no message"


def page(seconds: int, found: Sequence[Fuzzed], tried: dict[Case, Tried]) -> str:
    """The record."""
    head = (
        f"Made with `make fuzz FUZZ_SECONDS={seconds}` on {date.today().isoformat()}; {machine.describe()}; atheris "
        f"{machine.installed('atheris')}, pyarrow {machine.installed('pyarrow')}. Other work may have kept the "
        "machine busy: neither inputs tried nor seconds say how quick it is."
    )
    by_hand = [[one.target, WORDS[one.target], f"{one.executions:,}", f"{seconds}", _findings(one)] for one in found]
    sizes = [_size_row(case, one) for case, one in tried.items()]
    return "\n\n".join(
        [
            "# Fuzzing",
            head,
            "## What is parsed by hand",
            table(["target", "what", "inputs tried", "seconds", "findings"], by_hand),
            "## Files at full size",
            "Each is made, then read in a process of its own; memory is the peak of that process.",
            table(["file", "outcome", "peak memory", "allowed", "seconds", "allowed", "as it should be"], sizes),
            FOUND,
        ]
    )


def _findings(found: Fuzzed) -> str:
    return ", ".join(found.findings) or (f"ended early: {found.words}" if found.words else "none")


def _size_row(case: Case, tried: Tried) -> list[str]:
    memory = [f"{tried.megabytes:,.0f} MB", f"{case.megabytes:,.0f} MB"]
    time = [f"{tried.seconds:.1f}", f"{case.seconds:.0f}"]
    return [case.words, tried.outcome, *memory, *time, "; ".join(faults(case, tried)) or "yes"]


def main() -> None:
    seconds, folder = int(sys.argv[1]), Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    found, tried = [], {}
    for target in WORDS:
        tell(f"fuzzing {target} for {seconds} seconds ...")
        found.append(fuzzed(target, seconds, folder))
        tell(f"{found[-1].executions:,} inputs tried; findings: {_findings(found[-1])}")
    for case in CASES.values():
        tried[case] = full_size.tried(case)
        problems = "; ".join(faults(case, tried[case])) or "as it should be"
        tell(f"{case.words}: {tried[case].outcome}, {tried[case].megabytes:,.0f} MB: {problems}")
    path = (RESULTS if seconds >= LEAST else folder) / "fuzz.md"
    path.write_text(page(seconds, found, tried))
    tell(f"written to {path}")
    if any(one.findings or one.words for one in found) or any(faults(case, one) for case, one in tried.items()):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
