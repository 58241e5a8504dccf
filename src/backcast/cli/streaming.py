"""Logs that are read in parts: where the settings say so, or where memory would not hold them in comfort."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from backcast.cli.run import columns_of, is_vw, read_log_of
from backcast.cli.settings import Settings
from backcast.cli.speech import say
from backcast.errors import OptionError

if TYPE_CHECKING:
    from backcast.log import Log
    from backcast.sources.stream import LogStream

__all__ = ["log_or_stream_of"]

COMFORT = 0.5  # of the free memory: an evaluation needs some beside the log
MEMORY = Path("/proc/meminfo")
GROUP = Path("/sys/fs/cgroup")


def log_or_stream_of(settings: Settings, *, quiet: bool) -> Log | LogStream:
    """The log that the settings name, checked: in memory, or as a stream of parts."""
    wanted = settings.get("stream")
    if _needs_memory(settings):
        if wanted:
            raise OptionError(
                "stream is set, and logs of Vowpal Wabbit and logs whose propensities are estimated are read whole; "
                "leave it out"
            )
        return read_log_of(settings)
    stream, free = _scanned(settings), free_memory()
    if wanted or (wanted is None and not _fits(stream, free)):
        if not wanted and not quiet:
            say(f"{_sizes(stream, free)}; it is read in parts (--no-stream reads it whole)")
        return stream.counted()
    return stream.read()


def _needs_memory(settings: Settings) -> bool:
    return is_vw(settings, settings.need("log", "the log")) or bool(settings.get("estimate_propensities"))


def _scanned(settings: Settings) -> LogStream:
    import backcast as bc

    return bc.scan_log(settings.need("log", "the log"), **columns_of(settings))


def _fits(stream: LogStream, free: int | None) -> bool:
    return free is None or stream.bytes_in_memory <= COMFORT * free


def _sizes(stream: LogStream, free: int | None) -> str:
    return f"the log would take {_gigabytes(stream.bytes_in_memory)} of memory and {_gigabytes(free or 0)} are free"


def _gigabytes(size: int) -> str:
    """A size in words.

    >>> _gigabytes(2_500_000_000), _gigabytes(12_345_678)
    ('2.5 GB', '12 MB')
    """
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:,.0f} MB"


def free_memory() -> int | None:
    """Bytes that a process may still take, by what the system and its control group say; None where they do not."""
    found = []
    try:
        lines = dict(line.split(":") for line in MEMORY.read_text().splitlines())
        found.append(1024 * int(lines["MemAvailable"].split()[0]))
        limit = (GROUP / "memory.max").read_text().strip()
        if limit != "max":
            found.append(int(limit) - int((GROUP / "memory.current").read_text()))
    except (OSError, KeyError, ValueError):
        pass  # other systems, and systems without control groups
    return max(0, min(found)) if found else None
