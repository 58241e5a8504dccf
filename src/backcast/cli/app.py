"""The commands and their help; everything heavy is imported when a command runs."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated

import typer

from backcast.cli import options as o
from backcast.cli.settings import CommandInput, command
from backcast.errors import BackcastError

INTERRUPTED, FAILED = 130, 1


# what a stream says that takes no more; errors of files name them
UNWRITABLE = (errno.ENOSPC, errno.EFBIG, errno.EIO, errno.EDQUOT, errno.EBADF)


EXIT_CODES = (
    "Exit codes: 0 done; 1 a failure nobody foresaw, with a traceback; 2 bad input; 130 interrupted, what was done by "
    "then being printed and marked as partial."
)


app = typer.Typer(
    name="backcast",
    help="What would this policy have earned? Replays a log of decisions through policies that may learn as they go.",
    epilog=EXIT_CODES,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


# The classes of usage errors live in different modules in different versions of typer; this one is always at hand.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; every foreseen error is one line on the error stream."""
    words = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    try:
        # asked directly, the command leaves sys.excepthook alone and hands its errors to us
        code = typer.main.get_command(app).main(args=words, prog_name="backcast", standalone_mode=False)
        sys.stdout.flush()
    except UsageError as error:
        return _failed(_usage(error))
    except BackcastError as error:
        return _failed(str(error))
    except (typer.Abort, KeyboardInterrupt):
        code = INTERRUPTED
    except BrokenPipeError:
        _forget_output()
        return 1
    except MemoryError as error:
        return _failed(
            f"memory ran out ({str(error) or 'no more can be had'}); use fewer columns, a smaller hash_size or fewer "
            "rows, or a machine with more"
        )
    except OSError as error:
        if error.errno not in UNWRITABLE or error.filename is not None:
            raise
        _forget_output()
        return _failed(f"the output cannot be written: {error.strerror}")
    if code == INTERRUPTED:
        print("interrupted", file=sys.stderr)
    return code if isinstance(code, int) else 0


def _forget_output() -> None:
    """What is still in the buffer has nowhere to go: the reader left, or the disk is full."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _usage(error: Exception) -> str:
    message: str = getattr(error, "format_message", error.__str__)()
    path = getattr(getattr(error, "ctx", None), "command_path", "backcast")
    return f"{message.rstrip('.')}; see '{path} --help'"


def _failed(message: str) -> int:
    from backcast.cli.progress import print_status

    print_status(f"error: {message}")
    return 2


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"backcast {version('backcast')}")
        raise typer.Exit


@app.callback()
def _top(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and leave.")
    ] = False,
) -> None:
    """Options of backcast itself."""


NEWS_COLUMNS = (
    "news.csv --context 'reads_*' --context mobile --context evening --action article --reward clicked "
    "--propensity probability"
)


ON_THE_NEWS = "Example, on the log that [bold]backcast demo --log news.csv[/bold] writes:"


WITH_A_FILE = "The same settings can stand in a run file, which [bold]backcast init LOG[/bold] writes:"


def _epilog(example: str, codes: str = EXIT_CODES, with_file: str = "") -> str:
    """An example on the demo's log, the same with a run file, and the exit codes."""
    file = f"{WITH_A_FILE}\n\n{with_file}\n\n" if with_file else ""
    return f"{ON_THE_NEWS}\n\n{example}\n\n{file}{codes}"


@app.command(epilog=_epilog("backcast init news.csv"))
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
    from backcast.cli.init import write_draft

    write_draft(log, out, format, force=force, json=json, quiet=quiet)


BIG_LOG = (*o.LOG, *o.STREAM)


EVALUATE_EXAMPLE = (
    f"backcast evaluate {NEWS_COLUMNS} --policy uniform --policy linucb:alpha=0.3 --evaluator dr-ns:q=0.01 "
    "--horizon 300"
)


@command(
    app,
    (*BIG_LOG, *o.RUN, *o.WORK, *o.OUTPUT),
    epilog=_epilog(EVALUATE_EXAMPLE, with_file="backcast evaluate run.toml"),
)
def evaluate(words: CommandInput) -> None:
    """Say what policies would have earned on a log."""
    from backcast.cli import run
    from backcast.cli.output import check_output_paths, deliver
    from backcast.cli.run import log_or_stream_of

    settings = words.settings
    # words are checked before a file is read: a slip shows at once
    check_output_paths(settings)
    asked, policies = run.asked_from(settings, paired=False), run.policies_from(settings)
    log = log_or_stream_of(settings, quiet=words.silent)
    found = run.run_evaluations(log, policies, asked, quiet=words.silent)
    if not found:
        raise typer.Exit(INTERRUPTED)
    left_out = [name for name in policies if name not in found]
    if deliver(found, run.facts_about(log, settings.get("log")), words, left_out):
        raise typer.Exit(INTERRUPTED)


COMPARE_EXAMPLE = (
    f"backcast compare {NEWS_COLUMNS} --policy a=linucb:batch_size=10 --policy b=egreedy:epsilon=0.1,batch_size=10 "
    "--horizon 100 --replicates 60"
)


PAIRED = tuple(option for option in o.RUN if option.key != "interval")


@command(
    app, (*BIG_LOG, *PAIRED, *o.WORK, *o.OUTPUT), epilog=_epilog(COMPARE_EXAMPLE, with_file="backcast compare run.toml")
)
def compare(words: CommandInput) -> None:
    """Say which policy earns more: paired differences on the same events with the same randomness, and a ranking."""
    from backcast.cli import run
    from backcast.cli.output import check_output_paths, deliver
    from backcast.cli.run import log_or_stream_of
    from backcast.errors import StopEvaluation

    settings = words.settings
    check_output_paths(settings)
    asked, policies = run.asked_from(settings, paired=True), run.policies_from(settings, least=2)
    log = log_or_stream_of(settings, quiet=words.silent)
    try:
        found = run.run_comparison(log, policies, asked, quiet=words.silent)
    except StopEvaluation:
        raise typer.Exit(INTERRUPTED) from None
    left_out = [name for name in policies if name not in found.estimates]
    if deliver(found, run.facts_about(log, settings.get("log")), words, left_out):
        raise typer.Exit(INTERRUPTED)


CHECK_EXAMPLE = f"backcast check {NEWS_COLUMNS} --policy linucb:alpha=0.3"


CHECK_CODES = "Exit codes: 0 no finding failed; 1 at least one did; 2 bad input; 130 interrupted."


OnePolicy = Annotated[str | None, typer.Option(help=f"{o.POLICY_HELP}How the log suits it is then said as well.")]


@command(
    app,
    BIG_LOG,
    epilog=_epilog(CHECK_EXAMPLE, CHECK_CODES, "backcast check run.toml"),
    more={"policy": OnePolicy},
)
def check(words: CommandInput, policy: str | None) -> None:
    """Look for what is wrong with a log, and say what to do about it."""
    from backcast.checks.log import check as examine
    from backcast.cli.output import print_health, print_json
    from backcast.cli.run import log_or_stream_of, make_policies

    made = None if policy is None else next(iter(make_policies([policy]).values()))
    # where nobody says otherwise, drift is a fault
    exchangeable = words.settings.get("exchangeable", True)
    log = log_or_stream_of(words.settings, quiet=words.silent)
    found = examine(log, made, exchangeable=exchangeable)
    if words.json:
        print_json(found.to_dict())
    else:
        print_health(found, quiet=words.quiet)
    if found.verdict == "fail":
        raise typer.Exit(FAILED)


PLAN_EXAMPLE = (
    f"backcast plan {NEWS_COLUMNS} --policy a=linucb:batch_size=10 --policy b=egreedy:epsilon=0.1,batch_size=10 "
    "--horizon 100 --replicates 60 --difference 0.01"
)


PLAN_EPILOG = (
    f"{_epilog(PLAN_EXAMPLE, 'With no log at all:')}\n\n"
    f"backcast plan --reward-sd 0.3 --weight 5 --horizon 100 --difference 0.01\n\n{EXIT_CODES}"
)


Chart = Annotated[str | None, typer.Option(metavar="FILE", help="Write the chart to this file.")]


@command(
    app,
    (*BIG_LOG, *PAIRED, *o.PLANNING),
    epilog=PLAN_EPILOG,
    optional=True,
    more={"html": Chart, "png": Chart, "svg": Chart},
)
def plan(words: CommandInput, html: str | None, png: str | None, svg: str | None) -> None:
    """Say how many events it takes to tell two policies apart, from a pilot log or from assumptions."""
    from backcast.cli.commands import run_plan

    run_plan(words, {"html": html, "png": png, "svg": svg})


Drawing = Annotated[str | None, typer.Option(metavar="FILE", help="Write the chart of values to this file too.")]


@app.command(epilog=_epilog("backcast report result.json").replace(ON_THE_NEWS, "Example:"))
def report(
    result: Annotated[str, typer.Argument(metavar="RESULT.JSON", help="What evaluate or compare wrote with --out.")],
    report: Annotated[str, typer.Option(metavar="FILE", help="Where the HTML report goes.")] = "report.html",
    png: Drawing = None,
    svg: Drawing = None,
    json: o.JSON = False,
    quiet: o.QUIET = False,
) -> None:
    """Make the HTML report of a saved result again, without running anything again."""
    from backcast.cli.commands import redraw_report

    redraw_report(result, report, {"png": png, "svg": svg}, json=json, quiet=quiet)


@app.command(epilog=f"Example:\n\nbackcast demo\n\n{EXIT_CODES}")
def demo(
    report: Annotated[str, typer.Option(metavar="FILE", help="Where the HTML report goes.")] = "report.html",
    log: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Write the embedded log to this CSV file instead, to try the others on."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same answer.")] = 0,
    json: o.JSON = False,
    quiet: o.QUIET = False,
) -> None:
    """Compare four policies on an embedded log of a news page and write a report."""
    from backcast.cli.commands import run_demo, write_log
    from backcast.cli.output import check_output_paths, deliver
    from backcast.cli.settings import Settings

    if log is not None:
        write_log(log, quiet=quiet or json)
        return
    words = CommandInput(Settings({"report": report}), json, quiet)
    check_output_paths(words.settings)
    found, about = run_demo(seed, quiet=words.silent)
    if deliver(found, about, words):
        raise typer.Exit(INTERRUPTED)
