"""What ``backcast plan`` does and prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from backcast.cli.charts import save_chart
from backcast.cli.run import asked_from, policies_from, run_comparison
from backcast.cli.speech import print_json, say
from backcast.cli.streaming import log_or_stream_of
from backcast.disk import check_place
from backcast.errors import OptionError
from backcast.planning import Assumed, Need, Plan
from backcast.planning import plan as make_plan
from backcast.report.text import one_line
from backcast.report.words import figure

if TYPE_CHECKING:
    from rich.table import Table

    from backcast.cli.command import Words
    from backcast.cli.settings import Settings

__all__ = ["needs_table", "run_plan"]


def run_plan(words: Words, charts: dict[str, str | None]) -> None:
    """Plan from a pilot log or from assumptions, print the table, and draw what is wanted."""
    settings = words.settings
    for path in charts.values():
        if path is not None:
            check_place(path, "chart")
    differences = [float(size) for size in _differences(settings)]
    source = _pilot(words) if settings.get("log") is not None else _assumptions(settings)
    found = make_plan(source, differences, power=settings.get("power", 0.8), level=settings.get("level", 0.95))
    if words.json:
        print_json(found.to_dict())
    else:
        print_plan(found, quiet=words.quiet)
    for kind, path in charts.items():
        if path is not None:
            where = save_chart(found.plot(), path, kind)
            if not words.silent:
                say(f"The chart is in {where}")


def _differences(settings: Settings) -> list[Any]:
    settings.need("difference", "the difference that must be told")
    return settings.several("difference")


def _pilot(words: Words) -> Any:
    settings = words.settings
    asked, policies = asked_from(settings, paired=True), policies_from(settings, least=2)
    log = log_or_stream_of(settings, quiet=words.silent)
    return run_comparison(log, policies, asked, quiet=words.silent)


def _assumptions(settings: Settings) -> Assumed:
    if settings.get("reward_sd") is None or settings.get("weight") is None:
        raise OptionError(
            "there is no pilot log, and no assumption in its place; name a log with two policies, or give --reward-sd "
            "and --weight"
        )
    taken = ("reward_sd", "weight", "horizon", "agreement", "run_sd")
    return Assumed(**{key: settings.get(key) for key in taken if settings.get(key) is not None})


def print_plan(plan: Plan, *, quiet: bool) -> None:
    """The table of events needed, and unless quiet what to know about it."""
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=False)
    rounds = "" if plan.horizon is None else f" over {figure(plan.horizon)} rounds"
    title = (
        f"Events needed to tell policies apart{rounds}: {100 * plan.level:g} % intervals, power {100 * plan.power:g} %"
    )
    console.print(one_line(title), markup=False)
    console.print(needs_table(plan))
    for note in () if quiet else plan.notes:
        console.print(f"Note: {one_line(note)}", markup=False)


def needs_table(plan: Plan) -> Table:
    """A row a difference: events, and how far off that may be."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD)
    uncertain = any(need.low != need.high for need in plan.needs)
    table.add_column("policies", overflow="fold")
    table.add_column("difference", justify="right", no_wrap=True)
    table.add_column("events", justify="right", no_wrap=True)
    if uncertain:
        table.add_column("perhaps", no_wrap=True)
    for need in plan.needs:
        table.add_row(
            Text(one_line(need.pair)), figure(need.difference), figure(need.events), *_perhaps(need)[:uncertain]
        )
    return table


def _perhaps(need: Need) -> list[str]:
    return [f"{figure(need.low)} to {figure(need.high)}"]
