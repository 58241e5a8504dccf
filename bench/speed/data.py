"""The log of the speed comparison, in the formats that the systems read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from backcast._arrays import FloatArray, IntArray

FOLDER = Path("build/bench-speed")
ROW_GROUP = 250_000


@dataclass(frozen=True)
class LogShape:
    """Size of a log; the same shape always gives the same log."""

    events: int = 1_000_000
    actions: int = 10
    features: int = 20

    @property
    def stem(self) -> Path:
        return FOLDER / f"n{self.events}-k{self.actions}-d{self.features}"


@dataclass(frozen=True)
class LogColumns:
    """Columns of a log."""

    contexts: FloatArray
    actions: IntArray
    rewards: FloatArray
    propensities: FloatArray


def make_columns(shape: LogShape, seed: int = 2012) -> LogColumns:
    """Return a uniform log whose clicks follow a logistic model per action.

    Contexts have three decimals, so that a text file contains exactly the numbers of the arrays. Uniform logging is the
    only kind that all peers can evaluate: two of them do not use propensities.
    """
    weights, contexts, actions, clicks = (np.random.default_rng([seed, stream]) for stream in range(4))
    w = weights.normal(size=(shape.actions, shape.features)) / np.sqrt(shape.features)
    x = contexts.normal(size=(shape.events, shape.features)).round(3)
    a = actions.integers(shape.actions, size=shape.events)
    click_probability = 1 / (1 + np.exp(1 - np.einsum("ij,ij->i", x, w[a])))
    r = (clicks.random(shape.events) < click_probability).astype(float)
    return LogColumns(x, a, r, np.full(shape.events, 1 / shape.actions))


def load_columns(shape: LogShape, limit: int | None = None) -> LogColumns:
    """Return the first ``limit`` events of the log as arrays, from its npz file."""
    with np.load(write_npz(shape)) as file:
        return LogColumns(*(file[name][:limit] for name in ("contexts", "actions", "rewards", "propensities")))


def write_npz(shape: LogShape) -> Path:
    """Write the log as npz if it does not exist yet, and return the path."""
    path = shape.stem.with_suffix(".npz")
    if not path.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        np.savez(path, **vars(make_columns(shape)))
    return path


def write_parquet(shape: LogShape, limit: int) -> Path:
    """Write the first ``limit`` events as Parquet, and return the path."""
    import pyarrow.parquet as pq

    path = Path(f"{shape.stem}-first{limit}.parquet")
    if not path.exists():
        pq.write_table(to_table(load_columns(shape, limit)), path, row_group_size=ROW_GROUP)
    return path


def to_table(log: LogColumns) -> Any:
    """Return an Arrow table with columns ``f_0 ...``, ``action``, ``reward``, ``p``."""
    import pyarrow as pa

    features = {f"f_{j}": column for j, column in enumerate(log.contexts.T)}
    return pa.table({**features, "action": log.actions, "reward": log.rewards, "p": log.propensities})


def write_vw(shape: LogShape, limit: int) -> Path:
    """Write the first ``limit`` events as Vowpal Wabbit text, a shared line and then a line for each action.

    The line of the logged action has the label ``action:cost:probability``; costs are negative rewards.
    """
    path = Path(f"{shape.stem}-first{limit}.vw")
    if not path.exists():
        log = load_columns(shape, limit)
        with path.open("w") as file:
            file.writelines(format_vw_event(log, k, shape.actions) for k in range(limit))
    return path


def format_vw_event(log: LogColumns, k: int, n_actions: int) -> str:
    shared = " ".join(f"{j}:{value:g}" for j, value in enumerate(log.contexts[k]))
    label = f"0:{-log.rewards[k]:g}:{log.propensities[k]:g} "
    lines = (f"{label if a == log.actions[k] else ''}|a {a}" for a in range(n_actions))
    return f"shared |x {shared}\n" + "\n".join(lines) + "\n\n"
