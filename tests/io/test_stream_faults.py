"""Files that vanish or change under a run end it with a word that names them; streams too short are refused."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import backcast as bc
from backcast._auto import resolve_evaluator
from backcast._request import EvaluationRequest
from backcast.io.stream import MemoryLogStream

ROWS = 400
LATER = count(1)
WORDS: dict[str, Any] = {"context": "f", "action": "action", "reward": "reward", "propensity": "p", "n_actions": 2}


def table(rows: int = ROWS, seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    chosen = rng.integers(2, size=rows)
    columns = {"f": rng.normal(size=rows), "action": chosen, "reward": (rng.random(rows) < 0.5).astype(float)}
    return pa.table({**columns, "p": np.full(rows, 0.5)})


def write(path: Path, what: pa.Table) -> None:
    if path.suffix == ".csv":
        pyarrow.csv.write_csv(what, path)
    else:
        pq.write_table(what, path, row_group_size=50)
    # clocks of file systems may be coarse: a later time of writing, however soon it comes
    later = path.stat().st_mtime_ns + 10**9 * next(LATER)
    os.utime(path, ns=(later, later))


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def append(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"1,0,1,0.5\n")


CHANGES: dict[str, Callable[[Path], None]] = {
    "gone": Path.unlink,
    "cut off": truncate,
    "longer": append,
    "other rows": lambda path: write(path, table(seed=1)),
    "other columns": lambda path: write(path, table().drop_columns(["f"])),
}
QUESTIONS: dict[str, Callable[[Any], Any]] = {
    "a learner": lambda stream: bc.evaluate(stream, bc.UCB1(), bc.DRns(q=0.1)),
    "a fixed policy": lambda stream: bc.evaluate(stream, bc.Fixed([0.25, 0.75]), bc.IPS()),
    "parts": lambda stream: bc.evaluate(stream, bc.UCB1(), bc.ClockReplay(), horizon=3),
    "segments": lambda stream: bc.evaluate(stream, bc.UCB1(), bc.DRns(q=0.1), horizon=5, interval=bc.Segments(3)),
}


@pytest.mark.parametrize("kind", ["parquet", "csv"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_changed_since_it_was_opened_is_not_read(tmp_path: Path, kind: str, change: str) -> None:
    for number in range(2):
        write(tmp_path / f"{number}.{kind}", table(seed=number + 5))
    stream = bc.scan_log(tmp_path, **WORDS).with_event_count()
    CHANGES[change](tmp_path / f"1.{kind}")
    for ask in QUESTIONS.values():
        with pytest.raises(bc.SourceError, match=rf"1\.{kind}: the file has (changed|vanished) since"):
            ask(stream)


def test_a_file_that_changes_while_it_is_read_gives_no_number(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    write(path, table(5_000))
    stream = bc.scan_log(path, batch_rows=100, **WORDS)
    reported: list[int] = []

    def tell(events: int) -> None:
        reported.append(events)
        if len(reported) == 10:
            write(path, table(5_000, seed=3))

    with pytest.raises(bc.SourceError, match=r"log\.parquet"):
        bc.evaluate(stream, bc.UCB1(), bc.DRns(q=0.1), progress=tell)


@pytest.fixture
def stream(tmp_path: Path) -> bc.LogStream:
    write(tmp_path / "log.parquet", table())
    return bc.scan_log(tmp_path / "log.parquet", **WORDS)


def test_a_horizon_that_parts_do_not_reach_is_refused_with_the_remedy(stream: bc.LogStream) -> None:
    with pytest.raises(bc.HorizonNotReached, match=r"cut into 10 parts of about 40, .*read_log"):
        bc.evaluate(stream, bc.UCB1(), bc.ClockReplay(fill=False), horizon=60)
    with pytest.raises(bc.HorizonNotReached, match=r"cut into 20 parts of about 20, .*pool=\.\.\."):
        bc.evaluate(stream, bc.UCB1(), bc.ClockReplay(pool=20, fill=False), horizon=60)


def test_what_parts_cannot_do_is_refused(stream: bc.LogStream) -> None:
    with pytest.raises(bc.OptionError, match=r"replicates is 60; .*parts"):
        bc.evaluate(stream, bc.UCB1(), bc.ClockReplay(), horizon=3, replicates=60)
    with pytest.raises(bc.OptionError, match="GroupJackknife is not an interval for the parts"):
        bc.evaluate(stream, bc.UCB1(), bc.ClockReplay(), horizon=3, interval=bc.GroupJackknife())
    with pytest.raises(bc.EvaluationError, match="too few for 10 parts"):
        bc.evaluate(stream.slice(0, 15), bc.UCB1(), bc.ClockReplay(), horizon=3)
    with pytest.raises(bc.OptionError, match="every part must be a Log"):
        bc.evaluate(cast(Any, [stream]), bc.UCB1(), bc.ClockReplay(), horizon=3)
    with pytest.raises(bc.EvaluationError, match="400 events are needed for warm-up"):
        bc.evaluate(stream, bc.UCB1(), bc.DRns(q=0.1, warm_up=400))


def test_some_parts_will_do(stream: bc.LogStream) -> None:
    some = bc.evaluate(stream, bc.UCB1(), bc.ClockReplay(parts=4), horizon=3)
    assert some.diagnostics.to_dict()["parts"] == 4
    assert some.diagnostics.events == 160
    assert "4 parts of a stream, 160 events together" in str(some)
    # a horizon that one part supports with ease, where none is given
    assert bc.evaluate(stream, bc.UCB1(), bc.ClockReplay(parts=4)).horizon in range(2, 20)


def test_enough_gives_the_parts_that_are_done(stream: bc.LogStream) -> None:
    reported: list[int] = []

    def tell(events: int) -> None:
        reported.append(events)
        if len(reported) == 3:
            raise bc.StopEvaluation

    result = bc.evaluate(stream, bc.UCB1(), bc.ClockReplay(), horizon=3, progress=tell)
    assert result.diagnostics.to_dict()["parts"] == 3
    assert "3 of 10 parts" in result.notes[0]


@pytest.mark.parametrize(
    ("exchangeable", "horizon", "expected"),
    [(True, 3, bc.ClockReplay()), (None, 3, bc.DRns(q=0.01)), (True, None, bc.DRns(q=0.01))],
)
def test_auto_replays_parts_where_order_means_nothing(
    stream: bc.LogStream, exchangeable: bool | None, horizon: int | None, expected: Any
) -> None:
    request = EvaluationRequest(stream, bc.UCB1(), horizon=horizon, replicates="default")
    chosen, _, (why,) = resolve_evaluator("auto", request, [bc.UCB1()], exchangeable)
    assert chosen == expected
    assert "stream" in why


def test_auto_takes_as_many_parts_as_it_can_afford(monkeypatch: pytest.MonkeyPatch) -> None:
    class Long(MemoryLogStream):
        @property
        def n_events(self) -> int:
            return 10**7

    long = Long((bc.Log(None, [0, 1], [0.0, 1.0], [0.5, 0.5]),))
    request = EvaluationRequest(long, bc.UCB1(), horizon=2_000, replicates="default")
    chosen, planned, (why, note) = resolve_evaluator("auto", request, [bc.UCB1()], True)
    assert planned.plan is not None
    assert planned.plan.parts is not None
    assert chosen == bc.ClockReplay(parts=planned.plan.parts)
    assert 20 < planned.plan.parts < 100
    assert f"{chosen.parts} of 100 to save time" in why
    assert "The time budget of 119 seconds allows" in note
    request = EvaluationRequest(long, bc.UCB1(), horizon=20_000, replicates="default", time_budget=1.0)
    chosen, _, (why,) = resolve_evaluator("auto", request, [bc.UCB1()], True)
    assert chosen == bc.DRns(q=0.00032)
    assert "too long" in why


def test_learners_on_a_stream_are_compared_one_by_one_in_log_order(stream: bc.LogStream) -> None:
    result = bc.compare(stream, {"a": bc.UCB1(), "b": bc.RoundRobin()}, horizon=5)
    assert any("one by one" in note for note in result.notes)
