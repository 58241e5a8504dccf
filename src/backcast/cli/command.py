"""Commands whose options come from the schema instead of from long signatures."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from backcast.cli.options import JSON, QUIET, Option, annotated
from backcast.cli.settings import Settings, settled

__all__ = ["Words", "command"]

NEEDED = inspect.Parameter.empty
ARGUMENT = typer.Argument(
    metavar="LOG|RUN.TOML", help="A log (a file, a quoted pattern, or a folder), or a run file.", show_default=False
)


@dataclass(frozen=True)
class Words:
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

    The function gets :class:`Words`, and what ``more`` adds by name: options of this command that no run file has.
    """
    keys = [option.key for option in options]
    extra = dict(more or {})

    def register(function: Callable[..., None]) -> Callable[..., None]:
        def run(**told: Any) -> None:
            settings = settled(told.pop("target"), {key: told.pop(key) for key in keys})
            function(Words(settings, told.pop("json"), told.pop("quiet")), **told)

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
