"""Provenance of recorded results: commit, versions, command, date and machine."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RESULT_FOLDERS = (":!bench/results", ":!docs/reproduction")
PACKAGES = (
    *("backcast", "numpy", "numba", "scipy", "scikit-learn", "pyarrow"),
    *("coba", "vowpalwabbit", "contextualbandits", "river", "atheris"),
)


def provenance(command: str) -> dict[str, Any]:
    """Return where a result comes from; every file of ``bench/results`` starts with it.

    The keys are the command, the date, the commit, the machine in words, its cores and memory, and the versions of
    Python and of the installed packages that results depend on.
    """
    return {
        "command": command,
        "date": date.today().isoformat(),
        "commit": read_commit(),
        "machine": describe_machine(),
        "cores": os.cpu_count(),
        "memory_gib": round(total_gibibytes(), 1),
        "versions": {"python": platform.python_version(), **installed_versions()},
    }


def describe_provenance(record: dict[str, Any]) -> str:
    """Return a record of :func:`provenance` as one line of Markdown."""
    versions = ", ".join(f"{name} {number}" for name, number in record["versions"].items() if name != "python")
    made = f"Made with `{record['command']}` on {record['date']} at commit {record['commit']}"
    return f"{made}; {record['machine']}; {versions}."


def read_commit() -> str:
    """Return the commit of the checkout, with "-dirty" if tracked files other than results differ from it.

    "unknown" without git. A benchmark that writes several pages changes results itself.
    """
    changed = ["git", "status", "--porcelain", "--untracked-files=no", "--", ".", *RESULT_FOLDERS]
    try:
        commit, changes = (
            subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
            for command in (["git", "rev-parse", "--short=12", "HEAD"], changed)
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{commit}-dirty" if changes else commit


def describe_machine() -> str:
    """Return processor, cores, memory, system and Python version in one line."""
    info = Path("/proc/cpuinfo")
    model = re.search(r"^model name\s*:\s*(.+)$", info.read_text(), re.MULTILINE) if info.exists() else None
    processor = model[1] if model else platform.processor() or platform.machine()
    size = f"{os.cpu_count()} cores, {total_gibibytes():.0f} GiB of memory"
    return f"{processor}, {size}, {platform.system()}, Python {platform.python_version()}"


def total_gibibytes() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30


def installed_versions() -> dict[str, str]:
    """Return the versions of those :data:`PACKAGES` that are installed."""
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions
