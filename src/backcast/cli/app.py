"""The commands and their help; everything heavy is imported when a command runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from backcast.cli import options as o
from backcast.cli.reproduce import reproduce
from backcast.errors import BackcastError, OptionError

__all__ = ["app", "main"]

INTERRUPTED, FAILED = 130, 1
EXIT_CODES = "Exit codes: 0 done; 1 a failure nobody foresaw, with a traceback; 2 bad input; 130 interrupted."

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
        # the reader left; what is still in the buffer has nowhere to go
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    if code == INTERRUPTED:
        print("interrupted", file=sys.stderr)
    return code if isinstance(code, int) else 0


def _usage(error: Exception) -> str:
    message: str = getattr(error, "format_message", error.__str__)()
    command = getattr(getattr(error, "ctx", None), "command_path", "backcast")
    return f"{message.rstrip('.')}; see '{command} --help'"


def _failed(message: str) -> int:
    from backcast.cli.output import say

    say(f"error: {message}")
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
EVALUATE_EXAMPLE = (
    f"backcast evaluate {NEWS_COLUMNS} --policy uniform --policy linucb:alpha=0.3 --evaluator dr-ns:q=0.01 "
    "--horizon 300"
)


@app.command(epilog=f"{ON_THE_NEWS}\n\n{EVALUATE_EXAMPLE}\n\n{EXIT_CODES}")
def evaluate(
    log: o.LogPath,
    *,
    action: o.Action = None,
    reward: o.Reward = None,
    propensity: o.Propensity = None,
    policy: o.PolicyWords,
    context: o.Context = None,
    evaluator: o.EvaluatorWords = "auto",
    interval: o.IntervalWords = None,
    horizon: o.Horizon = None,
    level: o.Level = 0.95,
    seed: o.Seed = 0,
    replicates: o.Replicates = None,
    jobs: o.Jobs = 1,
    exchangeable: o.Exchangeable = None,
    reward_range: o.RewardRange = None,
    format: o.Format = None,  # noqa: A002
    report: o.ReportPath = None,
    json: o.AsJson = False,
    quiet: o.Quiet = False,
) -> None:
    """Say what policies would have earned on a log."""
    from backcast.cli import run

    # words are checked before a file is read: a slip shows at once
    _check_folder(report)
    options = {"horizon": horizon, "level": level, "seed": seed, "n_jobs": jobs, "exchangeable": exchangeable}
    more = {"interval": run.make_interval(interval), "replicates": run.make_replicates(replicates, "default")}
    asked = run.Asked(run.make_evaluator(evaluator), {**options, **more})
    policies = run.make_policies(policy)
    events = run.LogFile(
        log, tuple(context or ()), action, reward, propensity, format, {"reward_range": reward_range}
    ).read()
    estimates = run.run_evaluations(events, policies, asked, quiet=quiet or json)
    _deliver(estimates, run.facts_about(events, log), report=report, as_json=json, quiet=quiet)


COMPARE_EXAMPLE = (
    f"backcast compare {NEWS_COLUMNS} --policy a=linucb:batch_size=10 --policy b=egreedy:epsilon=0.1,batch_size=10 "
    "--horizon 100 --replicates 60"
)


@app.command(epilog=f"{ON_THE_NEWS}\n\n{COMPARE_EXAMPLE}\n\n{EXIT_CODES}")
def compare(
    log: o.LogPath,
    *,
    action: o.Action = None,
    reward: o.Reward = None,
    propensity: o.Propensity = None,
    policy: o.PolicyWords,
    context: o.Context = None,
    evaluator: o.EvaluatorWords = "auto",
    horizon: o.Horizon = None,
    level: o.Level = 0.95,
    seed: o.Seed = 0,
    replicates: o.Replicates = None,
    jobs: o.Jobs = 1,
    exchangeable: o.Exchangeable = None,
    reward_range: o.RewardRange = None,
    format: o.Format = None,  # noqa: A002
    report: o.ReportPath = None,
    json: o.AsJson = False,
    quiet: o.Quiet = False,
) -> None:
    """Say which policy earns more: paired differences on the same events with the same randomness, and a ranking."""
    from backcast.cli import run

    _check_folder(report)
    number = run.make_replicates(replicates, "auto")
    if number is None:
        raise OptionError("replicates is none; differences have no interval without them: give a number or auto")
    options = {"horizon": horizon, "level": level, "seed": seed, "n_jobs": jobs, "exchangeable": exchangeable}
    asked = run.Asked(run.make_evaluator(evaluator), {**options, "replicates": number})
    policies = run.make_policies(policy)
    if len(policies) < 2:
        raise OptionError("one policy is given; a comparison needs two: --policy a=linucb --policy b=uniform")
    events = run.LogFile(
        log, tuple(context or ()), action, reward, propensity, format, {"reward_range": reward_range}
    ).read()
    found = run.run_comparison(events, policies, asked, quiet=quiet or json)
    _deliver(found, run.facts_about(events, log), report=report, as_json=json, quiet=quiet)


CHECK_EXAMPLE = f"backcast check {NEWS_COLUMNS} --policy linucb:alpha=0.3"
CHECK_CODES = "Exit codes: 0 no finding failed; 1 at least one did; 2 bad input; 130 interrupted."


@app.command(epilog=f"{ON_THE_NEWS}\n\n{CHECK_EXAMPLE}\n\n{CHECK_CODES}")
def check(
    log: o.LogPath,
    *,
    action: o.Action = None,
    reward: o.Reward = None,
    propensity: o.Propensity = None,
    context: o.Context = None,
    policy: o.OnePolicy = None,
    exchangeable: o.OrderMeansNothing = True,
    reward_range: o.RewardRange = None,
    format: o.Format = None,  # noqa: A002
    json: o.AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Only what is wrong.")] = False,
) -> None:
    """Look for what is wrong with a log, and say what to do about it."""
    from backcast.cli.check import print_health
    from backcast.cli.output import print_json
    from backcast.cli.run import LogFile, make_policies
    from backcast.health import check as examine

    made = None if policy is None else next(iter(make_policies([policy]).values()))
    file = LogFile(log, tuple(context or ()), action, reward, propensity, format, {"reward_range": reward_range})
    found = examine(file.read(), made, exchangeable=exchangeable)
    if json:
        print_json(found.to_dict())
    else:
        print_health(found, quiet=quiet)
    if found.verdict == "fail":
        raise typer.Exit(FAILED)


def _check_folder(report: str | None) -> None:
    """A report that has nowhere to go is better known before the work than after it."""
    folder = os.path.dirname(report or "") or "."
    if not os.path.isdir(folder):
        raise OptionError(f"the report cannot be written to {report!r}: there is no folder {folder!r}")


def _deliver(result: Any, about: dict[str, Any], *, report: str | None, as_json: bool, quiet: bool) -> None:
    """Print estimates by name or a comparison of them, and write the report if one is wanted."""
    from backcast.cli.output import print_json, print_result, say

    if as_json:
        print_json({"log": about, **_plain(result)})
    else:
        print_result(result, _title(about), quiet=quiet)
    if report is not None:
        from backcast.report.html import save_report

        where = save_report(result, report, about=about)
        if not (quiet or as_json):
            say(f"The report is in {where}")


def _plain(result: Any) -> dict[str, Any]:
    if isinstance(result, dict):
        return {"estimates": {name: estimate.to_dict() for name, estimate in result.items()}}
    plain: dict[str, Any] = result.to_dict()
    return plain


def _title(about: dict[str, Any]) -> str:
    from backcast.report.words import figure

    earned = figure(about["average reward in the log"])
    return f"{figure(about['events'])} events, {about['actions']} actions; the log itself earned {earned} a round"


@app.command(epilog=f"Example:\n\nbackcast demo\n\n{EXIT_CODES}")
def demo(
    report: Annotated[str, typer.Option(help="Where the HTML report goes.")] = "report.html",
    log: Annotated[
        str | None, typer.Option(help="Write the embedded log to this CSV file instead, to try the other commands on.")
    ] = None,
    seed: o.Seed = 0,
    quiet: o.Quiet = False,
) -> None:
    """Compare four policies on an embedded log of a news page and write a report."""
    from backcast.cli.demo import run_demo, write_log

    if log is not None:
        write_log(log, quiet=quiet)
    else:
        _check_folder(report)
        found, about = run_demo(seed, quiet=quiet)
        _deliver(found, about, report=report, as_json=False, quiet=quiet)


app.command(
    epilog=f"Example, with no data at all:\n\nbackcast reproduce table1 --world digits --trials 10\n\n{EXIT_CODES}"
)(reproduce)
