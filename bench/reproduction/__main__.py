"""``python -m bench.reproduction table1``: run the experiments of Dudik et al. 2012."""

from __future__ import annotations

from json import dumps
from pathlib import Path
from typing import Annotated, Any

import typer

from backcast.errors import BackcastError, OptionError
from bench.reproduction import tables
from bench.reproduction.datasets import find_data_folder
from bench.reproduction.protocol import Options


def reproduce(
    experiment: Annotated[str, typer.Argument(help="table1, table2, table3, horizon, worlds, or all.")],
    data: Annotated[str | None, typer.Option(help="Folder of the data sets; BACKCAST_DATA if not given.")] = None,
    trials: Annotated[int | None, typer.Option(min=2, help="Trials; the paper's number if not given.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Trials at the same time.")] = 1,
    out: Annotated[str, typer.Option(help="Folder of the results; a stopped run continues there.")] = "results",
    charts: Annotated[str | None, typer.Option(help="Folder of the charts; that of the results if not given.")] = None,
    world: Annotated[str, typer.Option(help="Data of tables 1 and 2 and horizon; digits needs no folder.")] = "rcv1",
    simulations: Annotated[int, typer.Option(min=2, help="Live runs from which the truth is computed.")] = 2000,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same tables.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print JSON only, one line for each experiment.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
) -> None:
    """Run the experiments of Dudik et al. 2012, and write tables, JSON and charts."""
    if experiment not in (*tables.EXPERIMENTS, "all"):
        names = ", ".join(tables.EXPERIMENTS)
        raise OptionError(f"there is no experiment {experiment!r}; choose {names} or all")
    flags: dict[str, Any] = {"trials": trials, "jobs": jobs, "world": world, "simulations": simulations, "seed": seed}
    folders = find_data_folder(data), Path(out), Path(charts) if charts else None
    options = Options(*folders, **flags, show_progress=not (quiet or json))
    command = " ".join(f"--{flag} {value}" for flag, value in flags.items() if value is not None)
    for name in tables.EXPERIMENTS if experiment == "all" else (experiment,):
        try:
            page = tables.write_experiment(name, options, f"python -m bench.reproduction {name} --data DATA {command}")
        except OSError as problem:
            raise OptionError(
                f"a file cannot be read or written ({problem}); finished trials are stored in {out}, and the same "
                "command continues after them"
            ) from None
        typer.echo(dumps({"experiment": name, "file": f"{out}/{name}.json", "table": page}) if json else page)
    if not (quiet or json):
        typer.echo(f"The results are in {out}", err=True)


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return 0, or 2 after one line that describes the error."""
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
