"""Log order is the order of time where times are given; natural file order where they are not."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import backcast as bc
from backcast.checks import check
from backcast.io._files import find_files

COLUMNS: dict[str, Any] = {"context": "x", "action": "a", "reward": "r", "propensity": "p", "n_actions": 2}


def drifting(n: int = 600, seed: int = 0) -> pa.Table:
    """Rewards of action 1 fall along the log."""
    rng = np.random.default_rng(seed)
    actions = rng.integers(2, size=n)
    rewards = (rng.random(n) < np.where(actions == 1, np.linspace(0.9, 0.1, n), 0.5)).astype(float)
    return pa.table({"x": rng.normal(size=n), "a": actions, "r": rewards, "p": np.full(n, 0.5), "t": np.arange(n)})


def shuffled(table: pa.Table, seed: int = 1) -> pa.Table:
    return table.take(pa.array(np.random.default_rng(seed).permutation(table.num_rows)))


def write(table: pa.Table, folder: Path, cuts: list[int], names: list[str]) -> None:
    edges = [0, *cuts, table.num_rows]
    for name, start, stop in zip(names, edges, edges[1:], strict=False):
        pa.parquet.write_table(table.slice(start, stop - start), folder / name)


def test_a_drifting_log_with_shuffled_rows_is_evaluated_in_the_order_of_time() -> None:
    table = drifting()
    straight = bc.Log.from_frame(table, times="t", **COLUMNS)
    mixed = bc.Log.from_frame(shuffled(table), times="t", **COLUMNS)
    assert mixed.fingerprint() == straight.fingerprint()
    assert not np.array_equal(mixed.rows, straight.rows)
    assert check(mixed)["reward_drift"] == check(straight)["reward_drift"]
    with pytest.warns(bc.DriftWarning):
        one = bc.evaluate(straight, bc.EpsilonGreedy(0.2), horizon=20)
    with pytest.warns(bc.DriftWarning):
        two = bc.evaluate(mixed, bc.EpsilonGreedy(0.2), horizon=20)
    assert (one.value, one.std_error) == (two.value, two.std_error)
    assert "because the log is not exchangeable (drift was detected)" in one.notes[0]


def test_what_is_aligned_with_rows_follows_the_sort() -> None:
    rng = np.random.default_rng(0)
    n, order = 50, np.random.default_rng(1).permutation(50)
    logging = np.tile([0.25, 0.75], (n, 1))
    actions = rng.integers(2, size=n)
    features, mask = rng.normal(size=(n, 2, 3)), np.ones((n, 2), dtype=bool)
    mask[np.arange(n), 1 - actions] = rng.random(n) < 0.5

    def build(rows: Any) -> bc.Log:
        return bc.Log(
            features[rows],
            actions[rows],
            np.arange(float(n))[rows],
            logging[rows, actions[rows]],
            available=mask[rows],
            logging_probabilities=logging[rows],
            times=np.arange(n)[rows],
        )

    straight, mixed = build(np.arange(n)), build(order)
    for name in ("contexts", "actions", "rewards", "propensities", "available", "times", "logging_probabilities"):
        assert np.array_equal(getattr(straight, name), getattr(mixed, name)), name
    assert np.array_equal(order[mixed.rows], np.arange(n))
    assert mixed.reading.moved == (mixed.rows != np.arange(n)).sum()
    # row numbers are those of the arguments: a table in their order is read by them
    table = rng.random((n, 2))
    table /= table.sum(axis=1, keepdims=True)
    for log in (mixed, mixed[10:20]):
        by_row = bc.Logged(table[order]).probabilities_of(log)
        assert np.array_equal(by_row, table[log.rewards.astype(int)])


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ([3.5, 1.0, 2.0], [1, 2, 0]),
        (["10", "9", "100"], [1, 0, 2]),
        (["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.5Z", "2026-01-01T00:30:00+01:00"], [2, 0, 1]),
        (["2026-02-01", "2026-01-15", "2026-01-15"], [1, 2, 0]),
        ([datetime.date(2026, 2, 1), datetime.date(2026, 1, 1), datetime.date(2026, 3, 1)], [1, 0, 2]),
        (np.array(["2026-02-01", "2026-01-01", "2026-03-01"], dtype="datetime64[D]"), [1, 0, 2]),
    ],
)
def test_times_of_any_type_are_sorted_as_times(times: Any, expected: list[int]) -> None:
    assert bc.Log(None, [0, 1, 0], [0, 1, 2], [0.5] * 3, times=times).rows.tolist() == expected


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ([1.0, np.nan, 2.0], "row 1: time is nan; fill or drop missing times first"),
        (["1/2/2026", "2/2/2026", "3/2/2026"], "row 0: time is '1/2/2026'; text must be a number or a date such as"),
        (["2026-01-01", "2026-01-02Z", "2026-01-03"], "row 1: time is '2026-01-02Z'; text must be"),
        (["2026-01-01T00:00", "2026-01-02T00:00Z", "2026-01-03T00:00"], "row 1: .* some times have a time zone"),
        (np.array([1, datetime.date(2026, 1, 1), 2], dtype=object), "times cannot be sorted"),
    ],
)
def test_times_that_cannot_be_sorted_are_refused(times: Any, message: str) -> None:
    with pytest.raises(bc.LogError, match=message):
        bc.Log(None, [0, 1, 0], [0, 1, 2], [0.5] * 3, times=times)


def test_files_are_read_in_natural_order(tmp_path: Path) -> None:
    table = drifting(12)
    names = [f"part-{i}.parquet" for i in range(12)]
    write(table, tmp_path, list(range(1, 12)), names)
    for path in (tmp_path, tmp_path / "*.parquet", tmp_path / "**/*.parquet"):
        assert [Path(file).name for file in find_files(str(path)).paths] == names
    log = bc.read_log(tmp_path, **COLUMNS)
    assert np.array_equal(np.asarray(log.contexts)[:, 0], table["x"].to_numpy())
    estimate = bc.evaluate(log, bc.Uniform(), bc.IPS())
    assert "Events are in the order of the rows in 12 files (no times are given)." in estimate.notes


def test_files_of_a_stream_are_sorted_by_time(tmp_path: Path) -> None:
    table = drifting()
    write(table, tmp_path, [200, 400], ["c.parquet", "a.parquet", "b.parquet"])
    stream = bc.scan_log(tmp_path, times="t", batch_rows=90, **COLUMNS)
    assert [Path(file).name for file in stream.reading.files] == ["c.parquet", "a.parquet", "b.parquet"]
    in_memory = bc.read_log(tmp_path, times="t", **COLUMNS)
    assert stream.read().fingerprint() == in_memory.fingerprint()
    assert np.array_equal(np.concatenate([part.times for part in stream]), np.arange(600))
    values = [bc.evaluate(log, bc.EpsilonGreedy(0.2), bc.DRns(q=0.05), reward_model=0.5) for log in (stream, in_memory)]
    assert values[0].value == values[1].value
    assert "Events are in the order of their times." in values[0].notes


def test_a_stream_out_of_order_is_refused_with_the_remedy(tmp_path: Path) -> None:
    table = drifting()
    write(shuffled(table), tmp_path, [], ["all.parquet"])
    with pytest.raises(bc.LogError, match=r"row 1 \(.*all.parquet\): time \d+ is before .* read_log, which sorts it"):
        bc.scan_log(tmp_path / "all.parquet", times="t", **COLUMNS)
    assert bc.read_log(tmp_path, times="t", **COLUMNS).times[0] == 0  # type: ignore[index]
    even, odd = table.take(list(range(0, 600, 2))), table.take(list(range(1, 600, 2)))
    pa.csv.write_csv(odd, tmp_path / "odd.csv")
    pa.csv.write_csv(even, tmp_path / "even.csv")
    with pytest.raises(bc.SourceError, match=r"odd.csv: its times begin at 1, before the last one of .*even.csv, 598"):
        bc.scan_log([tmp_path / "odd.csv", tmp_path / "even.csv"], times="t", **COLUMNS)


def test_a_stream_is_checked_across_the_batches_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backcast.io._slices.READ_ROWS", 1024)
    table = pa.table({"x": [0.0] * 2048, "a": [0] * 2048, "r": [0.0] * 2048, "p": [0.5] * 2048})
    times = np.r_[np.arange(1024) + 1, np.arange(1024)]
    pa.parquet.write_table(table.append_column("t", pa.array(times)), tmp_path / "log.parquet")
    with pytest.raises(bc.LogError, match=r"row 1024 .*time 0 is before that of the row above, 1024"):
        bc.scan_log(tmp_path / "log.parquet", times="t", **COLUMNS)


def test_logs_in_memory_as_a_stream_are_in_the_order_of_time() -> None:
    log = bc.Log.from_frame(drifting(), times="t", **COLUMNS)
    stream = bc.LogStream.from_logs([log[300:], log[:300]])
    assert np.array_equal(stream.read().times, np.arange(600))  # type: ignore[arg-type]
    with pytest.raises(bc.LogError, match="the times of part 0 begin at 298, before the last one of part 1, 299"):
        bc.LogStream.from_logs([log[298:], log[:300]])


def test_a_monitor_refuses_earlier_events() -> None:
    log = bc.Log.from_frame(drifting(), times="t", **COLUMNS)
    monitor = bc.Monitor(bc.UCB1(), reward_range=(0, 1), smallest_propensity=0.5)
    monitor.feed(log[300:])
    with pytest.raises(bc.EvaluationError, match="the time of the first event is 0, before 599, the last one fed"):
        monitor.feed(log[:300])
