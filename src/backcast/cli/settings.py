"""Settings of a command: flags and run file merged by one schema, and the decorator that declares a command."""

from __future__ import annotations

import inspect
import os
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from backcast._files import read_text
from backcast.cli.options import JSON, KEYS, QUIET, TEXT, Option, typer_annotation
from backcast.errors import OptionError, SourceError, did_you_mean

SCHEMA = {"log": Option("log", TEXT, "Path of the log."), **KEYS}
PATHS = ("log", "report", "save_json", "checkpoint")
MOST_BYTES = 2**22  # of a run file: a hundred thousand lines
MOST_DOTS = 64
# the parser's time and memory grow with the square of the parts of a name
DEEP_KEY = re.compile(rf"""(?<![\w-])(?>(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){{{MOST_DOTS + 1}}}""")
TARGET = typer.Argument(
    metavar="LOG|RUN.TOML", help="A log (a file, a quoted pattern, or a folder), or a run file.", show_default=False
)


@dataclass(frozen=True)
class Settings:
    """Settings of a command by key, the folder and path of the run file (None without one), how much to print."""

    values: Mapping[str, Any] = field(default_factory=dict)
    folder: Path | None = None
    json: bool = False
    quiet: bool = False
    run_file: str | None = None

    @property
    def silent(self) -> bool:
        """Whether only the result is printed, without status lines."""
        return self.json or self.quiet

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, or the default if it is not set."""
        return self.values.get(key, default)

    def get_list(self, key: str) -> list[Any]:
        """Return a value that may be single or a list as a list."""
        value = self.values.get(key, [])
        return list(value) if isinstance(value, list | tuple) else [value]

    def require(self, key: str, what: str) -> Any:
        """Return the value of a key, or raise an error that explains how to set it."""
        if key in self.values:
            return self.values[key]
        if key == "log":
            raise OptionError(f'{what} is missing; name a file, or a run file that has log = "..."')
        example = f"{key} = ..." if self.folder else f"{KEYS[key].flag} ..."
        raise OptionError(
            f"{what} is missing; give it as {example} ('backcast init LOG' writes a run file to start from)"
        )


def merge_settings(
    target: str | None, flags: Mapping[str, Any], *, json: bool = False, quiet: bool = False
) -> Settings:
    """Merge flags with the run file that ``target`` names, or with the log; flags override the file.

    >>> merge_settings("log.csv", {"action": "shown", "reward": None}).values
    {'log': 'log.csv', 'action': 'shown'}
    """
    folder, values = None, {}
    if target is not None and target.lower().endswith(".toml"):
        folder, values = Path(target).resolve().parent, read_run_file(target)
    elif target is not None:
        values = {"log": target}
    given = {key: value for key, value in flags.items() if value not in (None, [])}
    return Settings({**values, **given}, folder, json, quiet, target if folder else None)


def read_run_file(path: str) -> dict[str, Any]:
    """Read and check the settings in a run file; relative paths start from its folder."""
    try:
        text = read_text(path, MOST_BYTES)
        if DEEP_KEY.search(text):
            raise SourceError(f"{path}: a name has more than {MOST_DOTS} dots; names of settings have none")
        values = tomllib.loads(text)
    except SourceError:
        raise
    except (ValueError, RecursionError) as problem:
        raise SourceError(f"{path}: this is not TOML ({problem})") from None
    for key, value in values.items():
        _check_setting(path, key, value)
    folder = os.path.dirname(path)
    relative = {key: values[key] for key in PATHS if key in values and "://" not in values[key]}
    return values | {key: os.path.join(folder, value) for key, value in relative.items()}


def _check_setting(path: str, key: str, value: Any) -> None:
    if key not in SCHEMA:
        raise OptionError(
            f"{path}: there is no setting {key!r}{did_you_mean(key, SCHEMA)} Settings: {', '.join(SCHEMA)}"
        )
    kind, minimum = SCHEMA[key].kind, SCHEMA[key].minimum
    if not kind.accepts(value):
        raise OptionError(f"{path}: {key} is {value!r}; it must be {kind.description}")
    if minimum is not None and value < minimum:
        raise OptionError(f"{path}: {key} is {value!r}; it must be at least {minimum}")


def command(
    app: typer.Typer,
    options: Sequence[Option],
    *,
    epilog: str,
    log_required: bool = True,
    flags_only: Mapping[str, Any] | None = None,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a function as a command that takes a log or a run file, and these options.

    The function receives :class:`Settings`, and by name the options of ``flags_only``, which no run file has.
    """
    target = (
        (Annotated[str, TARGET], inspect.Parameter.empty) if log_required else (Annotated[str | None, TARGET], None)
    )
    parameters: dict[str, tuple[Any, Any]] = {
        "target": target,
        **{option.key: (typer_annotation(option), None) for option in options},
        **{name: (annotation, None) for name, annotation in (flags_only or {}).items()},
        "json": (JSON, False),
        "quiet": (QUIET, False),
    }

    def register(function: Callable[..., None]) -> Callable[..., None]:
        def run(**arguments: Any) -> None:
            target, json, quiet = (arguments.pop(name) for name in ("target", "json", "quiet"))
            flags = {option.key: arguments.pop(option.key) for option in options}
            function(merge_settings(target, flags, json=json, quiet=quiet), **arguments)

        # typer reads parameters, name and help from the function that it calls
        described: Any = run
        described.__name__, described.__doc__ = function.__name__, function.__doc__
        described.__annotations__ = {name: annotation for name, (annotation, _) in parameters.items()}
        described.__signature__ = inspect.Signature(
            [
                inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
                for name, (annotation, default) in parameters.items()
            ]
        )
        app.command(epilog=epilog)(run)
        return function

    return register
