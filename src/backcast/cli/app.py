"""The commands, their options and help; heavy modules are imported when a command runs."""

from __future__ import annotations

import errno
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from backcast._logging import logger
from backcast.cli import options as o
from backcast.cli.address_space import check_address_space, reserve_less_address_space
from backcast.cli.settings import Settings, command
from backcast.cli.signals import watch_signals
from backcast.cli.streams import FilesNotWritten, discard_output, tolerant_streams
from backcast.errors import BackcastError, OptionError, ResourceError, StopEvaluation, is_lack_of_memory, printable

FAILED, DIFFERENT, INTERRUPTED = 1, 9, 130
# errors of a standard output that cannot be written; those of files have a file name
UNWRITABLE = (errno.ENOSPC, errno.EFBIG, errno.EIO, errno.EDQUOT, errno.EBADF)
# the classes of usage errors are in different modules in different versions of typer; this one is always accessible
UsageError: type[Exception] = typer.BadParameter.__mro__[1]

EXIT_CODES = (
    "Exit codes: 0 success; 1 unexpected failure, with a traceback; 2 bad input; 6 the log does not support the "
    "question; 7 out of memory, disk space or time; 8 the policy or a model raised or broke its contract; 130 or 143 "
    "interrupted by Ctrl-C or SIGTERM, after the result so far was printed and marked as partial. With --json, errors "
    "are JSON too."
)
REQUIREMENT_EXIT_CODES = (
    "Exit codes with --require and --guardrail: 0 all are met, guardrails by the policy of the verdict; 3 the log "
    "contradicts one of them; 4 the log does not show whether one is met; 5 an estimate is not trustworthy."
)
CHECK_EXIT_CODES = "Exit codes: 1 at least one check failed; others as for evaluate."
NEWS_EXAMPLE = "Example, on the log that [bold]backcast demo --log news.csv[/bold] writes:"
NEWS_COLUMNS = (
    "news.csv --context 'reads_*' --context mobile --context evening --action article --reward clicked "
    "--propensity probability"
)
TWO_LEARNERS = (
    "--policy a=linucb:batch_size=10 --policy b=egreedy:epsilon=0.1,batch_size=10 --horizon 100 --replicates 60"
)
RUN_FILE_EXAMPLE = "The same settings can be in a run file, which [bold]backcast init LOG[/bold] writes:"

CheckedPolicy = Annotated[str | None, typer.Option(help=f"{o.POLICY_HELP}How well the log suits it is shown as well.")]
ChartFile = Annotated[str | None, typer.Option(metavar="FILE", help="Write the chart to this file.")]
ReportFile = Annotated[str, typer.Option(metavar="FILE", help="The HTML report to write.")]

