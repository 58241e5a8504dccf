"""The one log of the speed comparison, in the formats that the systems read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from backcast._arrays import FloatArray, IntArray

FOLDER = Path("build/bench-speed")
LINES_AT_ONCE = 10_000
ROW_GROUP = 250_000


@dataclass(frozen=True)
class WeightTransform:
    """Size of a log; the same shape is always the same log."""

    events: int = 1_000_000
    actions: int = 10
    features: int = 20

    @property
    def stem(self) -> Path:
        return FOLDER / f"n{self.events}-k{self.actions}-d{self.features}"


@dataclass(frozen=True)
class ColumnSpec:
    contexts: FloatArray
    actions: IntArray
    rewards: FloatArray
    propensities: FloatArray


def columns(shape: WeightTransform, seed: int = 2012) -> ColumnSpec:
    """A uniformly logged world whose clicks follow a logistic model of each action.

    Contexts have three decimals, so that a text file holds exactly what the arrays hold. Uniform logging is the only
    kind that all the peers can evaluate: two of them know nothing of propensities.
    """
    weights, contexts, actions, clicks = (np.random.default_rng([seed, stream]) for stream in range(4))
    w = weights.normal(size=(shape.actions, shape.features)) / np.sqrt(shape.features)
    x = contexts.normal(size=(shape.events, shape.features)).round(3)
    a = actions.integers(shape.actions, size=shape.events)
    chance = 1 / (1 + np.exp(1 - np.einsum("ij,ij->i", x, w[a])))
    r = (clicks.random(shape.events) < chance).astype(float)
    return ColumnSpec(x, a, r, np.full(shape.events, 1 / shape.actions))


def load(shape: WeightTransform, limit: int | None = None) -> ColumnSpec:
    """The first ``limit`` events of the log as arrays, from its npz file."""
    with np.load(npz_file(shape)) as file:
        return ColumnSpec(*(file[name][:limit] for name in ("contexts", "actions", "rewards", "propensities")))


def npz_file(shape: WeightTransform) -> Path:
    path = shape.stem.with_suffix(".npz")
    if not path.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        np.savez(path, **vars(columns(shape)))
    return path


def parquet_file(shape: WeightTransform, limit: int) -> Path:
    """The first ``limit`` events as Parquet: columns ``f_0 ...``, ``action``, ``reward``, ``p``."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = Path(f"{shape.stem}-first{limit}.parquet")
    if not path.exists():
        log = load(shape, limit)
        features = {f"f_{j}": log.contexts[:, j] for j in range(shape.features)}
        table = pa.table({**features, "action": log.actions, "reward": log.rewards, "p": log.propensities})
        pq.write_table(table, path, row_group_size=ROW_GROUP)
    return path


def vw_file(shape: WeightTransform, limit: int) -> Path:
    """The first ``limit`` events as Vowpal Wabbit text: a shared line, then a line for each action.

    The label ``action:cost:probability`` stands on the line of the action that was taken; costs are negative rewards.
    """
    path = Path(f"{shape.stem}-first{limit}.vw")
    if not path.exists():
        log = load(shape, limit)
        with path.open("w") as file:
            for start in range(0, limit, LINES_AT_ONCE):
                file.writelines(
                    vw_event(log, k, shape.actions) for k in range(start, min(start + LINES_AT_ONCE, limit))
                )
    return path


def vw_event(log: ColumnSpec, k: int, n_actions: int) -> str:
    shared = " ".join(f"{j}:{value:g}" for j, value in enumerate(log.contexts[k]))
    label = f"0:{-log.rewards[k]:g}:{log.propensities[k]:g} "
    lines = (f"{label if a == log.actions[k] else ''}|a {a}" for a in range(n_actions))
    return f"shared |x {shared}\n" + "\n".join(lines) + "\n\n"
