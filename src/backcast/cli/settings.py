"""Settings of a run from flags and a run file: one schema, and the flags have the last word."""

from __future__ import annotations

import inspect
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from backcast._files import read_text
from backcast.cli.options import JSON, KEYS, QUIET, Option, annotated
from backcast.errors import OptionError, SourceError, did_you_mean

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


def merge_settings(target: str | None, given: Mapping[str, Any]) -> Settings:
    """What flags and the run file (or log) named first come to.

    >>> merge_settings("log.csv", {"action": "shown", "reward": None}).values
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
            f"{path}: there is no setting {key!r}{did_you_mean(key, ['log', *KEYS])} Settings: log, {', '.join(KEYS)}"
        )
    if not fits:
        raise OptionError(f"{path}: {key} is {value!r}; it must be {words}")
    least = None if key == "log" else KEYS[key].least
    if least is not None and value < least:
        raise OptionError(f"{path}: {key} is {value!r}; it must be at least {least}")


def _beside(folder: str, path: str) -> str:
    return path if "://" in path else os.path.join(folder, path)


NEEDED = inspect.Parameter.empty


ARGUMENT = typer.Argument(
    metavar="LOG|RUN.TOML", help="A log (a file, a quoted pattern, or a folder), or a run file.", show_default=False
)


@dataclass(frozen=True)
class CommandInput:
    """What a command was told."""

    settings: Settings
    json: bool
    quiet: bool

    @property
    def silent(self) -> bool:
        """Whether nothing but the result is wanted."""
        return self.json or self.quiet


def command(
    app: typer.Typer,
    options: Iterable[Option],
    *,
    epilog: str,
    optional: bool = False,
    more: dict[str, Any] | None = None,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a function a command that takes a log or a run file and these options.

    The function gets :class:`CommandInput`, and by name what ``more`` adds: options that no run file has.
    """
    keys = [option.key for option in options]
    extra = dict(more or {})

    def register(function: Callable[..., None]) -> Callable[..., None]:
        def run(**told: Any) -> None:
            settings = merge_settings(told.pop("target"), {key: told.pop(key) for key in keys})
            function(CommandInput(settings, told.pop("json"), told.pop("quiet")), **told)

        target = (Annotated[str | None, ARGUMENT], None) if optional else (Annotated[str, ARGUMENT], NEEDED)
        kinds: dict[str, tuple[Any, Any]] = {"target": target}
        kinds |= {option.key: (annotated(option), None) for option in options}
        kinds |= {name: (kind, None) for name, kind in extra.items()}
        kinds |= {"json": (JSON, False), "quiet": (QUIET, False)}
        _sign(run, function, kinds)
        app.command(epilog=epilog)(run)
        return function

    return register


def _sign(run: Callable[..., None], function: Callable[..., None], kinds: dict[str, tuple[Any, Any]]) -> None:
    """Let typer see the parameters, the name and the words of help."""
    named: Any = run
    named.__signature__ = inspect.Signature(
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default)
            for name, (kind, default) in kinds.items()
        ]
    )
    named.__annotations__ = {name: kind for name, (kind, _) in kinds.items()}
    named.__name__, named.__doc__ = function.__name__, function.__doc__
