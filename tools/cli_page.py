"""Generate the manual's page on the command line from the help of the commands: ``python -m tools.cli_page``."""

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

This page is generated from the help of the commands by `make cli-page`; a test checks that the two agree.

Every command takes `--json` to print JSON and nothing else, `--quiet` to leave out progress, verdict and notes, and
`--help`.
`backcast --install-completion` installs shell completion of commands, options, and names of policies and evaluators.

The first Ctrl-C during `evaluate` and `compare` stops the run and prints the estimate so far, marked as partial; the
second one exits at once. In both cases the exit code is 130.

## Exit codes

| code | meaning |
|---|---|
| 0 | success; for `check`, no check failed |
| 1 | unexpected failure, with a traceback; for `check`, at least one check failed |
| 2 | bad input: one line names what, where, the value and the remedy |
| 130 | interrupted; the result so far was printed and is marked as partial |
"""
RUN_FILE = """## The run file

`evaluate`, `compare`, `search`, `check` and `plan` take a run file (its name ends in `.toml`) in place of a log;
`backcast init LOG` writes one with comments. A flag overrides the file, and `--policy` replaces all of its policies.
Paths start from the folder of the file. An unknown key is refused, and the nearest known one suggested; keys that a
command does not use are ignored, so that one file serves all commands. The key `log` is the path of the log; policies
are in a table:

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
    """Return the page as Markdown."""
    group: Any = typer.main.get_command(app)
    rows = [(f"`{o.key}`", f"`{o.flag}`", o.kind.description, o.default, o.help) for o in KEYS.values()]
    keys = _format_table(("key", "flag", "takes", "default", "meaning"), rows)
    sections = [_format_command(command, name) for name, command in group.commands.items()]
    return "\n".join([HEAD, RUN_FILE, keys, *sections])


def _format_command(command: Any, name: str) -> str:
    arguments = [_metavar(parameter) for parameter in command.params if parameter.param_type_name == "argument"]
    usage = " ".join(["backcast", name, "[OPTIONS]", *arguments])
    parts = [f"## {name}", command.help, f"```\n{usage}\n```", *_format_epilog(command.epilog or "")]
    parameters = [parameter for parameter in command.params if parameter.name != "help"]
    if any(parameter.name == "target" for parameter in parameters):
        shared = ", ".join(_format_flags(parameter) for parameter in parameters if parameter.name in KEYS)
        parts.append(f"Settings, explained [above](#the-run-file): {shared}.")
        parameters = [parameter for parameter in parameters if parameter.name not in KEYS]
    return "\n\n".join(parts) + "\n\n" + _format_table(("option", "meaning"), map(_format_parameter, parameters))


def _metavar(argument: Any) -> str:
    name = argument.metavar or argument.name.upper()
    return name if argument.required else f"[{name}]"


def _format_flags(option: Any) -> str:
    return ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))


def _format_parameter(parameter: Any) -> tuple[str, str]:
    if parameter.param_type_name == "argument":
        return f"`{_metavar(parameter)}`", parameter.help or ""
    default = "" if parameter.default in (None, False) else f" Default: {parameter.default}."
    return _format_flags(parameter), (parameter.help or "") + default


def _format_epilog(text: str) -> Iterable[str]:
    """Yield examples as code blocks; exit codes are at the top of the page."""
    for paragraph in text.split("\n\n"):
        if paragraph.startswith("backcast "):
            yield f"```\n{paragraph}\n```"
        elif not paragraph.startswith("Exit codes"):
            yield re.sub(r"\[/?bold\]", "`", paragraph)


def _format_table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(cli_page())
