"""From trials to tables: root mean squared errors with intervals, as Markdown and as JSON."""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from backcast._arrays import FloatArray

__all__ = ["Score", "circumstances", "markdown_table", "save_json", "save_text", "score", "scores_of"]


class Score(NamedTuple):
    """An evaluator over trials, as the paper reports it.

    ``reach`` is half of the 95 % interval of the rmse; ``bias`` is signed (estimate minus truth); ``trials`` are those
    that gave an answer; ``complete`` is the mean number of histories of full length, ``whole`` the share of trials
    with at least one.
    """

    evaluator: str
    trials: int
    rmse: float
    reach: float
    bias: float
    stdev: float
    accepted: float = math.nan
    complete: float = math.nan
    whole: float = math.nan
    seconds: float = math.nan


def score(evaluator: str, errors: FloatArray) -> Score:
    """Root mean squared error with a 95 % interval (delta method on the squares), bias and standard deviation.

    >>> score("two misses", np.array([0.25, -0.25]))[:6]
    ('two misses', 2, 0.25, 0.0, 0.0, 0.3535533905932738)

    By hand: both squares are 1/16, so their root mean is 1/4 and has no spread.
    """
    kept = errors[np.isfinite(errors)]
    if kept.size < 2:
        return Score(evaluator, kept.size, *[math.nan] * 4)
    squares = kept**2
    rmse = math.sqrt(squares.mean())
    reach = 1.96 * float(squares.std(ddof=1)) / math.sqrt(kept.size) / (2 * rmse) if rmse > 0 else 0.0
    return Score(evaluator, kept.size, rmse, reach, float(kept.mean()), float(kept.std(ddof=1)))


def scores_of(trials: Sequence[dict[str, Any]], truths: Sequence[float]) -> list[Score]:
    """A score for each evaluator; ``trials`` hold findings by name (value, accepted, complete, seconds)."""
    return [_score_of(name, [trial[name] for trial in trials], np.asarray(truths)) for name in trials[0]]


def _score_of(name: str, found: list[list[float]], truths: FloatArray) -> Score:
    values, accepted, complete, seconds = np.array(found, dtype=np.float64).T
    return score(name, values - truths)._replace(
        accepted=_mean(accepted), complete=_mean(complete), whole=_mean(complete > 0), seconds=_mean(seconds)
    )


def _mean(column: Any) -> float:
    kept = np.asarray(column, dtype=np.float64)
    kept = kept[np.isfinite(kept)]
    return float(kept.mean()) if kept.size else math.nan


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table with the first column to the left and numbers to the right.

    >>> print(markdown_table(["who", "rmse"], [["RS", "0.5"], ["ours", None]]))
    | who | rmse |
    |:---|---:|
    | RS | 0.5 |
    | ours |  |
    """
    lines = [head, [":---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(_line(cells, ruler=number == 1) for number, cells in enumerate(lines))


def _line(cells: Sequence[Any], *, ruler: bool) -> str:
    words = ["" if cell is None else str(cell) for cell in cells]
    return f"|{'|'.join(words)}|" if ruler else f"| {' | '.join(words)} |"


def circumstances(command: str) -> dict[str, Any]:
    """When, with what and on what a table was made."""
    return {
        "command": command,
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "backcast": version("backcast"),
        "numpy": version("numpy"),
        "scikit-learn": version("scikit-learn"),
        "python": platform.python_version(),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}",
    }


def save_json(path: Path, payload: dict[str, Any]) -> None:
    """Write strict JSON; what is no number becomes null."""
    save_text(path, json.dumps(_strict(payload), indent=1, allow_nan=False) + "\n")


def _strict(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _strict(item) for key, item in value.items()}
    if hasattr(value, "_asdict"):
        return _strict(value._asdict())
    if isinstance(value, list | tuple):
        return [_strict(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def save_text(path: Path, text: str) -> None:
    """Write a file, and the folder where there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
