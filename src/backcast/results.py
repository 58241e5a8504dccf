"""Save results as JSON files and load them, so that a report can be made again without another run."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias

from backcast._equality import ContentEquality
from backcast._files import atomic_write, read_text
from backcast._serialization import from_json, to_json
from backcast.checks.findings import HealthReport
from backcast.comparison import Comparison
from backcast.errors import OptionError, SourceError
from backcast.estimate import Estimate, LogComputation
from backcast.provenance import Provenance
from backcast.replay_summary import ReplaySummary
from backcast.verdict import judge

Result: TypeAlias = Estimate | dict[str, Estimate] | Comparison

FORMAT, VERSION = "backcast result", 1
MOST_BYTES = 2**28  # of a saved result: a thousand times a large one, and small enough to be parsed in memory


@dataclass(frozen=True, eq=False)
class SavedResult(ContentEquality):
    """A result read from a file.

    Attributes
    ----------
    result
        The estimate, the estimates by name, or the comparison.
    about
        Facts about the log, for the report's table of settings.
    partial
        Whether the run was stopped before its end.
    health
        Result of the checks of the log, if it was saved.
    made_by
        The version of backcast that wrote the file.
    """

    result: Result
    about: dict[str, Any] = field(default_factory=dict)
    partial: bool = False
    health: HealthReport | None = None
    made_by: str = ""


def save_result(
    result: Result,
    path: str | os.PathLike[str],
    *,
    about: Mapping[str, object] | None = None,
    partial: bool = False,
    health: HealthReport | None = None,
    influences: bool = False,
) -> Path:
    """Write an estimate, a dict of them by name, or a comparison as a JSON file, and return its path.

    If the log is in memory, one run of each policy is repeated and its summary saved, for the charts of a report.

    Parameters
    ----------
    result
        Return value of :func:`backcast.evaluate` or :func:`backcast.compare`, or a dict of estimates by name.
    path
        The file; an existing file is replaced once the new one is complete.
    about
        Facts to save with the result, such as the file of the log.
    partial
        Whether the run was stopped before its end.
    health
        Result of :func:`backcast.check` on the log, for the report.
    influences
        Whether to save the influences, pass values and group values of estimates, from which another interval can be
        computed; about 20 bytes per event of the log.

    Examples
    --------
    >>> import tempfile
    >>> from backcast.evaluation import evaluate
    >>> from backcast.evaluators import IPS
    >>> from backcast.log import Log
    >>> from backcast.policies.fixed import Fixed
    >>> log = Log(None, actions=[0, 1] * 20, rewards=[1, 0] * 20, propensities=[0.5] * 40)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = save_result(evaluate(log, Fixed([0.75, 0.25]), IPS()), f"{folder}/result.json")
    ...     load_result(file).result.value
    0.75
    """
    document = result_document(result, about=about, partial=partial, influences=influences)
    document["passages"] = {
        name: to_json(estimate.replay_summary()) for name, estimate in estimates_by_name(result).items()
    }
    document["health"] = to_json(health)
    text = json.dumps(document, indent=2, allow_nan=False)
    with atomic_write(path, "result") as file:
        file.write(f"{text}\n".encode())
    return Path(path).resolve()


def result_document(
    result: Result, *, about: Mapping[str, object] | None = None, partial: bool = False, influences: bool = False
) -> dict[str, Any]:
    """Return a result as JSON values, with format, version, facts about the log, and provenance by policy."""
    provenance = {name: to_json(estimate.provenance) for name, estimate in estimates_by_name(result).items()}
    head = {"format": FORMAT, "version": VERSION, "made_by": f"backcast {version('backcast')}", "partial": partial}
    if isinstance(result, Estimate):
        body: dict[str, Any] = {"estimate": result.to_dict(influences=influences)}
    elif isinstance(result, Comparison):
        body = result.to_dict(influences=influences)
    else:
        body = {"estimates": {str(name): each.to_dict(influences=influences) for name, each in result.items()}}
        if len(result) > 1:
            body["verdict"] = to_json(judge(result))
    return {**head, "log": to_json(dict(about or {})), "provenance": provenance, **body}


def estimates_by_name(result: Result) -> Mapping[str, Estimate]:
    """Return the estimates of any result; a single one has the empty name."""
    if isinstance(result, Estimate):
        return {"": result}
    estimates = result.estimates if isinstance(result, Comparison) else result
    if not isinstance(estimates, Mapping) or not all(isinstance(each, Estimate) for each in estimates.values()):
        raise OptionError(
            f"the result is a {type(result).__name__}; give an estimate, a dict of them by name, or a comparison"
        )
    return estimates


def load_result(path: str | os.PathLike[str]) -> SavedResult:
    """Read a result that :func:`save_result` or ``backcast evaluate --save-json`` wrote.

    Parameters
    ----------
    path
        The JSON file. Nothing in it is executed; a file of another kind is refused.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp(), "other.json")
    >>> _ = file.write_text('{"a": 1}')
    >>> load_result(file)
    Traceback (most recent call last):
    ...
    backcast.errors.SourceError: .../other.json: this is no result of backcast; give a file that evaluate or compare \
wrote with --save-json, or save_result
    """
    try:
        document = json.loads(read_text(path, MOST_BYTES))
    except SourceError:
        raise
    except (ValueError, RecursionError) as problem:
        raise SourceError(f"{path}: cannot be read as JSON ({problem})") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise SourceError(
            f"{path}: this is no result of backcast; give a file that evaluate or compare wrote with --save-json, "
            "or save_result"
        )
    if document.get("version") != VERSION:
        raise SourceError(
            f"{path}: its version is {document.get('version')!r} and {VERSION} is what backcast {version('backcast')} "
            f"reads; it was made by {document.get('made_by')!r}: read it with that, or run the evaluation again"
        )
    try:
        health = document.get("health")
        return SavedResult(
            _parse_result(document),
            dict(document["log"]),
            bool(document["partial"]),
            None if health is None else from_json(HealthReport, health, "health"),
            str(document["made_by"]),
        )
    except SourceError as problem:
        raise SourceError(f"{path}: {problem}") from None
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise SourceError(f"{path}: the result is damaged ({type(problem).__name__}: {problem})") from None


def _parse_result(document: dict[str, Any]) -> Result:
    # files of older versions have neither
    replays, provenances = document.get("passages") or {}, document.get("provenance") or {}

    def with_replay(estimate: Estimate, name: str) -> Estimate:
        if provenances.get(name) is not None:
            estimate = replace(estimate, provenance=from_json(Provenance, provenances[name], "provenance"))
        if replays.get(name) is None:
            return estimate
        replay = from_json(ReplaySummary, replays[name], "passage")
        return replace(estimate, _replay_summary=LogComputation.of_result(replay))

    if "estimate" in document:
        return with_replay(Estimate.from_dict(document["estimate"]), "")
    if "differences" in document:
        comparison = Comparison.from_dict(document)
        estimates = {name: with_replay(estimate, name) for name, estimate in comparison.estimates.items()}
        return replace(comparison, estimates=estimates)
    return {name: with_replay(Estimate.from_dict(plain), name) for name, plain in document["estimates"].items()}
