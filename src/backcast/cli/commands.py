"""What ``backcast plan`` does and prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from backcast._files import check_writable
from backcast.cli.output import check_output_paths, print_json, save_chart
from backcast.cli.progress import print_status
from backcast.cli.run import RunOptions, asked_from, facts_about, log_or_stream_of, policies_from, run_comparison
from backcast.cli.settings import CommandInput, Settings
from backcast.errors import BackcastError, OptionError, SourceError, printable
from backcast.planning import Need, Plan, PlanAssumptions
from backcast.planning import plan as make_plan
from backcast.report._format import format_number
from backcast.report.charts import forest_chart
from backcast.report.html import save_report
from backcast.results import load_result

if TYPE_CHECKING:
    from rich.table import Table

    from backcast.comparison import Comparison


def run_plan(words: CommandInput, charts: dict[str, str | None]) -> None:
    """Plan from a pilot log or from assumptions, print the table, and draw what is wanted."""
    settings = words.settings
    for path in charts.values():
        if path is not None:
            check_writable(path, "chart")
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
                print_status(f"The chart is in {where}")


def _differences(settings: Settings) -> list[Any]:
    settings.need("difference", "the difference that must be told")
    return settings.several("difference")


def _pilot(words: CommandInput) -> Any:
    settings = words.settings
    asked, policies = asked_from(settings, paired=True), policies_from(settings, least=2)
    log = log_or_stream_of(settings, quiet=words.silent)
    return run_comparison(log, policies, asked, quiet=words.silent)


def _assumptions(settings: Settings) -> PlanAssumptions:
    if settings.get("reward_sd") is None or settings.get("weight") is None:
        raise OptionError(
            "there is no pilot log, and no assumption in its place; name a log with two policies, or give --reward-sd "
            "and --weight"
        )
    taken = ("reward_sd", "weight", "horizon", "agreement", "run_sd")
    return PlanAssumptions(**{key: settings.get(key) for key in taken if settings.get(key) is not None})


def print_plan(plan: Plan, *, quiet: bool) -> None:
    """The table of events needed, and unless quiet what to know about it."""
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=False)
    rounds = "" if plan.horizon is None else f" over {format_number(plan.horizon)} rounds"
    title = (
        f"Events needed to tell policies apart{rounds}: {100 * plan.level:g} % intervals, power {100 * plan.power:g} %"
    )
    console.print(printable(title), markup=False)
    console.print(needs_table(plan))
    for note in () if quiet else plan.notes:
        console.print(f"Note: {printable(note)}", markup=False)


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
            Text(printable(need.pair)),
            format_number(need.difference),
            format_number(need.events),
            *_perhaps(need)[:uncertain],
        )
    return table


def _perhaps(need: Need) -> list[str]:
    return [f"{format_number(need.low)} to {format_number(need.high)}"]


def redraw_report(result: str, report: str, charts: Mapping[str, str | None], *, json: bool, quiet: bool) -> None:
    """Make the HTML report of a saved result again; ``charts`` says where to draw the chart of values, by format."""
    check_output_paths(Settings({"report": report}))
    for place in filter(None, charts.values()):
        check_writable(place, "chart")
    saved = load_result(result)
    try:
        written = {"report": str(save_report(saved.result, report, about=saved.about, health=saved.health))}
        for kind, path in charts.items():
            if path is not None:
                written[kind] = str(save_chart(forest_chart(saved.result), path, kind))
    except BackcastError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as problem:
        # all that is drawn comes from the file, and its values may be of the right kind and yet make no sense together
        raise SourceError(f"{result}: the result is damaged, so it cannot be drawn ({problem})") from None
    if json:
        print_json({**written, "partial": saved.partial})
    elif not quiet:
        for kind, where in written.items():
            print_status(f"The {'report' if kind == 'report' else 'chart'} is in {where}")


# some seconds on two cores; the policies are updated after every ten visitors
HORIZON, BATCH = 200, 10


REPLICATES, JOBS = 240, 2


def write_log(path: str, *, quiet: bool) -> None:
    """Write the embedded log as CSV, and say how it is read."""
    from backcast.demo_data import FEATURES, news_log, write_news

    where = write_news(path, news_log())
    if not quiet:
        print_status(f"The log is in {where}. Context: {', '.join(FEATURES)}.")
        print_status("Action: article. Reward: clicked. Propensity: probability.")


def run_demo(seed: int, *, quiet: bool) -> tuple[Comparison, dict[str, Any]]:
    """Four policies compared, and what the log is."""
    import backcast as bc
    from backcast.demo_data import news_log

    if not quiet:
        print_status(
            f"A day of a news page, replayed: what would each policy have earned from its first {HORIZON} visitors?"
        )
    log = news_log()
    policies = {
        # three of one kind: on a fresh machine every other kind costs some seconds of compilation
        "random": bc.EpsilonGreedy(1.0, batch_size=BATCH),
        "half random": bc.EpsilonGreedy(0.5, batch_size=BATCH),
        "epsilon-greedy": bc.EpsilonGreedy(0.1, batch_size=BATCH),
        "linucb": bc.LinUCB(0.3, batch_size=BATCH),
    }
    # the page's own system did not learn that day and visitors came as they like, so the order means nothing
    options = {"horizon": HORIZON, "replicates": REPLICATES, "exchangeable": True, "n_jobs": JOBS, "seed": seed}
    found = run_comparison(log, policies, RunOptions("auto", options), quiet=quiet)
    return found, facts_about(log, "embedded: a news page")
