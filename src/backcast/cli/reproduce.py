"""``backcast reproduce``: the founding paper's experiments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import typer

from backcast.cli import options as o
from backcast.errors import OptionError

__all__ = ["reproduce"]

NAMES = ("table1", "table2", "table3", "horizon", "worlds")


def reproduce(
    what: Annotated[str, typer.Argument(help="table1, table2, table3, horizon, worlds, or all.")],
    data: Annotated[str | None, typer.Option(help="Folder of the data sets; BACKCAST_DATA if not given.")] = None,
    trials: Annotated[int | None, typer.Option(min=2, help="Trials; the paper's number if not given.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Trials at once.")] = 1,
    out: Annotated[str, typer.Option(help="Folder of the results; a run that was stopped goes on there.")] = "results",
    world: Annotated[str, typer.Option(help="Data of tables 1 and 2 and horizon; digits needs no folder.")] = "rcv1",
    simulations: Annotated[int, typer.Option(min=2, help="Live runs that give the truth.")] = 2000,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same tables.")] = 0,
    json: o.JSON = False,
    quiet: o.QUIET = False,
) -> None:
    """Run the experiments of the founding paper and write tables, JSON and charts."""
    from dataclasses import replace
    from json import dumps
    from pathlib import Path

    from backcast.cli.speech import say
    from backcast.experiments.datasets import data_folder
    from backcast.experiments.journal import Plan
    from backcast.experiments.writing import reproduce as run

    if what not in (*NAMES, "all"):
        raise OptionError(f"there is no experiment {what!r}; choose {', '.join(NAMES)} or all")
    options: dict[str, Any] = {"trials": trials, "jobs": jobs, "world": world, "simulations": simulations, "seed": seed}
    plan = Plan(data_folder(data), Path(out), **options)
    plan = plan if quiet or json else replace(plan, watch=_shown)
    for name in NAMES if what == "all" else (what,):
        try:
            table = run(name, plan, _command(name, options))
        except OSError as problem:
            # finished trials are kept: the same command goes on after the last of them
            raise OptionError(f"a file cannot be read or written ({problem}); what is done is kept in {out}") from None
        # one document a line where several were asked for
        typer.echo(dumps({"experiment": name, "file": f"{out}/{name}.json", "table": table}) if json else table)
    if not (quiet or json):
        say(f"The results are in {out}")


def _command(name: str, options: dict[str, Any]) -> str:
    words = [f"--{key} {value}" for key, value in options.items() if value is not None]
    return " ".join(["backcast reproduce", name, "--data DATA", *words])


def _shown(pieces: Iterable[Any], name: str, total: int) -> Iterator[Any]:
    """The pieces as they are done, with a bar on the error stream."""
    from rich.console import Console
    from rich.progress import track

    return iter(track(pieces, description=name, total=total, console=Console(stderr=True), transient=True))
