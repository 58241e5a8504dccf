"""Results as JSON files, from which a report is made again without running anything again."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias

from backcast._files import atomic_write, read_text
from backcast._serialization import from_json, to_json
from backcast.checks.findings import HealthReport
from backcast.comparison import Comparison
from backcast.errors import SourceError
from backcast.estimate import Estimate
from backcast.replay_summary import ReplaySummary

FORMAT, VERSION = "backcast result", 1


MOST_BYTES = 2**28  # of a saved result: a thousand times a large one, and no more than memory holds when it is parsed


Result: TypeAlias = Estimate | dict[str, Estimate] | Comparison


@dataclass(frozen=True)
class SavedResult:
    """A result that was read from a file.

    Attributes
    ----------
    result
        The estimate, the estimates by name, or the comparison.
    about
        What was said about the log, for the report's table of settings.
    partial
        Whether the run was stopped before it was done.
    health
        What was found wrong with the log, if that was saved too.
    made_by
        The version of backcast that made it.
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
) -> Path:
    """Write an estimate, a dict of them by name, or a comparison as a JSON file, and say where it is.

    One run of each policy is made again and kept with it, where the log is in memory, for the report to draw.

    Parameters
    ----------
    result
        What :func:`backcast.evaluate` or :func:`backcast.compare` gave.
    path
        The file; one that is there is overwritten, when all of the new one is on disk.
    about
        More to keep with it, such as the file of the log.
    partial
        Whether the run was stopped before it was done.
    health
        What :func:`backcast.check` said about the log, for the report.

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
    runs = {name: to_json(estimate.replay_summary()) for name, estimate in _estimates(result).items()}
    beside = {"passages": runs, "health": to_json(health)}
    document = result_document(result, about=about, partial=partial) | beside
    text = json.dumps(document, indent=2, allow_nan=False)
    with atomic_write(path, "result") as file:
        file.write(f"{text}\n".encode())
    return Path(path).resolve()


def result_document(
    result: Result, *, about: Mapping[str, object] | None = None, partial: bool = False
) -> dict[str, Any]:
    """What a file of results holds: its format and version, facts about the log, and the result in plain values."""
    head = {"format": FORMAT, "version": VERSION, "made_by": f"backcast {version('backcast')}", "partial": partial}
    return {**head, "log": to_json(dict(about or {})), **_body(result)}


def _body(result: Result) -> dict[str, Any]:
    if isinstance(result, Estimate):
        return {"estimate": result.to_dict()}
    if isinstance(result, Comparison):
        return result.to_dict()
    return {"estimates": {str(name): estimate.to_dict() for name, estimate in result.items()}}


def load_result(path: str | os.PathLike[str]) -> SavedResult:
    """Read a result that :func:`save_result` or ``backcast evaluate --out`` wrote.

    Parameters
    ----------
    path
        The JSON file. Nothing in it is run; what is no result is refused.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp(), "other.json")
    >>> _ = file.write_text('{"a": 1}')
    >>> load_result(file)
    Traceback (most recent call last):
    ...
    backcast.errors.SourceError: .../other.json: this is no result of backcast; it must be a file that evaluate or \
compare wrote with --out, or save_result
    """
    plain = _read(path)
    if not isinstance(plain, dict) or plain.get("format") != FORMAT:
        raise SourceError(
            f"{path}: this is no result of backcast; it must be a file that evaluate or compare wrote with --out, "
            "or save_result"
        )
    if plain.get("version") != VERSION:
        raise SourceError(
            f"{path}: its version is {plain.get('version')!r} and {VERSION} is what backcast {version('backcast')} "
            f"reads; it was made by {plain.get('made_by')!r}: read it with that, or run the evaluation again"
        )
    try:
        health = plain.get("health")
        return SavedResult(
            _result(plain, plain.get("passages") or {}),
            dict(plain["log"]),
            bool(plain["partial"]),
            None if health is None else from_json(HealthReport, health, "health"),
            str(plain["made_by"]),
        )
    except SourceError as problem:
        raise SourceError(f"{path}: {problem}") from None
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise SourceError(f"{path}: the result is damaged ({type(problem).__name__}: {problem})") from None


def _read(path: str | os.PathLike[str]) -> Any:
    try:
        return json.loads(read_text(path, MOST_BYTES))
    except SourceError:
        raise
    except (ValueError, RecursionError) as problem:
        raise SourceError(f"{path}: cannot be read as JSON ({problem})") from None


def _estimates(result: Result) -> Mapping[str, Estimate]:
    if isinstance(result, Estimate):
        return {"": result}
    return result.estimates if isinstance(result, Comparison) else result


def _result(plain: dict[str, Any], runs: Mapping[str, Any]) -> Result:
    if "estimate" in plain:
        return _with_run(Estimate.from_dict(plain["estimate"]), runs.get(""))
    if "differences" in plain:
        found = Comparison.from_dict(plain)
        return replace(found, estimates={name: _with_run(one, runs.get(name)) for name, one in found.estimates.items()})
    return {name: _with_run(Estimate.from_dict(one), runs.get(name)) for name, one in plain["estimates"].items()}


def _with_run(estimate: Estimate, plain: Any) -> Estimate:
    if plain is None:
        return estimate
    passage = from_json(ReplaySummary, plain, "passage")
    return replace(estimate, _replay_summary=lambda: passage)
