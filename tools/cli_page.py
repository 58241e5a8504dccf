"""The manual's page on the command line, made from the commands' own help: ``python -m tools.cli_page``."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import Any

import typer

from backcast.cli.app import app
from backcast.cli.options import KEYS

__all__ = ["cli_page"]

HEAD = """# Command line

This page is made from the commands' own help by `make cli-page`; a test sees to it that the two agree.

Every command takes `--json` to print JSON and nothing else, `--quiet` to leave out progress, verdict and notes, and
`--help`.
`backcast --install-completion` teaches your shell the commands, the options, and the names of policies and evaluators.

The first Ctrl-C during `evaluate` and `compare` stops the run and prints the estimate so far, marked as partial with
what was done; the second leaves at once. Either way the exit code is 130.

## Exit codes

| code | meaning |
|---|---|
| 0 | done; for `check`, no finding failed |
| 1 | a failure nobody foresaw, with a traceback; for `check`, at least one finding failed |
| 2 | bad input: one line says what, where, the value and the remedy |
| 130 | interrupted; what was done by then was printed and is marked as partial |
"""
RUN_FILE = """## The run file

`evaluate`, `compare`, `check` and `plan` take a run file (its name ends in `.toml`) in place of a log;
`backcast init LOG` writes one with comments. A flag overrides the file, and `--policy` replaces all of its policies.
Paths start from the file's own folder. An unknown key is refused with the nearest known one; keys that a command has no
use for are left alone, so that one file serves all of them. The key `log` is the path of the log; policies stand in a
table of their own:

```toml
log = "news.csv"
context = ["reads_*", "mobile", "evening"]
action = "article"
reward = "clicked"
propensity = "probability"
reward_range = [0, 1]
horizon = 100
report = "report.html"

[policies]
even = "uniform"
learner = "linucb:alpha=0.3,batch_size=10"
careful = { kind = "linucb", alpha = 1.0 }
```
"""


def cli_page() -> str:
    """The page as Markdown."""
    group: Any = typer.main.get_command(app)
    return "\n".join([HEAD, RUN_FILE, _keys(), *(_command(one, name) for name, one in group.commands.items())])


def _keys() -> str:
    rows = [(f"`{o.key}`", f"`{o.flag}`", o.kind.words, o.default or "", o.help) for o in KEYS.values()]
    return _table(("key", "flag", "takes", "default", "meaning"), rows)


def _command(command: Any, name: str) -> str:
    arguments = [_metavar(one) for one in command.params if one.param_type_name == "argument"]
    usage = " ".join(["backcast", name, "[OPTIONS]", *arguments])
    parts = [f"## {name}", command.help, f"```\n{usage}\n```", *_epilog(command.epilog or "")]
    takes_run_file = any(one.name == "target" for one in command.params)
    own = [one for one in command.params if one.name != "help" and not (takes_run_file and one.name in KEYS)]
    shared = ", ".join(_names(one) for one in command.params if one.name in KEYS)
    if takes_run_file:
        parts.append(f"Settings, explained [above](#the-run-file): {shared}.")
    return "\n\n".join(parts) + "\n\n" + _table(("option", "meaning"), map(_row, own))


def _names(option: Any) -> str:
    return ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))


def _metavar(argument: Any) -> str:
    name = argument.metavar or argument.name.upper()
    return name if argument.required else f"[{name}]"


def _row(parameter: Any) -> tuple[str, str]:
    if parameter.param_type_name == "argument":
        return f"`{_metavar(parameter)}`", parameter.help or ""
    default = "" if parameter.default in (None, False) else f" Default: {parameter.default}."
    return _names(parameter), (parameter.help or "") + default


def _epilog(text: str) -> Iterable[str]:
    """Examples as blocks; exit codes stand at the top of the page."""
    for paragraph in text.split("\n\n"):
        if paragraph.startswith("backcast "):
            yield f"```\n{paragraph}\n```"
        elif not paragraph.startswith("Exit codes"):
            yield re.sub(r"\[/?bold\]", "`", paragraph)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(cli_page())
