"""A long log on disk: partitioned Parquet, written in parts; each part has its own seed."""

from __future__ import annotations

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
FILES_PER_DAY = 4
BYTES_PER_EVENT = 30  # on disk, rounded up: six floats of four bytes, and little for the other columns
MARGIN = 1.2  # free space that is required, over the size of the log
FIRST_FILE = "day=001/part-00000.parquet"
SEED = 2012


class DiskTooSmall(Exception):
    """The disk has too little free space for the log."""


class Events(NamedTuple):
    """Columns of events: six measurements, the hour, and whether the visitor is on a phone."""

    numbers: npt.NDArray[np.float32]
    hour: Small
    phone: Small
    action: Small
    reward: Small
    propensity: FloatArray


def make_events(part: int, n: int) -> Events:
    """Return the events of one part; parts differ by their seed only.

    The logger prefers other actions on phones, and gives each at least 1/40. Clicks follow a logistic model per
    action.
    """
    weights = np.random.default_rng(SEED).normal(size=(N_ACTIONS, N_FEATURES)).astype(np.float32) / 3
    rng = np.random.default_rng([SEED, part])
    numbers = rng.standard_normal((6, n), dtype=np.float32)
    hour = rng.integers(24, size=n, dtype=np.int8)
    phone = rng.integers(2, size=n, dtype=np.int8)
    table = logging_table()
    action = draw_actions(table, phone, rng.random(n, dtype=np.float32))
    score = np.full(n, -1.0, dtype=np.float32)
    for j, column in enumerate([*numbers, hour / np.float32(24), phone]):
        score += column * weights[action, j]
    reward = (rng.random(n, dtype=np.float32) < 1 / (1 + np.exp(-score))).astype(np.int8)
    return Events(numbers, hour, phone, action.astype(np.int8), reward, table[phone, action])


def logging_table() -> FloatArray:
    """Return the logger's probabilities, ``(2, K)``: a quarter is uniform, the rest decreases from action to action."""
    decreasing = np.arange(N_ACTIONS, 0, -1) / (N_ACTIONS * (N_ACTIONS + 1) / 2)
    return 0.25 / N_ACTIONS + 0.75 * np.array([decreasing, decreasing[::-1]])


def draw_actions(table: FloatArray, row: Small, u: npt.NDArray[np.float32]) -> IntArray:
    """Return for every event the action in whose share of the event's row of the table ``u`` lies.

    >>> draw_actions(np.array([[0.25, 0.75], [0.5, 0.5]]), np.array([0, 1]), np.array([0.4, 0.4], dtype="f4")).tolist()
    [1, 0]
    """
    edges = np.cumsum(table, axis=1)[:, :-1] + np.arange(len(table))[:, None]
    position = np.searchsorted(edges.ravel(), row + u, side="right")
    return np.asarray(position - (table.shape[1] - 1) * row.astype(np.int64))


def write_part(folder: Path, size: int, events: int, part: int) -> None:
    """Write one file of the log, in the folder of its day."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    log = make_events(part, min(size, events - part * size))
    columns: dict[str, Any] = {f"f_{j}": column for j, column in enumerate(log.numbers)}
    columns |= {"f_hour": log.hour, "f_phone": log.phone, "action": log.action, "click": log.reward}
    path = folder / f"day={part // FILES_PER_DAY + 1:03d}" / f"part-{part:05d}.parquet"
    path.parent.mkdir(exist_ok=True)
    # columns of distinct numbers gain nothing from a dictionary, and building it takes long
    few_values = ["f_hour", "f_phone", "action", "click", "p"]
    table = pa.table({**columns, "p": log.propensity})
    pq.write_table(table, path, row_group_size=min(ROW_GROUP, size), use_dictionary=few_values, compression="lz4")


@contextmanager
def log_on_disk(folder: Path, events: int, processes: int = 2, part: int = PART) -> Iterator[Path]:
    """Write the log to a folder, and remove it in any case, also after Ctrl-C and SIGTERM."""
    # a killed run may have left its log
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    previous = signal.signal(signal.SIGTERM, _interrupt)
    try:
        check_free_space(folder, events)
        pool = ProcessPoolExecutor(processes, initializer=_ignore_interrupts)
        try:
            list(pool.map(partial(write_part, folder, part, events), range(-(-events // part))))
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
        yield folder
    finally:
        signal.signal(signal.SIGTERM, previous)
        shutil.rmtree(folder, ignore_errors=True)


def check_free_space(folder: Path, events: int) -> None:
    """Raise an error if the log may not fit on the disk."""
    free, required = shutil.disk_usage(folder).free, int(MARGIN * BYTES_PER_EVENT * events)
    if free < required:
        raise DiskTooSmall(
            f"{events:,} events take up to {required / 1e9:.1f} GB and {free / 1e9:.1f} GB are free; "
            'request fewer, such as SCALE="--events 2000000"'
        )


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def _ignore_interrupts() -> None:
    """Leave Ctrl-C to the parent process, which shuts the pool down."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
