"""``python -m bench.reproduction table1``: the experiments of the founding paper."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import typer

from backcast.errors import BackcastError, OptionError

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
    json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Leave out progress.")] = False,
) -> None:
    """Run the experiments of the founding paper and write tables, JSON and charts."""
    from dataclasses import replace
    from json import dumps
    from pathlib import Path

    from bench.reproduction.datasets import data_folder
    from bench.reproduction.journal import Plan
    from bench.reproduction.writing import reproduce as run

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
        typer.echo(f"The results are in {out}", err=True)


def _command(name: str, options: dict[str, Any]) -> str:
    words = [f"--{key} {value}" for key, value in options.items() if value is not None]
    return " ".join(["python -m bench.reproduction", name, "--data DATA", *words])


def _shown(slices: Iterable[Any], name: str, total: int) -> Iterator[Any]:
    """The pieces as they are done, with a bar on the error stream."""
    from rich.console import Console
    from rich.progress import track

    return iter(track(slices, description=name, total=total, console=Console(stderr=True), transient=True))


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return 0, or 2 after one line that says what is wrong."""
    app = typer.Typer(add_completion=False)
    app.command()(reproduce)
    try:
        app(arguments, standalone_mode=False)
    except BackcastError as error:
        typer.echo(f"error: {error}", err=True)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
