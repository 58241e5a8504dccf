"""A long log on disk: partitioned Parquet, made in parts, the same events whoever makes them."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from backcast._arrays import FloatArray, IntArray

Small = npt.NDArray[np.int8]

N_ACTIONS, N_FEATURES = 10, 8
PART = 1_000_000  # events of a file
ROW_GROUP = 250_000
FILES_A_DAY = 4
BYTES_AN_EVENT = 30  # on disk, rounded up: six floats of four bytes, and little for the rest
SPARE = 1.2  # room that must be free, over what the log takes
FIRST = "day=001/part-00000.parquet"
SEED = 2012


class NoRoom(Exception):
    """The disk has too little space for the log."""


class Events(NamedTuple):
    """Columns of some events: six measurements, the hour, whether the visitor is on a phone."""

    numbers: npt.NDArray[np.float32]
    hour: Small
    phone: Small
    action: Small
    reward: Small
    propensity: FloatArray


def events_of(part: int, n: int) -> Events:
    """The events of one part; parts differ by their seed alone.

    The logger prefers other actions on phones, and gives none less than 1/40. Clicks follow a logistic model of each
    action.
    """
    weights = np.random.default_rng(SEED).normal(size=(N_ACTIONS, N_FEATURES)).astype(np.float32) / 3
    rng = np.random.default_rng([SEED, part])
    numbers = rng.standard_normal((6, n), dtype=np.float32)
    hour = rng.integers(24, size=n, dtype=np.int8)
    phone = rng.integers(2, size=n, dtype=np.int8)
    table = logging_table()
    action = drawn(table, phone, rng.random(n, dtype=np.float32))
    score = np.full(n, -1.0, dtype=np.float32)
    for j, column in enumerate([*numbers, hour / np.float32(24), phone]):
        score += column * weights[action, j]
    reward = (rng.random(n, dtype=np.float32) < 1 / (1 + np.exp(-score))).astype(np.int8)
    return Events(numbers, hour, phone, action.astype(np.int8), reward, table[phone, action])


def logging_table() -> FloatArray:
    """Probabilities of the logger, ``(2, K)``: a quarter is spread evenly, the rest falls off from action to action."""
    falling = np.arange(N_ACTIONS, 0, -1) / (N_ACTIONS * (N_ACTIONS + 1) / 2)
    return 0.25 / N_ACTIONS + 0.75 * np.array([falling, falling[::-1]])


def drawn(table: FloatArray, row: Small, u: npt.NDArray[np.float32]) -> IntArray:
    """For every event the action into whose share of its row of the table ``u`` falls.

    >>> drawn(np.array([[0.25, 0.75], [0.5, 0.5]]), np.array([0, 1]), np.array([0.4, 0.4], dtype="f4")).tolist()
    [1, 0]
    """
    edges = np.cumsum(table, axis=1)[:, :-1] + np.arange(len(table))[:, None]
    place = np.searchsorted(edges.ravel(), row + u, side="right")
    return np.asarray(place - (table.shape[1] - 1) * row.astype(np.int64))


def write_part(folder: Path, size: int, events: int, part: int) -> None:
    """Write one file of the log, in the folder of its day."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    own = events_of(part, min(size, events - part * size))
    columns: dict[str, Any] = {f"f_{j}": column for j, column in enumerate(own.numbers)}
    columns |= {"f_hour": own.hour, "f_phone": own.phone, "action": own.action, "click": own.reward}
    path = folder / f"day={part // FILES_A_DAY + 1:03d}" / f"part-{part:05d}.parquet"
    path.parent.mkdir(exist_ok=True)
    # numbers that are all different gain nothing from a dictionary, and much time is lost in making one
    few = ["f_hour", "f_phone", "action", "click", "p"]
    table = pa.table({**columns, "p": own.propensity})
    pq.write_table(table, path, row_group_size=min(ROW_GROUP, size), use_dictionary=few, compression="lz4")


def check_room(folder: Path, events: int) -> None:
    """Refuse a log that the disk may not hold."""
    free, wanted = shutil.disk_usage(folder).free, int(SPARE * BYTES_AN_EVENT * events)
    if free < wanted:
        raise NoRoom(
            f"{events:,} events take up to {wanted / 1e9:.1f} GB and {free / 1e9:.1f} GB are free; "
            'ask for fewer, such as SCALE="--events 2000000"'
        )


@contextmanager
def log_on_disk(folder: Path, events: int, processes: int = 2, part: int = PART) -> Iterator[Path]:
    """A folder with the log, gone afterwards, whatever happens; Ctrl-C and SIGTERM end the work in good order."""
    # one that a killed run left behind is in nobody's use
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    before = signal.signal(signal.SIGTERM, _stop)
    try:
        check_room(folder, events)
        _make(folder, events, processes, part)
        yield folder
    finally:
        signal.signal(signal.SIGTERM, before)
        shutil.rmtree(folder, ignore_errors=True)


def _stop(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def _make(folder: Path, events: int, processes: int, part: int) -> None:
    parts = range(-(-events // part))
    pool = ProcessPoolExecutor(processes, initializer=_leave_stopping_to_the_parent)
    try:
        list(pool.map(partial(write_part, folder, part, events), parts))
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _leave_stopping_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def size_of(folder: Path) -> int:
    """Bytes of all files."""
    return sum(os.path.getsize(path) for path in folder.rglob("*.parquet"))
