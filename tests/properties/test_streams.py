"""A stream gives what the log in memory gives, however it is read and cut, in memory that does not grow with it."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import backcast as bc
from backcast.io._file_stream import prefetch
from tests.support.policies import RewardProportional


class Made:
    """An iterator that counts what was asked of it, and may fail at some item."""

    def __init__(self, length: int, fails_at: int | None = None) -> None:
        self.length, self.fails_at, self.count = length, fails_at, 0

    def __call__(self) -> Iterator[int]:
        for item in range(self.length):
            self.count += 1
            if item == self.fails_at:
                raise KeyError(item)
            yield item


def reading_threads() -> int:
    return sum(thread.name.startswith("backcast prefetch") for thread in threading.enumerate())


@given(st.integers(0, 20), st.integers(1, 4))
@settings(max_examples=30)
def test_reading_ahead_changes_nothing(length: int, waiting: int) -> None:
    assert list(prefetch(Made(length), waiting)) == list(range(length))
    assert reading_threads() == 0


@given(st.integers(1, 20), st.integers(1, 4), st.data())
@settings(max_examples=30)
def test_an_error_comes_where_its_item_would_have_been(length: int, waiting: int, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, length - 1))
    items = prefetch(Made(length, fails_at=at), waiting)
    assert [next(items) for _ in range(at)] == list(range(at))
    with pytest.raises(KeyError, match=str(at)):
        next(items)
    assert reading_threads() == 0


@given(st.integers(1, 20), st.integers(1, 4), st.integers(1, 20))
@settings(max_examples=30)
def test_a_reader_left_early_stops_and_has_made_few_too_many(length: int, waiting: int, taken: int) -> None:
    made = Made(length)
    items = prefetch(made, waiting)
    for _, _ in zip(range(taken), items, strict=False):
        pass
    del items
    gc.collect(1)  # all of the objects of the whole session would take half a second per example
    assert made.count <= min(taken, length) + waiting
    assert reading_threads() == 0


def write(path: Path, rows: int, row_group: int, n_actions: int = 3, seed: int = 0) -> None:
    """A uniformly logged file, written as it is made."""
    rng = np.random.default_rng(seed)
    writer = None
    for start in range(0, rows, row_group):
        n = min(row_group, rows - start)
        features = {f"f_{j}": rng.normal(size=n) for j in range(4)}
        chosen, paid = rng.integers(n_actions, size=n), (rng.random(n) < 0.5).astype(float)
        table = pa.table({**features, "action": chosen, "reward": paid, "p": np.full(n, 1 / n_actions)})
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()


WORDS: dict[str, Any] = {"context": "f_*", "action": "action", "reward": "reward", "propensity": "p"}
WORDS |= {"n_actions": 3, "reward_range": (0.0, 1.0)}


@pytest.mark.slow
@given(st.integers(1, 300), st.integers(1, 100), st.integers(1, 400), st.sampled_from((None, 7)))
@settings(max_examples=25)
def test_a_learner_on_a_stream_is_the_learner_on_the_log(
    tmp_path_factory: pytest.TempPathFactory, rows: int, row_group: int, batch_rows: int, horizon: int | None
) -> None:
    path = tmp_path_factory.mktemp("log") / "log.parquet"
    write(path, rows + 100, row_group)
    whole, stream = bc.read_log(path, **WORDS), bc.scan_log(path, batch_rows=batch_rows, **WORDS)
    for policy in (bc.EpsilonGreedy(0.25, batch_size=2), RewardProportional()):
        options: dict[str, Any] = {"reward_model": 0.5, "horizon": horizon, "seed": 3}
        first, two = (bc.evaluate(log, policy, bc.DRns(q=0.05), **options) for log in (whole, stream))
        assert (first.value, first.interval, first.diagnostics) == (two.value, two.interval, two.diagnostics)
        assert first.curve is not None
        assert two.curve is not None
        np.testing.assert_array_equal(first.curve.value, two.curve.value)


class Sloped:
    """A fixed policy that looks at the context."""

    def probabilities(self, contexts: Any, available: Any = None) -> Any:
        first = np.asarray(contexts)[:, 0] > 0
        return np.where(first[:, None], [0.5, 0.25, 0.25], [0.25, 0.25, 0.5])


@pytest.mark.parametrize("evaluator", [bc.IPS(), bc.SNIPS(), bc.ClippedIPS(), bc.DR()])
@given(st.integers(1, 500), st.integers(20, 200), st.integers(1, 300))
@settings(max_examples=8)
def test_a_fixed_policys_sums_do_not_depend_on_the_jobs(
    tmp_path_factory: pytest.TempPathFactory, evaluator: Any, rows: int, row_group: int, batch_rows: int
) -> None:
    path = tmp_path_factory.mktemp("log") / "log.parquet"
    write(path, rows + 100, row_group)
    whole, stream = bc.read_log(path, **WORDS), bc.scan_log(path, batch_rows=batch_rows, **WORDS)
    reported: list[int] = []
    first, two, three = (
        bc.evaluate(log, Sloped(), evaluator, reward_model=0.5, n_jobs=jobs, progress=reported.append)
        for log, jobs in ((whole, 1), (stream, 1), (stream, 3))
    )
    assert (two.value, two.std_error, two.interval) == (three.value, three.std_error, three.interval)
    np.testing.assert_allclose([two.value, two.std_error], [first.value, first.std_error], rtol=1e-9)
    assert sum(reported) == 3 * (rows + 100)


PEAK = """
import resource, sys
from pathlib import Path
import backcast as bc
stream = bc.scan_log(sys.argv[1], context="f_*", action="action", reward="reward", propensity="p", n_actions=3)
policy, evaluator = {"DRns": (bc.UCB1(), bc.DRns(q=0.01)), "IPS": (bc.Uniform(), bc.IPS())}[sys.argv[2]]
bc.evaluate(stream, policy, evaluator)
status = Path("/proc/self/status")
if status.exists():  # getrusage would also tell of the memory of the process that started this one
    print(next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM")) / 2**10)
else:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10))
"""


def peak(path: Path, evaluator: str) -> float:
    """Megabytes that an evaluation takes at most, in a process of its own."""
    command = [sys.executable, "-c", PEAK, str(path), evaluator]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.fixture(scope="module")
def short_and_long(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("streams")
    write(folder / "short.parquet", 300_000, 100_000)
    write(folder / "long.parquet", 1_500_000, 100_000)
    return folder / "short.parquet", folder / "long.parquet"


@pytest.mark.slow
@pytest.mark.xdist_group("long streams")
@pytest.mark.parametrize("evaluator", ["DRns", "IPS"])
def test_memory_does_not_grow_with_the_stream(short_and_long: tuple[Path, Path], evaluator: str) -> None:
    short, long = short_and_long
    peak(short, evaluator)  # compilation in the first run is not to be counted
    # the 1.2 million more events would take 67 MB if they were held; runs differ by some 5 MB
    assert peak(long, evaluator) - peak(short, evaluator) < 30
