"""backcast search: the best of many settings of a policy, or of many policies."""

from __future__ import annotations

import json
from importlib.metadata import version
from typing import Any

import backcast as bc
from backcast._files import atomic_write
from backcast._format import format_interval, format_number, format_percent
from backcast.cli.objects import parse_value
from backcast.cli.output import check_output_paths, open_console, print_json, print_line
from backcast.cli.progress import print_status, watch_run
from backcast.cli.run import describe_log, open_log, read_run_options
from backcast.cli.settings import Settings
from backcast.errors import OptionError, printable
from backcast.report.text import FOLD, NO_WRAP, NUMBER, make_table

FORMAT, VERSION = "backcast search", 1
NARROWEST = 16  # characters of the column of settings: the others do not wrap
USUAL_PASSES = 112  # of the race and of the evaluation of the best, for the length of the progress bar


def run_search(settings: Settings) -> None:
    """Search for the best setting, print it with all others, and save the result if that is set."""
    check_output_paths(settings)
    options = read_run_options(settings, paired=False)
    grid = read_grid(settings.get("grid"))
    policies: Any = dict(options.policies)
    if grid is not None:
        if len(policies) > 1:
            raise OptionError(f"{len(policies)} policies and a grid are given; a grid varies the options of one policy")
        [policies] = policies.values()
    log = open_log(settings)
    unused = ("interval", "replicates", "time_budget")
    keywords = {key: value for key, value in options.keywords_for(log).items() if key not in unused}
    passes = USUAL_PASSES if isinstance(log, bc.Log) else len(options.policies)
    with options.engine.connect(), watch_run((log.n_events or 0) * passes, 1, quiet=settings.silent) as run:
        run.start_task("search")
        result = bc.search(
            log,
            policies,
            grid,
            evaluator=options.evaluator,
            folds=settings.get("folds", 5),
            progress=run,
            **keywords,
        )
    about = describe_log(log, settings.get("log"))
    document = {
        "format": FORMAT,
        "version": VERSION,
        "made_by": f"backcast {version('backcast')}",
        "log": about,
        **result.to_dict(),
    }
    if settings.json:
        print_json(document)
    else:
        _print_result(result, quiet=settings.quiet)
    path = settings.get("save_json")
    if path is not None:
        with atomic_write(path, "result") as file:
            file.write((json.dumps(document, indent=2, allow_nan=False) + "\n").encode())
        if not settings.silent:
            print_status(f"The result is in {path}")


def read_grid(given: Any) -> dict[str, list[Any]] | None:
    """Return the grid of a run file's table, or of flags such as ``alpha=0.1,0.3``; None if there is none.

    >>> read_grid(["alpha=0.1,0.3", "batch_size=1"])
    {'alpha': [0.1, 0.3], 'batch_size': [1]}
    """
    if given is None:
        return None
    if isinstance(given, dict):
        return {name: values if isinstance(values, list) else [values] for name, values in given.items()}
    grid: dict[str, list[Any]] = {}
    for text in [given] if isinstance(given, str) else given:
        name, sign, values = text.partition("=")
        if not sign or not values.strip():
            raise OptionError(f"grid is {text!r}; write an option and its values, such as alpha=0.1,0.3,1")
        if name.strip() in grid:
            raise OptionError(f"the grid has {name.strip()!r} twice; write all of its values after one equals sign")
        grid[name.strip()] = [parse_value(value.strip()) for value in values.split(",")]
    return grid


def _print_result(result: bc.SearchResult, *, quiet: bool) -> None:
    from rich.text import Text

    console = open_console()
    estimate = result.estimate
    interval = estimate.interval
    shown = "" if interval is None else f" ({100 * interval.level:g} % interval {format_interval(interval)})"
    print_line(console, f"Best: {result.name}, {format_number(estimate.value)} per round{shown}")
    staged = any(candidate.stage is not None for candidate in result.candidates)
    columns: dict[str, Any] = {
        "setting": {**FOLD, "min_width": NARROWEST},
        "value": NUMBER,
        "difference": NO_WRAP,
        "chosen": NUMBER,
    }
    table = make_table(columns | ({"stage": NUMBER} if staged else {}))
    for candidate in result.candidates:
        gap = candidate.difference
        cells = [
            format_number(candidate.value),
            "" if gap is None else f"{gap.value:+.4g} ({format_interval(gap.interval)})",
            format_percent(candidate.share_won),
        ]
        if staged:
            cells.append("" if candidate.stage is None else str(candidate.stage))
        # Text, not markup: a name such as "[red]" is shown unchanged
        table.add_row(Text(printable(candidate.name)), *cells)
    console.print(table)
    for note in () if quiet else dict.fromkeys(estimate.notes):
        print_line(console, f"Note: {note}")
