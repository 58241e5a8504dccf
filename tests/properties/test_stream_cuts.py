"""However a stream is cut, read and worked on, it gives what its rows give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import backcast as bc
from backcast.evaluators import _reward_predictions as predictions
from backcast.evaluators import _weighted_events as weighing
from tests.support.policies import RewardProportional

WORDS: dict[str, Any] = {"context": "f_*", "action": "action", "reward": "reward", "propensity": "p", "n_actions": 3}


def table(rows: int, seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    features = {f"f_{j}": rng.normal(size=rows) for j in range(2)}
    chosen = rng.integers(3, size=rows)
    # rewards whose sums depend on the order in which they are added
    return pa.table({**features, "action": chosen, "reward": rng.random(rows) + chosen, "p": np.full(rows, 1 / 3)})


def write(folder: Path, rows: int, row_group: int, kind: str) -> Path:
    """Two files of a kind, the second longer."""
    whole = table(rows)
    for number, part in enumerate((whole.slice(0, rows // 3), whole.slice(rows // 3))):
        path = folder / f"{number}.{kind}"
        if kind == "parquet":
            pq.write_table(part, path, row_group_size=row_group)
        else:
            pyarrow.csv.write_csv(part, path)
    return folder


def same(one: bc.Log, other: bc.Log) -> None:
    for column in ("contexts", "actions", "rewards", "propensities", "rows"):
        np.testing.assert_array_equal(getattr(one, column), getattr(other, column))


@pytest.mark.parametrize("kind", ["parquet", "csv"])
@given(st.integers(3, 120), st.integers(1, 40), st.data())
@settings(max_examples=15)
def test_stretches_of_a_stream_are_stretches_of_the_log(
    tmp_path_factory: pytest.TempPathFactory, kind: str, rows: int, row_group: int, data: st.DataObject
) -> None:
    folder = write(tmp_path_factory.mktemp("log"), rows, row_group, kind)
    whole, stream = bc.read_log(folder, **WORDS), bc.scan_log(folder, batch_rows=7, **WORDS)
    start = data.draw(st.integers(0, rows - 1))
    end = data.draw(st.integers(start + 1, rows))
    stretch = stream.slice(start, end)
    assert stretch.n_events == end - start
    same(stretch.read(), whole[start:end])
    skipped = data.draw(st.integers(0, end - start - 1))
    rest = stretch.slice(skipped)
    same(rest.read(), whole[start + skipped : end])
    same(rest.split_head(3)[0], whole[start + skipped : min(end, start + skipped + 3)])
    half = (end - start - skipped) // 2
    for parts in (rest.split(3), [rest.slice(0, half), rest.slice(half)]):
        assert sum(part.n_events or 0 for part in parts) == end - start - skipped
        logs = [part.read() for part in parts if part.n_events]
        np.testing.assert_array_equal(np.concatenate([log.rows for log in logs]), np.arange(start + skipped, end))
    assert stretch.split_head(end - start)[1] is None
    assert stretch.slice(end - start).n_events == 0


@given(st.integers(150, 400), st.integers(1, 100), st.integers(1, 450))
@settings(max_examples=10)
def test_a_sample_is_of_the_events_it_names_spread_evenly(
    tmp_path_factory: pytest.TempPathFactory, rows: int, row_group: int, wanted: int
) -> None:
    folder = write(tmp_path_factory.mktemp("log"), rows, row_group, "parquet")
    whole, stream = bc.read_log(folder, **WORDS), bc.scan_log(folder, **WORDS)
    some = stream.sample(wanted)
    same(some, whole[some.rows])
    assert (np.diff(some.rows) > 0).all()
    # stretches are of one length, so a few events fewer than wanted may come
    stretches = min(100, wanted)
    assert len(some) == (rows if wanted >= rows else wanted // stretches * stretches)
    tenths = np.bincount(some.rows * 10 // rows, minlength=10)
    assert wanted < 100 or np.ptp(tenths) <= 2 * max(1, len(some) // 100)


def facts(estimate: Any) -> Any:
    curve = () if estimate.curve is None else tuple(estimate.curve.value)
    return estimate.value, estimate.std_error, estimate.interval, estimate.diagnostics, curve


class Slanted:
    """A fixed policy that looks at the context."""

    def probabilities(self, contexts: Any, available: Any = None) -> Any:
        first = np.asarray(contexts)[:, 0] > 0
        return np.where(first[:, None], [0.5, 0.25, 0.25], [0.25, 0.25, 0.5])


EVALUATORS = (bc.DRns.recommended(400), bc.DRns(acceptance=bc.Budget(0.5, calibration=50)), bc.WC())


@given(st.integers(20, 300), st.integers(1, 300))
@settings(max_examples=3)
def test_warm_up_calibration_and_segments_are_those_of_the_log(
    tmp_path_factory: pytest.TempPathFactory, row_group: int, batch_rows: int
) -> None:
    folder = write(tmp_path_factory.mktemp("log"), 700, row_group, "parquet")
    words = {**WORDS, "reward_range": (0.0, 3.0)}
    whole, stream = bc.read_log(folder, **words), bc.scan_log(folder, batch_rows=batch_rows, **words)
    for evaluator in EVALUATORS:
        options: dict[str, Any] = {"reward_model": 0.5, "horizon": 8, "seed": 3}
        first, two = (bc.evaluate(log, bc.UCB1(), evaluator, **options) for log in (whole, stream))
        assert facts(first) == facts(two)
    options = {"reward_model": 0.5, "horizon": 8, "interval": bc.Segments(4)}
    results = [bc.evaluate(log, RewardProportional(), bc.DRns(q=0.05), **options) for log in (whole, stream)]
    assert facts(results[0]) == facts(results[1])


@given(st.integers(20, 300), st.integers(1, 300))
@settings(max_examples=3)
def test_answers_do_not_depend_on_how_a_stream_is_read(
    tmp_path_factory: pytest.TempPathFactory, row_group: int, batch_rows: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(predictions, "MEAN_EVENTS", 50)
        patch.setattr(predictions, "HEAD_EVENTS", 120)
        patch.setattr(weighing, "LARGEST_BLOCK", 64)
        folder = write(tmp_path_factory.mktemp("log"), 600, row_group, "parquet")
        streams = [bc.scan_log(folder, batch_rows=rows, **WORDS) for rows in (batch_rows, 600)]
        for model in (None, bc.PerAction()):
            results = [bc.evaluate(stream, bc.UCB1(), bc.DRns(q=0.05), reward_model=model) for stream in streams]
            assert facts(results[0]) == facts(results[1])
        for evaluator in (bc.IPS(), bc.SNIPS(), bc.DR()):
            answers = [bc.evaluate(log, Slanted(), evaluator, reward_model=0.25) for log in streams]
            assert facts(answers[0]) == facts(answers[1])


@given(st.integers(5, 300), st.integers(1, 300), st.integers(5, 300))
@settings(max_examples=3)
def test_parts_for_clock_replay_are_the_same_however_files_are_laid_out(
    tmp_path_factory: pytest.TempPathFactory, row_group: int, batch_rows: int, other: int
) -> None:
    folders = [write(tmp_path_factory.mktemp("log"), 500, rows, "parquet") for rows in (row_group, other)]
    policies: dict[str, Any] = {"ucb": bc.UCB1(), "own": RewardProportional()}
    evaluator = bc.ClockReplay(pool=40)
    results = [
        bc.compare(bc.scan_log(folder, batch_rows=rows, **WORDS), policies, evaluator, horizon=4, seed=1)
        for folder, rows in zip(folders, (batch_rows, 64), strict=True)
    ]
    first, two = ([facts(outcome) for outcome in result.estimates.values()] for result in results)
    assert first == two
    assert results[0].differences == results[1].differences
    assert first[0][3].parts == 13  # 500 events in parts of at most 40


@pytest.mark.slow
def test_parts_and_segments_may_be_done_by_several(tmp_path: Path) -> None:
    stream = bc.scan_log(write(tmp_path, 500, 60, "parquet"), **WORDS)
    segments: dict[str, Any] = {"evaluator": bc.DRns(q=0.1), "interval": bc.Segments(3)}
    for policy, options in (
        (bc.UCB1(), {"evaluator": bc.ClockReplay()}),
        (bc.UCB1(), segments),
        (RewardProportional(), segments),
    ):
        results = [bc.evaluate(stream, policy, horizon=4, n_jobs=jobs, **options) for jobs in (1, 2)]
        assert facts(results[0]) == facts(results[1])


def test_a_longer_stream_is_cut_into_more_pieces_for_any_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weighing, "EVENTS_PER_SHARD", 4)
    stream = bc.scan_log(write(tmp_path, 600, 3, "parquet"), **WORDS)
    reported: dict[int, list[int]] = {1: [], 2: []}
    results = [
        bc.evaluate(stream, Slanted(), bc.IPS(), n_jobs=jobs, progress=reported[jobs].append) for jobs in reported
    ]
    assert facts(results[0]) == facts(results[1])
    assert [len(slices) for slices in reported.values()] == [150, 150]
    assert sum(reported[1]) == 600
