"""``backcast init``: look at a log, guess its columns, and write a run file to start from."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from backcast.cli import options as o
from backcast.disk import check_place, whole_file
from backcast.errors import OptionError

if TYPE_CHECKING:
    from backcast.cli.guessing import Draft

__all__ = ["init"]


def init(
    log: Annotated[str, typer.Argument(help="Parquet, CSV, NDJSON, or a log of Vowpal Wabbit.", show_default=False)],
    out: Annotated[str, typer.Option(metavar="FILE", help="The run file to write.")] = "run.toml",
    format: Annotated[  # noqa: A002
        str | None,
        typer.Option(help="Kind of file, where its name does not say: parquet, csv, tsv, ndjson, dsjson ..."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite a run file that is there.")] = False,
    json: o.JSON = False,
    quiet: o.QUIET = False,
) -> None:
    """Look at a log, guess which column plays which part, and write a run file with comments."""
    from backcast.cli.guessing import draft_of
    from backcast.cli.runfile import run_file
    from backcast.cli.speech import print_json

    _check_place(out, force=force)
    draft = draft_of(log, format)
    text = run_file(draft, _from(log, out))
    with whole_file(out, "run file") as file:
        # names may hold bytes that are no text; they are written out
        file.write(text.encode("utf-8", errors="backslashreplace"))
    if json:
        print_json({"run_file": str(Path(out).resolve()), **draft.to_dict()})
    elif not quiet:
        _print_draft(draft, out)


def _check_place(out: str, *, force: bool) -> None:
    if not out.lower().endswith(".toml"):
        raise OptionError(f"the run file is {out!r}; its name must end in .toml, so that commands know it from a log")
    check_place(out, "run file")
    if os.path.exists(out) and not force:
        raise OptionError(f"{out} is there already; give --force to overwrite it, or --out another.toml")


def _from(log: str, out: str) -> str:
    """The log's path as the run file sees it."""
    if "://" in log or os.path.isabs(log):
        return log
    return Path(os.path.relpath(log, os.path.dirname(out) or ".")).as_posix()


def _print_draft(draft: Draft, out: str) -> None:
    from rich.console import Console

    from backcast.report.text import one_line

    console = Console(highlight=False, soft_wrap=False)
    console.print(one_line(draft.title), markup=False)
    if draft.parts:
        console.print(_table(draft))
    for doubt in draft.doubts:
        console.print(one_line(f"Unsure: {doubt}."), markup=False)
    console.print(
        one_line(f"{out} is written. Look it over, then: backcast check {out}; backcast compare {out}"), markup=False
    )


def _table(draft: Draft) -> Any:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from backcast.report.text import one_line

    table = Table(box=box.SIMPLE_HEAD)
    for title in ("part", "column", "because"):
        table.add_column(title, overflow="fold")
    for part, guess in draft.parts.items():
        columns = ", ".join(guess.columns) or "(none)"
        table.add_row(part.replace("_", " "), Text(one_line(columns)), guess.why + ("" if guess.sure else " (unsure)"))
    for name, why in draft.left_out.items():
        table.add_row("left out", Text(one_line(name)), why)
    return table
