"""What each command does; app.py declares them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import backcast as bc
from backcast._files import check_writable
from backcast._format import format_number
from backcast._horizon import find_event_rate
from backcast._horizon_proposal import propose_horizon
from backcast.checks.log import check
from backcast.cli.output import (
    check_output_paths,
    deliver,
    open_console,
    print_health,
    print_json,
    print_line,
    save_chart,
)
from backcast.cli.paths import check_outputs
from backcast.cli.progress import print_status
from backcast.cli.requirements import check_requirement, guardrail_gates, parse_requirement, worst_exit_code
from backcast.cli.rerun import with_factories
from backcast.cli.run import (
    RunOptions,
    describe_log,
    make_horizon,
    make_policies,
    open_log,
    read_run_options,
    run_comparison,
    run_evaluations,
)
from backcast.cli.settings import Settings
from backcast.demo_data import FEATURES, news_log, write_news
from backcast.errors import BackcastError, OptionError, SourceError, StopEvaluation, printable
from backcast.io.stream import LogStream
from backcast.log import Log
from backcast.planning import Plan, PlanAssumptions, plan
from backcast.policies.base import batch_size_of, is_learning
from backcast.report._summary import summarize
from backcast.report.charts import values_chart
from backcast.report.html import save_report
from backcast.report.text import FOLD, NO_WRAP, NUMBER, make_table
from backcast.results import load_result

# of the demo: some seconds on two cores; the policies learn after every ten visitors
HORIZON, BATCH, REPLICATES, JOBS = 1000, 10, 32, 2
INTERRUPTED = 130  # exit code of a partial result
ASSUMPTIONS = ("reward_sd", "weight", "horizon", "agreement", "run_sd")


def run_policies(settings: Settings, *, paired: bool) -> int:
    """Evaluate policies on a log, or compare them if ``paired``; return the exit code."""
    check_output_paths(settings)
    options = read_run_options(settings, paired=paired)
    requirements = [parse_requirement(text, options.policies) for text in settings.get_list("require") if paired]
    log = open_log(settings)
    result: Any = (run_comparison if paired else run_evaluations)(log, options, quiet=settings.silent)
    estimates = result.estimates if paired else result
    if not estimates:
        raise StopEvaluation("no estimate was finished")
    missing = [name for name in options.policies if name not in estimates]
    result = with_factories(result, options)
    gates = [] if missing else [check_requirement(requirement, result) for requirement in requirements]
    guarded = guardrail_gates(result) if paired and not missing else []
    partial = deliver(result, describe_log(log, settings.get("log")), settings, missing, gates)
    return INTERRUPTED if partial else worst_exit_code([*gates, *guarded])


def run_check(settings: Settings, policy: str | None) -> bool:
    """Check a log, and print the findings; return whether any failed."""
    target = None if policy is None else next(iter(make_policies([policy]).values()))
    log = open_log(settings)
    # drift is a fault unless the log is declared not exchangeable
    report = check(log, target, exchangeable=settings.get("exchangeable", True))
    if settings.json:
        print_json(report.to_dict())
    else:
        print_health(report, quiet=settings.quiet)
    return report.verdict == "fail"


def run_plan(settings: Settings, charts: Mapping[str, str | None]) -> None:
    """Plan the length of a log from a pilot log or from assumptions; ``charts`` are paths by format."""
    _check_chart_paths(charts, settings.get("log"), settings.run_file)
    settings.require("difference", "the difference to detect")
    differences = [float(difference) for difference in settings.get_list("difference")]
    proposed: tuple[str, ...] = ()
    if settings.get("log") is not None:
        options = read_run_options(settings, paired=True)
        log = open_log(settings)
        source: Any = run_comparison(log, options, quiet=settings.silent)
        proposed = _propose_for(log, list(options.policies.values()))
    elif settings.get("reward_sd") is None or settings.get("weight") is None:
        raise OptionError(
            "there is neither a pilot log nor an assumption; name a log with two policies, or give --reward-sd and "
            "--weight"
        )
    else:
        assumed = {key: settings.get(key) for key in ASSUMPTIONS if settings.get(key) is not None}
        horizon = make_horizon(settings.get("horizon"))
        if isinstance(horizon, str):
            raise OptionError(f"horizon is {horizon!r}; there is no log with times, so give the number of rounds")
        source = PlanAssumptions(**{**assumed, **({} if horizon is None else {"horizon": horizon})})
    result = plan(source, differences, power=settings.get("power", 0.8), level=settings.get("level", 0.95))
    result = replace(result, notes=(*result.notes, *proposed))
    if settings.json:
        print_json(result.to_dict())
    else:
        _print_plan(result, quiet=settings.quiet)
    for kind, path in charts.items():
        if path is not None:
            saved = save_chart(result.plot(), path, kind)
            if not settings.silent:
                print_status(f"The chart is in {saved}")


def _propose_for(log: Log | LogStream, policies: Sequence[Any]) -> tuple[str, ...]:
    """Return why a horizon suits a pilot log in memory, in sentences; none for fixed policies."""
    if not isinstance(log, Log) or not any(map(is_learning, policies)):
        return ()
    rate = None if log.times is None else find_event_rate(log)
    updates = min(batch_size_of(policy) for policy in policies if is_learning(policy))
    proposal = propose_horizon(len(log), log.propensities, log.n_actions, log.n_features, batch_size=updates, rate=rate)
    rounds = () if proposal.rounds is None else (f"A horizon for this log is {proposal.rounds:,} rounds.",)
    return (*rounds, *proposal.reasons)


def _check_chart_paths(charts: Mapping[str, str | None], *inputs: str | None) -> None:
    check_outputs({f"{kind} chart": path for kind, path in charts.items()}, inputs)
    for path in filter(None, charts.values()):
        check_writable(path, "chart")


def _print_plan(result: Plan, *, quiet: bool) -> None:
    """Print the table of events needed, and unless quiet the notes."""
    from rich.text import Text

    console = open_console()
    rounds = "" if result.horizon is None else f" over {format_number(result.horizon)} rounds"
    level, power = f"{100 * result.level:g} %", f"{100 * result.power:g} %"
    print_line(console, f"Events needed to distinguish policies{rounds}: {level} intervals, power {power}")
    uncertain = any(need.low != need.high for need in result.needs)
    ranges = {"range": NO_WRAP} if uncertain else {}
    table = make_table({"policies": FOLD, "difference": NUMBER, "events": NUMBER, **ranges})
    for need in result.needs:
        cells = [format_number(need.difference), format_number(need.events)]
        if uncertain:
            cells.append(f"{format_number(need.low)} to {format_number(need.high)}")
        table.add_row(Text(printable(need.pair)), *cells)
    console.print(table)
    for note in () if quiet else result.notes:
        print_line(console, f"Note: {note}")


def redraw_report(result: str, report: str, charts: Mapping[str, str | None], *, json: bool, quiet: bool) -> None:
    """Make the HTML report of a saved result, and the chart of values; ``charts`` are paths by format."""
    check_outputs({"report": report}, [result])
    check_writable(report, "report")
    _check_chart_paths(charts, result)
    saved = load_result(result)
    try:
        summary = summarize(saved.result)
        written = {"report": save_report(summary, report, about=saved.about, health=saved.health, result_file=result)}
        for kind, path in charts.items():
            if path is not None:
                written[kind] = save_chart(values_chart(summary), path, kind)
    except BackcastError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as problem:
        # values in the file may have the right types and still be inconsistent
        raise SourceError(f"{result}: the result is damaged, so it cannot be drawn ({problem})") from None
    if json:
        print_json({**{kind: str(file) for kind, file in written.items()}, "partial": saved.partial})
    elif not quiet:
        for kind, file in written.items():
            print_status(f"The {'report' if kind == 'report' else 'chart'} is in {file}")


def write_demo_log(path: str, *, quiet: bool) -> None:
    """Write the embedded log as CSV, and print the roles of its columns."""
    written = write_news(path, news_log())
    if not quiet:
        print_status(f"The log is in {written}. Context: {', '.join(FEATURES)}.")
        print_status("Action: article. Reward: clicked. Propensity: probability.")


def run_demo(settings: Settings, seed: int) -> int:
    """Compare four policies on the embedded log; return the exit code."""
    check_output_paths(settings)
    if not settings.silent:
        print_status(
            f"A day of a news page, replayed: what would each policy have earned from its first {HORIZON} visitors?"
        )
    log = news_log()
    policies = {
        # three of one class: on a new machine, each further class takes some seconds to compile
        "random": bc.EpsilonGreedy(1.0, batch_size=BATCH),
        "half random": bc.EpsilonGreedy(0.5, batch_size=BATCH),
        "epsilon-greedy": bc.EpsilonGreedy(0.1, batch_size=BATCH),
        "linucb": bc.LinUCB(0.3, batch_size=BATCH),
    }
    # exchangeable, because the logger did not learn that day and visitors are independent
    keywords = {"horizon": HORIZON, "replicates": REPLICATES, "exchangeable": True, "n_jobs": JOBS, "seed": seed}
    comparison = run_comparison(log, RunOptions(policies, keywords=keywords), quiet=settings.silent)
    return INTERRUPTED if deliver(comparison, describe_log(log, "embedded: a news page"), settings) else 0
