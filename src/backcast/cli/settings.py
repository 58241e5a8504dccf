"""Settings of a run from flags and a run file: one schema, and the flags have the last word."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from backcast.cli.options import KEYS
from backcast.cli.specs import near
from backcast.disk import read_text
from backcast.errors import OptionError, SourceError

__all__ = ["Settings", "is_run_file", "read_run_file", "settled"]

PATHS = ("log", "report", "out", "checkpoint")
MOST_BYTES = 2**22  # of a run file: a hundred thousand lines
MOST_DOTS = 64
# the parser's time and memory grow with the square of the parts of a name
DEEP_KEY = re.compile(rf"""(?<![\w-])(?>(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){{{MOST_DOTS + 1}}}""")


@dataclass(frozen=True)
class Settings:
    """What was set, by key, and the folder of the run file (None without one)."""

    values: Mapping[str, Any] = field(default_factory=dict)
    folder: Path | None = None

    def get(self, key: str, default: Any = None) -> Any:
        """The value that was set, or the default."""
        return self.values.get(key, default)

    def need(self, key: str, what: str) -> Any:
        """The value that was set; an error that says how to set it."""
        if key in self.values:
            return self.values[key]
        if key == "log":
            raise OptionError(f'{what} is missing; name a file, or a run file that has log = "..."')
        example = f"{key} = ..." if self.folder else f"{KEYS[key].flag} ..."
        raise OptionError(
            f"{what} is missing; give it as {example} ('backcast init LOG' writes a run file to start from)"
        )

    def several(self, key: str) -> list[Any]:
        """A value that may be one or a list, as a list."""
        value = self.values.get(key, [])
        return list(value) if isinstance(value, list | tuple) else [value]


def is_run_file(target: str | None) -> bool:
    """Whether the words name a run file rather than a log."""
    return target is not None and target.lower().endswith(".toml")


def settled(target: str | None, given: Mapping[str, Any]) -> Settings:
    """What flags and the run file (or log) named first come to.

    >>> settled("log.csv", {"action": "shown", "reward": None}).values
    {'log': 'log.csv', 'action': 'shown'}
    """
    flags = {key: value for key, value in given.items() if value not in (None, [])}
    if target is None or not is_run_file(target):
        return Settings(({} if target is None else {"log": target}) | flags)
    return Settings({**read_run_file(target), **flags}, Path(target).resolve().parent)


def read_run_file(path: str) -> dict[str, Any]:
    """The settings in a run file, checked; paths in it start from its own folder."""
    try:
        text = read_text(path, MOST_BYTES)
        if DEEP_KEY.search(text):
            raise SourceError(f"{path}: a name has more than {MOST_DOTS} dots; settings have none")
        plain = tomllib.loads(text)
    except SourceError:
        raise
    except (ValueError, RecursionError) as problem:
        raise SourceError(f"{path}: this is not TOML ({problem})") from None
    for key, value in plain.items():
        _check(path, key, value)
    folder = os.path.dirname(path)
    return {key: _beside(folder, value) if key in PATHS else value for key, value in plain.items()}


def _check(path: str, key: str, value: Any) -> None:
    if key == "log":
        fits, words = isinstance(value, str), "text"
    elif key in KEYS:
        fits, words = KEYS[key].kind.fits(value), KEYS[key].kind.words
    else:
        raise OptionError(
            f"{path}: there is no setting {key!r}{near(key, ['log', *KEYS])} Settings: log, {', '.join(KEYS)}"
        )
    if not fits:
        raise OptionError(f"{path}: {key} is {value!r}; it must be {words}")
    least = None if key == "log" else KEYS[key].least
    if least is not None and value < least:
        raise OptionError(f"{path}: {key} is {value!r}; it must be at least {least}")


def _beside(folder: str, path: str) -> str:
    return path if "://" in path else os.path.join(folder, path)
