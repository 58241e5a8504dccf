"""What this process and those it started have used: memory, processor time, threads and open files.

The numbers come from ``/proc`` where there is one. ``getrusage`` is the fallback: its peak is not a process's own,
since a child starts with the peak of the parent that it was split from.
"""

from __future__ import annotations

import os
import resource
import sys
import threading
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")
MEGABYTE = 1e6


class Used(NamedTuple):
    """Peak megabytes of the largest process, of all of them together, and processor seconds of all."""

    largest: float
    together: float
    cpu: float


def used() -> Used:
    """So far, by this process and its living descendants."""
    if not (PROC / "self/status").exists():
        own = resource.getrusage(resource.RUSAGE_SELF)
        unit = 1 if sys.platform == "darwin" else 1024
        peak = own.ru_maxrss * unit / MEGABYTE
        return Used(peak, peak, own.ru_utime + own.ru_stime)
    family = [os.getpid(), *descendants(os.getpid())]
    peaks = [_number(pid, "VmHWM") * 1024 / MEGABYTE for pid in family]
    return Used(max(peaks), sum(peaks), sum(_cpu_seconds(pid) for pid in family))


def resident() -> float:
    """Megabytes that this process holds now."""
    return _number(os.getpid(), "VmRSS") * 1024 / MEGABYTE if PROC.exists() else used().largest


def open_files() -> int:
    """Open file descriptors of this process; 0 where nobody says."""
    listed = PROC / "self/fd"
    return len(os.listdir(listed)) if listed.exists() else 0


def threads() -> int:
    """Threads of this process, those of libraries included where the system says."""
    return _number(os.getpid(), "Threads") if PROC.exists() else threading.active_count()


def descendants(pid: int) -> list[int]:
    """Children, their children, and so on."""
    children: dict[int, list[int]] = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            children.setdefault(_number(int(entry.name), "PPid"), []).append(int(entry.name))
    found, asked = [], [pid]
    while asked:
        own = children.get(asked.pop(), [])
        found += own
        asked += own
    return found


def _number(pid: int, name: str) -> int:
    """A line of a process's status; 0 where the process has ended meanwhile."""
    try:
        lines = (PROC / str(pid) / "status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{name}:")), 0)


def _cpu_seconds(pid: int) -> float:
    try:
        # the name of a program may hold blanks and brackets; fields are counted from its end
        fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