app = typer.Typer(
    name="backcast",
    help="What would this policy have earned? Replays a log of decisions through policies, fixed or learning.",
    epilog=EXIT_CODES,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; every expected error is one line on the error stream."""
    words = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    as_json = "--json" in words
    reserve_less_address_space()
    with tolerant_streams(), watch_signals() as signals:
        try:
            if not {"--help", "--version"}.intersection(words):
                check_address_space()
            # not app(words): that replaces sys.excepthook, and exits instead of raising errors
            code = typer.main.get_command(app).main(args=words, prog_name="backcast", standalone_mode=False)
            sys.stdout.flush()
        except (typer.Abort, KeyboardInterrupt, StopEvaluation) as problem:
            reason = f": {problem}" if str(problem) else ""
            print(f"interrupted{reason}", file=sys.stderr)
            if as_json:
                _print_error_document("StopEvaluation", f"interrupted{reason}", signals.exit_code)
            return signals.exit_code
        except Exception as problem:
            error = _as_backcast_error(problem)
            if signals.received and not isinstance(error, FilesNotWritten):
                # a signal inside of a callback or of a user's code may end in any exception
                error = StopEvaluation(f"interrupted: {error or problem}")
                error.exit_code = signals.exit_code
            if as_json and not isinstance(error, FilesNotWritten):
                # a private class is of the kind of its public parent
                kinds = [kind for kind in type(error or problem).__mro__ if kind.__module__ == BackcastError.__module__]
                kind = (kinds or [type(problem)])[0].__name__
                _print_error_document(kind, str(error or problem), FAILED if error is None else error.exit_code)
            if error is None:
                raise
            logger.debug("the error in full", exc_info=problem)
            print(f"error: {printable(str(error))}", file=sys.stderr)
            return error.exit_code
        if code == INTERRUPTED:
            print("interrupted", file=sys.stderr)
            return signals.exit_code
    return code if isinstance(code, int) else 0


def _as_backcast_error(problem: Exception) -> BackcastError | None:
    """Return an expected problem as an error of this package; None for an unexpected one."""
    if isinstance(problem, BackcastError):
        return problem
    if isinstance(problem, UsageError):
        message: str = getattr(problem, "format_message", problem.__str__)()
        path = getattr(getattr(problem, "ctx", None), "command_path", "backcast")
        return OptionError(f"{message.rstrip('.')}; see '{path} --help'")
    if is_lack_of_memory(problem):
        return ResourceError(
            f"memory ran out ({str(problem) or 'no more is available'}); use fewer columns, a smaller hash_size or "
            "fewer rows, or a machine with more"
        )
    if isinstance(problem, OSError) and problem.errno in UNWRITABLE and problem.filename is None:
        discard_output(sys.stdout)
        return ResourceError(f"the output cannot be written: {problem.strerror}")
    return None


def _print_error_document(kind: str, message: str, exit_code: int) -> None:
    """Print the JSON document that takes the place of a result."""
    import json

    error = {"kind": kind, "message": message, "exit_code": exit_code}
    sys.stdout.write(json.dumps({"error": error}, indent=2) + "\n")
    sys.stdout.flush()


def _exit_with(code: int) -> None:
    if code != 0:
        raise typer.Exit(code)


def _show_version(requested: bool) -> None:
    if requested:
        from importlib.metadata import version

        typer.echo(f"backcast {version('backcast')}")
        raise typer.Exit


@app.callback()
def _set_options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    log_level: Annotated[
        str | None,
        typer.Option(metavar="LEVEL", help="Write log messages to the error stream: debug, info, warning or error."),
    ] = None,
) -> None:
    """Options of backcast itself."""
    if log_level is not None:
        import logging

        levels = {name: getattr(logging, name.upper()) for name in ("debug", "info", "warning", "error")}
        if log_level.lower() not in levels:
            raise OptionError(f"log-level is {log_level!r}; it must be one of {', '.join(levels)}")
        logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
        logging.getLogger("backcast").setLevel(levels[log_level.lower()])


def _epilog(example: str, run_file: str = "", ending: str = EXIT_CODES) -> str:
    """Return an example on the demo's log, the same with a run file, and the exit codes."""
    with_run_file = [RUN_FILE_EXAMPLE, run_file] if run_file else []
    return "\n\n".join([NEWS_EXAMPLE, example, *with_run_file, ending])


@app.command(epilog=_epilog("backcast init news.csv"))
def init(
    log: Annotated[str, typer.Argument(help="Parquet, CSV, NDJSON, or a log of Vowpal Wabbit.", show_default=False)],
    out: Annotated[str, typer.Option(metavar="FILE", help="The run file to write.")] = "run.toml",
    format: Annotated[  # noqa: A002
        str | None,
        typer.Option(help="File format, if the name does not show it: parquet, csv, tsv, ndjson, dsjson ..."),
    ] = None,
    delimiter: Annotated[
        str | None, typer.Option(metavar="CHARACTER", help="Delimiter of CSV; found from the file if not given.")
    ] = None,
    encoding: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Encoding of CSV, such as latin-1; found from the file if not given."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing run file.")] = False,
    json: o.JSON = False,
    quiet: o.QUIET = False,
) -> None:
    """Guess the role of each column of a log, and write a run file with comments."""
    from backcast.cli.init import write_run_file

    reading = {"format": format, "delimiter": delimiter, "encoding": encoding}
    write_run_file(log, out, reading, force=force, json=json, quiet=quiet)


@command(
    app,
    (*o.LOG, *o.RUN, *o.EXECUTION, *o.OUTPUT),
    epilog=_epilog(
        f"backcast evaluate {NEWS_COLUMNS} --policy uniform --policy linucb:alpha=0.3 --evaluator dr-ns:q=0.01 "
        "--horizon 300",
        "backcast evaluate run.toml",
    ),
)
def evaluate(settings: Settings) -> None:
    """Estimate what policies would have earned on a log."""
    from backcast.cli.commands import run_policies

    _exit_with(run_policies(settings, paired=False))


@command(
    app,
    (*o.LOG, *o.PAIRED_RUN, *o.COMPARISON, *o.EXECUTION, *o.OUTPUT),
    epilog=_epilog(
        f"backcast compare {NEWS_COLUMNS} {TWO_LEARNERS} --require not-worse",
        "backcast compare run.toml",
        f"{REQUIREMENT_EXIT_CODES}\n\n{EXIT_CODES}",
    ),
)
def compare(settings: Settings) -> None:
    """Compare policies with what the log earned, and with each other: paired differences on the same events."""
    from backcast.cli.commands import run_policies

    _exit_with(run_policies(settings, paired=True))


