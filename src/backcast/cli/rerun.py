"""backcast rerun: run a saved result again, and objects of a user's modules in saved results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from backcast.cli.objects import EVALUATORS, INTERVALS, POLICIES, build_from, factory_description
from backcast.cli.output import open_console, print_json, print_line
from backcast.cli.run import RunOptions
from backcast.comparison import Comparison
from backcast.errors import OptionError
from backcast.estimate import Estimate
from backcast.provenance import build_object
from backcast.report.text import FOLD, NUMBER, make_table
from backcast.rerun import rerun_result

REGISTRIES = {"evaluator": EVALUATORS, "interval": INTERVALS}


def with_factories(result: Any, options: RunOptions) -> Any:
    """Return a dict of estimates or a comparison whose provenance names the factories of the user's objects."""
    if isinstance(result, Comparison):
        return replace(result, estimates=with_factories(result.estimates, options))
    objects = {"evaluator": options.evaluator, "interval": options.keywords.get("interval")}
    factories = {key: factory_description(value) for key, value in objects.items()}

    def described(name: str, estimate: Estimate) -> Estimate:
        run = estimate.provenance
        if run is None:
            return estimate
        policy = factory_description(options.policies[name]) or run.policy
        arguments = {key: factories.get(key) or value for key, value in run.arguments.items()}
        return replace(estimate, provenance=replace(run, policy=policy, arguments=arguments))

    return {name: described(name, estimate) for name, estimate in result.items()}


def run_again(
    result: str, log: str | None, *, import_code: bool, force: bool, jobs: int, json: bool, quiet: bool
) -> bool:
    """Run a saved result again, print both values, and return whether they are the same to the bit."""
    report = rerun_result(result, log=log, force=force, n_jobs=jobs, build=_builder(import_code))
    if json:
        versions = [{"package": name, "before": before, "now": now} for name, before, now in report.versions]
        print_json({"same": report.same, "before": report.before, "now": report.now, "versions": versions})
        return report.same
    console = open_console()
    table = make_table({"policy": FOLD, "value in the file": NUMBER, "value now": NUMBER})
    for name, value in report.now.items():
        # all digits, because the last one counts
        table.add_row(name or "policy", repr(report.before[name]), repr(value))
    console.print(table)
    if not quiet:
        print_line(console, report.conclusion)
    return report.same


def _builder(import_code: bool) -> Callable[[Any, str], Any]:
    """Return how objects are built: those of the user's modules only if that is allowed."""

    def build(description: Any, what: str) -> Any:
        if not (isinstance(description, dict) and "factory" in description):
            return build_object(description, what)
        factory = str(description["factory"])
        if not import_code:
            raise OptionError(
                f"{what} is made by {factory}, code of a user's module; --import-code imports and calls it. Look at "
                "the file first if it is not your own"
            )
        folder, options = description.get("folder"), description.get("options")
        if not isinstance(options, dict):
            raise OptionError(f"{what} is made by {factory} with options {options!r}; they must be a table")
        arguments = {key: build_object(value, key) for key, value in options.items()}
        return build_from(factory, arguments, REGISTRIES.get(what, POLICIES), Path(folder) if folder else None)

    return build
