"""rerun_result(): run a saved result again, and compare the numbers to the bit."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from backcast._equality import ContentEquality
from backcast.comparison import Comparison, compare
from backcast.errors import OptionError, SourceError
from backcast.estimate import Estimate
from backcast.evaluation import evaluate
from backcast.io import read_log, read_obd, read_vw, scan_log, scan_vw
from backcast.io.stream import LogStream
from backcast.log import Log
from backcast.provenance import LogSource, Provenance, build_object, package_versions
from backcast.results import Result, estimates_by_name, load_result

READERS: dict[str, Callable[..., Log | LogStream]] = {
    "read_log": read_log,
    "scan_log": scan_log,
    "read_vw": read_vw,
    "scan_vw": scan_vw,
    "read_obd": read_obd,
}


@dataclass(frozen=True, eq=False)
class RerunReport(ContentEquality):
    """A result that was run again.

    Attributes
    ----------
    same
        Whether value, standard error and interval of every policy, and every difference, are the same to the bit.
    before, now
        Value of each policy in the file and in this run; the name of a single estimate is empty.
    versions
        Packages with other versions than in the file: name, version then and now.
    result
        The result of this run.
    """

    same: bool
    before: dict[str, float]
    now: dict[str, float]
    versions: tuple[tuple[str, str, str], ...]
    result: Result

    def __str__(self) -> str:
        lines = [f"{name or 'value'}: {self.before[name]!r} before, {value!r} now" for name, value in self.now.items()]
        return "\n".join([*lines, self.conclusion])

    @property
    def conclusion(self) -> str:
        """One sentence: the same or not, and which versions differ."""
        changed = ", ".join(f"{name} {then} is now {now}" for name, then, now in self.versions)
        reason = f" Versions differ: {changed}." if changed else " All versions are the same."
        return f"The result is {'the same to the bit' if self.same else 'not the same'}.{reason}"


def rerun_result(
    path: str | os.PathLike[str],
    *,
    log: Any = None,
    policies: Mapping[str, Any] | None = None,
    force: bool = False,
    n_jobs: int | None = None,
    progress: bool | Callable[[int], None] | None = None,
    build: Callable[[Any, str], Any] = build_object,
) -> RerunReport:
    r"""Run a saved result again from the file and the log alone, and compare the numbers.

    Parameters
    ----------
    path
        A file of :func:`backcast.save_result` or ``--save-json``.
    log
        The log, or the path of its files if they are elsewhere now; by default the files that the result names.
    policies
        Policies by name that the file cannot describe because they are not from backcast; a single estimate has the
        empty name.
    force
        Run although the log has another digest than the one that was evaluated.
    n_jobs, progress
        As for :func:`backcast.evaluate`; the result does not depend on them.
    build
        How objects are built from their descriptions; the default builds objects of backcast and nothing else.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from backcast.evaluators import IPS
    >>> from backcast.policies.fixed import Fixed
    >>> from backcast.results import save_result
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "log.csv").write_text("shown,click,p\n0,1,0.5\n1,0,0.5\n1,1,0.5\n")
    >>> log = read_log(folder / "log.csv", context=[], action="shown", reward="click", propensity="p")
    >>> file = save_result(evaluate(log, Fixed([0.75, 0.25]), IPS()), folder / "result.json")
    >>> again = rerun_result(file)
    >>> again.same, again.now
    (True, {'': 0.6666666666666666})
    """
    saved = load_result(path)
    if saved.partial:
        raise SourceError(f"{path}: the run was stopped before its end, so it cannot be compared with a whole one")
    before = estimates_by_name(saved.result)
    runs = {name: _require_provenance(estimate, path) for name, estimate in before.items()}
    given = policies or {}
    rebuilt = {
        name: given[name] if name in given else build(run.policy, f"policy {name!r}" if name else "the policy")
        for name, run in runs.items()
    }
    opened = _open_logs(runs, log, force=force)
    options: dict[str, Any] = {"n_jobs": n_jobs, "progress": progress}
    arguments = {
        name: {key: build(value, key) for key, value in run.arguments.items()} | options for name, run in runs.items()
    }
    first = next(iter(runs))
    if isinstance(saved.result, Comparison):
        result: Result = compare(opened[first], rebuilt, **arguments[first])
    else:
        estimates = {name: evaluate(opened[name], rebuilt[name], **arguments[name]) for name in runs}
        result = estimates[""] if isinstance(saved.result, Estimate) else estimates
    now = estimates_by_name(result)
    return RerunReport(
        same=_figures(saved.result) == _figures(result),
        before={name: estimate.value for name, estimate in before.items()},
        now={name: estimate.value for name, estimate in now.items()},
        versions=_changed_versions(runs[first]),
        result=result,
    )


def _require_provenance(estimate: Estimate, path: str | os.PathLike[str]) -> Provenance:
    if estimate.provenance is None:
        raise SourceError(
            f"{path}: it does not say how it was obtained, because an older version of backcast wrote it, or because "
            "it was not made by evaluate or compare; run the evaluation again with this version, and save it"
        )
    return estimate.provenance


def _open_logs(runs: Mapping[str, Provenance], log: Any, *, force: bool) -> dict[str, Log | LogStream]:
    """Return the log of each run, each log read once and compared with its digest."""
    opened: dict[LogSource | None, Log | LogStream] = {}
    for run in runs.values():
        if run.source in opened:
            continue
        found = log if isinstance(log, Log | LogStream) else open_source(run.source, log)
        opened[run.source] = found
        if found.fingerprint() != run.log.digest and not force:
            what = "contents" if run.log.in_memory else "names, sizes or times of modification of the files"
            raise SourceError(
                f"the log has changed: its digest was {run.log.digest} and is {found.fingerprint()} ({what}); restore "
                "it, or run with force to see what the new log gives"
            )
    return {name: opened[run.source] for name, run in runs.items()}


def open_source(source: LogSource | None, path: Any = None) -> Log | LogStream:
    """Read a log again from its files, or from another path with the same options."""
    if source is None:
        raise SourceError(
            "the log was not read from files, or only a part of it was evaluated; give it in Python, as "
            "rerun_result(path, log=log)"
        )
    if source.reader not in READERS:
        raise SourceError(f"the log was read by {source.reader!r}, which is none of {', '.join(READERS)}")
    options = {name: build_object(value, name) for name, value in source.options.items()}
    if source.reader == "read_log":
        options.setdefault("propensity", None)
    paths = list(source.paths) if path is None else path
    if isinstance(paths, list) and len(paths) == 1:
        [paths] = paths
    try:
        return READERS[source.reader](paths, **options)
    except TypeError as problem:
        raise OptionError(f"{source.reader} has no such option any more: {problem}") from None


def _figures(result: Result) -> list[float | str]:
    """Return all numbers that are compared; nan equals nan."""
    figures = []
    for estimate in estimates_by_name(result).values():
        figures += [estimate.value, estimate.std_error]
        figures += [] if estimate.interval is None else [estimate.interval.low, estimate.interval.high]
    if isinstance(result, Comparison):
        lifts = [lift for read in result.outcomes.values() for lift in read.lifts.values()]
        by_segment = [segment.lifts.values() for column in result.segments.values() for segment in column]
        lifts += [lift for found in by_segment for lift in found]
        for each in (*result.differences, *result.lifts.values(), *lifts):
            figures += [each.value, each.std_error, each.interval.low, each.interval.high]
    return ["nan" if math.isnan(figure) else figure for figure in figures]


def _changed_versions(run: Provenance) -> tuple[tuple[str, str, str], ...]:
    now = package_versions()
    return tuple((name, then, now.get(name, "")) for name, then in run.versions.items() if now.get(name) != then)