@command(
    app,
    (
        *(*o.LOG, *o.SEARCH),
        *(option for option in o.EXECUTION if option.key != "checkpoint"),
        *(option for option in o.OUTPUT if option.key == "save_json"),
    ),
    epilog=_epilog(
        f"backcast search {NEWS_COLUMNS} --policy linucb:batch_size=10 --grid alpha=0.03,0.1,0.3,1 --horizon 100",
        "backcast search run.toml",
    ),
)
def search(settings: Settings) -> None:
    """Find the best of many settings of a policy, and what it earns on events that did not choose it."""
    from backcast.cli.search import run_search

    run_search(settings)


@command(
    app,
    o.LOG,
    epilog=_epilog(
        f"backcast check {NEWS_COLUMNS} --policy linucb:alpha=0.3", "backcast check run.toml", CHECK_EXIT_CODES
    ),
    flags_only={"policy": CheckedPolicy},
)
def check(settings: Settings, policy: str | None) -> None:
    """Check a log for faults, and show remedies."""
    from backcast.cli.commands import run_check

    _exit_with(FAILED if run_check(settings, policy) else 0)


@command(
    app,
    (*o.LOG, *o.PAIRED_RUN, *o.PLANNING),
    epilog=_epilog(
        f"backcast plan {NEWS_COLUMNS} {TWO_LEARNERS} --difference 0.01",
        ending="Without a log:\n\n"
        f"backcast plan --reward-sd 0.3 --weight 5 --horizon 100 --difference 0.01\n\n{EXIT_CODES}",
    ),
    log_required=False,
    flags_only={"html": ChartFile, "png": ChartFile, "svg": ChartFile},
)
def plan(settings: Settings, html: str | None, png: str | None, svg: str | None) -> None:
    """Compute how many events are needed to distinguish two policies, from a pilot log or from assumptions."""
    from backcast.cli.commands import run_plan

    run_plan(settings, {"html": html, "png": png, "svg": svg})


@app.command(epilog=f"Example:\n\nbackcast report result.json\n\n{EXIT_CODES}")
def report(
    result: Annotated[
        str, typer.Argument(metavar="RESULT.JSON", help="A file that evaluate or compare wrote with --save-json.")
    ],
    report: ReportFile = "report.html",
    png: ChartFile = None,
    svg: ChartFile = None,
    json: o.JSON = False,
    quiet: o.QUIET = False,
) -> None:
    """Make the HTML report and the chart of values of a saved result, without another run."""
    from backcast.cli.commands import redraw_report

    redraw_report(result, report, {"png": png, "svg": svg}, json=json, quiet=quiet)


@app.command(
    epilog=f"Example, in a Dockerfile:\n\nRUN backcast warmup --policy linucb --contexts dense\n\n{EXIT_CODES}"
)
def warmup(
    policy: Annotated[
        list[str] | None,
        typer.Option(help="Built-in policy, such as linucb; all of them if not given. May be given several times."),
    ] = None,
    contexts: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND", help="Kind of contexts: dense, sparse or per-action; all if not given. May be repeated."
        ),
    ] = None,
    json: o.JSON = False,
    quiet: o.QUIET = False,
) -> None:
    """Compile the loops of policies now, so that the first run on this machine starts at once."""
    from backcast.cli.warmup import warm_up

    warm_up(policy or [], contexts or [], json=json, quiet=quiet)


@app.command(
    epilog="Example:\n\nbackcast rerun result.json\n\nExit codes: 0 the same; 9 not the same; others as for evaluate."
)
def rerun(
    result: Annotated[
        str, typer.Argument(metavar="RESULT.JSON", help="A file that evaluate or compare wrote with --save-json.")
    ],
    log: Annotated[
        str | None,
        typer.Option(metavar="LOG", help="The log, if its files are elsewhere now; those of the result if not given."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Run although the log has changed since the result was made.")
    ] = False,
    import_code: Annotated[
        bool,
        typer.Option("--import-code", help="Import and call module:factory of your own objects that the result names."),
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, help="Replicates run in parallel; the result does not depend on it. Default: all cores."),
    ] = None,
    json: o.JSON = False,
    quiet: o.QUIET = False,
) -> None:
    """Run a saved result again from its file and the log, and check that it is the same to the bit."""
    from backcast.cli.rerun import run_again

    is_same = run_again(result, log, import_code=import_code, force=force, jobs=jobs or -1, json=json, quiet=quiet)
    _exit_with(0 if is_same else DIFFERENT)


@app.command(epilog=f"Example:\n\nbackcast demo\n\n{EXIT_CODES}")
def demo(
    report: ReportFile = "report.html",
    log: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Write the embedded log to this CSV file instead, for the other commands."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of all random numbers.")] = 0,
    json: o.JSON = False,
    quiet: o.QUIET = False,
) -> None:
    """Compare four policies on an embedded log of a news page, and write a report."""
    from backcast.cli.commands import run_demo, write_demo_log

    if log is not None:
        write_demo_log(log, quiet=quiet or json)
    else:
        _exit_with(run_demo(Settings({"report": report}, json=json, quiet=quiet), seed))
