"""The machine and the versions behind a measurement."""

from __future__ import annotations

import os
import platform
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ["backcast", "coba", "vowpalwabbit", "contextualbandits", "river", "numpy", "numba", "pyarrow"]


def describe() -> str:
    """One line: CPU, cores, memory, Python."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    python = platform.python_version()
    return f"{cpu_model()}, {os.cpu_count()} cores, {memory:.0f} GiB of memory, {platform.system()}, Python {python}"


def cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    found = re.search(r"^model name\s*:\s*(.+)$", info.read_text(), re.MULTILINE) if info.exists() else None
    return found[1] if found else platform.processor() or platform.machine()


def versions() -> dict[str, str]:
    """Installed versions of the systems compared and of what they run on."""
    return {name: found for name in PACKAGES if (found := installed(name))}


def installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
