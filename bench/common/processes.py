"""Run benchmark cases in processes, and measure memory, processor time, threads and open files of processes.

The numbers come from ``/proc`` where it exists. The fallback is ``getrusage``, whose peak may be the parent's: a child
process starts with the peak of the process that it was forked from.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import threading
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")
MEGABYTE = 1e6
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")


class CaseFailed(Exception):
    """A case ended with an error; the message is the last line of its error stream."""


def run_module(module: str, *arguments: str) -> str:
    """Run a module in a new process on one thread, and return the last line that it printed."""
    command = [sys.executable, "-m", module, *arguments]
    completed = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **ONE_THREAD})
    if completed.returncode:
        raise CaseFailed(last_line(completed.stderr))
    return completed.stdout.splitlines()[-1]


def last_line(text: str) -> str:
    """Return the last line that is not empty, or "no message"."""
    return (text.strip() or "no message").splitlines()[-1]


class Usage(NamedTuple):
    """Peak megabytes of the largest process, of all processes together, and processor seconds of all."""

    largest: float
    together: float
    cpu: float


def measure_usage() -> Usage:
    """Return what this process and its living descendants have used so far."""
    if not (PROC / "self/status").exists():
        usage = resource.getrusage(resource.RUSAGE_SELF)
        unit = 1 if sys.platform == "darwin" else 1024
        peak = usage.ru_maxrss * unit / MEGABYTE
        return Usage(peak, peak, usage.ru_utime + usage.ru_stime)
    pids = [os.getpid(), *list_descendants(os.getpid())]
    peaks = [_read_status(pid, "VmHWM") * 1024 / MEGABYTE for pid in pids]
    return Usage(max(peaks), sum(peaks), sum(_cpu_seconds(pid) for pid in pids))


def resident_megabytes() -> float:
    """Return the memory that this process holds now; the peak without ``/proc``."""
    return _read_status(os.getpid(), "VmRSS") * 1024 / MEGABYTE if PROC.exists() else measure_usage().largest


def count_open_files() -> int:
    """Return the number of open file descriptors of this process; 0 without ``/proc``."""
    folder = PROC / "self/fd"
    return len(os.listdir(folder)) if folder.exists() else 0


def count_threads() -> int:
    """Return the number of threads of this process; without ``/proc`` those started by Python."""
    return _read_status(os.getpid(), "Threads") if PROC.exists() else threading.active_count()


def list_descendants(pid: int) -> list[int]:
    """Return the children of a process, their children, and so on."""
    children: dict[int, list[int]] = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            children.setdefault(_read_status(int(entry.name), "PPid"), []).append(int(entry.name))
    descendants: list[int] = []
    parents = [pid]
    while parents:
        parents = [child for parent in parents for child in children.get(parent, [])]
        descendants += parents
    return descendants


def _read_status(pid: int, name: str) -> int:
    """Return a number of a process's status file; 0 if the process has ended meanwhile."""
    try:
        lines = (PROC / str(pid) / "status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{name}:")), 0)


def _cpu_seconds(pid: int) -> float:
    try:
        # the program's name may contain blanks and brackets: fields are counted from its closing bracket
        fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
